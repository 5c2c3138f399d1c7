"""Locally optimal block preconditioned conjugate gradients (LOBPCG)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_product,
    check_random_state,
    random_generator,
)
from scalefair._rounding import EPS, TINY
from scalefair.linalg._base import (
    TEXTS,
    Array,
    BlockIteration,
    Eigenpairs,
    EigenResult,
    orthonormalize,
)
from scalefair.operators._base import apply_block

# Iterations without progress (1 %) before the search directions are dropped.
STALLED_RESTART = 15
# Iterations without progress before the iteration stops.
MAX_STALLED = 40


@documented(**TEXTS)
@kernels.single_blas_thread()
def lobpcg(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    preconditioner: Any = None,
    n_buffer: int | None = None,
    X0: ArrayLike | None = None,
    orthogonal_to: ArrayLike | None = None,
    random_state: Any = None,
    callback: Callable[[int, float], object] | None = None,
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by preconditioned search directions.

    Each iteration takes the best vectors in the span of the iterates, their
    preconditioned residuals and the directions of the last step. With a multigrid
    preconditioner ten to twenty iterations do even where eigenvalues lie close
    together, as on meshes. Always in float64; about ``92 n (k + n_buffer)`` bytes.

    Parameters
    ----------
    %(A)s
        Orders up to ``4 (k + n_buffer)`` are solved densely.
    %(k)s
    %(tol)s
    max_iter : int, default=500
        Most iterations.
    preconditioner : LinearOperator, sparse matrix, ndarray or None, default=None
        Symmetric positive definite approximation to the inverse of ``c I - A``, with c
        at or above the largest eigenvalue: for the normalised affinity an
        `AMGPreconditioner` of the normalised Laplacian.
    %(n_buffer)s
    %(X0)s
        The random ones are smoothed by the preconditioner.
    %(orthogonal_to)s
    %(random_state)s
    %(callback)s

    Returns
    -------
    EigenResult
        `n_iter` counts iterations.

    %(raises)s

    References
    ----------
    Knyazev (2001), "Toward the optimal preconditioned eigensolver". Hetmaniuk, Lehoucq
    (2006), "Basis selection in LOBPCG". Duersch, Shao, Yang, Gu (2018), "A robust and
    efficient implementation of LOBPCG".

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import lobpcg
    >>> A = sparse.diags_array(np.arange(200.0))
    >>> T = sparse.diags_array(1 / (200 - np.arange(200.0)))
    >>> result = lobpcg(A, 2, tol=1e-8, preconditioner=T, random_state=0)
    >>> result.values.round(6)
    array([199., 198.])
    """
    operator, start, deflated = base.as_problem(A, k, X0, orthogonal_to)
    n = operator.shape[0]
    T = None if preconditioner is None else aslinearoperator(preconditioner)
    if T is not None and T.shape != (n, n):
        raise ValueError(
            f"The preconditioner must have shape ({n}, {n}), got {T.shape}."
        )
    n_buffer = base.buffer_size(n_buffer, k)
    check_count("max_iter", max_iter, 0)
    if n - deflated.shape[1] <= 4 * (k + n_buffer):
        return base.dense_eigh(operator, k, orthogonal_to=deflated)
    rng = check_random_state(random_state)
    # 1. Random vectors, or those of the caller, as the first X; P is empty.
    iteration = _SearchSubspace(operator, T, k, k + n_buffer, tol)
    iteration.start(start, deflated, rng)
    best, n_stalled, n_iter = math.inf, 0, 0
    # 2. Iterate until the k leading pairs have converged. The buffer beyond k makes the
    #    gap that rules the convergence wider; its pairs need not converge.
    # Invariant: X holds Ritz vectors of the basis [X, P], with image A [X, P].
    while True:
        n_converged, residual = iteration.progress()
        # Residuals are updated, not measured: measure them before they are believed.
        if n_converged == k and not iteration.measured:
            iteration.restart()
            n_converged, residual = iteration.progress()
        if callback is not None:
            callback(n_converged, residual)
        n_stalled = 0 if residual < 0.99 * best else n_stalled + 1
        best = min(best, residual)
        if n_converged == k or n_iter >= max_iter or n_stalled >= MAX_STALLED:
            break
        # A restart forms the image anew, so that the rounding errors of the linear
        # combinations go, and begins with fresh directions.
        if n_stalled and n_stalled % STALLED_RESTART == 0:
            iteration.restart()
        iteration.step()
        n_iter += 1
    message = base.stop_message(
        n_iter,
        max_iter,
        residual,
        n_converged == k,
        steps="iterations",
        limit_remedy=", or use a better preconditioner",
        stagnation_remedy=", or check that operator and preconditioner are symmetric",
    )
    return iteration.result_of(iteration.pairs(), n_iter, n_converged == k, message)


class _SearchSubspace(BlockIteration):
    """Orthonormal basis [X, P] of Ritz vectors and last directions, with its image."""

    def __init__(
        self, A: LinearOperator, T: LinearOperator | None, k: int, m: int, tol: float
    ) -> None:
        """Empty basis of `m` vectors, of which `k` are wanted; `T` preconditions."""
        super().__init__(A)
        self.T, self.n = T, A.shape[0]
        self.k, self.m, self.tol = k, m, tol
        # Updated with every basis: its image under A, residuals and Ritz values of X,
        # the matrix of A in the basis, and whether the image is a direct product.
        # Shapes, with p <= m directions: basis and image (n, m + p), residuals (n, m),
        # projected (m + p, m + p), values and residual_norms (m,).
        self.basis = self.image = self.residuals = np.empty((self.n, 0))
        self.values = self.residual_norms = np.empty(0)
        self.projected = np.empty((0, 0))
        self.measured = False

    def start(self, X0: Array, deflated: Array, rng: np.random.RandomState) -> None:
        """Begin with `X0` and random vectors, which the preconditioner smooths."""
        self.deflated, self.rng = deflated, rng
        p = min(X0.shape[1], self.m)
        X = random_generator(self.rng).standard_normal((self.n, self.m))
        if p < self.m:
            X = self._precondition(X)
        X[:, :p] = X0[:, :p]
        self._set_basis(X)

    def restart(self) -> None:
        """Drop the search directions; measure the Ritz pairs."""
        self._set_basis(np.ascontiguousarray(self.basis[:, : self.m]))

    def progress(self) -> tuple[int, float]:
        """Converged pairs among the k largest, and their largest residual."""
        residuals = self.residual_norms[: self.k]
        return int((residuals <= self.tol * self.scale).sum()), float(residuals.max())

    def step(self) -> None:
        """Rayleigh-Ritz in the span of X, P and the preconditioned residuals."""
        m = self.m
        # 1. W = T R for the residuals R that have not converged, orthonormal and
        #    orthogonal to [X, P]. Soft locking (Knyazev et al. 2007): converged vectors
        #    stay in X, where later steps improve them, but get no search directions.
        active = np.flatnonzero(self.residual_norms > self.tol * self.scale)
        W = self._precondition(np.ascontiguousarray(self.residuals[:, active]))
        against = np.hstack([self.deflated, self.basis])
        W = orthonormalize(W, against=against, rng=self.rng)
        AW = self._product(W)
        # 2. Ritz vectors in the span of [X, P, W], and the next directions P. H is the
        #    matrix of A in that basis.
        across, corner = kernels.block_gram(self.basis, AW), kernels.block_gram(W, AW)
        # The corner of the old basis is known: one Gram matrix less.
        H = np.block([[self.projected, across], [across.T, corner]])
        values, S = base.eigh_descending(H)
        C = np.hstack([S[:, :m], _directions(S[:, :m], active)])
        # 3. Basis, image and residuals by linear combinations: no other product.
        #    C has the shape (m + p + w, m + p'), with orthonormal columns, so that the
        #    new basis is orthonormal as the old one was.
        self.projected = C.T @ H @ C
        self.values = values[:m]
        self.basis = _combine(self.basis, W, C)
        self.image = _combine(self.image, AW, C)
        self.measured = False
        X, AX = self.basis[:, :m], self.image[:, :m]
        self.residuals = AX - X * self.values
        self.residual_norms = base.column_norms(self.residuals)

    def pairs(self) -> Eigenpairs:
        """Return the k largest pairs, measured."""
        if not self.measured:
            self.restart()
        k = self.k
        vectors = np.ascontiguousarray(self.basis[:, :k])
        return self.values[:k].copy(), vectors, self.residual_norms[:k].copy()

    def _set_basis(self, X: Array) -> None:
        """Take the Ritz vectors in the span of X as basis; measure their residuals."""
        X = orthonormalize(X, against=self.deflated, rng=self.rng)
        R = self._product(X)
        self.values, self.residual_norms = base.rotate_to_ritz(X, R)
        self.basis, self.image, self.residuals = X, R + X * self.values, R
        self.projected = np.diag(self.values)
        self.measured = True

    def _product(self, X: Array) -> Array:
        """Return A X, (n, width); raise the lower bound of the norm by what X shows."""
        Y = np.empty_like(X)
        apply_block(self.operator, X, Y)
        self.count(X.shape[1])
        # Columns of X have length 1: |A x| is at most the norm of A. Squares of tiny
        # entries underflow to 0, which the largest entry does not.
        norm = float(base.column_norms(Y).max()) or float(np.abs(Y).max())
        if not math.isfinite(norm):
            check_product(Y)
        self.scale = max(self.scale, norm)
        base.check_scale(self.scale)
        return Y

    def _precondition(self, R: Array) -> Array:
        """Return ``T R``; R itself without preconditioner. Overwrites R."""
        if self.T is None:
            return R
        # Columns of unit length: small residuals underflow in float32.
        R /= np.maximum(base.column_norms(R), TINY)
        W = np.empty_like(R)
        apply_block(self.T, R, W)
        check_product(base.column_norms(W), "preconditioner")
        return W


def _directions(C: Array, active: NDArray[np.intp]) -> Array:
    """Coefficients of the next directions: components of new vectors outside old X."""
    # Coefficients refer to [X, P, W], in this order; C has m columns. What is left of
    # a new Ritz vector without its part in the old X is the direction P of LOBPCG.
    D = C[:, active].copy()
    D[: C.shape[1]] = 0.0
    # Orthonormal, and orthogonal to the coefficients C of the new Ritz vectors.
    for _ in range(2):
        D -= C @ (C.T @ D)
    D, R, _ = qr(D, mode="economic", pivoting=True)
    # Directions that others determine to half of the digits are dropped.
    lengths, tol = np.abs(np.diag(R)), math.sqrt(EPS)
    D = D[:, lengths > tol * max(lengths.max(initial=0.0), tol)]
    D -= C @ (C.T @ D)
    basis: Array = np.linalg.qr(D)[0]
    return basis


def _combine(V: Array, W: Array, C: Array) -> Array:
    """Return ``[V, W] @ C``."""
    # As two subtractions from zero: [V, W] is never copied into one block.
    out = np.zeros((V.shape[0], C.shape[1]))
    kernels.block_subtract(out, V, -C[: V.shape[1]])
    kernels.block_subtract(out, W, -C[V.shape[1] :])
    return out
