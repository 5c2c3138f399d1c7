"""Fair PCA of two groups: root finding on the derivative of the dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._pencil import captured
from scalefair.decomposition._plane_rotation import smallest_rotation, subspace_of_trace
from scalefair.decomposition._solution import GroupsSolution
from scalefair.kernels import long_blas_call
from scalefair.optimize import ConcaveSearch

__all__ = ["solve_two_groups"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
# The derivative is a difference of losses: driven this far below the tolerance,
# it leaves digits to spare in the ratio of the losses.
_AIM = 1e-3


def solve_two_groups(
    C: Array,
    r: int,
    *,
    best: Array,
    tol: float = 1e-8,
    max_iter: int = 100,
    weights0: Array | None = None,
) -> GroupsSolution:
    r"""Maximise phi(t) = sum_g w_g best_g - top_r(H(t)), w = (t, 1 - t).

    :math:`H(t) = t C_A + (1-t) C_B`. The derivative of phi is the difference of the
    losses at the leading eigenbasis of H(t) and its second derivative follows from
    the same eigendecomposition, so that a safeguarded Newton search ends with equal
    losses to rounding. Where the derivative jumps over zero, eigenvalues of H tie
    at the r-th: every subspace between the two sides is a leading eigenbasis, and
    one with equal losses is found in closed form (`subspace_of_trace`). The same
    step at a near-tie costs as much of the optimum as the eigenvalues differ; it
    is taken when that is within the tolerance.

    Parameters
    ----------
    C : ndarray of shape (2, n, n)
        Covariances of the two groups.
    r : int
        Number of components, ``1 <= r <= n``.
    best : ndarray of shape (2,)
        Sums of their `r` largest eigenvalues, or any upper bounds of them: for a
        reduced problem those of the original.
    tol : float, default=1e-8
        Bound on the duality gap and on the difference of the losses, relative to
        the loss.
    max_iter : int, default=100
        Most eigendecompositions.
    weights0 : ndarray of shape (2,) or None, default=None
        First weights; None takes (1/2, 1/2).

    Returns
    -------
    GroupsSolution
    """
    problem = _Pencil(C, r, best)
    search = ConcaveSearch(0.0, 1.0, None if weights0 is None else weights0[0])
    points: list[_Point] = []
    while True:
        point = problem.evaluate(search.x)
        points.append(point)
        if abs(point.slope) <= problem.small(point, _AIM * tol):
            return problem.solution(point, point.leading(r), len(points), True)
        basis = problem.equalized(point, problem.small(point, tol))
        if basis is not None:
            return problem.solution(point, basis, len(points), True)
        search.update(point.value, point.slope, point.curvature)
        if search.exhausted or len(points) >= max_iter:
            return _best_of(problem, points, tol)


def _best_of(problem: _Pencil, points: list[_Point], tol: float) -> GroupsSolution:
    """Smallest largest loss among all points, losses equalised where they can be."""
    n_iter = len(points)
    dual = max(points, key=lambda point: point.value)
    bases = [point.leading(problem.r) for point in points]
    bases += [
        basis for p in points if (basis := problem.equalized(p, np.inf)) is not None
    ]
    solutions = [problem.solution(dual, basis, n_iter, False) for basis in bases]
    solution = min(solutions, key=lambda s: float(s.losses.max()))
    converged = solution.gap <= problem.small(dual, tol)
    return replace(solution, converged=converged)


@dataclass(frozen=True)
class _Point:
    """Eigendecomposition of H(t), ascending, and phi with its derivatives."""

    t: float
    mu: Array
    U: Array
    D: Array
    value: float
    slope: float
    curvature: float

    def leading(self, r: int) -> Array:
        return np.ascontiguousarray(self.U[:, self.mu.size - r :][:, ::-1])


class _Pencil:
    """The covariances of two groups, and what is asked of t C_A + (1 - t) C_B."""

    def __init__(self, C: Array, r: int, best: Array) -> None:
        self.C_B = C[1]
        self.difference = C[0] - C[1]
        self.C = C
        self.r = r
        self.best = best
        self.best_B = float(best[1])
        self.best_difference = float(best[0] - best[1])
        self.rounding = 4 * _EPS * math.sqrt(C.shape[1]) * float(best.max())

    def evaluate(self, t: float) -> _Point:
        H = self.C_B + t * self.difference
        with long_blas_call(0.2 * len(H) ** 3):
            mu, U = np.linalg.eigh(H)
        D = U.T @ (self.difference @ U)
        split = mu.size - self.r
        low, high = mu[:split], mu[split:]
        value = self.best_B + t * self.best_difference - float(high.sum())
        slope = self.best_difference - float(D.diagonal()[split:].sum())
        # Floor: a tie has no second derivative, and a large one stops no search.
        floor = _EPS * max(abs(mu[0]), abs(mu[-1])) + _TINY
        distance = np.maximum(high - low[:, None], floor)
        # Divided first: squares of covariances may overflow.
        coupling = D[:split, split:] / np.sqrt(distance)
        curvature = -2.0 * float((coupling**2).sum())
        return _Point(t, mu, U, D, value, slope, curvature)

    def small(self, point: _Point, tol: float) -> float:
        """Return what is zero beside the losses and the rounding in them."""
        # From the value and the slope: w_A loss_A + w_B loss_B and the difference.
        loss_B = point.value - point.t * point.slope
        return max(tol * max(loss_B + point.slope, loss_B), self.rounding)

    def equalized(self, point: _Point, allowed: float) -> Array | None:
        """Basis with equal losses that loses at most `allowed` of top_r(H(t)).

        The two eigenvectors at the border are rotated by the least angle, if that
        can equalise the losses. Otherwise the block of eigenvalues around the r-th
        is widened until the wanted trace is within its reach, and given up as soon
        as it may lose too much.
        """
        mu, n, r = point.mu, point.mu.size, self.r
        if r == n:
            return None
        wanted = self.best_difference
        low, high = n - r - 1, n - r  # the pair at the border, ascending order
        if mu[high] - mu[low] > allowed:
            return None
        pair = point.D[np.ix_([high, low], [high, low])]
        others = float(np.trace(point.D[high + 1 :, high + 1 :]))
        rotation = smallest_rotation(pair, wanted - others)
        if rotation is not None:
            cosine, sine = rotation
            vector = cosine * point.U[:, high] + sine * point.U[:, low]
            return np.column_stack([point.U[:, high + 1 :][:, ::-1], vector])
        while mu[high] - mu[low] <= allowed:
            block = slice(low, high + 1)
            rest = wanted - float(np.trace(point.D[high + 1 :, high + 1 :]))
            V = subspace_of_trace(point.D[block, block], r - (n - 1 - high), rest)
            if V is not None:
                cost = float(mu[n - r : high + 1].sum()) - float(
                    np.einsum("ij,i,ij->", V, mu[block], V)
                )
                leading = point.U[:, high + 1 :][:, ::-1]
                basis = np.hstack([leading, point.U[:, block] @ V])
                return basis if cost <= allowed else None
            if low == 0 and high == n - 1:
                return None
            below = mu[high] - mu[low - 1] if low > 0 else np.inf
            above = mu[high + 1] - mu[low] if high < n - 1 else np.inf
            if below <= above:
                low -= 1
            else:
                high += 1
        return None

    def solution(
        self, point: _Point, basis: Array, n_iter: int, converged: bool
    ) -> GroupsSolution:
        return GroupsSolution(
            weights=np.array([point.t, 1 - point.t]),
            basis=basis,
            losses=self.best - captured(self.C, basis),
            dual_value=point.value,
            n_iter=n_iter,
            converged=converged,
            curvature=point.curvature,
        )
