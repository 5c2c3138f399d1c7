"""A pass of local search that lowers the normalised cut, with counts in bounds."""

from __future__ import annotations

import math

import numpy as np

from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, FloatArray, IntArray

# Nodes remembered for each kind and pair of clusters, with whom others change places.
N_PARTNERS = 6
# A pass that lowers the cut by less than this part is the last.
CUT_RTOL = 5e-4
# The cut must fall by more than its rounding, or nodes could cycle.
MIN_GAIN = 1e-12
# A count that is beyond its bound by less than this part of a node meets it.
ROUNDING = 1e-9


@cached_njit(nogil=True)
def degrees_and_inner_weights(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    stride: int,
    labels: IntArray,
    n_clusters: int,
) -> tuple[Float64Array, Float64Array]:
    """Row sums (n,) of a CSR matrix, and its sums (n_clusters,) within clusters.

    Entry e is ``data[e * stride]``.
    """
    degrees, inner = np.zeros(len(labels)), np.zeros(n_clusters)
    for i in range(len(labels)):
        within = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            degrees[i] += data[e * stride]
            if labels[indices[e]] == labels[i]:
                within += data[e * stride]
        inner[labels[i]] += within
    return degrees, inner


@cached_njit(nogil=True)
def refine(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    stride: int,
    constant: float,
    degrees: Float64Array,
    kinds: IntArray,
    lower: Float64Array,
    upper: Float64Array,
    min_size: int,
    order: IntArray,
    labels: IntArray,
    counts: IntArray,
    volumes: Float64Array,
    inner: Float64Array,
    max_iter: int,
) -> tuple[float, int]:
    """Move nodes, or let two of a kind change places, where the normalised cut falls.

    The cut is ``sum_l 1 - inner_l / volumes_l`` for the weights of a symmetric CSR
    matrix plus a `constant` in every entry, whose row sums are the `degrees`; entry e
    has the weight ``data[e * stride]``: a stride of 0 says that all are equal. A node
    moves only if all `counts` (n_kinds, k) of both clusters stay within
    ``lower * size`` and ``upper * size``, rounded outwards, and the cluster that it
    leaves keeps `min_size` nodes; two of a kind that change places change no count.
    Passes visit the nodes in `order`: all in the first two, so that every node meets
    its partners, then those next to a change. One that lowers the cut by less than
    `CUT_RTOL` of it is the last. Overwrites `labels`, `counts`, `volumes` and `inner`,
    and returns the cut and the number of passes.
    """
    n, (n_kinds, k) = len(degrees), counts.shape
    sizes = counts.sum(axis=0)
    partners = np.full((n_kinds, k, k, N_PARTNERS), -1)
    worth = np.full((n_kinds, k, k, N_PARTNERS), -np.inf)
    links, touched, seen = np.zeros(k), np.empty(k, np.int64), np.full(k, -1)
    active = np.ones(n, np.bool_)
    cut = (1 - inner / volumes).sum()
    last = cut
    for visit in range(max_iter * n):
        if visit % n == 0 and visit >= 2 * n:
            if last - cut <= CUT_RTOL * cut:
                return cut, visit // n
            last = cut
        i = order[visit % n]
        if not active[i]:
            continue
        active[i] = visit < n
        a, s = labels[i], kinds[i]
        # Weights of the edges to each cluster, of those that there are.
        loop, n_touched = constant, 0
        links[a] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            b = labels[indices[e]]
            if indices[e] == i:
                loop += data[e * stride]
                continue
            if seen[b] != visit:
                seen[b], links[b] = visit, 0.0
                touched[n_touched] = b
                n_touched += 1
            links[b] += data[e * stride]
        best, to, partner = MIN_GAIN, -1, -1
        without = volumes[a] - degrees[i]
        leaves = inner[a] - 2 * (links[a] + constant * (sizes[a] - 1)) - loop
        for f in range(n_touched if without > 0.0 else 0):
            b = touched[f]
            if b == a:
                continue
            before = inner[a] / volumes[a] + inner[b] / volumes[b]
            joins = inner[b] + 2 * (links[b] + constant * sizes[b]) + loop
            gain = leaves / without + joins / (volumes[b] + degrees[i]) - before
            if (
                gain > best
                and sizes[a] > min_size
                and _fits(counts, lower, upper, sizes, s, a, b)
            ):
                best, to, partner = gain, b, -1
            # A partner's own move is worth about so much: most are not looked at.
            for c in range(N_PARTNERS):
                j = partners[s, b, a, c]
                if j < 0 or gain + worth[s, b, a, c] <= best:
                    continue
                if labels[j] != b:
                    partners[s, b, a, c], worth[s, b, a, c] = -1, -np.inf
                    continue
                change_a, change_b = _exchange(
                    indptr,
                    indices,
                    data,
                    stride,
                    labels,
                    i,
                    j,
                    a,
                    b,
                    links[a],
                    links[b],
                )
                moved = degrees[i] - degrees[j]
                exchanged = (
                    (inner[a] + change_a) / (volumes[a] - moved)
                    + (inner[b] + change_b) / (volumes[b] + moved)
                    - before
                )
                if exchanged > best:
                    best, to, partner = exchanged, b, j
            # Be a partner of nodes in b, in the place of the least useful one.
            least = 0
            for c in range(N_PARTNERS):
                if partners[s, a, b, c] == i:
                    least = -1
                    break
                if worth[s, a, b, c] < worth[s, a, b, least]:
                    least = c
            if least >= 0 and gain > worth[s, a, b, least]:
                partners[s, a, b, least], worth[s, a, b, least] = i, gain
        if to < 0:
            continue
        b, j, cut = to, partner, cut - best
        moved = degrees[i]
        if j < 0:
            inner[a] = leaves
            inner[b] += 2 * (links[b] + constant * sizes[b]) + loop
            sizes[a] -= 1
            sizes[b] += 1
            counts[s, a] -= 1
            counts[s, b] += 1
        else:
            change_a, change_b = _exchange(
                indptr, indices, data, stride, labels, i, j, a, b, links[a], links[b]
            )
            inner[a] += change_a
            inner[b] += change_b
            moved -= degrees[j]
            labels[j] = a
            active[j] = True
            for e in range(indptr[j], indptr[j + 1]):
                active[indices[e]] = True
        labels[i] = b
        active[i] = True
        for e in range(indptr[i], indptr[i + 1]):
            active[indices[e]] = True
        volumes[a] -= moved
        volumes[b] += moved
    return cut, max_iter


@cached_njit(nogil=True)
def _fits(
    counts: IntArray,
    lower: Float64Array,
    upper: Float64Array,
    sizes: IntArray,
    s: int,
    a: int,
    b: int,
) -> bool:
    """Whether all counts stay within their bounds if a node of kind s moves to b."""
    for r in range(counts.shape[0]):
        for cluster, change in ((a, -1), (b, 1)):
            size = sizes[cluster] + change
            count = counts[r, cluster] + (change if r == s else 0)
            if count < math.floor(lower[r] * size + ROUNDING):
                return False
            if count > math.ceil(upper[r] * size - ROUNDING):
                return False
    return True


@cached_njit(nogil=True)
def _exchange(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    stride: int,
    labels: IntArray,
    i: int,
    j: int,
    a: int,
    b: int,
    i_to_a: float,
    i_to_b: float,
) -> tuple[float, float]:
    """Return the changes of the weights inside of a and of b if i and j exchange."""
    j_to_a, j_to_b, edge, loops = 0.0, 0.0, 0.0, 0.0
    for e in range(indptr[j], indptr[j + 1]):
        if indices[e] == i:
            edge += data[e * stride]
        elif indices[e] == j:
            loops += data[e * stride]
        elif labels[indices[e]] == a:
            j_to_a += data[e * stride]
        elif labels[indices[e]] == b:
            j_to_b += data[e * stride]
    for e in range(indptr[i], indptr[i + 1]):
        if indices[e] == i:
            loops -= data[e * stride]
    return 2 * (j_to_a - i_to_a) + loops, 2 * (i_to_b - edge - j_to_b) - loops
