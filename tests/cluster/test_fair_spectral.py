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

from scalefair.cluster import (
    CoordinateDescentFairClustering,
    FairSpectralClustering,
    UnifiedFairSpectralClustering,
)
from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score

SOLVERS = ["nullspace", "lanczos", "chebyshev", "lobpcg", "dual"]


def _path(n):
    return sparse.csr_array(
        sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    )


def _star(n):
    W = sparse.lil_array((n, n))
    W[0, 1:] = 1
    W[1:, 0] = 1
    return sparse.csr_array(W)


def _cycle(n):
    W = sparse.lil_array(_path(n))
    W[0, n - 1] = W[n - 1, 0] = 1
    return sparse.csr_array(W)


def _nearly_disconnected(n):
    half = n // 2
    block = np.ones((half, half)) - np.eye(half)
    W = sparse.lil_array(sparse.block_diag([block, block]))
    W[0, half] = W[half, 0] = 1e-6
    return sparse.csr_array(W)


def _knn(n):
    X = np.random.RandomState(3).standard_normal((n, 3))
    A = kneighbors_graph(X, 12)
    return sparse.csr_array((A + A.T) / 2)


def _sbm(n):
    return make_fair_sbm(
        n, n_clusters=4, n_groups=3, average_degree=30, random_state=5
    ).graph


GRAPHS = {
    "block model": _sbm(240),
    "k-NN": _knn(240),
    "path": _path(150),
    "star": _star(120),
    "cycle": _cycle(150),
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
        for j, name in enumerate(GRAPHS)
    ],
)
def test_solvers_agree_with_dense_reference(solver, name, h):
    W = GRAPHS[name]
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
def test_group_of_one_node(solver):
    W = GRAPHS["k-NN"]
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
    labels = model.fit_predict(
        planted.graph, sensitive_features=planted.sensitive_features
    )
    assert adjusted_rand_score(planted.target, labels) > 0.99
    assert balance_score(labels, sensitive_features=planted.sensitive_features) > 0.97
    assert model.fairness_violation_ < 1e-12
    assert model.embedding_.dtype == np.float64
    assert labels is model.labels_
    assert list(model.groups_) == [0, 1, 2]


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
    assert zeros.nnz == W.nnz + 2
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
    ]
    for other in formats:
        model = FairSpectralClustering(3, **options)
        model.fit(other, sensitive_features=groups)
        np.testing.assert_allclose(model.eigenvalues_, expected.eigenvalues_, atol=1e-8)
        np.testing.assert_array_equal(model.labels_, expected.labels_)


def test_input_is_not_modified(planted):
    W = planted.graph.copy()
    W.data[:] = 2.0
    before = (W.data.copy(), W.indices.copy(), W.indptr.copy())
    FairSpectralClustering(3, random_state=0).fit(
        W, sensitive_features=planted.sensitive_features
    )
    for array, copy in zip((W.data, W.indices, W.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_groups_of_any_type(planted):
    pandas = pytest.importorskip("pandas")
    names = np.array(["north", "south", "west"])[planted.sensitive_features]
    fits = [
        FairSpectralClustering(5, random_state=0).fit(
            planted.graph, sensitive_features=groups
        )
        for groups in (
            planted.sensitive_features,
            names,
            list(names),
            pandas.Series(names, index=np.arange(names.size)[::-1]),
            pandas.Series(names, dtype="category"),
            pandas.DataFrame({"region": names}),
        )
    ]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.labels_, fits[0].labels_)
        assert list(model.groups_) == ["north", "south", "west"]


def test_nearest_neighbors_affinity():
    rng = np.random.RandomState(0)
    blobs = np.vstack([rng.standard_normal((150, 2)) + c for c in ([0, 0], [12, 0])])
    groups = np.arange(300) % 2
    model = FairSpectralClustering(
        2, affinity="nearest_neighbors", n_neighbors=15, connected_components="all"
    )
    labels = model.fit_predict(blobs, sensitive_features=groups)
    assert adjusted_rand_score(np.repeat([0, 1], 150), labels) == 1.0
    W = model.affinity_matrix_
    assert (abs(W - W.T)).max() == 0
    assert set(np.unique(W.data)) <= {0.5, 1.0}
    assert W.diagonal().sum() == 0


@pytest.mark.parametrize(
    "estimator",
    [
        FairSpectralClustering,
        CoordinateDescentFairClustering,
        UnifiedFairSpectralClustering,
    ],
)
def test_float32_affinity_is_symmetric_to_float32_rounding(estimator):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    noisy = K * (1 + 3e-7 * np.triu(rng.standard_normal((60, 60)), 1))
    groups = np.arange(60) % 2
    with pytest.raises(ValueError, match=r"asymmetric: entry \(\d+, \d+\) is 0\.\d{8}"):
        estimator(3).fit(noisy, sensitive_features=groups)
    model = estimator(3, random_state=0)
    model.fit(noisy.astype(np.float32), sensitive_features=groups)
    W = model.affinity_matrix_
    assert abs(W - W.T).max() == 0
    np.testing.assert_allclose(W.toarray(), K, rtol=1e-5)


def test_entries_stored_more_than_once_are_added(planted):
    W = planted.graph[:200][:, :200].tocoo()
    i, j = (np.concatenate([c, c, c]) for c in W.coords)
    # Sorted, and negative by itself.
    values = np.concatenate([3 * W.data, -W.data, -W.data])
    order = np.lexsort((j, i))
    indptr = np.append(0, np.cumsum(np.bincount(i, minlength=200)))
    parts = sparse.csr_array((values[order], j[order], indptr), shape=(200, 200))
    assert parts.nnz == 3 * W.nnz
    groups = planted.sensitive_features[:200]
    fits = [
        FairSpectralClustering(3, connected_components="all", random_state=0).fit(
            A, sensitive_features=groups
        )
        for A in (W, parts)
    ]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
    assert fits[1].affinity_matrix_.nnz == W.nnz
    assert parts.nnz == 3 * W.nnz  # the input is not modified


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


@pytest.mark.parametrize("solver", ["lanczos", "chebyshev"])
def test_same_random_state_same_result(planted, solver):
    fits = [
        FairSpectralClustering(5, solver=solver, random_state=3).fit(
            planted.graph, sensitive_features=planted.sensitive_features
        )
        for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].embedding_, fits[1].embedding_)
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_thread_count_does_not_matter(planted, dtype, with_threads):
    from threadpoolctl import threadpool_limits

    def fit():
        return FairSpectralClustering(
            5, solver="chebyshev", dtype=dtype, random_state=3
        ).fit(planted.graph, sensitive_features=planted.sensitive_features)

    with threadpool_limits(2):
        many = with_threads(2, fit)
    with threadpool_limits(1):
        one = with_threads(1, fit)
    np.testing.assert_array_equal(one.embedding_, many.embedding_)
    np.testing.assert_array_equal(one.labels_, many.labels_)


def test_global_random_state_is_untouched(planted):
    np.random.seed(7)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    FairSpectralClustering(5).fit(
        planted.graph, sensitive_features=planted.sensitive_features
    )
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


# --- Components --------------------------------------------------------------


@pytest.fixture
def with_islands(planted):
    """The planted graph, a triangle and two isolated nodes, in that order."""
    triangle = np.ones((3, 3)) - np.eye(3)
    W = sparse.block_diag([planted.graph, triangle, np.zeros((2, 2))], format="csr")
    groups = np.append(planted.sensitive_features, [0, 1, 2, 0, 1])
    return sparse.csr_array(W), groups


def test_several_components_raise(with_islands):
    W, groups = with_islands
    message = (
        r"4 connected components, 2 of them isolated nodes \(first: 3003\); the "
        r"largest has 3000 of 3005 nodes.*\"largest\".*\"all\""
    )
    with pytest.raises(ValueError, match=message):
        FairSpectralClustering(5).fit(W, sensitive_features=groups)


def test_largest_component(planted, with_islands):
    W, groups = with_islands
    model = FairSpectralClustering(
        5, connected_components="largest", random_state=0
    ).fit(W, sensitive_features=groups)
    assert (model.labels_[3000:] == -1).all()
    assert (model.embedding_[3000:] == 0).all()
    alone = FairSpectralClustering(5, random_state=0).fit(
        planted.graph, sensitive_features=planted.sensitive_features
    )
    np.testing.assert_array_equal(model.labels_[:3000], alone.labels_)
    np.testing.assert_allclose(model.eigenvalues_, alone.eigenvalues_)


def test_all_components(with_islands):
    W, groups = with_islands
    model = FairSpectralClustering(
        6, connected_components="all", random_state=0, tol=1e-8
    ).fit(W, sensitive_features=groups)
    assert (model.labels_[3003:] == -1).all()
    assert len(set(model.labels_[3000:3003])) == 1  # the triangle stays together
    np.testing.assert_allclose(model.eigenvalues_[:2], 1, atol=1e-7)


def test_more_components_than_clusters():
    # Eigenvalue 1 is repeated 40 times, more than the block has columns.
    cliques = [np.ones((20, 20)) - np.eye(20)] * 40
    W = sparse.csr_array(sparse.block_diag(cliques))
    model = FairSpectralClustering(
        4, connected_components="all", solver="chebyshev", random_state=0
    ).fit(W, sensitive_features=np.arange(800) % 2)
    np.testing.assert_allclose(model.eigenvalues_, 1, atol=1e-8)


def test_groups_that_leave_with_their_component(with_islands):
    W, groups = with_islands
    groups = groups.copy()
    groups[:3000] %= 2
    groups[3000:] = 9
    model = FairSpectralClustering(
        3, connected_components="largest", random_state=0
    ).fit(W, sensitive_features=groups)
    assert list(model.groups_) == [0, 1]


# --- Errors and warnings -----------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda W: W[:, :-1], "square matrix, got shape"),
        (lambda W: -W, "Negative values in data.*row 0, column 1"),
        (lambda W: sparse.csr_array(np.triu(W.toarray())), r"asymmetric: entry \("),
        (lambda W: W * np.nan, "NaN"),
        (lambda W: W * np.inf, "infinity"),
        (lambda W: W * 0, "no edges"),
        (lambda W: W * 1e307, "so large that their sum overflows"),
        (lambda W: W.toarray()[:1, :1], "minimum of 2"),
    ],
)
def test_bad_matrix(change, message):
    W = change(_path(30))
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=message):
        FairSpectralClustering(3).fit(W, sensitive_features=np.arange(30) % 2)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(30), r"fewer than two groups.*only 0\.0\)"),
        (np.arange(29) % 2, "29 groups for 30 samples"),
        ([None] + [1] * 29, "1 missing value"),
        ([np.nan] + [1.0] * 29, "1 missing value"),
        (np.zeros((30, 2)), "one-dimensional"),
        ([1, "a"] * 15, "cannot be ordered|fewer|mixes"),
    ],
)
def test_bad_groups(groups, message):
    if isinstance(groups, list) and "a" in groups:
        groups = np.array(groups, dtype=object)
    with pytest.raises(ValueError, match=message):
        FairSpectralClustering(3).fit(_path(30), sensitive_features=groups)


def test_groups_are_required():
    with pytest.raises(TypeError, match="sensitive_features"):
        FairSpectralClustering(3).fit(_path(30))


@pytest.mark.parametrize("solver", ["auto", *SOLVERS])
def test_too_many_clusters(solver):
    groups = np.arange(30) % 4
    model = FairSpectralClustering(28, solver=solver)
    with pytest.raises(ValueError, match="choose n_clusters <= 27"):
        model.fit(_path(30), sensitive_features=groups)
    model.set_params(n_clusters=27).fit(_path(30), sensitive_features=groups)
    assert model.embedding_.shape == (30, 27)
    assert model.fairness_violation_ < 1e-10


def test_one_cluster():
    model = FairSpectralClustering(1).fit(
        _path(30), sensitive_features=np.arange(30) % 2
    )
    assert (model.labels_ == 0).all()
    np.testing.assert_allclose(model.eigenvalues_, [1])


def test_too_many_neighbors():
    with pytest.raises(ValueError, match="n_neighbors = 30 must be less"):
        FairSpectralClustering(2, affinity="nearest_neighbors", n_neighbors=30).fit(
            np.zeros((30, 2)), sensitive_features=np.arange(30) % 2
        )


def test_nullspace_refuses_what_cannot_fit():
    n = 40_000
    model = FairSpectralClustering(2, solver="nullspace")
    with pytest.raises(ValueError, match=r"36 GiB; use solver=\"chebyshev\""):
        model.fit(_path(n), sensitive_features=np.arange(n) % 2)


@pytest.mark.parametrize(("solver", "max_iter"), [("chebyshev", 1), ("lanczos", 1)])
def test_no_convergence_is_said(solver, max_iter):
    model = FairSpectralClustering(
        8, solver=solver, max_iter=max_iter, tol=1e-10, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*raise"):
        model.fit(_path(2000), sensitive_features=np.arange(2000) % 3)
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
def test_callbacks_see_every_phase(solver):
    recorder = _Recorder()
    model = FairSpectralClustering(3, solver=solver, random_state=0)
    model.set_callbacks(recorder)
    model.fit(GRAPHS["block model"], sensitive_features=_groups(240, 2))
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
