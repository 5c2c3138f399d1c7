"""Partial parity: how alike groups are ranked within an interval of ranks."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from scalefair._docs import documented
from scalefair._groups import check_interval, check_values, encode_values
from scalefair._messages import listed
from scalefair.metrics._score_gaps import (
    TEXTS,
    check_scores,
    encode_compared,
    largest_gap,
    share_above,
)

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups

PARITY_TEXTS = {
    **TEXTS,
    "sample_weight": """\
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the samples in the shares, not negative; None weighs all alike. Samples
    of weight 0 do not count.""",
    "interval": """\
interval : tuple of two floats, default=(0.0, 1.0)
    The ranks :math:`0 \\le \\alpha < \\beta \\le 1` to compare, 0 the top of a group:
    (0.05, 0.30) compares the members between the upper 5 % and 30 % of their group.""",
    "raises_weights": """\
Raises
------
ValueError
    If the lengths differ, a value is missing, fewer than two groups occur, a weight is
    negative, a group has no weight, or another argument is not of its kind.""",
    "one_threshold": """\
threshold : float or None, default=None
    The only threshold, if the gap is to be that of the decisions above it; None takes
    the largest gap of all thresholds.""",
    "raises_labels": """\
Raises
------
ValueError
    If the lengths differ, a value is missing, fewer than two groups occur, there are
    not two labels, a group has no samples, or no weight, of a label that is compared,
    or another argument is not of its kind.""",
}

# Kinds of samples that are compared, each by itself, for values of `given`.
_KINDS = {"positive": ("positive",), "label": ("negative", "positive")}


@documented(**PARITY_TEXTS)
def partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference of positive rates among equally ranked parts of the groups.

    Let :math:`P_k(\theta)` be the share of group :math:`k` with a score above
    :math:`\theta`. Of the members of group :math:`k` with a rank in :math:`[\alpha,
    \beta)`, the share above :math:`\theta` is

    .. math::
        A_k(\theta) = \frac{\min(P_k(\theta), \beta) - \min(P_k(\theta), \alpha)}
        {\beta - \alpha},

    and the gap is the largest difference over groups and thresholds,

    .. math:: \max_{k, k'} \max_\theta |A_k(\theta) - A_{k'}(\theta)| \in [0, 1].

    With the interval (0, 1) it is `statistical_parity_ks`.

    Parameters
    ----------
    %(y_score)s
    %(sensitive_features)s
    %(interval)s
    %(sample_weight)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 (these parts of the groups have the same distribution of scores)
        and 1. One minus the gap is called the fairness.

    %(raises_weights)s

    Notes
    -----
    %(ranks)s
    Equal scores fall together: no threshold divides them.

    References
    ----------
    .. [1] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", definition 4.2.

    Examples
    --------
    >>> from scalefair.metrics import partial_demographic_parity_gap
    >>> scores, groups = [4, 3, 2, 1, 4, 3, 0, 0], ["a"] * 4 + ["b"] * 4
    >>> partial_demographic_parity_gap(scores, sensitive_features=groups)
    0.5
    >>> partial_demographic_parity_gap(
    ...     scores, sensitive_features=groups, interval=(0.0, 0.5)
    ... )
    0.0
    """
    return partial_parity_gap(
        y_score,
        sensitive_features=sensitive_features,
        interval=interval,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**PARITY_TEXTS)
def weak_partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float = 0.0,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Difference of positive rates among equally ranked parts, at one threshold.

    With the shares :math:`A_k` of `partial_demographic_parity_gap`, the gap at the
    threshold :math:`\hat\theta` of the decision is

    .. math:: \max_{k, k'} |A_k(\hat\theta) - A_{k'}(\hat\theta)| \in [0, 1].

    With the interval (0, 1) it is the usual demographic parity difference of the
    decisions ``y_score > threshold``.

    Parameters
    ----------
    %(y_score)s
    %(sensitive_features)s
    %(interval)s
    threshold : float, default=0.0
        The decision is favourable for scores strictly above it, in the unit of the
        scores: 0 for a decision function, 0.5 for probabilities.
    %(sample_weight)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 (fair) and 1, at most `partial_demographic_parity_gap`.

    %(raises_weights)s

    References
    ----------
    .. [1] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", definition 4.3.

    Examples
    --------
    >>> from scalefair.metrics import weak_partial_demographic_parity_gap
    >>> scores, groups = [4, 3, 2, 1, 4, 3, 0, 0], ["a"] * 4 + ["b"] * 4
    >>> weak_partial_demographic_parity_gap(
    ...     scores, sensitive_features=groups, threshold=1.5
    ... )
    0.25
    """
    if threshold is None:
        raise ValueError("threshold must be a number, got None.")
    return partial_parity_gap(
        y_score,
        sensitive_features=sensitive_features,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**PARITY_TEXTS)
def partial_equal_opportunity_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference of true positive rates among equally ranked positives.

    With :math:`P_{k+}(\theta)` the share of the positive samples of group :math:`k`
    that score above :math:`\theta`, and :math:`A_{k+}` made of it as in
    `partial_demographic_parity_gap`, the gap is

    .. math:: \max_{k, k'} \max_\theta |A_{k+}(\theta) - A_{k'+}(\theta)| \in [0, 1].

    Ranks are those among the positive samples of a group. With the interval (0, 1) it
    is the largest difference of true positive rates at any threshold.

    Parameters
    ----------
    %(y_true)s
    %(y_score)s
    %(sensitive_features)s
    %(interval)s
    %(one_threshold)s
    %(sample_weight)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 (fair) and 1.

    %(raises_labels)s

    See Also
    --------
    partial_equalized_odds_gap : The same of the negative samples as well.

    References
    ----------
    .. [1] M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised
       learning", NeurIPS 2016: the interval (0, 1) and one threshold.

    Examples
    --------
    >>> from scalefair.metrics import partial_equal_opportunity_gap
    >>> labels, scores = [1, 1, 0, 0, 1, 1, 0, 0], [4, 3, 2, 1, 4, 2, 3, 0]
    >>> groups = ["a"] * 4 + ["b"] * 4
    >>> partial_equal_opportunity_gap(labels, scores, sensitive_features=groups)
    0.5
    >>> partial_equal_opportunity_gap(
    ...     labels, scores, sensitive_features=groups, interval=(0.0, 0.5)
    ... )
    0.0
    """
    return partial_parity_gap(
        y_score,
        y_true=y_true,
        given="positive",
        sensitive_features=sensitive_features,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**PARITY_TEXTS)
def partial_equalized_odds_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference of rates among equally ranked samples of the same label.

    The larger one of `partial_equal_opportunity_gap` and of the same gap of the
    negative samples, whose ranks are those among the negatives of their group. With
    the interval (0, 1) it is the largest difference of true, or of false, positive
    rates at any threshold.

    Parameters
    ----------
    %(y_true)s
    %(y_score)s
    %(sensitive_features)s
    %(interval)s
    %(one_threshold)s
    %(sample_weight)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 (fair) and 1.

    %(raises_labels)s

    See Also
    --------
    partial_equal_opportunity_gap : Of the positive samples alone.

    References
    ----------
    .. [1] M. Hardt, E. Price, N. Srebro, "Equality of opportunity in supervised
       learning", NeurIPS 2016: the interval (0, 1) and one threshold.

    Examples
    --------
    >>> from scalefair.metrics import partial_equalized_odds_gap
    >>> labels, scores = [1, 1, 0, 0, 1, 1, 0, 0], [4, 3, 2, 1, 4, 3, 0, 0]
    >>> partial_equalized_odds_gap(
    ...     labels, scores, sensitive_features=["a"] * 4 + ["b"] * 4
    ... )
    1.0
    """
    return partial_parity_gap(
        y_score,
        y_true=y_true,
        given="label",
        sensitive_features=sensitive_features,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**PARITY_TEXTS)
def partial_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    y_true: ArrayLike | None = None,
    given: str | None = None,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    """Largest difference of positive rates among equally ranked parts of the groups.

    The gap that `PartiallyFairClassifier` bounds, with the names of its parameters.

    Parameters
    ----------
    %(y_score)s
    %(sensitive_features)s
    y_true : array-like of shape (n_samples,), default=None
        Label of each sample, of two values, the larger one positive; only, but then
        needed, with `given`.
    given : {"positive", "label"} or None, default=None
        Which samples are compared: None all (`partial_demographic_parity_gap`),
        ``"positive"`` the positive ones (`partial_equal_opportunity_gap`), ``"label"``
        those of the same label (`partial_equalized_odds_gap`).
    %(interval)s
    %(one_threshold)s
    %(sample_weight)s
    %(attributes)s

    Returns
    -------
    gap : float
        Between 0 (fair) and 1.

    %(raises_labels)s

    Examples
    --------
    >>> from scalefair.metrics import partial_parity_gap
    >>> labels, scores = [1, 1, 0, 0, 1, 1, 0, 0], [4, 3, 2, 1, 4, 3, 0, 0]
    >>> rows = {"y_true": labels, "sensitive_features": ["a"] * 4 + ["b"] * 4}
    >>> for given in (None, "positive", "label"):
    ...     print(given, partial_parity_gap(scores, **rows, given=given))
    None 0.5
    positive 0.0
    label 1.0
    """
    scores = check_scores(y_score)
    attribute_list = encode_compared(sensitive_features, scores.shape[0], attributes)
    weights = sample_weight
    if weights is not None:
        weights = _check_sample_weight(
            weights, scores, dtype=np.float64, ensure_non_negative=True
        )
    alpha, beta = check_interval(interval)
    if threshold is not None and (
        not isinstance(threshold, Real) or math.isnan(threshold)
    ):
        raise ValueError(f"threshold must be a number, got {threshold!r}.")
    if given is not None:
        if given not in _KINDS:
            raise ValueError(
                f'given must be None, "positive" or "label", got {given!r}.'
            )
        if y_true is None:
            raise ValueError(
                f"given={given!r} compares samples by their labels: pass them as "
                "y_true."
            )
    gaps = []
    for _, groups, codes in attribute_list:
        rows_by_kind: dict[str, Any] = {"": slice(None)}
        if given is not None and y_true is not None:
            rows_by_kind = samples_by_label(y_true, groups, codes, _KINDS[given])
        for kind, rows in rows_by_kind.items():
            row_scores, row_codes = scores[rows], codes[rows]
            row_weights = None if weights is None else weights[rows]
            _check_weight_of_groups(row_weights, groups, row_codes, kind)
            if threshold is None:
                gap = largest_gap(-row_scores, row_codes, alpha, beta, row_weights)
            else:
                rates = _rates_above(row_scores, row_codes, threshold, row_weights)
                gap = float(np.ptp(share_above(rates, alpha, beta)))
            gaps.append(gap)
    return max(gaps)


def _rates_above(
    scores: Array, codes: Codes, threshold: float, weights: Array | None
) -> Array:
    """Return P_k(threshold), the share of each group above a threshold."""
    is_above = scores > threshold
    counted = is_above if weights is None else is_above * weights
    rates: Array = np.bincount(codes, counted) / np.bincount(codes, weights)
    return rates


def samples_by_label(
    y_true: ArrayLike,
    groups: NDArray[Any],
    codes: Codes,
    kinds: tuple[str, ...] = ("negative", "positive"),
) -> dict[str, NDArray[np.bool_]]:
    """Return the samples of each kind; raise if a group has none."""
    values = check_values(y_true, name="y_true", noun="label")
    if values.shape[0] != codes.shape[0]:
        raise ValueError(
            f"y_true and y_score must describe the same samples, got "
            f"{values.shape[0]} labels and {codes.shape[0]} scores."
        )
    labels, label_codes = encode_values(values, name="y_true")
    if labels.shape[0] != 2:
        raise ValueError(
            f"y_true must hold two labels, negative and positive, but has "
            f"{labels.shape[0]}: {listed(labels.tolist(), repr)}."
        )
    rows_by_kind = {"negative": label_codes == 0, "positive": label_codes == 1}
    rows_by_kind = {kind: rows_by_kind[kind] for kind in kinds}
    for kind, rows in rows_by_kind.items():
        count = np.bincount(codes[rows], minlength=groups.shape[0])
        if not count.all():
            raise ValueError(
                f"group(s) {groups[count == 0].tolist()} have no {kind} samples in "
                f"y_true, so there is nothing to compare. Drop or merge them."
            )
    return rows_by_kind


def _check_weight_of_groups(
    weights: Array | None, groups: NDArray[Any], codes: Codes, kind: str
) -> None:
    """Raise a ValueError for a group without weight."""
    if weights is None:
        return
    empty = groups[np.bincount(codes, weights) == 0]
    if empty.size:
        raise ValueError(
            f"sample_weight is 0 for all {kind + ' ' * bool(kind)}samples of "
            f"{empty.size} group(s): {listed(empty.tolist(), repr)}. Leave them out: "
            "they have no shares."
        )
