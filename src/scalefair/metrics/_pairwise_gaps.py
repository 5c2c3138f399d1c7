"""Pairwise fairness: how often a member of one group outranks one of another."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._groups import check_group_weights, samples_by_label
from scalefair.metrics._partial_parity import check_group_rows
from scalefair.metrics._score_gaps import TEXTS, check_scores, compared_members

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups
Mask = NDArray[np.bool_]

_TEXTS = {
    **TEXTS,
    "positive_and_negative": """\
With :math:`h_{k+}` and :math:`h_{k-}` the scores of a positive and a negative sample
drawn at random from group :math:`k`, and ties counting one half, the gap is""",
    "references": """\
References
----------
.. [1] A. Beutel et al., "Fairness in recommendation ranking through pairwise
   comparisons", KDD 2019.
.. [2] N. Kallus, A. Zhou, "The fairness of risk scores beyond classification: bipartite
   ranking and the xAUC metric", NeurIPS 2019.
.. [3] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
   approach based on difference-of-convex constraints", baselines D.2 and D.3.""",
    "of_labels": f"""\
{TEXTS["y_true"]}
y_score : array-like of shape (n_samples,)
    Score of each sample, high for a positive label; else as in `group_auc_gap`.
sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
    Group of each sample: integers, strings or booleans, without missing values; of k
    columns each combination that occurs. Two groups or more, each with positive and
    negative samples.
{TEXTS["weights"]}
{TEXTS["attributes"]}

Returns
-------
gap : float
    Between 0 (fair) and 1.

Raises
------
ValueError
    If the lengths differ, a value is missing, there are not two labels, fewer than
    two groups occur, a weight is negative, or a group lacks positive or negative
    samples, or weight of them.""",
}


@documented(**_TEXTS)
@checked_call
def group_auc_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest distance from one half of the chance that one group outranks another.

    With :math:`h, h'` the scores of members drawn at random from groups :math:`k` and
    :math:`k'`, the gap is

    .. math::
        \max_{k \ne k'} \left| \Pr(h > h') + \tfrac12 \Pr(h = h') - \tfrac12 \right|
        \in [0, \tfrac12].

    Parameters
    ----------
    %(y_score)s
    %(sensitive_features)s
    %(weights)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 and 0.5 (all of one group are above all of another).

    %(raises)s

    Notes
    -----
    The value is exact, from ranks: a sort and :math:`O(n)` operations per group, never
    the pairs.

    References
    ----------
    .. [1] R. Vogel, A. Bellet, S. Clémençon, "Learning fair scoring functions:
       bipartite ranking under ROC-based fairness constraints", AISTATS 2021.
    .. [2] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", baseline D.1.

    Examples
    --------
    >>> from scalefair.metrics import group_auc_gap
    >>> group_auc_gap([3, 1, 2, 0], sensitive_features=["a", "a", "b", "b"])
    0.25
    """
    scores = check_scores(y_score)
    all_rows = np.ones(scores.shape[0], dtype=bool)
    members = compared_members(
        sensitive_features, None, scores.shape[0], sample_weight, attributes
    )
    gaps = []
    for _, _, codes in members.compared:
        # Within a group, on the diagonal, the chance is one half: no distance.
        chances = _outranking(scores, codes, all_rows, all_rows, members.weights)
        gaps.append(float(np.abs(chances - 0.5).max()))
    return max(gaps)


@documented(**_TEXTS)
@checked_call
def inter_group_pairwise_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference of the chances to be ranked rightly across two groups.

    %(positive_and_negative)s

    .. math::
        \max_{k, k'} \left| \Pr(h_{k+} > h_{k'-}) - \Pr(h_{k'+} > h_{k-}) \right|
        \in [0, 1].

    Parameters
    ----------
    %(of_labels)s

    See Also
    --------
    intra_group_pairwise_gap, group_auc_gap

    %(references)s

    Examples
    --------
    >>> from scalefair.metrics import inter_group_pairwise_gap
    >>> inter_group_pairwise_gap(
    ...     [1, 0, 1, 0], [3, 2, 1, 0], sensitive_features=["a", "a", "b", "b"]
    ... )
    1.0
    """
    chances = _positive_outranks_negative(
        y_true, y_score, sensitive_features, sample_weight, attributes
    )
    return max(float(np.abs(pairs - pairs.T).max()) for pairs in chances)


@documented(**_TEXTS)
@checked_call
def intra_group_pairwise_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference between the groups' areas under the ROC curve.

    %(positive_and_negative)s

    .. math::
        \max_{k, k'} \left| \Pr(h_{k+} > h_{k-}) - \Pr(h_{k'+} > h_{k'-}) \right|
        \in [0, 1].

    Parameters
    ----------
    %(of_labels)s

    See Also
    --------
    inter_group_pairwise_gap : Pairs across two groups.
    sklearn.metrics.roc_auc_score : The area of one group.

    %(references)s

    Examples
    --------
    >>> from scalefair.metrics import intra_group_pairwise_gap
    >>> intra_group_pairwise_gap(
    ...     [1, 0, 1, 0], [3, 2, 1, 1], sensitive_features=["a", "a", "b", "b"]
    ... )
    0.5
    """
    chances = _positive_outranks_negative(
        y_true, y_score, sensitive_features, sample_weight, attributes
    )
    # The area under the ROC curve of a group is the chance within the group.
    return max(float(np.ptp(np.diag(pairs))) for pairs in chances)


def _positive_outranks_negative(
    y_true: ArrayLike,
    y_score: ArrayLike,
    sensitive_features: ArrayLike,
    sample_weight: ArrayLike | None,
    attributes: str,
) -> Iterator[Array]:
    """Yield for each attribute a matrix with Pr(h_k+ > h_j-) in row k, column j."""
    scores = check_scores(y_score)
    members = compared_members(
        sensitive_features, None, scores.shape[0], sample_weight, attributes
    )
    weights = members.weights
    rows_by_kind = samples_by_label(y_true, scores.shape[0], "label")
    for _, groups, codes in members.compared:
        for kind, rows in rows_by_kind.items():
            check_group_rows(groups, codes[rows], kind)
            row_weights = None if weights is None else weights[rows]
            check_group_weights(row_weights, groups, codes[rows], kind)
        positive, negative = rows_by_kind["positive"], rows_by_kind["negative"]
        yield _outranking(scores, codes, positive, negative, weights)


def _outranking(
    scores: Array, codes: Codes, upper: Mask, lower: Mask, weights: Array | None
) -> Array:
    """Return the chance that a row of `upper` outranks one of `lower`, by groups.

    Entry (k, j) is that of a row of `upper` in group k and one of `lower` in group j.
    A tie counts one half.
    """
    if weights is not None:  # in units of the group's: no product is out of range
        weights = weights / np.bincount(codes, weights)[codes]
    _, ranks = np.unique(scores, return_inverse=True)  # 0 is the lowest score
    n_ranks, n_groups = int(ranks.max()) + 1, int(codes.max()) + 1
    upper_codes, upper_ranks = codes[upper], ranks[upper]
    upper_weights = None if weights is None else weights[upper]
    n_upper = np.bincount(upper_codes, upper_weights, minlength=n_groups)
    chances = np.empty((n_groups, n_groups))
    for group in range(n_groups):
        # 1. Rows of `lower` in the group at each rank: their number, or their weights.
        rows = lower & (codes == group)
        row_weights = None if weights is None else weights[rows]
        counts = np.bincount(ranks[rows], row_weights, minlength=n_ranks)
        # 2. Of these a row of `upper` outranks all of lower rank, and half of its rank.
        # Twice the numbers: without weights they are integers, and sums of them are
        # exact up to 2**53.
        doubled = 2 * np.cumsum(counts) - counts
        outranked: NDArray[Any] = doubled[upper_ranks]
        if upper_weights is not None:
            outranked = outranked * upper_weights
        wins = np.bincount(upper_codes, outranked, minlength=n_groups)
        chances[:, group] = wins / (2 * counts.sum() * n_upper)
    return chances
