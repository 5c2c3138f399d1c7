"""Balance of groups among clusters, from their contingency table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import SHARED, documented
from scalefair._entries import check_sample_weight
from scalefair._groups import check_values, encode_values, squeeze_single
from scalefair._membership import Membership

_TEXTS = {
    "labels_and_groups": f"""\
labels : array-like of shape (n_samples,)
    Cluster of each sample. Samples labelled -1 are unassigned and ignored.
sensitive_features : array-like of shape (n_samples,) or (n_samples, k), default=None
    Group of each sample: integers, strings or booleans, without missing values; of k
    columns see `attributes`. The groups are those that occur among the assigned
    samples.
{SHARED["group_probabilities"]}""",
    "weights": """\
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the samples, which are counted as often; None counts each once. Samples
    of weight 0 are ignored.""",
    "attributes": """\
attributes : {"joint", "each"}, default="joint"
    Of several columns ``"joint"`` compares the combinations that occur, ``"each"`` the
    groups of each column by itself; the smallest balance of a cluster counts.""",
    "raises": """\
Raises
------
ValueError
    If the lengths differ, a value is missing, a weight is negative, no sample is
    assigned or, but for `group_proportions`, fewer than two groups occur.""",
}


@documented(**_TEXTS)
@checked_call
def balance_score(
    labels: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    average: str | None = "mean",
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> Any:
    r"""Balance of the clusters, averaged over clusters or one by one.

    The balance of a cluster :math:`C` with groups :math:`V_1, \dots, V_h` is

    .. math:: \min_{s \ne s'} \frac{|V_s \cap C|}{|V_{s'} \cap C|} \in [0, 1],

    the count of its rarest group divided by that of its most frequent one: 1 when all
    groups are equally frequent, 0 when one is absent. When the groups differ in size,
    no clustering has an average balance of 1.

    Parameters
    ----------
    %(labels_and_groups)s
    average : {"mean"} or None, default="mean"
        ``"mean"`` gives the mean over clusters, whatever their sizes; None gives the
        balance of each cluster.
    %(weights)s
    %(attributes)s

    Returns
    -------
    balance : float or ndarray of shape (n_clusters,)
        Balance, between 0 and 1; the array follows the sorted cluster labels. That of
        a cluster with nothing but rows of no group is NaN, and not in the mean.

    %(raises)s

    See Also
    --------
    minimum_balance_score : The balance of the worst cluster.
    group_proportions : The share of each group in each cluster.

    References
    ----------
    .. [1] F. Chierichetti, R. Kumar, S. Lattanzi, S. Vassilvitskii, "Fair Clustering
       Through Fairlets", NeurIPS 2017.
    .. [2] F. Tonin, A. Lambert, J. A. K. Suykens, V. Cevher, "Accelerating Spectral
       Clustering under Fairness Constraints", ICML 2025, definition 2.1.

    Examples
    --------
    >>> from scalefair.metrics import balance_score
    >>> labels, groups = [0, 0, 0, 1, 1, 1], ["a", "a", "b", "a", "b", "b"]
    >>> balance_score(labels, sensitive_features=groups)
    0.5
    >>> balance_score(labels, sensitive_features=groups, average=None)
    array([0.5, 0.5])
    >>> both = list(zip(groups, ["x", "y", "x", "x", "y", "y"]))
    >>> balance_score(labels, sensitive_features=both, attributes="each")
    0.5
    """
    if average is not None and average != "mean":
        raise ValueError(f'average must be "mean" or None, got {average!r}.')
    balances = []
    for name, counts, groups in _contingency(
        labels, sensitive_features, group_probabilities, sample_weight, attributes
    ):
        if groups.shape[0] < 2:
            raise ValueError(
                f"balance compares groups, but {name} has only one among the assigned "
                f"samples: {groups.tolist()[0]!r}."
            )
        # A cluster in which no row has a known group has 0 / 0, which is NaN.
        with np.errstate(invalid="ignore"):
            balances.append(counts.min(axis=1) / counts.max(axis=1))
    balance = np.min(balances, axis=0)  # over the attributes
    return balance if average is None else float(np.nanmean(balance))


@documented(**_TEXTS)
@checked_call
def minimum_balance_score(
    labels: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> float:
    """Balance of the least balanced cluster, see `balance_score`.

    Parameters
    ----------
    %(labels_and_groups)s
    %(weights)s
    %(attributes)s

    Returns
    -------
    balance : float
        Smallest balance over the clusters, between 0 and 1.

    %(raises)s

    Examples
    --------
    >>> from scalefair.metrics import minimum_balance_score
    >>> minimum_balance_score([0, 0, 0, 1, 1], sensitive_features=list("aabab"))
    0.5
    """
    balances = balance_score(
        labels,
        sensitive_features=sensitive_features,
        group_probabilities=group_probabilities,
        average=None,
        sample_weight=sample_weight,
        attributes=attributes,
    )
    return float(np.nanmin(balances))


@documented(**_TEXTS)
@checked_call
def group_proportions(
    labels: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    attributes: str = "joint",
) -> Any:
    """Share of each group in each cluster.

    In a fair clustering every row equals the shares of the groups in all data.

    Parameters
    ----------
    %(labels_and_groups)s
    %(weights)s
    attributes : {"joint", "each"}, default="joint"
        Of several columns ``"joint"`` takes the combinations that occur for groups,
        ``"each"`` the groups of each column by itself.

    Returns
    -------
    proportions : ndarray of shape (n_clusters, n_groups), or list of them
        Rows sum to one; rows follow the sorted labels (without -1), columns the
        sorted groups. A list, one per column, for several with ``"each"``. NaN where
        nothing is known of a cluster.

    %(raises)s

    Examples
    --------
    >>> from scalefair.metrics import group_proportions
    >>> group_proportions([0, 0, 1, 1, 1, 1], sensitive_features=list("fmmmfm"))
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    >>> group_proportions([0, 0], sensitive_features=["f", "m"], sample_weight=[1, 3])
    array([[0.25, 0.75]])
    """
    tables = _contingency(
        labels, sensitive_features, group_probabilities, sample_weight, attributes
    )
    # A cluster in which no row has a known group has 0 / 0, which is NaN.
    with np.errstate(invalid="ignore"):
        return squeeze_single(
            [counts / counts.sum(axis=1, keepdims=True) for _, counts, _ in tables]
        )


class AssignedSamples(NamedTuple):
    """The samples that are in a cluster: label not -1, and weight not 0."""

    is_assigned: NDArray[np.bool_]  # (n_samples,)
    codes: NDArray[np.int64]  # (n_assigned,): index of the cluster
    weights: NDArray[np.float64] | None  # (n_assigned,); None: all are 1
    clusters: NDArray[Any]  # sorted labels


def encode_clusters(
    labels: ArrayLike, sample_weight: ArrayLike | None = None
) -> AssignedSamples:
    """Encode the labels of the assigned samples; raise ValueError if there are none."""
    labels = check_values(labels, name="labels", noun="cluster label")
    # Strings, booleans and unsigned integers are not compared with -1.
    can_be_negative = labels.dtype.kind in "ifO"
    is_assigned = labels != -1 if can_be_negative else np.ones(len(labels), dtype=bool)
    weights = check_sample_weight(sample_weight, len(labels))
    if weights is not None:
        is_assigned = is_assigned & (weights > 0)
        weights = weights[is_assigned]
    if not is_assigned.any():
        raise ValueError(
            "labels assigns no sample to a cluster: it is empty or all -1"
            f"{'' if weights is None else ' where sample_weight is positive'}."
        )
    clusters, codes = encode_values(labels[is_assigned], name="labels")
    return AssignedSamples(is_assigned, codes, weights, clusters)


def _contingency(
    labels: ArrayLike,
    sensitive_features: ArrayLike | None,
    group_probabilities: ArrayLike | None,
    sample_weight: ArrayLike | None,
    attributes: str,
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Yield for each attribute its name, contingency table and groups.

    The table (n_clusters, n_groups) counts the assigned samples, or adds up their
    weights. With probabilities of groups the counts are the expected ones. Groups
    without an assigned sample are left out.
    """
    is_assigned, cluster_codes, weights, clusters = encode_clusters(
        labels, sample_weight
    )
    members = Membership.of(
        sensitive_features, group_probabilities, len(is_assigned), attributes=attributes
    )
    # Entries of assigned samples count. `rows` are the indices of their samples among
    # the assigned ones, to which cluster codes and weights refer.
    is_counted = members.take(is_assigned)
    rows = members.take(np.cumsum(is_assigned) - 1)[is_counted]
    entry_weights = None if members.weights is None else members.weights[is_counted]
    if weights is not None:
        entry_weights = weights[rows] * (
            1.0 if entry_weights is None else entry_weights
        )
    if not rows.size:
        raise ValueError(
            "group_probabilities are 0 or missing for all samples in clusters."
        )
    for name, groups, codes in members.compared:
        # Positions in the flattened table. scikit-learn's contingency_matrix would sort
        # the labels and the groups, which are encoded here already.
        cells = cluster_codes[rows] * len(groups) + codes[is_counted]
        n_cells = len(clusters) * len(groups)
        counts = np.bincount(cells, entry_weights, minlength=n_cells)
        counts = counts.reshape(len(clusters), len(groups))
        is_present = counts.any(axis=0)
        yield name, counts[:, is_present], groups[is_present]
