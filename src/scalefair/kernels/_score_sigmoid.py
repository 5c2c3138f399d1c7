"""Convex parts of sigmoids of scores at many thresholds, and losses of scores.

The sigmoid ``1 / (1 + exp(-x))`` of ``x = (h - theta) / width`` is convex below 0
and concave above. Its plus part is the sigmoid below 0, continued above by its
tangent ``1/2 + x/4``; its minus part is what the tangent is too much. Both parts
are convex and increase.

The exponentials at all thresholds are products of one of the score and one of each
threshold, both less a centre. Sums are taken over chunks of rows that depend on
their number alone, in their order: results are the same for all numbers of threads.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from scalefair._threads import parallel
from scalefair.kernels._arrays import Float64Array, IntArray

# Fewest rows of a chunk and most chunks.
_ROWS = 2048
_CHUNKS = 64
# Thresholds within so many widths of their centre take part in products. Scores
# farther than twice that are moved there: their sigmoids are 0 or 1 to rounding.
_REACH = 150.0


def sigmoid_sums(
    scores: Float64Array,
    codes: IntArray,
    theta: Float64Array,
    width: float,
    n_codes: int,
) -> tuple[Float64Array, Float64Array]:
    """Return sums of both parts, and of their derivatives, over rows of each code.

    Parameters
    ----------
    scores : ndarray of shape (m,), float64
    codes : ndarray of shape (m,), int64
        Code of each row, below `n_codes`.
    theta : ndarray of shape (p,), float64
        Thresholds.
    width : float
        Scores per unit of the sigmoid.
    n_codes : int

    Returns
    -------
    values : ndarray of shape (n_codes, 2 p)
        Sums of the plus parts, then of the minus parts.
    slopes : ndarray of shape (n_codes, 2 p)
        Sums of their derivatives in the scores.
    """
    most = max(1, min(_CHUNKS, scores.shape[0] // _ROWS))
    n_chunks = 2 ** (most.bit_length() - 1)
    chunks = np.linspace(0, scores.shape[0], n_chunks + 1).astype(np.int64)
    partial = np.zeros((n_chunks, n_codes, 2, 2 * theta.shape[0]))
    centre, factors = _products(theta, width)
    _sums(scores, codes, theta, width, centre, factors, chunks, partial)
    total = partial.sum(axis=0)
    return total[:, 0], total[:, 1]


def sigmoid_slopes(
    scores: Float64Array, theta: Float64Array, width: float
) -> Float64Array:
    """Return derivatives of both parts at each score.

    Parameters as in `sigmoid_sums`.

    Returns
    -------
    ndarray of shape (m, 2 p)
        Of the plus parts, then of the minus parts.
    """
    out = np.empty((scores.shape[0], 2 * theta.shape[0]))
    centre, factors = _products(theta, width)
    _slopes(scores, theta, width, centre, factors, out)
    return out


def _products(theta: Float64Array, width: float) -> tuple[float, Float64Array]:
    """Centre and factors of the thresholds; no factors if they lie too far apart."""
    if theta.size == 0:
        return 0.0, np.empty(0)
    centre = (theta.min() + theta.max()) / 2
    shifted = (theta - centre) / width
    if abs(shifted).max() > _REACH:
        return centre, np.empty(0)
    return centre, np.exp(shifted)


@numba.njit(cache=True, nogil=True)
def _sigmoids(
    h: float,
    theta: Float64Array,
    width: float,
    centre: float,
    factors: Float64Array,
    out: Float64Array,
) -> None:
    """Sigmoids of one score, and their derivatives in x, at all thresholds."""
    n = theta.shape[0]
    if factors.shape[0] == n:
        x = (h - centre) / width
        x = min(max(x, -2 * _REACH), 2 * _REACH)
        base = math.exp(-x)
        for p in range(n):
            odds = base * factors[p]
            share = 1 / (1 + odds)
            out[0, p] = share
            out[1, p] = odds * share * share
    else:
        for p in range(n):
            x = (h - theta[p]) / width
            odds = math.exp(min(-x, 2 * _REACH))
            share = 1 / (1 + odds)
            out[0, p] = share
            out[1, p] = odds * share * share


# Parallel functions hold the loop alone: whatever else they hold is compiled slowly.
@parallel(lambda scores, codes, theta, *_: 5 * scores.size * (1 + theta.size))
def _sums(
    scores: Float64Array,
    codes: IntArray,
    theta: Float64Array,
    width: float,
    centre: float,
    factors: Float64Array,
    chunks: IntArray,
    partial: Float64Array,
) -> None:
    for c in numba.prange(chunks.shape[0] - 1):
        _chunk_sums(
            scores,
            codes,
            theta,
            width,
            centre,
            factors,
            chunks[c],
            chunks[c + 1],
            partial[c],
        )


@numba.njit(cache=True, nogil=True)
def _chunk_sums(
    scores: Float64Array,
    codes: IntArray,
    theta: Float64Array,
    width: float,
    centre: float,
    factors: Float64Array,
    start: int,
    stop: int,
    out: Float64Array,
) -> None:
    n = theta.shape[0]
    buffer = np.empty((2, n))
    for i in range(start, stop):
        _sigmoids(scores[i], theta, width, centre, factors, buffer)
        values = out[codes[i], 0]
        slopes = out[codes[i], 1]
        for p in range(n):
            x = (scores[i] - theta[p]) / width
            share, slope = buffer[0, p], buffer[1, p]
            above = x > 0
            values[p] += 0.5 + 0.25 * x if above else share
            values[n + p] += max(0.5 + 0.25 * x - share, 0.0) if above else 0.0
            slopes[p] += 0.25 / width if above else slope / width
            slopes[n + p] += max(0.25 - slope, 0.0) / width if above else 0.0


@parallel(lambda scores, theta, *_: 3 * scores.size * (1 + theta.size))
def _slopes(
    scores: Float64Array,
    theta: Float64Array,
    width: float,
    centre: float,
    factors: Float64Array,
    out: Float64Array,
) -> None:
    n_rows = scores.shape[0]
    for c in numba.prange((n_rows + _ROWS - 1) // _ROWS):
        stop = min((c + 1) * _ROWS, n_rows)
        _chunk_slopes(scores, theta, width, centre, factors, c * _ROWS, stop, out)


@numba.njit(cache=True, nogil=True)
def _chunk_slopes(
    scores: Float64Array,
    theta: Float64Array,
    width: float,
    centre: float,
    factors: Float64Array,
    start: int,
    stop: int,
    out: Float64Array,
) -> None:
    n = theta.shape[0]
    buffer = np.empty((2, n))
    for i in range(start, stop):
        _sigmoids(scores[i], theta, width, centre, factors, buffer)
        for p in range(n):
            slope = buffer[1, p]
            above = scores[i] > theta[p]
            out[i, p] = 0.25 / width if above else slope / width
            out[i, n + p] = max(0.25 - slope, 0.0) / width if above else 0.0
