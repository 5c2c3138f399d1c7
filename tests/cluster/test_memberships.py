"""Weights of rows and probabilities of groups: repeated nodes, expected shares."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import null_space
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import (
    FairKMeans,
    FairSpectralClustering,
    _fair_kmeans,
    fair_assignment,
    refine_partition,
)
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import normalized_cut_score

from ..conftest import delayed_blocks
from .conftest import beyond, memberships


@pytest.fixture(scope="module")
def planted():
    """Graph with loops, groups, and how often each node is repeated."""
    sizes = {"n_clusters": 3, "n_groups": 3, "average_degree": 40}
    data = make_fair_sbm(300, **sizes, random_state=1)
    W = sparse.csr_array(data.graph + sparse.eye_array(300))
    return W, data.sensitive_features, np.random.default_rng(0).integers(1, 4, 300)


def soften(groups):
    """Probabilities of groups; nothing is known of each tenth row."""
    n, h = len(groups), groups.max() + 1
    noise = np.random.default_rng(0).dirichlet(np.ones(h), n)
    P = 0.8 * np.eye(h)[groups] + 0.2 * noise
    P[::10] = 0
    return P


@pytest.fixture(scope="module")
def soft(planted):
    W, groups, copies = planted
    return W, soften(groups), copies


@pytest.fixture(scope="module")
def blobs():
    X, blob = make_blobs(300, n_features=3, centers=3, random_state=3)
    groups = np.where(np.arange(300) % 3 == 0, blob % 2, np.arange(300) % 2)
    return X, groups, np.random.default_rng(1).integers(1, 4, 300)


@pytest.fixture(scope="module")
def soft_blobs(blobs):
    X, groups, copies = blobs
    return X, soften(groups), copies


def of(groups, weights=None):
    """Arguments of a fit: real numbers are probabilities of groups."""
    is_soft = groups is not None and np.asarray(groups).dtype.kind == "f"
    name = "group_probabilities" if is_soft else "sensitive_features"
    arguments = {name: groups}
    return arguments if weights is None else arguments | {"sample_weight": weights}


def spectral(W, groups, weights=None, k=3, **options):
    options = {"random_state": 0, "tol": 1e-9} | options
    return FairSpectralClustering(k, **options).fit(W, **of(groups, weights))


def kmeans(X, groups, weights=None, **options):
    return FairKMeans(3, random_state=0, **options).fit(X, **of(groups, weights))


def check_repeated(one, many, copies):
    """Equal eigenvalues, subspaces, labels and balances."""
    node = np.repeat(np.arange(len(copies)), copies)
    assert_allclose(one.eigenvalues_, many.eigenvalues_, atol=1e-12)
    assert one.fairness_violation_ < 1e-12
    H = one.embedding_[node] / np.sqrt(copies[node, None])
    assert_allclose(H.T @ H, np.eye(H.shape[1]), atol=1e-10)
    cosines = np.linalg.svd(H.T @ many.embedding_, compute_uv=False)
    assert_allclose(cosines, 1, atol=1e-6)
    assert adjusted_rand_score(one.labels_[node], many.labels_) == 1
    assert one.minimum_balance_ == pytest.approx(many.minimum_balance_)


@pytest.mark.parametrize(
    ("solver", "regularization", "keep", "name"),
    [
        ("nullspace", 0.0, sparse.csr_array, "planted"),
        ("lobpcg", 0.1, sparse.csr_array, "planted"),
        ("dual", 0.1, sparse.csr_array, "planted"),
        ("chebyshev", 0.1, aslinearoperator, "planted"),
        ("chebyshev", 0.0, lambda W: delayed_blocks(W, (0, 100, 300)), "planted"),
        ("chebyshev", 0.1, aslinearoperator, "soft"),
    ],
)
def test_weighted_nodes_are_repeated_nodes(solver, regularization, keep, name, request):
    W, groups, copies = request.getfixturevalue(name)
    node = np.repeat(np.arange(300), copies)
    options = {"solver": solver, "regularization": regularization}
    if keep is not sparse.csr_array:  # not refined: copies of a node can be divided
        options["assign_labels"] = "kmeans"
    one = spectral(keep(W), groups, copies, **options)
    many = spectral(W[node][:, node], groups[node], **options)
    check_repeated(one, many, copies)
    labels = one.predict(W, **of(groups))
    again = many.predict(W[:, node], **of(groups))
    assert adjusted_rand_score(labels, again) == 1
    if keep is sparse.csr_array:
        cut, expected_cut = (m.refinement_.cut_after for m in (one, many))
        assert cut == pytest.approx(expected_cut)
    if name == "soft":
        # Clusters of equal expected shares are orthogonal to these columns F, and so is
        # the embedding, but to no more.
        A, W = groups[node], W[node][:, node].toarray()
        W += regularization * W.mean()
        d = W.sum(axis=1)
        F = A - np.outer(A.sum(axis=1), A.sum(axis=0) / A.sum())
        F /= np.sqrt(d)[:, None]
        assert np.linalg.norm(F.T @ many.embedding_) < 1e-12
        Z = null_space(F.T)
        values = np.linalg.eigvalsh(Z.T @ (W / np.sqrt(np.outer(d, d))) @ Z)
        assert_allclose(many.eigenvalues_, values[:-4:-1], atol=1e-8)


def assigned(X, groups, weights=None):
    return fair_assignment(X, X[:3], **of(groups, weights))


def refined(W, groups, weights=None, **options):
    labels, options = np.arange(W.shape[0]) % 3, {"random_state": 0, **options}
    return refine_partition(W, labels, **of(groups, weights), **options)


def take(X, rows):
    return X[rows][:, rows] if X.shape[0] == X.shape[1] else X[rows]


FITS = {
    "graph": (spectral, "planted", {}),
    "papers": (spectral, "planted", {**PAPERS_METHOD, "connected_components": "all"}),
    "operator": (lambda W, *args: spectral(aslinearoperator(W), *args), "planted", {}),
    "rbf": (spectral, "blobs", {"affinity": "rbf", "gamma": 0.1}),
    "kmeans": (kmeans, "blobs", {"n_init": 1}),
    "balance": (kmeans, "blobs", {"min_balance": 0.5, "n_init": 1}),
    "assignment": (assigned, "blobs", {}),
    "refinement": (refined, "planted", {"regularization": 0.1}),
    "soft graph": (spectral, "soft", {}),
    "soft kmeans": (kmeans, "soft_blobs", {"n_init": 1}),
    "soft assignment": (assigned, "soft_blobs", {}),
}


def labels_of(result):
    return result.labels if hasattr(result, "labels") else result.labels_


@pytest.fixture(params=FITS)
def problem(request):
    """A function that fits, rows, groups and weights; and its name."""
    fit, name, options = FITS[request.param]
    rows, groups, copies = request.getfixturevalue(name)
    return lambda *args: fit(*args, **options), rows, groups, copies, request.param


def test_a_row_without_weight_is_no_row(problem):
    fit, rows, groups, copies, name = problem
    counted = np.arange(300) % 4 > 0
    weights = np.where(counted, copies, 0)
    if name == "refinement":
        with pytest.raises(ValueError, match=r"75 weight.* zero.* first at posi"):
            fit(rows, groups, weights)
        return
    labels = labels_of(fit(rows, groups, weights))
    without = labels_of(fit(take(rows, counted), groups[counted], weights[counted]))
    if name.endswith("assignment"):  # its centres are the first rows
        arguments = of(groups[counted], weights[counted])
        without = fair_assignment(rows[counted], rows[:3], **arguments).labels
    assert adjusted_rand_score(labels[counted], without) == 1
    is_graph = rows.shape[0] == rows.shape[1] or name == "rbf"
    assert set(labels[~counted]) == ({-1} if is_graph else {0, 1, 2})


def test_isolated_nodes_without_weight_and_parts(planted):
    W, groups, copies = planted
    W = sparse.block_diag([W, [[0.0]], np.ones((3, 3))], format="csr")
    groups, weights = np.append(groups, [0, 0, 1, 2]), np.append(copies, [0, 2, 2, 2])
    model = spectral(W, groups, weights, connected_components="largest")
    assert_array_equal(np.flatnonzero(model.labels_ < 0), np.arange(300, 304))
    with pytest.raises(ValueError, match="2 connected components"):
        spectral(W, groups, weights, regularization=0)
    with pytest.raises(ValueError, match=r"isolated \(first: node 300\)"):
        spectral(W, groups, np.arange(304) > 0, regularization=0)
    labels = spectral(W, groups, weights, k=4).labels_
    assert_array_equal(np.flatnonzero(labels < 0), [300])


def test_rows_without_weight_are_predicted(planted, blobs):
    W, groups, copies = planted
    weights = np.where(np.arange(300) % 4, copies, 0)
    model = spectral(W, groups, weights)
    labels = model.predict(W, sensitive_features=groups)
    whole = spectral(W, groups).labels_
    assert adjusted_rand_score(labels[weights == 0], whole[weights == 0]) > 0.8
    X, groups, _ = blobs
    model = kmeans(X, groups, weights)
    assert_array_equal(model.predict(X[weights == 0]), model.labels_[weights == 0])
    assert_array_equal(model.assignment_.labels, model.labels_)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("blobs", {}),
        ("blobs", {"min_balance": 0.2}),
        ("blobs", {"attributes": "each"}),
        ("soft_blobs", {}),
        ("soft_blobs", {"min_balance": 0.2}),
    ],
)
def test_kmeans_by_weights(blobs, name, options, request, monkeypatch):
    monkeypatch.setattr(_fair_kmeans, "START_SAMPLE_ROWS", 150)
    X, hard, _ = blobs
    weights = np.random.default_rng(2).gamma(2.0, size=300) * (1 + 4 * hard)
    groups = columns = request.getfixturevalue(name)[1]
    if options.get("attributes"):
        columns = np.column_stack([groups, np.arange(300) % 5 % 2])
    model = kmeans(X, columns, weights, **options)
    for c, centre in enumerate(model.cluster_centers_):
        inside = model.labels_ == c
        mean = np.average(X[inside], axis=0, weights=weights[inside])
        assert_allclose(centre, mean)
    distances = ((X - model.cluster_centers_[model.labels_]) ** 2).sum(axis=1)
    assert model.inertia_ == pytest.approx(weights @ distances)
    assert model.assignment_.cost == pytest.approx(model.inertia_, rel=0.02)
    A, _ = memberships(300, **of(groups, weights))
    assert beyond(model.labels_, A, weights, 0.1) <= 2
    assert model.minimum_balance_ == pytest.approx(model.balance_.min())
    if not options.get("attributes"):
        counts = np.array([A[model.labels_ == c].sum(axis=0) for c in range(3)])
        balance = counts.min(axis=1) / counts.max(axis=1)
        assert_allclose(model.balance_, balance)
        population = A.sum(axis=0).min() / A.sum(axis=0).max()
        assert balance.min() > max(0.6 * population, options.get("min_balance", 0))
    with pytest.raises(ValueError, match="above the balance of the population"):
        kmeans(X, hard, np.where(hard, 9.0, 1.0), min_balance=0.5)


@pytest.mark.parametrize(
    ("name", "regularization", "tolerance"),
    [("planted", 0.0, 0.2), ("planted", 0.3, 0.0), ("soft", 0.3, 0.1)],
)
def test_refinement_of_repeated_nodes(name, regularization, tolerance, request):
    W, groups, copies = request.getfixturevalue(name)
    W = W.copy()
    W.data = np.random.default_rng(0).gamma(1.0, size=W.nnz)
    W = sparse.csr_array(W + W.T)
    result = refined(
        W, groups, copies, regularization=regularization, tolerance=tolerance
    )
    node = np.repeat(np.arange(300), copies)
    for cut, labels in (
        (result.cut_before, np.arange(300) % 3),
        (result.cut_after, result.labels),
    ):
        expected = normalized_cut_score(
            W[node][:, node], labels[node], regularization=regularization
        )
        assert cut == pytest.approx(expected, abs=1e-9)
    assert result.cut_after < 0.95 * result.cut_before
    A, _ = memberships(300, **of(groups, copies))
    before, after = (
        beyond(labels, A, copies, tolerance)
        for labels in (np.arange(300) % 3, result.labels)
    )
    assert after <= max(before, 1)


def test_new_nodes(planted, soft):
    (W, groups, _), (_, P, _) = planted, soft
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    model = spectral(W, frame, refine=False)
    labels = model.predict(W, group_probabilities=frame[["c", "a", "b"]])
    assert_array_equal(labels, model.labels_)
    # A single new node, which is of one group for certain.
    first = pd.DataFrame([[1.0, 0.0, 0.0]], columns=["a", "b", "c"])
    one = model.predict(W[:1], group_probabilities=first)
    assert one.shape == (1,)
    # Hard groups are probabilities of 1, and the other way round.
    names = np.array(["a", "b", "c"])[groups]
    certain = pd.DataFrame(np.eye(3)[groups], columns=["a", "b", "c"])
    assert_array_equal(
        model.predict(W, sensitive_features=names),
        model.predict(W, group_probabilities=certain),
    )
    hard = spectral(W, names)
    rows = hard.predict(W, group_probabilities=frame)
    assert adjusted_rand_score(rows, hard.labels_) > 0.9
    with pytest.raises(ValueError, match=r"group_probabilities has 1 group.*'d'"):
        model.predict(W, group_probabilities=frame.rename(columns={"c": "d"}))
    with pytest.raises(ValueError, match=r"pass sensitive_features.*or group_prob"):
        model.predict(W)


def test_groups_that_only_nodes_left_out_may_be_of(soft):
    W, P, _ = soft
    P = np.column_stack([np.zeros(300), P])
    P[0], weights = (1, 0, 0, 0), np.ones(300)
    weights[1] = 0
    graph = sparse.block_diag([[[0.0]], W[1:, 1:]], format="csr")
    options = {"connected_components": "all", "regularization": 0}
    model = spectral(graph, pd.DataFrame(P, columns=[*"abcd"]), weights, **options)
    assert list(model.groups_) == ["b", "c", "d"]
    assert_array_equal(np.flatnonzero(model.labels_ < 0), [0, 1])
    P = np.where(np.arange(300)[:, None] > 0, [1.0, 0], [0, 1])
    with pytest.raises(ValueError, match="only one group among the clustered"):
        spectral(graph, P, **options)


def test_fewer_rows_with_weight_than_clusters(blobs):
    X, groups, _ = blobs
    weights = np.zeros(300)
    weights[[0, 1]] = 1
    groups = np.arange(300) % 2
    for fit in (kmeans, assigned):
        with pytest.raises(ValueError, match=r"=2 with weight|3 centers for 2 rows"):
            fit(X, groups, weights)
