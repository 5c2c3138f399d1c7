"""Fair PCA of any number of groups: the dual, and a certified subspace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.decomposition._covariances import GroupsSolution, captured
from scalefair.optimize import (
    maximize_on_simplex,
    maximize_quadratic_on_simplex,
    minimax_on_fantope,
)

Array = NDArray[np.float64]

# A smooth maximum takes fewer Newton steps; eigenvalues that tie, more.
MAX_NEWTON_STEPS = 20
# Groups from whose eigenvectors a local search starts.
MAX_STARTS = 6


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
        return dual.solution(weights, np.eye(n), 1)
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
    solution = dual.solution(smooth.x, dual.basis(smooth.x), smooth.n_iter)
    if dual.close(solution.gap, solution.losses, inner_tol):
        return solution
    if dual.close(solution.gap, solution.losses, tol):
        # Equalise the losses to more digits than the weights have.
        U, atol = solution.basis, dual.rounding
        U = local_minimax(C, best, U, smooth.x, atol=atol, max_iter=3)
        return dual.solution(smooth.x, U, smooth.n_iter)

    # 2. Eigenvalues tie: the relaxation over the Fantope {0 <= W <= I, Tr W = r}.
    relaxed = minimax_on_fantope(C, best, r, tol=inner_tol, max_iter=max_iter)
    weights = smooth.x if smooth.value > relaxed.bound else relaxed.weights
    target = max(smooth.value, relaxed.bound)
    target += max(tol * relaxed.value, dual.rounding)
    # 3. Round its optimum to a basis.
    basis = basis_from_fantope(
        C, best, relaxed.W, weights, r, target, atol=dual.rounding, max_iter=max_iter
    )
    tied = dual.solution(weights, basis, smooth.n_iter + relaxed.n_iter)
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

    def basis(self, weights: Array) -> Array:
        """Leading eigenvectors of the weighted sum, largest first."""
        U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))[1]
        return np.ascontiguousarray(U[:, self.n - self.r :][:, ::-1])

    def solution(self, weights: Array, basis: Array, n_iter: int) -> GroupsSolution:
        """Measure the losses of a basis and the dual value of the weights."""
        mu = np.linalg.eigvalsh(np.tensordot(weights, self.C, axes=1))
        value = float(weights @ self.best) - float(mu[self.n - self.r :].sum())
        losses = self.best - captured(self.C, basis)
        return GroupsSolution(weights, basis, losses, value, n_iter, True)

    def close(self, gap: float, losses: Array, tol: float) -> bool:
        """Whether a gap is within the tolerance, or rounding."""
        return bool(gap <= max(tol * float(losses.max()), self.rounding))


def basis_from_fantope(
    C: Array,
    best: Array,
    W: Array,
    weights: Array,
    r: int,
    target: float,
    *,
    atol: float,
    max_iter: int = 100,
) -> Array:
    """Orthonormal basis with a small largest loss, from the relaxed optimum `W`.

    A local search starts from the leading eigenvectors of `W`. If the largest loss
    stays above `target`, others start from the groups' own eigenvectors.
    """
    basis = np.linalg.eigh(W)[1][:, ::-1][:, :r]
    basis = local_minimax(C, best, basis, weights, atol=atol, max_iter=max_iter)
    if float((best - captured(C, basis)).max()) <= target:
        return basis
    # A few steps from each group's own eigenvectors; the best basis is continued.
    starts = [vectors[:, -r:] for vectors in np.linalg.eigh(C)[1]]
    bases = [
        local_minimax(C, best, U, weights, atol=atol, max_iter=15)
        for U in _by_largest_loss(C, best, starts)[:MAX_STARTS]
    ]
    other = _by_largest_loss(C, best, bases)[0]
    other = local_minimax(C, best, other, weights, atol=atol, max_iter=max_iter)
    return _by_largest_loss(C, best, [basis, other])[0]


def _by_largest_loss(C: Array, best: Array, bases: list[Array]) -> list[Array]:
    """Bases in ascending order of their largest loss."""
    return sorted(bases, key=lambda U: float((best - captured(C, U)).max()))


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
