"""CSR matrices: products with dense blocks of vectors, Gram matrices, symmetry.

Row i of a matrix has the entries ``data[indptr[i]:indptr[i + 1]]``, in the columns that
`indices` say. A product with a block gathers the rows of the block that these columns
name, which takes most of the time if the block is larger than the cache. So its rows
begin at cache lines (`csr_workspace`), they are asked for ahead of their use, and four
entries are multiplied at a time.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    MAX_CHUNKS,
    SMALL_SIZE,
    Float64Array,
    FloatArray,
    IntArray,
    Scalar,
    read_only,
)

# Bytes of a block that stays in a core's cache: the rows of larger ones are prefetched.
CACHE_BYTES = 16 * 2**20
# Entries between the one that is multiplied and the one whose row is prefetched.
PREFETCH_DISTANCE = 32
CACHE_LINE_BYTES = 64


def csr_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
    scale: FloatArray | None = None,
    workspace: FloatArray | None = None,
) -> None:
    """Overwrite `out` with ``alpha * (A @ X - shift * X) + beta * out``.

    A is (p, n), square where it is shifted or scaled, `X` (n, k) and `out` (p, k), both
    C-contiguous, of the type of `data`; `out` is not read when ``beta == 0``. Each row
    is summed in storage order, whatever the number of threads.
    With `scale`, not zero, A is ``diag(scale) @ A0 @ diag(scale)``, A0 the stored
    matrix. The scaled rows of `X` are written to `workspace`, of `csr_workspace`, and
    gathered from there. (A look-up of the scale of each entry took 1.5 times as long.)
    (Tiles of columns that fit the cache were slower at every width: a gathered row
    then uses only part of the cache lines it brings in.)
    """
    # A conversion takes microseconds, the compilation for 64-bit indices seconds.
    if indices.dtype != np.int32 and max(indices.size, X.shape[0]) <= SMALL_SIZE:
        indptr, indices = indptr.astype(np.int32), indices.astype(np.int32)
    csr = read_only((indptr, indices, data))
    # V is gathered, row by row of A; X is read once, for the shift.
    V = X = read_only(X)
    # An empty scale stands for ones: one type for Numba, and no products with 1.
    scalars = alpha, shift, beta
    row_scale = read_only(np.empty(0, X.dtype) if scale is None else scale)
    if workspace is not None:
        _scale_rows(X, row_scale, workspace)
        V = read_only(workspace)
    if X.shape[1] == 1:
        # A kernel of its own for one column: it keeps the sum of a row in a register,
        # where the other one would read and write `out` for every four entries.
        vectors = V.reshape(-1), X.reshape(-1), out.reshape(-1)
        _matvec(*csr, *vectors, *scalars, row_scale)
    else:
        _matmat(*csr, V, X, out, *scalars, row_scale, MAX_CHUNKS)


def csr_workspace(
    X: FloatArray, workspace: FloatArray | None, scaled: bool
) -> FloatArray | None:
    """Return a workspace for `csr_matmat`: the one passed if it fits such a block.

    Rows of a large block start at cache lines if a row then touches fewer of them, and
    if what fills up a row to whole lines is short: products take three quarters of the
    time. None if `X` itself serves as well and is not `scaled`.
    """
    n, k = X.shape
    length = k * X.itemsize
    # Length of a row in bytes, up to the next cache line.
    aligned = -(-length // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
    # Bytes of the cache lines that a row touches, on average, where it is now.
    # Rows start at every multiple of gcd(length, 64) within a line, equally often.
    touched = CACHE_LINE_BYTES + length - math.gcd(length, CACHE_LINE_BYTES)
    # Worth a copy: at least 5 % fewer lines, at most half as much memory again.
    if X.nbytes > CACHE_BYTES and aligned <= min(0.95 * touched, 1.5 * length):
        k = aligned // X.itemsize
    if not (scaled or k > X.shape[1]):
        return None
    if workspace is None or workspace.shape != (n, k):
        # Memory may start anywhere in a line: allocate one more, start at its boundary.
        buffer = np.empty(n * k + CACHE_LINE_BYTES // X.itemsize, X.dtype)
        start = -buffer.ctypes.data % CACHE_LINE_BYTES // X.itemsize
        workspace = buffer[start : start + n * k].reshape(n, k)
    return workspace


@parallel(lambda X, *_: 0.5 * X.size)
def _scale_rows(X, scale, out):
    """Copy ``diag(scale) @ X`` to `out`, whose rows may be longer."""
    # What a row of `out` has behind the k columns is neither written nor read.
    for i in numba.prange(X.shape[0]):
        factor = scale[i] if scale.shape[0] else X.dtype.type(1)
        for c in range(X.shape[1]):
            out[i, c] = factor * X[i, c]


@parallel(lambda indptr, indices, data, *_: data.size + 1.0 * indptr.size)
def _matvec(indptr, indices, data, v, x, out, alpha, shift, beta, scale):
    """One column of `_matmat`, with the sum of a row in a register."""
    # The sum is float64 for float32 data, too. The shift is divided by the factor that
    # multiplies the whole sum in the end.
    for i in numba.prange(indptr.shape[0] - 1):
        factor = scale[i] if scale.shape[0] else x.dtype.type(1)
        total = 0.0
        if shift != 0:
            total -= shift * x[i] / factor
        # Unsigned indices are not tested for negative ones: twice as fast.
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            total += data[p] * v[np.uintp(indices[p])]
        total *= alpha * factor
        if beta != 0:
            total += beta * out[i]
        out[i] = total


@parallel(
    lambda indptr, indices, data, V, X, out, *_: 0.2 * data.size * X.shape[1] + out.size
)
def _matmat(indptr, indices, data, V, X, out, alpha, shift, beta, scale, n_parts):
    """Overwrite `out` with ``alpha * (S A0 V - shift * X) + beta * out``, V = S X."""
    k = X.shape[1]
    # Parts have about equal work, `_cut`: rows of a graph differ in length by orders of
    # magnitude. A row of `out`, k numbers, stays in the cache. S is diag(scale), or I.
    for part in numba.prange(n_parts):
        start, stop = _cut(indptr, part, n_parts), _cut(indptr, part + 1, n_parts)
        for i in range(start, stop):
            # out_i <- beta out_i - alpha shift x_i + alpha sum_j a_ij v_j
            if beta == 0:
                for c in range(k):
                    out[i, c] = 0
            elif beta != 1:
                for c in range(k):
                    out[i, c] *= beta
            if shift != 0:
                for c in range(k):
                    out[i, c] -= alpha * shift * X[i, c]
            p, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
            factor = alpha * scale[i] if scale.shape[0] else alpha
            _add_combination(indices, data, p, end, factor, V, out, i)


@cached_njit(nogil=True)
def _cut(indptr, part, n_parts):
    """First row of a part; parts have about as many rows and entries together."""
    # Part p of n, from 0, begins where p / n of all work is done.
    # Bisection for the first row with indptr[row] + row >= target: a row counts as one
    # entry more than it has, for the work on `out`.
    low, high = 0, indptr.shape[0] - 1
    target = (np.int64(indptr[high]) + high) * part // n_parts
    while low < high:
        middle = (low + high) // 2
        if indptr[middle] + middle < target:
            low = middle + 1
        else:
            high = middle
    return low


def csr_rows_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    rows: IntArray,
    bounds: IntArray,
    V: FloatArray,
    offset: FloatArray,
    out: FloatArray,
) -> Float64Array:
    """Overwrite `out` with ``A[rows] @ V - offset``; return its column sums.

    `V` is (n, k), `offset` (k,) and `out` (n_rows, k). `bounds` cut `rows` into chunks
    of about equal work, which threads share.
    """
    # Column sums of each chunk, added in order: the same bits for any number of
    # threads.
    partial = np.empty((bounds.size - 1, V.shape[1]), np.float64)
    csr = read_only((indptr, indices, data))
    _rows_matmat(*csr, rows, bounds, read_only(V), offset, out, partial)
    return partial.sum(axis=0)


# No array expressions here, such as np.zeros: each would be a parallel region.
@parallel(
    lambda indptr, indices, data, rows, bounds, V, *_: (
        0.2 * rows.size / (indptr.size - 1) * data.size * V.shape[1]
    )
)
def _rows_matmat(indptr, indices, data, rows, bounds, V, offset, out, partial):
    """Products of selected rows less the offset, and their sums in each chunk."""
    k = V.shape[1]
    one = V.dtype.type(1)
    # out_i <- sum_j a_ij v_j - offset, row by row: its entries are in the cache when
    # they are added to the sums.
    for chunk in numba.prange(bounds.shape[0] - 1):
        for c in range(k):
            partial[chunk, c] = 0
        for i in range(bounds[chunk], bounds[chunk + 1]):
            for c in range(k):
                out[i, c] = 0
            p, end = np.int64(indptr[rows[i]]), np.int64(indptr[rows[i] + 1])
            _add_combination(indices, data, p, end, one, V, out, i)
            for c in range(k):
                out[i, c] -= offset[c]
                partial[chunk, c] += out[i, c]


@intrinsic
def _prefetch(context, address):
    """Prefetch the cache line of an address, without waiting for it."""
    # Numba has no such function: write the call of LLVM's own.

    def generate(context, builder, signature, arguments):
        # llvm.prefetch takes an address, 0 for reading, the locality from 0 to 3 (kept
        # in all caches), and 1 for data.
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        int32 = ir.IntType(32)
        argument_types = [pointer.type, int32, int32, int32]
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer.type],
            ir.FunctionType(ir.VoidType(), argument_types),
        )
        read, all_caches, data_cache = int32(0), int32(3), int32(1)
        builder.call(prefetch, [pointer, read, all_caches, data_cache])

    return types.void(types.intp), generate


@cached_njit(nogil=True)
def _prefetch_rows(indices, p, end, V):
    """Prefetch all cache lines of ``V[indices[p:end]]``, as far as there are entries.

    These may be of the next rows of A: they are gathered next.
    """
    length = V.shape[1] * V.itemsize
    for q in range(p, min(end, indices.shape[0])):
        # Lines from the one that holds the first byte of the row to that of the last.
        row = np.intp(V.ctypes.data) + np.intp(indices[q]) * length
        for line in range(row - row % CACHE_LINE_BYTES, row + length, CACHE_LINE_BYTES):
            _prefetch(line)


@cached_njit(nogil=True, inline="always")
def _add_combination(indices, data, p, end, alpha, V, out, i):
    """Add ``alpha * data[p:end] @ V[indices[p:end]]`` to row `i` of `out`.

    Four entries at a time: the plain loop is limited by reading and writing the row of
    `out`, which is done a quarter as often.
    """
    # 2 k flops for each entry; memory traffic is the row of V, k numbers.
    k = out.shape[1]  # rows of an aligned workspace are longer
    # Rows of a large V are at addresses that the processor cannot foresee: ask for
    # those of the entries some way ahead.
    large = V.size * V.itemsize > CACHE_BYTES
    while p + 3 < end:
        if large:
            _prefetch_rows(indices, p + PREFETCH_DISTANCE, p + PREFETCH_DISTANCE + 4, V)
        a0 = alpha * data[p]
        a1 = alpha * data[p + 1]
        a2 = alpha * data[p + 2]
        a3 = alpha * data[p + 3]
        j0, j1, j2, j3 = indices[p], indices[p + 1], indices[p + 2], indices[p + 3]
        for c in range(k):
            out[i, c] += a0 * V[j0, c] + a1 * V[j1, c] + a2 * V[j2, c] + a3 * V[j3, c]
        p += 4
    while p < end:
        if large:
            _prefetch_rows(indices, p + PREFETCH_DISTANCE, p + PREFETCH_DISTANCE + 1, V)
        a0 = alpha * data[p]
        j0 = indices[p]
        for c in range(k):
            out[i, c] += a0 * V[j0, c]
        p += 1


def csr_normal_product(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    bounds: IntArray,
    shift: float,
    v: Float64Array,
    out: Float64Array,
    weights: Float64Array | None = None,
) -> Float64Array:
    """Overwrite ``out[c]`` with ``A_c.T @ y, y = A_c @ v - shift``; return sums of y.

    With weights of the rows y is multiplied by them. A product with the covariance
    matrix of the rows takes one pass: the shift is the product of their mean with v,
    and what the mean takes off the result follows from the sums of y.

    `bounds` cut the rows of A into the chunks A_c of about equal work; each row is read
    once. `indptr` has 64 bits, indices are unsigned.
    """
    # out is (n_chunks, n): each chunk adds to a row of its own, without locks.
    sums = np.empty(len(out))
    csr = read_only((indptr, indices, data))
    # Compiled without weights, too: a test in the loop takes 3 % of the time.
    v, bounds, weights = read_only((v, bounds, weights))
    _normal_product(*csr, bounds, shift, v, weights, out, sums)
    return sums


@parallel(
    lambda indptr, indices, data, bounds, shift, v, weights, out, sums: (
        2.0 * data.size + 0.2 * out.size
    )
)
def _normal_product(indptr, indices, data, bounds, shift, v, weights, out, sums):
    """Add ``y_i a_i`` over the rows of each chunk; a row is read from memory once."""
    for c in numba.prange(out.shape[0]):
        product = out[c]
        for j in range(product.shape[0]):
            product[j] = 0
        total = 0.0
        for i in range(bounds[c], bounds[c + 1]):
            p, end = indptr[i], indptr[i + 1]
            # 4 flops an entry: the row is read for its product with v, and again from
            # the cache.
            # y = a_i^T v - shift, in four sums that do not wait for each other.
            y0, y1, y2, y3 = -shift, 0.0, 0.0, 0.0
            while p + 3 < end:
                y0 += data[p] * v[indices[p]]
                y1 += data[p + 1] * v[indices[p + 1]]
                y2 += data[p + 2] * v[indices[p + 2]]
                y3 += data[p + 3] * v[indices[p + 3]]
                p += 4
            while p < end:
                y0 += data[p] * v[indices[p]]
                p += 1
            y = (y0 + y1) + (y2 + y3)
            if weights is not None:
                y *= weights[i]
            total += y
            # product <- product + y a_i, while the row is in the cache.
            p = indptr[i]
            while p + 1 < end:
                a0, a1 = y * data[p], y * data[p + 1]
                product[indices[p]] += a0
                product[indices[p + 1]] += a1
                p += 2
            if p < end:
                product[indices[p]] += y * data[p]
        sums[c] = total


def csr_is_symmetric(indptr: IntArray, indices: IntArray, data: FloatArray) -> bool:
    """Whether a square CSR matrix, sorted and without duplicates, is its transpose."""
    return _is_symmetric(*read_only((indptr, indices, data)))


# For a symmetric matrix, rows in order: the mirror image (j, i) of an entry (i, j),
# j >= i, is the first unread entry of row j. Before row i is read, all its entries left
# of the diagonal have been read as mirror images.
@cached_njit(nogil=True)
def _is_symmetric(indptr, indices, data):
    """Compare each entry on or right of the diagonal with its mirror image.

    Linear in the entries, without a transpose. A matrix that is not symmetric is
    mostly refused at its first rows.
    """
    # unread[j] is the position of the first entry of row j that is not read yet.
    # Unsigned indices are not tested for negative ones: a third of the time.
    unread = indptr.copy()
    n_entries = np.uintp(indices.shape[0])
    for i in range(indptr.shape[0] - 1):
        p, end = np.uintp(unread[i]), np.uintp(indptr[i + 1])
        # More entries were mirrored than the row has; or an entry left of the diagonal
        # has not been met as a mirror image, so that it has none.
        if p > end or (p < end and indices[p] < i):
            return False
        for q in range(p, end):
            j = np.uintp(indices[q])
            # Entry (i, j) has its image where row j is read next, if at all.
            mirrored = np.uintp(unread[j])
            if mirrored >= n_entries or indices[mirrored] != i:
                return False
            if data[mirrored] != data[q]:
                return False
            unread[j] += 1
    return True


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

    Each row of `out` is computed by one thread: no partial sums, and the same bits for
    any number of threads.
    """
    for c in numba.prange(out.shape[0]):
        # Gustavson's algorithm, with a dense row of the result. The cost of all rows is
        # 2 flops for each pair of entries in a row of X.
        row = out[c]
        # Row c of X^T X is the sum of x_ic times row i over the entries (i, c) of
        # column c.
        for p in range(t_indptr[c], t_indptr[c + 1]):
            i = t_indices[p]
            value = np.float64(t_data[p])
            for q in range(indptr[i], indptr[i + 1]):
                row[indices[q]] += value * data[q]
