"""Dense algebra on tall blocks of vectors, shared among threads by rows.

Every kernel cuts the rows into chunks of a fixed size and hands each chunk to
BLAS. Sums over rows add the chunks in their order, so that a result is the same
to the last bit whatever the number of threads. Run these kernels with BLAS
itself limited to one thread (`scalefair.linalg` does): threads inside threads
are slow, and BLAS threads that spin while waiting slow the next kernel down.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["block_gram", "block_rotate", "block_subtract", "rotate_ritz"]

# 2048 rows of 64 doubles are 1 MiB: a chunk stays in the second-level cache.
_ROWS = 2048


@numba.njit(parallel=True, cache=True)
def block_gram(X, Y):  # type: ignore[no-untyped-def]
    """Return ``X.T @ Y`` in float64 for C-contiguous blocks of equal type."""
    n = X.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    partial = np.empty((n_chunks, X.shape[1], Y.shape[1]), X.dtype)
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        np.dot(X[start:stop].T, Y[start:stop], partial[chunk])
    gram = np.zeros((X.shape[1], Y.shape[1]), np.float64)
    for chunk in range(n_chunks):
        gram += partial[chunk]
    return gram


@numba.njit(parallel=True, cache=True)
def block_rotate(X, S):  # type: ignore[no-untyped-def]
    """Overwrite `X` with ``X @ S`` for a square matrix `S` of the same type."""
    n = X.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        X[start:stop] = np.dot(X[start:stop], S)


@numba.njit(parallel=True, cache=True)
def block_subtract(out, L, C):  # type: ignore[no-untyped-def]
    """Overwrite `out` with ``out - L @ C``."""
    n = out.shape[0]
    n_chunks = (n + _ROWS - 1) // _ROWS
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        out[start:stop] -= np.dot(L[start:stop], C)


@numba.njit(parallel=True, cache=True)
def rotate_ritz(X, AX, S, values):  # type: ignore[no-untyped-def]
    """Turn a basis into Ritz vectors and their residuals, in place.

    Overwrites `X` with ``X @ S`` and `AX` with ``AX @ S - X @ S * values`` and
    returns the Euclidean norms of the columns of the latter.
    """
    n, m = X.shape
    n_chunks = (n + _ROWS - 1) // _ROWS
    partial = np.zeros((n_chunks, m), np.float64)
    for chunk in numba.prange(n_chunks):
        start = chunk * _ROWS
        stop = min(n, start + _ROWS)
        rotated = np.dot(X[start:stop], S)
        residual = np.dot(AX[start:stop], S)
        for i in range(stop - start):
            for c in range(m):
                residual[i, c] -= values[c] * rotated[i, c]
                partial[chunk, c] += np.float64(residual[i, c]) ** 2
        X[start:stop] = rotated
        AX[start:stop] = residual
    norms = np.zeros(m, np.float64)
    for chunk in range(n_chunks):
        norms += partial[chunk]
    return np.sqrt(norms)
