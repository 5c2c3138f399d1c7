"""Sums over dense rows that are centred on the fly.

Rows carry a code; each code has a centre that is subtracted from its rows. The rows
are cut into slabs that threads share, each read in blocks that fit the cache. Slabs
and blocks depend on the sizes alone, and the sums of the slabs are added in their
order: a result is the same whatever the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair._threads import parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    StridedTable,
    read_only,
    strided_table,
)

# A block of dense rows and the block of vectors are multiplied within the cache:
# this many entries, but never fewer rows than BLAS needs to be fast.
_BLOCK_ENTRIES = 2**16
_FEWEST_ROWS = 128
# Most slabs, and most entries of their separate sums.
_SLABS = 16
_SUM_ENTRIES = 2**23


def dense_rows_matmat(
    X: FloatArray,
    codes: IntArray,
    centres: FloatArray,
    coefficients: FloatArray,
    V: FloatArray,
) -> FloatArray:
    """Return the sum of ``coefficients[g] * Z_g.T @ (Z_g @ V)`` over the codes g.

    ``Z_g`` are the rows of `X` of code g less their centre. `X` is read once, in
    blocks of rows that are centred and converted in a buffer, as `V` is typed;
    rows with a zero coefficient are not read.

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Rows, any layout, float32 or float64.
    codes : ndarray of int, shape (m,)
        Code of each row, below G.
    centres : ndarray of shape (G, n)
        Of the type of `V`.
    coefficients : ndarray of shape (G,)
        Of the type of `V`.
    V : ndarray of shape (n, k)
        C-contiguous block.

    Returns
    -------
    ndarray of shape (n, k), of the type of `V`
    """
    slabs, n_rows = _cut(X.shape, V.size)
    partial = np.zeros((slabs.size - 1, *V.shape), V.dtype)
    V, centres = read_only(V), read_only(centres)
    _dense_matmat(
        strided_table(X), codes, centres, coefficients, V, slabs, n_rows, partial
    )
    for part in partial[1:]:
        partial[0] += part
    total: FloatArray = partial[0]
    return total


def dense_rows_gram(
    X: FloatArray, codes: IntArray, centres: FloatArray, V: FloatArray
) -> Float64Array:
    """Return ``(Z_g @ V).T @ (Z_g @ V)`` of every code g, in one pass over `X`.

    Parameters as in `dense_rows_matmat`.

    Returns
    -------
    ndarray of shape (G, k, k), float64
    """
    k = V.shape[1]
    n_codes = centres.shape[0]
    slabs, n_rows = _cut(X.shape, n_codes * k * k)
    partial = np.zeros((slabs.size - 1, n_codes, k, k), np.float64)
    V, centres = read_only(V), read_only(centres)
    _dense_gram(strided_table(X), codes, centres, V, slabs, n_rows, partial)
    grams: Float64Array = partial.sum(axis=0)
    return grams


def dense_rows_moments(
    X: FloatArray, codes: IntArray, n_codes: int
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the number, mean and scatter of the rows of each code, in one pass.

    Blocks are combined by the formulas of Chan, Golub and LeVeque (1983), which
    subtract before they square.

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Rows, any layout, float32 or float64.
    codes : ndarray of int, shape (m,)
        Code of each row, below `n_codes`.
    n_codes : int

    Returns
    -------
    counts : ndarray of shape (n_codes,), float64
    means : ndarray of shape (n_codes, n), float64
        Zero where there is no row.
    scatter : ndarray of shape (n_codes,), float64
        Sum of the squared distances to the mean.
    """
    n = X.shape[1]
    slabs, n_rows = _cut(X.shape, n_codes * n)
    n_slabs = slabs.size - 1
    counts = np.zeros((n_slabs, n_codes))
    means = np.zeros((n_slabs, n_codes, n))
    scatter = np.zeros((n_slabs, n_codes))
    _dense_moments(strided_table(X), codes, slabs, n_rows, counts, means, scatter)
    _merge_slabs(counts, means, scatter)
    return counts[0], means[0], scatter[0]


def _cut(shape: tuple[int, ...], n_sums: int) -> tuple[IntArray, int]:
    """Bounds of the slabs, and the rows of a block, from sizes alone."""
    m, n = shape
    n_rows = max(_BLOCK_ENTRIES // n, _FEWEST_ROWS)
    most = min(_SLABS, max(_SUM_ENTRIES // n_sums, 2))
    n_slabs = max(min(most, -(-m // n_rows)), 1)
    bounds = np.linspace(0, m, n_slabs + 1).astype(np.int64)
    return bounds, min(n_rows, m)


@numba.njit(cache=True, nogil=True)
def _sort_rows(
    codes: IntArray,
    start: int,
    stop: int,
    wanted: FloatArray | IntArray,
    rows: IntArray,
    ends: IntArray,
) -> int:
    """List the rows of the wanted codes, code after code, and where each ends."""
    for g in range(ends.shape[0]):
        ends[g] = 0
    for i in range(start, stop):
        if wanted[codes[i]] != 0:
            ends[codes[i]] += 1
    total = 0
    for g in range(ends.shape[0]):
        size = ends[g]
        ends[g] = total
        total += size
    for i in range(start, stop):
        if wanted[codes[i]] != 0:
            rows[ends[codes[i]]] = i
            ends[codes[i]] += 1
    return total


@numba.njit(cache=True, nogil=True)
def _fill(
    table: StridedTable,
    rows: IntArray,
    ends: IntArray,
    centres: FloatArray,
    Z: FloatArray,
) -> None:
    """Copy rows, less the centres of their codes, to the buffer."""
    memory, origin, row_step, column_step = table
    n = Z.shape[1]
    start = 0
    for g in range(ends.shape[0]):
        if column_step == 1:
            for q in range(start, ends[g]):
                x = memory[origin + rows[q] * row_step :]
                for j in range(n):
                    Z[q, j] = x[j] - centres[g, j]
        else:
            for j in range(n):
                first = origin + j * column_step
                for q in range(start, ends[g]):
                    Z[q, j] = memory[first + rows[q] * row_step] - centres[g, j]
        start = ends[g]


@parallel(
    lambda table, codes, centres, coefficients, V, *_: (
        codes.size * V.shape[0] * (1 + 0.2 * V.shape[1])
    ),
    blas=True,
)
def _dense_matmat(
    table: StridedTable,
    codes: IntArray,
    centres: FloatArray,
    coefficients: FloatArray,
    V: FloatArray,
    slabs: IntArray,
    n_rows: int,
    partial: FloatArray,
) -> None:
    for s in numba.prange(slabs.shape[0] - 1):
        _slab_matmat(
            table,
            codes,
            centres,
            coefficients,
            V,
            slabs[s],
            slabs[s + 1],
            n_rows,
            partial[s],
        )


@numba.njit(cache=True, nogil=True)
def _slab_matmat(
    table: StridedTable,
    codes: IntArray,
    centres: FloatArray,
    coefficients: FloatArray,
    V: FloatArray,
    begin: int,
    end: int,
    n_rows: int,
    out: FloatArray,
) -> None:
    n, k = V.shape
    Z = np.empty((n_rows, n), V.dtype)
    Y = np.empty((n_rows, k), V.dtype)
    product = np.empty((n, k), V.dtype)
    rows = np.empty(n_rows, np.int64)
    ends = np.empty(coefficients.shape[0], np.int64)
    for start in range(begin, end, n_rows):
        stop = min(start + n_rows, end)
        total = _sort_rows(codes, start, stop, coefficients, rows, ends)
        if total == 0:
            continue
        _fill(table, rows, ends, centres, Z)
        np.dot(Z[:total], V, Y[:total])
        first = 0
        for g in range(ends.shape[0]):
            for q in range(first, ends[g]):
                for c in range(k):
                    Y[q, c] *= coefficients[g]
            first = ends[g]
        np.dot(Z[:total].T, Y[:total], product)
        for j in range(n):
            for c in range(k):
                out[j, c] += product[j, c]


@parallel(
    lambda table, codes, centres, V, *_: (
        codes.size * V.shape[0] * (1 + 0.1 * V.shape[1])
    ),
    blas=True,
)
def _dense_gram(
    table: StridedTable,
    codes: IntArray,
    centres: FloatArray,
    V: FloatArray,
    slabs: IntArray,
    n_rows: int,
    partial: Float64Array,
) -> None:
    for s in numba.prange(slabs.shape[0] - 1):
        _slab_gram(
            table,
            codes,
            centres,
            V,
            slabs[s],
            slabs[s + 1],
            n_rows,
            partial[s],
        )


@numba.njit(cache=True, nogil=True)
def _slab_gram(
    table: StridedTable,
    codes: IntArray,
    centres: FloatArray,
    V: FloatArray,
    begin: int,
    end: int,
    n_rows: int,
    out: Float64Array,
) -> None:
    n, k = V.shape
    Z = np.empty((n_rows, n), V.dtype)
    Y = np.empty((n_rows, k), V.dtype)
    product = np.empty((k, k), V.dtype)
    rows = np.empty(n_rows, np.int64)
    ends = np.empty(centres.shape[0], np.int64)
    every = np.ones(centres.shape[0], np.int8)
    for start in range(begin, end, n_rows):
        stop = min(start + n_rows, end)
        total = _sort_rows(codes, start, stop, every, rows, ends)
        _fill(table, rows, ends, centres, Z)
        np.dot(Z[:total], V, Y[:total])
        first = 0
        for g in range(ends.shape[0]):
            if ends[g] > first:
                np.dot(Y[first : ends[g]].T, Y[first : ends[g]], product)
                for q in range(k):
                    for c in range(k):
                        out[g, q, c] += product[q, c]
            first = ends[g]


@parallel(
    lambda table, codes, slabs, n_rows, counts, means, scatter: (
        2 * codes.size * means.shape[2]
    )
)
def _dense_moments(
    table: StridedTable,
    codes: IntArray,
    slabs: IntArray,
    n_rows: int,
    counts: Float64Array,
    means: Float64Array,
    scatter: Float64Array,
) -> None:
    for s in numba.prange(slabs.shape[0] - 1):
        _slab_moments(
            table,
            codes,
            slabs[s],
            slabs[s + 1],
            n_rows,
            counts[s],
            means[s],
            scatter[s],
        )


@numba.njit(cache=True, nogil=True)
def _slab_moments(
    table: StridedTable,
    codes: IntArray,
    begin: int,
    end: int,
    n_rows: int,
    counts: Float64Array,
    means: Float64Array,
    scatter: Float64Array,
) -> None:
    n_codes, n = means.shape
    Z = np.empty((n_rows, n), np.float64)
    mean = np.empty(n, np.float64)
    rows = np.empty(n_rows, np.int64)
    ends = np.empty(n_codes, np.int64)
    every = np.ones(n_codes, np.int8)
    for start in range(begin, end, n_rows):
        stop = min(start + n_rows, end)
        _sort_rows(codes, start, stop, every, rows, ends)
        # Less the means so far: what is squared stays small.
        _fill(table, rows, ends, means, Z)
        first = 0
        for g in range(n_codes):
            size = ends[g] - first
            if size > 0:
                for j in range(n):
                    mean[j] = 0
                for q in range(first, ends[g]):
                    for j in range(n):
                        mean[j] += Z[q, j]
                for j in range(n):
                    mean[j] /= size
                for q in range(first, ends[g]):
                    within = 0.0
                    for j in range(n):
                        within += (Z[q, j] - mean[j]) ** 2
                    scatter[g] += within
                _merge(counts, means, scatter, g, size, mean)
            first = ends[g]


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
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
