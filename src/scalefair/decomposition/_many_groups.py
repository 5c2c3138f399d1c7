"""Fair PCA of any number of groups: the dual, and a subspace with its certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._face import basis_from_fantope
from scalefair.decomposition._local_minimax import local_minimax
from scalefair.decomposition._pencil import captured, top_sums
from scalefair.decomposition._solution import GroupsSolution
from scalefair.kernels import single_blas_thread
from scalefair.optimize import maximize_on_simplex, minimax_on_fantope

__all__ = ["solve_groups"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
# At a smooth maximum Newton's method gains these digits in its last step.
_AIM = 1e-2
# A smooth maximum takes fewer calls; eigenvalues that tie, more.
_NEWTON_CALLS = 20
_LAST_STEPS = 3


def solve_groups(
    C: Array,
    r: int,
    *,
    best: Array | None = None,
    tol: float = 1e-8,
    max_iter: int = 100,
    weights0: Array | None = None,
) -> GroupsSolution:
    r"""Minimise the largest loss of the groups, with a lower bound of it.

    The dual :math:`\phi(\lambda) = \sum_g \lambda_g best_g - top_r(\sum_g \lambda_g
    C_g)` is concave, and at most the largest loss of any basis. Where the r-th
    eigenvalue of the weighted sum is simple at the maximum, the leading eigenbasis
    has equal losses of all groups with a positive weight and is optimal: second
    derivatives of phi make that a matter of few eigendecompositions
    (`maximize_on_simplex`). If eigenvalues tie, an interior-point method solves the
    relaxed problem (`minimax_on_fantope`), whose optimum is the dual's, and a
    subspace is sought on the optimal face (`basis_from_fantope`).

    Two groups have no duality gap; for three and more there may be one, in any
    dimension. With covariances ``2 u u^T`` for three directions u in a
    plane, 60 degrees apart, and ``r = 1``, the dual optimum is 1 and the best
    subspace has the loss 3/2. The gap of the solution is therefore a measurement,
    not a formality. If it is positive the basis is the best that local searches
    found.

    Parameters
    ----------
    C : ndarray of shape (G, n, n)
        Covariances, symmetric positive semidefinite.
    r : int
        Number of components, ``1 <= r <= n``.
    best : ndarray of shape (G,) or None, default=None
        Sums of their `r` largest eigenvalues, or upper bounds of them: for a
        reduced problem those of the original. None computes them.
    tol : float, default=1e-8
        Bound on the error of the dual optimum, relative to it.
    max_iter : int, default=100
        Most steps of each of the two methods.
    weights0 : ndarray of shape (G,) or None, default=None
        Start; None takes equal weights.

    Returns
    -------
    GroupsSolution
        `converged` says that the dual optimum is known to the tolerance, not that
        the gap is zero.
    """
    with single_blas_thread():  # small matrices; the same numbers on any machine
        n = C.shape[1]
        if best is None:
            best = top_sums(C, r)
        dual = _Dual(C, r, best)
        if r == n:  # nothing to choose
            return dual.solution(_start(len(C), weights0), np.eye(n), 1)
        return _solve(dual, tol, max_iter, weights0)


def _start(n_groups: int, weights0: Array | None) -> Array:
    if weights0 is None:
        return np.full(n_groups, 1.0 / n_groups)
    start: Array = weights0 / weights0.sum()
    return start


def _solve(
    dual: _Dual, tol: float, max_iter: int, weights0: Array | None
) -> GroupsSolution:
    C, r, best = dual.C, dual.r, dual.best
    smooth = maximize_on_simplex(
        dual,
        len(C),
        x0=weights0,
        tol=_AIM * tol,
        atol=dual.rounding,
        max_iter=min(max_iter, _NEWTON_CALLS),
    )
    solution = dual.solution(smooth.x, dual.basis(smooth.x), smooth.n_iter)
    if dual.close(solution.gap, solution.losses, _AIM * tol):
        return solution
    if dual.close(solution.gap, solution.losses, tol):
        # Level the losses to more digits than the weights have.
        basis = local_minimax(
            C,
            best,
            solution.basis,
            smooth.x,
            atol=dual.rounding,
            max_iter=_LAST_STEPS,
        )
        return dual.solution(smooth.x, basis, smooth.n_iter)

    relaxed = minimax_on_fantope(C, best, r, tol=_AIM * tol, max_iter=max_iter)
    weights = smooth.x if smooth.value > relaxed.bound else relaxed.weights
    basis = basis_from_fantope(
        C,
        best,
        relaxed.W,
        weights,
        r,
        gap=max(tol * relaxed.value, dual.rounding),
        atol=dual.rounding,
        max_iter=max_iter,
    )
    tied = dual.solution(weights, basis, smooth.n_iter + relaxed.n_iter)
    upper = min(smooth.upper_bound, relaxed.value, float(tied.losses.max()))
    converged = dual.close(upper - tied.dual_value, tied.losses, tol)
    return replace(tied, converged=converged)


class _Dual:
    """phi with supergradient and Hessian; solutions measured."""

    def __init__(self, C: Array, r: int, best: Array) -> None:
        self.C, self.r, self.best = C, r, best
        self.n = C.shape[1]
        self.rounding = 4 * _EPS * np.sqrt(self.n) * float(np.abs(best).max())

    def __call__(self, weights: Array) -> tuple[float, Array, Array]:
        n, r = self.n, self.r
        mu, U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))
        CU = self.C @ U[:, n - r :]
        losses = self.best - np.einsum("ij,gij->g", U[:, n - r :], CU)
        coupling = np.matmul(U[:, : n - r].T, CU)
        distance = mu[None, n - r :] - mu[: n - r, None]
        # A tie has no second derivative; a large one stops the Newton step there.
        floor = _EPS * max(abs(mu[0]), abs(mu[-1])) + np.finfo(float).tiny
        flat = coupling / np.sqrt(np.maximum(distance, floor))
        flat = flat.reshape(losses.size, -1)
        value = float(weights @ self.best) - float(mu[n - r :].sum())
        return value, losses, -2 * (flat @ flat.T)

    def basis(self, weights: Array) -> Array:
        U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))[1]
        return np.ascontiguousarray(U[:, self.n - self.r :][:, ::-1])

    def solution(self, weights: Array, basis: Array, n_iter: int) -> GroupsSolution:
        mu = np.linalg.eigvalsh(np.tensordot(weights, self.C, axes=1))
        value = float(weights @ self.best) - float(mu[self.n - self.r :].sum())
        losses = self.best - captured(self.C, basis)
        return GroupsSolution(weights, basis, losses, value, n_iter, True)

    def close(self, gap: float, losses: Array, tol: float) -> bool:
        return bool(gap <= max(tol * float(losses.max()), self.rounding))
