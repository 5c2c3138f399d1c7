"""Fair PCA of any number of groups: the dual, and a certified subspace."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.decomposition._covariances import GroupsSolution, captured, compress
from scalefair.optimize import (
    maximize_on_simplex,
    maximize_quadratic_on_simplex,
    minimax_on_fantope,
)

Array = NDArray[np.float64]

# At a smooth maximum Newton's method gains these digits in its last step.
_AIM = 1e-2
# A smooth maximum takes fewer calls; eigenvalues that tie, more.
_NEWTON_CALLS = 20
_LAST_STEPS = 3
# Eigenvalues of the relaxed optimum this close to 0 or 1 are taken for them.
_WHOLE = 1e-6
# Local searches start from the best few of the candidates; within the block of the
# other eigenvalues these are, among others, this many selections of its axes.
_STARTS = 6
_MOST_SELECTIONS = 50
_BLOCK_STEPS = 100
# Searches from the groups' own eigenvectors: the best of them so far goes on.
_FIRST_STEPS = 15


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
    # 1. Newton's method, for a maximum at which the dual is smooth.
    smooth = maximize_on_simplex(
        dual,
        n_groups,
        x0=weights0,
        tol=_AIM * tol,
        atol=dual.rounding,
        max_iter=min(max_iter, _NEWTON_CALLS),
    )
    solution = dual.solution(smooth.x, dual.basis(smooth.x), smooth.n_iter)
    if dual.close(solution.gap, solution.losses, _AIM * tol):
        return solution
    if dual.close(solution.gap, solution.losses, tol):
        # Equalise the losses to more digits than the weights have.
        U, atol = solution.basis, dual.rounding
        U = local_minimax(C, best, U, smooth.x, atol=atol, max_iter=_LAST_STEPS)
        return dual.solution(smooth.x, U, smooth.n_iter)

    # 2. Eigenvalues tie: the relaxation over the Fantope {0 <= W <= I, Tr W = r}.
    relaxed = minimax_on_fantope(C, best, r, tol=_AIM * tol, max_iter=max_iter)
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
        n, r = self.n, self.r
        mu, U = np.linalg.eigh(np.tensordot(weights, self.C, axes=1))
        CU = self.C @ U[:, n - r :]
        losses = self.best - np.einsum("ij,gij->g", U[:, n - r :], CU)
        coupling = np.matmul(U[:, : n - r].T, CU)
        distance = mu[None, n - r :] - mu[: n - r, None]
        # At a tie the second derivative is infinite: a large one stops the Newton step.
        floor = EPS * max(abs(mu[0]), abs(mu[-1])) + TINY
        scaled = coupling / np.sqrt(np.maximum(distance, floor))
        scaled = scaled.reshape(losses.size, -1)
        value = float(weights @ self.best) - float(mu[n - r :].sum())
        return value, losses, -2 * (scaled @ scaled.T)

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

    Eigenvectors of eigenvalue 1 are taken, those of eigenvalues between 0 and 1 span a
    block to choose from. A local search improves the basis. If its largest loss exceeds
    `target`, others start from the groups' own eigenvectors.
    """
    # 1. p eigenvalues are 1, q lie between 0 and 1: choose k directions among these.
    w, U = np.linalg.eigh(W)
    w, U = w[::-1], U[:, ::-1]
    p = int((w > 1 - _WHOLE).sum())
    q = int((w > _WHOLE).sum()) - p
    k = r - p
    basis = U[:, :r]
    if 0 < k < q:
        leading, block = U[:, :p], U[:, p : p + q]
        remaining = best - captured(C, leading)
        V = _basis_in_block(compress(C, block), remaining, w[p : p + q], weights, k)
        basis = np.hstack([leading, block @ V])
    # 2. Local search.
    basis = local_minimax(C, best, basis, weights, atol=atol, max_iter=max_iter)
    if float((best - captured(C, basis)).max()) <= target:
        return basis
    # 3. A few steps from each group's own eigenvectors; the best basis is continued.
    group_bases = [vectors[:, -r:] for vectors in np.linalg.eigh(C)[1]]
    bases = [
        local_minimax(C, best, U, weights, atol=atol, max_iter=_FIRST_STEPS)
        for U in _by_largest_loss(C, best, group_bases)[:_STARTS]
    ]
    other = _by_largest_loss(C, best, bases)[0]
    other = local_minimax(C, best, other, weights, atol=atol, max_iter=max_iter)
    return _by_largest_loss(C, best, [basis, other])[0]


def _by_largest_loss(A: Array, b: Array, bases: list[Array]) -> list[Array]:
    """Bases in ascending order of their largest loss."""
    return sorted(bases, key=lambda U: float((b - captured(A, U)).max()))


def _basis_in_block(A: Array, b: Array, w: Array, weights: Array, k: int) -> Array:
    """Basis of k columns with a small largest loss.

    An extreme point of the relaxed optima is a projector for two groups. If it is not,
    local searches start there and from selections of the block's axes.
    """
    q = w.size
    extreme = extreme_point(A, b, np.diag(w))
    values, vectors = np.linalg.eigh(extreme)
    start = vectors[:, ::-1][:, :k]
    if np.minimum(values, 1 - values).max() <= _WHOLE:
        return start
    starts = [start, np.eye(q)[:, :k]]
    starts += [np.linalg.eigh(M)[1][:, q - k :] for M in A]
    selections = islice(combinations(range(q), k), _MOST_SELECTIONS)
    starts += [vectors[:, list(axes)] for axes in selections]
    atol = 8 * EPS * float(np.abs(A).max())
    bases = [
        local_minimax(A, b, V, weights, atol=atol, max_iter=_BLOCK_STEPS)
        for V in _by_largest_loss(A, b, starts)[:_STARTS]
    ]
    return _by_largest_loss(A, b, bases)[0]


def extreme_point(A: Array, b: Array, W: Array) -> Array:
    """Move `W` within the Fantope, its largest loss ``b_g - <A_g, W>`` unchanged.

    At most q eigenvalues, ``q (q + 1) / 2 <= G + 1``, stay strictly between 0 and 1:
    Pataki, "On the rank of extreme matrices in semidefinite programs", 1998.
    """
    size = max(float(np.abs(A).max()), TINY)
    n, G = W.shape[0], b.size
    losses = b - np.einsum("gij,ij->g", A, W)
    # Losses within rounding of the largest are active: they change alike.
    active = losses >= losses.max() - 1e-7 * size
    for _ in range(n + G):
        # 1. Eigenvectors U of the eigenvalues strictly between 0 and 1.
        w, U = np.linalg.eigh(W)
        inner = np.minimum(w, 1 - w) > _WHOLE
        q = int(inner.sum())
        if q == 0:
            break
        # 2. A direction U D U^T that changes neither the active losses nor the trace.
        block = compress(A, U[:, inner])
        direction = _null_direction(np.concatenate([block[active], np.eye(q)[None]]))
        if direction is None:
            break
        # 3. Follow it until an eigenvalue is 0 or 1, or another loss is the largest.
        slopes = -np.einsum("gij,ij->g", block, direction)
        step = _max_step_inside(w[inner], direction)
        slack = float(losses.max()) - losses
        rising = ~active & (slopes > 0)
        if rising.any():
            meeting = np.where(rising, slack / np.where(rising, slopes, 1.0), np.inf)
            step = min(step, float(meeting.min()))
            active |= meeting <= step * (1 + ROUNDING)
        W = W + step * (U[:, inner] @ direction @ U[:, inner].T)
        losses = losses + step * slopes
    return (W + W.T) / 2


def _null_direction(matrices: Array) -> Array | None:
    """Symmetric matrix of norm 1 orthogonal to all `matrices`, or None."""
    q = matrices.shape[1]
    rows, columns = np.triu_indices(q)
    scale = np.where(rows == columns, 1.0, np.sqrt(2.0))
    equations = matrices[:, rows, columns] * scale
    norms = np.linalg.norm(equations, axis=1, keepdims=True)
    equations = equations / np.where(norms > 0, norms, 1.0)
    _, s, Vt = np.linalg.svd(equations, full_matrices=True)
    rank = int((s > 1e-7).sum())
    if rank == Vt.shape[0]:
        return None
    direction = np.zeros((q, q))
    direction[rows, columns] = Vt[-1] / scale
    return direction + np.triu(direction, 1).T


def _max_step_inside(w: Array, direction: Array) -> float:
    """Largest step from 0 < diag(w) < I along the direction that stays in [0, I]."""
    step = np.inf
    for p, d in ((w, direction), (1 - w, -direction)):
        root = 1 / np.sqrt(p)
        smallest = float(np.linalg.eigvalsh(d * np.outer(root, root))[0])
        if smallest < 0:
            step = min(step, -1 / smallest)
    return step


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
