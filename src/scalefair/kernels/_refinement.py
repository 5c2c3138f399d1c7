"""Local search that lowers the normalised cut, with counts in bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scalefair._rounding import ROUNDING
from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray

# Partners for an exchange that are kept of each kind and ordered pair of clusters.
N_PARTNERS = 6


@cached_njit(nogil=True)
def degrees_and_inner_weights(
    graph: Any, labels: IntArray, n_clusters: int
) -> tuple[Float64Array, Float64Array]:
    """Row sums (n,) of a CSR matrix, and its sums (n_clusters,) within clusters.

    A graph is ``(indptr, indices, data, stride)``: entry e weighs ``data[e * stride]``,
    and a stride of 0 says that all weights are equal.
    """
    indptr, indices, data, stride = graph
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
    graph: Any,
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

    The cut is ``sum_l 1 - inner_l / volumes_l`` for the weights of a symmetric `graph`
    (see `degrees_and_inner_weights`) plus a `constant` in every entry, whose row sums
    are the `degrees`. A node moves only if all `counts` (n_kinds, k) of both clusters
    stay within ``lower * size`` and ``upper * size``, rounded outwards, and the cluster
    that it leaves keeps `min_size` nodes; two of a kind that change places change no
    count. Passes visit the nodes in `order`: all in the first two, so that every node
    meets its partners, then those next to a change. One that lowers the cut by less
    than 1 / 2000 of it is the last. Overwrites `labels`, `counts`, `volumes` and
    `inner`, and returns the cut and the number of passes.
    """
    indptr, indices = graph[0], graph[1]
    n, (n_kinds, k) = len(degrees), counts.shape
    sizes = counts.sum(axis=0)
    # Nodes [s, a, b] of kind s in a that would gain most, or lose least, by going to b.
    partners = np.full((n_kinds, k, k, N_PARTNERS), -1)
    partner_gains = np.full((n_kinds, k, k, N_PARTNERS), -np.inf)
    links, adjacent, last_visit = np.zeros(k), np.empty(k, np.int64), np.full(k, -1)
    active = np.ones(n, np.bool_)
    cut = (1 - inner / volumes).sum()
    previous_cut = cut
    for visit in range(max_iter * n):
        # Step 1: at the end of a pass, from the second on, see what it has brought.
        if visit % n == 0 and visit >= 2 * n:
            if previous_cut - cut <= 5e-4 * cut:
                return cut, visit // n
            previous_cut = cut
        i = order[visit % n]
        if not active[i]:
            continue
        active[i] = visit < n
        a, s = labels[i], kinds[i]
        # Step 2: weights of the edges to each cluster, of those that there are.
        n_adjacent, loop = _link_clusters(
            graph, labels, i, visit, links, adjacent, last_visit
        )
        loop += constant
        # Step 3: the best move or exchange. The cut must fall by more than its
        # rounding, or nodes could cycle.
        best_gain, best_cluster, best_partner = ROUNDING, -1, -1
        volume_without = volumes[a] - degrees[i]
        inner_without = inner[a] - 2 * (links[a] + constant * (sizes[a] - 1)) - loop
        for f in range(n_adjacent if volume_without > 0.0 else 0):
            b = adjacent[f]
            if b == a:
                continue
            before = inner[a] / volumes[a] + inner[b] / volumes[b]
            inner_with = inner[b] + 2 * (links[b] + constant * sizes[b]) + loop
            gain = (
                inner_without / volume_without
                + inner_with / (volumes[b] + degrees[i])
                - before
            )
            if (
                gain > best_gain
                and sizes[a] > min_size
                and _fits(counts, lower, upper, sizes, s, a, b)
            ):
                best_gain, best_cluster, best_partner = gain, b, -1
            for c in range(N_PARTNERS):
                j = partners[s, b, a, c]
                # An exchange gains about the sum of two moves: most are not looked at.
                if j < 0 or gain + partner_gains[s, b, a, c] <= best_gain:
                    continue
                if labels[j] != b:
                    partners[s, b, a, c], partner_gains[s, b, a, c] = -1, -np.inf
                    continue
                change_a, change_b = _exchange(graph, labels, i, j, links)
                difference = degrees[i] - degrees[j]
                exchange_gain = (
                    (inner[a] + change_a) / (volumes[a] - difference)
                    + (inner[b] + change_b) / (volumes[b] + difference)
                    - before
                )
                if exchange_gain > best_gain:
                    best_gain, best_cluster, best_partner = exchange_gain, b, j
            _keep_partner(partners, partner_gains, s, a, b, i, gain)
        if best_cluster < 0:
            continue
        # Step 4: carry it out; all neighbours are visited in the next pass.
        b, j, cut = best_cluster, best_partner, cut - best_gain
        difference = degrees[i]
        if j < 0:
            inner[a] = inner_without
            inner[b] += 2 * (links[b] + constant * sizes[b]) + loop
            sizes[a] -= 1
            sizes[b] += 1
            counts[s, a] -= 1
            counts[s, b] += 1
        else:
            change_a, change_b = _exchange(graph, labels, i, j, links)
            inner[a] += change_a
            inner[b] += change_b
            difference -= degrees[j]
            labels[j] = a
            _activate(indptr, indices, j, active)
        labels[i] = b
        _activate(indptr, indices, i, active)
        volumes[a] -= difference
        volumes[b] += difference
    return cut, max_iter


# Inlined: as a call it takes a tenth of the time of all.
@cached_njit(nogil=True, inline="always")
def _link_clusters(graph, labels, i, visit, links, adjacent, last_visit):
    """Weights of node i's edges by clusters; how many there are, and its loop.

    `links` are valid for the clusters listed in `adjacent`, and that of the node.
    """
    indptr, indices, data, stride = graph
    links[labels[i]] = 0.0
    n_adjacent, loop = 0, 0.0
    for e in range(indptr[i], indptr[i + 1]):
        if indices[e] == i:
            loop += data[e * stride]
            continue
        b = labels[indices[e]]
        if last_visit[b] != visit:
            last_visit[b], links[b] = visit, 0.0
            adjacent[n_adjacent] = b
            n_adjacent += 1
        links[b] += data[e * stride]
    return n_adjacent, loop


@cached_njit(nogil=True)
def _keep_partner(partners, gains, s, a, b, i, gain):
    """Put a node into a list of partners, in the place of the least useful one."""
    worst = 0
    for c in range(N_PARTNERS):
        if partners[s, a, b, c] == i:
            return
        if gains[s, a, b, c] < gains[s, a, b, worst]:
            worst = c
    if gain > gains[s, a, b, worst]:
        partners[s, a, b, worst], gains[s, a, b, worst] = i, gain


@cached_njit(nogil=True)
def _activate(indptr, indices, i, active):
    """Mark a node and its neighbours for another visit."""
    active[i] = True
    for e in range(indptr[i], indptr[i + 1]):
        active[indices[e]] = True


@cached_njit(nogil=True)
def _fits(counts, lower, upper, sizes, s, a, b):
    """Whether all counts stay within their bounds if a node of kind s moves to b."""
    for r in range(counts.shape[0]):
        for cluster, change in ((a, -1), (b, 1)):
            size = sizes[cluster] + change
            count = counts[r, cluster] + (change if r == s else 0)
            if count < math.floor(lower[r] * size * (1 + ROUNDING)):
                return False
            if count > math.ceil(upper[r] * size * (1 - ROUNDING)):
                return False
    return True


@cached_njit(nogil=True)
def _exchange(graph, labels, i, j, links):
    """Return the changes of the weights inside of a and of b if i and j exchange."""
    indptr, indices, data, stride = graph
    a, b = labels[i], labels[j]
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
    return 2 * (j_to_a - links[a]) + loops, 2 * (links[b] - edge - j_to_b) - loops
