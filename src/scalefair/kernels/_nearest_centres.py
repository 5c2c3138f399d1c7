"""Nearest centres of rows: one pass of k-means."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from scalefair.kernels._array_types import Float64Array, IntArray
from scalefair.kernels._read_only import read_only
from scalefair.kernels._threads import at_most_threads, single_blas_thread

# Sums are formed in at most this many parts of the rows, whatever the number of
# threads, and added in their order: the last digits are always the same.
_PARTS = 64
# Rows multiplied by the centres at once: the products stay in the cache.
_ROWS = 512


class NearestCentres(NamedTuple):
    """Rows at their nearest centres, the first of equal ones."""

    labels: IntArray  # (n,), int32
    low: Float64Array  # (n,): squared distance to the nearest centre
    second: Float64Array  # (n,): to the next one, infinity if there is none
    sums: Float64Array  # (k, d): sum of the rows of each centre
    counts: Float64Array  # (k,): how many there are


def nearest_centres(X: Float64Array, centres: Float64Array) -> NearestCentres:
    """Find the two nearest of `centres` (k, d) to each row of `X` (n, d)."""
    n, k = len(X), len(centres)
    n_parts = min(_PARTS, -(-n // _ROWS))
    labels, low, second = np.empty(n, np.int32), np.empty(n), np.empty(n)
    sums, counts = np.zeros((n_parts, *centres.shape)), np.zeros((n_parts, k))
    squares = np.einsum("ij,ij->i", centres, centres)
    with at_most_threads(n_parts), single_blas_thread():
        _nearest(
            read_only(X),
            np.ascontiguousarray(centres.T),
            squares,
            labels,
            low,
            second,
            sums,
            counts,
        )
    return NearestCentres(labels, low, second, sums.sum(axis=0), counts.sum(axis=0))


@numba.njit(parallel=True, cache=True)
def _nearest(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    labels: IntArray,
    low: Float64Array,
    second: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
) -> None:
    n, n_parts = X.shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        end = n * (part + 1) // n_parts
        for start in range(n * part // n_parts, end, _ROWS):
            stop = min(end, start + _ROWS)
            _nearest_chunk(
                X[start:stop],
                centres,
                squares,
                labels[start:stop],
                low[start:stop],
                second[start:stop],
                sums[part],
                counts[part],
            )


@numba.njit(cache=True)
def _nearest_chunk(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    labels: IntArray,
    low: Float64Array,
    second: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
) -> None:
    products = np.dot(X, centres)
    for i in range(X.shape[0]):
        least, next_least, best = np.inf, np.inf, 0
        for j in range(squares.shape[0]):
            value = squares[j] - 2 * products[i, j]
            if value < least:
                next_least = least
                least, best = value, j
            elif value < next_least:
                next_least = value
        square = 0.0
        for c in range(X.shape[1]):
            square += X[i, c] * X[i, c]
            sums[best, c] += X[i, c]
        counts[best] += 1
        labels[i] = best
        low[i] = max(least + square, 0.0)
        second[i] = max(next_least + square, 0.0)
