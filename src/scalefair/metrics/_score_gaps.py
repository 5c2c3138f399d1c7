"""How far apart the distributions of the groups' scores or outputs are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import ignore_fp_warnings
from scalefair._membership import Membership
from scalefair.streaming import GroupMoments

Array = NDArray[np.float64]
Codes = NDArray[np.int64]  # of rows, the indices of their groups

TEXTS = {
    "sensitive_features": """\
sensitive_features : array-like of shape (n_samples,) or (n_samples, k), default=None
    Group of each sample: integers, strings or booleans, without missing values; of k
    columns each combination that occurs. Two groups or more.""",
    "weights": """\
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the samples in the shares, not negative; None weighs all alike. Samples
    of weight 0 do not count.""",
    "attributes": """\
attributes : {"joint", "each"}, default="joint"
    Of several columns ``"joint"`` compares the combinations that occur, ``"each"`` the
    groups of each column by itself; the largest gap counts.""",
    "y_score": """\
y_score : array-like of shape (n_samples,)
    Score of each sample, high for a favourable decision or a positive label, in any
    unit: only the order counts, in float64. Infinite ones are allowed, NaN is not.""",
    "raises": """\
Raises
------
ValueError
    If the lengths differ, a value is missing, fewer than two groups occur, a weight is
    negative, a group has no weight, or another argument is not of its kind.""",
    "y_true": """\
y_true : array-like of shape (n_samples,)
    Label of each sample, two distinct values; the larger one (of strings, the last in
    order) is positive.""",
    "ranks": """\
The value is exact. Sorting takes :math:`O(n \\log n)` operations, the rest :math:`O(n)`
for any number of groups, never the pairs.""",
}


@documented(**TEXTS)
@checked_call
def statistical_parity_ks(
    y_pred: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    r"""Largest Kolmogorov-Smirnov distance between the predictions of two groups.

    With :math:`F_k(t)` the share of group :math:`k` with a prediction of at most
    :math:`t`, the distance is

    .. math:: \max_{k, k'} \sup_t |F_k(t) - F_{k'}(t)| \in [0, 1].

    Parameters
    ----------
    y_pred : array-like of shape (n_samples,)
        Prediction for each sample, in any unit: only the order counts, in float64.
        Infinite predictions are allowed, NaN is not.
    %(sensitive_features)s
    %(group_probabilities)s
    %(weights)s
    %(attributes)s

    Returns
    -------
    distance : float
        Between 0 (all groups have the same distribution: statistical parity of a
        regressor) and 1 (some group's predictions are all below those of another).

    %(raises)s

    See Also
    --------
    scalefair.plotting.OutputDensityDisplay : Draws the distributions compared.

    Notes
    -----
    %(ranks)s
    For two groups it is the statistic of :func:`scipy.stats.ks_2samp`. Round
    predictions first that should be equal and are so only up to rounding.

    References
    ----------
    .. [1] E. Chzhen, C. Denis, M. Hebiri, L. Oneto, M. Pontil, "Fair regression with
       Wasserstein barycenters", NeurIPS 2020.

    Examples
    --------
    >>> from scalefair.metrics import statistical_parity_ks
    >>> statistical_parity_ks(
    ...     [1, 4, 5, 9, 4, 7, 8, 9], sensitive_features=["a"] * 4 + ["b"] * 4
    ... )
    0.5
    """
    predictions = check_scores(y_pred, name="y_pred")
    members = compared_members(
        sensitive_features,
        group_probabilities,
        predictions.shape[0],
        sample_weight,
        attributes,
    )
    values = members.take(predictions)
    return max(
        largest_gap(values, codes, weights=members.weights)
        for _, _, codes in members.compared
    )


@documented(**TEXTS)
@checked_call
def moment_gaps(
    Z: Any,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> tuple[float, float]:
    r"""How far apart the means, and the covariances, of the groups' outputs are.

    With :math:`\mu_k` and :math:`C_k` the mean and the covariance (divisor
    :math:`n_k`, of weighted rows the sum of the weights) of the rows of group
    :math:`k`,

    .. math::
        d_e^2 = \sum_{k < k'} \|\mu_{k'} - \mu_k\|^2, \qquad
        d_v^2 = \sum_{k < k'} \|C_{k'} - C_k\|_F^2.

    Parameters
    ----------
    Z : {array-like, sparse matrix} of shape (n_samples,) or (n_samples, n_outputs)
        Outputs of a model or of one of its layers, a row per sample, read once;
        memory-mapped rows block by block.
    %(sensitive_features)s
    %(group_probabilities)s
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the samples, not negative: of weight 2 a sample counts twice. None
        counts each once.
    %(attributes)s

    Returns
    -------
    mean_gap : float
        :math:`d_e`, in the unit of the outputs.
    covariance_gap : float
        :math:`d_v`, in the squared unit of the outputs.

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing or infinite, squares of values
        overflow, fewer than two groups occur, a weight is negative, or a group has no
        weight.

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", section 3.

    Examples
    --------
    >>> from scalefair.metrics import moment_gaps
    >>> moment_gaps([0.0, 2.0, 5.0, 9.0], sensitive_features=["a", "a", "b", "b"])
    (6.0, 3.0)
    """
    rows = Z if hasattr(Z, "shape") else np.asarray(Z)
    if len(rows.shape) == 0:
        raise ValueError("Z must have one row per sample, got a single number.")
    if len(rows.shape) == 1:
        rows = np.asarray(rows)[:, None]
    members = compared_members(
        sensitive_features,
        group_probabilities,
        rows.shape[0],
        sample_weight,
        attributes,
    )
    gaps = []
    for moments in GroupMoments._by_attribute(rows, members):
        covariances = moments.covariances("group")
        gaps.append((_spread(moments.means), _spread(covariances)))
    mean_gaps, covariance_gaps = zip(*gaps, strict=True)
    return max(mean_gaps), max(covariance_gaps)


def _spread(values: Array) -> float:
    """Return the root of the sum of squared distances over all pairs of groups.

    The sum over pairs is G times that of the squared distances from the mean.
    """
    with ignore_fp_warnings():
        offsets = values - values.mean(axis=0)
        # In units of the largest offset, whose square may overflow; 1 if all are 0.
        largest = np.abs(offsets).max() or 1.0
        spread = largest * np.sqrt(len(values) * np.sum((offsets / largest) ** 2))
    if not np.isfinite(spread):
        raise ValueError("The gaps overflow: rescale Z.")
    return float(spread)


def share_above(rate: Array, alpha: float, beta: float) -> Array:
    """Return A_k of `partial_demographic_parity_gap` from P_k, the `rate`.

    It is the part of [alpha, beta] below the rate: 0 up to alpha, 1 from beta on.
    """
    share = np.clip(rate, alpha, beta)
    share -= alpha
    share /= beta - alpha
    return share


def largest_gap(
    values: Array,
    codes: Codes,
    alpha: float = 0.0,
    beta: float = 1.0,
    weights: Array | None = None,
) -> float:
    """Return the largest difference of A_k (`share_above`) between groups.

    All thresholds are compared. P_k is the share of group k up to a value: pass
    ``-scores`` for shares above.
    """
    order = np.argsort(values)
    values, codes = values[order], codes[order]
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    # 1. Group by group: a value lifts A of its group from `before` to `after`.
    # Order of the rows by group, in each by value. NumPy sorts 16-bit integers by radix
    # sort, in linear time.
    narrow = codes.astype(np.uint16) if codes.max() < 2**16 else codes
    by_group = np.argsort(narrow, kind="stable")
    if weights is None:
        levels = np.arange(1.0, codes.size + 1)
    else:
        # In units of the group's, powers of two that change no digit: the sums of none
        # lose the digits that those of heavier ones take.
        weights = weights[order]
        _, exponents = np.frexp(np.bincount(codes, weights))
        levels = np.cumsum(np.ldexp(weights, -exponents[codes])[by_group])
    # Levels become P: cumulative sums, less the sum before the group, divided by the
    # sum of the group. That of the last row is a number divided by itself: exactly 1.
    sums = np.append(0.0, levels[starts + sizes - 1])
    levels -= np.repeat(sums[:-1], sizes)
    levels /= np.repeat(np.diff(sums), sizes)
    levels = share_above(levels, alpha, beta)
    before, after = np.empty_like(levels), np.empty_like(levels)
    after[by_group] = levels
    levels[1:] = levels[:-1]
    levels[starts] = 0.0
    before[by_group] = levels
    # 2. All groups, in the order of the values. A grows with the value: the largest A
    # of all groups is the maximum of `after` so far, and the smallest is the minimum of
    # `before` still to come.
    np.maximum.accumulate(after, out=after)
    smallest = np.minimum.accumulate(before[::-1], out=before[::-1])[::-1]
    after[:-1] -= smallest[1:]
    after[-1] = 0.0  # above all values A is 1 for every group
    after[:-1][values[1:] == values[:-1]] = 0.0  # no threshold lies between ties
    return float(after.max())


def check_scores(y_score: ArrayLike, *, name: str = "y_score") -> Array:
    """Return the scores as a vector of float64; raise a ValueError if that fails."""
    scores = np.asarray(y_score)
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]  # a single column, such as a data frame's
    if scores.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional with one number per sample, got shape "
            f"{scores.shape}. Of several, as from predict_proba, pass one column."
        )
    if scores.shape[0] == 0:
        raise ValueError(f"{name} is empty: there is nothing to measure.")
    try:
        if scores.dtype.kind not in "buifO":
            raise TypeError(f"got dtype {scores.dtype}")
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


def compared_members(
    sensitive_features: ArrayLike | None,
    group_probabilities: ArrayLike | None,
    n_samples: int,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> Membership:
    """Return which rows count for which of the groups compared, two at least."""
    return Membership.of(
        sensitive_features,
        group_probabilities,
        n_samples,
        sample_weight=sample_weight,
        attributes=attributes,
        alternative="measures of accuracy",
    )
