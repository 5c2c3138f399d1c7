"""Local search on cluster labels: move one node after the other, or exchange two.

`refine` lowers the normalised cut and keeps counts of groups within bounds.
`indicator_sweep`, for a comparator, adds a penalty for the counts to the cut instead.

In both, i and j are nodes and a and b their clusters. A node's kind is its combination
of groups. `links` are the weights of node i to each cluster, without its loop, and a
cluster's inner weight counts every edge twice and loops once. So a node that leaves a
cluster takes ``2 links + loop`` off its inner weight, and its degree off the volume.
Gains of a move so follow from totals of two clusters, and not from the whole graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import ROUNDING
from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray

# Candidates for an exchange, stored for each kind and ordered pair of clusters.
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
        # Both ends of an edge see it: edges within a cluster count twice, loops once.
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
    mixes: Float64Array | None,
    bounds: tuple[Float64Array, Float64Array],
    min_size: float,
    order: IntArray,
    labels: IntArray,
    totals: tuple[NDArray[Any], Float64Array, Float64Array],
    max_iter: int,
) -> tuple[float, int]:
    """Move nodes, or exchange two of a kind, while the normalised cut decreases.

    The cut is ``sum_l 1 - inner_l / volumes_l`` for the weights of a symmetric `graph`
    (see `degrees_and_inner_weights`) plus a `constant` in every entry, whose row sums
    are the `degrees`. Each node counts 1, or as its `node_sizes` say: the graph's
    weights are multiplied by the sizes of both nodes already, the constant is here.
    (For None Numba compiles a kernel without sizes, which takes .8 of the time.)
    With sizes, `mixes` (n, n_kinds) may say what part of a node is of each kind, all or
    nothing in sum; the `kinds` are then all 0, and any two nodes may be exchanged.
    `totals` are the counts (n_kinds, k), the volumes (k,) and the inner weights (k,).
    Nodes move only if a cluster that shrinks keeps `min_size`, and the counts of both
    clusters stay less than 1 outside the lower and upper `bounds` (n_kinds,) times
    their sizes. To exchange two nodes of a kind and size changes no count.

    Passes visit the nodes in `order`. The first two visit all: the first one fills the
    lists of partners, the second one uses them. Later ones visit nodes that changed,
    and their neighbours. A pass that lowers the cut by less than 1 / 2000 is the last.
    Overwrites `labels` and `totals`; returns the cut and the number of passes.
    """
    counts, volumes, inner = totals
    n, (n_kinds, k) = len(degrees), counts.shape
    sizes = counts.sum(axis=0)
    if mixes is not None:  # parts of no kind are of the size, too
        sizes = _cluster_sizes(labels, node_sizes, k)
    # Invariant: `clusters` and `cut` are those of the labels.
    clusters = counts, volumes, inner, sizes
    loops = _loops(graph, n)
    edges, nodes = (graph, constant), (degrees, kinds, loops, labels)
    # partners[s, a, b]: nodes of kind s in a with the largest gains, when they were
    # visited, of a move to b; -1 for none. Gains are decreases of the cut. They may be
    # out of date: they only choose exchanges, whose exact gain is computed then.
    partners = np.full((n_kinds, k, k, N_PARTNERS), -1)
    partner_gains = np.full((n_kinds, k, k, N_PARTNERS), -np.inf)
    # links[b] is valid for the present visit if last_visit[b] is its number.
    # A visit costs O(degree) for the links, and for each adjacent cluster O(n_kinds) to
    # test the bounds and O(N_PARTNERS) for exchanges.
    links, adjacent, last_visit = np.zeros(k), np.empty(k, np.int64), np.full(k, -1)
    active = np.ones(n, np.bool_)
    cut = (1 - inner / volumes).sum()
    previous_cut = cut
    for visit in range(max_iter * n):
        # Step 1: after each pass from the second on, test how much the cut decreased;
        # the first time in both passes together.
        if visit % n == 0 and visit >= 2 * n:
            if previous_cut - cut <= 5e-4 * cut:
                return cut, visit // n
            previous_cut = cut
        i = order[visit % n]
        if not active[i]:
            continue
        # The second pass visits all nodes again; later, one that changes is activated.
        active[i] = visit < n
        # a is the cluster of node i, s its kind.
        a, s, size = labels[i], kinds[i], _size(node_sizes, i)
        # Step 2: weights of the edges to each adjacent cluster. What the constant adds,
        # constant * size * sizes[b], is not stored.
        n_adjacent = _link_clusters(
            graph, labels, i, visit, links, adjacent, last_visit
        )
        loop = loops[i] + constant * size * size
        # Step 3: the best move or exchange with an adjacent cluster. The cut must
        # decrease by more than its rounding, or nodes could cycle.
        best_gain, best_cluster, best_partner = ROUNDING, -1, -1
        # Cluster a without i: the edges to its rest counted twice, and the loop of i.
        volume_without = volumes[a] - degrees[i]
        size_without = sizes[a] - size
        links_within = links[a] + constant * size * size_without
        inner_without = inner[a] - 2 * links_within - loop
        for f in range(n_adjacent if volume_without > 0.0 else 0):
            b = adjacent[f]
            if b == a:
                continue
            # The cut is k minus the sum of inner / volume: only the terms of a and b
            # change.
            before = inner[a] / volumes[a] + inner[b] / volumes[b]
            inner_with = inner[b] + 2 * (links[b] + constant * size * sizes[b]) + loop
            gain = (
                inner_without / volume_without
                + inner_with / (volumes[b] + degrees[i])
                - before
            )
            # The test of the bounds comes last: it is needed for few moves.
            if gain > best_gain and _fits(
                counts, sizes, bounds, min_size, node_sizes, mixes, s, i, -1, a, b
            ):
                best_gain, best_cluster, best_partner = gain, b, -1
            for c in range(N_PARTNERS):
                # An exchange gains about the sum of two moves. Only if that is large
                # compute the exact gain, in a pass over the edges of j.
                j = partners[s, b, a, c]
                if j < 0 or gain + partner_gains[s, b, a, c] <= best_gain:
                    continue
                if labels[j] != b:  # it moved since: free its place
                    partners[s, b, a, c], partner_gains[s, b, a, c] = -1, -np.inf
                    continue
                exchange_gain = _exchange_gain(
                    edges, nodes, node_sizes, clusters, links, i, j
                )
                if exchange_gain > best_gain and _fits(
                    counts, sizes, bounds, min_size, node_sizes, mixes, s, i, j, a, b
                ):
                    best_gain, best_cluster, best_partner = exchange_gain, b, j
            # Offer the node for exchanges, also where it may not move by itself.
            _keep_partner(partners, partner_gains, s, a, b, i, gain)
        if best_cluster < 0:
            continue
        # Step 4: update labels and totals; neighbours are visited in the next pass, or
        # later in this one if they come after the node.
        b, j, cut = best_cluster, best_partner, cut - best_gain
        _change_labels(edges, nodes, node_sizes, mixes, clusters, links, i, j, b)
        _activate(graph, i, j, active)
    return cut, max_iter


@cached_njit(nogil=True)
def _cluster_sizes(labels, node_sizes, n_clusters):
    """Sum of the sizes of the nodes in each cluster."""
    sizes = np.zeros(n_clusters)
    for i in range(len(labels)):
        sizes[labels[i]] += node_sizes[i]
    return sizes


@cached_njit(nogil=True)
def _loops(graph, n):
    """Diagonal of the matrix of a graph."""
    indptr, indices, data, stride = graph
    loops = np.zeros(n)
    for i in range(n):
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] == i:
                loops[i] += data[e * stride]
    return loops


@cached_njit(nogil=True, inline="always")
def _size(node_sizes, i):
    """Size of a node, 1 for None."""
    return 1 if node_sizes is None else node_sizes[i]


# Inlined: the call alone takes a tenth of the time of `refine`.
@cached_njit(nogil=True, inline="always")
def _link_clusters(graph, labels, i, visit, links, adjacent, last_visit):
    """Write the weights of the edges of node i to each cluster, without its loop.

    Returns the number of clusters with a neighbour of the node; they come first in
    `adjacent`. `links` are valid for these, and for the cluster of the node.
    """
    indptr, indices, data, stride = graph
    # Only the entries of the adjacent clusters are cleared: O(degree), not O(k).
    links[labels[i]] = 0.0
    n_adjacent = 0
    for e in range(indptr[i], indptr[i + 1]):
        if indices[e] == i:
            continue
        b = labels[indices[e]]
        if last_visit[b] != visit:
            last_visit[b], links[b] = visit, 0.0
            adjacent[n_adjacent] = b
            n_adjacent += 1
        links[b] += data[e * stride]
    return n_adjacent


@cached_njit(nogil=True)
def _exchange_gain(edges, nodes, node_sizes, clusters, links, i, j):
    """By how much the cut decreases if nodes i and j exchange their clusters."""
    # The terms inner / volume of a and b after it, less those before. Volumes change by
    # the difference of the degrees, inner weights as `_exchange` says.
    (degrees, _, _, labels), (_, volumes, inner, _) = nodes, clusters
    a, b, difference = labels[i], labels[j], degrees[i] - degrees[j]
    change_a, change_b = _exchange(edges, nodes, node_sizes, clusters, links, i, j)
    return (
        (inner[a] + change_a) / (volumes[a] - difference)
        + (inner[b] + change_b) / (volumes[b] + difference)
        - (inner[a] / volumes[a] + inner[b] / volumes[b])
    )


@cached_njit(nogil=True)
def _exchange(edges, nodes, node_sizes, clusters, links, i, j):
    """Return the changes of the inner weights of a and b if i and j exchange.

    In one pass over the edges of j; those of i are in `links`.
    """
    ((indptr, indices, data, stride), constant) = edges
    (_, _, loops, labels), sizes = nodes, clusters[3]
    a, b = labels[i], labels[j]
    # Weights of j to a without i and to b without j, and of the edge (i, j).
    j_to_a, j_to_b, edge = 0.0, 0.0, 0.0
    for e in range(indptr[j], indptr[j + 1]):
        if indices[e] == i:
            edge += data[e * stride]
        elif indices[e] == j:
            continue
        elif labels[indices[e]] == a:
            j_to_a += data[e * stride]
        elif labels[indices[e]] == b:
            j_to_b += data[e * stride]
    # j brings its weights to a and i takes its own away, and the other way round in b;
    # `links` hold those of i. The edge (i, j) stays between the clusters.
    change_a = 2 * (j_to_a - links[a]) + (loops[j] - loops[i])
    change_b = 2 * (links[b] - edge - j_to_b) - (loops[j] - loops[i])
    # The constant's part of an inner weight, constant * size^2, changes with the size:
    # (size - excess)^2 - size^2 = -excess (2 size - excess) in a, and the other way
    # round in b.
    excess = _size(node_sizes, i) - _size(node_sizes, j)
    change_a -= constant * excess * (2 * sizes[a] - excess)
    change_b += constant * excess * (2 * sizes[b] + excess)
    return change_a, change_b


@cached_njit(nogil=True)
def _fits(counts, sizes, bounds, min_size, node_sizes, mixes, s, i, j, a, b):
    """Whether sizes and counts stay within the bounds if i goes to b, j to a.

    For j = -1 nothing goes to a. The size of each cluster changes, and with it the
    bounds of all kinds; of mixes it is that of the parts of known kinds. Counts may be
    less than 1 outside.
    """
    loss = _size(node_sizes, i) - (0 if j < 0 else _size(node_sizes, j))
    # To exchange nodes of one kind and size changes no count and no bound.
    if loss == 0 and mixes is None:
        return True
    smaller = sizes[a] - loss if loss > 0 else sizes[b] + loss
    if loss != 0 and smaller < min_size:
        return False
    # Bounds are shares of a cluster's size: lower size - 1 < count < upper size + 1.
    lower, upper = bounds
    n_kinds, moved = counts.shape[0], 0.0
    for r in range(n_kinds):
        moved += _moved_count(node_sizes, mixes, s, i, j, r)
    for cluster, sign in ((a, -1), (b, 1)):
        size = sizes[cluster] if mixes is None else counts[:, cluster].sum()
        size_after = size + sign * moved
        for r in range(n_kinds):
            change = sign * _moved_count(node_sizes, mixes, s, i, j, r)
            count = counts[r, cluster] + change
            # A count that is 1 outside up to rounding is refused.
            if count + 1 <= lower[r] * size_after * (1 + ROUNDING):
                return False
            if count - 1 >= upper[r] * size_after * (1 - ROUNDING):
                return False
    return True


@cached_njit(nogil=True, inline="always")
def _moved_count(node_sizes, mixes, s, i, j, r):
    """How much of kind r goes with node i, of kind s, less what j brings back.

    Without mixes both nodes are of kind s: no other kind is moved.
    """
    if mixes is not None:
        count = node_sizes[i] * mixes[i, r]
        if j >= 0:
            count -= node_sizes[j] * mixes[j, r]
        return count
    count = _size(node_sizes, i)
    if j >= 0:
        count -= _size(node_sizes, j)
    return count if r == s else 0 * count


@cached_njit(nogil=True)
def _keep_partner(members, gains, s, a, b, i, gain):
    """Put node i of a into the partners for b if it gains more than the worst one.

    Places that are free have a gain of -inf: they are filled first.
    """
    # N_PARTNERS entries, unsorted: the one with the smallest gain is replaced.
    worst = 0
    for c in range(N_PARTNERS):
        if members[s, a, b, c] == i:
            return
        if gains[s, a, b, c] < gains[s, a, b, worst]:
            worst = c
    if gain > gains[s, a, b, worst]:
        members[s, a, b, worst], gains[s, a, b, worst] = i, gain


@cached_njit(nogil=True)
def _change_labels(edges, nodes, node_sizes, mixes, clusters, links, i, j, b):
    """Move node i to b and, unless it is -1, node j from there to the cluster of i.

    Updates the labels and the totals of both clusters.
    """
    degrees, kinds, loops, labels = nodes
    counts, volumes, inner, sizes = clusters
    # The invariant of `refine`: totals are those of the labels, before and after.
    # `size` and `degree` become what a loses and b gains.
    a, size, degree, constant = labels[i], _size(node_sizes, i), degrees[i], edges[1]
    if j < 0:
        # The edges of i are counted twice, its loop once.
        loop = loops[i] + constant * size * size
        links_within = links[a] + constant * size * (sizes[a] - size)
        inner[a] = inner[a] - 2 * links_within - loop
        inner[b] += 2 * (links[b] + constant * size * sizes[b]) + loop
    else:
        change_a, change_b = _exchange(edges, nodes, node_sizes, clusters, links, i, j)
        inner[a] += change_a
        inner[b] += change_b
        size -= _size(node_sizes, j)
        degree -= degrees[j]
    # An exchange moves the difference of both nodes.
    for r in range(counts.shape[0]):
        moved_count = _moved_count(node_sizes, mixes, kinds[i], i, j, r)
        counts[r, a] -= moved_count
        counts[r, b] += moved_count
    sizes[a] -= size
    sizes[b] += size
    volumes[a] -= degree
    volumes[b] += degree
    labels[i] = b
    if j >= 0:
        labels[j] = a


@cached_njit(nogil=True)
def _activate(graph, i, j, active):
    """Mark nodes i and j, unless it is -1, and their neighbours for another visit."""
    indptr, indices = graph[0], graph[1]
    for node in (i, j):
        if node >= 0:
            active[node] = True
            for e in range(indptr[node], indptr[node + 1]):
                active[indices[e]] = True


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
    ``1 - inner / volumes + penalty_weight * |counts / size - shares|^2``, for a
    symmetric `graph` (see `degrees_and_inner_weights`) with row sums `degrees`, and
    `shares` (n_kinds,). The `totals` are the inner weights (k,), the volumes (k,) and
    the counts (k, n_kinds). Labels and totals are updated in place. A row with m
    entries takes O(m + k) operations: a move changes two terms of the sum, which follow
    from the totals. The last node of a cluster stays. Returns how many nodes moved.
    """
    indptr, indices, data, stride = graph
    inner, volumes, counts = totals
    k = len(volumes)
    # Of each cluster, shapes (k,): size, |counts|^2 and counts . shares. With these
    # three numbers the penalty of a cluster follows without its counts, for any change
    # by one node.
    sizes, squares = counts.sum(axis=1), (counts**2).sum(axis=1)
    products = (counts * shares).sum(axis=1)
    sums = inner, volumes, counts, sizes, squares, products
    # A move must lower the objective by more than its rounding, or nodes could cycle.
    min_gain = 10 * ROUNDING * (1.0 + penalty_weight)
    links, terms = np.zeros(k), np.empty(k)
    for c in range(k):
        terms[c] = _term(
            (inner[c], volumes[c], sizes[c], squares[c], products[c]), penalty_weight
        )
    # Invariant: terms[c] is the `_term` of cluster c, and `sums` hold its totals.
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
        # Step 2: the cluster b for which the terms of a and b decrease most.
        # The part of a is the same for all b.
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
                inner[c], volumes[c], sizes[c], squares[c], products[c] = after
                counts[c, kinds[i]] += change
                terms[c] = _term(after, penalty_weight)
    return n_moves


@cached_njit()
def _totals_after(sums, c, sign, node, links):
    """Totals of cluster c if a node joins it (sign 1) or leaves it (-1).

    Inner weight, volume, size, |counts|^2 and counts . shares, as `_term` takes them.
    """
    inner, volumes, counts, sizes, squares, products = sums
    degree, loop, kind, share = node
    return (
        inner[c] + sign * (2.0 * links[c] + loop),
        volumes[c] + sign * degree,
        sizes[c] + sign,
        # (m + sign)^2 - m^2, m the members of the node's kind
        squares[c] + sign * (2.0 * counts[c, kind] + sign),
        products[c] + sign * share,
    )


@cached_njit()
def _term(totals, penalty_weight):
    """Term of a cluster, less its constant 1 + penalty_weight |shares|^2."""
    # With the counts c, the size m and the shares s,
    #     |c / m - s|^2 = (|c|^2 - 2 m c.s) / m^2 + |s|^2.
    inner, volume, size, square, product = totals
    deviation = (square - 2.0 * size * product) / (size * size)
    # Rounding can leave no volume when weights differ by 16 orders of magnitude.
    return penalty_weight * deviation - (inner / volume if volume > 0 else 0.0)
