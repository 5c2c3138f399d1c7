"""Sums and scatter matrices of rows that carry labels.

`label_scatter` is for few columns: rows are gathered by label into short columns
and multiplied in register tiles, which for up to a hundred columns is faster than
BLAS, whose calls and packing then cost more than the products. For more columns
`gather_shifted` prepares rows for BLAS. Rows are cut into chunks by the shape of
the data alone and chunks are added in their order: a result is the same to the
last bit whatever the number of threads.

Matrices of rows may have any strides, see `strided_table`.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from scalefair._threads import parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    StridedTable,
    strided_table,
)

# Rows multiplied at a time: 256 doubles of 64 columns are 128 KiB, in the cache.
_DEPTH = 256
# Columns are this far apart: a power of two would map them to the same cache set.
_STRIDE = _DEPTH + 8
# Fewest rows of a chunk, most chunks, and most bytes of their partial sums.
_ROWS = 2048
_CHUNKS = 64
_PARTIAL_BYTES = 2**26
# Up to so many labels, a pass over the rows for each of them is faster than a sort.
_FEW_LABELS = 8
# Rows that one thread gathers at a time for BLAS.
_GATHERED = 64
# Sums of products may be reordered, and NaN and infinity still count.
_FAST = {"contract", "reassoc", "nsz"}


def label_scatter(
    X: FloatArray, codes: IntArray, shifts: Float64Array
) -> tuple[IntArray, Float64Array, Float64Array]:
    """Return counts, sums and scatter matrices of shifted rows, for each label.

    Parameters
    ----------
    X : ndarray of shape (m, n), float64 or float32
        Rows, of any strides.
    codes : ndarray of shape (m,), int64
        Label of each row, from 0 to ``len(shifts) - 1``; not checked.
    shifts : ndarray of shape (n_labels, n), float64
        Subtracted from the rows of each label.

    Returns
    -------
    counts : ndarray of shape (n_labels,), int64
        Rows of each label.
    sums : ndarray of shape (n_labels, n)
        Sums of the shifted rows.
    scatters : ndarray of shape (n_labels, n, n)
        Sums of the products of the shifted rows, symmetric.
    """
    m, n = X.shape
    n_labels = len(shifts)
    width = -(-n // 4) * 4
    n_chunks = min(_CHUNKS, _PARTIAL_BYTES // max(8 * n_labels * width**2, 1))
    # A label has room for some rows in each chunk, or tiles would be too short.
    n_rows = max(_ROWS, 32 * n_labels, math.ceil(m / max(n_chunks, 1)))
    n_chunks = -(-m // n_rows)
    counts = np.zeros((n_chunks, n_labels), np.int64)
    sums = np.zeros((n_chunks, n_labels, n))
    partial = np.zeros((n_chunks, n_labels, width, width))
    _label_scatter(strided_table(X), codes, shifts, n_rows, counts, sums, partial)
    scatters = np.zeros((n_labels, n, n))
    _add_chunks(partial, scatters)
    return counts.sum(axis=0), sums.sum(axis=0), scatters


def first_means(
    X: FloatArray, codes: IntArray, n_labels: int, limit: int
) -> tuple[Float64Array, IntArray]:
    """Return the means of the first `limit` rows of each label, and their numbers.

    The mean of a label without rows is zero.
    """
    return _first_means(strided_table(X), X.shape[1], codes, n_labels, limit)


def gather_shifted(
    X: FloatArray, rows: IntArray, shift: Float64Array, out: Float64Array
) -> Float64Array:
    """Write ``X[rows] - shift`` to the C-contiguous `out` and return its sums."""
    sums = np.zeros((-(-out.shape[0] // _GATHERED), out.shape[1]))
    _gather_shifted(strided_table(X), rows, shift, out, sums)
    total: Float64Array = sums.sum(axis=0)
    return total


@numba.njit(cache=True)
def _first_means(
    table: StridedTable, n: int, codes: IntArray, n_labels: int, limit: int
) -> tuple[Float64Array, IntArray]:
    memory, first, row_step, column_step = table
    counts = np.zeros(n_labels, np.int64)
    means = np.zeros((n_labels, n))
    n_open = n_labels
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
    for code in range(n_labels):
        if counts[code] > 1:
            for j in range(n):
                means[code, j] /= counts[code]
    return means, counts


@numba.njit(cache=True)
def _sort_rows(
    codes: IntArray, start: int, stop: int, n_labels: int
) -> tuple[IntArray, IntArray]:
    """Rows in the order of their labels, and where each label starts."""
    starts = np.zeros(n_labels + 1, np.int64)
    rows = np.empty(stop - start + 1, np.int64)
    if n_labels <= _FEW_LABELS:  # one pass for each, without a branch
        end = 0
        for code in range(n_labels):
            for i in range(start, stop):
                rows[end] = i
                end += codes[i] == code
            starts[code + 1] = end
        return rows, starts
    for i in range(start, stop):
        starts[codes[i] + 1] += 1
    for code in range(n_labels):
        starts[code + 1] += starts[code]
    free = starts.copy()
    for i in range(start, stop):
        rows[free[codes[i]]] = i
        free[codes[i]] += 1
    return rows, starts


@numba.njit(cache=True)
def _gather_columns(
    table: StridedTable, rows: IntArray, shift: Float64Array, columns: Float64Array
) -> None:
    """Shifted rows as columns; both loops in the order of the memory of X."""
    memory, first, row_step, column_step = table
    n = shift.shape[0]
    if column_step == 1:
        for k in range(rows.shape[0]):
            x = memory[first + rows[k] * row_step :]
            for j in range(n):
                columns[j, k] = x[j] - shift[j]
    else:
        for j in range(n):
            column = columns[j]
            s = shift[j]
            start = first + j * column_step
            for k in range(rows.shape[0]):
                column[k] = memory[start + rows[k] * row_step] - s


@numba.njit(cache=True, fastmath=_FAST)
def _add_sums(columns: Float64Array, depth: int, sums: Float64Array) -> None:
    for j in range(sums.shape[0]):
        column = columns[j]
        total = 0.0
        for k in range(depth):
            total += column[k]
        sums[j] += total


@numba.njit(cache=True, fastmath=_FAST)
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


@numba.njit(cache=True)
def _add_lower(columns: Float64Array, depth: int, out: Float64Array) -> None:
    """Add the products of the columns with each other: the lower triangle."""
    width = columns.shape[0]
    for r in range(0, width, 4):
        for c in range(0, r + 4, 2):
            _add_tile(columns[r : r + 4], columns[c : c + 2], depth, out, r, c)


@numba.njit(cache=True)
def _scatter_chunk(
    table: StridedTable,
    codes: IntArray,
    shifts: Float64Array,
    start: int,
    stop: int,
    counts: IntArray,
    sums: Float64Array,
    scatters: Float64Array,
) -> None:
    """Add up the rows from start to stop of every label."""
    n_labels = shifts.shape[0]
    rows, starts = _sort_rows(codes, start, stop, n_labels)
    columns = np.zeros((scatters.shape[1], _STRIDE))
    for code in range(n_labels):
        counts[code] = starts[code + 1] - starts[code]
        for first in range(starts[code], starts[code + 1], _DEPTH):
            some = rows[first : min(first + _DEPTH, starts[code + 1])]
            _gather_columns(table, some, shifts[code], columns)
            _add_sums(columns, some.shape[0], sums[code])
            _add_lower(columns, some.shape[0], scatters[code])


# Nothing but the loop: what else stands in a parallel function is compiled slowly,
# once for each type of X.
@parallel(
    lambda table, codes, shifts, *_: (
        codes.size * shifts.shape[1] * (2 + 0.1 * shifts.shape[1])
    )
)
def _label_scatter(
    table: StridedTable,
    codes: IntArray,
    shifts: Float64Array,
    n_rows: int,
    counts: IntArray,
    sums: Float64Array,
    scatters: Float64Array,
) -> None:
    for chunk in numba.prange(counts.shape[0]):
        stop = min(codes.shape[0], (chunk + 1) * n_rows)
        _scatter_chunk(
            table,
            codes,
            shifts,
            chunk * n_rows,
            stop,
            counts[chunk],
            sums[chunk],
            scatters[chunk],
        )


@numba.njit(cache=True)
def _add_chunks(partial: Float64Array, out: Float64Array) -> None:
    """Add the lower triangles of all chunks, and mirror them."""
    n_chunks, n_labels = partial.shape[:2]
    n = out.shape[1]
    for chunk in range(n_chunks):
        for code in range(n_labels):
            for i in range(n):
                for j in range(i + 1):
                    out[code, i, j] += partial[chunk, code, i, j]
    for code in range(n_labels):
        for i in range(n):
            for j in range(i):
                out[code, j, i] = out[code, i, j]


@parallel(lambda table, rows, shift, out, sums: out.size)
def _gather_shifted(
    table: StridedTable,
    rows: IntArray,
    shift: Float64Array,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    for chunk in numba.prange(sums.shape[0]):
        start = chunk * _GATHERED
        stop = min(out.shape[0], start + _GATHERED)
        _gather_chunk(table, rows, shift, start, stop, out, sums[chunk])


@numba.njit(cache=True)
def _gather_chunk(
    table: StridedTable,
    rows: IntArray,
    shift: Float64Array,
    start: int,
    stop: int,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    memory, first, row_step, column_step = table
    n = out.shape[1]
    if column_step == 1:
        for k in range(start, stop):
            x = memory[first + rows[k] * row_step :]
            y = out[k]
            for j in range(n):
                y[j] = x[j] - shift[j]
                sums[j] += y[j]
    else:
        for j in range(n):
            column = first + j * column_step
            for k in range(start, stop):
                out[k, j] = memory[column + rows[k] * row_step] - shift[j]
                sums[j] += out[k, j]


@numba.njit(cache=True, nogil=True)
def mirror_lower(A: FloatArray) -> None:
    """Copy the lower triangle of a square matrix to the upper one."""
    n = A.shape[0]
    n_tiles = (n + _GATHERED - 1) // _GATHERED
    for tile in range(n_tiles):
        start = tile * _GATHERED
        stop = min(n, start + _GATHERED)
        for first in range(0, stop, _GATHERED):
            for i in range(start, stop):
                for j in range(first, min(first + _GATHERED, i)):
                    A[j, i] = A[i, j]


@parallel(lambda indptr, indices, data, *_: data.size**2 / max(indptr.size, 1))
def sparse_gram(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    t_indptr: IntArray,
    t_indices: IntArray,
    t_data: FloatArray,
    out: Float64Array,
) -> None:
    """Add ``X.T @ X`` to `out`, given the CSR arrays of `X` and of ``X.T``.

    One thread owns a row of `out`: no partial sums, and any order of threads.
    """
    for c in numba.prange(out.shape[0]):
        row = out[c]
        for p in range(t_indptr[c], t_indptr[c + 1]):
            i = t_indices[p]
            value = np.float64(t_data[p])
            for q in range(indptr[i], indptr[i + 1]):
                row[indices[q]] += value * data[q]
