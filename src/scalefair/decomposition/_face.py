"""From the relaxed optimum of fair PCA to a subspace."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._local_minimax import local_minimax
from scalefair.decomposition._pencil import captured, compress

__all__ = ["basis_from_fantope", "extreme_point"]

Array = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
# Eigenvalues of the relaxed optimum this close to 0 or 1 are taken for them.
_WHOLE = 1e-6
# Local searches start from the best few of the candidates; within the block of the
# other eigenvalues these are, among others, this many selections of its axes.
_STARTS = 6
_MOST_SELECTIONS = 50
_BLOCK_STEPS = 100
# Searches from the groups' own eigenvectors: the best of them so far goes on.
_FIRST_STEPS = 15


def basis_from_fantope(
    C: Array,
    best: Array,
    W: Array,
    weights: Array,
    r: int,
    *,
    gap: float,
    atol: float,
    max_iter: int = 100,
) -> Array:
    """Orthonormal basis with a small largest loss, from a relaxed optimum.

    Eigenvectors of `W` with eigenvalue 1 stay. Those with eigenvalues in between
    span the block of tied eigenvalues of the weighted sum: within it `W` is moved
    to an extreme point of the set of its equals (`extreme_point`), which is a
    projector for two groups. If it is none, local searches from there and from
    selections of the block's axes look for the projector with the smallest largest
    loss. At last all columns are moved by a few steps of the same search: with a
    positive duality gap the best subspace may lie outside the block, and the search
    is made from the groups' own leading eigenvectors as well.

    Parameters
    ----------
    C : ndarray of shape (G, n, n)
        Covariances.
    best : ndarray of shape (G,)
        Sums of their `r` largest eigenvalues.
    W : ndarray of shape (n, n)
        Symmetric, eigenvalues in [0, 1], trace `r`: minimises the largest of
        ``best_g - <C_g, W>``.
    weights : ndarray of shape (G,)
        Dual optimum.
    r : int
        Number of columns.
    gap : float
        A duality gap that suffices.
    atol : float
        Differences of the losses that do not matter.
    max_iter : int, default=100
        Most steps of the last search.

    Returns
    -------
    ndarray of shape (n, r)
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
    mu = np.linalg.eigvalsh(np.tensordot(weights, C, axes=1))
    bound = float(weights @ best) - float(mu[mu.size - r :].sum())
    if float((best - captured(C, basis)).max()) <= bound + gap:
        return basis
    starts = _best_few(C, best, [own[:, -r:] for own in np.linalg.eigh(C)[1]])
    bases = [
        local_minimax(C, best, U, weights, atol=atol, max_iter=_FIRST_STEPS)
        for U in starts
    ]
    leader = _smallest(C, best, bases)
    leader = local_minimax(C, best, leader, weights, atol=atol, max_iter=max_iter)
    return _smallest(C, best, [basis, leader])


def _smallest(A: Array, b: Array, bases: list[Array]) -> Array:
    return _best_few(A, b, bases)[0]


def _best_few(A: Array, b: Array, bases: list[Array]) -> list[Array]:
    return sorted(bases, key=lambda U: float((b - captured(A, U)).max()))[:_STARTS]


def _projector_in_block(A: Array, b: Array, w: Array, weights: Array, k: int) -> Array:
    """Basis of k columns with the smallest largest loss that a local search finds."""
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
        for V in _best_few(A, b, starts)
    ]
    return _smallest(A, b, found)


def extreme_point(A: Array, b: Array, W: Array) -> Array:
    """Move `W` within the Fantope, its largest loss unchanged, as far as it goes.

    As long as there is a symmetric direction that changes neither the trace nor one
    of the active losses, it is followed until an eigenvalue becomes 0 or 1, or
    another loss becomes the largest. The eigenvalues strictly in between are at most
    q with ``q (q + 1) / 2 <= G + 1`` in the end [1]_.

    Parameters
    ----------
    A : ndarray of shape (G, n, n)
        Symmetric matrices.
    b : ndarray of shape (G,)
        The losses are ``b_g - <A_g, W>``.
    W : ndarray of shape (n, n)
        Symmetric, eigenvalues in [0, 1].

    Returns
    -------
    ndarray of shape (n, n)

    References
    ----------
    .. [1] Pataki, "On the rank of extreme matrices in semidefinite programs and the
       multiplicity of optimal eigenvalues", Math. Oper. Res. 23 (1998).
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
        direction = _null_direction(np.concatenate([block[active], np.eye(q)[None]]))
        if direction is None:
            break
        slopes = -np.einsum("gij,ij->g", block, direction)
        reach = _reach_inside(np.diag(w[inner]), direction)
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


def _reach_inside(W: Array, direction: Array) -> float:
    """Largest step from 0 < W < I along the direction with 0 <= W + step <= I."""
    reach = np.inf
    for P, d in ((W, direction), (np.eye(len(W)) - W, -direction)):
        root = 1 / np.sqrt(np.diag(P))  # W is diagonal
        least = float(np.linalg.eigvalsh(d * np.outer(root, root))[0])
        if least < 0:
            reach = min(reach, -1 / least)
    return reach
