"""Groups known as probabilities: expected shares, and hard groups as a special case."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import (
    FairKMeans,
    FairSpectralClustering,
    fair_assignment,
    refine_partition,
)
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score, normalized_cut_score


@pytest.fixture(scope="module")
def planted():
    """Graph, groups, and probabilities of these; nothing is known of each tenth."""
    data = make_fair_sbm(
        300, n_clusters=3, n_groups=3, average_degree=40, random_state=1
    )
    groups, rng = data.sensitive_features, np.random.default_rng(0)
    P = 0.8 * np.eye(3)[groups] + 0.2 * rng.dirichlet(np.ones(3), 300)
    P[::10] = 0
    return sparse.csr_array(data.graph + sparse.eye_array(300)), groups, P


def table(seed, n, k, h, unknown=0.1):
    """Rows near k centres, probabilities that depend on the centre, and weights."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((k, 2))
    cluster = np.append(np.arange(k), rng.integers(0, k, n - k))
    X = centers[cluster] + 0.3 * rng.standard_normal((n, 2))
    logits = 1.5 * rng.standard_normal((k, h))[cluster] + rng.standard_normal((n, h))
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    P[rng.random(n) < unknown] = 0
    return X, centers, P, rng.gamma(2.0, size=n) + 0.1


def spectral(W, k=3, **options):
    fit = {
        name: options.pop(name, None)
        for name in ("sensitive_features", "group_probabilities", "sample_weight")
    }
    options = {"random_state": 0, "tol": 1e-9} | options
    return FairSpectralClustering(k, **options).fit(W, **fit)


# --- One-hot probabilities are hard groups ----------------------------------------


def test_one_hot_is_hard(planted):
    W, groups, _ = planted
    names = np.array(["x", "y", "z"])[groups]
    frame = pd.DataFrame(np.eye(3)[groups][:, ::-1], columns=["z", "y", "x"])
    hard, soft = (
        spectral(W, sensitive_features=names),
        spectral(W, group_probabilities=frame),
    )
    np.testing.assert_array_equal(soft.labels_, hard.labels_)
    np.testing.assert_array_equal(soft.groups_, hard.groups_)
    assert soft.refinement_.cut_after == hard.refinement_.cut_after
    X, centers, *_ = table(0, 300, 3, 3)
    for fit in (
        lambda **options: fair_assignment(X, centers, **options).labels,
        lambda **options: FairKMeans(3, random_state=0).fit(X, **options).labels_,
    ):
        np.testing.assert_array_equal(
            fit(group_probabilities=frame), fit(sensitive_features=names)
        )


# --- The constraint ---------------------------------------------------------------


def test_copies_of_nodes(planted):
    W, _, P = planted
    copies = np.random.default_rng(0).integers(1, 4, 300)
    node = np.repeat(np.arange(300), copies)
    options = {"assign_labels": "kmeans", "solver": "chebyshev"}
    one = spectral(W, group_probabilities=P, sample_weight=copies, **options)
    many = spectral(W[node][:, node], group_probabilities=P[node], **options)
    np.testing.assert_allclose(one.eigenvalues_, many.eigenvalues_, atol=1e-12)
    assert one.fairness_violation_ < 1e-12
    assert adjusted_rand_score(one.labels_[node], many.labels_) == 1
    assert one.minimum_balance_ == pytest.approx(many.minimum_balance_)
    # Indicators of clusters of equal expected shares are orthogonal to these columns.
    A, d = P[node], W[node][:, node].sum(axis=1)
    F = A - np.outer(A.sum(axis=1), A.sum(axis=0) / A.sum())
    F /= np.sqrt(d + 0.1 * d.mean())[:, None]
    assert np.linalg.norm(F.T @ many.embedding_) < 1e-12


# --- What changes nothing ---------------------------------------------------------


def test_kmeans_of_expected_counts(shares):
    X, _, P, weights = table(1, 2000, 4, 2)
    options = {"group_probabilities": P, "sample_weight": weights}
    model = FairKMeans(4, random_state=0).fit(X, **options)
    A = P * weights[:, None]
    excess = shares.beyond(model.labels_, A, weights, 0.1) - 1
    assert model.assignment_.max_violation == pytest.approx(max(excess, 0), abs=1e-9)
    assert excess < 1
    # Balance by entries.
    rows, codes = np.nonzero(P)
    expected = balance_score(
        model.labels_[rows],
        sensitive_features=codes,
        sample_weight=(P * weights[:, None])[rows, codes],
        average=None,
    )
    np.testing.assert_allclose(model.balance_, expected)
    totals = weights @ P
    least = 0.95 * totals.min() / totals.max()
    model = FairKMeans(4, min_balance=least, balance_tolerance=5.0, random_state=0)
    assert model.fit(X, **options).minimum_balance_ > 0.98 * least


# --- New nodes, and bad input -----------------------------------------------------


def test_new_nodes(planted):
    W, groups, P = planted
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    model = spectral(W, group_probabilities=frame, refine=False)
    labels = model.predict(W, group_probabilities=frame[["c", "a", "b"]])
    np.testing.assert_array_equal(labels, model.labels_)
    # A single new node, which is of one group for certain.
    first = pd.DataFrame([[1.0, 0.0, 0.0]], columns=["a", "b", "c"])
    one = model.predict(W[:1], group_probabilities=first)
    assert one.shape == (1,)
    # Hard groups are probabilities of 1, and the other way round.
    names = np.array(["a", "b", "c"])[groups]
    certain = pd.DataFrame(np.eye(3)[groups], columns=["a", "b", "c"])
    np.testing.assert_array_equal(
        model.predict(W, sensitive_features=names),
        model.predict(W, group_probabilities=certain),
    )
    hard = spectral(W, sensitive_features=names)
    rows = hard.predict(W, group_probabilities=frame)
    assert adjusted_rand_score(rows, hard.labels_) > 0.9
    with pytest.raises(ValueError, match=r"group_probabilities has 1 group.*'d'"):
        model.predict(W, group_probabilities=frame.rename(columns={"c": "d"}))
    with pytest.raises(ValueError, match=r"pass sensitive_features.*or group_prob"):
        model.predict(W)


def test_groups_that_only_nodes_left_out_may_be_of(planted):
    W, _, P = planted
    P = np.column_stack([np.zeros(300), P])
    P[0], weights = (1, 0, 0, 0), np.ones(300)
    weights[1] = 0
    frame = pd.DataFrame(P, columns=[*"abcd"])
    graph = sparse.block_diag([[[0.0]], W[1:, 1:]], format="csr")
    model = spectral(
        graph,
        group_probabilities=frame,
        sample_weight=weights,
        connected_components="all",
        regularization=0,
    )
    assert list(model.groups_) == ["b", "c", "d"]
    np.testing.assert_array_equal(np.flatnonzero(model.labels_ < 0), [0, 1])
    with pytest.raises(ValueError, match="only one group among the clustered"):
        spectral(
            graph,
            group_probabilities=np.where(np.arange(300)[:, None] > 0, [1, 0], [0, 1]),
            connected_components="all",
            regularization=0,
        )


@pytest.mark.parametrize("name", ["spectral", "kmeans", "assignment"])
def test_bad_probabilities(planted, name):
    W, groups, P = planted
    X, centers, *_ = table(0, 300, 3, 3)
    fit = {
        "spectral": FairSpectralClustering(3).fit,
        "kmeans": FairKMeans(3).fit,
        "assignment": lambda X, **options: fair_assignment(X, centers, **options),
    }[name]
    rows = W if name == "spectral" else X
    for both, got in (({}, "neither"), ({"sensitive_features": groups}, "both")):
        with pytest.raises(TypeError, match=f"got {got}"):
            fit(rows, **both, group_probabilities=P if both else None)
    wrong = P.copy()
    wrong[7] = 0.5, 0.2, 0.2
    with pytest.raises(ValueError, match=r"do not add up to 1.*row 7"):
        fit(rows, group_probabilities=wrong)
    wrong[8] = 1.2, -0.2, 0
    with pytest.raises(ValueError, match=r"row 8, column 0 \(1\.2\)"):
        fit(rows, group_probabilities=wrong)
    weights = (P[:, 0] == 0).astype(float)
    with pytest.raises(ValueError, match="sample_weight is 0 for all samples"):
        fit(rows, group_probabilities=P, sample_weight=weights)


def test_refinement_keeps_expected_shares(shares):
    data = make_fair_sbm(1000, n_clusters=4, n_groups=3, random_state=0)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(1000) < 0.3, rng.integers(0, 4, 1000), data.target)
    codes = np.unique(data.sensitive_features, return_inverse=True)[1]
    P = 0.7 * np.eye(3)[codes] + 0.3 * rng.dirichlet([0.5] * 3, 1000)
    P[:30] = 0  # of no known group
    w = rng.integers(1, 4, 1000).astype(float)
    refined = refine_partition(
        data.graph,
        labels,
        group_probabilities=P,
        sample_weight=w,
        regularization=0.5,
        random_state=0,
    )
    cut = normalized_cut_score(
        data.graph, refined.labels, sample_weight=w, regularization=0.5
    )
    assert refined.cut_after == pytest.approx(cut, rel=1e-10)
    assert refined.cut_after < 0.97 * refined.cut_before
    assert shares.beyond(refined.labels, P * w[:, None], w, 0.1) <= 1
    # Nodes move although they are of other mixes, not only exchange.
    assert (np.bincount(refined.labels) != np.bincount(labels)).any()
