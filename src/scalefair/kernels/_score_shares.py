"""Sums of scores above edges for several families of sets of rows, in one pass.

A family puts each row into one of its sets, or in none, by the row's code, and has
increasing edges of its own, less a centre. What is summed are functions of the score
that are linear between edges: their values from moments, their derivatives as one
weight of each row, so that all families cost two passes over the scores.
"""

from __future__ import annotations

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray

# Rows of a chunk at least. Chunks have sums of their own, added in their order.
MIN_CHUNK_ROWS = 4096


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
    bin_index : ndarray of shape (m, n_families)
        Index of the edge, -1 below all of them.
    """
    m, (n_families, n_edges) = scores.shape[0], edges.shape
    n_chunks = max(1, min(16, m // MIN_CHUNK_ROWS))
    partial = np.zeros((n_chunks, n_families, n_sets, n_edges, 3))
    bin_index = np.empty((m, n_families), np.int32)
    _add_moments(n_chunks, scores, codes, sets, edges, centres, bin_index, partial)
    moments = partial.sum(axis=0)
    return np.cumsum(moments[:, :, ::-1], axis=2)[:, :, ::-1], bin_index


def family_slopes(
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    bin_index: IntArray,
    lines: Float64Array,
    centres: Float64Array,
) -> Float64Array:
    """Return the sum over families of a line in the score, chosen by its bin.

    `lines` are (n_families, n_sets, n_edges, 2): value at the centre, and slope.
    Below all edges the line is zero; other arguments are those of `family_moments`.
    """
    slopes = np.zeros(scores.shape[0])
    n_blocks = -(-scores.shape[0] // MIN_CHUNK_ROWS)
    _add_lines(n_blocks, scores, codes, sets, bin_index, lines, centres, slopes)
    return slopes


@parallel(lambda n, scores, codes, sets, *_: 20 * scores.size * sets.shape[0])
def _add_moments(n_chunks, scores, *arguments):
    for c in numba.prange(n_chunks):
        _chunk_moments(np.int64(c), n_chunks, scores, *arguments)


@cached_njit(nogil=True)
def _chunk_moments(
    c, n_chunks, scores, codes, sets, edges, centres, bin_index, partial
):
    m, n_families, n_edges = scores.shape[0], edges.shape[0], edges.shape[1]
    moments = partial[c]
    for i in range(c * m // n_chunks, (c + 1) * m // n_chunks):
        code = codes[i]
        for f in range(n_families):
            k = sets[f, code]
            if k < 0:
                continue
            h = scores[i] - centres[f]
            # The number of edges below, by bisection without a branch: the edges
            # before `low` are below, and `size` edges are not yet compared.
            low, size = 0, n_edges
            while size > 1:
                half = size // 2
                low += half * (edges[f, low + half - 1] < h)
                size -= half
            low += (n_edges > 0) and edges[f, low] < h
            bin_index[i, f] = low - 1
            if low > 0:
                moments[f, k, low - 1, 0] += 1
                moments[f, k, low - 1, 1] += h
                moments[f, k, low - 1, 2] += h * h


@parallel(lambda n, scores, codes, sets, *_: 5 * scores.size * sets.shape[0])
def _add_lines(n_blocks, scores, codes, sets, bin_index, lines, centres, slopes):
    for c in numba.prange(n_blocks):
        start = c * MIN_CHUNK_ROWS
        for i in range(start, min(start + MIN_CHUNK_ROWS, scores.shape[0])):
            for f in range(sets.shape[0]):
                k = sets[f, codes[i]]
                e = bin_index[i, f]
                if k >= 0 and e >= 0:
                    h = scores[i] - centres[f]
                    slopes[i] += lines[f, k, e, 0] + lines[f, k, e, 1] * h
