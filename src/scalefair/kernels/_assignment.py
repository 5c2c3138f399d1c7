"""Rows assigned to columns: at prices, by a min-cost flow, to their nearest centres."""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray, read_only

# Cheapest moves remembered of each group between two columns: more are looked for again
# when these are used up. Fewer where all of them would take more numbers than that.
KEPT_MOVES, MAX_KEPT_NUMBERS = 32, 2**23
# A column whose weight in a smoothed minimum is below exp(-this) is left out.
NEGLIGIBLE_EXPONENT = 16.0
# Sums over centres are formed in at most this many parts of the rows, whatever the
# number of threads, and added in their order: the last digits are always the same.
_PARTS = 64
# Stands for weights of 1.
_NO_WEIGHTS = read_only(np.empty(0))
# Rows multiplied by the centres at once: the products stay in the cache.
_ROWS = 512


@parallel(lambda C, chunks, prices, t, *_: C.size * (6 if t > 0 else 1))
def smoothed_minima(
    C: Float64Array,
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
    `curvatures` (n_chunks, k, k) with minus the Hessian.
    """
    for c in numba.prange(chunks.shape[0]):
        start, stop, kind = chunks[c, 0], chunks[c, 1], chunks[c, 2]
        values[c] = _smoothed_chunk(
            C[start:stop], prices[kind], temperature, counts[c], curvatures[c]
        )


@cached_njit(nogil=True)
def _smoothed_chunk(
    C: Float64Array,
    prices: Float64Array,
    temperature: float,
    count: Float64Array,
    curvature: Float64Array,
) -> float:
    n_columns = C.shape[1]
    weights, active = np.empty(n_columns), np.empty(n_columns, np.int64)
    count[:] = 0.0
    curvature[:] = 0.0
    total = 0.0
    for i in range(C.shape[0]):
        best, low = 0, np.inf
        for j in range(n_columns):
            weights[j] = C[i, j] + prices[j]
            if weights[j] < low:
                best, low = j, weights[j]
        total += low
        n_active, sum_of_weights = 0, 0.0
        if temperature > 0.0:
            for j in range(n_columns):
                exponent = (weights[j] - low) / temperature
                if exponent < NEGLIGIBLE_EXPONENT:
                    weights[j] = math.exp(-exponent)
                    sum_of_weights += weights[j]
                    active[n_active] = j
                    n_active += 1
        if n_active < 2:
            count[best] += 1.0
            continue
        total -= temperature * math.log(sum_of_weights)
        for e in range(n_active):
            weights[active[e]] /= sum_of_weights
        # Gradient q, minus the Hessian (diag(q) - q q') / t: the lower triangle.
        for e in range(n_active):
            a = active[e]
            count[a] += weights[a]
            curvature[a, a] += weights[a]
            for f in range(e + 1):
                curvature[a, active[f]] -= weights[a] * weights[active[f]]
    for a in range(n_columns):
        for b in range(a + 1):
            curvature[a, b] /= max(temperature, 1e-300)
            curvature[b, a] = curvature[a, b]
    return total


@parallel(lambda C, *_: C.size)
def best_columns(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    best: IntArray,
    low: Float64Array,
) -> None:
    """Find the column of each row that minimises ``C + prices``, by the row's kind.

    Overwrites `best` with the column, the first of equal ones, `low` with its value.
    """
    for i in numba.prange(C.shape[0]):
        least, column = np.inf, 0
        for j in range(C.shape[1]):
            value = C[i, j] + prices[kinds[i], j]
            if value < least:
                least, column = value, j
        best[i], low[i] = column, least


@cached_njit(nogil=True)
def share_ties(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    wanted: IntArray,
    labels: IntArray,
    low: Float64Array,
    rounding: float,
) -> None:
    """Move rows between columns that cost them the same, towards `wanted` counts.

    `labels` and `low` are those of `best_columns`; values that differ by at most
    `rounding` are the same. Of many equal rows the flow would move one at a time.
    """
    excess = -wanted
    for i in range(C.shape[0]):
        excess[kinds[i], labels[i]] += 1
    for i in range(C.shape[0]):
        s, a = kinds[i], labels[i]
        for b in range(C.shape[1]):
            if excess[s, a] <= 0:
                break
            if excess[s, b] < 0 and C[i, b] + prices[s, b] <= low[i] + rounding:
                excess[s, a] -= 1
                excess[s, b] += 1
                labels[i] = a = b


@cached_njit(nogil=True)
def largest_fair_set(
    gains: Float64Array, low: IntArray, high: IntArray, min_size: int, counts: IntArray
) -> float:
    """Most that `min_size` rows or more gain if their counts are within bounds.

    `gains` (h, m + 1) are those of the rows of each group, falling, -inf where there is
    none; `low` and `high` (h, m) bound the counts by the size of the set, from 1.
    Overwrites `counts` (h,) with those of the best set. Exact: for each size sums of
    falling gains are concave, so the next largest gain is always the one to add.
    """
    h, m = low.shape
    best, chosen = -np.inf, np.empty(h, np.int64)
    for z in range(min_size - 1, m):
        missing, value = z + 1, 0.0
        for s in range(h):
            chosen[s] = low[s, z]
            missing -= low[s, z]
            for e in range(low[s, z]):
                value += gains[s, e]
        while missing > 0:
            r = -1
            for s in range(h):
                if chosen[s] < high[s, z] and (
                    r < 0 or gains[s, chosen[s]] > gains[r, chosen[r]]
                ):
                    r = s
            if r < 0:
                break
            value += gains[r, chosen[r]]
            chosen[r] += 1
            missing -= 1
        if missing == 0 and value > best:
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
    wanted: IntArray,
    labels: IntArray,
) -> int:
    """Cheapest labels whose counts of kinds in columns are within bounds.

    Successive shortest paths (Ahuja, Magnanti, Orlin 1993, section 9.7) between the
    pairs of a kind s and a column a, each from one pair to the nearest: a path then
    visits few of many columns. An arc (s, a) -> (s, b) moves the row for which
    that is cheapest; an arc (s, a) -> (r, a) costs nothing and moves one of the places
    `wanted`, whose sums over kinds are the sizes of the columns, within `low` and
    `high`. On entry, and after each path, `labels` minimise ``C + prices`` and `wanted`
    maximises ``prices * wanted``: all reduced lengths are >= 0. On return the counts of
    the labels are `wanted`. All but `C` and `kinds` are overwritten. Returns the number
    of paths, -1 if there is none from a surplus to a deficit.
    """
    (h, k), n = prices.shape, C.shape[0]
    # Rows of each (kind, column), in linked lists.
    after, before, first = np.full(n, -1), np.full(n, -1), np.full((h, k), -1)
    counts = np.zeros((h, k), np.int64)
    for i in range(n):
        counts[kinds[i], labels[i]] += 1
        _push(i, kinds[i], labels[i], first, after, before)
    # Cheapest moves of each kind from a to b: how much they cost, and the rows.
    n_kept = max(2, min(KEPT_MOVES, MAX_KEPT_NUMBERS // (h * k * k)))
    costs, movers = np.empty((h, k, k, n_kept)), np.empty((h, k, k, n_kept), np.int64)
    n_moves = np.full((h, k, k), -1)  # -1: to be looked for
    floor = np.full((h, k, k), np.inf)  # no other row's move costs less
    distance, parent = np.empty(h * k), np.empty(h * k, np.int64)
    done = np.empty(h * k, np.bool_)
    n_paths, source = 0, 0
    while True:
        while source < h * k:
            if counts[source // k, source % k] > wanted[source // k, source % k]:
                break
            source += 1
        if source == h * k:
            return n_paths
        # Dijkstra's algorithm from one surplus to the nearest deficit.
        distance[:], done[:] = np.inf, False
        distance[source], parent[source] = 0.0, -1
        heap = [(0.0, source)]
        end = -1
        while heap:
            length, u = heapq.heappop(heap)
            if done[u]:
                continue
            done[u] = True
            s, a = u // k, u % k
            if counts[s, a] < wanted[s, a]:
                end = u
                break
            if wanted[s, a] < high[s, a]:
                for r in range(h):
                    v = r * k + a
                    if not done[v] and wanted[r, a] > low[r, a]:
                        longer = length + max(prices[r, a] - prices[s, a], 0.0)
                        if longer < distance[v]:
                            distance[v], parent[v] = longer, u
                            heapq.heappush(heap, (longer, v))
            if counts[s, a] == 0:
                continue
            for b in range(k):
                v = s * k + b
                if done[v]:
                    continue
                cost = _cheapest_move(
                    C, s, a, b, labels, first, after, costs, movers, n_moves, floor
                )
                longer = length + max(cost + prices[s, b] - prices[s, a], 0.0)
                if longer < distance[v]:
                    distance[v], parent[v] = longer, u
                    heapq.heappush(heap, (longer, v))
        if end < 0:
            return -1
        # Move a row, or a place, along each arc of the path.
        v = end
        while parent[v] >= 0:
            u = parent[v]
            s, a, r, b = u // k, u % k, v // k, v % k
            v = u
            if s != r:
                wanted[s, a] += 1
                wanted[r, a] -= 1
                continue
            i = movers[s, a, b, 0]
            _remove(i, s, a, first, after, before)
            _push(i, s, b, first, after, before)
            labels[i] = b
            counts[s, a] -= 1
            counts[s, b] += 1
            _offer_moves(C, i, s, b, costs, movers, n_moves, floor)
        farthest = distance[end]
        for v in range(h * k):
            prices[v // k, v % k] -= min(distance[v], farthest)
        n_paths += 1


@cached_njit(nogil=True)
def _cheapest_move(
    C: Float64Array,
    s: int,
    a: int,
    b: int,
    labels: IntArray,
    first: IntArray,
    after: IntArray,
    costs: Float64Array,
    movers: IntArray,
    n_moves: IntArray,
    floor: Float64Array,
) -> float:
    """Cost of the cheapest move of a row of kind s from a to b, inf if none is left."""
    cost, mover, n_kept = costs[s, a, b], movers[s, a, b], costs.shape[3]
    while n_moves[s, a, b] > 0 and labels[mover[0]] != a:  # rows that have left
        n_moves[s, a, b] -= 1
        for e in range(n_moves[s, a, b]):
            cost[e], mover[e] = cost[e + 1], mover[e + 1]
    is_used_up = n_moves[s, a, b] == 0 and floor[s, a, b] < np.inf
    if n_moves[s, a, b] == -1 or is_used_up:
        size, i = 0, first[s, a]
        while i >= 0:
            value = C[i, b] - C[i, a]
            if size < n_kept or value < cost[size - 1]:
                size = _insert(cost, mover, size, value, i)
            i = after[i]
        n_moves[s, a, b] = size
        floor[s, a, b] = cost[size - 1] if size == n_kept else np.inf
    return cost[0] if n_moves[s, a, b] > 0 else np.inf


@cached_njit(nogil=True)
def _offer_moves(
    C: Float64Array,
    i: int,
    s: int,
    b: int,
    costs: Float64Array,
    movers: IntArray,
    n_moves: IntArray,
    floor: Float64Array,
) -> None:
    """Put a row that is new in column b into the lists of moves from there."""
    for j in range(C.shape[1]):
        size = n_moves[s, b, j]
        value = C[i, j] - C[i, b]
        if j == b or size == -1 or value >= floor[s, b, j]:
            continue
        cost, mover = costs[s, b, j], movers[s, b, j]
        if (mover[:size] == i).any():  # it had left and is back
            continue
        if size == len(cost):  # the last one drops out, or the row itself
            floor[s, b, j] = max(value, cost[size - 1])
            if value >= cost[size - 1]:
                continue
        n_moves[s, b, j] = _insert(cost, mover, size, value, i)


@cached_njit(nogil=True)
def _insert(
    costs: Float64Array, movers: IntArray, size: int, cost: float, row: int
) -> int:
    """Insert into a sorted list, in which the last gives way; return its new size."""
    at = min(size, len(costs) - 1)
    while at > 0 and costs[at - 1] > cost:
        costs[at], movers[at] = costs[at - 1], movers[at - 1]
        at -= 1
    costs[at], movers[at] = cost, row
    return min(size + 1, len(costs))


@cached_njit(nogil=True)
def _push(
    i: int, s: int, a: int, first: IntArray, after: IntArray, before: IntArray
) -> None:
    """Put a row at the head of a linked list."""
    before[i], after[i] = -1, first[s, a]
    if first[s, a] >= 0:
        before[first[s, a]] = i
    first[s, a] = i


@cached_njit(nogil=True)
def _remove(
    i: int, s: int, a: int, first: IntArray, after: IntArray, before: IntArray
) -> None:
    """Take a row out of a linked list."""
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        first[s, a] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]


class NearestCentres(NamedTuple):
    """Rows at their nearest centres, the first of equal ones."""

    labels: NDArray[np.int32]  # (n,)
    low: Float64Array  # (n,): squared distance to the nearest centre
    # Of the rows of each centre, each times its weight:
    sums: Float64Array  # (k, d): their sum
    counts: Float64Array  # (k,): how many there are
    losses: Float64Array  # (k,): what they lose by going to the next nearest centre


def nearest_centres(
    X: Float64Array, centres: Float64Array, weights: Float64Array | None = None
) -> NearestCentres:
    """Find the nearest of `centres` (k, d) to each row of `X` (n, d)."""
    n, k = len(X), len(centres)
    n_parts = min(_PARTS, -(-n // _ROWS))
    labels, low = np.empty(n, np.int32), np.empty(n)
    sums = np.zeros((n_parts, *centres.shape))
    counts, losses = np.zeros((2, n_parts, k))
    squares = np.einsum("ij,ij->i", centres, centres)
    _nearest(
        read_only(X),
        np.ascontiguousarray(centres),
        squares,
        _NO_WEIGHTS if weights is None else read_only(weights),
        labels,
        low,
        sums,
        counts,
        losses,
    )
    return NearestCentres(
        labels, low, sums.sum(axis=0), counts.sum(axis=0), losses.sum(axis=0)
    )


@parallel(lambda X, centres, *_: X.size + centres.size * len(X) * 0.1, blas=True)
def _nearest(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    weights: Float64Array,
    labels: IntArray,
    low: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
    losses: Float64Array,
) -> None:
    n, n_parts = X.shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        end = n * (part + 1) // n_parts
        for start in range(n * part // n_parts, end, _ROWS):
            stop = min(end, start + _ROWS)
            _nearest_chunk(
                X[start:stop],
                centres,
                squares,
                weights[start:stop],
                labels[start:stop],
                low[start:stop],
                sums[part],
                counts[part],
                losses[part],
            )


@cached_njit(nogil=True, fastmath={"reassoc"})
def _nearest_chunk(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    weights: Float64Array,
    labels: IntArray,
    low: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
    losses: Float64Array,
) -> None:
    n = X.shape[0]
    products = np.dot(centres, X.T)
    least, next_least = np.full(n, np.inf), np.full(n, np.inf)
    best = np.zeros(n, np.int64)
    for j in range(products.shape[0]):
        # Without branches, and along the rows: vector instructions.
        for i in range(n):
            value = squares[j] - 2 * products[j, i]
            closer = value < least[i]
            next_least[i] = least[i] if closer else min(value, next_least[i])
            best[i] = j if closer else best[i]
            least[i] = value if closer else least[i]
    for i in range(n):
        j, weight = best[i], weights[i] if weights.size else 1.0
        square = 0.0
        for c in range(X.shape[1]):
            square += X[i, c] * X[i, c]
            sums[j, c] += weight * X[i, c]
        labels[i] = j
        low[i] = max(least[i] + square, 0.0)
        counts[j] += weight
        losses[j] += weight * (next_least[i] - least[i])


def capped_distances(
    X: Float64Array,
    centres: Float64Array,
    low: Float64Array,
    out: Float64Array,
    weights: Float64Array | None = None,
) -> Float64Array:
    """Overwrite `out` with squared distances of centres to rows, at most `low`.

    `X` is (n, d), `centres` (k, d), `low` (n,) and `out` (k, n). Returns the sums of
    the rows of `out`, of rows of `X` by their weights.
    """
    sums = np.zeros((min(_PARTS, -(-len(X) // _ROWS)), len(centres)))
    w = _NO_WEIGHTS if weights is None else read_only(weights)
    _capped(read_only(X), centres, read_only(low), w, out, sums)
    total: Float64Array = sums.sum(axis=0)
    return total


@parallel(lambda X, centres, *_: X.size + centres.size * len(X) * 0.2)
def _capped(
    X: Float64Array,
    centres: Float64Array,
    low: Float64Array,
    weights: Float64Array,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    n, n_parts = X.shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        first, end = n * part // n_parts, n * (part + 1) // n_parts
        _capped_part(X, centres, low, weights, out, sums[part], first, end)


@cached_njit(nogil=True, fastmath={"reassoc"})
def _capped_part(
    X: Float64Array,
    centres: Float64Array,
    low: Float64Array,
    weights: Float64Array,
    out: Float64Array,
    sums: Float64Array,
    first: int,
    end: int,
) -> None:
    for i in range(first, end):
        weight = weights[i] if weights.size else 1.0
        for j in range(centres.shape[0]):
            square = 0.0
            for c in range(X.shape[1]):
                square += (X[i, c] - centres[j, c]) ** 2
            out[j, i] = min(square, low[i])
            sums[j] += weight * out[j, i]
