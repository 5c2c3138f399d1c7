"""Dense algebra on blocks of vectors: tall ones, and a few long rows of an array.

Every kernel cuts the vectors into chunks of a fixed size that threads share. Sums
add the chunks in their order, so that a result is the same to the last bit whatever
the number of threads. BLAS itself is held to one thread meanwhile: threads inside
threads are slow, and BLAS threads that spin while they wait for work take the
processor from the next kernel.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair._entries import judged_later
from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    Scalar,
    read_only,
)

# 2048 rows of 64 doubles are 1 MiB: a chunk stays in the second-level cache.
_ROWS = 2048
# So do 4096 doubles of a dozen long rows, 400 kB.
_LENGTH = 4096
# Up to this width of X, a plain loop over the rows beats BLAS.
_THIN = 16
# Rows and columns of a tile of a square matrix that is mirrored.
_TILE = 64


def block_gram(X: FloatArray, Y: FloatArray) -> Float64Array:
    """Return ``X.T @ Y`` in float64 for C-contiguous blocks of equal type.

    Of entries that are not finite, or too large, callers judge what it gives.
    """
    partial = np.zeros((_n_chunks(X), X.shape[1], Y.shape[1]), X.dtype)
    X, Y = read_only(X), read_only(Y)
    if X.shape[1] <= _THIN:
        _thin_gram(X, Y, partial)
    else:
        _gram(X, Y, partial)
    with judged_later():
        gram: Float64Array = partial.sum(axis=0, dtype=np.float64)
    return gram


def block_rotate(X: FloatArray, S: FloatArray) -> None:
    """Overwrite `X` with ``X @ S`` for a square matrix `S`."""
    block_multiply(X, S, X)


def block_multiply(X: FloatArray, S: FloatArray, out: FloatArray) -> None:
    """Overwrite `out`, which may be `X`, with ``X @ S``; C-contiguous, of one type."""
    _update(out, read_only(X), np.ascontiguousarray(S, dtype=X.dtype), False)


def block_subtract(out: FloatArray, L: FloatArray, C: FloatArray) -> None:
    """Overwrite `out` with ``out - L @ C``; `L` has the type of `out`."""
    _update(out, read_only(L), np.ascontiguousarray(C, dtype=out.dtype), True)


def rotate_ritz(
    X: FloatArray, AX: FloatArray, S: FloatArray, values: FloatArray
) -> Float64Array:
    """Turn a basis into Ritz vectors and their residuals, in place.

    Overwrites `X` with ``X @ S`` and `AX` with ``AX @ S - X @ S * values`` and
    returns the Euclidean norms of the columns of the latter.
    """
    squares = np.zeros((_n_chunks(X), X.shape[1]))
    _rotate_ritz(
        X,
        AX,
        np.ascontiguousarray(S, dtype=X.dtype),
        np.ascontiguousarray(values, dtype=X.dtype),
        squares,
    )
    norms: Float64Array = np.sqrt(squares.sum(axis=0))
    return norms


def inner(X: FloatArray, Y: FloatArray) -> float:
    """Return the sum of the products of the entries of two C-contiguous arrays."""
    return float(_inner(_flat(X), _flat(Y)))


def rows_inner(rows: FloatArray, some: list[int], others: list[int]) -> Float64Array:
    """Return inner products of rows with others, by their numbers, in float64."""
    left, right = np.array(some, dtype=np.int64), np.array(others, dtype=np.int64)
    return _rows_inner(rows, left, right)


def rows_combine(rows: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    """Overwrite `out` with the combination of the rows, ``coefficients @ rows``."""
    _rows_combine(rows, coefficients.astype(rows.dtype), out.reshape(-1))


def combine(
    out: FloatArray, a: Scalar, X: FloatArray, b: Scalar, Y: FloatArray
) -> None:
    """Overwrite `out` with ``a X + b Y`` for C-contiguous arrays of one shape."""
    real = out.dtype.type
    _combine(out.reshape(-1), real(a), _flat(X), real(b), _flat(Y))


def add_scaled(out: FloatArray, a: Scalar, X: FloatArray) -> None:
    """Overwrite `out` with ``out + a X`` for C-contiguous arrays of one shape."""
    _add_scaled(out.reshape(-1), out.dtype.type(a), _flat(X))


def deflate_rows(X: Float64Array, q: Float64Array, squares: Float64Array) -> None:
    """Overwrite `X` with ``X - X @ q q.T`` and `squares` with its rows' squared norms.

    `q` may be a row of `X`.
    """
    _deflate(X, q.copy(), squares)


@cached_njit(nogil=True)
def mirror_lower(A: FloatArray) -> None:
    """Copy the lower triangle of a square matrix to the upper one."""
    n = A.shape[0]
    for start in range(0, n, _TILE):
        stop = min(n, start + _TILE)
        for first in range(0, stop, _TILE):
            for i in range(start, stop):
                for j in range(first, min(first + _TILE, i)):
                    A[j, i] = A[i, j]


def _n_chunks(X: FloatArray) -> int:
    return -(-len(X) // _ROWS)


# Parallel functions hold the loop alone: what else they hold is compiled slowly.
@parallel(lambda X, Y, partial: X.size * (0.5 + 0.05 * Y.shape[1]), blas=True)
def _gram(X: FloatArray, Y: FloatArray, partial: FloatArray) -> None:
    for chunk in numba.prange(partial.shape[0]):
        start = chunk * _ROWS
        stop = min(X.shape[0], start + _ROWS)
        np.dot(X[start:stop].T, Y[start:stop], partial[chunk])


@parallel(lambda X, Y, partial: X.size * (0.5 + 0.3 * Y.shape[1]))
def _thin_gram(X: FloatArray, Y: FloatArray, partial: FloatArray) -> None:
    for chunk in numba.prange(partial.shape[0]):
        start = chunk * _ROWS
        stop = min(X.shape[0], start + _ROWS)
        _thin_gram_chunk(X[start:stop], Y[start:stop], partial[chunk])


@cached_njit()
def _thin_gram_chunk(X: FloatArray, Y: FloatArray, out: FloatArray) -> None:
    for i in range(X.shape[0]):
        for q in range(X.shape[1]):
            x = X[i, q]
            for c in range(Y.shape[1]):
                out[q, c] += x * Y[i, c]


@parallel(lambda out, L, C, _: out.size * (1 + 0.04 * L.shape[1]), blas=True)
def _update(out: FloatArray, L: FloatArray, C: FloatArray, subtract: bool) -> None:
    n = out.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        _update_chunk(out[start:stop], L[start:stop], C, subtract)


# Loops, outside the parallel function: assignments to slices are compiled slowly.
@cached_njit(nogil=True)
def _update_chunk(
    out: FloatArray, L: FloatArray, C: FloatArray, subtract: bool
) -> None:
    product = np.dot(L, C)
    for i in range(out.shape[0]):
        if subtract:
            for c in range(out.shape[1]):
                out[i, c] -= product[i, c]
        else:
            for c in range(out.shape[1]):
                out[i, c] = product[i, c]


@parallel(lambda X, *_: X.size)
def _deflate(X: Float64Array, q: Float64Array, squares: Float64Array) -> None:
    n = X.shape[0]
    for chunk in numba.prange((n + _ROWS - 1) // _ROWS):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        _deflate_chunk(X[start:stop], q, squares[start:stop])


@cached_njit(nogil=True, fastmath={"reassoc"})
def _deflate_chunk(X: Float64Array, q: Float64Array, squares: Float64Array) -> None:
    for i in range(X.shape[0]):
        along = square = 0.0
        for c in range(X.shape[1]):
            along += X[i, c] * q[c]
        for c in range(X.shape[1]):
            X[i, c] -= along * q[c]
            square += X[i, c] * X[i, c]
        squares[i] = square


@parallel(lambda X, AX, S, *_: X.size * (3 + 0.08 * S.shape[1]), blas=True)
def _rotate_ritz(
    X: FloatArray,
    AX: FloatArray,
    S: FloatArray,
    values: FloatArray,
    squares: Float64Array,
) -> None:
    n = X.shape[0]
    for chunk in numba.prange(squares.shape[0]):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        _rotate_ritz_chunk(X[start:stop], AX[start:stop], S, values, squares[chunk])


@cached_njit()
def _rotate_ritz_chunk(
    X: FloatArray,
    AX: FloatArray,
    S: FloatArray,
    values: FloatArray,
    squares: Float64Array,
) -> None:
    rotated = np.dot(X, S)
    residual = np.dot(AX, S)
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[i, c] = rotated[i, c]
            AX[i, c] = residual[i, c] - values[c] * rotated[i, c]
            squares[c] += np.float64(AX[i, c]) ** 2


def _flat(X: FloatArray) -> FloatArray:
    return read_only(X).reshape(-1)


@parallel(lambda x, y: 0.5 * x.size, blas=True)
def _inner(x: FloatArray, y: FloatArray) -> float:
    length = x.shape[0]
    n_chunks = (length + _LENGTH - 1) // _LENGTH
    partial = np.empty(n_chunks, np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * _LENGTH
        stop = min(length, start + _LENGTH)
        partial[chunk] = np.dot(x[start:stop], y[start:stop])
    total = 0.0
    for chunk in range(n_chunks):
        total += partial[chunk]
    return total


@parallel(
    lambda rows, some, others: 0.5 * some.size * others.size * rows.shape[1], blas=True
)
def _rows_inner(rows: FloatArray, some: IntArray, others: IntArray) -> Float64Array:
    length = rows.shape[1]
    p, q = some.shape[0], others.shape[0]
    n_chunks = (length + _LENGTH - 1) // _LENGTH
    partial = np.empty((n_chunks, p, q), np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * _LENGTH
        stop = min(length, start + _LENGTH)
        for i in range(p):
            for j in range(q):
                partial[chunk, i, j] = np.dot(
                    rows[some[i], start:stop], rows[others[j], start:stop]
                )
    total = np.zeros((p, q), np.float64)
    for chunk in range(n_chunks):
        for i in range(p):
            for j in range(q):
                total[i, j] += partial[chunk, i, j]
    return total


@parallel(lambda rows, coefficients, out: 0.3 * rows.size)
def _rows_combine(rows: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    p, length = rows.shape
    n_chunks = (length + _LENGTH - 1) // _LENGTH
    for chunk in numba.prange(n_chunks):
        start = chunk * _LENGTH
        stop = min(length, start + _LENGTH)
        for c in range(start, stop):
            out[c] = 0
        for i in range(p):
            a = coefficients[i]
            if a != 0:
                for c in range(start, stop):
                    out[c] += a * rows[i, c]


@parallel(lambda out, a, X: 0.2 * X.size)
def _add_scaled(out: FloatArray, a: Scalar, X: FloatArray) -> None:
    for c in numba.prange(out.shape[0]):
        out[c] += a * X[c]


@parallel(lambda out, a, X, b, Y: 0.2 * X.size)
def _combine(
    out: FloatArray, a: Scalar, X: FloatArray, b: Scalar, Y: FloatArray
) -> None:
    for c in numba.prange(out.shape[0]):
        out[c] = a * X[c] + b * Y[c]
