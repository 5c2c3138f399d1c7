"""Shares of the groups of clusters, from their definition."""

import numpy as np
import pytest

from scalefair.datasets import make_fair_sbm

from ..conftest import one_hot


def memberships(
    n, *, sensitive_features=None, group_probabilities=None, sample_weight=None, **_
):
    """Weights (n, G) of rows in the groups of all columns, and weights of rows."""
    weights = np.ones(n) if sample_weight is None else sample_weight
    if group_probabilities is None:
        A = one_hot(*np.reshape(sensitive_features, (n, -1)).T)
    else:
        A = np.asarray(group_probabilities)
    return A * weights[:, None], weights


def beyond(labels, A, weights, tolerance):
    """Most weight by which a group is beyond its share of a cluster, in average rows.

    Whole counts are within their bounds, rounded outwards, if this is less than one.
    """
    worst, shares = 0.0, A.sum(axis=0) / A.sum()
    for cluster in range(labels.max() + 1):
        counts = A[labels == cluster].sum(axis=0)
        # Of several attributes each has the weight of the cluster.
        expected = shares * counts.sum()
        low = max(1 - tolerance, 0) * expected
        high = (1 + min(tolerance, len(labels))) * expected
        worst = max(worst, (low - counts).max(), (counts - high).max())
    return worst / weights.mean()


def within(labels, groups, tolerance=0.1):
    """Whether no count of hard groups is beyond its bound, rounded outwards."""
    A, weights = memberships(len(labels), sensitive_features=groups)
    return beyond(labels, A, weights, tolerance) < 1 - 1e-9


def inertia(X, labels):
    parts = [X[labels == c] for c in np.unique(labels)]
    return sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts)


@pytest.fixture(scope="session")
def planted():
    """Four planted clusters of three groups."""
    sizes = {"n_clusters": 4, "n_groups": 3, "average_degree": 40}
    return make_fair_sbm(600, **sizes, random_state=1)
