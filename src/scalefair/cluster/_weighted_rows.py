"""Whole rows, of different weights or of mixed groups, assigned by a dual's prices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cluster._assignment_dual import DualSolution
from scalefair.kernels import round_minima

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def round_weighted(
    problem: Any, dual: DualSolution
) -> tuple[Ints, Array, float, str, DualSolution]:
    """Return labels, prices of groups, lower bound, a message, and the dual.

    No flow moves a row for one of another weight. The dual is for half a row beyond the
    shares: the other half is left for rounding. Its prices are of use for a whole row,
    too, as a lower bound.
    """
    bounds, weights, P = problem.bounds, problem.row_weights, problem.P
    values = problem.best_columns(dual.prices)[1]
    lower_bound = float(weights @ values - 2 * dual.multipliers.sum())
    # The heaviest rows come first, so that light ones even out the sums.
    sets = np.nonzero(bounds.members.T)[1].reshape(-1, bounds.n_attributes)
    # Mixed rows are of all groups, each by its probability.
    sets = sets[problem.kinds] if P is None else np.tile(sets.T, (len(P), 1))
    order, labels = np.argsort(-weights, kind="stable"), problem.C.argmin(axis=1)
    if P is not None:  # rows of no group pay no prices
        order = order[P[order].any(axis=1)]
    interior = 2 * bounds.group_constraints @ dual.interior
    temperature = dual.temperature
    round_minima(problem.C, weights, sets, interior, temperature, order, labels, P)
    _fill(problem, labels)
    prices = 2 * bounds.group_constraints @ dual.multipliers
    message = "Lower bound from a dual, whose shares of weighted rows are rounded."
    return labels, prices, lower_bound, message, dual


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
