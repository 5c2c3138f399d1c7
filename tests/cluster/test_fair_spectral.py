"""FairSpectralClustering: correctness, invariances, parameters."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import null_space, orth, subspace_angles
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering, _solvers
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.datasets import (
    fetch_deezer_europe,
    fetch_facebooknet,
    fetch_lastfm_asia,
    make_fair_sbm,
)
from scalefair.metrics import balance_score
from scalefair.operators import NormalizedAffinity

from ..conftest import normalized, one_hot, with_long_indices


@pytest.fixture(scope="module")
def named(graphs):
    return {
        "block model": graphs.block_model(240),
        "path": graphs.path(150),
        "star": graphs.star(120),
        "complete": graphs.complete(90),  # all eigenvalues but one are negative
        "nearly disconnected": graphs.two_cliques(60, 1e-6),
        "isolated": sparse.block_diag(
            [graphs.block_model(240), sparse.csr_array((3, 3))], format="csr"
        ),
    }


def _dense_reference(W, groups, k, regularization=0.0):
    """Eigenvalues of Z^T M Z from the definitions, nothing shared with the package."""
    W = W.toarray()
    W += regularization * W.mean()
    G = one_hot(*np.reshape(groups, (len(W), -1)).T)
    F = (G - G.mean(axis=0)) / np.sqrt(W.sum(axis=1))[:, None]
    M = normalized(W)
    Z = null_space(F.T)
    values, Y = np.linalg.eigh(Z.T @ M @ Z)
    return values[::-1][:k], (Z @ Y)[:, ::-1][:, :k], F, M


def _groups(n, h, seed=0):
    rng = np.random.RandomState(seed)
    return rng.permutation(np.arange(n) % h)


# Each solver on two graphs: tests/linalg has them all.
@pytest.mark.filterwarnings(
    "ignore:The clusters are of very different sizes", "ignore:A cluster of .* balance"
)
@pytest.mark.parametrize(
    ("solver", "name", "h", "regularization"),
    [
        ("nullspace", "block model", 2, 0.0),
        ("lanczos", "complete", 5, 0.0),
        ("chebyshev", "nearly disconnected", 8, 0.0),
        ("lobpcg", "path", 5, 0.0),
        ("dual", "complete", 2, 0.0),
        ("nullspace", "isolated", 3, 0.3),
        ("lanczos", "path", 3, 0.3),
        ("chebyshev", "isolated", 3, 0.3),
        ("lobpcg", "star", 3, 0.3),
        ("dual", "isolated", 3, 0.3),
        ("nullspace", "block model", "each", 0.0),
        ("chebyshev", "operator", "each", 0.0),
        ("lobpcg", "block model", "each", 0.1),
    ],
)
def test_solvers_agree_with_dense_reference(solver, name, h, regularization, named):
    W = named["block model" if name == "operator" else name]
    n, k, tol = W.shape[0], 5, 1e-6
    options = PAPERS_METHOD | {"regularization": regularization}
    if h == "each":
        groups = np.column_stack([_groups(n, 2), _groups(n, 3, seed=1)])
        options["attributes"] = "each"
    else:
        groups = _groups(n, h)
        groups[groups == h - 1] = 0
        groups[17] = h - 1  # a group of one node
    model = FairSpectralClustering(k, solver=solver, tol=tol, random_state=0, **options)
    A = aslinearoperator(W) if name == "operator" else W
    model.fit(A, sensitive_features=groups)
    if A is W:
        assert model.affinity_matrix_.nnz == W.nnz  # nothing is filled in
    values, vectors, F, M = _dense_reference(W, groups, k, regularization)
    H = model.embedding_
    assert_allclose(model.eigenvalues_, values, atol=2 * tol)
    assert_allclose(H.T @ H, np.eye(k), atol=1e-10)
    assert np.linalg.norm(F.T @ H) < 1e-10
    assert model.fairness_violation_ < 1e-10
    assert model.converged_
    assert model.solver_ == solver
    # Residuals on the fair subspace, measured here.
    Q = orth(F)
    MH = M @ H
    R = MH - Q @ (Q.T @ MH) - H * model.eigenvalues_
    assert_allclose(model.residuals_, np.linalg.norm(R, axis=0), rtol=1e-3, atol=1e-9)
    assert np.linalg.norm(R, axis=0).max() <= tol * 1.001
    gap = values[-1] - _dense_reference(W, groups, k + 1, regularization)[0][-1]
    if gap > 1e-3:
        assert subspace_angles(H, vectors).max() < 10 * tol / gap


@pytest.mark.parametrize(
    ("tol", "same", "keep"),
    [
        (1e-4, "float32", sparse.csr_array),
        (1e-6, "float64", sparse.csr_array),
        (1e-4, "float64", aslinearoperator),  # is not asked for float32
    ],
)
def test_dtype_is_chosen_by_size_and_tolerance(tol, same, keep, planted, monkeypatch):
    monkeypatch.setattr(_solvers, "MIN_SINGLE_NODES", 100)
    groups = planted.sensitive_features
    options = {"solver": "chebyshev", "tol": tol, "random_state": 0}
    auto, other = (
        FairSpectralClustering(4, dtype=dtype, **options).fit(
            keep(planted.graph), sensitive_features=groups
        )
        for dtype in ("auto", same)
    )
    assert_array_equal(auto.embedding_, other.embedding_)
    assert auto.n_products_ == other.n_products_


def test_unweighted_graphs_are_not_copied():
    sizes = {"n_clusters": 2, "n_groups": 2, "average_degree": 150}
    data = make_fair_sbm(4000, **sizes, random_state=0)
    groups = data.sensitive_features
    model = FairSpectralClustering(2, tol=1e-3, n_init=1, random_state=0)
    results = []
    for weights in (np.float64, bool):
        W = data.graph.astype(weights)
        model.fit(W[:300][:, :300], sensitive_features=groups[:300])  # compiles
        tracemalloc.start()
        model.fit(W, sensitive_features=groups)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * W.nnz  # a copy of the entries takes 4 bytes each, or 8
        assert model.affinity_matrix_.dtype == np.float64
        results.append((model.labels_.copy(), model.embedding_))
    (labels, H), (same_labels, same_H) = results
    assert_array_equal(labels, same_labels)
    assert_allclose(H, same_H, atol=1e-10)


@pytest.mark.filterwarnings("ignore:The clusters are of very different sizes")
def test_input_formats_agree(planted):
    W = planted.graph[:400][:, :400]
    groups = planted.sensitive_features[:400]
    keep = np.diff(W.indptr) > 0
    W, groups = sparse.csr_array(W[keep][:, keep]), groups[keep]
    options = {"solver": "chebyshev", "random_state": 0, "connected_components": "all"}
    expected = FairSpectralClustering(3, **options).fit(W, sensitive_features=groups)
    unsorted = sparse.csr_array(W[:, ::-1].tocoo().tocsr()[:, ::-1])
    # Entries stored three times, sorted, negative by themselves, and with zeros.
    coo = W.tocoo()
    i, j = (np.tile(c, 4) for c in coo.coords)
    order = np.lexsort((j, i))
    values = np.concatenate([3 * coo.data, -coo.data, -coo.data, 0 * coo.data])[order]
    parts = sparse.csr_array((values, j[order], 4 * W.indptr), shape=W.shape)
    i, j = np.argwhere(W.toarray() == 0)[5]
    zeros = sparse.csr_array(W + sparse.csr_array(([1.0], ([i], [j])), W.shape))
    zeros[i, j] = 0.0
    formats = [W.tocsc(), sparse.csr_matrix(W), W.toarray(), W.astype(bool)]
    for other in [*formats, unsorted, with_long_indices(W), zeros, parts]:
        model = FairSpectralClustering(3, **options)
        model.fit(other, sensitive_features=groups)
        assert_allclose(model.eigenvalues_, expected.eigenvalues_, atol=1e-8)
        assert_array_equal(model.labels_, expected.labels_)
        assert model.affinity_matrix_.nnz == W.nnz
    assert zeros.nnz == W.nnz + 1  # the input is not modified
    assert parts.nnz == 4 * W.nnz


@pytest.mark.parametrize("solver", ["auto", "chebyshev", "dual"])
def test_one_cluster_many_and_too_many(solver, graphs):
    W, groups = graphs.path(30), {"sensitive_features": np.arange(30) % 4}
    model = FairSpectralClustering(28, solver=solver)
    with pytest.raises(ValueError, match="choose n_clusters <= 27"):
        model.fit(W, **groups)
    model.set_params(n_clusters=27).fit(W, **groups)
    assert model.embedding_.shape == (30, 27)
    assert model.fairness_violation_ < 1e-10
    model.set_params(n_clusters=1, solver="auto", **PAPERS_METHOD).fit(W, **groups)
    assert (model.labels_ == 0).all()
    assert_allclose(model.eigenvalues_, [1])


def test_nullspace_refuses_what_cannot_fit(graphs):
    n = 40_000
    model = FairSpectralClustering(2, solver="nullspace")
    with pytest.raises(ValueError, match=r"36 GiB; use solver=\"chebyshev\""):
        model.fit(graphs.path(n), sensitive_features=np.arange(n) % 2)


@pytest.mark.parametrize("solver", ["chebyshev", "lanczos", "dual"])
def test_no_convergence_is_said(solver, graphs):
    model = FairSpectralClustering(
        8, solver=solver, max_iter=1, tol=1e-10, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*raise"):
        model.fit(graphs.path(800), sensitive_features=np.arange(800) % 3)
    assert not model.converged_
    assert model.residuals_.max() > 1e-10
    assert model.fairness_violation_ < 1e-10
    assert_allclose(model.embedding_.T @ model.embedding_, np.eye(8), atol=1e-10)


@pytest.fixture(scope="module")
def people():
    """Graph of 240 nodes, and three attributes of these."""
    sizes = {"n_clusters": 4, "n_groups": 2, "average_degree": 30}
    data = make_fair_sbm(240, **sizes, random_state=0)
    groups = pd.DataFrame({"sex": data.sensitive_features})
    groups["race"] = np.array(["x", "y", "z"])[_groups(240, 3)]
    groups["old"] = np.random.default_rng(0).random(240) < 0.2
    return data.graph, groups


def fit_each(W, groups, **options):
    options = {"attributes": "each", "tol": 1e-8, "random_state": 0} | options
    model = FairSpectralClustering(4, **PAPERS_METHOD | options)
    return model.fit(W, sensitive_features=groups)


def test_one_attribute_twice_is_once(people):
    W, groups = people
    race = groups["race"].to_numpy()
    once = fit_each(W, race[:, None])
    assert once.groups_.tolist() == ["x", "y", "z"]  # no list of one
    for more in (race, np.where(race == "x", "b", "a")):  # and a coarser one
        twice = fit_each(W, np.column_stack([more, race]))
        assert subspace_angles(once.embedding_, twice.embedding_).max() < 1e-6
        assert_array_equal(twice.labels_, once.labels_)


def test_joint_is_stricter_where_attributes_are_independent(people):
    W, _ = people
    pair = np.column_stack([np.arange(240) // 2 % 2, np.arange(240) % 2])
    separate, joint = fit_each(W, pair), fit_each(W, pair, attributes="joint")
    assert [len(groups) for groups in separate.groups_] == [2, 2]
    balances = balance_score(
        separate.labels_, average=None, sensitive_features=pair, attributes="each"
    )
    assert_array_equal(separate.balance_, balances)
    assert separate.eigenvalues_.sum() > joint.eigenvalues_.sum() + 1e-6
    # Combinations are orthogonal to less: what "joint" forbids, "each" forbids, too.
    F = _dense_reference(W, pair, 4)[2]
    assert np.linalg.norm(F.T @ joint.embedding_) < 1e-12


def test_nodes_of_the_fit_get_their_labels_again(people):
    W, groups = people
    # Groups that follow the clusters have to be moved, at prices.
    groups = groups.assign(old=np.arange(240) % 5 == 0, half=np.arange(240) < 96)
    model = fit_each(W, groups, assign_labels="fair", refine=False)
    labels = model.predict(W, sensitive_features=groups)
    assert (labels != model.labels_).mean() <= 0.05
    with pytest.raises(ValueError, match="fit saw 4"):
        model.predict(W, sensitive_features=groups["sex"])
    with pytest.raises(ValueError, match=r"group_probabilities has 1 .* fit saw 4"):
        model.predict(W, group_probabilities=np.eye(2)[np.arange(240) % 2])


def test_more_groups_of_attributes_than_nodes():
    with pytest.raises(ValueError, match="n_clusters"):
        fit_each(np.ones((4, 4)), [[0, 0], [0, 1], [1, 0], [1, 1]])


def _recorded(event):
    return lambda self, estimator, context: self.events.append(
        (event, context.task_name)
    )


class _Recorder:
    """Callback that writes down which tasks begin and end."""

    def __init__(self):
        self.events = []

    setup, teardown = _recorded("setup"), _recorded("teardown")
    on_fit_task_begin, on_fit_task_end = _recorded("begin"), _recorded("end")


has_callbacks = pytest.mark.skipif(
    not hasattr(FairSpectralClustering, "set_callbacks"),
    reason="scikit-learn has callbacks from 1.9 on",
)


@has_callbacks
@pytest.mark.parametrize("solver", ["nullspace", "chebyshev"])
def test_callbacks_see_every_phase(solver, named):
    recorder = _Recorder()
    model = FairSpectralClustering(3, solver=solver, random_state=0)
    model.set_callbacks(recorder)
    model.fit(named["block model"], sensitive_features=_groups(240, 2))
    phases = [e for e in recorder.events if e[1] != "part"]
    tasks = [("setup", "fit"), ("begin", "fit")]
    for name in ("affinity", "eigenvectors", "labels"):
        tasks += [("begin", name), ("end", name)]
    assert phases == [*tasks, ("end", "fit"), ("teardown", "fit")]
    if solver != "nullspace":
        assert recorder.events.count(("end", "part")) == 3
    with pytest.raises(ValueError, match="asymmetric"):
        model.fit(np.triu(np.ones((9, 9))), sensitive_features=np.arange(9) % 2)
    assert recorder.events[-1] == ("teardown", "fit")


def on_real_graphs(test):
    """Numbers of the published method, whose clusters are what the warnings say."""
    sizes = "ignore:The clusters are of very different sizes"
    balance = "ignore:A cluster of .* balance:UserWarning"
    return pytest.mark.realdata(pytest.mark.filterwarnings(sizes, balance)(test))


def published(data, k, **options):
    options = {**PAPERS_METHOD, "connected_components": "largest", **options}
    model = FairSpectralClustering(k, random_state=0, **options)
    return model.fit(data.graph, sensitive_features=data.sensitive_features)


# Tonin et al. (2025), table 9: 0.126, 14.114, 37.084.
@on_real_graphs
@pytest.mark.parametrize("solver", ["nullspace", "lanczos", "chebyshev", "dual"])
@pytest.mark.parametrize(("k", "cost"), [(2, 0.1261), (25, 14.1136), (50, 37.0845)])
def test_facebooknet_relaxed_cost(solver, k, cost):
    model = published(fetch_facebooknet(), k, solver=solver, tol=1e-9)
    kept = model.labels_ >= 0
    assert kept.sum() == 155
    assert k - model.eigenvalues_.sum() == pytest.approx(cost, abs=5e-5)
    assert model.fairness_violation_ < 1e-12
    # Tr(H^T L H) of the returned embedding, not of the returned values.
    W = sparse.csr_array(model.affinity_matrix_[kept][:, kept])
    H = model.embedding_[kept]
    relaxed = k - np.trace(H.T @ (NormalizedAffinity(W) @ H))
    assert relaxed == pytest.approx(cost, abs=5e-5)


@on_real_graphs
def test_facebooknet_limit_of_algorithm_1():
    # It enforces F^T M H = 0: not the fair optimum 0.1261.
    model = published(fetch_facebooknet(), 2, solver="admm", tol=1e-6, max_iter=200)
    assert model.converged_
    assert 2 - model.eigenvalues_.sum() == pytest.approx(0.2056, abs=5e-5)
    assert model.history_["constraint_product"][-1] < 1e-4
    assert model.fairness_violation_ > 1e-2


@on_real_graphs
@pytest.mark.parametrize("solver", ["lanczos", "chebyshev", "dual"])
def test_lastfm_trace(solver):
    data = fetch_lastfm_asia()
    model = published(data, 25, solver=solver, tol=1e-6)
    assert (model.labels_ >= 0).sum() == 5576
    assert model.eigenvalues_.sum() == pytest.approx(23.35069, abs=5e-6)


@on_real_graphs
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("tol", "accuracy"), [(1e-3, 2.5e-3), (1e-4, 1e-4)])
def test_deezer_trace(dtype, tol, accuracy):
    model = published(fetch_deezer_europe(), 25, tol=tol, dtype=dtype)
    assert model.eigenvalues_.sum() == pytest.approx(24.79242, abs=accuracy)
    assert model.residuals_.max() <= tol
    assert model.solver_ == "chebyshev"
