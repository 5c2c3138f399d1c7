"""Sums of scores above edges for several families of sets of rows, in one pass.

A family puts each row into one of its sets, or in none, by the row's code, and has
increasing edges of its own, less a centre. What is summed are functions of the score
that are linear between edges: their values from moments, their derivatives as one
weight of each row, so that all families cost two passes over the scores.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray

# Rows of a chunk, and chunks: each has sums of its own, added in their order.
_ROWS, _CHUNKS = 4096, 16


def family_moments(
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    n_sets: int,
    edges: Float64Array,
    centres: Float64Array,
) -> tuple[Float64Array, IntArray]:
    """Return sums over the rows above edges, and the highest edge below each row.

    Parameters
    ----------
    scores, codes : ndarray of shape (m,)
        Of the rows.
    sets : ndarray of shape (n_families, n_codes)
        Set of each code, below `n_sets`, or -1.
    edges, centres : ndarray of shape (n_families, n_edges) and (n_families,)
        Edges, which increase, less their centre; a score on an edge is not above it.

    Returns
    -------
    moments : ndarray of shape (n_families, n_sets, n_edges, 3)
        Sums of 1, h and h^2 over the rows above each edge, h less the centre.
    places : ndarray of shape (m, n_families)
        Index of the edge, -1 below all of them.
    """
    m, (n_families, n_edges) = scores.shape[0], edges.shape
    n_chunks = max(1, min(_CHUNKS, m // _ROWS))
    partial = np.zeros((n_chunks, n_families, n_sets, n_edges, 3))
    places = np.empty((m, n_families), np.int32)
    _add_moments(n_chunks, scores, codes, sets, edges, centres, places, partial)
    moments = partial.sum(axis=0)
    return np.cumsum(moments[:, :, ::-1], axis=2)[:, :, ::-1], places


def family_slopes(
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    places: IntArray,
    lines: Float64Array,
    centres: Float64Array,
) -> Float64Array:
    """Return the sum over families of a line in the score, which its place chooses.

    `lines` are (n_families, n_sets, n_edges, 2): value at the centre, and slope.
    Below all edges the line is zero; other arguments are those of `family_moments`.
    """
    slopes = np.zeros(scores.shape[0])
    n_blocks = -(-scores.shape[0] // _ROWS)
    _add_lines(n_blocks, scores, codes, sets, places, lines, centres, slopes)
    return slopes


@parallel(lambda n, scores, codes, sets, *_: 20 * scores.size * sets.shape[0])
def _add_moments(n_chunks: int, scores: Float64Array, *arguments: Any) -> None:
    for c in numba.prange(n_chunks):
        _chunk_moments(np.int64(c), n_chunks, scores, *arguments)


@cached_njit(nogil=True)
def _chunk_moments(
    c: Any,
    n_chunks: int,
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    edges: Float64Array,
    centres: Float64Array,
    places: IntArray,
    partial: Float64Array,
) -> None:
    m, n_families, n_edges = scores.shape[0], edges.shape[0], edges.shape[1]
    moments = partial[c]
    for i in range(c * m // n_chunks, (c + 1) * m // n_chunks):
        code = codes[i]
        for f in range(n_families):
            own = sets[f, code]
            if own < 0:
                continue
            h = scores[i] - centres[f]
            # The number of edges below, by bisection without a branch.
            low, left = 0, n_edges
            while left > 1:
                half = left // 2
                low += half * (edges[f, low + half - 1] < h)
                left -= half
            low += (n_edges > 0) and edges[f, low] < h
            places[i, f] = low - 1
            if low > 0:
                moments[f, own, low - 1, 0] += 1
                moments[f, own, low - 1, 1] += h
                moments[f, own, low - 1, 2] += h * h


@parallel(lambda n, scores, codes, sets, *_: 5 * scores.size * sets.shape[0])
def _add_lines(
    n_blocks: int,
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    places: IntArray,
    lines: Float64Array,
    centres: Float64Array,
    slopes: Float64Array,
) -> None:
    for c in numba.prange(n_blocks):
        for i in range(c * _ROWS, min((c + 1) * _ROWS, scores.shape[0])):
            for f in range(sets.shape[0]):
                own = sets[f, codes[i]]
                e = places[i, f]
                if own >= 0 and e >= 0:
                    h = scores[i] - centres[f]
                    slopes[i] += lines[f, own, e, 0] + lines[f, own, e, 1] * h
