"""Rows assigned to columns, by their costs, and to their nearest centres."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray, read_only

# Cheapest moves remembered for each ordered pair of columns.
_KEPT_MOVES = 32
# Sums over centres are formed in at most this many parts of the rows, whatever the
# number of threads, and added in their order: the last digits are always the same.
_PARTS = 64
# Rows multiplied by the centres at once: the products stay in the cache.
_ROWS = 512


@parallel(lambda C, chunks, prices, t, *_: C.size * (10 if t > 0 else 1))
def soft_columns(
    C: Float64Array,
    chunks: IntArray,
    prices: Float64Array,
    temperature: float,
    counts: Float64Array,
    values: Float64Array,
) -> None:
    """Smoothed minimum of ``C + prices`` in each row, summed over chunks of rows.

    It is ``-t log(sum(exp(-(C + prices) / t)))`` for the temperature t, the plain
    minimum at 0. `chunks` hold start, stop and kind of rows, `prices` a row per kind;
    `counts` (n_chunks, k) are overwritten with the shares of the columns, `values` with
    the sums of the minima.
    """
    for c in numba.prange(chunks.shape[0]):
        start, stop, kind = chunks[c, 0], chunks[c, 1], chunks[c, 2]
        values[c] = _soft_minima(C, start, stop, prices[kind], temperature, counts[c])


@cached_njit()
def _soft_minima(
    C: Float64Array,
    start: int,
    stop: int,
    prices: Float64Array,
    temperature: float,
    count: Float64Array,
) -> float:
    n_columns = C.shape[1]
    reduced = np.empty(n_columns)
    for j in range(n_columns):
        count[j] = 0
    total = 0.0
    for i in range(start, stop):
        best = 0
        for j in range(n_columns):
            reduced[j] = C[i, j] + prices[j]
            if reduced[j] < reduced[best]:
                best = j
        low = reduced[best]
        total += low
        if temperature == 0.0:
            count[best] += 1
            continue
        weight = 0.0
        for j in range(n_columns):
            excess = (reduced[j] - low) / temperature
            reduced[j] = math.exp(-excess) if excess < 30.0 else 0.0
            weight += reduced[j]
        total -= temperature * math.log(weight)
        for j in range(n_columns):
            count[j] += reduced[j] / weight
    return total


@parallel(lambda C, *_: C.size)
def best_columns(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    best: IntArray,
    low: Float64Array,
    second: Float64Array,
) -> None:
    """Find the column of each row that minimises ``C + prices``, by the row's kind.

    Overwrites `best` with the column, the first of equal ones, `low` with its value,
    and `second` with how much larger the next is, infinity if there is but one column.
    """
    for i in numba.prange(C.shape[0]):
        least, next_least, column = np.inf, np.inf, 0
        for j in range(C.shape[1]):
            value = C[i, j] + prices[kinds[i], j]
            if value < least:
                next_least = least
                least, column = value, j
            elif value < next_least:
                next_least = value
        best[i], low[i], second[i] = column, least, next_least - least


@cached_njit()
def _ranked(values: Float64Array, rank: int) -> float:
    """Find the value of a rank among others, which are put in another order.

    Hoare's selection. NumPy's `partition` takes Numba ten seconds to compile.
    """
    low, high = 0, values.size - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if j < rank < i:
            break
        if rank <= j:
            high = j
        else:
            low = i
    value: float = values[rank]
    return value


@parallel(lambda C, *_: 10 * C.size)
def box_widths(
    C: Float64Array,
    offsets: IntArray,
    prices: Float64Array,
    best: IntArray,
    low: Float64Array,
    second: Float64Array,
    ranks: IntArray,
    widths: Float64Array,
) -> None:
    """Find the change of one price that makes a number of rows change column.

    Rows of one kind are consecutive, from `offsets`, and none is without. `ranks` are
    the numbers of rows, at most those of the kind; `widths` is overwritten; both are
    (h, k).
    """
    n_kinds, n_columns = prices.shape
    for pair in numba.prange(n_kinds * n_columns):
        s, j = pair // n_columns, pair % n_columns
        start, stop = offsets[s], offsets[s + 1]
        margins = np.empty(stop - start)
        for i in range(start, stop):
            if best[i] == j:
                margins[i - start] = second[i]
            else:
                margins[i - start] = C[i, j] + prices[s, j] - low[i]
        rank = min(ranks[s, j], stop - start - 1)
        widths[s, j] = _ranked(margins, rank)


@parallel(lambda C, *_: C.size)
def count_open(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    best: IntArray,
    low: Float64Array,
    widths: Float64Array,
    n_open: IntArray,
) -> None:
    """Count, for each row, the columns that may become its best, into `n_open`.

    They are those whose value is above the best one by no more than the widths of
    the two columns together.
    """
    for i in numba.prange(C.shape[0]):
        s = kinds[i]
        own = widths[s, best[i]]
        n_open[i] = 0
        for j in range(C.shape[1]):
            excess = C[i, j] + prices[s, j] - low[i]
            if j != best[i] and excess <= own + widths[s, j]:
                n_open[i] += 1


@cached_njit()
def list_open(
    C: Float64Array,
    kinds: IntArray,
    prices: Float64Array,
    best: IntArray,
    low: Float64Array,
    widths: Float64Array,
    rows: IntArray,
    columns: IntArray,
    excesses: Float64Array,
) -> None:
    """List the pairs of row and column that `count_open` counted, row by row."""
    at = 0
    for i in range(C.shape[0]):
        s = kinds[i]
        own = widths[s, best[i]]
        for j in range(C.shape[1]):
            excess = C[i, j] + prices[s, j] - low[i]
            if j != best[i] and excess <= own + widths[s, j]:
                rows[at], columns[at], excesses[at] = i, j, excess
                at += 1


@cached_njit()
def _insert(
    values: Float64Array, rows: IntArray, size: int, value: float, row: int
) -> None:
    """Insert into sorted arrays of `size` entries; the last falls off when full."""
    at = size if size < values.shape[0] else size - 1
    while at > 0 and values[at - 1] > value:
        values[at], rows[at] = values[at - 1], rows[at - 1]
        at -= 1
    values[at], rows[at] = value, row


@cached_njit()
def _chain(
    row: int, column: int, first: IntArray, after: IntArray, before: IntArray
) -> None:
    """Put a row at the head of the chain of a column."""
    before[row], after[row] = -1, first[column]
    if first[column] >= 0:
        before[first[column]] = row
    first[column] = row


@cached_njit()
def _unchain(
    row: int, column: int, first: IntArray, after: IntArray, before: IntArray
) -> None:
    """Take a row out of the chain of its column."""
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        first[column] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]


@cached_njit()
def _list_moves(
    C: Float64Array,
    a: int,
    b: int,
    first: IntArray,
    after: IntArray,
    values: Float64Array,
    rows: IntArray,
) -> int:
    """List the cheapest moves of a row from a to b; return how many there are."""
    size = 0
    i = first[a]
    while i >= 0:
        value = C[i, b] - C[i, a]
        full = size == _KEPT_MOVES
        if not full or value < values[size - 1]:
            _insert(values, rows, size, value, i)
            size += 0 if full else 1
        i = after[i]
    return size


@cached_njit()
def move_along_paths(
    C: Float64Array, prices: Float64Array, target: IntArray, labels: IntArray
) -> int:
    """Find the cheapest assignment with ``target[j]`` rows in column j.

    Starts from the row minima of ``C + prices`` and moves surplus rows along shortest
    paths in the graph of the columns, where the arc from a to b costs the cheapest move
    of one row (successive shortest paths: Ahuja, Magnanti & Orlin 1993, Network Flows,
    section 9.7). Overwrites `labels`, and `prices` with those at which every row is in
    a cheapest column: the proof of optimality. Returns 1 if `target` does not add up.
    """
    n, k = C.shape
    if target.sum() != n:
        return 1
    counts = np.zeros(k, np.int64)
    after, before = np.full(n, -1), np.full(n, -1)  # rows of a column, chained
    first = np.full(k, -1)
    for i in range(n):
        a = 0
        for j in range(1, k):
            if C[i, j] + prices[j] < C[i, a] + prices[a]:
                a = j
        labels[i] = a
        counts[a] += 1
        _chain(i, a, first, after, before)
    # The cheapest moves from a to b, sorted; those not listed cost at least `rest`.
    # Size -1: not looked up yet. Rows that have left column a are skipped.
    values = np.empty((k, k, _KEPT_MOVES))
    movers = np.empty((k, k, _KEPT_MOVES), np.int64)
    size = np.full((k, k), -1)
    rest = np.full((k, k), np.inf)

    distance, parent = np.empty(k), np.empty(k, np.int64)
    done = np.empty(k, np.bool_)
    while True:
        short = False
        for j in range(k):
            distance[j] = 0.0 if counts[j] > target[j] else np.inf
            parent[j] = -1
            done[j] = False
            short = short or counts[j] < target[j]
        if not short:
            return 0
        end = -1
        while True:  # Dijkstra from all columns with surplus
            a = -1
            for j in range(k):
                if not done[j] and (a < 0 or distance[j] < distance[a]):
                    a = j
            if a < 0 or distance[a] == np.inf:
                return 1
            done[a] = True
            if counts[a] < target[a]:
                end = a
                break
            if counts[a] == 0:
                continue
            for b in range(k):
                if done[b]:
                    continue
                # Forget listed rows that have left column a.
                while size[a, b] > 0 and labels[movers[a, b, 0]] != a:
                    for e in range(size[a, b] - 1):
                        values[a, b, e] = values[a, b, e + 1]
                        movers[a, b, e] = movers[a, b, e + 1]
                    size[a, b] -= 1
                if size[a, b] == -1 or (size[a, b] == 0 and rest[a, b] < np.inf):
                    listed = _list_moves(
                        C, a, b, first, after, values[a, b], movers[a, b]
                    )
                    size[a, b] = listed
                    rest[a, b] = np.inf
                    if listed == _KEPT_MOVES:
                        rest[a, b] = values[a, b, listed - 1]
                if size[a, b] == 0:
                    continue
                length = max(values[a, b, 0] + prices[b] - prices[a], 0.0)
                if distance[a] + length < distance[b]:
                    distance[b] = distance[a] + length
                    parent[b] = a
        for j in range(k):
            prices[j] -= min(distance[j], distance[end])
        b = end
        while parent[b] >= 0:
            a = parent[b]
            i = movers[a, b, 0]
            _unchain(i, a, first, after, before)
            _chain(i, b, first, after, before)
            labels[i] = b
            counts[a] -= 1
            counts[b] += 1
            for j in range(k):
                if j == b or size[b, j] == -1:
                    continue
                value = C[i, j] - C[i, b]
                if value >= rest[b, j]:
                    continue
                full = size[b, j] == _KEPT_MOVES
                if full:
                    rest[b, j] = max(value, values[b, j, _KEPT_MOVES - 1])
                    if value >= values[b, j, _KEPT_MOVES - 1]:
                        continue
                _insert(values[b, j], movers[b, j], size[b, j], value, i)
                size[b, j] += 0 if full else 1
            b = a


class NearestCentres(NamedTuple):
    """Rows at their nearest centres, the first of equal ones."""

    labels: NDArray[np.int32]  # (n,)
    low: Float64Array  # (n,): squared distance to the nearest centre
    sums: Float64Array  # (k, d): sum of the rows of each centre
    counts: Float64Array  # (k,): how many there are
    losses: Float64Array  # (k,): what they lose by going to the next nearest centre


def nearest_centres(X: Float64Array, centres: Float64Array) -> NearestCentres:
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
        j = best[i]
        square = 0.0
        for c in range(X.shape[1]):
            square += X[i, c] * X[i, c]
            sums[j, c] += X[i, c]
        labels[i] = j
        low[i] = max(least[i] + square, 0.0)
        counts[j] += 1
        losses[j] += next_least[i] - least[i]


def capped_distances(
    X: Float64Array, centres: Float64Array, low: Float64Array, out: Float64Array
) -> Float64Array:
    """Overwrite `out` with squared distances of centres to rows, at most `low`.

    `X` is (n, d), `centres` (k, d), `low` (n,) and `out` (k, n). Returns the sums of
    the rows of `out`.
    """
    sums = np.zeros((min(_PARTS, -(-len(X) // _ROWS)), len(centres)))
    _capped(read_only(X), centres, read_only(low), out, sums)
    total: Float64Array = sums.sum(axis=0)
    return total


@parallel(lambda X, centres, *_: X.size + centres.size * len(X) * 0.2)
def _capped(
    X: Float64Array,
    centres: Float64Array,
    low: Float64Array,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    n, n_parts = X.shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        first, end = n * part // n_parts, n * (part + 1) // n_parts
        _capped_part(X, centres, low, out, sums[part], first, end)


@cached_njit(nogil=True, fastmath={"reassoc"})
def _capped_part(
    X: Float64Array,
    centres: Float64Array,
    low: Float64Array,
    out: Float64Array,
    sums: Float64Array,
    first: int,
    end: int,
) -> None:
    for i in range(first, end):
        for j in range(centres.shape[0]):
            square = 0.0
            for c in range(X.shape[1]):
                square += (X[i, c] - centres[j, c]) ** 2
            out[j, i] = min(square, low[i])
            sums[j] += out[j, i]
