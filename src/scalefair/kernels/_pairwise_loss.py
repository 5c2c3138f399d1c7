"""Pairwise hinge loss of positives against the highest negatives, by sorting.

The pairs are never formed: a positive row meets the negatives above its score less
the margin, which are the first so many of the sorted ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scalefair.kernels._arrays import Float64Array, IntArray


def top_pairwise_hinge(
    scores: Float64Array,
    positives: IntArray,
    negatives: IntArray,
    n_tops: Iterable[int],
) -> list[tuple[float, Float64Array]]:
    """Return sums of the hinge loss over pairs with the highest negatives.

    For each r of `n_tops`: the sum of ``max(0, 1 - h_i + h_j)`` over all positives i
    and the r negatives j of highest score. It is the largest over all choices of r
    negatives, so that it is convex in the scores. One sort serves all r.

    Parameters
    ----------
    scores : ndarray of shape (m,), float64
    positives, negatives : ndarray of int
        Their rows, disjoint.
    n_tops : iterable of int
        Numbers of negatives, from 0 to ``len(negatives)``.

    Returns
    -------
    list of (float, ndarray of shape (m,))
        For each number the sum and a subgradient in the scores. Equal negatives at
        the end of the highest are chosen in any order, and a pair at the kink of
        the loss counts as without loss.
    """
    # The loss does not change with the origin of the scores, its rounding does.
    origin = scores[negatives].mean()
    below = origin - scores[negatives]
    order = np.argsort(below)
    below = below[order]
    short = scores[positives] - origin - 1
    # Negatives within the margin of each positive or above it.
    n_within = np.searchsorted(below, -short, side="left")
    totals = np.concatenate([[0.0], np.cumsum(below)])
    results = []
    for n_top in n_tops:
        counts = np.minimum(n_within, n_top)
        loss = -float(counts @ short + totals[counts].sum())
        slopes = np.zeros_like(scores)
        slopes[positives] = -counts
        # The negative of rank j meets the positives that count more than j.
        met = np.bincount(counts, minlength=n_top + 1)[::-1].cumsum()[::-1]
        slopes[negatives[order[:n_top]]] = met[1 : n_top + 1]
        results.append((loss, slopes))
    return results
