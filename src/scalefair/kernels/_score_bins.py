"""Scores of rows, a loss of them, and sums of the rows above edges, in one pass.

A row ``x`` with code ``k`` has the score ``h = x @ B[k, :-1] + B[k, -1]``.
Increasing edges cut the scores into bins, and for every code and bin the kernels
add up 1, h, h^2, the rows and, if asked, the rows times h. Added from the top, they
are sums over the rows above each edge. A function of the score that is zero below
all edges and piecewise linear or quadratic between them has its mean over each
code, and the gradient of that mean, in these sums: any number of such functions
cost one pass.

Rows are a table of three arrays, see `row_table`. They are cut into chunks by the
sizes alone and the sums of the chunks are added in their order, so that a result is
the same to the last bit whatever the number of threads.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair.kernels._array_types import Float64Array, IntArray, RowTable
from scalefair.kernels._row_table import row_chunks
from scalefair.kernels._score_loops import (
    BLOCK,
    HINGE,
    LOGISTIC,
    SQUARED,
    add_losses,
    add_rows,
    score_and_add,
    score_rows,
)

__all__ = [
    "HINGE",
    "LOGISTIC",
    "SQUARED",
    "bin_pass",
    "row_scores",
    "score_losses",
    "score_pass",
]


def row_scores(table: RowTable, codes: IntArray, B: Float64Array) -> Float64Array:
    """Return the scores of all rows.

    Parameters
    ----------
    table : tuple
        m rows of n entries, see `row_table`.
    codes : ndarray of shape (m,), int64
    B : ndarray of shape (n_codes, n + 1)

    Returns
    -------
    ndarray of shape (m,), float64
    """
    scores = np.empty(codes.shape[0])
    chunks = row_chunks(table, codes.shape[0], 1)
    score_rows(table, codes, B, chunks, scores)
    return scores


def score_pass(
    table: RowTable,
    codes: IntArray,
    signs: Float64Array,
    kind: int,
    B: Float64Array,
    edges: Float64Array,
    centre: float,
    n_powers: int,
) -> tuple[float, Float64Array, Float64Array, Float64Array]:
    """Return the loss of all rows, its gradients, and sums of rows above edges.

    Parameters
    ----------
    table : tuple
        m rows of n entries, see `row_table`.
    codes : ndarray of shape (m,), int64
        Code of each row, below ``len(B)``; not checked.
    signs : ndarray of shape (m,), float64
        Labels, -1 or 1.
    kind : int
        LOGISTIC, HINGE or SQUARED.
    B : ndarray of shape (n_codes, n + 1), float64
        Coefficients and, last, the intercept of each code.
    edges : ndarray of shape (n_edges,), float64
        Increasing edges, less `centre`. A score on an edge is not above it.
    centre : float
        Subtracted from scores before they are counted.
    n_powers : int
        1 for the sums of rows alone, 2 for sums of rows times scores too.

    Returns
    -------
    loss : float
        Sum over all rows.
    gradient : ndarray of shape (n_codes, n + 1)
        Sums of the derivative of the loss times (row, 1), for each code.
    moments : ndarray of shape (n_codes, n_edges, 3)
        Sums of 1, h and h^2 over the rows above each edge.
    sums : ndarray of shape (n_codes, n_edges, n_powers, n + 1)
        Sums of (row, 1) and of h times (row, 1), likewise.
    """
    chunks, gradients, moments, sums = _workspace(
        table, codes, B.shape, edges, n_powers
    )
    losses = np.empty(chunks.shape[0] - 1)
    bins = edges, centre
    score_and_add(
        table, codes, signs, kind, B, bins, chunks, losses, gradients, moments, sums
    )
    return float(losses.sum()), *_accumulate(gradients, moments, sums)


def bin_pass(
    table: RowTable,
    codes: IntArray,
    scores: Float64Array,
    slopes: Float64Array,
    shape: tuple[int, int],
    edges: Float64Array,
    centre: float,
    n_powers: int,
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the sums of `score_pass` for given scores and derivatives.

    Parameters
    ----------
    table, codes, edges, centre, n_powers
        As in `score_pass`.
    scores, slopes : ndarray of shape (m,), float64
        Scores, and derivatives of a loss in them.
    shape : tuple of int
        ``(n_codes, n + 1)``.

    Returns
    -------
    gradient, moments, sums
        As in `score_pass`.
    """
    chunks, gradients, moments, sums = _workspace(table, codes, shape, edges, n_powers)
    bins = edges, centre
    add_rows(table, codes, scores, slopes, bins, chunks, gradients, moments, sums)
    return _accumulate(gradients, moments, sums)


def score_losses(
    scores: Float64Array, signs: Float64Array, kind: int
) -> tuple[float, Float64Array]:
    """Return the sum of the losses of scores, and their derivatives.

    Parameters as in `score_pass`.

    Returns
    -------
    loss : float
    slopes : ndarray of shape (m,)
    """
    slopes = np.empty_like(scores)
    n_blocks = -(-scores.shape[0] // BLOCK)
    losses = np.empty(n_blocks)
    add_losses(kind, signs, scores, losses, slopes)
    return float(losses.sum()), slopes


def _workspace(
    table: RowTable,
    codes: IntArray,
    shape: tuple[int, int],
    edges: Float64Array,
    n_powers: int,
) -> tuple[IntArray, Float64Array, Float64Array, Float64Array]:
    """Chunks and, for each of them, arrays of the gradient, moments and sums."""
    n_codes, n_columns = shape
    n_bins = edges.shape[0]
    n_partial = n_codes * n_columns * (n_bins * n_powers + 1)
    chunks = row_chunks(table, codes.shape[0], n_partial)
    n_chunks = chunks.shape[0] - 1
    # Zeros from here: in kernels, assignments to slices are compiled slowly.
    gradients = np.zeros((n_chunks, n_codes, n_columns))
    moments = np.zeros((n_chunks, n_codes, n_bins, 3))
    sums = np.zeros((n_chunks, n_codes, n_bins, n_powers, n_columns))
    return chunks, gradients, moments, sums


def _accumulate(
    gradients: Float64Array, moments: Float64Array, sums: Float64Array
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the sums of all chunks, in their order, each bin added to those below."""
    gradient, moment, total = (
        parts.sum(axis=0) for parts in (gradients, moments, sums)
    )
    n_codes, n_bins, n_powers, n_columns = total.shape
    _add_from_top(moment)
    _add_from_top(total.reshape(n_codes, n_bins, n_powers * n_columns))
    return gradient, moment, total


@numba.njit(cache=True, nogil=True)
def _add_from_top(values: Float64Array) -> None:
    """Add each bin to those below; values are (n_codes, n_bins, any number)."""
    for k in range(values.shape[0]):
        for e in range(values.shape[1] - 2, -1, -1):
            for j in range(values.shape[2]):
                values[k, e, j] += values[k, e + 1, j]
