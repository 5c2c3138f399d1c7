"""Algebra on a few long vectors kept as the rows of one array.

Rows are cut into chunks of a fixed length that are shared among threads; sums add
the chunks in their order, so that a result does not depend on the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair._threads import parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    Scalar,
    read_only,
)

# 4096 doubles of a dozen rows are 400 kB: a chunk stays in the second-level cache.
_LENGTH = 4096


def inner(X: FloatArray, Y: FloatArray) -> float:
    """Return the sum of the products of the entries of two C-contiguous arrays."""
    return float(_inner(_flat(X), _flat(Y)))


def rows_inner(rows: FloatArray, some: list[int], others: list[int]) -> Float64Array:
    """Return the inner products of some rows with others, given by their numbers.

    Parameters
    ----------
    rows : ndarray of shape (p, length)
        C-contiguous.
    some, others : list of int
        Numbers of rows.

    Returns
    -------
    ndarray of shape (len(some), len(others)), float64
    """
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
