"""Count the members of each group in each cluster."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._groups import check_values, encode_values

UNASSIGNED = -1


def check_labels(labels: ArrayLike) -> NDArray[Any]:
    """Return the cluster labels as a one-dimensional array, or say what is wrong."""
    return check_values(labels, name="labels", what="cluster label")


def check_groups(sensitive_features: ArrayLike, n_samples: int) -> NDArray[Any]:
    """Return the group of each sample as an array of length `n_samples`."""
    groups = check_values(sensitive_features, name="sensitive_features", what="group")
    if groups.shape[0] != n_samples:
        raise ValueError(
            f"labels and sensitive_features must describe the same samples, got "
            f"{n_samples} labels and {groups.shape[0]} groups."
        )
    return groups


def encode_clusters(
    labels: NDArray[Any],
) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[np.int64]]:
    """Return which samples are assigned, the sorted labels, and each one's index.

    The third array covers the assigned samples only.
    """
    if labels.dtype.kind in "ifO":
        assigned = labels != UNASSIGNED
    else:
        assigned = np.ones(labels.shape[0], dtype=bool)
    if not assigned.any():
        raise ValueError(
            "labels assigns no sample to a cluster: it is empty or all -1."
        )
    clusters, codes = encode_values(labels[assigned], name="labels")
    return assigned, clusters, codes


def contingency(
    labels: ArrayLike, sensitive_features: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Count the assigned samples of each cluster and group.

    Returns
    -------
    counts : ndarray of int64, shape (n_clusters, n_groups)
        Rows follow the sorted labels, without -1 (unassigned).
    groups : ndarray, shape (n_groups,)
        Sorted groups that occur among the assigned samples.
    """
    labels = check_labels(labels)
    group_of = check_groups(sensitive_features, labels.shape[0])
    assigned, clusters, cluster_codes = encode_clusters(labels)
    groups, group_codes = encode_values(group_of[assigned], name="sensitive_features")
    shape = (clusters.shape[0], groups.shape[0])
    flat = np.bincount(
        cluster_codes * shape[1] + group_codes, minlength=shape[0] * shape[1]
    )
    return flat.reshape(shape), groups
