"""Clusters of nodes that come after the fit."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsTransformer

from scalefair.cluster import FairSpectralClustering, _neighbors
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.metrics import balance_score

dask = pytest.importorskip("dask")


def fit(W, groups, k=4, **options):
    options = PAPERS_METHOD | {"random_state": 0, "tol": 1e-8} | options
    return FairSpectralClustering(k, **options).fit(W, sensitive_features=groups)


@pytest.mark.parametrize(
    ("solver", "regularization"), [("nullspace", 0.5), ("chebyshev", 0.0)]
)
def test_nodes_of_the_fit_get_their_own_labels(planted, solver, regularization):
    W, groups, target = planted.graph, planted.sensitive_features, planted.target
    # Groups that follow the clusters have to be moved, at prices.
    groups = np.where(np.arange(600) % 3 == 0, target % 3, groups)
    # Another piece, and an isolated node: left out, or all but the latter.
    W = sparse.block_diag([W, np.ones((5, 5)) - np.eye(5), [[0.0]]], format="csr")
    groups = np.append(groups, [0, 1, 2, 0, 1, 2])
    model = fit(
        W,
        groups,
        solver=solver,
        regularization=regularization,
        connected_components="largest",
        assign_labels="fair",
        refine=False,
    )
    labels = model.predict(W, sensitive_features=groups)
    # But for rows at which two clusters cost the same.
    assert (labels != model.labels_).sum() <= 3 * 4
    assert model.assignment_.n_moved > 3 * 4
    assert (labels == -1).sum() == 6
    for group in (1, 2):  # the groups are those of the fit, and pay its prices
        rows = np.flatnonzero(groups == group)
        some = model.predict(W[rows], sensitive_features=groups[rows])
        np.testing.assert_array_equal(some, labels[rows])


@pytest.mark.parametrize("keep", [aslinearoperator, lambda W: [dask.delayed(W)]])
def test_any_storage_pickled_and_names_of_groups(planted, keep):
    W, groups = planted.graph, planted.sensitive_features
    names = np.array(["south", "north", "west"])[groups]
    model = pickle.loads(pickle.dumps(fit(keep(W), names, regularization=0.1)))
    new = W[:50]
    first = model.predict(new, sensitive_features=names[:50])
    np.testing.assert_array_equal(first, model.labels_[:50])
    for A in (new.toarray(), sparse.coo_matrix(new), 1 * new):
        again = model.predict(A, sensitive_features=list(names[:50]))
        np.testing.assert_array_equal(again, first)
    alone = [model.predict(new[[i]], sensitive_features=names[[i]]) for i in range(5)]
    np.testing.assert_array_equal(np.ravel(alone), first[:5])


@pytest.mark.parametrize("regularization", [0.0, 0.1])
def test_held_out_nodes(planted, regularization):
    W, groups, target = planted.graph, planted.sensitive_features, planted.target
    new = np.arange(600) % 10 == 0
    model = fit(W[~new][:, ~new], groups[~new], regularization=regularization)
    rows = W[new][:, ~new]
    for new_groups in (groups[new], None):
        labels = model.predict(rows, sensitive_features=new_groups)
        assert adjusted_rand_score(target[new], labels) > 0.95
        assert balance_score(labels, sensitive_features=groups[new]) > 0.3


@pytest.mark.parametrize(
    ("affinity", "regularization"), [("rbf", 0.0), ("rbf_nystroem", 0.5)]
)
def test_kernels(affinity, regularization):
    X, blob = make_blobs(700, n_features=3, centers=4, random_state=3)
    groups = np.arange(700) % 3
    X, new, target = X[:600], X[600:], blob[600:]
    model = fit(
        X,
        groups[:600],
        affinity=affinity,
        gamma=0.3,
        n_landmarks=80,
        regularization=regularization,
    )
    labels = model.predict(X, sensitive_features=groups[:600])
    np.testing.assert_array_equal(labels, model.labels_)
    labels = model.predict(new, sensitive_features=groups[600:])
    assert adjusted_rand_score(target, labels) == 1
    if not regularization:
        with pytest.raises(ValueError, match=r"1 of 2 new nodes.*first: 1\)"):
            model.predict([new[0], new[0] + 1e3])


@pytest.mark.parametrize("method", ["exact", "approximate", "transformer", "stored"])
def test_nearest_neighbors(method, monkeypatch):
    X, blob = make_blobs(1650, n_features=4, centers=3, random_state=1)
    groups = np.arange(1650) % 2
    options = {"affinity": "nearest_neighbors", "connected_components": "all"}
    transformer = KNeighborsTransformer(n_neighbors=10)
    if method == "exact":
        X *= 1e200  # whose squares overflow
    if method == "approximate":
        pytest.importorskip("faiss", reason="needs the extra neighbors")
        monkeypatch.setattr(_neighbors, "N_EXACT_ROWS", 10)
    X, new = X[:1500], X[1500:]
    if method == "stored":
        options["affinity"] = "precomputed_nearest_neighbors"
        X, new = transformer.fit_transform(X), transformer.transform(new)
    else:
        options["neighbors"] = transformer if method == "transformer" else method
    model = fit(X, groups[:1500], 3, **options)
    labels = model.predict(new, sensitive_features=groups[1500:])
    assert adjusted_rand_score(blob[:1500], model.labels_) > 0.95
    assert adjusted_rand_score(blob[1500:], labels) > 0.95


@pytest.fixture(scope="module")
def coarse(planted):
    """A fit that is not precise."""
    W, groups = planted.graph, planted.sensitive_features
    return fit(W, groups, tol=1e-2, n_init=1)


@pytest.mark.parametrize(
    ("change", "groups", "message"),
    [
        (lambda W: W[:, :-1], 0, "599 features, but FairSpectral.* expecting 600"),
        (lambda W: -W, 0, "Negative values in data.*row 0, column"),
        (lambda W: W * np.nan, 0, "NaN"),
        (lambda W: W * [[0], [0], [1]], 0, r"2 of 3 new nodes have.*first: 0\)"),
        (lambda W: W, 7, r"1 group\(s\) that fit did not see: 7. It saw 0, 1, 2"),
        (lambda W: W[:2], 0, "3 groups for 2 samples"),
        (lambda W: W * 1e-320, 0, "another unit"),
    ],
)
def test_bad_rows(planted, coarse, change, groups, message):
    rows = change(planted.graph[:3].toarray())
    with pytest.raises(ValueError, match=message):
        coarse.predict(rows, sensitive_features=[groups, 1, 2])


def test_what_cannot_be_predicted(planted):
    W, groups = planted.graph, planted.sensitive_features
    with pytest.warns(ConvergenceWarning):
        model = fit(W, groups, solver="admm", tol=1e-2)
    with pytest.raises(ValueError, match="admm"):
        model.predict(W)
    # All eigenvalues but 1 and -1 are 0.
    bipartite = 1 - np.kron(np.eye(2), np.ones((6, 6)))
    model = fit(bipartite, np.arange(12) % 2, 3, solver="chebyshev")
    with pytest.raises(ValueError, match=r"2 of 3 eigenvalues are too near 0.*lower"):
        model.predict(bipartite)
