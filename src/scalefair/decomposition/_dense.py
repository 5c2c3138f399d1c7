"""Fair PCA of covariances of small order, by full eigendecompositions.

Two groups: root finding on the derivative of the dual. More groups: Newton's method on
the dual; where eigenvalues tie, the semidefinite relaxation and a local search.
"""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.decomposition._covariances import captured
from scalefair.kernels import long_blas_call
from scalefair.optimize import (
    ConcaveSearch,
    maximize_on_simplex,
    maximize_quadratic_on_simplex,
    minimax_on_fantope,
)

Array = NDArray[np.float64]

# A smooth maximum takes fewer Newton steps; eigenvalues that tie, more.
MAX_NEWTON_STEPS = 20
# Groups from whose eigenvectors a local search starts.
MAX_STARTS = 6


@dataclass(frozen=True)
class GroupsSolution:
    """Basis with the smallest computed largest loss, and its certificate."""

    weights: Array  # of the dual, shape (G,), on the simplex
    basis: Array  # orthonormal columns, shape (n, r)
    losses: Array  # of the groups under the basis
    dual_value: float  # phi(weights), a lower bound of the largest loss of any basis
    n_iter: int  # eigendecompositions or calls of the oracle
    converged: bool  # whether the dual was maximised to the tolerance
    curvature: float = math.nan  # phi'' of two groups at the weights, else NaN

    @property
    def gap(self) -> float:
        """Largest loss less the dual value: no basis is better by more."""
        return float(self.losses.max()) - self.dual_value


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
    while not search.exhausted and len(points) < max_iter:
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
    # 4. No point is good enough: the basis of them with the smallest largest loss.
    dual = max(points, key=lambda point: point.value)
    bases = [point.leading(r) for point in points]
    bases += [
        basis for p in points if (basis := problem.equalized(p, np.inf)) is not None
    ]
    solutions = [problem.solution(dual, basis, len(points), False) for basis in bases]
    solution = min(solutions, key=lambda s: float(s.losses.max()))
    return replace(solution, converged=solution.gap <= problem.threshold(dual, tol))


@dataclass(frozen=True)
class _DualPoint:
    """Eigenpairs of H(t) = t C_A + (1 - t) C_B, ascending; phi and its derivatives."""

    t: float
    mu: Array
    U: Array
    D: Array  # U.T @ (C_A - C_B) @ U[:, -r:]
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

    The k leading eigenvectors are replaced one at a time by the k last ones. The swap
    that would cross the trace becomes a rotation of the two vectors. All bases on the
    way have rank k, unlike those on the curve of appendix A.3 of Shen, Davis, Lu, Bai.
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


def solve_groups(
    C: Array,
    r: int,
    *,
    best: Array,
    tol: float = 1e-8,
    max_iter: int = 100,
    weights0: Array | None = None,
) -> GroupsSolution:
    """Maximise the dual, a lower bound of the largest loss; return weights and basis.

    By Newton's method; where eigenvalues tie, by an interior-point method on the
    semidefinite relaxation, whose optimum is rounded to a basis. `best` may be upper
    bounds of the sums of eigenvalues; a gap may remain.
    """
    n_groups, n, _ = C.shape
    dual = _GroupDual(C, r, best)
    if r == n:  # nothing to choose
        weights = np.full(n_groups, 1 / n_groups) if weights0 is None else weights0
        return dual.solution(weights, 1)
    # 1. Newton's method, for a maximum at which the dual is smooth. Its last step gains
    #    two digits more than asked for.
    inner_tol = 0.01 * tol
    smooth = maximize_on_simplex(
        dual,
        n_groups,
        x0=weights0,
        tol=inner_tol,
        atol=dual.rounding,
        max_iter=min(max_iter, MAX_NEWTON_STEPS),
    )
    solution = dual.solution(smooth.x, smooth.n_iter)
    if dual.close(solution.gap, solution.losses, inner_tol):
        return solution
    local_search = partial(local_minimax, C, best, atol=dual.rounding)
    if dual.close(solution.gap, solution.losses, tol):
        # Equalise the losses to more digits than the weights have.
        U = local_search(solution.basis, smooth.x, max_iter=3)
        return dual.solution(smooth.x, smooth.n_iter, U)

    # 2. Eigenvalues tie: the relaxation over the Fantope {0 <= W <= I, Tr W = r}.
    relaxed = minimax_on_fantope(C, best, r, tol=inner_tol, max_iter=max_iter)
    weights = smooth.x if smooth.value > relaxed.bound else relaxed.weights
    target = max(smooth.value, relaxed.bound)
    target += max(tol * relaxed.value, dual.rounding)
    # 3. Round its optimum to a basis: a local search from its leading eigenvectors.
    U = np.linalg.eigh(relaxed.W)[1][:, ::-1][:, :r]
    U = local_search(U, weights, max_iter=max_iter)

    def largest_loss(basis: Array) -> float:
        return float((best - captured(C, basis)).max())

    if largest_loss(U) > target:
        # 4. A gap: a few steps from groups' own eigenvectors, the best one continued.
        starts = [vectors[:, -r:] for vectors in np.linalg.eigh(C)[1]]
        starts = sorted(starts, key=largest_loss)[:MAX_STARTS]
        bases = [local_search(start, weights, max_iter=15) for start in starts]
        other = min(bases, key=largest_loss)
        other = local_search(other, weights, max_iter=max_iter)
        U = min([U, other], key=largest_loss)
    tied = dual.solution(weights, smooth.n_iter + relaxed.n_iter, U)
    upper = min(smooth.upper_bound, relaxed.value, float(tied.losses.max()))
    converged = dual.close(upper - tied.dual_value, tied.losses, tol)
    return replace(tied, converged=converged)


class _GroupDual:
    """The dual function phi with supergradient and Hessian, and measured solutions."""

    def __init__(self, C: Array, r: int, best: Array) -> None:
        self.C, self.r, self.best = C, r, best
        self.n = C.shape[1]
        self.rounding = 4 * EPS * np.sqrt(self.n) * float(np.abs(best).max())

    def __call__(self, weights: Array) -> tuple[float, Array, Array]:
        """Value, supergradient (the losses) and Hessian at the weights."""
        n, r = self.n, self.r
        # phi = sum_g w_g best_g - sum_j mu_j over the r largest eigenvalues.
        mu, U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))
        CU = self.C @ U[:, n - r :]
        losses = self.best - np.einsum("ij,gij->g", U[:, n - r :], CU)
        coupling = np.matmul(U[:, : n - r].T, CU)
        distance = mu[None, n - r :] - mu[: n - r, None]
        # phi''_gh = -2 sum_ij D^g_ij D^h_ij / (mu_j - mu_i), D^g = U^T C_g U. At a tie
        # it is infinite: a large value stops the Newton step there.
        floor = EPS * max(abs(mu[0]), abs(mu[-1])) + TINY
        scaled = coupling / np.sqrt(np.maximum(distance, floor))
        scaled = scaled.reshape(losses.size, -1)
        value = float(weights @ self.best) - float(mu[n - r :].sum())
        return value, losses, -2 * (scaled @ scaled.T)

    def solution(
        self, weights: Array, n_iter: int, basis: Array | None = None
    ) -> GroupsSolution:
        """Measure the dual at the weights, and the losses of a basis (None: theirs)."""
        mu, U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))
        if basis is None:  # the leading eigenvectors, largest first
            basis = np.ascontiguousarray(U[:, self.n - self.r :][:, ::-1])
        value = float(weights @ self.best) - float(mu[self.n - self.r :].sum())
        losses = self.best - captured(self.C, basis)
        return GroupsSolution(weights, basis, losses, value, n_iter, True)

    def close(self, gap: float, losses: Array, tol: float) -> bool:
        """Whether a gap is within the tolerance, or rounding."""
        return bool(gap <= max(tol * float(losses.max()), self.rounding))


def local_minimax(
    A: Array, b: Array, U: Array, weights: Array, *, atol: float, max_iter: int
) -> Array:
    """Decrease ``max_g b_g - Tr(U^T A_g U)`` over subspaces by damped Newton steps.

    `weights` are the first multipliers. The search ends where the predicted decrease is
    at most `atol`.
    """
    size = float(np.abs(A).max())
    if U.shape[0] == U.shape[1] or size == 0.0:
        return U
    damping = 1e-2 * size
    losses = b - captured(A, U)
    U, Q, gradients, curvature = _frame(A, U, weights)
    for _ in range(max_iter):
        # 1. A step U + Q D adds sum (sigma_j - rho_i) D_ij^2 to the weighted loss, in
        #    second order, damped where that is not convex. The multipliers of the best
        #    step solve a quadratic program over the simplex.
        convex = np.maximum(curvature, damping)
        scaled = (gradients / np.sqrt(convex)).reshape(losses.size, -1)
        K = 2 * (scaled @ scaled.T)
        multipliers = maximize_quadratic_on_simplex(losses, K, x0=weights)
        predicted = (
            float(losses @ multipliers) - float(multipliers @ K @ multipliers) / 2
        )
        decrease = float(losses.max()) - predicted
        if decrease <= atol or damping > 1e8 * size:
            break
        step = np.tensordot(multipliers, gradients, axes=1) / convex
        trial = np.linalg.qr(U + Q @ step)[0]
        # 2. Damping by the ratio of actual to predicted decrease (a trust region).
        trial_losses = b - captured(A, trial)
        ratio = float(losses.max() - trial_losses.max()) / decrease
        if ratio < 0.25:
            damping *= 4
        elif ratio > 0.75:
            damping = max(damping / 4, ROUNDING * size)
        if ratio < 0.1:
            continue  # step rejected
        losses, weights = trial_losses, multipliers
        U, Q, gradients, curvature = _frame(A, trial, weights)
    return U


def _frame(A: Array, U: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Principal axes of the weighted sum in the span of U and in its complement Q.

    Also each group's gradient ``Q.T @ A_g @ U``, and the differences sigma_j - rho_i of
    the eigenvalues.
    """
    r = U.shape[1]
    M = np.tensordot(weights, A, axes=1)
    Q = np.linalg.qr(U, mode="complete")[0][:, r:]
    sigma, E = np.linalg.eigh(U.T @ M @ U)
    rho, F = np.linalg.eigh(Q.T @ M @ Q)
    U, Q = U @ E, Q @ F
    gradients = np.matmul(Q.T, A @ U)
    return U, Q, gradients, sigma[None, :] - rho[:, None]
