"""Fair PCA of any number of groups: the dual, and a subspace with its certificate."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._pencil import GroupsSolution, captured, compress
from scalefair.optimize import (
    maximize_on_simplex,
    maximize_quadratic_on_simplex,
    minimax_on_fantope,
)

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
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
    """Maximise the dual; return a basis, whose loss the dual bounds from below.

    By Newton's method; where eigenvalues tie, by an interior-point method on the
    relaxation, which is rounded. `best` may be upper bounds; a gap may remain.
    """
    n_groups, n, _ = C.shape
    dual = _Dual(C, r, best)
    if r == n:  # nothing to choose
        weights = np.full(n_groups, 1 / n_groups) if weights0 is None else weights0
        return dual.solution(weights, np.eye(n), 1)
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
        # Level the losses to more digits than the weights have.
        U, atol = solution.basis, dual.rounding
        U = local_minimax(C, best, U, smooth.x, atol=atol, max_iter=_LAST_STEPS)
        return dual.solution(smooth.x, U, smooth.n_iter)

    relaxed = minimax_on_fantope(C, best, r, tol=_AIM * tol, max_iter=max_iter)
    weights = smooth.x if smooth.value > relaxed.bound else relaxed.weights
    target = max(smooth.value, relaxed.bound)
    target += max(tol * relaxed.value, dual.rounding)
    basis = basis_from_fantope(
        C, best, relaxed.W, weights, r, target, atol=dual.rounding, max_iter=max_iter
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

    Eigenvectors of eigenvalue 1 stay, those in between span a block to choose from;
    local searches follow, from the groups' own eigenvectors too if above `target`.
    """
    w, U = np.linalg.eigh(W)
    w, U = w[::-1], U[:, ::-1]
    p = int((w > 1 - _WHOLE).sum())
    q = int((w > _WHOLE).sum()) - p
    k = r - p
    basis = U[:, :r]
    if 0 < k < q:
        kept, block = U[:, :p], U[:, p : p + q]
        rest = best - captured(C, kept)
        V = _projector_in_block(compress(C, block), rest, w[p : p + q], weights, k)
        basis = np.hstack([kept, block @ V])
    basis = local_minimax(C, best, basis, weights, atol=atol, max_iter=max_iter)
    if float((best - captured(C, basis)).max()) <= target:
        return basis
    own = [vectors[:, -r:] for vectors in np.linalg.eigh(C)[1]]
    bases = [
        local_minimax(C, best, U, weights, atol=atol, max_iter=_FIRST_STEPS)
        for U in _fairest(C, best, own)[:_STARTS]
    ]
    leader = _fairest(C, best, bases)[0]
    leader = local_minimax(C, best, leader, weights, atol=atol, max_iter=max_iter)
    return _fairest(C, best, [basis, leader])[0]


def _fairest(A: Array, b: Array, bases: list[Array]) -> list[Array]:
    """Bases, the one with the smallest largest loss first."""
    return sorted(bases, key=lambda U: float((b - captured(A, U)).max()))


def _projector_in_block(A: Array, b: Array, w: Array, weights: Array, k: int) -> Array:
    """Basis of k columns with the smallest largest loss that is found.

    An extreme point of the relaxed optima is a projector for two groups. If it is
    none, local searches start there and from selections of the block's axes.
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
    atol = 8 * _EPS * float(np.abs(A).max())
    found = [
        local_minimax(A, b, V, weights, atol=atol, max_iter=_BLOCK_STEPS)
        for V in _fairest(A, b, starts)[:_STARTS]
    ]
    return _fairest(A, b, found)[0]


def extreme_point(A: Array, b: Array, W: Array) -> Array:
    """Move `W` within the Fantope, its largest loss ``b_g - <A_g, W>`` unchanged.

    At most q eigenvalues, ``q (q + 1) / 2 <= G + 1``, stay strictly between 0 and 1:
    Pataki, "On the rank of extreme matrices in semidefinite programs", 1998.
    """
    size = max(float(np.abs(A).max()), np.finfo(float).tiny)
    n, G = W.shape[0], b.size
    losses = b - np.einsum("gij,ij->g", A, W)
    # A loss this close to the largest is taken for it: their difference stays.
    active = losses >= losses.max() - 1e-7 * size
    for _ in range(n + G):
        w, U = np.linalg.eigh(W)
        inner = np.minimum(w, 1 - w) > _WHOLE
        q = int(inner.sum())
        if q == 0:
            break
        block = compress(A, U[:, inner])
        # Followed until an eigenvalue is 0 or 1, or another loss is the largest.
        direction = _null_direction(np.concatenate([block[active], np.eye(q)[None]]))
        if direction is None:
            break
        slopes = -np.einsum("gij,ij->g", block, direction)
        reach = _reach_inside(w[inner], direction)
        slack = float(losses.max()) - losses
        rising = ~active & (slopes > 0)
        if rising.any():
            meeting = np.where(rising, slack / np.where(rising, slopes, 1.0), np.inf)
            reach = min(reach, float(meeting.min()))
            active |= meeting <= reach * (1 + 1e-12)
        W = W + reach * (U[:, inner] @ direction @ U[:, inner].T)
        losses = losses + reach * slopes
    return (W + W.T) / 2


def _null_direction(matrices: Array) -> Array | None:
    """Symmetric matrix of norm 1 orthogonal to all of these; None if there is none."""
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


def _reach_inside(w: Array, direction: Array) -> float:
    """Largest step from 0 < diag(w) < I along the direction that stays in [0, I]."""
    reach = np.inf
    for p, d in ((w, direction), (1 - w, -direction)):
        root = 1 / np.sqrt(p)
        least = float(np.linalg.eigvalsh(d * np.outer(root, root))[0])
        if least < 0:
            reach = min(reach, -1 / least)
    return reach


def local_minimax(
    A: Array, b: Array, U: Array, weights: Array, *, atol: float, max_iter: int
) -> Array:
    """Decrease ``max_g b_g - Tr(U^T A_g U)`` over subspaces by damped Newton steps."""
    # `weights` are the first multipliers; the search ends at a likely gain of `atol`.
    size = float(np.abs(A).max())
    if U.shape[0] == U.shape[1] or size == 0.0:
        return U
    damping = 1e-2 * size
    losses = b - captured(A, U)
    U, Q, gradients, curvature = _frame(A, U, weights)
    for _ in range(max_iter):
        # U + Q D adds sum (sigma_j - rho_i) D_ij^2 to the weighted loss in second
        # order, damped where that is not convex: a quadratic program over the simplex.
        convex = np.maximum(curvature, damping)
        flat = (gradients / np.sqrt(convex)).reshape(losses.size, -1)
        K = 2 * (flat @ flat.T)
        multipliers = maximize_quadratic_on_simplex(losses, K, x0=weights)
        promised = (
            float(losses @ multipliers) - float(multipliers @ K @ multipliers) / 2
        )
        decrease = float(losses.max()) - promised
        if decrease <= atol or damping > 1e8 * size:
            break
        step = np.tensordot(multipliers, gradients, axes=1) / convex
        trial = np.linalg.qr(U + Q @ step)[0]
        new = b - captured(A, trial)
        kept = float(losses.max() - new.max()) / decrease
        if kept < 0.25:
            damping *= 4
        elif kept > 0.75:
            damping = max(damping / 4, 1e-12 * size)
        if kept < 0.1:
            continue
        losses, weights = new, multipliers
        U, Q, gradients, curvature = _frame(A, trial, weights)
    return U


def _frame(A: Array, U: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Axes of the weighted sum in the subspace and beside, gradients, curvatures."""
    r = U.shape[1]
    M = np.tensordot(weights, A, axes=1)
    Q = np.linalg.qr(U, mode="complete")[0][:, r:]
    sigma, E = np.linalg.eigh(U.T @ M @ U)
    rho, F = np.linalg.eigh(Q.T @ M @ Q)
    U, Q = U @ E, Q @ F
    gradients = np.matmul(Q.T, A @ U)
    return U, Q, gradients, sigma[None, :] - rho[:, None]
