"""Parity: how far apart the distributions of scores of the groups are.

At all ranks, at some of them, at one threshold; and the checks of scores, labels and
groups that these measures share.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._groups import check_interval, check_values, encode_groups, encode_values

TEXTS = {
    "sensitive_features": """\
sensitive_features : array-like of shape (n_samples,)
    Group of each sample: integers, strings or booleans, without missing values; two
    groups or more.""",
    "y_score": """\
y_score : array-like of shape (n_samples,)
    Score of each sample, high for a favourable decision or a positive label, in any
    unit: only the order counts. Infinite scores are allowed, NaN is not.""",
    "interval": """\
interval : tuple of two floats, default=(0.0, 1.0)
    The ranks :math:`0 \\le \\alpha < \\beta \\le 1` to compare, 0 the top of a group:
    (0.05, 0.30) compares the members between the upper 5 % and 30 % of their group.""",
    "metric_frame": """\
fairlearn's ``MetricFrame`` calls a metric with one group of its own at a time: give
the groups that this gap compares as ``sample_params``. The example on
``MetricFrame`` in the gallery shows how.""",
}


@documented(**TEXTS)
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
    %(y_score)s
    %(sensitive_features)s
    %(interval)s

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
    :math:`O(n)` for any number of groups.

    %(metric_frame)s

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


@documented(**TEXTS)
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
    %(y_score)s
    %(sensitive_features)s
    %(interval)s
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


@documented(**TEXTS)
def statistical_parity_ks(y_pred: ArrayLike, *, sensitive_features: ArrayLike) -> float:
    r"""Largest Kolmogorov-Smirnov distance between the predictions of two groups.

    With :math:`F_k(t)` the share of group :math:`k` with a prediction of at most
    :math:`t`, the distance is

    .. math:: \max_{k, k'} \sup_t |F_k(t) - F_{k'}(t)| \in [0, 1].

    It is 0 when all groups have the same distribution of predictions: statistical
    parity of a regressor.

    Parameters
    ----------
    y_pred : array-like of shape (n_samples,)
        Prediction for each sample, in any unit: only the order counts. Infinite
        predictions are allowed, NaN is not.
    %(sensitive_features)s

    Returns
    -------
    distance : float
        Between 0 (the distributions agree) and 1 (some group's predictions are all
        below those of another).

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing or fewer than two groups occur.

    See Also
    --------
    moment_gaps : Compares the means and covariances of outputs.
    partial_demographic_parity_gap : The same distance among equally ranked parts.
    scalefair.plotting.OutputDensityDisplay : Draws the distributions compared.

    Notes
    -----
    The value is exact, and for two groups bit by bit the statistic of
    :func:`scipy.stats.ks_2samp`; equal predictions fall together. Predictions that
    differ by rounding alone are not equal: round them first if a method should give
    all rows the same output. Sorting takes :math:`O(n \log n)` operations, the rest
    :math:`O(n)` for any number of groups, never the pairs.

    References
    ----------
    .. [1] E. Chzhen, C. Denis, M. Hebiri, L. Oneto, M. Pontil, "Fair regression with
       Wasserstein barycenters", NeurIPS 2020.

    Examples
    --------
    >>> from scalefair.metrics import statistical_parity_ks
    >>> statistical_parity_ks(
    ...     [0.1, 0.4, 0.5, 0.9, 0.4, 0.7, 0.8, 0.9],
    ...     sensitive_features=["a"] * 4 + ["b"] * 4,
    ... )
    0.5
    """
    predictions = check_scores(
        y_pred, name="y_pred", hint="Of several outputs, compare one at a time."
    )
    _, codes = encode_compared_groups(sensitive_features, predictions.shape[0])
    order = np.argsort(predictions)
    predictions, codes = predictions[order], codes[order]
    sizes = np.bincount(codes)
    position = position_in_group(codes, sizes)
    # F of the own group just below and at each sample.
    below, at = position / sizes[codes], (position + 1) / sizes[codes]
    return largest_step_gap(predictions, below, at)


def check_scores(
    y_score: ArrayLike,
    *,
    name: str = "y_score",
    hint: str = "Of predict_proba, pass the column of one class.",
) -> NDArray[np.float64]:
    """Return the scores as a vector of float64, or say what is wrong."""
    scores = np.asarray(y_score)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]  # a data frame of one column
    if scores.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional with one number per sample, got shape "
            f"{scores.shape}. {hint}"
        )
    if scores.shape[0] == 0:
        raise ValueError(f"{name} is empty: there is nothing to measure.")
    if scores.dtype.kind not in "buifO":
        raise ValueError(f"{name} must hold real numbers, got dtype {scores.dtype}.")
    try:
        scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold real numbers: {error}.") from error
    missing = np.isnan(scores)
    if missing.any():
        raise ValueError(
            f"{name} has {int(missing.sum())} NaN(s), the first at position "
            f"{int(np.flatnonzero(missing)[0])}; they have no rank."
        )
    return scores


def encode_compared_groups(
    sensitive_features: ArrayLike, n_samples: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted groups, at least two, and each sample's index among them."""
    groups, codes = encode_groups(sensitive_features, n_samples)
    if groups.shape[0] < 2:
        raise ValueError(
            f"the gap compares groups, but sensitive_features has only one: "
            f"{groups.tolist()[0]!r}."
        )
    return groups, codes


def encode_labels(y_true: ArrayLike, n_samples: int) -> NDArray[np.bool_]:
    """Return which samples have the positive label, the larger of the two."""
    values = check_values(y_true, name="y_true", what="label")
    if values.shape[0] != n_samples:
        raise ValueError(
            f"y_true and y_score must describe the same samples, got "
            f"{values.shape[0]} labels and {n_samples} scores."
        )
    labels, codes = encode_values(values, name="y_true")
    if labels.shape[0] != 2:
        raise ValueError(
            f"y_true must hold two labels, negative and positive, but has "
            f"{labels.shape[0]}: {labels[:5].tolist()}"
            f"{' and others' if labels.shape[0] > 5 else ''}."
        )
    positive: NDArray[np.bool_] = codes == 1
    return positive


def order_by_group(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order that brings groups together and keeps it within each."""
    # NumPy sorts 16-bit integers by radix, in linear time.
    narrow = codes.astype(np.uint16) if codes.max() < 2**16 else codes
    return np.argsort(narrow, kind="stable")


def position_in_group(
    codes: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return how many earlier samples are of the same group, for each sample."""
    by_group = order_by_group(codes)
    starts = np.cumsum(sizes) - sizes
    position = np.empty_like(codes)
    position[by_group] = np.arange(codes.shape[0]) - np.repeat(starts, sizes)
    return position


def largest_step_gap(
    sorted_scores: NDArray[np.float64],
    before: NDArray[np.float64],
    after: NDArray[np.float64],
) -> float:
    """Largest difference, at one score, of functions that step up along the scores.

    Each group has a function; the i-th sample lifts that of its own group from
    ``before[i]`` to ``after[i]``, and those of all groups end at 1. Functions are
    compared where equal scores have all been passed.
    """
    # Growing functions: the largest one after a sample is the maximum over the
    # samples passed, the smallest one the minimum over those to come.
    largest = np.maximum.accumulate(after)
    smallest = np.append(np.minimum.accumulate(before[::-1])[::-1][1:], 1.0)
    ends_tie = np.append(sorted_scores[1:] != sorted_scores[:-1], True)
    return float((largest - smallest)[ends_tie].max())
