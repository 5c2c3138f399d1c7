"""Dense algebra on tall blocks of vectors, shared among threads by rows.

Every kernel cuts the rows into chunks of a fixed size and hands each chunk to
BLAS. Sums over rows add the chunks in their order, so that a result is the same
to the last bit whatever the number of threads. BLAS itself is held to one thread
meanwhile: threads inside threads are slow, and BLAS threads that spin while they
wait for work take the processor from the next kernel.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair.kernels._threads import single_blas_thread

__all__ = [
    "block_gram",
    "block_multiply",
    "block_rotate",
    "block_subtract",
    "rotate_ritz",
]

# 2048 rows of 64 doubles are 1 MiB: a chunk stays in the second-level cache.
_ROWS = 2048
# Up to this width of X, a plain loop over the rows beats BLAS.
_THIN = 16


def block_gram(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return ``X.T @ Y`` in float64 for C-contiguous blocks of equal type."""
    if X.shape[1] <= _THIN:
        return _thin_gram(X, Y)
    with single_blas_thread():
        return _gram(X, Y)


def block_rotate(X: np.ndarray, S: np.ndarray) -> None:
    """Overwrite `X` with ``X @ S`` for a square matrix `S`."""
    with single_blas_thread():
        _rotate(X, np.ascontiguousarray(S, dtype=X.dtype))


def block_multiply(X: np.ndarray, S: np.ndarray, out: np.ndarray) -> None:
    """Overwrite `out` with ``X @ S``; all C-contiguous and of one type."""
    with single_blas_thread():
        _multiply(X, np.ascontiguousarray(S, dtype=X.dtype), out)


def block_subtract(out: np.ndarray, L: np.ndarray, C: np.ndarray) -> None:
    """Overwrite `out` with ``out - L @ C``; `L` has the type of `out`."""
    with single_blas_thread():
        _subtract(out, L, np.ascontiguousarray(C, dtype=out.dtype))


def rotate_ritz(
    X: np.ndarray, AX: np.ndarray, S: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Turn a basis into Ritz vectors and their residuals, in place.

    Overwrites `X` with ``X @ S`` and `AX` with ``AX @ S - X @ S * values`` and
    returns the Euclidean norms of the columns of the latter.
    """
    with single_blas_thread():
        return _rotate_ritz(
            X,
            AX,
            np.ascontiguousarray(S, dtype=X.dtype),
            np.ascontiguousarray(values, dtype=X.dtype),
        )


# Not parallel: there, every sum of arrays would start the threads once more.
@numba.njit(cache=True)
def _sum_chunks(partial):
    """Sum over the first axis, in its order, in float64."""
    total = np.zeros(partial.shape[1:], np.float64)
    for chunk in range(partial.shape[0]):
        for i in range(partial.shape[1]):
            for j in range(partial.shape[2]):
                total[i, j] += partial[chunk, i, j]
    return total


@numba.njit(parallel=True, cache=True)
def _gram(X, Y):
    n = X.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    partial = np.empty((n_chunks, X.shape[1], Y.shape[1]), X.dtype)
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        np.dot(X[start:stop].T, Y[start:stop], partial[chunk])
    return _sum_chunks(partial)


@numba.njit(parallel=True, cache=True)
def _thin_gram(X, Y):
    n, r = X.shape
    k = Y.shape[1]
    n_chunks = (n + _ROWS - 1) // _ROWS
    partial = np.empty((n_chunks, r, k), X.dtype)
    for chunk in numba.prange(n_chunks):
        gram = np.zeros((r, k), X.dtype)
        for i in range(chunk * _ROWS, min(n, (chunk + 1) * _ROWS)):
            for q in range(r):
                x = X[i, q]
                for c in range(k):
                    gram[q, c] += x * Y[i, c]
        partial[chunk] = gram
    return _sum_chunks(partial)


@numba.njit(parallel=True, cache=True)
def _rotate(X, S):
    n = X.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        _rotate_chunk(X[start : min(n, start + _ROWS)], S)


# Loops, outside the parallel function: assignments to slices are compiled slowly.
@numba.njit(cache=True)
def _rotate_chunk(X, S):
    _overwrite(np.dot(X, S), X)


@numba.njit(cache=True)
def _overwrite(source, out):
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = source[i, c]


@numba.njit(parallel=True, cache=True)
def _multiply(X, S, out):
    n = X.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        np.dot(X[start:stop], S, out[start:stop])


@numba.njit(parallel=True, cache=True)
def _subtract(out, L, C):
    n = out.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        _subtract_chunk(out[start:stop], L[start:stop], C)


@numba.njit(cache=True)
def _subtract_chunk(out, L, C):
    product = np.dot(L, C)
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] -= product[i, c]


@numba.njit(parallel=True, cache=True)
def _rotate_ritz(X, AX, S, values):
    n, m = X.shape
    n_chunks = (n + _ROWS - 1) // _ROWS
    partial = np.zeros((n_chunks, m), np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        _rotate_ritz_chunk(X[start:stop], AX[start:stop], S, values, partial[chunk])
    return np.sqrt(_sum_chunks(partial.reshape(n_chunks, 1, m))[0])


@numba.njit(cache=True)
def _rotate_ritz_chunk(X, AX, S, values, squares):
    rotated = np.dot(X, S)
    residual = np.dot(AX, S)
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            residual[i, c] -= values[c] * rotated[i, c]
            squares[c] += np.float64(residual[i, c]) ** 2
    _overwrite(rotated, X)
    _overwrite(residual, AX)
