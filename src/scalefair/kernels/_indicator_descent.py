"""One sweep of coordinate descent over the rows of a cluster indicator."""

from __future__ import annotations

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray

# A move must lower the objective by more than its rounding, or rows could cycle.
_LEAST_GAIN = 1e-11


def weight_within(
    indptr: IntArray,
    indices: IntArray,
    data: Float64Array,
    labels: IntArray,
    n_clusters: int,
) -> Float64Array:
    """Return the sum of the CSR entries whose row and column share a cluster."""
    by_row = np.zeros(len(labels))
    _row_weights_within(indptr, indices, data, labels, by_row)
    return np.bincount(labels, by_row, n_clusters).astype(np.float64, copy=False)


@parallel(lambda indptr, indices, *_: indices.size)
def _row_weights_within(
    indptr: IntArray,
    indices: IntArray,
    data: Float64Array,
    labels: IntArray,
    by_row: Float64Array,
) -> None:
    for i in numba.prange(by_row.shape[0]):
        for p in range(indptr[i], indptr[i + 1]):
            if labels[indices[p]] == labels[i]:
                by_row[i] += data[p]


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
    k, h = counts.shape
    sizes = np.zeros(k)
    squares = np.zeros(k)  # |counts|^2
    products = np.zeros(k)  # counts . shares
    for c in range(k):
        for s in range(h):
            sizes[c] += counts[c, s]
            squares[c] += counts[c, s] ** 2
            products[c] += counts[c, s] * shares[s]
    least_gain = _LEAST_GAIN * (1.0 + penalty_weight)
    links = np.zeros(k)
    n_moves = 0
    for i in order:
        here = labels[i]
        if sizes[here] == 1:
            continue
        links[:] = 0.0
        loop = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if indices[p] == i:
                loop += data[p]
            else:
                links[labels[indices[p]]] += data[p]
        s = kinds[i]
        z = shares[s]
        d = degrees[i]
        # A term of the objective, less its constant: 1 + penalty_weight |shares|^2.
        left = _term(
            inside[here] - 2.0 * links[here] - loop,
            volumes[here] - d,
            sizes[here] - 1.0,
            squares[here] - 2.0 * counts[here, s] + 1.0,
            products[here] - z,
            penalty_weight,
        )
        leaving = left - _term(
            inside[here],
            volumes[here],
            sizes[here],
            squares[here],
            products[here],
            penalty_weight,
        )
        best = -least_gain
        there = here
        for c in range(k):
            if c == here:
                continue
            joined = _term(
                inside[c] + 2.0 * links[c] + loop,
                volumes[c] + d,
                sizes[c] + 1.0,
                squares[c] + 2.0 * counts[c, s] + 1.0,
                products[c] + z,
                penalty_weight,
            )
            change = (
                leaving
                + joined
                - _term(
                    inside[c],
                    volumes[c],
                    sizes[c],
                    squares[c],
                    products[c],
                    penalty_weight,
                )
            )
            if change < best:
                best = change
                there = c
        if there == here:
            continue
        n_moves += 1
        labels[i] = there
        for c, sign in ((here, -1.0), (there, 1.0)):
            inside[c] += sign * (2.0 * links[c] + loop)
            volumes[c] += sign * d
            squares[c] += sign * 2.0 * counts[c, s] + 1.0
            products[c] += sign * z
            sizes[c] += sign
            counts[c, s] += sign
    return n_moves


@cached_njit()
def _term(
    inside: float,
    volume: float,
    size: float,
    square: float,
    product: float,
    penalty_weight: float,
) -> float:
    deviation = (square - 2.0 * size * product) / (size * size)
    # Rounding can leave no volume when weights differ by 16 orders of magnitude.
    return penalty_weight * deviation - (inside / volume if volume > 0 else 0.0)
