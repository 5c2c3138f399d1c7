"""Dense algebra on blocks of vectors: tall ones, and a few long rows of an array.

Every kernel cuts the vectors into chunks of a fixed size that threads share: chunk c
has the rows, or the entries of long rows, from ``c * size`` on, at most `size` of them.
Partial sums of the chunks are added in their order, so that results have the same bits
for any number of threads. BLAS is limited to one thread inside these kernels: nested
threads are slow, and idle BLAS threads that spin take the processor from the next
kernel.

Blocks X, Y, L are (n, p) or (n, k) with n large and few columns. Their products read
each block once, which takes most of the time.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair._entries import ignore_fp_warnings
from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    CHUNK_SIZE,
    Float64Array,
    FloatArray,
    Scalar,
    read_only,
)


def block_gram(X: FloatArray, Y: FloatArray) -> Float64Array:
    """Return ``X.T @ Y`` in float64 for C-contiguous blocks of equal type.

    Callers check that the result is finite.
    """
    # 2 n p k flops for blocks (n, p) and (n, k), which are read once. The partial
    # products are (n_chunks, p, k).
    partial = np.zeros((_n_chunks(X), X.shape[1], Y.shape[1]), X.dtype)
    # Chunks are summed in the type of X, their sums in float64: for float32 blocks the
    # error grows with the length of a chunk, not with n.
    _gram(read_only(X), read_only(Y), partial, CHUNK_SIZE)
    with ignore_fp_warnings():
        return partial.sum(axis=0, dtype=np.float64)


def block_multiply(X: FloatArray, S: FloatArray, out: FloatArray) -> None:
    """Overwrite `out`, which may be `X`, with ``X @ S``; C-contiguous, of one type.

    `X` is (n, p), `S` (p, k) and `out` (n, k).
    """
    S = np.ascontiguousarray(S, dtype=X.dtype)
    _update(out, read_only(X), S, False, CHUNK_SIZE)


def block_subtract(out: FloatArray, L: FloatArray, C: FloatArray) -> None:
    """Overwrite `out` with ``out - L @ C``; `L` has the type of `out`.

    As a step of block Gram-Schmidt, with C = L^T out. `L` is (n, p), `C` (p, k).
    """
    C = np.ascontiguousarray(C, dtype=out.dtype)
    _update(out, read_only(L), C, True, CHUNK_SIZE)


def rotate_ritz(
    X: FloatArray, AX: FloatArray, S: FloatArray, values: FloatArray
) -> Float64Array:
    """Turn a basis into Ritz vectors and their residuals, in place.

    Overwrites `X` with ``X @ S`` and `AX` with ``AX @ S - X @ S * values`` and
    returns the Euclidean norms of the columns of the latter. `S` and `values` are the
    eigenvectors and eigenvalues of ``X.T @ AX``, for an orthonormal X.
    """
    # Squares of residuals of each chunk and column, in float64 for float32 blocks, too.
    squares = np.zeros((_n_chunks(X), X.shape[1]))
    S, values = (np.ascontiguousarray(M, dtype=X.dtype) for M in (S, values))
    _rotate_ritz(X, AX, S, values, squares, CHUNK_SIZE)
    return np.sqrt(squares.sum(axis=0))


def inner(X: FloatArray, Y: FloatArray) -> float:
    """Return the sum of the products of the entries of two C-contiguous arrays."""
    # Two flops for two numbers read: the memory is what takes time.
    return float(_inner(_flat(X), _flat(Y), CHUNK_SIZE))


def rows_inner(rows: FloatArray, first: list[int], second: list[int]) -> Float64Array:
    """Return ``rows[first] @ rows[second].T`` in float64, for lists of row numbers."""
    # Inner products of p and q rows: p q products, but only p + q rows of traffic.
    numbers = np.array(first, np.int64), np.array(second, np.int64)
    return _rows_inner(rows, *numbers, CHUNK_SIZE)


def rows_combine(rows: FloatArray, coefficients: FloatArray, out: FloatArray) -> None:
    """Overwrite `out` with the linear combination ``coefficients @ rows``.

    `rows` are (p, length) and `out` (length,). Rows with a coefficient of 0 are not
    read.
    """
    coefficients = coefficients.astype(rows.dtype)
    _rows_combine(rows, coefficients, out.reshape(-1), CHUNK_SIZE)


def combine(
    out: FloatArray, a: Scalar, X: FloatArray, b: Scalar, Y: FloatArray
) -> None:
    """Overwrite `out` with ``a X + b Y`` for C-contiguous arrays of one shape."""
    real = out.dtype.type
    _combine(out.reshape(-1), real(a), _flat(X), real(b), _flat(Y))


def add_scaled(out: FloatArray, a: Scalar, X: FloatArray) -> None:
    """Overwrite `out` with ``out + a X`` for C-contiguous arrays of one shape."""
    combine(out, 1.0, out, a, X)


def deflate_rows(X: Float64Array, q: Float64Array, squares: Float64Array) -> None:
    """Overwrite `X` with ``X - X @ q q.T`` and `squares` with its rows' squared norms.

    The unit vector `q` may be a row of `X`: a copy is used, as that row changes.
    """
    _deflate(X, q.copy(), squares, CHUNK_SIZE)


@cached_njit(nogil=True)
def mirror_lower(A: FloatArray) -> None:
    """Copy the lower triangle of a square matrix to the upper one."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[j, i] = A[i, j]


def _n_chunks(X):
    """Return the number of chunks of a tall block, from its length alone."""
    return -(-len(X) // CHUNK_SIZE)


# Parallel functions contain only the loop: all that they contain is compiled slowly.
# `size` is the length of a chunk: a constant of another file would be stale in caches.
@parallel(lambda X, Y, *_: X.size * (0.5 + 0.05 * Y.shape[1]), blas=True)
def _gram(X, Y, partial, size):
    """Gram matrices ``X_c.T @ Y_c`` of the chunks c, by BLAS, one chunk a call."""
    n = X.shape[0]
    for chunk in numba.prange(partial.shape[0]):
        start = chunk * size
        stop = min(n, start + size)
        np.dot(X[start:stop].T, Y[start:stop], partial[chunk])


@parallel(lambda out, L, C, *_: out.size * (1 + 0.04 * L.shape[1]), blas=True)
def _update(out, L, C, subtract, size):
    """Overwrite `out` with ``out - L @ C`` or ``L @ C``, chunk by chunk."""
    n = out.shape[0]
    for chunk in numba.prange((n + size - 1) // size):
        start = chunk * size
        stop = min(n, start + size)
        _update_chunk(out[start:stop], L[start:stop], C, subtract)


# Explicit loops, here and below: assignments to slices are compiled slowly.
@cached_njit(nogil=True)
def _update_chunk(out, L, C, subtract):
    """Overwrite a chunk, which may be `L` itself: the product is made aside."""
    # L is (rows, p), C (p, k): 2 p k flops a row, on data in the cache.
    product = np.dot(L, C)
    for i in range(out.shape[0]):
        if subtract:
            for c in range(out.shape[1]):
                out[i, c] -= product[i, c]
        else:
            for c in range(out.shape[1]):
                out[i, c] = product[i, c]


@parallel(lambda X, *_: X.size)
def _deflate(X, q, squares, size):
    """Project the rows of `X` onto the complement of `q`, chunk by chunk."""
    n = X.shape[0]
    for chunk in numba.prange((n + size - 1) // size):
        start = chunk * size
        stop = min(n, start + size)
        _deflate_chunk(X[start:stop], q, squares[start:stop])


# Sums of rows may be reordered, into those of the lanes of a vector register.
@cached_njit(nogil=True, fastmath={"reassoc"})
def _deflate_chunk(X, q, squares):
    """Project the rows of a chunk, in one pass over its memory."""
    for i in range(X.shape[0]):
        # x <- x - (x^T q) q, and the squared norm of the result.
        projection = square = 0.0
        for c in range(X.shape[1]):
            projection += X[i, c] * q[c]
        for c in range(X.shape[1]):
            X[i, c] -= projection * q[c]
            square += X[i, c] * X[i, c]
        squares[i] = square


@parallel(lambda X, AX, S, *_: X.size * (3 + 0.08 * S.shape[1]), blas=True)
def _rotate_ritz(X, AX, S, values, squares, size):
    """Ritz vectors ``X S``, residuals ``A X S - X S Theta`` and their squared norms."""
    n = X.shape[0]
    for chunk in numba.prange(squares.shape[0]):
        start = chunk * size
        stop = min(n, start + size)
        _rotate_ritz_chunk(X[start:stop], AX[start:stop], S, values, squares[chunk])


@cached_njit()
def _rotate_ritz_chunk(X, AX, S, values, squares):
    """Overwrite a chunk; add the squares of its residuals to those of the columns."""
    # Column c of A X S - X S Theta is A x_c - theta_c x_c, x_c the Ritz vector.
    # 4 k^2 flops a row for both products; X and AX are read and written once.
    rotated = np.dot(X, S)  # Ritz vectors
    residual = np.dot(AX, S)  # less theta_c times the Ritz vector, below
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[i, c] = rotated[i, c]
            AX[i, c] = residual[i, c] - values[c] * rotated[i, c]
            squares[c] += np.float64(AX[i, c]) ** 2


def _flat(X):
    """Entries of a C-contiguous array as a vector, read-only and without a copy."""
    return read_only(X).reshape(-1)


@parallel(lambda x, y, _: 0.5 * x.size, blas=True)
def _inner(x, y, size):
    """Inner product of long vectors: those of the chunks, added in order.

    In the type of the vectors within a chunk, in float64 over the chunks.
    """
    length = x.shape[0]
    n_chunks = (length + size - 1) // size
    partial = np.empty(n_chunks, np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * size
        stop = min(length, start + size)
        partial[chunk] = np.dot(x[start:stop], y[start:stop])
    total = 0.0
    for chunk in range(n_chunks):
        total += partial[chunk]
    return total


@parallel(
    lambda rows, first, second, _: 0.5 * first.size * second.size * rows.shape[1],
    blas=True,
)
def _rows_inner(rows, first, second, size):
    """Inner products of pairs of long rows, in one pass over the memory."""
    length = rows.shape[1]
    n_chunks = (length + size - 1) // size
    p, q = first.shape[0], second.shape[0]
    # All pairs of rows while a chunk of them is in the cache.
    partial = np.empty((n_chunks, p, q), np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * size
        stop = min(length, start + size)
        for i in range(p):
            for j in range(q):
                x, y = rows[first[i], start:stop], rows[second[j], start:stop]
                partial[chunk, i, j] = np.dot(x, y)
    total = np.zeros((p, q), np.float64)
    for chunk in range(n_chunks):
        for i in range(p):
            for j in range(q):
                total[i, j] += partial[chunk, i, j]
    return total


@parallel(lambda rows, coefficients, *_: 0.3 * rows.size)
def _rows_combine(rows, coefficients, out, size):
    """Linear combination of long rows, chunk by chunk."""
    p, length = rows.shape
    # Rows are read once, in order: p numbers of memory traffic for each of `out`.
    # A chunk of `out` stays in the cache while the rows are added to it.
    for chunk in numba.prange((length + size - 1) // size):
        start = chunk * size
        stop = min(length, start + size)
        for c in range(start, stop):
            out[c] = 0
        for i in range(p):
            a = coefficients[i]
            if a != 0:
                for c in range(start, stop):
                    out[c] += a * rows[i, c]


@parallel(lambda out, a, X, b, Y: 0.2 * X.size)
def _combine(out, a, X, b, Y):
    """Linear combination of two arrays, entry by entry; `out` may be either.

    No sums: any cut into threads gives the same bits.
    """
    for c in numba.prange(out.shape[0]):
        out[c] = a * X[c] + b * Y[c]
