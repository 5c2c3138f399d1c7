"""Lanczos with thick restarts that can be stopped, looked at and resumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.blas import daxpy, dgemv

import scalefair.linalg._base as base
from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_product,
    check_random_state,
    ignore_fp_warnings,
)
from scalefair._rounding import EPS, TINY
from scalefair.kernels import single_blas_thread
from scalefair.linalg._base import TEXTS, Array

# Inner products of basis vectors up to this size are tolerated: T is then the
# projected operator to machine precision (Simon 1984).
SEMIORTHOGONALITY = math.sqrt(EPS)


@documented(**TEXTS)
class ThickRestartLanczos:
    """Largest eigenpairs of a weighted sum of symmetric operators, step by step.

    For callers with a stopping criterion of their own, which `run` evaluates every few
    steps. The basis is kept semi-orthogonal, to 1e-8: a recurrence estimates the inner
    products, and few vectors are orthogonalised again. The Krylov space of one vector
    has one direction of each eigenspace: copies of multiple eigenvalues appear only
    through rounding errors. To look for them, run again with the eigenvectors deflated.

    Parameters
    ----------
    products : callable
        ``products(x, out)`` writes the products of a vector with each of the p
        operators into the rows of `out`, shape (p, n).
    weights : array-like of shape (p,)
        Of the operators in the sum. The products of the basis with several operators
        are stored, and rotated with it: ``8 p n ncv`` bytes.
    %(k)s
    start : array-like of shape (n,)
        First vector, not zero.
    ncv : int or None, default=None
        Vectors in the basis, at most ``n - r``, if r are deflated, and ``k + 2 <= ncv``
        if fewer; None takes ``max(40, 3 k + 10)``. ``8 n ncv`` bytes.
    kept : int or None, default=None
        Ritz vectors kept at a restart, ``k <= kept <= ncv - 2``; None takes `k` and a
        third of the others.
    deflate : array-like of shape (r, n) or None, default=None
        Orthonormal rows, ``r < n``, of an invariant subspace to leave out: `start` and
        the products are projected away from it.
    epsilon : float, default=2.2e-16
        Relative rounding errors of the products.
    random_state : int, RandomState instance or None, default=None
        For the vectors that continue from an invariant subspace.

    Attributes
    ----------
    values : ndarray of shape (size,)
        Ritz values, largest first.
    residuals : ndarray of shape (size,)
        Estimates of their residual norms.
    scale : float
        Lower bound of the spectral norm of the sum: rounding errors are relative to
        it. To be set if the deflated vectors have larger eigenvalues.
    n_products : int
        Vectors multiplied.
    n_orthogonalizations : int
        Vectors orthogonalised against the whole basis.
    n_restarts : int
        Restarts.

    Raises
    ------
    ValueError
        If an argument does not fit the others, or the norm of the sum is not zero and
        below 1e-140 or above 1e150.
    FloatingPointError
        If a product is not finite.

    References
    ----------
    Wu, Simon (2000), "Thick-restart Lanczos method for large symmetric eigenvalue
    problems". Simon (1984), "The Lanczos algorithm with partial reorthogonalization",
    equation (2.5).

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import ThickRestartLanczos
    >>> d = np.linspace(0, 1, 500) ** 2
    >>> def products(x, out):
    ...     np.multiply(d, x, out=out[0])
    >>> lanczos = ThickRestartLanczos(products, [1.0], 2, np.ones(500))
    >>> lanczos.run(lambda it: it.residuals[:2].max() <= 1e-10)
    True
    >>> bool(np.allclose(lanczos.values[:2], d[:-3:-1]))
    True
    """

    def __init__(
        self,
        products: Callable[[Array, Array], object],
        weights: ArrayLike,
        k: int,
        start: ArrayLike,
        *,
        ncv: int | None = None,
        kept: int | None = None,
        deflate: ArrayLike | None = None,
        epsilon: float = EPS,
        random_state: Any = None,
    ) -> None:
        self.products, self.k, self.epsilon = products, k, epsilon
        self.weights = np.asarray(weights, dtype=np.float64)
        v = np.array(start, dtype=np.float64)
        self._deflated = (
            np.empty((0, v.size)) if deflate is None else np.asarray(deflate)
        )
        for _ in range(2):  # the second pass removes the rounding errors of the first
            self._deflate(v)
        norm = float(np.linalg.norm(v))
        if v.ndim != 1 or not 0 < norm < math.inf:
            raise ValueError("start must be a vector, finite and not zero.")
        n, p = v.size, self.weights.size
        check_count("k", k, 1)
        self._order = n - len(self._deflated)  # largest possible basis
        self.ncv = min(self._order, max(40, 3 * k + 10) if ncv is None else ncv)
        if kept is None:
            kept = min(k + max(4, (self.ncv - k) // 3), self.ncv - 2)
        if k > self._order or not (
            self.ncv == self._order or k <= kept <= self.ncv - 2
        ):
            raise ValueError(
                f"k = {k} pairs of order {self._order} need k <= kept <= ncv - 2, or "
                f"all vectors in the basis, got kept = {kept} and ncv = {self.ncv}."
            )
        self.kept = kept
        self.scale = 0.0
        self.n_products = self.n_orthogonalizations = self.n_restarts = 0
        self.values = self.residuals = np.empty(0)
        self._rng = check_random_state(random_state)
        # Basis vectors are rows of V; T = V A V' is tridiagonal but for the Ritz
        # values kept at a restart and their coupling with the vector that follows.
        # Invariant (the Lanczos relation), for the first j = `_size` rows of V, the
        # row v_j = V[j] after them, beta = T[j, j-1] and the last unit vector e:
        #     A V' = V' T[:j, :j] + beta v_j e'.
        # So the residual of a Ritz vector V' s is beta |e's|, without another product.
        # V has one more row than `ncv`, for the vector behind a full basis.
        self._V = np.empty((self.ncv + 1, n))
        self._V[0] = v / norm
        self._T = np.zeros((self.ncv + 1, self.ncv + 1))
        self._S = np.empty((0, 0))  # eigenvectors of T, as columns
        # Shape (p, size, n) for several operators. For one, a row of working memory:
        # the residuals follow from T, and nobody asks for the products.
        self._stored = np.empty((p, self.ncv if p > 1 else 1, n))
        self._size = self._n_kept = 0
        # Estimated inner products of the basis with its last vector and the one before;
        # that of a vector with itself is 1.
        self._omega, self._previous_omega = np.zeros((2, self.ncv + 1))
        self._omega[0] = 1.0
        self._reorthogonalize_next = False

    @property
    def basis(self) -> Array:
        """Orthonormal basis, to 1e-8, as rows; a view."""
        return self._V[: self._size]

    @property
    def basis_products(self) -> Array:
        """Products of the basis with several operators, (p, size, n); a view."""
        if len(self.weights) == 1:
            raise ValueError("Products with a single operator are not stored.")
        return self._stored[:, : self._size]

    @property
    def error(self) -> float:
        """Estimated error of the sum of the k largest values, once it is settled."""
        k = self.k
        if self._size == self._order:
            return 0.0
        if self._size <= k:
            return math.inf
        # A Ritz value errs by residual**2 / gap at most (Kato, Temple), with the gap to
        # the rest of the spectrum. The next Ritz value stands for that rest.
        # Of each value: residual**2 / gap, and never more than the residual.
        residuals = self.residuals[:k]
        gaps = np.maximum(self.values[:k] - self.values[k], TINY)
        return float(np.minimum(residuals * (residuals / gaps), residuals).sum())

    def growth(self, value: float) -> float:
        """Growth of the newest vector's component along an eigenvector.

        Parameters
        ----------
        value : float
            Its eigenvalue, above all Ritz values.

        Returns
        -------
        float
            The component, divided by that of the start, or of the first vector after
            the last restart. No component exceeds 1: that of the start was at most the
            reciprocal. For larger eigenvalues the growth is larger.
        """
        # The components c_i of the basis vectors v_i along an eigenvector satisfy
        #     (value I - T) c = beta c_j e,
        # the product of the Lanczos relation with it. So c_first / c_j is entry
        # (first, last) of (value I - T)^-1, times the coupling beta behind the basis.
        # The Ritz pairs diagonalise T.
        j = self._size
        terms = self._S[self._n_kept] * self._S[j - 1] / (value - self.values)
        reciprocal = abs(self._T[j, j - 1] * terms.sum())
        return 1 / reciprocal if reciprocal > 0 else math.inf

    def leading(self, k: int) -> Array:
        """Return the k largest Ritz vectors.

        Parameters
        ----------
        k : int
            Their number, at most the size of the basis.

        Returns
        -------
        ndarray of shape (k, n)
            Orthonormal to rounding, as rows.
        """
        return self._ritz_coefficients(k) @ self.basis

    def leading_products(self, k: int) -> Array:
        """Return the products of the k largest Ritz vectors with several operators.

        Parameters
        ----------
        k : int
            Their number, at most the size of the basis.

        Returns
        -------
        ndarray of shape (p, k, n)
            Linear combinations of those that are stored.
        """
        Y = self._ritz_coefficients(k)
        return np.stack([Y @ products for products in self.basis_products])

    @single_blas_thread()
    def run(
        self,
        done: Callable[[ThickRestartLanczos], bool],
        *,
        chunk: int = 8,
        max_products: float = math.inf,
    ) -> bool:
        """Continue, from where the last run stopped, until a criterion is met.

        Parameters
        ----------
        done : callable
            Gets this object, with new Ritz pairs, and returns whether to stop.
        chunk : int, default=8
            Steps between two calls of `done`, each after a small eigenproblem.
        max_products : float, default=inf
            Most vectors multiplied in all runs together, up to a chunk.

        Returns
        -------
        bool
            Whether the criterion is met: if not, the products are spent, or the basis
            fills the space and the pairs are exact.
        """
        check_count("chunk", chunk, 1)
        # 1. The end: the criterion holds, the space is exhausted, or the products are
        #    spent. In the first call there are no Ritz pairs to look at yet.
        while not (self.values.size and done(self)):
            if self._size == self._order or self.n_products >= max_products:
                return False
            # 2. A full basis is shrunk before it grows again.
            if self._size == self.ncv:
                self._restart()
            # 3. A chunk of steps, each with one product. The criterion needs k pairs
            #    and two vectors more at the least.
            stop = min(self.ncv, max(self._size + chunk, self.k + 2))
            with ignore_fp_warnings():  # by the norm of each new vector
                while self._size < stop:
                    self._step()
            # 4. The eigenproblem of T: O(size^3), so not after every step.
            self._solve()
        return True

    def _step(self) -> None:
        """Multiply the last vector of the basis, and append the next."""
        j, T, V = self._size, self._T, self._V
        n = V.shape[1]
        # 1. w = A v_j
        w = self._multiply(j)
        # 2. Three-term recurrence: w -= T[j, j-1] v_{j-1} + alpha v_j. The first
        #    vector after a restart is coupled with all that were kept.
        previous = T[j, j - 1] if j > 0 else 0.0
        after_restart = j == self._n_kept > 0
        # Only alpha and beta are new after a restart: the other coefficients are
        # in T already, as the coupling of the vectors that were kept.
        if after_restart:
            coefficients, beta = self._orthogonalize(w, j + 1)
            alpha = coefficients[j]
        else:
            if j > 0:
                w = daxpy(V[j - 1], w, a=-previous)
            alpha = float(V[j] @ w)
            w = daxpy(V[j], w, a=-alpha)
            # Only now: rounding errors along the deflated vectors, whose eigenvalue is
            # 0 here, would grow with alpha, and hide smaller eigenvalues.
            self._deflate(w)
            beta = math.sqrt(w @ w)
        if not math.isfinite(beta):
            check_product(w)
        T[j, j] = alpha
        self.scale = max(self.scale, math.hypot(previous, alpha, beta))
        base.check_scale(self.scale)
        # 3. Orthogonalise w and the vector after it once omega, the estimate of
        #    V w / beta, shows that semi-orthogonality is lost: two consecutive
        #    vectors, or the recurrence brings the loss back.
        #    Flops: 4 n (j + 1) for a pass, some 8 n for step 2, 2 j^2 for the estimate.
        rounding = self.epsilon * math.sqrt(n) * self.scale
        if after_restart:
            omega, self._reorthogonalize_next = np.full(j + 1, EPS), True
        else:
            omega = self._estimate_omega(j, alpha, previous, beta, rounding)
            lost = np.abs(omega).max() > SEMIORTHOGONALITY
            if lost or self._reorthogonalize_next:
                _, beta = self._orthogonalize(w, j + 1)
                omega[:] = EPS
            self._reorthogonalize_next = lost
        # 4. v_{j+1} = w / beta; a random vector if the basis spans an invariant
        #    subspace.
        if beta <= rounding:
            beta = 0.0
            if j + 1 < self._order:
                w = self._rng.standard_normal(n)
                _, norm = self._orthogonalize(w, j + 1)
                V[j + 1] = w / norm
                omega[:] = EPS
        else:
            np.multiply(w, 1 / beta, out=V[j + 1])
        # 5. Append. beta = 0 decouples T: its blocks are those of two Krylov spaces.
        T[j + 1, j] = T[j, j + 1] = beta
        self._previous_omega, self._omega = self._omega, self._previous_omega
        self._omega[: j + 1], self._omega[j + 1] = omega, 1.0
        self._size += 1

    def _multiply(self, j: int) -> Array:
        """Product of the weighted sum with a basis vector."""
        # Products with a single operator are not stored.
        out = self._stored[:, j if len(self.weights) > 1 else 0]
        self.products(self._V[j], out)
        w: Array = self.weights @ out
        self.n_products += 1
        return w

    def _deflate(self, w: Array) -> None:
        """Project away from the deflated vectors, in place."""
        # w -= D' (D w), with D of shape (r, n): 4 n r flops.
        if len(self._deflated):
            w -= (self._deflated @ w) @ self._deflated

    def _estimate_omega(
        self, j: int, alpha: float, previous: float, beta: float, rounding: float
    ) -> Array:
        """Inner products of ``w / beta`` with the basis: Simon's recurrence (2.5)."""
        # With a_i and b_i on and beside the diagonal of T, and w_i for w_{j,i},
        #     beta w_{j+1,i} = b_{i+1} w_{i+1} + (a_i - alpha) w_i + b_i w_{i-1}
        #                      - previous w_{j-1,i} + rounding.
        # The first row of terms is T @ omega, less alpha omega. This holds for the kept
        # Ritz vectors, too, whose rows of T are the diagonal and the coupling.
        omega = np.empty(j + 1)
        if beta * SEMIORTHOGONALITY <= rounding:
            omega[:] = 1.0  # w is mostly rounding errors
            return omega
        s = self._T[:j, : j + 1] @ self._omega[: j + 1]
        s -= alpha * self._omega[:j] + previous * self._previous_omega[:j]
        # Rounding errors are added with the sign that makes the estimate larger.
        s += np.copysign(self.epsilon * self.scale, s)
        omega[:j] = s / beta
        # The last vector was subtracted just now: only local rounding errors are left.
        omega[j] = rounding / beta
        return omega

    def _orthogonalize(self, w: Array, size: int) -> tuple[Array, float]:
        """Orthogonalise `w` in place; return its coefficients in V and its norm."""
        V = self._V[:size]
        self.n_orthogonalizations += 1
        coefficients = np.zeros(size)
        for _ in range(4):  # classical Gram-Schmidt: two passes, as a rule
            # The deflated vectors first: w has rounding errors along them, too.
            self._deflate(w)
            h = V @ w
            dgemv(-1.0, V.T, h, 1.0, w, overwrite_y=True)
            coefficients += h
            norm = math.sqrt(w @ w)
            # V is semi-orthogonal: a pass leaves 1e-8 of what it removes.
            if math.sqrt(h @ h) <= 1e-6 * norm:
                break
        return coefficients, norm

    def _solve(self) -> None:
        """Ritz values, largest first, and the residual norms that T implies."""
        j = self._size
        self.values, self._S = base.eigh_descending(self._T[:j, :j])
        self.residuals = np.abs(self._T[j, j - 1] * self._S[j - 1])
        self.scale = max(self.scale, float(np.abs(self.values).max()))

    def _ritz_coefficients(self, k: int, n_more: int = 0) -> Array:
        """Rows of coefficients of k Ritz vectors, and of `n_more` vectors behind V."""
        # T is the matrix of the operator in the basis V' L^-T that Gram-Schmidt makes
        # of V. Without the factor L, errors of 1e-8 would grow from restart to restart.
        # With V V' = L L', the rows of L^-1 V are orthonormal. Coefficients S in them
        # are the coefficients L^-T S in V. V V' costs 2 n j^2 flops.
        j = self._size + n_more
        V = self._V[:j]
        S = np.zeros((j, k + n_more))
        S[: self._size, :k] = self._S[:, :k]
        S[self._size :, k:] = np.eye(n_more)
        L = np.linalg.cholesky(V @ V.T)
        Y: Array = solve_triangular(L, S, trans=1, lower=True).T
        return np.ascontiguousarray(Y)

    def _restart(self) -> None:
        """Shrink the basis to the leading Ritz vectors and the last vector."""
        k, j = self.kept, self._size
        coupling = self._T[j, j - 1] * self._S[j - 1, :k]
        Y = self._ritz_coefficients(k, 1)
        _rotate_rows(self._V, Y)
        if len(self.weights) > 1:
            for products in self._stored:
                _rotate_rows(products, Y[:k, :j])
        # The kept Ritz vectors u_i have A u_i = value_i u_i + coupling_i v, with v the
        # vector behind the basis, now V[k].
        # T becomes diag(values) with the coupling as its last row and column.
        self._T[:] = 0
        np.fill_diagonal(self._T[:k, :k], self.values[:k])
        self._T[k, :k] = self._T[:k, k] = coupling
        self._size = self._n_kept = k
        self._omega[:k], self._omega[k] = EPS, 1.0
        self.n_restarts += 1


def _rotate_rows(rows: Array, Y: Array) -> None:
    """Replace the first ``len(Y)`` rows by the linear combinations `Y`."""
    # Y of shape (new, old), new <= old. In place: a slab of columns is multiplied into
    # a small block and copied back, so that no second basis is allocated.
    new, old = Y.shape
    step = 4096  # columns that stay in the cache
    for start in range(0, rows.shape[1], step):
        columns = slice(start, start + step)
        rows[:new, columns] = Y @ rows[:old, columns]
