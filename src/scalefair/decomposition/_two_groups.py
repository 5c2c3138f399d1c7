"""Fair PCA of two groups: root finding on the derivative of the dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import EPS, TINY
from scalefair.decomposition._covariances import GroupsSolution, captured
from scalefair.kernels import long_blas_call
from scalefair.optimize import ConcaveSearch

Array = NDArray[np.float64]


def solve_two_groups(
    C: Array,
    r: int,
    *,
    best: Array,
    tol: float = 1e-8,
    max_iter: int = 100,
    weights0: Array | None = None,
) -> GroupsSolution:
    """Maximise phi(t) = sum_g w_g best_g - top_r(t C_A + (1-t) C_B), w = (t, 1 - t).

    phi' is the difference of the losses: a safeguarded Newton search for its root.
    Where it jumps, at a tie, a basis between the two sides has equal losses.
    """
    problem = _TwoGroupDual(C, r, best)
    search = ConcaveSearch(0.0, 1.0, None if weights0 is None else weights0[0])
    points: list[_DualPoint] = []
    while True:
        point = problem.evaluate(search.x)
        points.append(point)
        # 1. A smooth maximum. The slope is the difference of the losses: driven to
        #    1e-3 tol, it leaves digits to spare in their ratio.
        if abs(point.slope) <= problem.threshold(point, 1e-3 * tol):
            return problem.solution(point, point.leading(r), len(points), True)
        # 2. A tie: equal losses by rotating within a block of close eigenvalues.
        basis = problem.equalized(point, problem.threshold(point, tol))
        if basis is not None:
            return problem.solution(point, basis, len(points), True)
        # 3. A Newton step, or bisection.
        search.update(point.value, point.slope, point.curvature)
        if search.exhausted or len(points) >= max_iter:
            return _best_of(problem, points, tol)


def _best_of(
    problem: _TwoGroupDual, points: list[_DualPoint], tol: float
) -> GroupsSolution:
    """Basis with the smallest largest loss among those of all points."""
    n_iter = len(points)
    dual = max(points, key=lambda point: point.value)
    bases = [point.leading(problem.r) for point in points]
    bases += [
        basis for p in points if (basis := problem.equalized(p, np.inf)) is not None
    ]
    solutions = [problem.solution(dual, basis, n_iter, False) for basis in bases]
    solution = min(solutions, key=lambda s: float(s.losses.max()))
    converged = solution.gap <= problem.threshold(dual, tol)
    return replace(solution, converged=converged)


@dataclass(frozen=True)
class _DualPoint:
    """Eigendecomposition of H(t), ascending, and phi with its derivatives."""

    t: float
    mu: Array
    U: Array
    D: Array  # U.T @ (C_A - C_B) @ its leading columns
    value: float
    slope: float
    curvature: float

    def leading(self, r: int) -> Array:
        return np.ascontiguousarray(self.U[:, self.mu.size - r :][:, ::-1])


class _TwoGroupDual:
    """Covariances of two groups: the dual function, and bases with equal losses."""

    def __init__(self, C: Array, r: int, best: Array) -> None:
        self.C, self.r, self.best = C, r, best
        self.difference = C[0] - C[1]
        self.best_difference = float(best[0] - best[1])
        self.rounding = 4 * EPS * math.sqrt(C.shape[1]) * float(best.max())

    def evaluate(self, t: float) -> _DualPoint:
        """Eigendecomposition of H(t), and phi with two derivatives."""
        H = self.C[1] + t * self.difference
        with long_blas_call(0.2 * len(H) ** 3):
            mu, U = np.linalg.eigh(H)
        # phi = t best_A + (1 - t) best_B - sum_j mu_j over the r largest.
        split = mu.size - self.r
        D = U.T @ (self.difference @ U[:, split:])
        low, high = mu[:split], mu[split:]
        value = float(self.best[1]) + t * self.best_difference - float(high.sum())
        slope = self.best_difference - float(D[split:].trace())
        # phi'' = -2 sum_ij D_ij^2 / (mu_j - mu_i), infinite at a tie: the floor makes
        # it large, which leads to bisection.
        floor = EPS * max(abs(mu[0]), abs(mu[-1])) + TINY
        distance = np.maximum(high - low[:, None], floor)
        # Divided first: squares of covariances may overflow.
        coupling = D[:split] / np.sqrt(distance)
        curvature = -2.0 * float((coupling**2).sum())
        return _DualPoint(t, mu, U, D, value, slope, curvature)

    def threshold(self, point: _DualPoint, tol: float) -> float:
        """Return `tol` times the largest loss, but no less than rounding errors."""
        # value = t loss_A + (1 - t) loss_B, slope = loss_A - loss_B
        loss_B = point.value - point.t * point.slope
        return max(tol * max(loss_B + point.slope, loss_B), self.rounding)

    def equalized(self, point: _DualPoint, allowed: float) -> Array | None:
        """Basis with equal losses whose trace is within `allowed` of top_r(H(t)).

        The block of eigenvalues around the r-th is widened until some subspace of it
        has the trace that equalises the losses.
        """
        mu, U, D, n, r = point.mu, point.U, point.D, point.mu.size, self.r
        split = n - r
        low, high = split - 1, split  # the pair at the border, ascending order
        while low >= 0 and high < n and mu[high] - mu[low] <= allowed:
            # 1. Trace of C_A - C_B that the block has to contribute.
            block = slice(low, high + 1)
            above = slice(high + 1, n)
            leading = U[:, above][:, ::-1]
            trace = self.best_difference - float(
                D[above, above.start - split :].trace()
            )
            within = U[:, block].T @ (self.difference @ U[:, block])
            # 2. A pair is rotated, a larger block searched for a subspace.
            if high - low == 1:
                rotation = smallest_rotation(within[::-1, ::-1], trace)
                if rotation is not None:
                    cosine, sine = rotation
                    vector = cosine * U[:, high] + sine * U[:, low]
                    return np.column_stack([leading, vector])
            V = subspace_of_trace(within, r - (n - 1 - high), trace)
            if V is not None:
                remaining = float(np.einsum("ij,i,ij->", V, mu[block], V))
                cost = float(mu[split : high + 1].sum()) - remaining
                basis = np.hstack([leading, U[:, block] @ V])
                return basis if cost <= allowed else None
            # 3. Add the closer one of the neighbouring eigenvalues.
            below_gap = mu[high] - mu[low - 1] if low > 0 else np.inf
            above_gap = mu[high + 1] - mu[low] if high < n - 1 else np.inf
            if below_gap <= above_gap:
                low -= 1
            else:
                high += 1
        return None

    def solution(
        self, point: _DualPoint, basis: Array, n_iter: int, converged: bool
    ) -> GroupsSolution:
        weights, phi = np.array([point.t, 1 - point.t]), point.value
        losses = self.best - captured(self.C, basis)
        return GroupsSolution(
            weights, basis, losses, phi, n_iter, converged, point.curvature
        )


def subspace_of_trace(C: Array, k: int, trace: float) -> Array | None:
    """Orthonormal basis V of k columns with ``Tr(V^T C V) = trace``, if there is one.

    The k leading eigenvectors are replaced one at a time by the k last ones; the swap
    that crosses the trace becomes a rotation. Unlike the curve of A.3, it keeps rank.
    """
    values, vectors = np.linalg.eigh(C)
    values, vectors = values[::-1], vectors[:, ::-1]
    q = values.size
    lowest, highest = float(values[q - k :].sum()), float(values[:k].sum())
    rounding = 4 * EPS * float(np.abs(values).sum())
    if not lowest - rounding <= trace <= highest + rounding:
        return None
    V = vectors[:, :k].copy()
    n_swaps = min(k, q - k)  # vectors in both ends stay
    excess = max(0.0, highest - trace)
    for i in range(n_swaps):
        out, into = i, q - n_swaps + i
        drop = float(values[out] - values[into])
        if drop > excess or (i == n_swaps - 1 and drop > 0):
            sine_squared = min(1.0, max(0.0, excess / drop))
            V[:, out] = (
                np.sqrt(1 - sine_squared) * vectors[:, out]
                + np.sqrt(sine_squared) * vectors[:, into]
            )
            break
        V[:, out] = vectors[:, into]
        excess -= drop
    return V


def smallest_rotation(C: Array, trace: float) -> tuple[float, float] | None:
    """Cosine and sine v of the smallest angle with ``v @ C @ v = trace``, or None."""
    mean, half = (C[0, 0] + C[1, 1]) / 2, (C[0, 0] - C[1, 1]) / 2
    radius = math.hypot(half, C[0, 1])
    # v @ C @ v = mean + radius cos(2 a - phase), phase the direction of (half, C_01).
    if not abs(trace - mean) <= radius * (1 + 1e-15):
        return None
    phase = math.atan2(C[0, 1], half)
    offset = math.acos(max(-1.0, min(1.0, (trace - mean) / radius))) if radius else 0.0
    angles = [(phase + offset) / 2, (phase - offset) / 2]
    # Angles differing by pi give the same line.
    angle = min((math.remainder(a, math.pi) for a in angles), key=abs)
    return math.cos(angle), math.sin(angle)
