"""Probabilities of groups that are not known, and what they may hide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import check_sample_weight
from scalefair._groups import as_table, check_interval, encode_groups
from scalefair._membership import as_floats, check_group_probabilities, column_labels
from scalefair.metrics._partial_parity import INTERVAL
from scalefair.metrics._score_gaps import TEXTS, check_scores, share_above


@checked_call
def group_probabilities(sensitive_features: ArrayLike, fill: Any = None) -> Any:
    """Probabilities of groups that are known for a part of the samples.

    They are 1 and 0 where the group is known, and `fill` where it is missing.

    Parameters
    ----------
    sensitive_features : array-like of shape (n_samples,) or (n_samples, k)
        Group of each sample; None, NaN and NA are missing. Of k columns each
        combination that occurs, where none is missing.
    fill : array-like, dict or None, default=None
        Probabilities of the groups, by name or in their order: for each sample, of
        which only those without group are taken, as of a classifier that was fitted to
        the others; or one row, or a dict, for all. None: samples without group count
        for no group, which is right only if groups are missing at random.

    Returns
    -------
    probabilities : pandas DataFrame of shape (n_samples, n_groups)
        A column for each group, sorted, to be passed as `group_probabilities`.

    Raises
    ------
    ValueError
        If fewer than two groups occur, or `fill` does not have their probabilities.

    Examples
    --------
    >>> from scalefair.metrics import group_probabilities
    >>> group_probabilities(["f", None, "m"], fill={"f": 0.25, "m": 0.75})
          f     m
    0  1.00  0.00
    1  0.25  0.75
    2  0.00  1.00
    """
    import pandas

    # 1. The groups that occur, and a row for each sample: zeros without a group.
    values = sensitive_features
    if not isinstance(values, (pandas.Series, pandas.DataFrame)):
        values = as_table(values, "sensitive_features")
    missing = np.asarray(pandas.isna(values))
    if missing.ndim == 2:
        missing = np.asarray(missing.any(axis=1))
    # Other shapes are refused by `encode_groups`.
    groups, codes = encode_groups(values[~missing] if missing.ndim == 1 else values)
    P = np.zeros((len(missing), len(groups)))
    P[~missing, codes] = 1.0
    # 2. Rows of samples without a group, from a table, or all from one row.
    if fill is not None:
        if isinstance(fill, dict):
            fill = pandas.Series(fill)
        if isinstance(fill, pandas.Series):
            fill = fill.to_frame().T  # one row for all
        names = column_labels(fill)
        table = np.atleast_2d(as_floats(fill))
        if names is not None:
            if len(names) != len(groups) or set(names) != set(groups.tolist()):
                raise ValueError(
                    f"fill has probabilities of {names}, but the groups that occur are "
                    f"{groups.tolist()}."
                )
            table = table[:, [names.index(group) for group in groups.tolist()]]
        if table.shape not in {P.shape, (1, len(groups))}:
            raise ValueError(
                "fill must have a row for each sample, or one for all, and a column "
                f"for each of the groups {groups.tolist()}, got shape {table.shape}."
            )
        P[missing] = np.broadcast_to(table, P.shape)[missing]
    # 3. Checked, and with the index of the groups if they have one.
    _, P = check_group_probabilities(pandas.DataFrame(P, columns=groups), len(P))
    return pandas.DataFrame(P, getattr(values, "index", None), groups)


@documented(**TEXTS, interval=INTERVAL)
@checked_call
def unmixed_parity_gap(
    y_score: ArrayLike,
    *,
    group_probabilities: ArrayLike,
    interval: tuple[float, float] = (0.0, 1.0),
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Parity gap if probabilities say nothing of scores beyond the group itself.

    `partial_parity_gap` is the gap of the true groups if the probabilities were
    computed from all that the scores depend on. If they come from other columns, such
    as surnames, the groups are mixed and it is too small. This is the gap of the true
    groups if within a group the scores do not depend on the probabilities. So it is an
    upper reading: how far it is above `partial_parity_gap` says how much of the
    answer is decided by where the probabilities come from, not by the scores.

    With :math:`P` the probabilities, :math:`w_i` the weights and :math:`A_{ik} = w_i
    P_{ik}`, samples have the signed weights :math:`V = A (P^T A)^{-1}`, of which the
    least-squares fit of any function of the samples on :math:`P` has the coefficients.
    The share of group :math:`k` above a threshold is a sum of :math:`V_{ik}`, below 0
    taken for 0 and above 1 for 1, and the gap made of it as in `partial_parity_gap`.

    Parameters
    ----------
    %(y_score)s
    %(group_probabilities)s
    %(interval)s
    %(weights)s

    Returns
    -------
    gap : float
        Between 0 and 1. A gap of 1 of scores with a small `partial_parity_gap` may say
        that probabilities and scores depend on the same columns.

    Raises
    ------
    ValueError
        If the lengths differ, a value is missing, or a column of the probabilities is
        a combination of the others.

    References
    ----------
    .. [1] J. Chen, N. Kallus, X. Mao, G. Svacha, M. Udell, "Fairness under unawareness:
       assessing disparity when protected class is unobserved", FAT* 2019.

    Examples
    --------
    >>> from scalefair.metrics import partial_parity_gap, unmixed_parity_gap
    >>> scores = [1, 1, 1, 0, 1, 0, 0, 0]
    >>> P = [[0.75, 0.25]] * 4 + [[0.25, 0.75]] * 4
    >>> partial_parity_gap(scores, group_probabilities=P)
    0.25
    >>> unmixed_parity_gap(scores, group_probabilities=P)
    1.0
    """
    scores = check_scores(y_score)
    groups, P = check_group_probabilities(group_probabilities, len(scores))
    weights = check_sample_weight(sample_weight, len(scores))
    A = P if weights is None else P * (weights / weights.max())[:, None]
    alpha, beta = check_interval(interval)
    # 1. Signed weights; those of a group add up to 1, because the rows of P do.
    products = P.T @ A
    rounding = len(A) * np.finfo(np.float64).eps * np.linalg.norm(products)
    if np.linalg.matrix_rank(products, rounding, hermitian=True) < len(groups):
        raise ValueError(
            "A column of group_probabilities is a combination of the others: they "
            "cannot tell these groups apart."
        )
    V = np.linalg.solve(products, A.T).T  # the products are symmetric
    # 2. Shares above each threshold between different scores, from the highest down.
    # Every one is tried: with negative weights shares may also fall.
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    is_threshold = np.append(scores[1:] != scores[:-1], False)
    shares = np.cumsum(V[order], axis=0)[is_threshold]
    gaps = np.ptp(share_above(shares, alpha, beta), axis=1)
    return float(gaps.max(initial=0.0))
