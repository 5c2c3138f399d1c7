"""Chebyshev-filtered subspace iteration, and the bounds on a spectrum it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_random_state,
    checked_product,
    random_generator,
    real_type,
)
from scalefair._rounding import ROUNDING, TINY
from scalefair.linalg._base import (
    TEXTS,
    Array,
    BlockIteration,
    Eigenpairs,
    EigenResult,
    orthonormalize,
)
from scalefair.operators._base import apply_block

# Degree of the filter of random vectors: enough to separate the spectrum's ends.
INITIAL_DEGREE = 8
# Sweeps without progress (1 %) before the iteration stops.
MAX_STALLED_SWEEPS = 8


class SpectralBounds(NamedTuple):
    """Bounds on a spectrum, and a coarse density between them.

    Attributes
    ----------
    lower, upper : float
        Extreme Ritz value minus or plus its residual norm. Eigenvalues may lie outside,
        as a rule by a few per cent of the width.
    nodes, weights : ndarray
        About the fraction ``weights[j]`` of the eigenvalues lies near ``nodes[j]``.
    """

    lower: float
    upper: float
    nodes: Array
    weights: Array


@documented(**TEXTS)
def spectral_bounds(
    A: Any, *, n_steps: int = 12, random_state: Any = None
) -> SpectralBounds:
    """Bound the spectrum of a symmetric operator by Lanczos from a random vector.

    Parameters
    ----------
    %(A)s
    n_steps : int, default=12
        Lanczos steps, one product each.
    %(random_state)s

    Returns
    -------
    SpectralBounds
        Lower and upper bound, quadrature nodes and weights.

    %(raises)s

    References
    ----------
    Zhou, Li (2011), "Bounding the spectrum of large Hermitian matrices". Lin, Saad,
    Yang (2016), "Approximating spectral densities of large matrices".

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import spectral_bounds
    >>> A = np.diag(np.linspace(-1, 1, 50))
    >>> bounds = spectral_bounds(A, n_steps=20, random_state=0)
    >>> round(bounds.lower, 1), round(bounds.upper, 1)
    (-1.0, 1.0)
    """
    operator: LinearOperator = base.as_symmetric_operator(A, 1)
    check_count("n_steps", n_steps, 1)
    n = operator.shape[0]
    rng = check_random_state(random_state)
    v = rng.standard_normal(n)
    basis = [v / np.linalg.norm(v)]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(min(n_steps, n)):
        # w = A q_j, orthogonal to the basis: a column of the tridiagonal matrix, which
        # is that of A in the orthonormal basis.
        w = checked_product(operator, basis[-1])
        base.check_scale(float(np.abs(w).max()))
        diagonal.append(float(basis[-1] @ w))
        # Full orthogonalisation of a dozen vectors. Twice: a spectrum far from 0 leaves
        # a short w, with rounding errors that would grow from step to step.
        for q in 2 * basis:
            w -= (q @ w) * q
        off_diagonal.append(float(np.linalg.norm(w)))
        if off_diagonal[-1] <= ROUNDING * max(map(abs, diagonal)):
            break  # invariant subspace: the Ritz values are eigenvalues
        basis.append(w / off_diagonal[-1])
    # Gauss quadrature: Ritz values, and squared first entries of their eigenvectors.
    # It is the rule of the measure that the random vector puts on the spectrum: about
    # the density of the eigenvalues, as its squared components are alike on average.
    nodes, S = eigh_tridiagonal(np.array(diagonal), np.array(off_diagonal[:-1]))
    # Residual norm of each Ritz pair: the last off-diagonal times the last entry. An
    # eigenvalue lies within it of the Ritz value.
    errors = off_diagonal[-1] * np.abs(S[-1])
    return SpectralBounds(
        float(nodes[0] - errors[0]), float(nodes[-1] + errors[-1]), nodes, S[0] ** 2
    )


@documented(**TEXTS)
@kernels.single_blas_thread()
def chebyshev(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int = 100,
    max_degree: int = 40,
    n_buffer: int | None = None,
    X0: ArrayLike | None = None,
    orthogonal_to: ArrayLike | None = None,
    bounds: SpectralBounds | None = None,
    random_state: Any = None,
    callback: Callable[[int, float], object] | None = None,
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by filtered subspace iteration.

    A block of ``k + n_buffer`` vectors is multiplied by a Chebyshev polynomial of the
    operator that is small on the unwanted part of the spectrum, then rotated to Ritz
    vectors; converged leading ones are locked. About ``16 n (k + n_buffer) + 8 n k``
    bytes in float64.

    Parameters
    ----------
    %(A)s
        Iterated in float32 if it is; orders up to ``2 (k + n_buffer)`` solved densely.
    %(k)s
    %(tol)s
        In float32 little below 1e-5 is reached.
    max_iter : int, default=100
        Most filter sweeps.
    max_degree : int, default=40
        Cap on the degree of a filter.
    %(n_buffer)s
    %(X0)s
        With ``p >= k`` they are tested for convergence before any filtering.
    %(orthogonal_to)s
    %(bounds)s
    %(random_state)s
    %(callback)s

    Returns
    -------
    EigenResult
        `n_iter` counts filter sweeps.

    %(raises)s

    References
    ----------
    Zhou, Saad, Tiago, Chelikowsky (2006), "Self-consistent-field calculations using
    Chebyshev-filtered subspace iteration", Journal of Computational Physics 219.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import chebyshev
    >>> A = sparse.diags_array(np.arange(200.0))
    >>> chebyshev(A, 2, tol=1e-8, random_state=0).values.round(6)
    array([199., 198.])
    """
    operator, start, deflated = base.as_problem(A, k, X0, orthogonal_to)
    n_buffer = base.buffer_size(n_buffer, k)
    check_count("max_iter", max_iter, 1)
    check_count("max_degree", max_degree, 1)
    if operator.shape[0] - deflated.shape[1] <= 2 * (k + n_buffer):
        return base.dense_eigh(operator, k, orthogonal_to=deflated)
    rng = check_random_state(random_state)
    if bounds is None:
        bounds = spectral_bounds(operator, random_state=rng)
    # Each sweep costs `degree` products of the active block and one for Rayleigh-Ritz.
    iteration = _FilteredSubspace(operator, k, k + n_buffer, tol, bounds)
    iteration.start(start, deflated, rng)
    # A start of k vectors or more is measured before it is filtered.
    is_start = start.shape[1] >= k
    degree = 0 if is_start else min(iteration.initial_degree(), max_degree)
    best, n_stalled, n_iter = math.inf, 0, 0
    while True:
        # 1. Filter the active block.
        if degree:
            iteration.filter(degree)
            n_iter += 1
        # 2. Rotate it to Ritz vectors and measure their residuals.
        iteration.rayleigh_ritz()
        n_converged, residual = iteration.progress()
        if callback is not None:
            callback(n_converged, residual)
        n_stalled = 0 if residual < 0.99 * best else n_stalled + 1
        best = min(best, residual)
        if n_converged == k or n_iter >= max_iter or n_stalled >= MAX_STALLED_SWEEPS:
            break
        if is_start:  # not accurate enough: add random vectors and go on
            is_start = False
            iteration.widen()
            continue
        # 3. Lock converged leading vectors. Their errors bound the accuracy of the
        #    others: where progress stalls, all become active again.
        if n_stalled == 2:
            iteration.unlock()
        else:
            iteration.lock()
        # 4. Move the cut and choose the degree of the next filter.
        iteration.move_cut()
        # At most doubled, above 16: the prediction is only as good as the Ritz values.
        degree = min(iteration.next_degree(), max_degree, max(2 * degree, 16))
    message = base.stop_message(
        n_iter,
        max_iter,
        residual,
        n_converged == k,
        steps="filter sweeps",
        stagnation_remedy=" or use float64" if iteration.dtype == np.float32 else "",
    )
    return iteration.result_of(iteration.pairs(), n_iter, n_converged == k, message)


class _FilteredSubspace(BlockIteration):
    """Locked and active Ritz vectors, and the interval that the filter damps.

    Invariants: `X`, the active block, is orthonormal, and orthogonal to `fixed`: the
    deflated vectors, then `n_locked` locked ones. `values` and `residuals` are those of
    the locked vectors, then of the active ones. The filter is small on [lower, cut].
    """

    def __init__(
        self, A: LinearOperator, k: int, m: int, tol: float, bounds: SpectralBounds
    ) -> None:
        """Empty block of at most `m` vectors for `k` pairs, and the first cut."""
        super().__init__(A)
        self.n = A.shape[0]
        self.k, self.m = k, m
        self.dtype: np.dtype[Any] = np.dtype(real_type(A.dtype))
        self.epsilon = float(np.finfo(self.dtype).eps)
        self.lower, self.upper = bounds.lower, bounds.upper
        # Ritz values bound the norm from below: the test is rather too strict.
        self.scale = float(np.abs(bounds.nodes).max()) or 1.0  # 0: zero operator
        base.check_scale(self.scale)
        self.tol = tol * self.scale
        # Some ten times the wanted part of the spectrum lies above the cut: a cut too
        # low weakens one filter, a cut too high misses eigenvalues in all.
        # Entry j: estimated fraction of the eigenvalues at and above node j.
        above = np.cumsum(bounds.weights[::-1])[::-1]
        j = int(np.flatnonzero(above >= min(10 * m / self.n, 0.5)).max(initial=0))
        # A multiple of the identity has an interval of no width.
        width = max(1e-3 * (self.upper - self.lower), 1e-6 * self.scale)
        self.cut = max(float(bounds.nodes[j]), self.lower + width)
        # X and Y, (n, active), swap their parts in the filter; fixed, (n, r + locked).
        self.X = self.Y = self.fixed = np.empty((self.n, 0), self.dtype)
        self.values = self.residuals = np.empty(0)
        self.n_locked = 0
        self.n_products = self.n_columns = len(bounds.nodes)

    def start(self, X0: Array, deflated: Array, rng: np.random.RandomState) -> None:
        """Fill the block with the starting vectors; with random ones if too few."""
        self.rng = rng
        self.n_deflated = deflated.shape[1]
        self.fixed = np.ascontiguousarray(deflated, dtype=self.dtype)
        self._set_active(X0[:, : self.m].astype(self.dtype))
        if self.X.shape[1] < self.k:
            self.widen()

    def widen(self) -> None:
        """Fill the block up to `m` columns with random ones, orthogonal to `fixed`."""
        p = self.X.shape[1]
        X = np.empty((self.n, self.m), self.dtype)
        X[:, p:] = random_generator(self.rng).standard_normal(
            (self.n, self.m - p), dtype=self.dtype
        )
        X[:, :p] = self.X
        self._set_active(X)
        kernels.block_subtract(X, self.fixed, kernels.block_gram(self.fixed, X))

    def initial_degree(self) -> int:
        """Degree for random vectors; lower if the top would hide the others."""
        # The polynomial multiplies the top by about exp(degree growth) / 2, which must
        # not exceed 1 / epsilon: then nothing but the top would be left of any vector.
        growth = self._log_growth(np.array([self.upper]))[0]
        return int(np.clip(-math.log(self.epsilon) / growth, 2, INITIAL_DEGREE))

    def filter(self, degree: int) -> None:
        """Multiply the active block by the scaled Chebyshev polynomial."""
        half_width = (self.cut - self.lower) / 2
        center = (self.cut + self.lower) / 2
        top = max(self.upper, self.cut + 1e-3 * half_width)
        sigma_1 = sigma = half_width / (top - center)  # scaled to 1 at the top
        X, Y = self.X, self.Y
        # Y = sigma_1 (A - c I) X / e, with center c and half width e.
        # With x = (value - c) / e the filter of degree i is T_i(x) / T_i(1 / sigma_1),
        # T_i being the Chebyshev polynomial: it is 1 at the top, and never overflows.
        apply_block(self.operator, X, Y, alpha=sigma_1 / half_width, shift=center)
        for _ in range(1, degree):
            # Y holds degree i, X degree i - 1, and sigma the ratio of their scales:
            # X_{i+1} = 2 sigma_{i+1} (A - c I) X_i / e - sigma_i sigma_{i+1} X_{i-1}
            sigma_new = 1 / (2 / sigma_1 - sigma)
            alpha, beta = 2 * sigma_new / half_width, -sigma * sigma_new
            apply_block(self.operator, Y, X, alpha=alpha, shift=center, beta=beta)
            X, Y, sigma = Y, X, sigma_new
        # The last product went to the block that is now called Y.
        self.X, self.Y = Y, X
        self.n_products += degree
        self.n_columns += degree * X.shape[1]

    def rayleigh_ritz(self) -> None:
        """Rotate the active block to Ritz vectors; measure their residuals."""
        self.X = orthonormalize(self.X, against=self.fixed, rng=self.rng)
        apply_block(self.operator, self.X, self.Y)
        self.count(self.X.shape[1])
        values, residuals = base.rotate_to_ritz(self.X, self.Y)
        self.values = np.append(self.values[: self.n_locked], values)
        self.residuals = np.append(self.residuals[: self.n_locked], residuals)
        # A Ritz value below the interval shows that the estimated bound was too high:
        # the filter would enlarge what lies below it.
        self.lower = min(self.lower, float(values[-1]))

    def largest(self) -> NDArray[np.intp]:
        """Return the indices of the k largest values among all pairs."""
        return np.argsort(-self.values, kind="stable")[: self.k]

    def progress(self) -> tuple[int, float]:
        """Converged pairs among the k largest, and their largest residual."""
        residuals = self.residuals[self.largest()]
        return int((residuals <= self.tol).sum()), float(residuals.max())

    def lock(self) -> None:
        """Move the leading active vectors that have converged to the locked ones."""
        residuals = self.residuals[self.n_locked : max(self.k, self.n_locked)]
        # Those before the first that has not converged.
        count = int(np.argmin(np.append(residuals <= self.tol, False)))
        if count == 0:
            return
        fixed = np.hstack([self.fixed, self.X[:, :count]])
        self.fixed = np.ascontiguousarray(fixed)
        self.n_locked += count
        # Reuse the memory of X and Y: fresh pages cost as much as a product.
        remaining = self.X[:, count:]
        X, Y = (
            Z.reshape(-1)[: remaining.size].reshape(remaining.shape)
            for Z in (self.Y, self.X)
        )
        X[:] = remaining
        self.X, self.Y = X, Y

    def unlock(self) -> None:
        """Make all locked vectors active again."""
        self._set_active(np.hstack([self.fixed[:, self.n_deflated :], self.X]))
        self.fixed = np.ascontiguousarray(self.fixed[:, : self.n_deflated])
        self.n_locked = 0

    def move_cut(self) -> None:
        """Move the end of the damped interval to the smallest Ritz value."""
        # The cut goes below the buffer, to the smallest Ritz value of the block. The
        # filter enlarges a wanted vector more, the farther its value lies above the
        # cut.
        last = max(self.k, self.n_locked + 1) - 1  # index of the last wanted one
        value, end = float(self.values[last]), float(self.values[-1])
        # Values closer than their errors are one multiple eigenvalue: the cut stays.
        largest_residual = float(self.residuals[self.n_locked : last + 1].max())
        is_distinct = value - end > 1e-2 * largest_residual
        # A last residual far above that distance: the last vector is a copy of a wanted
        # one, mixed with eigenvectors whose values lie about `depth` below.
        distance = max(value - end, TINY)
        depth = float(self.residuals[-1]) ** 2 / distance
        if depth > 100 * distance and self.cut < value:
            self.cut = max(self.cut, value - depth / 2)
        elif is_distinct or not self.cut < value:
            # Values within the tolerance of a wanted one need no damping.
            self.cut = min(end, value - self.tol)
        self.cut = max(self.cut, self.lower + 1e-6 * self.scale)

    def next_degree(self) -> int:
        """Degree after which the residuals of the wanted pairs meet the tolerance."""
        leading = slice(self.n_locked, max(self.k, self.n_locked + 1))
        residuals = self.residuals[leading]
        growth = self._log_growth(self.values[leading])
        # 1. exp(degree * growth) / 2 has to exceed residual / (0.3 tol): a sweep that
        #    just misses the tolerance costs another Rayleigh-Ritz step, worth three
        #    products.
        reduction = np.maximum(2 * residuals / (0.3 * self.tol), 1.0)
        degree = (np.log(reduction) / growth)[residuals > self.tol].max(initial=3.0)
        # 2. Rounding errors must not hide the last wanted vector. Each vector holds
        #    about residual / scale of every other eigenvector. The filter enlarges the
        #    component of the largest ones most, and rounding errors with it: they may
        #    grow to 1e-4 of the last wanted vector.
        excess = np.maximum(self._log_growth(self.values) - growth[-1], ROUNDING)
        components = np.maximum(self.residuals / self.scale, self.epsilon)
        max_ratio = np.maximum(1e-4 / (self.epsilon * components), 1.0)
        max_degree = (np.log(max_ratio) / excess).min()
        return int(max(min(degree, max_degree), 3.0))

    def _log_growth(self, values: Array) -> Array:
        """Logarithm of the filter's growth per degree at eigenvalues above the cut."""
        half_width = (self.cut - self.lower) / 2
        scaled = (values - (self.cut + self.lower) / 2) / half_width
        # T_d(x) = cosh(d arccosh x) for x >= 1, where [-1, 1] is the damped interval.
        growth: Array = np.arccosh(np.maximum(scaled, 1 + ROUNDING))
        return growth

    def pairs(self) -> Eigenpairs:
        """Return the k largest pairs."""
        # Indices count the locked vectors first: column i of the pairs is column
        # n_deflated + i of `fixed`, or i - n_locked of X.
        indices, vectors = self.largest(), np.empty((self.n, self.k))
        is_locked = indices < self.n_locked
        locked, active = indices[is_locked], indices[~is_locked] - self.n_locked
        vectors[:, is_locked] = self.fixed.take(self.n_deflated + locked, axis=1)
        vectors[:, ~is_locked] = self.X.take(active, axis=1)
        return self.values[indices], vectors, self.residuals[indices]

    def _set_active(self, X: np.ndarray) -> None:
        """Take the columns of X as active block, with new memory for the products."""
        self.X = np.ascontiguousarray(X)
        self.Y = np.empty_like(self.X)
