"""Sums of rows times weights, many weights at a time.

Rows are cut into chunks by the sizes alone and the sums of the chunks are added in
their order: a result is the same whatever the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np
from numba.extending import overload

from scalefair._threads import parallel
from scalefair.kernels._arrays import (
    Float64Array,
    FloatArray,
    IntArray,
    RowTable,
    row_chunks,
)


def weighted_row_sums(
    table: RowTable, codes: IntArray, weights: Float64Array, shape: tuple[int, int]
) -> Float64Array:
    """Return the sums of (row, 1) times each column of weights, for each code.

    Parameters
    ----------
    table : tuple
        m rows of n entries, see `row_table`.
    codes : ndarray of shape (m,), int64
        Code of each row, below `n_codes`; not checked.
    weights : ndarray of shape (m, q), float64
    shape : tuple of int
        ``(n_codes, n + 1)``.

    Returns
    -------
    ndarray of shape (n_codes, n + 1, q)
    """
    n_weights = weights.shape[1]
    chunks = row_chunks(table, codes.shape[0], math.prod(shape) * n_weights)
    partial = np.zeros((chunks.shape[0] - 1, *shape, n_weights))
    _weighted_row_sums(table, codes, weights, chunks, partial)
    sums: Float64Array = partial.sum(axis=0)
    return sums


def _add_row_block(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    i: int,
    weights: Float64Array,
    out: Float64Array,
) -> None:
    """Add a row and a one, times each of the weights."""
    raise NotImplementedError


def _dense_add_block(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    i: int,
    weights: Float64Array,
    out: Float64Array,
) -> None:
    n = data.shape[1]
    for j in range(n):
        for q in range(weights.shape[0]):
            out[j, q] += weights[q] * data[i, j]
    for q in range(weights.shape[0]):
        out[n, q] += weights[q]


def _csr_add_block(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    i: int,
    weights: Float64Array,
    out: Float64Array,
) -> None:
    for p in range(indptr[i], indptr[i + 1]):
        x = data[p]
        row = out[indices[p]]
        for q in range(weights.shape[0]):
            row[q] += weights[q] * x
    for q in range(weights.shape[0]):
        out[out.shape[0] - 1, q] += weights[q]


# Called with the types of the arguments, but annotated as what it returns: Numba
# compares the signatures.
@overload(_add_row_block, inline="always")
def _choose_add_block(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    i: int,
    weights: Float64Array,
    out: Float64Array,
) -> Callable[..., None]:
    return _dense_add_block if data.ndim == 2 else _csr_add_block


@numba.njit(cache=True, nogil=True)
def _add_rows(
    table: RowTable,
    codes: IntArray,
    weights: Float64Array,
    start: int,
    stop: int,
    sums: Float64Array,
) -> None:
    indptr, indices, data = table
    for i in range(start, stop):
        _add_row_block(indptr, indices, data, i, weights[i], sums[codes[i]])


@parallel(lambda table, codes, weights, *_: 0.5 * table[2].size * weights.shape[1])
def _weighted_row_sums(
    table: RowTable,
    codes: IntArray,
    weights: Float64Array,
    chunks: IntArray,
    partial: Float64Array,
) -> None:
    for c in numba.prange(chunks.shape[0] - 1):
        _add_rows(table, codes, weights, chunks[c], chunks[c + 1], partial[c])
