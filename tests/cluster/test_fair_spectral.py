"""FairSpectralClustering: correctness, invariances, parameters."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import null_space, subspace_angles
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score

SOLVERS = ["nullspace", "lanczos", "chebyshev", "lobpcg", "dual"]


def _nearly_disconnected(n):
    half = n // 2
    block = np.ones((half, half)) - np.eye(half)
    W = sparse.lil_array(sparse.block_diag([block, block]))
    W[0, half] = W[half, 0] = 1e-6
    return sparse.csr_array(W)


NAMES = ["block model", "k-NN", "path", "star", "cycle", "nearly disconnected"]


@pytest.fixture(scope="module")
def named(graphs):
    A = kneighbors_graph(np.random.RandomState(3).standard_normal((240, 3)), 12)
    sbm = make_fair_sbm(
        240, n_clusters=4, n_groups=3, average_degree=30, random_state=5
    )
    return {
        "block model": sbm.graph,
        "k-NN": sparse.csr_array((A + A.T) / 2),
        "path": graphs.path(150),
        "star": graphs.star(120),
        "cycle": graphs.cycle(150),
        "nearly disconnected": _nearly_disconnected(120),
    }


def _dense_reference(W, groups, k):
    """Eigenvalues of Z^T M Z from the definitions, nothing shared with the package."""
    W = W.toarray()
    d = W.sum(axis=1)
    M = W / np.sqrt(np.outer(d, d))
    G = (np.asarray(groups)[:, None] == np.unique(groups)).astype(float)
    F = (G - G.mean(axis=0)) / np.sqrt(d)[:, None]
    Z = null_space(F.T)
    values, Y = np.linalg.eigh(Z.T @ M @ Z)
    return values[::-1][:k], (Z @ Y)[:, ::-1][:, :k], F, M


def _groups(n, h, seed=0):
    rng = np.random.RandomState(seed)
    return rng.permutation(np.arange(n) % h)


# Each solver on each graph, and all numbers of groups with each of both.
@pytest.mark.parametrize(
    ("solver", "name", "h"),
    [
        (solver, name, (2, 5, 8)[(i + j) % 3])
        for i, solver in enumerate(SOLVERS)
        for j, name in enumerate(NAMES)
    ],
)
def test_solvers_agree_with_dense_reference(solver, name, h, named):
    W = named[name]
    n, k, tol = W.shape[0], 5, 1e-6
    groups = _groups(n, h)
    model = FairSpectralClustering(k, solver=solver, tol=tol, random_state=0)
    model.fit(W, sensitive_features=groups)
    values, vectors, F, M = _dense_reference(W, groups, k)
    H = model.embedding_
    np.testing.assert_allclose(model.eigenvalues_, values, atol=2 * tol)
    np.testing.assert_allclose(H.T @ H, np.eye(k), atol=1e-10)
    assert np.linalg.norm(F.T @ H) < 1e-10
    assert model.fairness_violation_ == pytest.approx(
        np.linalg.norm(F.T @ H), abs=1e-12
    )
    assert model.converged_
    assert model.solver_ == solver
    # Residuals on the fair subspace, measured here.
    Q, _ = np.linalg.qr(F[:, :-1])
    MH = M @ H
    R = MH - Q @ (Q.T @ MH) - H * model.eigenvalues_
    np.testing.assert_allclose(
        model.residuals_, np.linalg.norm(R, axis=0), rtol=1e-3, atol=1e-9
    )
    assert np.linalg.norm(R, axis=0).max() <= tol * 1.001
    gap = values[-1] - _dense_reference(W, groups, k + 1)[0][-1]
    if gap > 1e-3:
        assert subspace_angles(H, vectors).max() < 10 * tol / gap


@pytest.mark.parametrize("solver", SOLVERS)
def test_group_of_one_node(solver, named):
    W = named["k-NN"]
    groups = np.zeros(W.shape[0], int)
    groups[17] = 1
    model = FairSpectralClustering(4, solver=solver, tol=1e-8, random_state=0)
    model.fit(W, sensitive_features=groups)
    values = _dense_reference(W, groups, 4)[0]
    np.testing.assert_allclose(model.eigenvalues_, values, atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_constrained_directions_cannot_enter(solver):
    # All fair eigenvalues but the first are negative; span F must stay out.
    n = 90
    W = sparse.csr_array(np.ones((n, n)) - np.eye(n))
    groups = _groups(n, 6)
    model = FairSpectralClustering(5, solver=solver, tol=1e-8, random_state=0)
    model.fit(W, sensitive_features=groups)
    np.testing.assert_allclose(model.eigenvalues_, [1] + [-1 / (n - 1)] * 4, atol=1e-10)
    assert model.fairness_violation_ < 1e-12


@pytest.fixture(scope="module")
def planted():
    return make_fair_sbm(
        3000, n_clusters=5, n_groups=3, average_degree=40, random_state=1
    )


@pytest.mark.parametrize("solver", ["auto", "lanczos", "chebyshev"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, "float32"])
def test_planted_clusters_are_found(planted, solver, dtype):
    model = FairSpectralClustering(5, solver=solver, dtype=dtype, random_state=0)
    groups = planted.sensitive_features
    labels = model.fit_predict(planted.graph, sensitive_features=groups)
    assert adjusted_rand_score(planted.target, labels) > 0.99
    assert balance_score(labels, sensitive_features=groups) > 0.97
    assert model.fairness_violation_ < 1e-12
    assert model.embedding_.dtype == np.float64
    assert labels is model.labels_


def test_float32_agrees_with_float64(planted):
    fits = [
        FairSpectralClustering(
            5, solver="chebyshev", dtype=dtype, tol=1e-7, random_state=0
        ).fit(planted.graph, sensitive_features=planted.sensitive_features)
        for dtype in (np.float32, np.float64)
    ]
    np.testing.assert_allclose(
        fits[0].eigenvalues_, fits[1].eigenvalues_, rtol=0, atol=1e-9
    )
    assert fits[0].residuals_.max() <= 1e-7
    assert subspace_angles(fits[0].embedding_, fits[1].embedding_).max() < 1e-5


def test_input_formats_agree(planted):
    W = planted.graph[:400][:, :400]
    groups = planted.sensitive_features[:400]
    keep = np.diff(W.indptr) > 0
    W, groups = sparse.csr_array(W[keep][:, keep]), groups[keep]
    options = {"solver": "chebyshev", "random_state": 0, "connected_components": "all"}
    expected = FairSpectralClustering(3, **options).fit(W, sensitive_features=groups)
    unsorted = W.copy()
    for i in range(W.shape[0]):
        row = slice(W.indptr[i], W.indptr[i + 1])
        unsorted.indices[row] = unsorted.indices[row][::-1]
    unsorted.has_sorted_indices = False
    wide = sparse.csr_array(
        (W.data, W.indices.astype(np.int64), W.indptr.astype(np.int64)), W.shape
    )
    i, j = np.argwhere(W.toarray() == 0)[5]
    coo = W.tocoo()
    rows, columns = (
        np.append(c, p) for c, p in zip(coo.coords, ([i, j], [j, i]), strict=True)
    )
    zeros = sparse.csr_array((np.append(coo.data, [0, 0]), (rows, columns)), W.shape)
    # Entries stored three times, sorted, negative by themselves.
    i, j = (np.tile(c, 3) for c in coo.coords)
    order = np.lexsort((j, i))
    values = np.concatenate([3 * coo.data, -coo.data, -coo.data])[order]
    parts = sparse.csr_array((values, j[order], 3 * W.indptr), shape=W.shape)
    formats = [
        W.tocsc(),
        W.tocoo(),
        W.tolil(),
        W.todok(),
        W.tobsr(),
        sparse.csr_matrix(W),
        W.toarray(),
        W.astype(np.int32),
        W.astype(bool),
        unsorted,
        wide,
        zeros,
        parts,
    ]
    for other in formats:
        model = FairSpectralClustering(3, **options)
        model.fit(other, sensitive_features=groups)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, atol=1e-8)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        assert model.affinity_matrix_.nnz == W.nnz
    assert zeros.nnz == W.nnz + 2  # the input is not modified
    assert parts.nnz == 3 * W.nnz


# --- Invariances -------------------------------------------------------------


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10_000),
    h=st.integers(2, 5),
    factor=st.floats(1e-6, 1e6),
    solver=st.sampled_from(SOLVERS),
)
def test_permutation_renaming_and_scaling(seed, h, factor, solver):
    rng = np.random.RandomState(seed)
    data = make_fair_sbm(
        180, n_clusters=3, n_groups=2, average_degree=24, random_state=seed
    )
    W, groups = data.graph, rng.permutation(np.arange(180) % h)
    order = rng.permutation(180)
    names = np.array(["e", "b", "d", "a", "c"])
    options = {
        "solver": solver,
        "tol": 1e-8,
        "random_state": 0,
        "connected_components": "largest",
    }
    fits = [
        FairSpectralClustering(3, **options).fit(A, sensitive_features=g)
        for A, g in (
            (W, groups),
            (sparse.csr_array(W[order][:, order]), groups[order]),
            (W, names[groups]),
            (W * factor, groups),
        )
    ]
    projectors = [model.embedding_ @ model.embedding_.T for model in fits]
    for model in fits[1:]:
        np.testing.assert_allclose(model.eigenvalues_, fits[0].eigenvalues_, atol=1e-7)
    full = _dense_reference_values(W, groups, 4)
    if full[2] - full[3] > 1e-2:  # otherwise the subspace is not determined
        P = projectors[0]
        np.testing.assert_allclose(projectors[1], P[order][:, order], atol=1e-5)
        np.testing.assert_allclose(projectors[2], P, atol=1e-5)
        np.testing.assert_allclose(projectors[3], P, atol=1e-5)


def _dense_reference_values(W, groups, k):
    from scipy.sparse.csgraph import connected_components

    _, component = connected_components(W)
    kept = component == np.bincount(component).argmax()
    return _dense_reference(sparse.csr_array(W[kept][:, kept]), groups[kept], k)[0]


# --- Components --------------------------------------------------------------


def test_more_components_than_clusters():
    # Eigenvalue 1 is repeated 40 times, more than the block has columns.
    cliques = [np.ones((20, 20)) - np.eye(20)] * 40
    W = sparse.csr_array(sparse.block_diag(cliques))
    model = FairSpectralClustering(
        4, connected_components="all", solver="chebyshev", random_state=0
    ).fit(W, sensitive_features=np.arange(800) % 2)
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=1e-8)


# --- Errors and warnings -----------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_too_many_clusters(solver, graphs):
    groups = np.arange(30) % 4
    model = FairSpectralClustering(28, solver=solver)
    with pytest.raises(ValueError, match="choose n_clusters <= 27"):
        model.fit(graphs.path(30), sensitive_features=groups)
    model.set_params(n_clusters=27).fit(graphs.path(30), sensitive_features=groups)
    assert model.embedding_.shape == (30, 27)
    assert model.fairness_violation_ < 1e-10


def test_one_cluster(graphs):
    model = FairSpectralClustering(1).fit(
        graphs.path(30), sensitive_features=np.arange(30) % 2
    )
    assert (model.labels_ == 0).all()
    np.testing.assert_allclose(model.eigenvalues_, [1])


def test_nullspace_refuses_what_cannot_fit(graphs):
    n = 40_000
    model = FairSpectralClustering(2, solver="nullspace")
    with pytest.raises(ValueError, match=r"36 GiB; use solver=\"chebyshev\""):
        model.fit(graphs.path(n), sensitive_features=np.arange(n) % 2)


@pytest.mark.parametrize(("solver", "max_iter"), [("chebyshev", 1), ("lanczos", 1)])
def test_no_convergence_is_said(solver, max_iter, graphs):
    model = FairSpectralClustering(
        8, solver=solver, max_iter=max_iter, tol=1e-10, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*raise"):
        model.fit(graphs.path(2000), sensitive_features=np.arange(2000) % 3)
    assert not model.converged_
    assert np.isfinite(model.embedding_).all()
    assert model.residuals_.max() > 1e-10
    assert model.fairness_violation_ < 1e-10
    np.testing.assert_allclose(
        model.embedding_.T @ model.embedding_, np.eye(8), atol=1e-10
    )


# --- scikit-learn's conventions ----------------------------------------------


class _Recorder:
    """Callback that writes down which tasks begin and end."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context):
        self.events.append(("end", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))


@pytest.mark.parametrize("solver", SOLVERS)
def test_callbacks_see_every_phase(solver, named):
    recorder = _Recorder()
    model = FairSpectralClustering(3, solver=solver, random_state=0)
    model.set_callbacks(recorder)
    model.fit(named["block model"], sensitive_features=_groups(240, 2))
    phases = [e for e in recorder.events if e[1] != "part"]
    assert phases == [
        ("setup", "fit"),
        ("begin", "fit"),
        ("begin", "affinity"),
        ("end", "affinity"),
        ("begin", "eigenvectors"),
        ("end", "eigenvectors"),
        ("begin", "labels"),
        ("end", "labels"),
        ("end", "fit"),
        ("teardown", "fit"),
    ]
    if solver != "nullspace":
        assert recorder.events.count(("end", "part")) == 3


def test_callbacks_are_torn_down_after_an_error():
    recorder = _Recorder()
    model = FairSpectralClustering(3).set_callbacks(recorder)
    with pytest.raises(ValueError, match="asymmetric"):
        model.fit(np.triu(np.ones((9, 9))), sensitive_features=np.arange(9) % 2)
    assert recorder.events[-1] == ("teardown", "fit")


def test_metadata_routing():
    import sklearn
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.RandomState(0).standard_normal((80, 3))
    with sklearn.config_context(enable_metadata_routing=True):
        model = FairSpectralClustering(
            2, affinity="nearest_neighbors", connected_components="all"
        ).set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(StandardScaler(), model)
        pipeline.fit(X, sensitive_features=np.arange(80) % 2)
    assert pipeline[-1].labels_.shape == (80,)


def test_data_frame_of_features():
    pandas = pytest.importorskip("pandas")
    X = np.random.RandomState(0).standard_normal((80, 2))
    model = FairSpectralClustering(
        2, affinity="nearest_neighbors", connected_components="all", random_state=0
    )
    frame = pandas.DataFrame(X, columns=["age", "height"])
    labels = model.fit_predict(frame, sensitive_features=np.arange(80) % 2)
    assert list(model.feature_names_in_) == ["age", "height"]
    np.testing.assert_array_equal(
        labels, model.fit_predict(X, sensitive_features=np.arange(80) % 2)
    )
    model.fit(frame, sensitive_features=np.arange(80) % 2)
    W = aslinearoperator(np.exp(-abs(X[:, :1] - X[:, 0])))
    model.set_params(affinity="precomputed").fit(
        W, sensitive_features=np.arange(80) % 2
    )
    assert model.n_features_in_ == 80
    assert not hasattr(model, "feature_names_in_")  # of the earlier fit
