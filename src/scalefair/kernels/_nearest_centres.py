"""Nearest centres of rows: one pass of k-means."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from scalefair._threads import parallel
from scalefair.kernels._arrays import Float64Array, IntArray, read_only

# Sums are formed in at most this many parts of the rows, whatever the number of
# threads, and added in their order: the last digits are always the same.
_PARTS = 64
# Rows multiplied by the centres at once: the products stay in the cache.
_ROWS = 512


class NearestCentres(NamedTuple):
    """Rows at their nearest centres, the first of equal ones."""

    labels: NDArray[np.int32]  # (n,)
    low: Float64Array  # (n,): squared distance to the nearest centre
    sums: Float64Array  # (k, d): sum of the rows of each centre
    counts: Float64Array  # (k,): how many there are
    losses: Float64Array  # (k,): what they lose by going to the next nearest centre


def nearest_centres(X: Float64Array, centres: Float64Array) -> NearestCentres:
    """Find the nearest of `centres` (k, d) to each row of `X` (n, d)."""
    n, k = len(X), len(centres)
    n_parts = min(_PARTS, -(-n // _ROWS))
    labels, low = np.empty(n, np.int32), np.empty(n)
    sums = np.zeros((n_parts, *centres.shape))
    counts, losses = np.zeros((2, n_parts, k))
    squares = np.einsum("ij,ij->i", centres, centres)
    _nearest(
        read_only(X),
        np.ascontiguousarray(centres),
        squares,
        labels,
        low,
        sums,
        counts,
        losses,
    )
    return NearestCentres(
        labels, low, sums.sum(axis=0), counts.sum(axis=0), losses.sum(axis=0)
    )


@parallel(lambda X, centres, *_: X.size + centres.size * len(X) * 0.1, blas=True)
def _nearest(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    labels: IntArray,
    low: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
    losses: Float64Array,
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
                sums[part],
                counts[part],
                losses[part],
            )


@numba.njit(cache=True, nogil=True)
def _nearest_chunk(
    X: Float64Array,
    centres: Float64Array,
    squares: Float64Array,
    labels: IntArray,
    low: Float64Array,
    sums: Float64Array,
    counts: Float64Array,
    losses: Float64Array,
) -> None:
    n = X.shape[0]
    products = np.dot(centres, X.T)
    least, next_least = np.full(n, np.inf), np.full(n, np.inf)
    best = np.zeros(n, np.int64)
    for j in range(products.shape[0]):
        # Without branches, and along the rows: vector instructions.
        for i in range(n):
            value = squares[j] - 2 * products[j, i]
            closer = value < least[i]
            next_least[i] = least[i] if closer else min(value, next_least[i])
            best[i] = j if closer else best[i]
            least[i] = value if closer else least[i]
    for i in range(n):
        j = best[i]
        square = 0.0
        for c in range(X.shape[1]):
            square += X[i, c] * X[i, c]
            sums[j, c] += X[i, c]
        labels[i] = j
        low[i] = max(least[i] + square, 0.0)
        counts[j] += 1
        losses[j] += next_least[i] - least[i]
