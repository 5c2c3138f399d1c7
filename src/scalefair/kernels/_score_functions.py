"""Functions of scores: convex parts of sigmoids, pairwise hinges, sums above edges.

The sigmoid ``1 / (1 + exp(-x))`` of ``x = (h - theta) / width``, with the score h and
a threshold theta, is convex below 0 and concave above. Its plus part is the sigmoid
below 0, continued above by its tangent ``1/2 + x/4``. Its minus part is zero below 0,
and the tangent less the sigmoid above. Both parts are convex and increase.

The exponentials at all thresholds are products of one of the score and one of each
threshold, both less a centre: ``exp(-(h - theta)) = exp(-h) exp(theta)``, in widths.

For sums above edges there are families of disjoint sets. The code of a row tells its
set in each family, or that it is in none. A family has increasing edges, less a centre.
What is summed over a set is quadratic in the score between two edges: the sums follow
from moments, in one pass over the scores. Its derivative is linear there. In a second
pass the derivatives of all families become one weight of each row.

Sums are taken over chunks of rows that depend on their number alone, in their order:
results are the same for all numbers of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numba
import numpy as np

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import Float64Array, IntArray, equal_chunks, read_only

# Thresholds within so many widths of their centre take part in products. Scores
# farther than twice that are moved there: their sigmoids are 0 or 1 to rounding.
MAX_EXPONENT = 150.0


def sigmoid_sums(
    scores: Float64Array,
    codes: IntArray,
    theta: Float64Array,
    width: float,
    n_codes: int,
    weights: Float64Array | None = None,
) -> tuple[Float64Array, Float64Array]:
    """Return sums of both parts, and of their derivatives, over rows of each code.

    At p thresholds `theta`, with `width` scores per unit of the sigmoid; both are
    (n_codes, 2 p): the plus parts, then the minus parts. `weights` of the rows multiply
    what is summed; None counts each once.
    """
    codes, weights = read_only((codes, weights))
    chunks = equal_chunks(scores.shape[0])
    partial = np.zeros((len(chunks) - 1, n_codes, 2, 2 * theta.shape[0]))
    arguments = _threshold_arguments(theta, width)
    _sums(len(partial), scores, *arguments, codes, weights, chunks, partial)
    total = partial.sum(axis=0)
    return total[:, 0], total[:, 1]


def sigmoid_slopes(
    scores: Float64Array, theta: Float64Array, width: float
) -> Float64Array:
    """Return derivatives of both parts at each score, (m, 2 p) like `sigmoid_sums`."""
    out = np.empty((scores.shape[0], 2 * theta.shape[0]))
    chunks = equal_chunks(scores.shape[0])
    _slopes(len(chunks) - 1, scores, *_threshold_arguments(theta, width), chunks, out)
    return out


def top_pairwise_hinge(
    scores: Float64Array,
    positives: IntArray,
    negatives: IntArray,
    n_tops: Iterable[int],
) -> list[tuple[float, Float64Array]]:
    """Return sums of the hinge loss over pairs with the highest negatives.

    For each r of `n_tops`: the sum of ``max(0, 1 - h_i + h_j)`` over all positives i
    and the r negatives j of highest score, the largest over all choices of r and so
    convex in the scores, with a subgradient. One sort serves all r. Equal negatives at
    the end of the highest are chosen in any order; a pair at the kink counts as without
    loss.
    """
    # Step 1: negatives from the highest down. The loss does not change with the origin
    # of the scores, its rounding does.
    origin = scores[negatives].mean()
    below = origin - scores[negatives]
    order = np.argsort(below)
    below = below[order]
    above = scores[positives] - origin - 1  # less the margin of 1
    # Step 2: negatives within the margin of each positive or above it.
    # The loss of a pair is -(above_i + below_j), positive where below_j < -above_i.
    n_within = np.searchsorted(below, -above, side="left")
    totals = np.concatenate([[0.0], np.cumsum(below)])
    results = []
    for n_top in n_tops:
        # Step 3: pairs of each positive, and the sum of their losses.
        counts = np.minimum(n_within, n_top)
        # For positive i it is -(counts[i] above_i + the sum of the first counts[i] of
        # `below`).
        loss = -float(counts @ above + totals[counts].sum())
        slopes = np.zeros_like(scores)
        slopes[positives] = -counts
        # Step 4: the negative of rank j is in the pairs of those positives that have
        # more than j negatives.
        n_pairs = np.bincount(counts, minlength=n_top + 1)[::-1].cumsum()[::-1]
        slopes[negatives[order[:n_top]]] = n_pairs[1 : n_top + 1]
        results.append((loss, slopes))
    return results


def _threshold_arguments(theta, width):
    """Return theta, width, centre and factors: arguments of `_sigmoids`.

    The factors are exponentials of the thresholds, none if these are too far apart.
    """
    # The middle of the thresholds keeps both exponentials small.
    centre = (theta.min() + theta.max()) / 2 if theta.size else 0.0
    shifted = (theta - centre) / width
    is_wide = np.abs(shifted).max(initial=0.0) > MAX_EXPONENT
    return read_only(theta), width, centre, np.empty(0) if is_wide else np.exp(shifted)


@cached_njit(nogil=True)
def _sigmoids(h, theta, width, centre, factors, out):
    """Sigmoids of one score, and their derivatives in x, at all thresholds.

    The rows of `out`. Here ``odds`` is exp(-x): the sigmoid is 1 / (1 + odds).
    """
    n = theta.shape[0]
    if factors.shape[0] == n:
        # exp(-(h - theta)) = exp(-(h - centre)) * exp(theta - centre), in widths.
        x = (h - centre) / width
        x = min(max(x, -2 * MAX_EXPONENT), 2 * MAX_EXPONENT)
        base = math.exp(-x)
        for p in range(n):
            odds = base * factors[p]
            share = 1 / (1 + odds)
            out[0, p] = share
            out[1, p] = odds * share * share
    else:
        for p in range(n):
            x = (h - theta[p]) / width
            odds = math.exp(min(-x, 2 * MAX_EXPONENT))
            share = 1 / (1 + odds)
            out[0, p] = share
            out[1, p] = odds * share * share


@cached_njit(nogil=True, inline="always")
def _part_slopes(x, slope, width):
    """Return the derivatives of both parts by the score, from the sigmoid's by x.

    Of x only the sign counts: it may be in units of the score.
    """
    # Above the threshold the plus part is the tangent 1/2 + x/4, and the minus part
    # what it is above the sigmoid; below it the plus part is the sigmoid itself.
    above = x > 0
    plus = 0.25 / width if above else slope / width
    minus = max(0.25 - slope, 0.0) / width if above else 0.0
    return plus, minus


# Parallel functions contain only the loop, because their bodies compile slowly. Their
# loop variables are unsigned: they are converted, so that the called functions are not
# compiled a second time.
@parallel(lambda n, scores, theta, *_: 5 * scores.size * (1 + theta.size))
def _sums(n_chunks, scores, *arguments):
    """Run `_chunk_sums` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_sums(np.int64(c), scores, *arguments)


@cached_njit(nogil=True)
def _chunk_sums(
    c, scores, theta, width, centre, factors, codes, weights, chunks, partial
):
    """Add both parts and their derivatives over the rows of chunk c to its sums."""
    out = partial[c]
    n = theta.shape[0]
    buffer = np.empty((2, n))
    for i in range(chunks[c], chunks[c + 1]):
        _sigmoids(scores[i], theta, width, centre, factors, buffer)
        weight = 1.0 if weights is None else weights[i]
        # Plus parts from 0 to n, minus parts from n on.
        values = out[codes[i], 0]
        slopes = out[codes[i], 1]
        for p in range(n):
            x, share = (scores[i] - theta[p]) / width, buffer[0, p]
            plus = 0.5 + 0.25 * x if x > 0 else share
            minus = max(0.5 + 0.25 * x - share, 0.0) if x > 0 else 0.0
            values[p] += weight * plus
            values[n + p] += weight * minus
            plus_slope, minus_slope = _part_slopes(x, buffer[1, p], width)
            slopes[p] += weight * plus_slope
            slopes[n + p] += weight * minus_slope


@parallel(lambda n, scores, theta, *_: 3 * scores.size * (1 + theta.size))
def _slopes(n_chunks, scores, *arguments):
    """Run `_chunk_slopes` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_slopes(np.int64(c), scores, *arguments)


@cached_njit(nogil=True)
def _chunk_slopes(c, scores, theta, width, centre, factors, chunks, out):
    """Write the derivatives of both parts at the scores of chunk c."""
    n = theta.shape[0]
    buffer = np.empty((2, n))
    for i in range(chunks[c], chunks[c + 1]):
        _sigmoids(scores[i], theta, width, centre, factors, buffer)
        for p in range(n):
            slopes = _part_slopes(scores[i] - theta[p], buffer[1, p], width)
            out[i, p], out[i, n + p] = slopes


def family_moments(
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    n_sets: int,
    edges: Float64Array,
    centres: Float64Array,
    weights: Float64Array | None = None,
) -> tuple[Float64Array, IntArray]:
    """Return moments of the rows above each edge, and the highest edge below each row.

    Rows of code c are in the set ``sets[f, c]`` of family f, -1 for none. The `edges`
    of a family, (n_families, n_edges), increase, less its centre; a score on an edge is
    not above it. Moments are (n_families, n_sets, n_edges, 3): sums of 1, h and h^2
    over the rows above each edge, h less the centre. The numbers of the highest edges
    are (m, n_families), -1 for none; not set where a row is in no set of the family.
    """
    codes, sets, weights = read_only((codes, sets, weights))
    m, (n_families, n_edges) = scores.shape[0], edges.shape
    chunks = equal_chunks(m, 16)  # each has moments of all sets and edges
    partial = np.zeros((len(chunks) - 1, n_families, n_sets, n_edges, 3))
    bin_index = np.empty((m, n_families), np.int32)
    arguments = codes, sets, edges, centres, weights, chunks, bin_index, partial
    _add_moments(len(partial), scores, *arguments)
    moments = partial.sum(axis=0)
    # These are sums over the rows of each bin. Added from the highest bin down, they
    # become sums over the rows above an edge.
    return np.cumsum(moments[:, :, ::-1], axis=2)[:, :, ::-1], bin_index


def family_slopes(
    scores: Float64Array,
    codes: IntArray,
    sets: IntArray,
    bin_index: IntArray,
    lines: Float64Array,
    centres: Float64Array,
) -> Float64Array:
    """Return for each row the sum over families of the line of its set and bin.

    `lines` are (n_families, n_sets, n_edges, 2): value at the centre of the scores, and
    slope. Below all edges, or in no set, the line is zero. Other arguments are those of
    `family_moments`.
    """
    codes, sets = read_only((codes, sets))
    slopes = np.zeros(scores.shape[0])
    chunks = equal_chunks(scores.shape[0])
    arguments = codes, sets, chunks, bin_index, lines, centres, slopes
    _add_lines(len(chunks) - 1, scores, *arguments)
    return slopes


@parallel(lambda n, scores, codes, sets, *_: 20 * scores.size * sets.shape[0])
def _add_moments(n_chunks, scores, *arguments):
    """Run `_chunk_moments` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _chunk_moments(np.int64(c), scores, *arguments)


@cached_njit(nogil=True)
def _chunk_moments(
    c, scores, codes, sets, edges, centres, weights, chunks, bin_index, partial
):
    """Find the bin of each row of chunk c in each family, and add its moments there."""
    n_families, n_edges = edges.shape
    moments = partial[c]
    for i in range(chunks[c], chunks[c + 1]):
        code = codes[i]
        weight = 1.0 if weights is None else weights[i]
        for f in range(n_families):
            # Set k of family f, or none: the row then counts nowhere in this family.
            k = sets[f, code]
            if k < 0:
                continue
            h = scores[i] - centres[f]
            # The number of edges below, by bisection without a branch. It is at least
            # `low`, and at most `low + size`.
            low, size = 0, n_edges
            while size > 1:
                half = size // 2
                low += half * (edges[f, low + half - 1] < h)
                size -= half
            low += (n_edges > 0) and edges[f, low] < h
            bin_index[i, f] = low - 1
            if low > 0:
                moments[f, k, low - 1, 0] += weight
                moments[f, k, low - 1, 1] += weight * h
                moments[f, k, low - 1, 2] += weight * h * h


@parallel(lambda n, scores, codes, sets, *_: 5 * scores.size * sets.shape[0])
def _add_lines(
    n_chunks, scores, codes, sets, chunks, bin_index, lines, centres, slopes
):
    """Add to each row's slope the value of its line, family after family."""
    for c in numba.prange(n_chunks):
        for i in range(chunks[c], chunks[c + 1]):
            for f in range(sets.shape[0]):
                k = sets[f, codes[i]]
                edge = bin_index[i, f]
                if k >= 0 and edge >= 0:
                    h = scores[i] - centres[f]
                    slopes[i] += lines[f, k, edge, 0] + lines[f, k, edge, 1] * h
