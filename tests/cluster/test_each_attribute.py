"""Clusters that are fair to several attributes, each by itself."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import subspace_angles

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score

N, K = 240, 4


@pytest.fixture(scope="module")
def graph():
    data = make_fair_sbm(N, n_clusters=K, n_groups=2, average_degree=30, random_state=0)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"sex": data.sensitive_features})
    people["race"] = rng.permutation(np.array(["x", "y", "z"])[np.arange(N) % 3])
    people["old"] = rng.random(N) < 0.2
    return data.graph, people


def constraints(W, groups):
    """F of all columns, from the definition."""
    columns = [np.unique(x, return_inverse=True)[1] for x in np.asarray(groups).T]
    G = np.hstack([np.equal.outer(x, np.arange(x.max() + 1)) for x in columns])
    return (G - G.mean(axis=0)) / np.sqrt(W.sum(axis=1))[:, None]


def fit(W, groups, **options):
    options = {"attributes": "each", "tol": 1e-8, "random_state": 0} | options
    options = PAPERS_METHOD | options
    return FairSpectralClustering(K, **options).fit(W, sensitive_features=groups)


def same_span(A, B):
    return subspace_angles(A, B).max() < 1e-6


def test_one_attribute_twice_is_once(graph):
    W, people = graph
    race = people["race"].to_numpy()
    once = fit(W, race[:, None])
    assert once.groups_.tolist() == ["x", "y", "z"]  # no list of one
    for more in (race, np.where(race == "x", "b", "a")):  # and a coarser one
        twice = fit(W, np.column_stack([more, race]))
        assert same_span(once.embedding_, twice.embedding_)
        np.testing.assert_array_equal(twice.labels_, once.labels_)


def test_joint_is_stricter_where_attributes_are_independent(graph):
    W, _ = graph
    pair = np.column_stack([np.arange(N) // 2 % 2, np.arange(N) % 2])
    separate, joint = fit(W, pair), fit(W, pair, attributes="joint")
    assert [len(groups) for groups in separate.groups_] == [2, 2]
    balances = balance_score(
        separate.labels_, average=None, sensitive_features=pair, attributes="each"
    )
    np.testing.assert_array_equal(separate.balance_, balances)
    assert separate.eigenvalues_.sum() > joint.eigenvalues_.sum() + 1e-6
    # Combinations are orthogonal to less: what "joint" forbids, "each" forbids, too.
    F = constraints(W.toarray(), pair)
    assert np.linalg.norm(F.T @ joint.embedding_) < 1e-12


def test_nodes_of_the_fit_get_their_labels_again(graph):
    W, people = graph
    # Groups that follow the clusters have to be moved, at prices.
    people = people.assign(old=np.arange(N) % 5 == 0, half=np.arange(N) < 0.4 * N)
    model = fit(W, people, assign_labels="fair", refine=False)
    labels = model.predict(W, sensitive_features=people)
    assert (labels != model.labels_).mean() <= 0.05
    with pytest.raises(ValueError, match="fit saw 4"):
        model.predict(W, sensitive_features=people["sex"])


def test_an_attribute_of_one_group_is_named(graph):
    W, people = graph
    with pytest.raises(ValueError, match=r"same of .* has only one group"):
        fit(W, people.assign(same=1))
    with pytest.raises(ValueError, match="n_clusters"):
        FairSpectralClustering(3, attributes="each").fit(
            np.ones((4, 4)), sensitive_features=[[0, 0], [0, 1], [1, 0], [1, 1]]
        )
