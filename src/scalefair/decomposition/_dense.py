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

    @property
    def gap(self) -> float:
        """Largest loss less the dual value: no basis is better by more."""
        return float(self.losses.max()) - self.dual_value


# --- The dual ------------------------------------------------------------------------


@dataclass(frozen=True)
class _DualPoint:
    """Eigenpairs of H = sum_g w_g C_g, ascending; the dual and its derivatives at w."""

    weights: Array
    mu: Array
    U: Array
    leading: Array  # the r last columns of U, largest first
    value: float
    losses: Array  # supergradient: of the groups under the leading eigenvectors
    hessian: Array  # for steps within the simplex: the last row and column are 0


class _Dual:
    """The dual function phi(w) = sum_g w_g best_g - top_r(sum_g w_g C_g)."""

    def __init__(self, C: Array, r: int, best: Array) -> None:
        self.C, self.r, self.best = C, r, best
        self.rounding = 4 * EPS * math.sqrt(C.shape[1]) * float(np.abs(best).max())

    def evaluate(self, weights: Array) -> _DualPoint:
        """Eigendecomposition of H, and phi with two derivatives."""
        H = np.tensordot(weights, self.C, axes=1)
        with long_blas_call(0.2 * len(H) ** 3):
            mu, U = np.linalg.eigh(H)
        split = mu.size - self.r
        low, high = mu[:split], mu[split:][::-1]
        leading = np.ascontiguousarray(U[:, split:][:, ::-1])
        CU = self.C @ leading
        value = float(weights @ self.best) - float(high.sum())
        losses = self.best - np.einsum("ij,gij->g", leading, CU)
        # With the last weight as 1 less the others phi''_gh is -2 sum_ij D^g_ij D^h_ij
        # / (mu_j - mu_i), D^g = U^T (C_g - C_last) U. It is infinite at a tie: the
        # floor makes it large, which ends Newton steps there.
        floor = EPS * max(abs(mu[0]), abs(mu[-1])) + TINY
        distance = np.maximum(high - low[:, None], floor)
        # Divided first: squares of covariances may overflow.
        D = U[:, :split].T @ (CU[:-1] - CU[-1]) / np.sqrt(distance)
        hessian = np.zeros((len(self.C), len(self.C)))
        hessian[:-1, :-1] = -2 * np.tensordot(D, D, axes=([1, 2], [1, 2]))
        return _DualPoint(weights, mu, U, leading, value, losses, hessian)

    def oracle(self, weights: Array) -> tuple[float, Array, Array]:
        """Value, supergradient and Hessian."""
        point = self.evaluate(weights)
        return point.value, point.losses, point.hessian

    def solution(
        self, point: _DualPoint, n_iter: int, basis: Array | None = None
    ) -> GroupsSolution:
        """Measure a basis, by default the leading eigenvectors, as converged."""
        basis = point.leading if basis is None else basis
        losses = self.best - captured(self.C, basis)
        return GroupsSolution(point.weights, basis, losses, point.value, n_iter, True)

    def threshold(self, losses: Array, tol: float) -> float:
        """Return `tol` times the largest loss, but no less than rounding errors."""
        return max(tol * float(losses.max()), self.rounding)


# --- Two groups ----------------------------------------------------------------------


def solve_two_groups(
    C: Array,
    r: int,
    *,
    best: Array,
    tol: float = 1e-8,
    max_iter: int = 100,
    weights0: Array | None = None,
) -> GroupsSolution:
    """Maximise the dual at the weights (t, 1 - t); return weights and basis.

    phi' is the difference of the losses: a safeguarded Newton search for its root.
    Where it jumps, at a tie, a basis between the two sides has equal losses.
    """
    dual = _Dual(C, r, best)
    search = ConcaveSearch(0.0, 1.0, None if weights0 is None else weights0[0])
    points: list[_DualPoint] = []
    while not search.exhausted and len(points) < max_iter:
        point = dual.evaluate(np.array([search.x, 1 - search.x]))
        points.append(point)
        # 1. A smooth maximum. The slope is the difference of the losses: driven to
        #    1e-3 tol, it leaves digits to spare in their ratio.
        slope = float(point.losses[0] - point.losses[1])
        if abs(slope) <= dual.threshold(point.losses, 1e-3 * tol):
            return dual.solution(point, len(points))
        # 2. A tie: equal losses by rotating within a block of close eigenvalues.
        basis = equalized(dual, point, dual.threshold(point.losses, tol))
        if basis is not None:
            return dual.solution(point, len(points), basis)
        # 3. A Newton step, or bisection.
        search.update(point.value, slope, float(point.hessian[0, 0]))
    # 4. No point is good enough: the basis of them with the smallest largest loss.
    highest = max(points, key=lambda point: point.value)
    bases = [point.leading for point in points]
    bases += [
        basis for p in points if (basis := equalized(dual, p, np.inf)) is not None
    ]
    solutions = [dual.solution(highest, len(points), basis) for basis in bases]
    solution = min(solutions, key=lambda s: float(s.losses.max()))
    allowed = dual.threshold(highest.losses, tol)
    return replace(solution, converged=solution.gap <= allowed)


def equalized(dual: _Dual, point: _DualPoint, allowed: float) -> Array | None:
    """Basis with equal losses of two groups whose trace is within `allowed` of top_r.

    The block of eigenvalues around the r-th is widened until some subspace of it has
    the trace of C_A - C_B that equalises the losses.
    """
    mu, U, n, r = point.mu, point.U, point.mu.size, dual.r
    split = n - r
    low, high = split - 1, split  # the pair at the border, ascending order
    while low >= 0 and high < n and mu[high] - mu[low] <= allowed:
        # 1. The trace that the block has to contribute: what the eigenvectors above it
        #    leave of the difference of the best sums.
        block, above = slice(low, high + 1), slice(high + 1, n)
        trace_A, trace_B = dual.best - captured(dual.C, U[:, above])
        within_A, within_B = U[:, block].T @ dual.C @ U[:, block]
        # 2. A subspace of the block with this trace, and what it costs.
        V = subspace_of_trace(within_A - within_B, high - split + 1, trace_A - trace_B)
        if V is not None:
            remaining = float(np.einsum("ij,i,ij->", V, mu[block], V))
            cost = float(mu[split : high + 1].sum()) - remaining
            basis = np.hstack([U[:, above][:, ::-1], U[:, block] @ V])
            return basis if cost <= allowed else None
        # 3. Add the closer one of the neighbouring eigenvalues.
        below_gap = mu[high] - mu[low - 1] if low > 0 else np.inf
        above_gap = mu[high + 1] - mu[low] if high < n - 1 else np.inf
        if below_gap <= above_gap:
            low -= 1
        else:
            high += 1
    return None


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


# --- Any number of groups ------------------------------------------------------------


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
    dual = _Dual(C, r, best)
    if r == n:  # nothing to choose
        weights = np.full(n_groups, 1 / n_groups) if weights0 is None else weights0
        return dual.solution(dual.evaluate(weights), 1)
    # 1. Newton's method, for a maximum at which the dual is smooth. Its last step gains
    #    two digits more than asked for.
    inner_tol = 0.01 * tol
    smooth = maximize_on_simplex(
        dual.oracle,
        n_groups,
        x0=weights0,
        tol=inner_tol,
        atol=dual.rounding,
        max_iter=min(max_iter, MAX_NEWTON_STEPS),
    )
    point = dual.evaluate(smooth.x)
    solution = dual.solution(point, smooth.n_iter)
    if solution.gap <= dual.threshold(solution.losses, inner_tol):
        return solution
    local_search = partial(local_minimax, C, best, atol=dual.rounding)
    if solution.gap <= dual.threshold(solution.losses, tol):
        # Equalise the losses to more digits than the weights have.
        U = local_search(solution.basis, smooth.x, max_iter=3)
        return dual.solution(point, smooth.n_iter, U)

    # 2. Eigenvalues tie: the relaxation over the Fantope {0 <= W <= I, Tr W = r}.
    relaxed = minimax_on_fantope(C, best, r, tol=inner_tol, max_iter=max_iter)
    if smooth.value <= relaxed.bound:
        point = dual.evaluate(relaxed.weights)
    target = max(smooth.value, relaxed.bound)
    target += max(tol * relaxed.value, dual.rounding)
    # 3. Round its optimum to a basis: a local search from its leading eigenvectors.
    U = np.linalg.eigh(relaxed.W)[1][:, ::-1][:, :r]
    U = local_search(U, point.weights, max_iter=max_iter)

    def largest_loss(basis: Array) -> float:
        return float((best - captured(C, basis)).max())

    if largest_loss(U) > target:
        # 4. A gap: a few steps from groups' own eigenvectors, the best one continued.
        starts = [vectors[:, -r:] for vectors in np.linalg.eigh(C)[1]]
        starts = sorted(starts, key=largest_loss)[:MAX_STARTS]
        bases = [local_search(start, point.weights, max_iter=15) for start in starts]
        other = min(bases, key=largest_loss)
        other = local_search(other, point.weights, max_iter=max_iter)
        U = min([U, other], key=largest_loss)
    tied = dual.solution(point, smooth.n_iter + relaxed.n_iter, U)
    upper = min(smooth.upper_bound, relaxed.value, float(tied.losses.max()))
    allowed = dual.threshold(tied.losses, tol)
    return replace(tied, converged=upper - tied.dual_value <= allowed)


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
