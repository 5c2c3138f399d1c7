"""Locally optimal block preconditioned conjugate gradients (LOBPCG)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import check_product
from scalefair._random_state import check_random_state, random_generator
from scalefair.linalg._base import TEXTS, Array, EigenResult, Iteration, Pairs
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.operators._base import apply_block

# Iterations without progress (1 %) after which the search directions are dropped,
# and after which the iteration gives up.
_RESTART, _PATIENCE = 15, 40
_DEPENDENT = 1e-8  # search directions that depend on others to this extent are dropped


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

    Each iteration finds the best vectors in the span of the iterates, their
    preconditioned residuals and the directions of the last step: ten to twenty with a
    multigrid preconditioner where eigenvalues lie close together, as on meshes. Always
    in float64; about ``72 n (k + n_buffer)`` bytes.

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
    operator, start, avoided = base.as_problem(A, k, X0, orthogonal_to)
    n = operator.shape[0]
    T = base.as_preconditioner(preconditioner, n)
    n_buffer = base.buffer_size(n_buffer, k)
    base.check_count("max_iter", max_iter, 0)
    if n - avoided.shape[1] <= 4 * (k + n_buffer):
        return base.dense_eigh(operator, k, orthogonal_to=avoided)
    rng = check_random_state(random_state)
    iteration = _Iteration(operator, T, k, k + n_buffer, tol)
    iteration.start(start, avoided, rng)
    best, stalled, n_iter = math.inf, 0, 0
    while True:
        n_converged, worst = iteration.progress()
        if n_converged == k and not iteration.measured:
            iteration.restart()
            n_converged, worst = iteration.progress()
        if callback is not None:
            callback(n_converged, worst)
        stalled = 0 if worst < 0.99 * best else stalled + 1
        best = min(best, worst)
        if n_converged == k or n_iter >= max_iter or stalled >= _PATIENCE:
            break
        if stalled and stalled % _RESTART == 0:
            iteration.restart()
        iteration.step()
        n_iter += 1
    message = base.ending(
        n_iter,
        max_iter,
        worst,
        n_converged == k,
        steps="iterations",
        beside_more=", or use a better preconditioner",
        if_stuck=", or check that operator and preconditioner are symmetric",
    )
    return iteration.result_of(iteration.pairs(), n_iter, n_converged == k, message)


class _Iteration(Iteration):
    """Orthonormal basis [X, P] of Ritz vectors and last directions, with its image."""

    def __init__(
        self, A: LinearOperator, T: LinearOperator | None, k: int, m: int, tol: float
    ) -> None:
        super().__init__(A)
        self.T, self.n = T, A.shape[0]
        self.k, self.m, self.tol = k, m, tol
        # Set with every basis: its image, Ritz values, residuals of X, the matrix
        # of A in the basis, and whether image and residuals are direct products.
        self.basis = self.image = self.residuals = np.empty((self.n, 0))
        self.values = self.residual_norms = np.empty(0)
        self.projected = np.empty((0, 0))
        self.measured = False

    def start(self, X0: Array, avoided: Array, rng: np.random.RandomState) -> None:
        """Take the given vectors and random ones, smoothed."""
        self.avoided, self.rng = avoided, rng
        given = min(X0.shape[1], self.m)
        X = random_generator(self.rng).standard_normal((self.n, self.m))
        if given < self.m:
            X = self._precondition(X)
        X[:, :given] = X0[:, :given]
        self._set_basis(X)

    def restart(self) -> None:
        """Forget the search directions; measure the rest anew."""
        self._set_basis(np.ascontiguousarray(self.basis[:, : self.m]))

    def progress(self) -> tuple[int, float]:
        """Converged pairs among the k largest, and their largest residual."""
        residuals = self.residual_norms[: self.k]
        return int((residuals <= self.tol * self.scale).sum()), float(residuals.max())

    def step(self) -> None:
        """Best vectors in the span of X, P and the preconditioned residuals."""
        m = self.m
        active = np.flatnonzero(self.residual_norms > self.tol * self.scale)
        W = self._precondition(np.ascontiguousarray(self.residuals[:, active]))
        against = np.hstack([self.avoided, self.basis])
        W = orthonormalize(W, against=against, rng=self.rng)
        AW = self._product(W)
        H = self._projected(W, AW)
        values, S = base.eigh_descending(H)
        C = np.hstack([S[:, :m], _directions(S[:, :m], active)])
        self.projected = C.T @ H @ C
        self.values = values[:m]
        self.basis = _combine(self.basis, W, C)
        self.image = _combine(self.image, AW, C)
        self.measured = False
        self._set_residuals()

    def pairs(self) -> Pairs:
        """Return the k largest pairs, measured."""
        if not self.measured:
            self.restart()
        k = self.k
        vectors = np.ascontiguousarray(self.basis[:, :k])
        return self.values[:k].copy(), vectors, self.residual_norms[:k].copy()

    def _set_basis(self, X: Array) -> None:
        """Make X the basis, as Ritz vectors, with residuals that are measured."""
        X = orthonormalize(X, against=self.avoided, rng=self.rng)
        AX = self._product(X)
        H = kernels.block_gram(X, AX)
        self.values, S = base.eigh_descending(H)
        kernels.block_rotate(X, S)
        kernels.block_rotate(AX, S)
        self.basis, self.image = X, AX
        self.projected = np.diag(self.values)
        self.measured = True
        self._set_residuals()

    def _set_residuals(self) -> None:
        X, AX = self.basis[:, : self.m], self.image[:, : self.m]
        self.residuals = AX - X * self.values
        self.residual_norms = base.column_norms(self.residuals)

    def _projected(self, W: Array, AW: Array) -> Array:
        """Return the matrix of A in the basis [X, P, W]."""
        across, corner = kernels.block_gram(self.basis, AW), kernels.block_gram(W, AW)
        return np.block([[self.projected, across], [across.T, (corner + corner.T) / 2]])

    def _product(self, X: Array) -> Array:
        Y = np.empty_like(X)
        apply_block(self.operator, X, Y)
        self.count(X.shape[1])
        norm = float(base.column_norms(Y).max()) or float(np.abs(Y).max())
        if not math.isfinite(norm):
            check_product(Y)
        self.scale = max(self.scale, norm)
        base.check_scale(self.scale)
        return Y

    def _precondition(self, R: Array) -> Array:
        if self.T is None:
            return R
        # Columns of unit length: float32 has no room for small residuals.
        R /= np.maximum(base.column_norms(R), np.finfo(np.float64).tiny)
        W = np.empty_like(R)
        apply_block(self.T, R, W)
        check_product(base.column_norms(W), "preconditioner")
        return W


def _directions(C: Array, active: NDArray[np.intp]) -> Array:
    """Coefficients of the next directions: of the new vectors, what the old lack."""
    D = C[:, active].copy()
    D[: C.shape[1]] = 0.0
    for _ in range(2):
        D -= C @ (C.T @ D)
    D, R, _ = qr(D, mode="economic", pivoting=True)
    lengths = np.abs(np.diag(R))
    D = D[:, lengths > _DEPENDENT * max(lengths.max(initial=0.0), _DEPENDENT)]
    D -= C @ (C.T @ D)
    basis: Array = np.linalg.qr(D)[0]
    return basis


def _combine(V: Array, W: Array, C: Array) -> Array:
    """Return ``[V, W] @ C``."""
    out = np.zeros((V.shape[0], C.shape[1]))
    kernels.block_subtract(out, V, -C[: V.shape[1]])
    kernels.block_subtract(out, W, -C[V.shape[1] :])
    return out
