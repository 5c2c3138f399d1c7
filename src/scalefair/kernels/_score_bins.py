"""Scores of rows, a loss of them, and sums of the rows above edges, in one pass.

A row ``x`` with code ``k`` has the score ``h = x @ B[k, :-1] + B[k, -1]``.
Increasing edges cut the scores into bins, and for every code and bin the kernels
add up 1, h, h^2, the rows and, if asked, the rows times h. Added from the top, they
are sums over the rows above each edge. A function of the score that is zero below
all edges and piecewise linear or quadratic between them has its mean over each
code, and the gradient of that mean, in these sums: any number of such functions
cost one pass. All sums are weighted if rows have weights; without them the compiled
code is that of rows that all count once.

Rows are a table of three arrays, see `row_table`. They are cut into chunks by the
sizes alone and the sums of the chunks are added in their order, so that a result is
the same to the last bit whatever the number of threads.

In shapes there are m rows, n features, n_codes codes and n_bins edges: each edge is the
lower end of a bin. Arrays named `slopes` hold derivatives of a loss in the scores.
"""

from __future__ import annotations

import inspect
import math

import numba
import numpy as np
from numba.extending import overload

from scalefair._threads import cached_njit, parallel
from scalefair.kernels._arrays import (
    Float64Array,
    IntArray,
    RowTable,
    read_only,
    row_chunks,
)

# Losses of a score against a label of -1 or 1.
LOGISTIC, HINGE, SQUARED = 0, 1, 2

# Rows of a block, which stays in the cache from the scores to the sums.
BLOCK_ROWS = 128
# Sums of products may be reordered, and NaN and infinity still count.
_FAST = {"contract", "reassoc", "nsz"}

# Gradients, moments and sums, added up over all chunks.
_Sums = tuple[Float64Array, Float64Array, Float64Array]


def row_scores(table: RowTable, codes: IntArray, B: Float64Array) -> Float64Array:
    """Return the scores of all rows, (m,); arguments as of `score_pass`."""
    table, codes = read_only((table, codes))
    scores = np.empty(codes.shape[0])
    chunks = row_chunks(table, codes.shape[0], 1)
    _scores(len(chunks) - 1, table, codes, B, chunks, scores)
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
    weights: Float64Array | None = None,
) -> tuple[float, Float64Array, Float64Array, Float64Array]:
    """Return the loss of all rows, its gradients, and sums of rows above edges.

    Row i has the coefficients ``B[codes[i]]``, (n + 1,), the intercept last. Codes are
    not checked, `signs` are -1 or 1, `kind` is LOGISTIC, HINGE or SQUARED.
    `edges` increase, less `centre`, which is subtracted from scores before they are
    counted; a score on an edge is not above it. `weights` of the rows multiply all that
    is summed; None counts each row once.

    Returns
    -------
    loss : float
        Sum over all rows.
    gradient : ndarray of shape (n_codes, n + 1)
        Sums of the derivative of the loss times (row, 1), for each code.
    moments : ndarray of shape (n_codes, n_bins, 3)
        Sums of 1, h and h^2 over the rows above each edge.
    sums : ndarray of shape (n_codes, n_bins, n_powers, n + 1)
        Sums of (row, 1) and, of two powers, of h times (row, 1), likewise.
    """
    # One pass over the rows: score, loss and derivative, sums of its bin. A row x costs
    # 2 flops an entry for the score, and as many for each sum that it is added to.
    table, codes, signs, weights = read_only((table, codes, signs, weights))
    chunks, sums = _workspace(table, codes, B.shape, edges, n_powers)
    losses = np.empty(len(chunks) - 1)
    arguments = codes, signs, weights, kind, B, edges, centre, chunks, losses
    _score_and_add(len(losses), table, sums, *arguments)
    return float(losses.sum()), *_accumulate(*sums)


def bin_pass(
    table: RowTable,
    codes: IntArray,
    scores: Float64Array,
    slopes: Float64Array,
    shape: tuple[int, int],
    edges: Float64Array,
    centre: float,
    n_powers: int,
    weights: Float64Array | None = None,
) -> _Sums:
    """Return the gradient, moments and sums of `score_pass` for given scores.

    `slopes` are derivatives of a weighted loss in the scores; `shape` is
    ``(n_codes, n + 1)``. As for losses of pairs of rows, which need all scores before
    any derivative.
    """
    table, codes, weights = read_only((table, codes, weights))
    chunks, sums = _workspace(table, codes, shape, edges, n_powers)
    arguments = codes, scores, slopes, weights, edges, centre, chunks
    _add(len(chunks) - 1, table, sums, *arguments)
    return _accumulate(*sums)


def score_losses(
    scores: Float64Array,
    signs: Float64Array,
    kind: int,
    weights: Float64Array | None = None,
) -> tuple[float, Float64Array]:
    """Return the weighted sum of the losses of scores, and their derivatives (m,)."""
    signs, weights = read_only((signs, weights))
    # One number for each block of rows, added in order.
    slopes = np.empty_like(scores)
    losses = np.empty(-(-scores.shape[0] // BLOCK_ROWS))
    _losses(len(losses), kind, signs, weights, scores, losses, slopes)
    return float(losses.sum()), slopes


def weighted_row_sums(
    table: RowTable, codes: IntArray, weights: Float64Array, shape: tuple[int, int]
) -> Float64Array:
    """Return the sums of (row, 1) times each column of weights, for each code.

    `table` and `codes` as in `score_pass`; `weights` are (m, q) and `shape` is
    ``(n_codes, n + 1)``. The sums are of shape (n_codes, n + 1, q).
    """
    table, codes, n_weights = *read_only((table, codes)), weights.shape[1]
    # Partial sums are (n_chunks, n_codes, n + 1, q).
    chunks = row_chunks(table, codes.shape[0], math.prod(shape) * n_weights)
    partial = np.zeros((chunks.shape[0] - 1, *shape, n_weights))
    _add_weighted(table, codes, weights, chunks, partial)
    return partial.sum(axis=0)


def _workspace(table, codes, shape, edges, n_powers):
    """Chunks and, for each of them, arrays of the gradient, moments and sums."""
    (n_codes, n_columns), n_bins = shape, edges.shape[0]
    # Numbers that each chunk clears and adds: few chunks where there are many of them.
    n_partial = n_codes * n_columns * (n_bins * n_powers + 1)
    chunks = row_chunks(table, codes.shape[0], n_partial)
    n_chunks = chunks.shape[0] - 1
    # Zeros from here: in kernels, assignments to slices are compiled slowly.
    gradients = np.zeros((n_chunks, n_codes, n_columns))
    # The last axis of moments: 1, h and h^2; the last two of sums: power of h, feature.
    # Without edges there are no bins, and the pass forms the gradient alone.
    moments = np.zeros((n_chunks, n_codes, n_bins, 3))
    sums = np.zeros((n_chunks, n_codes, n_bins, n_powers, n_columns))
    return chunks, (gradients, moments, sums)


def _accumulate(gradients, moments, sums):
    """Return the sums of all chunks, in their order, each bin added to those below."""
    gradient, moment, total = (
        parts.sum(axis=0) for parts in (gradients, moments, sums)
    )
    # A bin holds the rows between its edge and the next; above an edge are all bins
    # from its own upwards.
    n_codes, n_bins, n_powers, n_columns = total.shape
    _add_from_top(moment)
    _add_from_top(total.reshape(n_codes, n_bins, n_powers * n_columns))
    return gradient, moment, total


@cached_njit(nogil=True)
def _add_from_top(values):
    """Add each bin to those below; values are (n_codes, n_bins, any number).

    In place: sums of bins become sums above their lower edges.
    """
    for k in range(values.shape[0]):
        for e in range(values.shape[1] - 2, -1, -1):
            for j in range(values.shape[2]):
                values[k, e, j] += values[k, e + 1, j]


def _dense_score(indptr, indices, data, i, beta):
    """Return ``x_i @ beta[:-1] + beta[-1]``, the intercept at the end."""
    n = data.shape[1]
    h = beta[n]
    for j in range(n):
        h += data[i, j] * beta[j]
    return h


def _csr_score(indptr, indices, data, i, beta):
    """Return ``x_i @ beta[:-1] + beta[-1]`` for a CSR row."""
    # Four sums, so that no addition waits for the one before.
    h = beta[beta.shape[0] - 1]
    h1, h2, h3 = 0.0, 0.0, 0.0
    p, stop = indptr[i], indptr[i + 1]
    while p + 4 <= stop:
        h += data[p] * beta[indices[p]]
        h1 += data[p + 1] * beta[indices[p + 1]]
        h2 += data[p + 2] * beta[indices[p + 2]]
        h3 += data[p + 3] * beta[indices[p + 3]]
        p += 4
    while p < stop:
        h += data[p] * beta[indices[p]]
        p += 1
    return (h + h1) + (h2 + h3)


def _dense_add(indptr, indices, data, i, weight, out):
    """Add ``weight * (x_i, 1)`` to `out` (n + 1,)."""
    n = data.shape[1]
    for j in range(n):
        out[j] += weight * data[i, j]
    out[n] += weight


def _dense_add_weights(indptr, indices, data, i, weights, out):
    """Add the outer product of ``(x_i, 1)`` and `weights` (q,) to `out` (n + 1, q)."""
    n = data.shape[1]
    for j in range(n):
        for q in range(weights.shape[0]):
            out[j, q] += weights[q] * data[i, j]
    for q in range(weights.shape[0]):
        out[n, q] += weights[q]


def _csr_add(indptr, indices, data, i, weight, out):
    """Add ``weight * (x_i, 1)`` to `out` (n + 1,): its stored entries, and the 1."""
    for p in range(indptr[i], indptr[i + 1]):
        out[indices[p]] += weight * data[p]
    out[out.shape[0] - 1] += weight


def _csr_add_weights(indptr, indices, data, i, weights, out):
    """Add the outer product of ``(x_i, 1)`` and `weights` (q,) to `out` (n + 1, q)."""
    for p in range(indptr[i], indptr[i + 1]):
        x, row = data[p], out[indices[p]]
        for q in range(weights.shape[0]):
            row[q] += weights[q] * x
    for q in range(weights.shape[0]):
        out[out.shape[0] - 1, q] += weights[q]


def _of_kind(dense, csr):
    """Return a function that Numba replaces by one of two, for dense or for CSR rows.

    The first three arguments are a table. The functions are inlined, because a call
    would take as long as a row. So one kernel serves both kinds of rows, without a test
    in its loop.
    """

    def function(*arguments):
        raise NotImplementedError

    def choose(*types):
        return dense if types[2].ndim == 2 else csr

    # The types of a call decide: `data` of a table has two dimensions for dense rows.
    # Numba compares the signature with those of the two functions.
    choose.__signature__ = inspect.signature(dense)
    overload(function, inline="always")(choose)
    return function


_row_score = _of_kind(_dense_score, _csr_score)
_add_row = _of_kind(_dense_add, _csr_add)
_add_row_weights = _of_kind(_dense_add_weights, _csr_add_weights)


@cached_njit(nogil=True, fastmath=_FAST)
def _block_scores(table, codes, B, start, stop, scores):
    """Write the scores of rows `start` to `stop`, with coefficients by code.

    `scores` are those of the block: the first one is that of row `start`.
    """
    # Unpacked once, not for each row: unpacking a tuple counts references.
    indptr, indices, data = table
    for i in range(start, stop):
        scores[i - start] = _row_score(indptr, indices, data, i, B[codes[i]])


@cached_njit(nogil=True)
def _block_losses(kind, signs, weights, scores, start, stop, slopes):
    """Sum of the weighted losses of a block of rows; writes weighted derivatives.

    `scores` and `slopes` are those of the block, signs and weights those of all rows.
    """
    # log(1 + e^-margin) = max(-margin, 0) + log(1 + t), t <= 1: no overflow. Without
    # weights all rows share one logarithm: each factor 1 + t is at most 2, and the
    # product of a block of 128 rows at most 2^128.
    total, product = 0.0, 1.0
    for q in range(stop - start):
        sign = signs[start + q]
        weight = 1.0 if weights is None else weights[start + q]
        margin = sign * scores[q]
        if kind == LOGISTIC:
            t = math.exp(-abs(margin))
            loss = max(-margin, 0.0)
            if weights is None:
                product *= 1 + t
            else:
                loss += math.log1p(t)
            slope = -sign * (t if margin > 0 else 1.0) / (1 + t)
        elif kind == HINGE:
            loss = max(1 - margin, 0.0)
            slope = -sign if margin < 1 else 0.0
        else:
            slope = scores[q] - sign
            loss = 0.5 * slope**2
        total += weight * loss
        slopes[q] = weight * slope
    return total + math.log(product)


@cached_njit(nogil=True)
def _add_block(table, codes, scores, slopes, weights, start, stop, edges, centre, out):
    """Add a block of rows to the sums of its chunk."""
    # `scores` and `slopes` are those of the block; other columns are of all rows.
    indptr, indices, data = table
    gradient, moments, sums = out
    for q in range(stop - start):
        i = start + q
        code = codes[i]
        h = scores[q] - centre
        # e is the highest edge below h, -1 if there is none: the number of edges below,
        # less one, without a branch.
        e = -1
        for r in range(edges.shape[0]):
            e += h > edges[r]
        # The gradient takes every row, the sums of a bin take those in it.
        _add_row(indptr, indices, data, i, slopes[q], gradient[code])
        if e < 0:
            continue
        weight = 1.0 if weights is None else weights[i]
        # 1, h and h^2; then (x, 1) and, of two powers, h (x, 1).
        moments[code, e, 0] += weight
        moments[code, e, 1] += weight * h
        moments[code, e, 2] += weight * h * h
        _add_row(indptr, indices, data, i, weight, sums[code, e, 0])
        if sums.shape[2] == 2:
            _add_row(indptr, indices, data, i, weight * h, sums[code, e, 1])


# Parallel functions contain only the loop, because their bodies compile slowly, once
# for each type of rows. Their loop variables are unsigned: they are converted, so that
# the called functions are not compiled a second time.
@parallel(lambda n, table, codes, *_: codes.size + table[2].size)
def _scores(n_chunks, table, codes, B, chunks, scores):
    """Run `_block_scores` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        start, stop = chunks[c], chunks[c + 1]
        _block_scores(table, codes, B, start, stop, scores[start:stop])


@parallel(lambda n, kind, signs, *_: 10 * signs.size)
def _losses(n_blocks, kind, signs, weights, scores, losses, slopes):
    """Losses of blocks of given scores; `losses` has one number for each block."""
    for c in numba.prange(n_blocks):
        start = c * BLOCK_ROWS
        stop = min(start + BLOCK_ROWS, scores.shape[0])
        h, d = scores[start:stop], slopes[start:stop]
        losses[c] = _block_losses(kind, signs, weights, h, start, stop, d)


@parallel(lambda n, table, sums, codes, *_: 15 * codes.size + 3 * table[2].size)
def _score_and_add(n_chunks, table, sums, *arguments):
    """Run `_score_chunk` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _score_chunk(np.int64(c), table, sums, *arguments)


@cached_njit(nogil=True)
def _score_chunk(
    c, table, sums, codes, signs, weights, kind, B, edges, centre, chunks, losses
):
    """Scores, losses and sums of chunk c, a block of rows at a time."""
    # Each chunk has sums of its own. A block goes through three steps in the cache:
    # scores, losses with their derivatives, and sums.
    out = sums[0][c], sums[1][c], sums[2][c]
    scores, slopes = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS)
    losses[c] = 0.0
    for start in range(chunks[c], chunks[c + 1], BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, chunks[c + 1])
        _block_scores(table, codes, B, start, stop, scores)
        losses[c] += _block_losses(kind, signs, weights, scores, start, stop, slopes)
        block = codes, scores, slopes, weights, start, stop
        _add_block(table, *block, edges, centre, out)


@parallel(lambda n, table, sums, codes, *_: 5 * codes.size + 2 * table[2].size)
def _add(n_chunks, table, sums, *arguments):
    """Run `_add_chunk` on all chunks, which the threads share."""
    for c in numba.prange(n_chunks):
        _add_chunk(np.int64(c), table, sums, *arguments)


@cached_njit(nogil=True)
def _add_chunk(c, table, sums, codes, scores, slopes, weights, edges, centre, chunks):
    """Add the rows of chunk c to its sums, for given scores and slopes."""
    # Gradient, moments and sums of this chunk alone: no other thread writes there.
    start, stop = chunks[c], chunks[c + 1]
    h, d = scores[start:stop], slopes[start:stop]
    out = sums[0][c], sums[1][c], sums[2][c]
    _add_block(table, codes, h, d, weights, start, stop, edges, centre, out)


@parallel(lambda table, codes, weights, *_: 0.5 * table[2].size * weights.shape[1])
def _add_weighted(table, codes, weights, chunks, partial):
    """Run `_add_weighted_rows` on all chunks, which the threads share."""
    for c in numba.prange(partial.shape[0]):
        start, stop = chunks[c], chunks[c + 1]
        _add_weighted_rows(table, codes, weights, start, stop, partial[c])


@cached_njit(nogil=True)
def _add_weighted_rows(table, codes, weights, start, stop, sums):
    """Add (row, 1) times the weights of each row to the sums of its code."""
    # sums[k] += (x_i, 1) w_i^T for a row i of code k.
    indptr, indices, data = table
    for i in range(start, stop):
        _add_row_weights(indptr, indices, data, i, weights[i], sums[codes[i]])
