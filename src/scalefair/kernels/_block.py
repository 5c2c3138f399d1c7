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

from scalefair._entries import judged_later
from scalefair._threads import parallel
from scalefair.kernels._arrays import Float64Array, FloatArray, read_only

# 2048 rows of 64 doubles are 1 MiB: a chunk stays in the second-level cache.
_ROWS = 2048
# Up to this width of X, a plain loop over the rows beats BLAS.
_THIN = 16


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


@numba.njit(cache=True)
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
@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True)
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
