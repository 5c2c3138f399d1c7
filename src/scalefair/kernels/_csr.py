"""CSR matrices: products with dense blocks of vectors, scaling, symmetry."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    Index,
    IntArray,
    Scalar,
    read_only,
)

# Entries up to which 64-bit indices are converted: in microseconds, where a kernel for
# them takes seconds to compile.
_FEW = 2**14
# Blocks of more bytes than a core's cache holds are read this many rows ahead.
_LARGE, _AHEAD = 16 * 2**20, 32
_LINE = 64  # bytes of a cache line
# Parts that the rows are cut into, for threads to share evenly.
_PARTS = 64


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
    room: FloatArray | None = None,
) -> None:
    """Overwrite `out` with ``alpha * (A @ X - shift * X) + beta * out``.

    Blocks are C-contiguous, of the type of `data`; `out` is not read when
    ``beta == 0``. Each row is summed in storage order, whatever the number of threads.
    With `scale`, not zero, A is ``diag(scale) @ A0 @ diag(scale)``, A0 what is stored.
    To `room`, of `csr_room`, the rows of `X` are written scaled, and gathered there.
    (To look up the scale of each entry was tried: half as long again.)
    (Working through the columns in tiles that fit the cache was tried: slower at every
    width, as a gathered row then uses only part of the cache lines it brings in.)
    """
    if indices.dtype != np.int32 and indices.size <= _FEW and X.shape[0] <= _FEW:
        indptr, indices = indptr.astype(np.int32), indices.astype(np.int32)
    csr = read_only(indptr), read_only(indices), read_only(data)
    V = X = read_only(X)
    scalars = alpha, shift, beta
    own = read_only(np.empty(0, X.dtype) if scale is None else scale)
    if room is not None:
        _scale_rows(X, own, room)
        V = read_only(room)
    if X.shape[1] == 1:
        _matvec(*csr, V.reshape(-1), X.reshape(-1), out.reshape(-1), *scalars, own)
    else:
        _matmat(*csr, V, X, out, *scalars, own)


def csr_room(X: FloatArray, room: FloatArray | None, scaled: bool) -> FloatArray | None:
    """Return room for `csr_matmat`, the given one if it fits such a block.

    Rows of a large block start at cache lines where each then touches fewer of them,
    and the unused columns are not many: products take three quarters of the time. None
    if the rows of `X` itself do as well, and are not `scaled`.
    """
    n, k = X.shape
    length = k * X.itemsize
    whole = -(-length // _LINE) * _LINE
    touched = _LINE + length - math.gcd(length, _LINE)  # bytes of lines, on average
    if X.nbytes > _LARGE and whole <= min(0.95 * touched, 1.5 * length):
        k = whole // X.itemsize
    if not (scaled or k > X.shape[1]):
        return None
    if room is None or room.shape != (n, k):
        spare = np.empty(n * k + _LINE // X.itemsize, X.dtype)
        start = -spare.ctypes.data % _LINE // X.itemsize
        room = spare[start : start + n * k].reshape(n, k)
    return room


@parallel(lambda X, *_: 0.5 * X.size)
def _scale_rows(X: FloatArray, scale: FloatArray, out: FloatArray) -> None:
    for i in numba.prange(X.shape[0]):
        own = scale[i] if scale.shape[0] else X.dtype.type(1)
        for c in range(X.shape[1]):
            out[i, c] = own * X[i, c]


@parallel(lambda indptr, indices, data, *_: data.size + 1.0 * indptr.size)
def _matvec(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    v: FloatArray,
    x: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
    scale: FloatArray,
) -> None:
    for i in numba.prange(indptr.shape[0] - 1):
        own = scale[i] if scale.shape[0] else x.dtype.type(1)
        total: Scalar = 0.0
        if shift != 0:
            total -= shift * x[i] / own
        # Unsigned: no look at each for negative indices, twice as fast.
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            total += data[p] * v[np.uintp(indices[p])]
        total *= alpha * own
        if beta != 0:
            total += beta * out[i]
        out[i] = total


@parallel(
    lambda indptr, indices, data, V, X, out, *_: 0.2 * data.size * X.shape[1] + out.size
)
def _matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    V: FloatArray,
    X: FloatArray,
    out: FloatArray,
    alpha: Scalar,
    shift: Scalar,
    beta: Scalar,
    scale: FloatArray,
) -> None:
    k = X.shape[1]
    for part in numba.prange(_PARTS):
        for i in range(_cut(indptr, part), _cut(indptr, part + 1)):
            if beta == 0:
                for c in range(k):
                    out[i, c] = 0
            else:
                for c in range(k):
                    out[i, c] *= beta
            if shift != 0:
                for c in range(k):
                    out[i, c] -= alpha * shift * X[i, c]
            p, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
            factor = alpha * scale[i] if scale.shape[0] else alpha
            _add_combination(indices, data, p, end, factor, V, out, i)


@cached_njit(nogil=True)
def _cut(indptr: IntArray, part: int) -> int:
    """First row of a part; in all parts rows and entries add up to about the same."""
    low, high = 0, indptr.shape[0] - 1
    target = (np.int64(indptr[high]) + high) * part // _PARTS
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

    `bounds` cut `rows` into parts of about equal work, shared among threads.
    """
    partial = np.empty((bounds.size - 1, V.shape[1]), np.float64)
    csr = read_only(indptr), read_only(indices), read_only(data)
    _rows_matmat(*csr, rows, bounds, read_only(V), offset, out, partial)
    sums: Float64Array = partial.sum(axis=0)
    return sums


# Array expressions, np.zeros among them, would start the threads once more each.
@parallel(
    lambda indptr, indices, data, rows, bounds, V, *_: (
        0.2 * rows.size / (indptr.size - 1) * data.size * V.shape[1]
    )
)
def _rows_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    rows: IntArray,
    bounds: IntArray,
    V: FloatArray,
    offset: FloatArray,
    out: FloatArray,
    partial: Float64Array,
) -> None:
    k = V.shape[1]
    one = V.dtype.type(1)
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


def csr_add_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    bounds: IntArray,
    alpha: Scalar,
    Y: FloatArray,
    out: FloatArray,
) -> None:
    """Overwrite `out` with ``out + alpha * A @ Y``.

    `bounds` cut the rows into parts of about equal work: very different lengths, as in
    a transposed matrix of word counts, would leave threads idle.
    """
    _add_matmat(indptr, indices, data, bounds, alpha, read_only(Y), out)


@parallel(
    lambda indptr, indices, data, bounds, alpha, Y, out: 0.2 * data.size * Y.shape[1]
)
def _add_matmat(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    bounds: IntArray,
    alpha: Scalar,
    Y: FloatArray,
    out: FloatArray,
) -> None:
    for chunk in numba.prange(bounds.shape[0] - 1):
        for i in range(bounds[chunk], bounds[chunk + 1]):
            p, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
            _add_combination(indices, data, p, end, alpha, Y, out, i)


@intrinsic
def _prefetch(context: Any, address: Any) -> Any:
    """Have the processor fetch what lies there, and go on meanwhile."""

    def generate(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer.type], kind
        )
        to_read, into_all_caches, data = word(0), word(3), word(1)
        builder.call(prefetch, [pointer, to_read, into_all_caches, data])

    return types.void(types.intp), generate


@cached_njit(nogil=True)
def _prefetch_rows(indices: IntArray, p: Index, end: Index, V: FloatArray) -> None:
    """Prefetch all cache lines of ``V[indices[p:end]]``."""
    length = V.shape[1] * V.itemsize
    for q in range(p, min(end, indices.shape[0])):
        row = np.intp(V.ctypes.data) + np.intp(indices[q]) * length
        for line in range(row - row % _LINE, row + length, _LINE):
            _prefetch(line)  # type: ignore[call-arg]


@cached_njit(nogil=True, inline="always")
def _add_combination(
    indices: IntArray,
    data: FloatArray,
    p: Index,
    end: Index,
    alpha: Scalar,
    V: FloatArray,
    out: FloatArray,
    i: int,
) -> None:
    """Add ``alpha * data[p:end] @ V[indices[p:end]]`` to row `i` of `out`.

    Four entries at a time: the row of `out` is read and written a quarter as often,
    which is what limits the plain loop.
    """
    k = out.shape[1]  # the rows of V may be longer
    large = V.size * V.itemsize > _LARGE
    while p + 3 < end:
        if large:
            _prefetch_rows(indices, p + _AHEAD, p + _AHEAD + 4, V)
        a0 = alpha * data[p]
        a1 = alpha * data[p + 1]
        a2 = alpha * data[p + 2]
        a3 = alpha * data[p + 3]
        j0 = indices[p]
        j1 = indices[p + 1]
        j2 = indices[p + 2]
        j3 = indices[p + 3]
        for c in range(k):
            out[i, c] += a0 * V[j0, c] + a1 * V[j1, c] + a2 * V[j2, c] + a3 * V[j3, c]
        p += 4
    while p < end:
        if large:
            _prefetch_rows(indices, p + _AHEAD, p + _AHEAD + 1, V)
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
) -> Float64Array:
    """Overwrite ``out[c]`` with ``A_c.T @ y, y = A_c @ v - shift``; return sums of y.

    `bounds` cut the rows of A into the A_c, of about equal work, shared among threads;
    each row is read once. With 64-bit `indptr` and unsigned indices.
    """
    sums: Float64Array = np.empty(len(out))
    csr = read_only(indptr), read_only(indices), read_only(data)
    _normal_product(*csr, read_only(bounds), shift, read_only(v), out, sums)
    return sums


@parallel(
    lambda indptr, indices, data, bounds, shift, v, out, sums: (
        2.0 * data.size + 0.2 * out.size
    )
)
def _normal_product(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    bounds: IntArray,
    shift: float,
    v: Float64Array,
    out: Float64Array,
    sums: Float64Array,
) -> None:
    for c in numba.prange(out.shape[0]):
        product = out[c]
        for j in range(product.shape[0]):
            product[j] = 0
        total = 0.0
        for i in range(bounds[c], bounds[c + 1]):
            p, end = indptr[i], indptr[i + 1]
            y0, y1, y2, y3 = -shift, 0.0, 0.0, 0.0  # no sum waits for the one before
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
            total += y
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
    return _is_symmetric(read_only(indptr), read_only(indices), read_only(data))


# Rows in order: an entry on or right of the diagonal is mirrored by the first entry of
# its mirror's row that mirrors none yet; at a row's turn all left of its diagonal do.
@cached_njit(nogil=True)
def _is_symmetric(indptr: IntArray, indices: IntArray, data: FloatArray) -> bool:
    # Unsigned: no look at each for negative indices, a third of the time.
    unread = indptr.copy()
    n_entries = np.uintp(indices.shape[0])
    for i in range(indptr.shape[0] - 1):
        p, end = np.uintp(unread[i]), np.uintp(indptr[i + 1])
        if p > end or (p < end and indices[p] < i):
            return False
        for q in range(p, end):
            j = np.uintp(indices[q])
            mirrored = np.uintp(unread[j])
            if mirrored >= n_entries or indices[mirrored] != i:
                return False
            if data[mirrored] != data[q]:
                return False
            unread[j] += 1
    return True


def csr_scale(
    indptr: IntArray, indices: IntArray, data: Float64Array, scale: Float64Array
) -> None:
    """Overwrite `data` with the entries of ``diag(scale) @ A @ diag(scale)``."""
    _scale(read_only(indptr), read_only(indices), data, read_only(scale))


@parallel(lambda indptr, indices, *_: 5.0 * indices.size)
def _scale(
    indptr: IntArray, indices: IntArray, data: Float64Array, scale: Float64Array
) -> None:
    for i in numba.prange(indptr.shape[0] - 1):
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            data[p] = scale[i] * data[p] * scale[np.uintp(indices[p])]


@cached_njit(nogil=True)
def csr_rows_transpose(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    rows: IntArray,
    n_columns: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], FloatArray]:
    """Return the transpose of some rows of a CSR matrix, in CSR format, sorted.

    There are fewer than 2**31 rows and entries in them: indices are int32.
    """
    ends = np.zeros(n_columns + 1, np.int32)
    for q in range(rows.shape[0]):
        for p in range(np.int64(indptr[rows[q]]), np.int64(indptr[rows[q] + 1])):
            ends[indices[p] + 1] += 1
    for j in range(n_columns):
        ends[j + 1] += ends[j]
    place = ends.copy()
    turned = np.empty(ends[n_columns], np.int32)
    values = np.empty(ends[n_columns], data.dtype)
    for q in range(rows.shape[0]):
        for p in range(np.int64(indptr[rows[q]]), np.int64(indptr[rows[q] + 1])):
            j = indices[p]
            turned[place[j]] = q
            values[place[j]] = data[p]
            place[j] += 1
    return ends, turned, values


@cached_njit(nogil=True)
def csr_rows_scatter(
    indptr: IntArray,
    data: FloatArray,
    n_columns: int,
    centre: Float64Array,
    scatter: Float64Array,
) -> None:
    """Add ``sum_j (a_ij - centre_i)**2`` of each row of a CSR matrix to `scatter`.

    Entries that are not stored count as zeros; duplicates must have been summed.
    """
    for i in range(indptr.shape[0] - 1):
        c = centre[i]
        total = (n_columns - (indptr[i + 1] - indptr[i])) * c * c
        for p in range(indptr[i], indptr[i + 1]):
            total += (np.float64(data[p]) - c) ** 2
        scatter[i] += total


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
