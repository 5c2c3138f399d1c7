"""Statistical parity: how far apart the groups' distributions of predictions are."""

import numpy as np
from numpy.typing import ArrayLike

from scalefair.metrics._scores import (
    check_scores,
    encode_compared_groups,
    largest_step_gap,
    position_in_group,
)


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
    sensitive_features : array-like of shape (n_samples,)
        Group of each sample: integers, strings or booleans, without missing values;
        two groups or more.

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
    all rows the same output.

    Sorting takes :math:`O(n \log n)` operations, the rest :math:`O(n)` for any number
    of groups, never the pairs: the largest distance at :math:`t` is between the
    largest and the smallest :math:`F_k(t)`. As :math:`t` grows every :math:`F_k`
    does, so the largest one is a running maximum over the samples passed and the
    smallest one a running minimum over those to come.

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
