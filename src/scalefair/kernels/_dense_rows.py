"""Sums over dense rows of any layout that carry codes and are shifted on the fly.

Rows are cut into slabs, or chunks, that threads share; these are read in blocks that
fit the cache, where rows are gathered code after code, less the shift of their code.
All bounds depend on the sizes alone and sums are added in their order: a result is the
same to the last bit whatever the number of threads.

`label_scatter` is for few columns: short columns multiplied in register tiles, which
for up to a hundred columns is faster than BLAS, whose calls and packing then cost more
than the products.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    StridedTable,
    read_only,
    strided_table,
)
from scalefair.kernels._block import mirror_lower

# A block of dense rows and the block of vectors are multiplied within the cache:
# this many entries, but never fewer rows than BLAS needs to be fast.
_BLOCK_ENTRIES = 2**16
_FEWEST_ROWS = 128
# Most slabs, and most entries of their separate sums.
_SLABS = 16
_SUM_ENTRIES = 2**23
# Rows in a register tile: 256 doubles of 64 columns are 128 KiB, in the cache.
_DEPTH = 256
# Columns are this far apart: a power of two would map them to the same cache set.
_STRIDE = _DEPTH + 8
# Fewest rows of a chunk, most chunks, and most bytes of their partial sums.
_ROWS = 2048
_CHUNKS = 64
_PARTIAL_BYTES = 2**26
# Up to so many codes, a pass over the rows for each of them is faster than a sort.
_FEW_CODES = 8
# Rows that one thread gathers at a time for BLAS.
_GATHERED = 64
# Sums of products may be reordered, and NaN and infinity still count.
_FAST = {"contract", "reassoc", "nsz"}


def dense_rows_matmat(
    X: FloatArray,
    codes: IntArray,
    centres: FloatArray,
    coefficients: FloatArray,
    V: FloatArray,
) -> FloatArray:
    """Return the sum of ``coefficients[g] * Z_g.T @ (Z_g @ V)`` over the codes g.

    ``Z_g`` are the rows of `X` of code g, which is not checked, less their centre. `X`,
    of any layout, is read once; rows with a zero coefficient are not. The result is of
    the type of `V`, `centres` and `coefficients`.
    """
    slabs, n_rows = _cut(X.shape, V.size)
    partial = np.zeros((slabs.size - 1, *V.shape), V.dtype)
    wanted, centres, V = coefficients != 0, read_only(centres), read_only(V)
    arguments = codes, wanted, centres, V, coefficients, slabs, n_rows, partial
    _matmat(len(partial), strided_table(X), *arguments)
    for part in partial[1:]:
        partial[0] += part
    total: FloatArray = partial[0]
    return total


def dense_rows_gram(
    X: FloatArray, codes: IntArray, centres: FloatArray, V: FloatArray
) -> Float64Array:
    """Return ``(Z_g @ V).T @ (Z_g @ V)`` of every code g, (G, k, k) in float64."""
    (n_codes, _), k = centres.shape, V.shape[1]
    slabs, n_rows = _cut(X.shape, n_codes * k * k)
    partial = np.zeros((slabs.size - 1, n_codes, k, k), np.float64)
    wanted, centres, V = np.ones(n_codes, np.bool_), read_only(centres), read_only(V)
    arguments = codes, wanted, centres, V, slabs, n_rows, partial
    _gram(len(partial), strided_table(X), *arguments)
    grams: Float64Array = partial.sum(axis=0)
    return grams


def dense_rows_moments(
    X: FloatArray, codes: IntArray, n_codes: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the number, mean and scatter of the rows of each code, in one pass.

    Blocks are combined by the formulas of Chan, Golub and LeVeque (1983), which
    subtract before they square. The mean is zero where there is no row; the scatter is
    the sum of the squared distances to the mean.
    """
    n = X.shape[1]
    slabs, n_rows = _cut(X.shape, n_codes * n)
    n_slabs = slabs.size - 1
    counts, scatter = np.zeros((2, n_slabs, n_codes))
    means = np.zeros((n_slabs, n_codes, n))
    wanted = np.ones(n_codes, np.bool_)
    arguments = codes, wanted, slabs, n_rows, counts, means, scatter
    _moments(n_slabs, strided_table(X), *arguments)
    _merge_slabs(counts, means, scatter)
    return counts[0], means[0], scatter[0]


def label_scatter(
    X: FloatArray, codes: IntArray, shifts: Float64Array
) -> tuple[IntArray, Float64Array, Float64Array]:
    """Return counts, sums and scatter matrices of the shifted rows of each code.

    `X` is of any layout; codes, below G, are not checked. A row of `shifts` for each
    code is subtracted. The scatters are (G, n, n), not divided by the counts.
    """
    (m, n), n_codes = X.shape, len(shifts)
    width = -(-n // 4) * 4
    n_chunks = min(_CHUNKS, _PARTIAL_BYTES // max(8 * n_codes * width**2, 1))
    # A code has room for some rows in each chunk, or tiles would be too short.
    n_rows = max(_ROWS, 32 * n_codes, math.ceil(m / max(n_chunks, 1)))
    n_chunks = -(-m // n_rows)
    counts = np.zeros((n_chunks, n_codes), np.int64)
    sums = np.zeros((n_chunks, n_codes, n))
    partial = np.zeros((n_chunks, n_codes, width, width))
    wanted = np.ones(n_codes, np.bool_)
    arguments = codes, wanted, shifts, n_rows, counts, sums, partial
    _scatter(n_chunks, strided_table(X), *arguments)
    scatters = np.ascontiguousarray(partial.sum(axis=0)[:, :n, :n])
    for scatter in scatters:
        mirror_lower(scatter)
    return counts.sum(axis=0), sums.sum(axis=0), scatters


def first_means(
    X: FloatArray, codes: IntArray, n_codes: int, limit: int
) -> tuple[Float64Array, IntArray]:
    """Return the means of the first `limit` rows of each code, and their numbers.

    The mean of a code without rows is zero.
    """
    return _first_means(strided_table(X), X.shape[1], codes, n_codes, limit)


def gather_shifted(
    X: FloatArray, rows: IntArray, shift: Float64Array, out: Float64Array
) -> Float64Array:
    """Write ``X[rows] - shift`` to the C-contiguous `out` and return its sums."""
    sums = np.zeros((-(-out.shape[0] // _GATHERED), out.shape[1]))
    _gather_chunks(len(sums), strided_table(X), rows, shift, out, sums)
    total: Float64Array = sums.sum(axis=0)
    return total


def _cut(shape: tuple[int, ...], n_sums: int) -> tuple[IntArray, int]:
    """Bounds of the slabs, and the rows of a block, from sizes alone."""
    m, n = shape
    n_rows = max(_BLOCK_ENTRIES // n, _FEWEST_ROWS)
    most = min(_SLABS, max(_SUM_ENTRIES // n_sums, 2))
    n_slabs = max(min(most, -(-m // n_rows)), 1)
    bounds = np.linspace(0, m, n_slabs + 1).astype(np.int64)
    return bounds, min(n_rows, m)


@cached_njit(nogil=True)
def _sort_rows(
    codes: IntArray, start: int, stop: int, wanted: IntArray
) -> tuple[IntArray, IntArray]:
    """Rows of the wanted codes, code after code, and where each code starts."""
    n_codes = wanted.shape[0]
    starts = np.zeros(n_codes + 1, np.int64)
    rows = np.empty(stop - start + 1, np.int64)
    if n_codes <= _FEW_CODES:  # one pass for each, without a branch
        end = 0
        for code in range(n_codes):
            if wanted[code]:
                for i in range(start, stop):
                    rows[end] = i
                    end += codes[i] == code
            starts[code + 1] = end
        return rows, starts
    for i in range(start, stop):
        starts[codes[i] + 1] += wanted[codes[i]]
    for code in range(n_codes):
        starts[code + 1] += starts[code]
    free = starts.copy()
    for i in range(start, stop):
        if wanted[codes[i]]:
            rows[free[codes[i]]] = i
            free[codes[i]] += 1
    return rows, starts


@cached_njit(nogil=True)
def _gather(
    table: StridedTable, rows: IntArray, shift: FloatArray, Z: FloatArray
) -> None:
    """Shifted rows; both loops in the order of the memory of X."""
    # Unsigned places: of others it would be asked whether they are negative.
    memory, first, row_step, column_step = table
    n = shift.shape[0]
    if column_step == 1:
        for k in range(rows.shape[0]):
            x = memory[first + rows[k] * row_step :]
            for j in range(n):
                Z[k, j] = x[j] - shift[j]
    else:
        for j in range(n):
            start = first + j * column_step
            s = shift[j]
            for k in range(rows.shape[0]):
                Z[k, j] = memory[np.uint64(start + rows[k] * row_step)] - s


@cached_njit(nogil=True)
def _gather_codes(
    table: StridedTable,
    codes: IntArray,
    start: int,
    stop: int,
    wanted: IntArray,
    centres: FloatArray,
    Z: FloatArray,
) -> IntArray:
    """Write the wanted rows of a block to `Z`; return where each code starts."""
    rows, starts = _sort_rows(codes, start, stop, wanted)
    for g in range(wanted.shape[0]):
        some = slice(starts[g], starts[g + 1])
        _gather(table, rows[some], centres[g], Z[some])
    return starts


# Parallel functions hold the loop alone: what else they hold is compiled slowly, once
# for each type of rows. Their loop variables are unsigned, and what is called would be
# compiled for those once more.
@parallel(
    lambda n, table, codes, wanted, centres, V, *_: (
        codes.size * V.shape[0] * (1 + 0.2 * V.shape[1])
    ),
    blas=True,
)
def _matmat(n_slabs: int, table: StridedTable, *arguments: Any) -> None:
    for s in numba.prange(n_slabs):
        _slab_matmat(np.int64(s), table, *arguments)


@cached_njit(nogil=True)
def _slab_matmat(
    s: Any,
    table: StridedTable,
    codes: IntArray,
    wanted: IntArray,
    centres: FloatArray,
    V: FloatArray,
    coefficients: FloatArray,
    slabs: IntArray,
    n_rows: int,
    partial: FloatArray,
) -> None:
    n, k = V.shape
    out = partial[s]
    Z, Y = np.empty((n_rows, n), V.dtype), np.empty((n_rows, k), V.dtype)
    product = np.empty((n, k), V.dtype)
    for start in range(slabs[s], slabs[s + 1], n_rows):
        stop = min(start + n_rows, slabs[s + 1])
        starts = _gather_codes(table, codes, start, stop, wanted, centres, Z)
        total = starts[-1]
        if total == 0:
            continue
        np.dot(Z[:total], V, Y[:total])
        for g in range(wanted.shape[0]):
            for q in range(starts[g], starts[g + 1]):
                for c in range(k):
                    Y[q, c] *= coefficients[g]
        np.dot(Z[:total].T, Y[:total], product)
        for j in range(n):
            for c in range(k):
                out[j, c] += product[j, c]


@parallel(
    lambda n, table, codes, wanted, centres, V, *_: (
        codes.size * V.shape[0] * (1 + 0.1 * V.shape[1])
    ),
    blas=True,
)
def _gram(n_slabs: int, table: StridedTable, *arguments: Any) -> None:
    for s in numba.prange(n_slabs):
        _slab_gram(np.int64(s), table, *arguments)


@cached_njit(nogil=True)
def _slab_gram(
    s: Any,
    table: StridedTable,
    codes: IntArray,
    wanted: IntArray,
    centres: FloatArray,
    V: FloatArray,
    slabs: IntArray,
    n_rows: int,
    partial: Float64Array,
) -> None:
    n, k = V.shape
    out = partial[s]
    Z, Y = np.empty((n_rows, n), V.dtype), np.empty((n_rows, k), V.dtype)
    product = np.empty((k, k), V.dtype)
    for start in range(slabs[s], slabs[s + 1], n_rows):
        stop = min(start + n_rows, slabs[s + 1])
        starts = _gather_codes(table, codes, start, stop, wanted, centres, Z)
        np.dot(Z[: starts[-1]], V, Y[: starts[-1]])
        for g in range(wanted.shape[0]):
            own = Y[starts[g] : starts[g + 1]]
            if own.shape[0] > 0:
                np.dot(own.T, own, product)
                for q in range(k):
                    for c in range(k):
                        out[g, q, c] += product[q, c]


@parallel(
    lambda n, table, codes, wanted, slabs, n_rows, counts, means, *_: (
        2 * codes.size * means.shape[2]
    )
)
def _moments(n_slabs: int, table: StridedTable, *arguments: Any) -> None:
    for s in numba.prange(n_slabs):
        _slab_moments(np.int64(s), table, *arguments)


@cached_njit(nogil=True)
def _slab_moments(
    s: Any,
    table: StridedTable,
    codes: IntArray,
    wanted: IntArray,
    slabs: IntArray,
    n_rows: int,
    counts: Float64Array,
    means: Float64Array,
    scatter: Float64Array,
) -> None:
    n_codes, n = means.shape[1:]
    Z, mean = np.empty((n_rows, n)), np.empty(n)
    for start in range(slabs[s], slabs[s + 1], n_rows):
        stop = min(start + n_rows, slabs[s + 1])
        # Less the means so far: what is squared stays small.
        starts = _gather_codes(table, codes, start, stop, wanted, means[s], Z)
        for g in range(n_codes):
            size = starts[g + 1] - starts[g]
            if size == 0:
                continue
            for j in range(n):
                mean[j] = 0
            for q in range(starts[g], starts[g + 1]):
                for j in range(n):
                    mean[j] += Z[q, j]
            for j in range(n):
                mean[j] /= size
            for q in range(starts[g], starts[g + 1]):
                within = 0.0
                for j in range(n):
                    within += (Z[q, j] - mean[j]) ** 2
                scatter[s, g] += within
            _merge(counts[s], means[s], scatter[s], g, size, mean)


@cached_njit(nogil=True)
def _merge(
    counts: Float64Array,
    means: Float64Array,
    scatter: Float64Array,
    g: int,
    size: float,
    difference: Float64Array,
) -> None:
    """Merge `size` rows, whose mean lies at `difference` from that of code g."""
    total = counts[g] + size
    between = 0.0
    for j in range(difference.shape[0]):
        between += difference[j] ** 2
        means[g, j] += difference[j] * (size / total)
    scatter[g] += between * (counts[g] * size / total)
    counts[g] = total


@cached_njit(nogil=True)
def _merge_slabs(
    counts: Float64Array, means: Float64Array, scatter: Float64Array
) -> None:
    """Merge all slabs into the first."""
    for s in range(1, counts.shape[0]):
        for g in range(counts.shape[1]):
            if counts[s, g] > 0:
                scatter[0, g] += scatter[s, g]
                difference = means[s, g] - means[0, g]
                _merge(counts[0], means[0], scatter[0], g, counts[s, g], difference)


@parallel(
    lambda n, table, codes, wanted, shifts, *_: (
        codes.size * shifts.shape[1] * (2 + 0.1 * shifts.shape[1])
    )
)
def _scatter(n_chunks: int, table: StridedTable, *arguments: Any) -> None:
    for c in numba.prange(n_chunks):
        _scatter_chunk(np.int64(c), table, *arguments)


@cached_njit(nogil=True)
def _scatter_chunk(
    c: Any,
    table: StridedTable,
    codes: IntArray,
    wanted: IntArray,
    shifts: Float64Array,
    n_rows: int,
    counts: IntArray,
    sums: Float64Array,
    scatters: Float64Array,
) -> None:
    start, stop = c * n_rows, min(codes.shape[0], (c + 1) * n_rows)
    rows, starts = _sort_rows(codes, start, stop, wanted)
    columns = np.zeros((scatters.shape[2], _STRIDE))
    for g in range(wanted.shape[0]):
        counts[c, g] = starts[g + 1] - starts[g]
        for first in range(starts[g], starts[g + 1], _DEPTH):
            some = rows[first : min(first + _DEPTH, starts[g + 1])]
            _gather_columns(table, some, shifts[g], columns)
            _add_sums(columns, some.shape[0], sums[c, g])
            _add_lower(columns, some.shape[0], scatters[c, g])


@cached_njit(nogil=True)
def _gather_columns(
    table: StridedTable, rows: IntArray, shift: Float64Array, columns: Float64Array
) -> None:
    """Shifted rows as columns; otherwise as `_gather`."""
    memory, first, row_step, column_step = table
    n = shift.shape[0]
    if column_step == 1:
        for k in range(rows.shape[0]):
            x = memory[first + rows[k] * row_step :]
            for j in range(n):
                columns[j, k] = x[j] - shift[j]
    else:
        for j in range(n):
            column, s = columns[j], shift[j]
            start = first + j * column_step
            for k in range(rows.shape[0]):
                column[k] = memory[np.uint64(start + rows[k] * row_step)] - s


@cached_njit(nogil=True, fastmath=_FAST)
def _add_sums(columns: Float64Array, depth: int, sums: Float64Array) -> None:
    for j in range(sums.shape[0]):
        column = columns[j]
        total = 0.0
        for k in range(depth):
            total += column[k]
        sums[j] += total


@cached_njit(nogil=True)
def _add_lower(columns: Float64Array, depth: int, out: Float64Array) -> None:
    """Add the products of the columns with each other: the lower triangle."""
    width = columns.shape[0]
    for r in range(0, width, 4):
        for c in range(0, r + 4, 2):
            _add_tile(columns[r : r + 4], columns[c : c + 2], depth, out, r, c)


@cached_njit(nogil=True, fastmath=_FAST)
def _add_tile(
    left: Float64Array,
    right: Float64Array,
    depth: int,
    out: Float64Array,
    r: int,
    c: int,
) -> None:
    """Add the products of four columns with two: as many as registers hold."""
    a0, a1, a2, a3 = left[0], left[1], left[2], left[3]
    b0, b1 = right[0], right[1]
    s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = 0.0
    for k in range(depth):
        s00 += a0[k] * b0[k]
        s01 += a0[k] * b1[k]
        s10 += a1[k] * b0[k]
        s11 += a1[k] * b1[k]
        s20 += a2[k] * b0[k]
        s21 += a2[k] * b1[k]
        s30 += a3[k] * b0[k]
        s31 += a3[k] * b1[k]
    out[r, c] += s00
    out[r, c + 1] += s01
    out[r + 1, c] += s10
    out[r + 1, c + 1] += s11
    out[r + 2, c] += s20
    out[r + 2, c + 1] += s21
    out[r + 3, c] += s30
    out[r + 3, c + 1] += s31


@cached_njit(nogil=True)
def _first_means(
    table: StridedTable, n: int, codes: IntArray, n_codes: int, limit: int
) -> tuple[Float64Array, IntArray]:
    memory, first, row_step, column_step = table
    counts, means = np.zeros(n_codes, np.int64), np.zeros((n_codes, n))
    n_open = n_codes
    for i in range(codes.shape[0]):
        code = codes[i]
        if counts[code] < limit:
            counts[code] += 1
            start = first + i * row_step
            for j in range(n):
                means[code, j] += memory[start + j * column_step]
            if counts[code] == limit:
                n_open -= 1
                if n_open == 0:
                    break
    for code in range(n_codes):
        if counts[code] > 1:
            for j in range(n):
                means[code, j] /= counts[code]
    return means, counts


@parallel(lambda n, table, rows, shift, out, sums: out.size)
def _gather_chunks(n_chunks: int, table: StridedTable, *arguments: Any) -> None:
    for c in numba.prange(n_chunks):
        _gather_chunk(np.int64(c), table, *arguments)


@cached_njit(nogil=True)
def _gather_chunk(
    c: Any,
    table: StridedTable,
    rows: IntArray,
    shift: Float64Array,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    some = slice(c * _GATHERED, min(out.shape[0], (c + 1) * _GATHERED))
    Z, own = out[some], sums[c]
    _gather(table, rows[some], shift, Z)
    for k in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            own[j] += Z[k, j]
