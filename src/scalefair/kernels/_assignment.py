"""Assignment of rows to columns: dual functions, rounding, and a min-cost flow.

Row i of kind s in column j costs ``C[i, j] + prices[s, j]``. The kind is the group of
the row, or its combination of groups; the prices are multipliers of the constraints on
the counts (h, k) of the h kinds in the k columns.

At fixed prices the best label of a row is the column of its minimum. The sum of these
minima is the dual function, but for a term that is linear in the prices; the counts of
the labels are a supergradient of the sum. `smoothed_minima` make it differentiable, to
search for prices at which the counts are about right. `min_cost_flow` makes the counts
exact.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numba
import numpy as np

from scalefair._rounding import TINY
from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray

# Cheapest moves that are kept of each kind between two columns. More of them take more
# memory; fewer are used up sooner, and then all rows are searched again.
N_KEPT_MOVES = 32
# Shares exp(-x) of a row for x from here on, below 1.2e-7, are left out.
CUTOFF_EXPONENT = 16.0


class RowLists(NamedTuple):
    """Rows of each pair of a kind and a column, in doubly linked lists; -1 for none."""

    first: Any  # (h, k): first row of a list
    next: Any  # (n,): row after each row
    previous: Any  # (n,): row before it


class MoveLists(NamedTuple):
    """Cheapest moves of each kind from a column to another, in sorted lists."""

    costs: Any  # (h, k, k, n_kept)
    rows: Any  # (h, k, k, n_kept): the rows that move
    lengths: Any  # (h, k, k): of the lists; -1 if not searched yet
    floor: Any  # (h, k, k): lower bound on the costs of all moves not in the list


@parallel(lambda C, row_weights, chunks, prices, t, *_: C.size * (6 if t > 0 else 1))
def smoothed_minima(
    C: Float64Array,
    row_weights: Float64Array | None,
    chunks: IntArray,
    prices: Float64Array,
    temperature: float,
    values: Float64Array,
    counts: Float64Array,
    curvatures: Float64Array,
) -> None:
    """Smoothed minimum of ``C + prices`` in each row, with derivatives by the prices.

    It is ``-t log(sum(exp(-(C + prices) / t)))`` for the temperature t, the plain
    minimum at 0. `chunks` hold start, stop and kind of rows, `prices` a row per kind.
    Overwritten are, for each chunk, `values` (n_chunks,) with the sum of the minima,
    `counts` (n_chunks, k) with the gradient, the shares of the columns, and
    `curvatures` (n_chunks, k, k) with minus the Hessian. Each row counts `row_weights`
    times, once if that is None.
    """
    for c in numba.prange(chunks.shape[0]):
        start, stop, kind = chunks[c, 0], chunks[c, 1], chunks[c, 2]
        values[c] = _smoothed_chunk(
            C[start:stop],
            None if row_weights is None else row_weights[start:stop],
            prices[kind],
            temperature,
            counts[c],
            curvatures[c],
        )


@cached_njit(nogil=True)
def _smoothed_chunk(C, row_weights, prices, temperature, count, curvature):
    """Sum of smoothed minima of rows of one kind; overwrites its derivatives."""
    n_columns = C.shape[1]
    # One row is in work at a time: k costs, and the few columns with a share.
    costs, shares = np.empty(n_columns), np.empty(n_columns)
    active = np.empty(n_columns, np.int64)  # columns with a share, in order
    count[:] = 0.0
    curvature[:] = 0.0
    total = 0.0
    for i in range(C.shape[0]):
        row_weight = 1.0 if row_weights is None else row_weights[i]
        # Step 1: the plain minimum.
        best, minimum = 0, np.inf
        for j in range(n_columns):
            costs[j] = C[i, j] + prices[j]
            if costs[j] < minimum:
                best, minimum = j, costs[j]
        total += row_weight * minimum
        # Step 2: shares exp(-(cost - minimum) / t), divided by their sum. They are at
        # most 1: none overflows.
        n_active, sum_of_shares = 0, 0.0
        if temperature > 0.0:
            for j in range(n_columns):
                exponent = (costs[j] - minimum) / temperature
                if exponent < CUTOFF_EXPONENT:
                    shares[j] = math.exp(-exponent)
                    sum_of_shares += shares[j]
                    active[n_active] = j
                    n_active += 1
        if n_active < 2:
            count[best] += row_weight
            continue
        # min - t log(sum exp(-(cost - min) / t)) is the smoothed minimum, without
        # overflow.
        total -= row_weight * temperature * math.log(sum_of_shares)
        for e in range(n_active):
            shares[active[e]] /= sum_of_shares
        # Step 3: gradient q, minus the Hessian (diag(q) - q q') / t, lower half.
        for e in range(n_active):
            a = active[e]
            weight = row_weight * shares[a]
            count[a] += weight
            curvature[a, a] += weight
            for f in range(e + 1):
                curvature[a, active[f]] -= weight * shares[active[f]]
    # The factor 1 / t, and the upper half by symmetry. At t = 0 nothing was added.
    for a in range(n_columns):
        for b in range(a + 1):
            curvature[a, b] /= max(temperature, TINY)
            curvature[b, a] = curvature[a, b]
    return total


@cached_njit(nogil=True)
def round_minima(
    C: Float64Array,
    row_weights: Float64Array,
    sets: IntArray,
    prices: Float64Array,
    temperature: float,
    order: IntArray,
    labels: IntArray,
    parts: Float64Array | None = None,
) -> None:
    """Give each row one column, with sums near those of the smoothed minima.

    Error diffusion. A row belongs to `sets` (n, m), to each as a whole or by its
    `parts` (n, m), and pays the sum of their `prices` (h, k), at which it has shares of
    the columns (`smoothed_minima`). The deficit of a set in a column is the sum of its
    shares so far minus the rows given. In their `order`, each row goes to the column
    with the largest deficit, summed over its sets: deficits stay below a few rows.
    Overwrites `labels`.
    """
    k = C.shape[1]
    # Invariant: between rows, the deficits of a set sum to 0 over the columns.
    deficits, shares = np.zeros(prices.shape), np.empty(k)
    for i in order:
        # Step 1: the shares from the costs, which `shares` holds first. Where they are
        #         used they are divided by their sum, `total`.
        minimum, total = np.inf, 0.0
        for j in range(k):
            shares[j] = C[i, j]
            for e, s in enumerate(sets[i]):
                shares[j] += _part(parts, i, e) * prices[s, j]
            minimum = min(minimum, shares[j])
        for j in range(k):
            exponent = (shares[j] - minimum) / max(temperature, TINY)
            shares[j] = math.exp(-exponent) if exponent < CUTOFF_EXPONENT else 0.0
            total += shares[j]
        # Step 2: the column with the largest deficit, this row's shares included.
        #         Columns without a share of this row are left out, however large their
        #         deficit: the row would pay too much there.
        best, largest = -1, -np.inf
        for j in range(k):
            if shares[j] > 0.0:
                deficit = 0.0
                for e, s in enumerate(sets[i]):
                    part = _part(parts, i, e)
                    deficits[s, j] += part * row_weights[i] * shares[j] / total
                    deficit += part * deficits[s, j]
                if deficit > largest:
                    best, largest = j, deficit
        # Step 3: give the row to it.
        for e, s in enumerate(sets[i]):
            deficits[s, best] -= _part(parts, i, e) * row_weights[i]
        labels[i] = best


@cached_njit(nogil=True, inline="always")
def _part(parts, i, e):
    """How much of row i belongs to its set e; all of it where `parts` is None."""
    return 1.0 if parts is None else parts[i, e]


@parallel(lambda C, *_: C.size)
def best_columns(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    labels: IntArray,
    minima: Float64Array,
) -> None:
    """Find the column of each row that minimises ``C + prices``, by the row's kind.

    Overwrites `labels` with the column, the first of equal ones, and `minima` with its
    value.
    """
    # n k additions and comparisons. Rows are independent of each other.
    for i in numba.prange(C.shape[0]):
        minimum, column = np.inf, 0
        for j in range(C.shape[1]):
            value = C[i, j] + prices[kinds[i], j]
            if value < minimum:
                minimum, column = value, j
        labels[i], minima[i] = column, minimum


@cached_njit(nogil=True)
def share_ties(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    target: IntArray,
    labels: IntArray,
    minima: Float64Array,
    rounding: float,
) -> None:
    """Move rows between columns that cost them the same, towards the `target` counts.

    `labels` and `minima` are those of `best_columns`; values that differ by at most
    `rounding` are the same. Of many equal rows the flow would move one at a time.
    Overwrites `labels`.
    """
    # Counts minus target, of each kind and column; 0 everywhere is the aim. One pass
    # over the rows: each goes to the first column that lacks rows of its kind.
    excess = -target
    for i in range(C.shape[0]):
        excess[kinds[i], labels[i]] += 1
    for i in range(C.shape[0]):
        s, a = kinds[i], labels[i]
        for b in range(C.shape[1]):
            if excess[s, a] <= 0:
                break
            # A column that lacks rows, at the same cost: the labels still minimise.
            if excess[s, b] < 0 and C[i, b] + prices[s, b] <= minima[i] + rounding:
                excess[s, a] -= 1
                excess[s, b] += 1
                labels[i] = a = b


@cached_njit(nogil=True)
def largest_fair_set(
    gains: Float64Array, low: IntArray, high: IntArray, min_size: int, counts: IntArray
) -> float:
    """Largest gain of a set of at least `min_size` rows with counts within bounds.

    `gains` (h, m + 1) are those of the rows of each group in decreasing order, -inf
    after the last row. Column ``size - 1`` of `low` and `high` (h, m) bounds the counts
    in a set of that size. Overwrites `counts` (h,) with those of the best set. Exact:
    sums of decreasing gains are concave, so that for each size the greedy choice, the
    next largest gain, is optimal.
    """
    # O(h m^2) operations: each size is filled anew from its lower bounds, as bounds of
    # a larger size need not be wider.
    h, m = low.shape
    best, chosen = -np.inf, np.empty(h, np.int64)
    for size in range(min_size, m + 1):
        # The lower bounds first ...
        n_remaining, value = size, 0.0
        for s in range(h):
            chosen[s] = low[s, size - 1]
            n_remaining -= chosen[s]
            for e in range(chosen[s]):
                value += gains[s, e]
        # ... then the largest gain of a group that is below its upper bound.
        while n_remaining > 0:
            # r is the group whose next row gains most, of those below their bounds.
            r = -1
            for s in range(h):
                if chosen[s] < high[s, size - 1] and (
                    r < 0 or gains[s, chosen[s]] > gains[r, chosen[r]]
                ):
                    r = s
            if r < 0:  # no set of this size is within the bounds
                break
            value += gains[r, chosen[r]]
            chosen[r] += 1
            n_remaining -= 1
        if n_remaining == 0 and value > best:
            best = value
            counts[:] = chosen
    return best


@cached_njit(nogil=True)
def min_cost_flow(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    low: IntArray,
    high: IntArray,
    target: IntArray,
    labels: IntArray,
) -> int:
    """Cheapest labels whose counts of kinds in columns are within bounds.

    Successive shortest paths (Ahuja, Magnanti, Orlin 1993, section 9.7). The nodes of
    the network are pairs of a kind s and a column a. An arc (s, a) -> (s, b) moves the
    row for which that is cheapest. An arc (s, a) -> (r, a) costs nothing: it raises the
    target of (s, a) by one row and lowers that of (r, a), within `low` and `high`; so
    the `target` keeps its sums over kinds, the sizes of the columns.

    On entry, and after each path, `labels` minimise ``C + prices`` and the target
    maximises ``prices * target``: all reduced lengths are >= 0. On return the counts of
    the labels are the target. All but `C` and `kinds` are overwritten. Returns the
    number of paths, -1 if there is none from a surplus to a deficit.
    """
    (h, k), n = prices.shape, C.shape[0]
    # Node v = s k + a of the network stands for kind s in column a.
    rows = RowLists(np.full((h, k), -1), np.full(n, -1), np.full(n, -1))
    counts = np.zeros((h, k), np.int64)
    for i in range(n):
        counts[kinds[i], labels[i]] += 1
        _push(i, kinds[i], labels[i], rows)
    # Of many columns fewer moves are kept: costs and rows take 128 MiB at most, but for
    # lists of two.
    n_kept = max(2, min(N_KEPT_MOVES, 2**23 // (h * k * k)))
    moves = MoveLists(
        np.empty((h, k, k, n_kept)),
        np.empty((h, k, k, n_kept), np.int64),
        np.full((h, k, k), -1),
        np.full((h, k, k), np.inf),
    )
    # Shortest distances from the source in reduced lengths, and predecessors.
    paths = distance, parent = np.empty(h * k), np.empty(h * k, np.int64)
    n_paths, source = 0, 0
    # Each path moves one unit from a surplus to a deficit: as many paths as the
    # surpluses sum to. Labels near the target need few of them.
    while True:
        # Step 1: a pair with a surplus. Paths make no new one.
        while source < h * k:
            if counts[source // k, source % k] > target[source // k, source % k]:
                break
            source += 1
        if source == h * k:
            return n_paths
        # Step 2: the shortest path from it to a deficit.
        end = _shortest_path(
            source, C, prices, low, high, target, counts, labels, rows, moves, paths
        )
        if end < 0:
            return -1
        # Step 3: move a row, or a unit of the target, along each arc of the path.
        v = end
        # From the end backwards: the arc that leaves a pair is used before a row enters
        # it, so that the head of each list is still the move that the search has found.
        while v != source:
            u = parent[v]
            s, a, r, b = u // k, u % k, v // k, v % k
            v = u
            if s != r:
                target[s, a] += 1
                target[r, a] -= 1
                continue
            i = moves.rows[s, a, b, 0]
            # The row changes its list, and is offered to all other columns.
            _remove(i, s, a, rows)
            _push(i, s, b, rows)
            labels[i] = b
            counts[s, a] -= 1
            counts[s, b] += 1
            _offer_moves(C, i, s, b, moves)
        # Step 4: prices that keep all reduced lengths >= 0, and make those on the path
        # zero. Nodes that the search did not finish are at least as far as the end.
        # Proof: the reduced length of an arc (u, v) becomes length + distance[u] -
        # distance[v] >= 0 by the triangle inequality, with equality along the path.
        for v in range(h * k):
            prices[v // k, v % k] -= min(distance[v], distance[end])
        n_paths += 1


@cached_njit(nogil=True)
def _shortest_path(
    source, C, prices, low, high, target, counts, labels, rows, moves, paths
):
    """Dijkstra's algorithm from a surplus to the nearest deficit, -1 if none.

    It stops there: of many columns few are visited. Reduced lengths are negative by
    rounding only, and cut off at zero. Overwrites `paths`: the distance of each node
    from the source, final for those up to the deficit, and the node before it.
    """
    # The reduced length of an arc is its cost plus the price of its head less that of
    # its tail.
    (h, k), (distance, parent) = prices.shape, paths
    # Invariant: finished nodes have their distance; the heap holds every reached node,
    # maybe several times with longer distances, which are passed over.
    done = np.zeros(h * k, np.bool_)
    distance[:] = np.inf
    distance[source] = 0.0
    heap = [(0.0, source)]
    while heap:
        length, u = heapq.heappop(heap)
        if done[u]:
            continue
        done[u] = True
        s, a = u // k, u % k
        if counts[s, a] < target[s, a]:
            return u
        # Arcs to other kinds in the same column, at no cost, ...
        if target[s, a] < high[s, a]:
            for r in range(h):
                if target[r, a] > low[r, a]:
                    longer = length + max(prices[r, a] - prices[s, a], 0.0)
                    _relax(r * k + a, u, longer, done, distance, parent, heap)
        # ... and of a row to other columns.
        if counts[s, a] > 0:
            for b in range(k):
                if not done[s * k + b]:
                    cost = _cheapest_move(C, s, a, b, labels, rows, moves)
                    longer = length + max(cost + prices[s, b] - prices[s, a], 0.0)
                    _relax(s * k + b, u, longer, done, distance, parent, heap)
    return -1


@cached_njit(nogil=True)
def _relax(v, u, length, done, distance, parent, heap):
    """Reach v from u, if that is shorter than the shortest path to v so far."""
    # The heap keeps the entries of longer paths to v, which come up when v is done.
    if not done[v] and length < distance[v]:
        distance[v], parent[v] = length, u
        heapq.heappush(heap, (length, v))


@cached_njit(nogil=True)
def _cheapest_move(C, s, a, b, labels, rows, moves):
    """Cost of the cheapest move of a row of kind s from a to b, inf if none is left."""
    lengths, floor = moves.lengths, moves.floor
    costs, movers = moves.costs[s, a, b], moves.rows[s, a, b]
    # Invariant: all rows of (s, a) that are not in the list cost `floor` at least to
    # move to b, so that the head is the cheapest move while it has not left a.
    # Step 1: drop rows at the head that have left a since they were listed. Others in
    # the list may have left, too: only the head is used.
    while lengths[s, a, b] > 0 and labels[movers[0]] != a:
        lengths[s, a, b] -= 1
        for e in range(lengths[s, a, b]):
            costs[e], movers[e] = costs[e + 1], movers[e + 1]
    # Step 2: search the rows of (s, a) for the cheapest if there is no list, or if it
    # is used up and others were left out, whose costs are at least `floor`.
    is_used_up = lengths[s, a, b] == 0 and floor[s, a, b] < np.inf
    if lengths[s, a, b] == -1 or is_used_up:
        # One pass over the rows of (s, a): the cheapest ones, in order.
        size, i = 0, rows.first[s, a]
        while i >= 0:
            value = C[i, b] - C[i, a]
            if size < len(costs) or value < costs[size - 1]:
                size = _insert(costs, movers, size, value, i)
            i = rows.next[i]
        lengths[s, a, b] = size
        floor[s, a, b] = costs[size - 1] if size == len(costs) else np.inf
    return costs[0] if lengths[s, a, b] > 0 else np.inf


@cached_njit(nogil=True)
def _offer_moves(C, i, s, b, moves):
    """Put a row that is new in column b into the lists of moves from there.

    The lists from the column that it has left still have it: `_cheapest_move` drops it.
    """
    # Invariant of each list, as in `_cheapest_move`: rows that are not in it cost
    # `floor` at least. A row that costs as much or more need not be listed.
    lengths, floor = moves.lengths, moves.floor
    for j in range(C.shape[1]):
        size = lengths[s, b, j]
        value = C[i, j] - C[i, b]
        if j == b or size == -1 or value >= floor[s, b, j]:
            continue
        costs, movers = moves.costs[s, b, j], moves.rows[s, b, j]
        if (movers[:size] == i).any():  # it left and is back: its entry is still there
            continue
        if size == len(costs):  # the last one drops out, or the row itself
            floor[s, b, j] = max(value, costs[size - 1])
            if value >= costs[size - 1]:
                continue
        lengths[s, b, j] = _insert(costs, movers, size, value, i)


@cached_njit(nogil=True)
def _insert(costs, movers, size, cost, row):
    """Insert into a sorted list, the last drops out of a full one; return the size."""
    # As in insertion sort, from the end: larger costs move back to make room.
    # Invariant: the entries behind `position` have moved one place back.
    position = min(size, len(costs) - 1)
    while position > 0 and costs[position - 1] > cost:
        costs[position], movers[position] = costs[position - 1], movers[position - 1]
        position -= 1
    costs[position], movers[position] = cost, row
    return min(size + 1, len(costs))


@cached_njit(nogil=True)
def _push(i, s, a, rows):
    """Put a row at the head of the list of kind s in column a."""
    second = rows.first[s, a]
    rows.previous[i], rows.next[i] = -1, second
    if second >= 0:
        rows.previous[second] = i
    rows.first[s, a] = i


@cached_njit(nogil=True)
def _remove(i, s, a, rows):
    """Take a row out of the list of kind s in column a."""
    # The rows before and after it follow each other now.
    before, after = rows.previous[i], rows.next[i]
    if before >= 0:
        rows.next[before] = after
    else:
        rows.first[s, a] = after
    if after >= 0:
        rows.previous[after] = before
