"""Whole rows, of different weights or of mixed groups, assigned by a dual's prices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import ROUNDING
from scalefair.cluster._assignment_dual import DualSolution, maximise_dual
from scalefair.kernels import round_minima

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def round_weighted(
    problem: Any,
) -> tuple[Ints, Array, float, str, DualSolution]:
    """Return labels, prices of groups, lower bound, a message, and the dual.

    No flow moves a row for one of another weight. The dual is for half a row beyond the
    shares: the other half is left for rounding. Its prices are of use for a whole row,
    too, as a lower bound.
    """
    dual, A = _maximise(problem)
    lower_bound = _bound(problem, dual)
    labels, prices = _round(problem, dual, A), A @ dual.multipliers
    if problem.sizes(labels).min() < problem.min_size > 1:
        # Sizes, too, are bounded: as far as rows are of known groups, and with a row
        # more for rounding, but half a row to spare.
        n, k = problem.C.shape
        n_known = problem.bounds.sizes.sum()
        size = min(problem.min_size + 1, n / k - 0.5) * n_known / n
        sized, A = _maximise(problem, size)
        if n_known >= n * (1 - ROUNDING):
            lower_bound = max(lower_bound, _bound(problem, sized))
        labels, prices = _round(problem, sized, A), A @ sized.multipliers
    _fill(problem, labels)
    message = "Lower bound from a dual, whose shares of weighted rows are rounded."
    return labels, prices, lower_bound, message, dual


def _bound(problem: Any, dual: DualSolution) -> float:
    """Lower bound on the cost for a row beyond the shares, and `min_size`."""
    values = problem.best_columns(dual.prices)[1]
    n_shares = problem.bounds.group_constraints.shape[1]
    shares, sizes = dual.multipliers[:n_shares], dual.multipliers[n_shares:]
    bound = problem.row_weights @ values - 2 * shares.sum()
    return float(bound + problem.min_size * sizes.sum())


def _maximise(problem: Any, min_size: float = 0.0) -> tuple[DualSolution, Array]:
    """Return the dual, with lower bounds on sizes if asked, and its bounds by group."""
    bounds, start = problem.bounds, problem.start if min_size == 0 else None
    A = 2 * bounds.group_constraints
    limits = np.ones((A.shape[1], 1))
    if min_size > 0:
        A = np.column_stack([A, np.full(len(A), -1 / bounds.n_attributes)])
        limits = np.append(limits, [[-min_size]], axis=0)
    C, weights, P = problem.C, problem.row_weights, problem.P
    A_kinds = bounds.members.T @ A
    dual = maximise_dual(C, problem.offsets, A_kinds, start, weights, P, limits)
    return dual, A


def _round(problem: Any, dual: DualSolution, A: Array) -> Ints:
    """Round the shares of rows in clusters."""
    # The heaviest rows come first, so that light ones even out the sums.
    bounds, weights, P = problem.bounds, problem.row_weights, problem.P
    sets = np.nonzero(bounds.members.T)[1].reshape(-1, bounds.n_attributes)
    # Mixed rows are of all groups, each by its probability.
    sets = sets[problem.kinds] if P is None else np.tile(sets.T, (len(P), 1))
    order, labels = np.argsort(-weights, kind="stable"), problem.C.argmin(axis=1)
    if P is not None:  # rows of no group pay no prices
        order = order[P[order].any(axis=1)]
    prices, temperature = A @ dual.interior, dual.temperature
    round_minima(problem.C, weights, sets, prices, temperature, order, labels, P)
    result: Ints = labels
    return result


def _fill(problem: Any, labels: Ints) -> None:
    """Bring the cheapest rows of each kind to clusters that are too small.

    Rows of mixed kinds are all alike.
    """
    min_size, sizes = problem.min_size, problem.sizes(labels)
    if sizes.min() >= min_size:
        return
    k, c = problem.C.shape[1], len(problem.offsets) - 1
    cells = problem.kinds * k + labels
    counts = np.bincount(cells, problem.row_weights, c * k).reshape(c, k)
    kind_sizes = counts.sum(axis=1)
    needed = kind_sizes / kind_sizes.sum() * min_size
    for j in np.flatnonzero(sizes < min_size):
        costs = problem.C[:, j] - problem.C[np.arange(len(labels)), labels]
        for s in np.argsort(-needed, kind="stable"):
            rows = np.arange(*problem.offsets[s : s + 2])
            for i in rows[np.argsort(costs[rows], kind="stable")]:
                if counts[s, j] >= needed[s] or (min_size == sizes[j] == 1):
                    break
                a, weight = labels[i], problem.row_weights[i]
                size = weight if min_size > 1 else 1
                if sizes[a] - size >= min_size:  # else that one would be too small
                    labels[i] = j
                    counts[s, j] += weight
                    sizes[a] -= size
                    sizes[j] += size
