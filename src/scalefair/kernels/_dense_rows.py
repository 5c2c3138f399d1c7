"""Sums over dense rows that carry codes, less a shift for each code.

Rows of any layout are cut into chunks that threads share. A chunk is read in blocks
that fit the cache: rows are gathered code after code, and shifted as they are copied.
The bounds depend on the sizes alone and partial sums are added in their order, so that
results have the same bits for any number of threads.

To kernels, coded rows are ``(codes, selected, centres)``: the code of each row, which
codes are in use, and what is subtracted from the rows of each. Shapes are (m,), (G,)
and (G, n), for m rows of n columns and G codes. ``Z_g`` are the shifted rows of code g.

`label_scatter` is for few columns: short columns are multiplied in register tiles. Up
to a hundred columns that is faster than BLAS, whose calls and packing then cost more
than the products.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    CHUNK_SIZE,
    MAX_CHUNKS,
    MAX_PARTIAL_BYTES,
    Float64Array,
    FloatArray,
    IntArray,
    read_only,
    strided_table,
)
from scalefair.kernels._block import mirror_lower

# Entries of a block of dense rows: 512 kB of doubles, and fit the second-level cache.
BLOCK_ENTRIES = 2**16
# Rows of a register tile: 256 rows of 64 doubles are 128 KiB, and fit the cache.
REGISTER_TILE_ROWS = 256
# Sums of products may be reordered; NaN and infinity keep their meaning.
_FAST = {"contract", "reassoc", "nsz"}


def dense_rows_matmat(
    X: FloatArray,
    codes: IntArray,
    centres: FloatArray,
    coefficients: FloatArray,
    V: FloatArray,
    weights: Float64Array | None = None,
) -> FloatArray:
    """Return the sum of ``coefficients[g] * Z_g.T @ (Z_g @ V)`` over the codes g.

    ``Z_g`` are the rows of `X` of code g less their centre; codes are not checked. `X`,
    of any layout, is read once, and rows with a zero coefficient are skipped. With
    weights of the rows ``Z_g @ V`` is multiplied by them. The result has the type of
    `V`, `centres` and `coefficients`.
    """
    # Every chunk has a partial sum of the shape of V, (n, k). A row costs 4 n k flops,
    # and n numbers of memory traffic.
    bounds, n_rows = _cut(X.shape, V.size)
    partial = np.zeros((bounds.size - 1, *V.shape), V.dtype)
    coded = codes, coefficients != 0, read_only(centres)
    factors = _typed(weights, V.dtype)
    arguments = read_only(V), coefficients, factors, bounds, n_rows, partial
    _matmat(len(partial), strided_table(X), coded, *arguments)
    for part in partial[1:]:
        partial[0] += part
    return partial[0]


def dense_rows_gram(
    X: FloatArray,
    codes: IntArray,
    centres: FloatArray,
    V: FloatArray,
    weights: Float64Array | None = None,
) -> Float64Array:
    """Return ``(Z_g @ V).T @ (Z_g @ V)`` of every code g, (G, k, k) in float64.

    V is (n, k). With weights of the rows one of the factors is multiplied by them.
    """
    (n_codes, _), k = centres.shape, V.shape[1]
    bounds, n_rows = _cut(X.shape, n_codes * k * k)
    partial = np.zeros((bounds.size - 1, n_codes, k, k), np.float64)
    coded = codes, np.ones(n_codes, np.bool_), read_only(centres)
    # Rows of Z_g V times the root of their weight: the product of both factors has the
    # weight itself.
    roots = _typed(None if weights is None else np.sqrt(weights), V.dtype)
    arguments = read_only(V), roots, bounds, n_rows, partial
    _gram(len(partial), strided_table(X), coded, *arguments)
    return partial.sum(axis=0)


def label_scatter(
    X: FloatArray, codes: IntArray, shifts: Float64Array
) -> tuple[IntArray, Float64Array, Float64Array]:
    """Return counts, sums and scatter matrices of the shifted rows of each code.

    `X` is of any layout; codes, below G, are not checked. ``shifts[g]`` is subtracted
    from the rows of code g. The scatters, (G, n, n), are not divided by the counts.
    """
    # Scatter of a code: the sum of z z^T over its rows. 2 m n^2 flops for all, half of
    # them for the upper triangle, which is copied instead.
    (m, n), n_codes = X.shape, len(shifts)
    width = -(-n // 4) * 4  # of whole tiles of four columns
    # Each chunk has a scatter matrix of every code: G width^2 numbers.
    n_chunks = min(MAX_CHUNKS, MAX_PARTIAL_BYTES // max(8 * n_codes * width**2, 1))
    # Chunks have at least 32 rows of each code on average: short tiles are slow.
    n_rows = max(CHUNK_SIZE, 32 * n_codes, math.ceil(m / max(n_chunks, 1)))
    n_chunks = -(-m // n_rows)
    counts = np.zeros((n_chunks, n_codes), np.int64)
    sums = np.zeros((n_chunks, n_codes, n))
    partial = np.zeros((n_chunks, n_codes, width, width))
    coded = codes, np.ones(n_codes, np.bool_), shifts
    # Scatters have `width` rows and columns here: those beyond n stay zero.
    _scatter(n_chunks, strided_table(X), coded, n_rows, counts, sums, partial)
    scatters = np.ascontiguousarray(partial.sum(axis=0)[:, :n, :n])
    for scatter in scatters:
        mirror_lower(scatter)
    return counts.sum(axis=0), sums.sum(axis=0), scatters


def first_means(
    X: FloatArray,
    codes: IntArray,
    n_codes: int,
    limit: int,
    weights: Float64Array | None = None,
) -> tuple[Float64Array, IntArray]:
    """Return the means of the first `limit` rows of each code, and their counts.

    The mean of a code without rows is zero. Rows of weight 0 are left out. Such means
    are shifts: sums of squares of rows less one near their mean lose few digits.
    """
    if weights is not None:  # as rows of another code
        codes = np.where(weights > 0, codes, n_codes)
    # The additional code has the number n_codes, and is cut off from the result.
    arguments = X.shape[1], codes, n_codes + (weights is not None), limit
    means, counts = _first_means(strided_table(X), *arguments)
    return means[:n_codes], counts[:n_codes]


def gather_shifted(
    X: FloatArray, rows: IntArray, shift: Float64Array, out: Float64Array
) -> Float64Array:
    """Write ``X[rows] - shift`` to the C-contiguous `out` and return its sums."""
    # 64 rows: the copy is still in the cache when its sums are taken.
    sums = np.zeros((-(-out.shape[0] // 64), out.shape[1]))
    _gather_chunks(len(sums), strided_table(X), rows, shift, out, sums)
    return sums.sum(axis=0)


def _typed(factors, dtype):
    """Factors of the rows in the type of the kernel; None compiles a kernel without."""
    return None if factors is None else read_only(factors.astype(dtype))


def _cut(shape, n_partial):
    """Bounds of the chunks, and the rows of a block, from sizes alone."""
    # A chunk is read in blocks of `n_rows` rows: Z and its product stay in the cache.
    m, n = shape
    n_rows = max(BLOCK_ENTRIES // n, 128)  # BLAS is slow on fewer rows
    # At most 16 chunks: each has `n_partial` sums, to be cleared and added. Two are
    # allowed however much memory they take.
    n_chunks = min(16, max(MAX_PARTIAL_BYTES // (8 * n_partial), 2), -(-m // n_rows))
    bounds = np.linspace(0, m, max(n_chunks, 1) + 1).astype(np.int64)
    return bounds, min(n_rows, m)


@cached_njit(nogil=True)
def _sort_rows(codes, start, stop, selected):
    """Rows of the selected codes, code after code, and where each code starts.

    Rows `start` to `stop`: those of code g are ``rows[starts[g]:starts[g + 1]]``.
    """
    n_codes = selected.shape[0]
    starts = np.zeros(n_codes + 1, np.int64)
    rows = np.empty(stop - start, np.int64)
    # A counting sort: how many rows each code has, where its rows start, and the rows.
    for i in range(start, stop):
        starts[codes[i] + 1] += selected[codes[i]]
    for code in range(n_codes):
        starts[code + 1] += starts[code]
    position = starts.copy()
    for i in range(start, stop):
        if selected[codes[i]]:
            rows[position[codes[i]]] = i
            position[codes[i]] += 1
    return rows, starts


@cached_njit(nogil=True)
def _gather(table, rows, shift, Z):
    """Write shifted rows to `Z`, in the order of the memory of X.

    `table` is that of `strided_table`: X may be a transpose or a slice.
    """
    memory, offset, row_stride, column_stride = table
    n = shift.shape[0]
    if column_stride == 1:
        # Rows of X are contiguous in memory: the inner loop runs along a row.
        for k in range(rows.shape[0]):
            x = memory[offset + rows[k] * row_stride :]
            for j in range(n):
                Z[k, j] = x[j] - shift[j]
    else:
        # Columns are, as a rule: the inner loop runs down a column, over these rows.
        for j in range(n):
            start = offset + j * column_stride
            s = shift[j]
            for k in range(rows.shape[0]):
                # Unsigned indices are not tested for negative ones.
                Z[k, j] = memory[np.uint64(start + rows[k] * row_stride)] - s


@cached_njit(nogil=True)
def _gather_codes(table, coded, start, stop, Z):
    """Write the selected rows of a block to `Z`; return them and where codes start."""
    # Rows starts[g] to starts[g + 1] of Z are those of code g, less its centre.
    codes, selected, centres = coded
    rows, starts = _sort_rows(codes, start, stop, selected)
    for g in range(selected.shape[0]):
        members = slice(starts[g], starts[g + 1])
        _gather(table, rows[members], centres[g], Z[members])
    return rows, starts


# Parallel functions contain only the loop: all that they contain is compiled slowly,
# for each type of rows. Their loop variables are unsigned; they are passed on as int64,
# so that the functions called are compiled once.
@parallel(
    lambda n, table, coded, V, *_: coded[0].size * V.shape[0] * (1 + 0.2 * V.shape[1]),
    blas=True,
)
def _matmat(n_chunks, table, coded, *arguments):
    """Run `_chunk_matmat` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_matmat(np.int64(c), table, coded, *arguments)


@cached_njit(nogil=True)
def _chunk_matmat(
    chunk, table, coded, V, coefficients, factors, bounds, n_rows, partial
):
    """Weighted sum of ``Z_g.T @ Z_g @ V`` over the codes g in a chunk.

    Two products of BLAS for each block of rows, whatever the number of codes.
    """
    # Workspace of a block of rows: Z (rows, n), Y = Z V (rows, k), and Z^T D Y (n, k).
    (n, k), out = V.shape, partial[chunk]
    Z, Y = np.empty((n_rows, n), V.dtype), np.empty((n_rows, k), V.dtype)
    product = np.empty((n, k), V.dtype)
    for start in range(bounds[chunk], bounds[chunk + 1], n_rows):
        stop = min(start + n_rows, bounds[chunk + 1])
        rows, starts = _gather_codes(table, coded, start, stop, Z)
        n_gathered = starts[-1]
        if n_gathered == 0:
            continue
        # out <- out + Z^T D Z V, with D the coefficients of the rows, by code and
        # weight.
        np.dot(Z[:n_gathered], V, Y[:n_gathered])
        for g in range(coefficients.shape[0]):
            for q in range(starts[g], starts[g + 1]):
                factor = coefficients[g]
                if factors is not None:
                    factor *= factors[rows[q]]
                for c in range(k):
                    Y[q, c] *= factor
        np.dot(Z[:n_gathered].T, Y[:n_gathered], product)
        for j in range(n):
            for c in range(k):
                out[j, c] += product[j, c]


@parallel(
    lambda n, table, coded, V, *_: coded[0].size * V.shape[0] * (1 + 0.1 * V.shape[1]),
    blas=True,
)
def _gram(n_chunks, table, coded, *arguments):
    """Run `_chunk_gram` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_gram(np.int64(c), table, coded, *arguments)


@cached_njit(nogil=True)
def _chunk_gram(chunk, table, coded, V, factors, bounds, n_rows, partial):
    """Gram matrices of ``Z_g @ V``, times factors, for the codes g in a chunk.

    `factors` of the rows are square roots of their weights, or None.
    """
    # Workspace of a block of rows: Z (rows, n), Y = Z V (rows, k), and Y_g^T Y_g.
    (n, k), out = V.shape, partial[chunk]
    Z, Y = np.empty((n_rows, n), V.dtype), np.empty((n_rows, k), V.dtype)
    product = np.empty((k, k), V.dtype)
    for start in range(bounds[chunk], bounds[chunk + 1], n_rows):
        stop = min(start + n_rows, bounds[chunk + 1])
        rows, starts = _gather_codes(table, coded, start, stop, Z)
        # out_g <- out_g + (Z_g V)^T (Z_g V)
        np.dot(Z[: starts[-1]], V, Y[: starts[-1]])
        if factors is not None:
            for q in range(starts[-1]):
                for c in range(k):
                    Y[q, c] *= factors[rows[q]]
        for g in range(out.shape[0]):
            # 2 k^2 flops a row, after 2 n k for the product Z V.
            Y_g = Y[starts[g] : starts[g + 1]]
            if Y_g.shape[0] > 0:
                np.dot(Y_g.T, Y_g, product)
                for q in range(k):
                    for c in range(k):
                        out[g, q, c] += product[q, c]


@parallel(
    lambda n, table, coded, *_: (
        coded[0].size * coded[2].shape[1] * (2 + 0.1 * coded[2].shape[1])
    )
)
def _scatter(n_chunks, table, coded, *arguments):
    """Run `_chunk_scatter` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_scatter(np.int64(c), table, coded, *arguments)


@cached_njit(nogil=True)
def _chunk_scatter(chunk, table, coded, n_rows, counts, sums, scatters):
    """Count and add up the rows of a chunk; lower triangles of their scatters."""
    codes, selected, shifts = coded
    start, stop = chunk * n_rows, min(codes.shape[0], (chunk + 1) * n_rows)
    rows, starts = _sort_rows(codes, start, stop, selected)
    # Row j of `columns` is column j of the shifted rows: products of two columns then
    # run along memory. At most REGISTER_TILE_ROWS entries of it are in use. The 8 more
    # are for the stride: one of a power of two would map all rows to one cache set.
    columns = np.zeros((scatters.shape[2], REGISTER_TILE_ROWS + 8))
    # Code after code, a tile of its rows at a time: sums, and products of columns.
    for g in range(selected.shape[0]):
        counts[chunk, g] = starts[g + 1] - starts[g]
        for first in range(starts[g], starts[g + 1], REGISTER_TILE_ROWS):
            tile = rows[first : min(first + REGISTER_TILE_ROWS, starts[g + 1])]
            _gather(table, tile, shifts[g], columns.T)
            _add_sums(columns, tile.shape[0], sums[chunk, g])
            _add_lower(columns, tile.shape[0], scatters[chunk, g])


@cached_njit(nogil=True, fastmath=_FAST)
def _add_sums(columns, depth, sums):
    """Add the sums of the columns, of which `depth` entries are used."""
    # Column by column, along the memory.
    for j in range(sums.shape[0]):
        column = columns[j]
        total = 0.0
        for k in range(depth):
            total += column[k]
        sums[j] += total


@cached_njit(nogil=True)
def _add_lower(columns, depth, out):
    """Add the products of the columns with each other: the lower triangle."""
    # Tiles of 4 x 2 entries that touch the lower triangle. What they hold above the
    # diagonal is overwritten in the end, by `mirror_lower`.
    width = columns.shape[0]
    for r in range(0, width, 4):
        for c in range(0, r + 4, 2):
            _add_tile(columns[r : r + 4], columns[c : c + 2], depth, out, r, c)


@cached_njit(nogil=True, fastmath=_FAST)
def _add_tile(A, B, depth, out, r, c):
    """Add the products of four columns with two: the sums fit the registers.

    A is (4, depth or more), B (2, depth or more): rows r to r + 3 of the scatter, and
    its columns c and c + 1.
    """
    # 16 flops for six numbers read: the products of columns one by one read sixteen.
    # Eight sums that do not wait for each other, in registers until the end.
    a0, a1, a2, a3 = A[0], A[1], A[2], A[3]
    b0, b1 = B[0], B[1]
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
def _first_means(table, n, codes, n_codes, limit):
    """Add up the first rows of each code, then divide by their counts.

    Returns means (n_codes, n) and counts (n_codes,).
    """
    memory, offset, row_stride, column_stride = table
    counts, means = np.zeros(n_codes, np.int64), np.zeros((n_codes, n))
    # The pass ends when every code has its `limit` rows, which may be early.
    n_open = n_codes  # codes with fewer than `limit` rows so far
    for i in range(codes.shape[0]):
        code = codes[i]
        if counts[code] < limit:
            counts[code] += 1
            start = offset + i * row_stride
            for j in range(n):
                means[code, j] += memory[start + j * column_stride]
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
def _gather_chunks(n_chunks, table, *arguments):
    """Run `_gather_chunk` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _gather_chunk(np.int64(c), table, *arguments)


@cached_njit(nogil=True)
def _gather_chunk(chunk, table, rows, shift, out, sums):
    """Copy the shifted rows of a chunk, and add them up."""
    # Chunk c of n has the rows from c m / n on.
    m, n_chunks = out.shape[0], sums.shape[0]
    start, stop = chunk * m // n_chunks, (chunk + 1) * m // n_chunks
    Z = out[start:stop]
    _gather(table, rows[start:stop], shift, Z)
    for k in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            sums[chunk, j] += Z[k, j]
