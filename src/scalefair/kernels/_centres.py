"""Squared distances of rows to centres: the steps of k-means.

The cut of the rows into parts depends on the number of rows alone. Each part has sums
of its own; added in their order, they have the same bits for any number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import MAX_CHUNKS, Float64Array, read_only

# Rows multiplied by the centres at once: the products stay in the cache.
ROWS_PER_PRODUCT = 512


def nearest_centres(
    X: Float64Array, centres: Float64Array, weights: Float64Array
) -> tuple[NDArray[np.int32], Float64Array, Float64Array, Float64Array, Float64Array]:
    """Find the nearest of `centres` (k, d) to each row of `X` (n, d).

    Returns, of each row, the label of the nearest centre, the first of equal ones, and
    the squared distance to it; and, of the rows of each centre, their weighted sums
    (k, d), the sum of their weights (k,), and the weighted sum by which their squared
    distances grow if they go to the next nearest centre (k,).
    """
    n, k, n_parts = len(X), len(centres), _count_parts(X)
    # Step of Lloyd: labels by the nearest centre, and the sums for the new centres.
    labels, distances = np.empty(n, np.int32), np.empty(n)
    sums = np.zeros((n_parts, *centres.shape))
    counts, losses = np.zeros((2, n_parts, k))
    # |x - c|^2 = |x|^2 + |c|^2 - 2 c'x: one matrix product of 2 n k d flops.
    squares = np.einsum("ij,ij->i", centres, centres)
    rows = read_only(X), read_only(weights), labels, distances
    _nearest(rows, np.ascontiguousarray(centres), squares, sums, counts, losses)
    return (labels, distances, sums.sum(axis=0), counts.sum(axis=0), losses.sum(axis=0))


def _count_parts(X):
    """Return the number of parts of the rows: as many as products, or MAX_CHUNKS."""
    return min(MAX_CHUNKS, -(-len(X) // ROWS_PER_PRODUCT))


@parallel(
    lambda rows, centres, *_: rows[0].size + centres.size * len(rows[0]) * 0.1,
    blas=True,
)
def _nearest(rows, centres, squares, sums, counts, losses):
    """Share the parts of the rows among the threads; pieces stay in the cache."""
    n, n_parts = rows[0].shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        end = n * (part + 1) // n_parts
        for start in range(n * part // n_parts, end, ROWS_PER_PRODUCT):
            stop = min(end, start + ROWS_PER_PRODUCT)
            totals = sums[part], counts[part], losses[part]
            _nearest_chunk(rows, centres, squares, start, stop, totals)


@cached_njit(nogil=True, fastmath={"reassoc"})
def _nearest_chunk(rows, centres, squares, start, stop, totals):
    """Label rows `start` to `stop`, and add them to the totals of their part."""
    X, weights = rows[0][start:stop], rows[1][start:stop]
    labels, distances = rows[2][start:stop], rows[3][start:stop]
    (sums, counts, losses), n = totals, stop - start
    # Step 1: the two smallest of |c|^2 - 2 c'x, the squared distances less |x|^2, which
    # is the same for all centres. `products` are (k, rows).
    products = np.dot(centres, X.T)
    minima, second_minima = np.full(n, np.inf), np.full(n, np.inf)
    best = np.zeros(n, np.int64)
    for j in range(products.shape[0]):
        # Without branches, and along the rows: vector instructions.
        for i in range(n):
            value = squares[j] - 2 * products[j, i]
            closer = value < minima[i]
            second_minima[i] = minima[i] if closer else min(value, second_minima[i])
            best[i] = j if closer else best[i]
            minima[i] = value if closer else minima[i]
    # Step 2: sums over the rows of each centre.
    for i in range(n):
        j, weight, square = best[i], weights[i], 0.0
        for c in range(X.shape[1]):
            square += X[i, c] * X[i, c]
            sums[j, c] += weight * X[i, c]
        labels[i] = j
        distances[i] = max(minima[i] + square, 0.0)  # below zero is rounding
        counts[j] += weight
        losses[j] += weight * (second_minima[i] - minima[i])


def capped_distances(
    X: Float64Array,
    centres: Float64Array,
    caps: Float64Array,
    weights: Float64Array,
    out: Float64Array,
) -> Float64Array:
    """Overwrite `out` with squared distances of centres to rows, at most `caps`.

    `X` is (n, d), `centres` (k, d), `caps` (n,) and `out` (k, n). Returns the sums of
    the rows of `out`, of rows of `X` by their weights.
    """
    sums = np.zeros((_count_parts(X), len(centres)))
    _capped(read_only(X), centres, read_only(caps), read_only(weights), out, sums)
    return sums.sum(axis=0)


@parallel(lambda X, centres, *_: X.size + centres.size * len(X) * 0.2)
def _capped(X, centres, caps, weights, out, sums):
    """Share the parts of the rows among the threads."""
    n, n_parts = X.shape[0], sums.shape[0]
    for part in numba.prange(n_parts):
        first, end = n * part // n_parts, n * (part + 1) // n_parts
        _capped_part(X, centres, caps, weights, out, sums[part], first, end)


@cached_njit(nogil=True, fastmath={"reassoc"})
def _capped_part(X, centres, caps, weights, out, sums, first, end):
    """Overwrite the columns `first` to `end` of `out`, and add up its rows.

    As for candidates of a new centre in k-means++: a row's cap is its squared distance
    to the nearest centre so far, and a sum the cost with the candidate.
    """
    # 3 k d flops a row. Few centres come at a time: differences lose no digits, and a
    # product of matrices would hardly be faster. Sums may be reordered within a row.
    for i in range(first, end):
        for j in range(centres.shape[0]):
            square = 0.0
            for c in range(X.shape[1]):
                square += (X[i, c] - centres[j, c]) ** 2
            out[j, i] = min(square, caps[i])
            sums[j] += weights[i] * out[j, i]
