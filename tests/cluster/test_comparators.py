"""Comparators: coordinate descent and the unified method; objectives and results."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.cluster import (
    CoordinateDescentFairClustering,
    UnifiedFairSpectralClustering,
)
from scalefair.cluster.comparators._unified import candidate_pairs, sparsity_weight


def descend(W, groups, k=2, **options):
    model = CoordinateDescentFairClustering(k, **{"random_state": 0} | options)
    return model.fit(W, sensitive_features=groups)


def unify(W, groups, k=2, **options):
    model = UnifiedFairSpectralClustering(k, random_state=0, **options)
    return model.fit(W, sensitive_features=groups)


@pytest.mark.parametrize(
    ("fit", "options", "message"),
    [
        (descend, {"max_iter": 1}, "Raise max_iter"),
        (unify, {"max_iter": 2, "tol": 1e-12}, "Raise max_iter or tol"),
    ],
)
def test_no_convergence_is_said(planted, fit, options, message):
    with pytest.warns(ConvergenceWarning, match=message):
        model = fit(planted.graph, planted.sensitive_features, 4, **options)
    assert not model.converged_
    assert model.n_iter_ == options["max_iter"]


def _random_graph(n, seed=0):
    rng = np.random.RandomState(seed)
    W = np.triu(rng.uniform(0.1, 2, (n, n)) * (rng.uniform(size=(n, n)) < 0.4))
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


def test_weights_of_very_different_size():
    # Taking node 0 or 1 out of its cluster leaves a volume that rounds to zero.
    W = np.ones((6, 6)) - np.eye(6)
    W[0, 1] = W[1, 0] = 1e20
    model = descend(W, np.arange(6) % 2)
    assert np.isfinite(model.history_).all()
    assert model.labels_[0] == model.labels_[1]


@pytest.mark.parametrize("weight", [0.0, 10.0])
def test_descent_of_the_objective(weight):
    W, groups = _random_graph(80, seed=5), np.random.RandomState(0).randint(3, size=80)
    start = np.arange(80) % 5
    model = descend(W, groups, 5, fairness_weight=weight, init=start)
    history = model.history_
    assert history[0] == pytest.approx(_objective(W, groups, start, weight))
    assert history[-1] == pytest.approx(_objective(W, groups, model.labels_, weight))
    assert (np.diff(history[:-1]) < 0).all()
    assert history[-1] == history[-2]  # the last sweep moved no node
    assert model.n_iter_ == history.size - 1
    assert model.converged_


def test_the_best_of_all_clusterings_of_few_nodes():
    W, groups = _random_graph(9, seed=6), np.arange(9) % 2
    value = _objective(W, groups, descend(W, groups).labels_, 1.0)
    best = min(
        _objective(W, groups, np.array(p), 1.0)
        for p in itertools.product(range(2), repeat=9)
        if len(set(p)) == 2
    )
    assert value == pytest.approx(best, rel=1e-12)


def test_one_cluster_and_as_many_as_nodes():
    W, groups = _random_graph(10), np.arange(10) % 2
    one = descend(W, groups, 1)
    assert (one.labels_ == 0).all()
    assert one.history_[-1] == pytest.approx(0, abs=1e-14)
    assert sorted(descend(W, groups, 10).labels_) == list(range(10))


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
    with pytest.raises(ValueError, match=message):
        descend(_random_graph(10), np.arange(10) % 2, 3, init=init)


@pytest.fixture(scope="module")
def unified(planted):
    return unify(planted.graph, planted.sensitive_features, 4)


def test_history_is_the_objective_and_falls(planted, unified):
    assert unified.n_iter_ == unified.history_.size > 2
    size = np.abs(unified.history_).max()
    assert (np.diff(unified.history_) <= 1e-10 * size).all()
    # From the definition, at the end.
    W = planted.graph.toarray()
    d = W.sum(axis=1)
    S = unified.learned_affinity_.toarray()
    rows = W / W.max() + np.eye(600)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    p = 1 - rows @ rows.T
    V = np.sqrt(d.sum() / 4) * unified.embedding_ / np.sqrt(d)[:, None]
    squares = ((V[:, None] - V[None]) ** 2).sum(axis=2)
    Y = np.eye(4)[unified.labels_]
    theta = sparsity_weight(candidate_pairs(sparse.csr_array(W), 10), 10)
    before = (
        theta * (S * (p + 0.25 * squares)).sum()
        - np.log(S.sum(axis=1)).sum()
        + 0.5 * (S**2).sum()
    )
    # R of the last round belongs to the labels before it: here they are the same.
    U, _, Vt = np.linalg.svd(V.T @ (d[:, None] * Y))
    misfit = (d / d.mean() * ((Y - V @ U @ Vt) ** 2).sum(axis=1)).sum()
    assert unified.history_[-1] == pytest.approx(before + 0.1 * misfit, rel=1e-9)


def test_learned_graph_is_sparse_and_keeps_to_the_clusters(planted, unified):
    S = unified.learned_affinity_
    assert abs(S - S.T).max() == 0
    assert S.data.min() > 0
    assert S.diagonal().max() == 0
    assert (np.diff(S.indptr) > 0).all()  # the logarithm keeps every degree positive
    assert 5 < S.nnz / 600 < 20  # n_neighbors = 10
    across = planted.target[:, None] != planted.target

    def share(A):
        return A.toarray()[across].sum() / A.sum()

    # Less of its weight joins different clusters than of the given graph's.
    assert share(S) < 0.5 * share(planted.graph)


@pytest.mark.parametrize("n", [10, 20])  # fewer and more than n_neighbors
def test_equal_weights_everywhere(n):
    # A complete graph: all distances are zero and all pairs alike.
    model = unify(np.ones((n, n)), np.arange(n) % 2)
    assert np.isfinite(model.history_).all()
    assert (np.diff(model.history_) <= 1e-9).all()


def test_refuses_weights_too_far_apart():
    W = rbf_kernel(np.random.default_rng(0).standard_normal((60, 2)))
    W[2, 3] = W[3, 2] = 1e100
    with pytest.raises(ValueError, match=r"vanished: .* too far apart"):
        unify(W, np.arange(60) % 2)
