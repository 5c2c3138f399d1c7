"""One sweep of coordinate descent over the rows of a cluster indicator."""

from __future__ import annotations

import numpy as np

from scalefair._rounding import ROUNDING
from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray


@cached_njit()
def indicator_sweep(
    indptr: IntArray,
    indices: IntArray,
    data: Float64Array,
    degrees: Float64Array,
    kinds: IntArray,
    shares: Float64Array,
    penalty_weight: float,
    order: IntArray,
    labels: IntArray,
    inside: Float64Array,
    volumes: Float64Array,
    counts: Float64Array,
) -> int:
    """Give each node, in the order given, the cluster where the objective is least.

    The objective is the sum over the clusters of
    ``1 - inside / volumes + penalty_weight * |counts / size - shares|^2``, for a
    symmetric affinity with row sums `degrees`; `inside` counts every edge twice, loops
    once, and `counts` (k, h) are members by kind. Labels and totals are updated in
    place. A row with m entries takes O(m + k) operations: two terms of the sum change,
    and they follow from running totals. The last node of a cluster stays. Rows are
    visited one after the other, whatever the number of threads. Returns how many nodes
    moved.
    """
    k = len(volumes)
    # Sizes, |counts|^2 and counts . shares of the clusters.
    sizes, squares = counts.sum(axis=1), (counts**2).sum(axis=1)
    products = (counts * shares).sum(axis=1)
    totals = inside, volumes, counts, sizes, squares, products
    # A move must lower the objective by more than its rounding, or rows could cycle.
    min_gain = 10 * ROUNDING * (1.0 + penalty_weight)
    links = np.zeros(k)
    # Terms of the objective, less their constant: 1 + penalty_weight |shares|^2.
    terms = np.empty(k)
    for c in range(k):
        terms[c] = _term(
            (inside[c], volumes[c], sizes[c], squares[c], products[c]), penalty_weight
        )
    n_moves = 0
    for i in order:
        a = labels[i]
        if sizes[a] == 1:
            continue
        # Step 1: weights of the node's edges to each cluster.
        links[:] = 0.0
        loop = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] == i:
                loop += data[e]
            else:
                links[labels[indices[e]]] += data[e]
        node = degrees[i], loop, kinds[i], shares[kinds[i]]
        # Step 2: change of the terms of a, which the node leaves, and b, its best goal.
        leave = _totals_after(totals, a, -1, node, links)
        leave_change = _term(leave, penalty_weight) - terms[a]
        best_change, best = -min_gain, a
        for b in range(k):
            if b != a:
                join = _totals_after(totals, b, 1, node, links)
                change = leave_change + _term(join, penalty_weight) - terms[b]
                if change < best_change:
                    best_change, best = change, b
        # Step 3: move it.
        if best != a:
            n_moves += 1
            labels[i] = best
            join = _totals_after(totals, best, 1, node, links)
            for c, after, change in ((a, leave, -1), (best, join, 1)):
                inside[c], volumes[c], sizes[c], squares[c], products[c] = after
                counts[c, kinds[i]] += change
                terms[c] = _term(after, penalty_weight)
    return n_moves


@cached_njit()
def _totals_after(totals, c, sign, node, links):
    """Totals of cluster c if a node joins it (sign 1) or leaves it (-1)."""
    inside, volumes, counts, sizes, squares, products = totals
    degree, loop, kind, share = node
    return (
        inside[c] + sign * (2.0 * links[c] + loop),
        volumes[c] + sign * degree,
        sizes[c] + sign,
        # (m + sign)^2 - m^2, m the members of the node's kind
        squares[c] + sign * (2.0 * counts[c, kind] + sign),
        products[c] + sign * share,
    )


@cached_njit()
def _term(totals, penalty_weight):
    inside, volume, size, square, product = totals
    deviation = (square - 2.0 * size * product) / (size * size)
    # Rounding can leave no volume when weights differ by 16 orders of magnitude.
    return penalty_weight * deviation - (inside / volume if volume > 0 else 0.0)
