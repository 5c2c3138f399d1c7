"""Local search over the clusters of nodes: they lower a normalised cut one by one.

`refine` keeps counts of groups in bounds; `indicator_sweep`, of a comparator, adds a
penalty for them to the cut.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    node_sizes: Float64Array | None,
    bounds: tuple[Float64Array, Float64Array],
    min_size: float,
    order: IntArray,
    labels: IntArray,
    totals: tuple[NDArray[Any], Float64Array, Float64Array],
    max_iter: int,
) -> tuple[float, int]:
    """Move nodes, or let two of a kind change places, where the normalised cut falls.

    The cut is ``sum_l 1 - inner_l / volumes_l`` for the weights of a symmetric `graph`
    (see `degrees_and_inner_weights`) plus a `constant` in every entry, whose row sums
    are the `degrees`. Each node counts 1, or as its `node_sizes` say: the weights of
    the graph contain them, and the constant is times those of both nodes. (Without any
    a kernel is compiled that knows of none: it takes .8 of the time.) `totals` are the
    counts (n_kinds, k), the volumes (k,) and the inner weights (k,). A node moves only
    if all counts of both clusters stay less than 1 beyond the lower and upper `bounds`
    times its size, and the cluster that it leaves keeps `min_size`; two of a kind and
    size that change places change no count.
    Passes visit the nodes in `order`: all in the first two, so that every node
    meets its partners, then those next to a change. One that lowers the cut by less
    than 1 / 2000 of it is the last. Overwrites `labels` and `totals`, and returns the
    cut and the number of passes.
    """
    indptr, indices = graph[0], graph[1]
    counts, volumes, inner = totals
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
        a, s, size, less = labels[i], kinds[i], 1, 0
        if node_sizes is not None:
            size = node_sizes[i]
        # Step 2: weights of the edges to each cluster, of those that there are.
        n_adjacent, loop = _link_clusters(
            graph, labels, i, visit, links, adjacent, last_visit
        )
        loop += constant * size * size
        # Step 3: the best move or exchange. The cut must fall by more than its
        # rounding, or nodes could cycle.
        best_gain, best_cluster, best_partner = ROUNDING, -1, -1
        volume_without = volumes[a] - degrees[i]
        without = sizes[a] - size
        inner_without = inner[a] - 2 * (links[a] + constant * size * without) - loop
        for f in range(n_adjacent if volume_without > 0.0 else 0):
            b = adjacent[f]
            if b == a:
                continue
            before = inner[a] / volumes[a] + inner[b] / volumes[b]
            inner_with = inner[b] + 2 * (links[b] + constant * size * sizes[b]) + loop
            gain = (
                inner_without / volume_without
                + inner_with / (volumes[b] + degrees[i])
                - before
            )
            if (
                gain > best_gain
                and without >= min_size
                and _fits(counts, bounds, sizes, s, a, b, size)
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
                if node_sizes is not None:
                    less = size - node_sizes[j]
                    change_a -= constant * less * (2 * sizes[a] - less)
                    change_b += constant * less * (2 * sizes[b] + less)
                exchange_gain = (
                    (inner[a] + change_a) / (volumes[a] - difference)
                    + (inner[b] + change_b) / (volumes[b] + difference)
                    - before
                )
                if exchange_gain > best_gain:
                    if node_sizes is not None and not (
                        less == 0 or _fits(counts, bounds, sizes, s, a, b, less)
                    ):
                        continue
                    best_gain, best_cluster, best_partner = exchange_gain, b, j
            _keep_partner(partners, partner_gains, s, a, b, i, gain)
        if best_cluster < 0:
            continue
        # Step 4: carry it out; all neighbours are visited in the next pass.
        b, j, cut = best_cluster, best_partner, cut - best_gain
        difference = degrees[i]
        if j < 0:
            inner[a] = inner_without
            inner[b] += 2 * (links[b] + constant * size * sizes[b]) + loop
        else:
            change_a, change_b = _exchange(graph, labels, i, j, links)
            difference -= degrees[j]
            size = 0
            if node_sizes is not None:
                size = node_sizes[i] - node_sizes[j]
            inner[a] += change_a - constant * size * (2 * sizes[a] - size)
            inner[b] += change_b + constant * size * (2 * sizes[b] + size)
            labels[j] = a
            _activate(indptr, indices, j, active)
        sizes[a] -= size
        sizes[b] += size
        counts[s, a] -= size
        counts[s, b] += size
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
def _fits(counts, bounds, sizes, s, a, b, moved):
    """Whether counts stay less than 1 beyond bounds if so much of a kind moves to b."""
    lower, upper = bounds
    for r in range(counts.shape[0]):
        for cluster, change in ((a, -moved), (b, moved)):
            size = sizes[cluster] + change
            count = counts[r, cluster] + (change if r == s else 0)
            if count + 1 <= lower[r] * size * (1 + ROUNDING):
                return False
            if count - 1 >= upper[r] * size * (1 - ROUNDING):
                return False
    return True


@cached_njit(nogil=True)
def _exchange(graph, labels, i, j, links):
    """Return the changes of the weights inside of a and of b if i and j exchange."""
    indptr, indices, data, stride = graph
    a, b = labels[i], labels[j]
    # Weights of j to a without i and to b without j, of the edge (i, j), and of loops.
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
    # j brings its weights to a and i takes its own away, and the other way round in b;
    # `links` hold those of i.
    return 2 * (j_to_a - links[a]) + loops, 2 * (links[b] - edge - j_to_b) - loops


@cached_njit()
def indicator_sweep(
    graph: Any,
    degrees: Float64Array,
    kinds: IntArray,
    shares: Float64Array,
    penalty_weight: float,
    order: IntArray,
    labels: IntArray,
    totals: tuple[Float64Array, Float64Array, Float64Array],
) -> int:
    """Give each node, in the order given, the cluster where the objective is least.

    The objective is the sum over the clusters of
    ``1 - inside / volumes + penalty_weight * |counts / size - shares|^2``, for a
    symmetric `graph` (see `degrees_and_inner_weights`) with row sums `degrees`. The
    `totals` are inside, which counts every edge twice and loops once, volumes, and
    counts (k, h) of members by kind. Labels and totals are updated in place. A row with
    m entries takes O(m + k) operations: two terms of the sum change, and they follow
    from running totals. The last node of a cluster stays. Rows are visited one after
    the other, whatever the number of threads. Returns how many nodes moved.
    """
    indptr, indices, data, stride = graph
    inside, volumes, counts = totals
    k = len(volumes)
    # Sizes, |counts|^2 and counts . shares of the clusters.
    sizes, squares = counts.sum(axis=1), (counts**2).sum(axis=1)
    products = (counts * shares).sum(axis=1)
    sums = inside, volumes, counts, sizes, squares, products
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
                loop += data[e * stride]
            else:
                links[labels[indices[e]]] += data[e * stride]
        node = degrees[i], loop, kinds[i], shares[kinds[i]]
        # Step 2: change of the terms of a, which the node leaves, and b, its best goal.
        leave = _totals_after(sums, a, -1, node, links)
        leave_change = _term(leave, penalty_weight) - terms[a]
        best_change, best = -min_gain, a
        for b in range(k):
            if b != a:
                join = _totals_after(sums, b, 1, node, links)
                change = leave_change + _term(join, penalty_weight) - terms[b]
                if change < best_change:
                    best_change, best = change, b
        # Step 3: move it.
        if best != a:
            n_moves += 1
            labels[i] = best
            join = _totals_after(sums, best, 1, node, links)
            for c, after, change in ((a, leave, -1), (best, join, 1)):
                inside[c], volumes[c], sizes[c], squares[c], products[c] = after
                counts[c, kinds[i]] += change
                terms[c] = _term(after, penalty_weight)
    return n_moves


@cached_njit()
def _totals_after(sums, c, sign, node, links):
    """Totals of cluster c if a node joins it (sign 1) or leaves it (-1)."""
    inside, volumes, counts, sizes, squares, products = sums
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
