"""Partial demographic parity: how alike the top-ranked parts of the groups score."""

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._intervals import check_interval
from scalefair.metrics._scores import (
    check_scores,
    encode_compared_groups,
    largest_step_gap,
    position_in_group,
)


def partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
) -> float:
    r"""Largest difference of positive rates among equally ranked parts of the groups.

    Let :math:`P_k(\theta)` be the share of group :math:`k` with a score above
    :math:`\theta`, the rank of :math:`\theta` in the group (0 is the top). Of the
    members of group :math:`k` whose rank lies in the interval
    :math:`[\alpha, \beta)`, the share above :math:`\theta` is

    .. math::
        A_k(\theta) = \frac{\min(P_k(\theta), \beta) - \min(P_k(\theta), \alpha)}
        {\beta - \alpha},

    and the gap is the largest difference over groups and thresholds,

    .. math:: \max_{k, k'} \max_\theta |A_k(\theta) - A_{k'}(\theta)| \in [0, 1].

    It is 0 when these parts of the groups have the same distribution of scores. With
    the interval (0, 1) and two groups it is the Kolmogorov-Smirnov distance.

    Parameters
    ----------
    y_score : array-like of shape (n_samples,)
        Score of each sample, high for a favourable decision, in any unit: only the
        order counts. Infinite scores are allowed, NaN is not.
    sensitive_features : array-like of shape (n_samples,)
        Group of each sample: integers, strings or booleans, without missing values;
        two groups or more.
    interval : tuple of two floats, default=(0.0, 1.0)
        The ranks :math:`0 \le \alpha < \beta \le 1` to compare. (0.05, 0.30) compares
        the members between the upper 5 % and 30 % of their group; the default
        compares all of them.

    Returns
    -------
    gap : float
        Between 0 (fair) and 1. One minus the gap is called the fairness.

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing, fewer than two groups occur, or
        the interval is not one.

    See Also
    --------
    weak_partial_demographic_parity_gap : The difference at one threshold.

    Notes
    -----
    The value is exact. Equal scores fall together, so a group of equal scores has no
    threshold that divides it. Sorting takes :math:`O(n \log n)` operations, the rest
    :math:`O(n)` for any number of groups: as the threshold falls, every
    :math:`A_k` grows, so the largest one is a running maximum over the samples passed
    and the smallest one a running minimum over those to come.

    fairlearn's ``MetricFrame`` calls a metric with the labels and scores of one group
    at a time, and this gap needs two groups and no labels. So give the groups that it
    compares as a sample parameter, and ``MetricFrame`` those in which to compute it::

        def gap(y_true, y_score, sensitive_features):
            return partial_demographic_parity_gap(
                y_score, sensitive_features=sensitive_features, interval=(0.05, 0.3)
            )

        MetricFrame(
            metrics=gap,
            y_true=y,
            y_pred=scores,
            sensitive_features=region,
            sample_params={"sensitive_features": gender},
        ).by_group

    It is no difference between two numbers, one per group, so
    ``make_derived_metric`` cannot make it.

    References
    ----------
    .. [1] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", definition 4.2.

    Examples
    --------
    >>> from scalefair.metrics import partial_demographic_parity_gap
    >>> scores = [4, 3, 2, 1, 4, 3, 0, 0]
    >>> groups = ["a"] * 4 + ["b"] * 4
    >>> partial_demographic_parity_gap(scores, sensitive_features=groups)
    0.5
    >>> partial_demographic_parity_gap(
    ...     scores, sensitive_features=groups, interval=(0.0, 0.5)
    ... )
    0.0
    """
    scores = check_scores(y_score)
    _, codes = encode_compared_groups(sensitive_features, scores.shape[0])
    alpha, beta = check_interval(interval)
    order = np.argsort(scores)[::-1]
    scores, codes = scores[order], codes[order]
    sizes = np.bincount(codes)
    position = position_in_group(codes, sizes)
    size = sizes[codes]
    # Share of the own group within the interval, without and with the sample.
    before = _share_above(position / size, alpha, beta)
    after = _share_above((position + 1) / size, alpha, beta)
    return largest_step_gap(scores, before, after)


def weak_partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float = 0.0,
) -> float:
    r"""Difference of positive rates among equally ranked parts, at one threshold.

    With the shares :math:`A_k` of `partial_demographic_parity_gap`, the gap at the
    threshold :math:`\hat\theta` of the decision is

    .. math:: \max_{k, k'} |A_k(\hat\theta) - A_{k'}(\hat\theta)| \in [0, 1].

    With the interval (0, 1) it is the usual demographic parity difference of the
    decisions ``y_score > threshold``.

    Parameters
    ----------
    y_score : array-like of shape (n_samples,)
        Score of each sample, high for a favourable decision. Infinite scores are
        allowed, NaN is not.
    sensitive_features : array-like of shape (n_samples,)
        Group of each sample: integers, strings or booleans, without missing values;
        two groups or more.
    interval : tuple of two floats, default=(0.0, 1.0)
        The ranks :math:`0 \le \alpha < \beta \le 1` to compare, 0 the top of each
        group.
    threshold : float, default=0.0
        The decision is favourable for scores strictly above it, in the unit of the
        scores: 0 for a decision function, 0.5 for probabilities.

    Returns
    -------
    gap : float
        Between 0 (fair) and 1, at most `partial_demographic_parity_gap`.

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing, fewer than two groups occur, the
        interval is not one, or the threshold is NaN.

    See Also
    --------
    partial_demographic_parity_gap : The largest difference over all thresholds.

    Notes
    -----
    The shares :math:`A_k` are one number per group, so fairlearn makes the same gap,
    and shows the shares, from a function of the scores of one group; the labels,
    which ``MetricFrame`` passes first, are not used::

        def share(y_true, y_score):
            rate = np.mean(y_score > threshold)
            return (min(rate, beta) - min(rate, alpha)) / (beta - alpha)

        frame = MetricFrame(
            metrics=share, y_true=y, y_pred=scores, sensitive_features=groups
        )
        frame.by_group, frame.difference()

    References
    ----------
    .. [1] Y. He, Y. Huang, Y. Yao, Q. Lin, "Enforcing fairness where it matters: an
       approach based on difference-of-convex constraints", definition 4.3.

    Examples
    --------
    >>> from scalefair.metrics import weak_partial_demographic_parity_gap
    >>> scores = [4, 3, 2, 1, 4, 3, 0, 0]
    >>> groups = ["a"] * 4 + ["b"] * 4
    >>> weak_partial_demographic_parity_gap(
    ...     scores, sensitive_features=groups, threshold=1.5
    ... )
    0.25
    """
    scores = check_scores(y_score)
    _, codes = encode_compared_groups(sensitive_features, scores.shape[0])
    alpha, beta = check_interval(interval)
    if not isinstance(threshold, Real) or math.isnan(threshold):
        raise ValueError(f"threshold must be a number, got {threshold!r}.")
    rates = np.bincount(codes, scores > threshold) / np.bincount(codes)
    return float(np.ptp(_share_above(rates, alpha, beta)))


def _share_above(
    rate: NDArray[np.float64], alpha: float, beta: float
) -> NDArray[np.float64]:
    """A_k where P_k is `rate`: 0 up to alpha, 1 from beta on."""
    return (np.minimum(rate, beta) - np.minimum(rate, alpha)) / (beta - alpha)
