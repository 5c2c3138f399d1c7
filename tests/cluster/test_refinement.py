"""Refinement of partitions: the cut falls, the shares of groups stay."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from scalefair.cluster import FairSpectralClustering, refine_partition
from scalefair.cluster._refinement import refine_labels
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import normalized_cut_score

from .conftest import beyond, memberships, within


def refine(W, labels, groups, **options):
    """Refine, and check what is always promised."""
    options = {"random_state": 0} | options
    tau = options.get("regularization", 0.0)
    refined = refine_partition(W, labels, sensitive_features=groups, **options)
    for cut, partition in (
        (refined.cut_before, labels),
        (refined.cut_after, refined.labels),
    ):
        expected = normalized_cut_score(W, partition, regularization=tau)
        assert cut == pytest.approx(expected, abs=1e-9)
    assert refined.cut_after <= refined.cut_before
    assert refined.labels.dtype == np.int32
    assert refined.n_moved == (refined.labels != labels).sum()
    assert 1 <= refined.n_passes <= options.get("max_iter", 20)
    sizes = np.bincount(labels), np.bincount(refined.labels)
    min_size = np.ceil(0.1 * len(labels) / len(sizes[0]))
    assert (sizes[1] >= np.minimum(sizes[0], min_size)).all()
    return refined


def random_graph(n, seed, loops=True):
    """Weights of all sizes, with self-loops."""
    rng = np.random.default_rng(seed)
    W = rng.gamma(0.5, size=(n, n)) * (rng.random((n, n)) < 4 / n)
    W = W + W.T + np.diag(rng.random(n) * loops)
    path = sparse.diags_array([1.0, 1.0], offsets=[1, -1], shape=(n, n))
    return sparse.csr_array(W + path)


def fair_labels(groups, k):
    """Labels that hold each group in its share, up to one row."""
    labels = np.empty(len(groups), np.int64)
    labels[np.argsort(groups, kind="stable")] = np.arange(len(groups)) % k
    return labels


@pytest.mark.parametrize(
    ("seed", "tolerance", "regularization"),
    [(0, 0.0, 0.0), (1, 0.1, 0.3), (2, 1.0, 0.0)],
)
def test_cuts_and_bounds(seed, tolerance, regularization):
    rng = np.random.default_rng(seed)
    n, k, h = 300, 5, 2 + seed
    W, groups = random_graph(n, seed), rng.permutation(np.arange(n) % 17 % h)
    options = {"tolerance": tolerance, "regularization": regularization, "max_iter": 9}
    refined = refine(W, fair_labels(groups, k), groups, **options)
    assert refined.cut_after < 0.9 * refined.cut_before
    assert within(refined.labels, groups, tolerance)
    # Others get no less fair, with the bounds or without a count that fits.
    unfair = rng.integers(0, k, n)
    A, ones = memberships(n, sensitive_features=groups)
    before = beyond(unfair, A, ones, tolerance)
    refined = refine(W, unfair, groups, **options)
    after = beyond(refined.labels, A, ones, tolerance)
    assert np.floor(after) <= np.floor(before)


def test_only_exchanges_with_several_attributes():
    rng = np.random.default_rng(0)
    W, labels = random_graph(200, 0), rng.integers(0, 4, 200)
    groups = rng.integers(0, 2, (200, 2))
    refined = refine(W, labels, groups, attributes="each", tolerance=5.0)
    assert refined.n_moved > 0
    kinds = groups @ [2, 1]
    np.testing.assert_array_equal(
        contingency_matrix(kinds, labels), contingency_matrix(kinds, refined.labels)
    )
    moved = refine(W, labels, groups, tolerance=5.0)
    after = contingency_matrix(kinds, moved.labels)
    assert (contingency_matrix(kinds, labels) != after).any()


def test_no_cluster_is_emptied(graphs):
    # Twelve leaves without their hub: whoever joins it lowers the cut.
    labels = (np.arange(60) >= 48).astype(int)
    refined = refine(graphs.star(60), labels, np.arange(60) % 2, tolerance=5.0)
    assert np.bincount(refined.labels)[1] == 3  # a tenth of the average


@pytest.mark.parametrize("equal", [False, True])
def test_types_of_weights(equal):
    W = random_graph(200, 1)
    W.data = np.ones(W.nnz) if equal else np.ceil(4 * W.data)
    groups = np.arange(200) % 3
    labels = fair_labels(groups, 4)
    expected = refine(W, labels, groups)
    # One weight stored once is as good as all of them.
    almost = W.copy()
    almost.data[0] = almost[W.indices[0], 0] = almost.data[0] * (1 + 1e-13)
    for other in (W.astype(np.int32), W.toarray(), 8 * W, almost):
        refined = refine(other, labels, groups)
        np.testing.assert_array_equal(refined.labels, expected.labels)


def test_isolated_nodes_and_seeds():
    W = sparse.block_diag([random_graph(100, 2), sparse.csr_array((6, 6))], "csr")
    groups = np.arange(106) % 2
    labels = fair_labels(groups, 3)
    first, again = (refine(W, labels, groups) for _ in range(2))
    np.testing.assert_array_equal(first.labels, again.labels)
    np.testing.assert_array_equal(first.labels[100:], labels[100:])
    # Numbers of clusters are kept.
    options = {"sensitive_features": groups, "random_state": 0}
    named = refine_partition(W, 5 + 2 * labels, **options)
    np.testing.assert_array_equal(named.labels, 5 + 2 * first.labels)
    other = refine(W, labels, groups, random_state=1)
    assert (first.labels != other.labels).any()
    refine(W, np.where(np.arange(106) < 100, labels, 3), groups, regularization=0.1)
    with pytest.raises(ValueError, match="Cluster 3 has no edges"):
        refine(W, np.where(np.arange(106) < 100, labels, 3), groups)


def steps_of(labels, groups, k, is_within, min_size):
    """All single moves that fit, and all exchanges within a group."""
    sizes = np.bincount(labels, minlength=k)
    for i, b in itertools.product(range(len(labels)), range(k)):
        if b != labels[i] and sizes[labels[i]] > min_size:
            moved = labels.copy()
            moved[i] = b
            if is_within(moved, groups):
                yield "move", moved
    for i, j in itertools.combinations(range(len(labels)), 2):
        if groups[i] == groups[j] and labels[i] != labels[j]:
            moved = labels.copy()
            moved[i], moved[j] = labels[j], labels[i]
            yield "exchange", moved


@pytest.mark.parametrize("seed", range(2))
def test_no_step_is_left(seed):
    n, k, options = 16, 3, {"tolerance": 0.5, "regularization": 0.2}
    W, groups = random_graph(n, seed), np.arange(n) % 2
    refined = refine(W, fair_labels(groups, k), groups, max_iter=50, **options)
    while refined.n_moved:
        refined = refine(W, refined.labels, groups, max_iter=50, **options)
    cuts = {"move": [], "exchange": []}
    is_within = partial(within, tolerance=0.5)
    for kind, labels in steps_of(refined.labels, groups, k, is_within, 1):
        cut = normalized_cut_score(W, labels, regularization=0.2)
        cuts[kind].append(cut - refined.cut_after)
    assert cuts["move"]
    assert min(map(min, cuts.values())) > -1e-9


@pytest.mark.parametrize("seed", range(8))
def test_exchanges_of_unequal_nodes_keep_the_smallest_size(seed):
    i, j = [0, 0, 0, 3, 4, 3, 1, 0, 2], [3, 4, 5, 4, 5, 5, 2, 1, 3]
    weights = [1, 1, 1, 3, 3, 3, 5, 0.5, 0.01]
    W = sparse.csr_array(sparse.coo_array((weights, (i, j)), shape=(6, 6)))
    sizes = np.array([3, 0.4, 0.4, *[2.2 / 3] * 3])
    rng, labels = np.random.RandomState(seed), np.array([0, 0, 1, 1, 1, 1])
    groups = np.arange(6)[:, None] % 2
    refined = refine_labels(W + W.T, labels, groups, 0.1, 0.1, rng, weights=sizes)
    assert np.bincount(refined.labels, sizes).min() >= 1


def test_planted_clusters_come_back():
    sizes = {"n_clusters": 4, "n_groups": 2, "average_degree": 30}
    data = make_fair_sbm(1000, **sizes, random_state=0)
    groups = np.asarray(data.sensitive_features)
    labels = np.asarray(data.target).copy()
    changed = np.random.default_rng(0).random(1000) < 0.3
    for s in range(2):  # within groups, so that the labels stay fair
        nodes = np.flatnonzero(changed & (groups == s))
        labels[nodes] = labels[np.roll(nodes, 7)]
    assert adjusted_rand_score(data.target, labels) < 0.7
    refined = refine(data.graph, labels, groups, max_iter=5)
    assert adjusted_rand_score(data.target, refined.labels) > 0.98
    model = FairSpectralClustering(4, random_state=0)
    model.fit(data.graph, sensitive_features=groups)
    refinement = model.refinement_
    assert refinement.cut_after <= refinement.cut_before
    np.testing.assert_array_equal(model.labels_, refinement.labels)
    cut = normalized_cut_score(data.graph, model.labels_, regularization=0.1)
    assert refinement.cut_after == pytest.approx(cut, abs=1e-9)
    cut = normalized_cut_score(data.graph, model.assignment_.labels, regularization=0.1)
    assert refinement.cut_before == pytest.approx(cut, abs=1e-9)
    model.set_params(refine=False).fit(data.graph, sensitive_features=groups)
    assert model.refinement_ is None
    np.testing.assert_array_equal(model.labels_, model.assignment_.labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.arange(30) / 2}, "30 integers from 0 .* got float64"),
        ({"labels": np.arange(29)}, r"30 integers .* shape \(29,\)"),
        ({"labels": np.arange(30) - 1}, "Leave out nodes without a cluster"),
        ({"labels": np.arange(30) + 2**31 - 29}, r"from 0 to 2\*\*31 - 1"),
        ({"tolerance": -0.1}, "tolerance must be a finite number >= 0, got -0.1"),
        ({"max_iter": 1.5}, "max_iter must be an integer >= 1, got 1.5"),
        ({"W": np.triu(np.ones((30, 30), int))}, "symmetric"),
        ({"W": np.zeros((30, 30)), "regularization": 0.1}, "graph has no edges"),
        ({"W": -np.ones((30, 30))}, "[Nn]egative"),
    ],
)
def test_bad_input(change, message):
    good = {"W": np.ones((30, 30)), "labels": np.arange(30) % 3}
    good["sensitive_features"] = np.arange(30) % 2
    with pytest.raises(ValueError, match=message) as error:
        refine_partition(**good | change)
    assert len(str(error.value)) <= 400
