"""Partial parity: how alike groups are ranked within an interval of ranks."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import SHARED, documented
from scalefair._entries import ignore_fp_warnings
from scalefair._groups import check_group_weights, check_interval, samples_by_label
from scalefair.metrics._score_gaps import (
    TEXTS,
    check_scores,
    compared_members,
    largest_gap,
    share_above,
)

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups

INTERVAL = """\
interval : tuple of two floats, default=(0.0, 1.0)
    The ranks :math:`0 \\le \\alpha < \\beta \\le 1` to compare, 0 the top of a group:
    (0.05, 0.30) compares the members between the upper 5 % and 30 % of their group."""
_WEIGHTS = f"""\
{TEXTS["weights"]}
{TEXTS["attributes"]}"""
_TEXTS = {
    **TEXTS,
    "interval": INTERVAL,
    "ranked_scores": f"""\
{TEXTS["y_score"]}
{TEXTS["sensitive_features"]}
{SHARED["group_probabilities"]}
{INTERVAL}""",
    "weights_and_attributes": _WEIGHTS,
    # A docstring from `threshold` on, of gaps among samples of the same label.
    "of_labels": f"""\
threshold : float or None, default=None
    The only threshold, if the gap is to be that of the decisions above it; None takes
    the largest gap of all thresholds.
{_WEIGHTS}

Returns
-------
gap : float
    Between 0 (fair) and 1.

Raises
------
ValueError
    If the lengths differ, a value is missing, fewer than two groups occur, there are
    not two labels, a group has no samples, or no weight, of a label that is compared,
    or another argument is not of its kind.""",
}


@documented(**_TEXTS)
@checked_call
def partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
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
    %(ranked_scores)s
    %(weights_and_attributes)s

    Returns
    -------
    gap : float
        Between 0 (these parts of the groups have the same distribution of scores)
        and 1. One minus the gap is called the fairness.

    %(raises)s

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
        group_probabilities=group_probabilities,
        interval=interval,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**_TEXTS)
@checked_call
def weak_partial_demographic_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
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
    %(ranked_scores)s
    threshold : float, default=0.0
        The decision is favourable for scores strictly above it, in the unit of the
        scores: 0 for a decision function, 0.5 for probabilities.
    %(weights_and_attributes)s

    Returns
    -------
    gap : float
        Between 0 (fair) and 1, at most `partial_demographic_parity_gap`.

    %(raises)s

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
        group_probabilities=group_probabilities,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**_TEXTS)
@checked_call
def partial_equal_opportunity_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
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
    is the largest difference of true positive rates at any threshold. Probabilities of
    groups are to be calibrated given the label, too.

    Parameters
    ----------
    %(y_true)s
    %(ranked_scores)s
    %(of_labels)s

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
        group_probabilities=group_probabilities,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**_TEXTS)
@checked_call
def partial_equalized_odds_gap(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    interval: tuple[float, float] = (0.0, 1.0),
    threshold: float | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest difference of rates among equally ranked samples of the same label.

    The larger one of `partial_equal_opportunity_gap` and of the same gap of the
    negative samples, whose ranks are those among the negatives of their group. With
    the interval (0, 1) it is the largest difference of true, or of false, positive
    rates at any threshold. Probabilities of groups are to be calibrated given the
    label, too.

    Parameters
    ----------
    %(y_true)s
    %(ranked_scores)s
    %(of_labels)s

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
        group_probabilities=group_probabilities,
        interval=interval,
        threshold=threshold,
        sample_weight=sample_weight,
        attributes=attributes,
    )


@documented(**_TEXTS)
@checked_call
def partial_parity_gap(
    y_score: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
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
    %(group_probabilities)s
    y_true : array-like of shape (n_samples,), default=None
        Label of each sample, of two values, the larger one positive; only, but then
        needed, with `given`.
    given : {"positive", "label"} or None, default=None
        Which samples are compared: None all (`partial_demographic_parity_gap`),
        ``"positive"`` the positive ones (`partial_equal_opportunity_gap`), ``"label"``
        those of the same label (`partial_equalized_odds_gap`). Probabilities of groups
        are then to be calibrated given the label, too.
    %(interval)s
    %(of_labels)s

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
    # 1. Check what is given.
    scores = check_scores(y_score)
    members = compared_members(
        sensitive_features,
        group_probabilities,
        scores.shape[0],
        sample_weight,
        attributes,
    )
    alpha, beta = check_interval(interval)
    if threshold is not None and (
        not isinstance(threshold, Real) or math.isnan(threshold)
    ):
        raise ValueError(f"threshold must be a number, got {threshold!r}.")
    if threshold is not None and (dtype := np.asarray(y_score).dtype).kind == "f":
        # In the type in which NumPy compares them: 0.1 is another number in float32.
        with ignore_fp_warnings():
            threshold = float(np.result_type(dtype, threshold).type(threshold))
    # 2. The gap of each attribute among the samples of each kind: the largest counts.
    entries_by_kind: dict[str, Any] = {"": slice(None)}
    if given is not None:
        rows_by_kind = samples_by_label(y_true, scores.shape[0], given)
        entries_by_kind = {k: members.take(rows) for k, rows in rows_by_kind.items()}
    values, gaps = members.take(scores), []
    for _, groups, all_codes in members.compared:
        for kind, entries in entries_by_kind.items():
            kind_values, codes = values[entries], all_codes[entries]
            weights = None if members.weights is None else members.weights[entries]
            check_group_rows(groups, codes, kind)
            check_group_weights(weights, groups, codes, kind)
            if threshold is None:
                gap = largest_gap(-kind_values, codes, alpha, beta, weights)
            else:
                # P_k, the share of each group above the threshold, then A_k.
                is_above = kind_values > threshold
                counted = is_above if weights is None else is_above * weights
                rates = np.bincount(codes, counted) / np.bincount(codes, weights)
                gap = float(np.ptp(share_above(rates, alpha, beta)))
            gaps.append(gap)
    return max(gaps)


@documented(**_TEXTS)
def null_parity_gap(
    group_sizes: ArrayLike | list[ArrayLike] | None = None,
    *,
    group_probabilities: ArrayLike | list[ArrayLike] | None = None,
    interval: tuple[float, float] = (0.0, 1.0),
    sample_weight: ArrayLike | list[ArrayLike] | None = None,
) -> float:
    r"""Mean partial parity gap of fair scores, made by sampling noise alone.

    What `partial_parity_gap` is to be compared with: of groups drawn from one
    distribution it is not 0, but about this much.

    Parameters
    ----------
    group_sizes : array-like of shape (n_groups,), or list of such, default=None
        Number of rows of each group that are compared, of
        `partial_equal_opportunity_gap` the positive ones; of weighted rows
        :math:`(\sum w)^2 / \sum w^2`. A list has the sizes of several comparisons, of
        `partial_equalized_odds_gap` those of each label: the largest gap counts.
        Where scores were fitted to :math:`n` rows and are measured on :math:`n'` new
        ones, :math:`1 / (1/n + 1/n')`.
    group_probabilities : array-like or list of such, default=None
        In place of sizes the probabilities (n_samples, n_groups) of the samples that
        are compared, for groups that share samples, which differ less by chance. A
        list has those of several comparisons.
    %(interval)s
    sample_weight : array-like or list of such, default=None
        Weights (n_samples,) of the samples of `group_probabilities`; a list if it is.

    Returns
    -------
    gap : float
        Mean of the largest difference between Brownian bridges of the variances
        ``1 / group_sizes``, of probabilities with the covariances :math:`\sum_i a_{ik}
        a_{ik'}` for the shares :math:`a_{ik}` of samples in what a group weighs.
        Single samples scatter by about a third of it.

    Raises
    ------
    TypeError
        If there is not one of sizes and probabilities, or weights go with sizes.
    ValueError
        If a size is not positive, probabilities are none, or the interval is none.

    Examples
    --------
    >>> from scalefair.metrics import null_parity_gap
    >>> round(null_parity_gap([1000, 1000]), 2), round(null_parity_gap([1000, 50]), 2)
    (0.04, 0.12)

    Of weighted rows:

    >>> import numpy as np
    >>> codes, weights = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 4, 1, 1, 1])
    >>> sizes = np.bincount(codes, weights) ** 2 / np.bincount(codes, weights**2)
    >>> sizes, round(null_parity_gap(sizes), 2)
    (array([2., 3.]), 0.66)
    """
    if (group_sizes is None) == (group_probabilities is None):
        raise TypeError("Pass one of group_sizes and group_probabilities=.")
    low, high = check_interval(interval)
    # The rank t of a group is off by scale * B(t), with a Brownian bridge B; of groups
    # that share rows, by a matrix times the bridges.
    scales_of_comparisons = (
        _scales_of_sizes(group_sizes, sample_weight)
        if group_probabilities is None
        else _scales_of_probabilities(group_probabilities, sample_weight)
    )
    if not scales_of_comparisons:
        return 0.0
    rng = np.random.default_rng(0)  # the same estimate for the same sizes
    # 500 draws for two groups: single gaps scatter by a third, their mean by 1.5 %.
    # The largest gap of many groups scatters less, and takes more time.
    gaps = np.zeros(max(1000 // sum(map(len, scales_of_comparisons)), 100))
    for scales in scales_of_comparisons:
        # Noise of four standard deviations brings ranks from outside into the interval.
        # That of B is at most 1/2: so the margin is twice the scale.
        is_apart = scales.ndim == 1
        margin = 2 * (scales if is_apart else np.linalg.norm(scales, axis=1)).max()
        ranks = np.linspace(max(0.0, low - margin), min(1.0, high + margin), 512)
        steps = np.diff(ranks, prepend=0.0, append=1.0)
        for i in range(gaps.size):
            # Brownian bridge B(t) = W(t) - t W(1) from the increments of W.
            increments = rng.normal(size=(len(scales), steps.size)) * np.sqrt(steps)
            paths = np.cumsum(increments, axis=1)
            bridges = paths[:, :-1] - ranks * paths[:, -1:]
            noise = scales[:, None] * bridges if is_apart else scales @ bridges
            shares = np.clip(ranks + noise, low, high)
            gaps[i] = max(gaps[i], np.ptp(shares, axis=0).max() / (high - low))
    return float(gaps.mean())


def _scales_of_sizes(group_sizes: Any, sample_weight: Any) -> list[Array]:
    """Return the standard deviations of groups of these sizes, by comparison."""
    if sample_weight is not None:
        raise TypeError("sample_weight goes with group_probabilities=, not with sizes.")
    is_several = isinstance(group_sizes, list) and any(map(np.ndim, group_sizes))
    comparisons = group_sizes if is_several else [group_sizes]
    comparisons = [np.asarray(sizes, dtype=np.float64) for sizes in comparisons]
    if not all(sizes.ndim == 1 and (sizes > 0).all() for sizes in comparisons):
        raise ValueError(
            f"group_sizes must be positive numbers, one per group, got {group_sizes!r}."
        )
    return [1 / np.sqrt(n) for n in comparisons if n.size > 1]


def _scales_of_probabilities(
    group_probabilities: Any, sample_weight: Any
) -> list[Array]:
    """Return roots of the covariances of groups that share rows, by comparison."""
    tables, weights = [group_probabilities], [sample_weight]
    is_list = isinstance(group_probabilities, list)
    if is_list and any(np.ndim(table) == 2 for table in group_probabilities):
        tables = group_probabilities
        weights = [None] * len(tables) if sample_weight is None else sample_weight
    if len(weights) != len(tables):
        raise ValueError(
            "sample_weight must be a list, too, of weights for each table."
        )
    scales = []
    for table, row_weights in zip(tables, weights, strict=True):
        n_rows = (np.shape(table) or (0,))[0]
        members = compared_members(None, table, n_rows, row_weights)
        shares = members.matrix(n_rows)
        shares /= shares.sum(axis=0)
        variances, axes = np.linalg.eigh(shares.T @ shares)
        scales.append(axes * np.sqrt(np.maximum(variances, 0.0)) @ axes.T)
    return scales


def check_group_rows(groups: NDArray[Any], codes: Codes, kind: str) -> None:
    """Raise a ValueError if a group has no samples of the kind, of these codes."""
    count = np.bincount(codes, minlength=len(groups))
    if not count.all():
        raise ValueError(
            f"group(s) {groups[count == 0].tolist()} have no {kind} samples in "
            f"y_true, so there is nothing to compare. Drop or merge them."
        )
