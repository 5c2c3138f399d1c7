"""k-means whose clusters mirror the population."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics.cluster import contingency_matrix

from scalefair.cluster import (
    FairKMeans,
    _assignment_problem,
    _fair_kmeans,
    fair_assignment,
)

from .conftest import inertia, within


@pytest.fixture(autouse=True)
def integer_programs_of_tiny_problems_only(monkeypatch):
    """Save the seconds that the last assignment would take."""
    monkeypatch.setattr(_assignment_problem, "MAX_MILP_SIZE", 100)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + 4 * rng.integers(0, 4, 300)[:, None]
    groups = np.where(X[:, 0] + 6 * rng.random(300) > 9, "a", "b")
    groups[rng.random(300) < 0.2] = "c"
    return X, groups


def fit(X, groups, k=4, **options):
    return FairKMeans(k, random_state=0, **options).fit(X, sensitive_features=groups)


@pytest.mark.parametrize("tolerance", [0.0, 0.5])
def test_shares_are_within_the_tolerance_up_to_one_row(people, tolerance):
    X, groups = people
    model = fit(X, groups, balance_tolerance=tolerance)
    assert within(model.labels_, groups, tolerance)
    assert model.labels_.dtype == np.int32
    assert list(model.groups_) == ["a", "b", "c"]
    means = [X[model.labels_ == c].mean(axis=0) for c in range(4)]
    np.testing.assert_allclose(model.cluster_centers_, means)
    np.testing.assert_array_equal(model.predict(X), cdist(X, means).argmin(axis=1))
    assert model.inertia_ == pytest.approx(inertia(X, model.labels_))
    N = contingency_matrix(groups, model.labels_)
    np.testing.assert_allclose(model.balance_, N.min(axis=0) / N.max(axis=0))
    assert model.minimum_balance_ == model.balance_.min()


def test_no_worse_than_fair_assignment_to_centres_of_k_means(people):
    X, groups = people
    plain = KMeans(4, n_init=10, random_state=0).fit(X)
    once = fair_assignment(X, plain.cluster_centers_, sensitive_features=groups).labels
    assert fit(X, groups).inertia_ <= inertia(X, once)
    # It is k-means where that is fair.
    assert fit(X, groups, balance_tolerance=1e9).inertia_ <= 1.01 * plain.inertia_


def test_min_balance(people):
    (X, groups), ratio = people, 0.25
    model = fit(X, groups, balance_tolerance=9, min_balance=ratio)
    assert model.minimum_balance_ >= ratio
    free = fit(X, groups, balance_tolerance=9)
    assert free.minimum_balance_ < ratio
    assert free.inertia_ < model.inertia_
    # Both parameters hold: shares are bounded by the stricter one.
    both = fit(X, groups, balance_tolerance=0.01, min_balance=ratio)
    assert within(both.labels_, groups, 0.01)


@pytest.mark.parametrize(
    ("sizes", "ratio"),
    [
        # Of two groups in 3 to 7, clusters of 7 to 3 have the balance of all rows.
        ([[21, 49], [67, 63]], 0.42),
        # Shares (.2, .4, .4) and (.5, .25, .25): no a has all between a and 2 a.
        ([[20, 40, 40], [50, 25, 25]], 0.5),
    ],
)
def test_min_balance_binds_no_further(sizes, ratio):
    X = np.repeat([[0.0], [1.0]], np.sum(sizes, axis=1), axis=0)
    groups = np.repeat(np.tile(np.arange(len(sizes[0])), 2), np.ravel(sizes))
    model = fit(X, groups, 2, balance_tolerance=9, min_balance=ratio)
    assert model.inertia_ == 0
    assert model.minimum_balance_ >= ratio


def test_min_balance_may_be_that_of_the_population():
    weights = np.random.default_rng(0).random(20)
    model = FairKMeans(2, min_balance=1.0, random_state=0)
    model.fit(
        np.arange(40.0)[:, None],
        sensitive_features=np.repeat([0, 1], 20),
        sample_weight=np.append(weights, weights[::-1]),
    )
    assert model.minimum_balance_ > 0.5


def test_best_of_all_balanced_clusterings_of_few_rows():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(12, 2)), np.arange(12) % 3
    costs = [
        inertia(X, labels)
        for labels in map(np.array, itertools.product(range(2), repeat=12))
        if 0 < labels.sum() < 12
        and (N := contingency_matrix(groups, labels)).min(axis=0).min() > 0
        and (N.min(axis=0) >= 0.5 * N.max(axis=0)).all()
    ]
    model = fit(X, groups, 2, n_init=10, balance_tolerance=9, min_balance=0.5)
    assert model.minimum_balance_ >= 0.5
    assert min(costs) - 1e-9 <= model.inertia_ <= 1.1 * min(costs)


@pytest.mark.parametrize(
    ("n", "k", "shares"), [(1500, 4, [0.68, 0.3, 0.02]), (60, 10, [0.5, 0.3, 0.2])]
)
def test_min_balance_with_a_rare_group_and_in_small_clusters(n, k, shares, monkeypatch):
    monkeypatch.undo()  # the integer program finds the counts of small clusters
    rng = np.random.default_rng(0)
    groups = rng.choice(3, n, p=shares)
    X = rng.normal(size=(n, 2)) + 1.5 * (groups == 0)[:, None]
    sizes = np.bincount(groups)
    ratio = 0.8 * sizes.min() / sizes.max()
    model = fit(X, groups, k, balance_tolerance=9, min_balance=ratio)
    assert model.minimum_balance_ >= ratio
    assert model.assignment_.max_violation == 0


def test_a_sample_of_the_rows_to_start_from(people, monkeypatch):
    X, groups = people
    groups = np.where(np.arange(300) == 0, "d", groups)  # a group of one row
    monkeypatch.setattr(_fair_kmeans, "START_SAMPLE_ROWS", 80)
    model = fit(X, groups)
    assert within(model.labels_, groups, 0.1)
    assert model.assignment_.rounded.any()
    monkeypatch.undo()
    assert model.inertia_ <= 1.02 * fit(X, groups).inertia_


def test_several_attributes(people):
    X, groups = (array[:100] for array in people)
    both = np.column_stack([groups, np.arange(100) % 2])
    model = fit(X, both, 3, attributes="each", max_iter=3)
    assert len(model.groups_) == 2
    assert model.assignment_.max_violation == 0
    assert within(model.labels_, both[:, 0], 0.1)
    assert within(model.labels_, both[:, 1], 0.1)
    options = {"attributes": "each", "balance_tolerance": 9, "max_iter": 3}
    model = fit(X, both, 3, min_balance=0.2, **options)
    for column in both.T:
        N = contingency_matrix(column, model.labels_)
        assert (N.min(axis=0) + 1 >= 0.2 * (N.max(axis=0) - 1)).all()
    assert len(fit(X, both, 3).groups_) == 6


def test_equal_rows_and_one_cluster():
    groups = np.arange(40) % 2
    model = fit(np.ones((40, 2)), groups, 3)
    assert model.inertia_ == 0
    assert within(model.labels_, groups, 0.1)
    assert len(np.unique(model.labels_)) == 3
    X = np.arange(40.0)[:, None]
    model = fit(X, groups, 1)
    assert model.cluster_centers_ == pytest.approx(X.mean())
    assert model.balance_ == pytest.approx([1.0])
    assert len(np.unique(fit(X, groups, 40).labels_)) == 40


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({"n_clusters": 5}, [0, 1, 0, 1], "n_clusters=5 must be at most n_samples=4"),
        ({"min_balance": 0.5}, [0, 1, 1, 1], "min_balance=0.5 .*population, 0.3333"),
        ({}, [1, 1, 1, 1], r"only one group \(1\).*sklearn.cluster.KMeans"),
    ],
)
def test_mistakes(options, groups, message):
    X = [[0.0], [1.0], [2.0], [3.0]]
    with pytest.raises(ValueError, match=message):
        FairKMeans(**{"n_clusters": 2, **options}).fit(X, sensitive_features=groups)
