"""CoordinateDescentFairClustering: the descent, its result, input and conventions."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import CoordinateDescentFairClustering
from scalefair.metrics import balance_score, normalized_cut_score


def _random_graph(n, seed=0, loops=True):
    rng = np.random.RandomState(seed)
    W = rng.uniform(0.1, 2, (n, n)) * (rng.uniform(size=(n, n)) < 0.4)
    W = np.triu(W, 0 if loops else 1)
    W = W + np.triu(W, 1).T
    W[0, :] = W[:, 0] = 1  # connected
    return W


def _objective(W, groups, labels, weight):
    """From the definition, nothing shared with the package."""
    total = 0.0
    shares = np.array([np.mean(groups == s) for s in np.unique(groups)])
    for c in np.unique(labels):
        members = labels == c
        volume = W[members].sum()
        total += W[members][:, ~members].sum() / volume
        inside = [np.mean(groups[members] == s) for s in np.unique(groups)]
        total += weight * ((np.array(inside) - shares) ** 2).sum()
    return total


# --- The descent ------------------------------------------------------------------


def test_weights_of_very_different_size():
    # Taking node 0 or 1 out of its cluster leaves a volume that rounds to zero.
    W = np.ones((6, 6)) - np.eye(6)
    W[0, 1] = W[1, 0] = 1e20
    model = CoordinateDescentFairClustering(2, random_state=0)
    model.fit(W, sensitive_features=np.arange(6) % 2)
    assert np.isfinite(model.history_).all()
    assert model.labels_[0] == model.labels_[1]


@pytest.mark.parametrize("weight", [0.0, 10.0])
def test_history_is_the_objective_and_falls(weight):
    W, groups = _random_graph(80, seed=5), np.random.RandomState(0).randint(3, size=80)
    start = np.arange(80) % 5
    model = CoordinateDescentFairClustering(
        5, fairness_weight=weight, init=start, random_state=0
    ).fit(W, sensitive_features=groups)
    history = model.history_
    assert history[0] == pytest.approx(_objective(W, groups, start, weight))
    assert history[-1] == pytest.approx(_objective(W, groups, model.labels_, weight))
    assert (np.diff(history[:-1]) < 0).all()
    assert history[-1] == history[-2]  # the last sweep moved no node
    assert model.n_iter_ == history.size - 1
    assert model.converged_


def test_result_is_a_local_minimum_and_close_to_the_best():
    n, k = 9, 2
    W, groups = _random_graph(n, seed=6), np.arange(n) % 2
    model = CoordinateDescentFairClustering(k, random_state=0)
    labels = model.fit_predict(W, sensitive_features=groups)
    value = _objective(W, groups, labels, 1.0)
    best = min(
        _objective(W, groups, np.array(p), 1.0)
        for p in itertools.product(range(k), repeat=n)
        if len(set(p)) == k
    )
    assert value == pytest.approx(best)
    for node in range(n):
        other = labels.copy()
        other[node] = 1 - other[node]
        assert _objective(W, groups, other, 1.0) >= value - 1e-12


# --- The estimator ----------------------------------------------------------------


def test_weight_trades_the_cut_for_fairness(graphs):
    # Two cliques that are the groups, joined by few edges.
    W = sparse.lil_array(graphs.many_cliques(2, 20))
    for i in range(0, 20, 4):
        W[i, 20 + i] = W[20 + i, i] = 1
    groups = np.repeat(["a", "b"], 20)
    cut, balance = [], []
    for weight in (0.0, 100.0):
        labels = CoordinateDescentFairClustering(
            2, fairness_weight=weight, random_state=0
        ).fit_predict(W, sensitive_features=groups)
        cut.append(normalized_cut_score(sparse.csr_array(W), labels))
        balance.append(balance_score(labels, sensitive_features=groups))
    assert cut[0] < 0.1 < cut[1]
    assert balance[0] == 0
    assert balance[1] == 1


def test_one_cluster_and_as_many_as_nodes():
    W, groups = _random_graph(10), np.arange(10) % 2
    one = CoordinateDescentFairClustering(1).fit(W, sensitive_features=groups)
    assert (one.labels_ == 0).all()
    assert one.history_[-1] == pytest.approx(0, abs=1e-14)
    every = CoordinateDescentFairClustering(10).fit(W, sensitive_features=groups)
    assert sorted(every.labels_) == list(range(10))


def test_no_convergence_is_said():
    W, groups = _random_graph(60, seed=9), np.arange(60) % 2
    model = CoordinateDescentFairClustering(6, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        model.fit(W, sensitive_features=groups)
    assert not model.converged_
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros(9, int), r"10 integer labels.*got shape \(9,\)"),
        (np.zeros(10), "dtype float64"),
        (np.arange(10) - 1, r"labels from 0 to n_clusters - 1 = 2, got -1 to 8"),
        (np.arange(10) % 2, r"1 of 3 clusters empty \(first: 2\)"),
        ("k-means++", "init"),
    ],
)
def test_bad_start(init, message):
    model = CoordinateDescentFairClustering(3, init=init)
    with pytest.raises(ValueError, match=message):
        model.fit(_random_graph(10), sensitive_features=np.arange(10) % 2)
