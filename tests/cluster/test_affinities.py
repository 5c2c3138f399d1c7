"""Affinities that are not stored: kernels, operators and graphs in blocks of rows."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.cluster import (
    FairSpectralClustering,
)
from scalefair.datasets import make_fair_sbm
from scalefair.operators import NystroemKernel, PartitionedMatrix, RBFKernel

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, n_features=3, centers=4, cluster_std=0.7, random_state=1)
    groups = np.random.default_rng(0).integers(3, size=400)
    return X, y, groups


def fit(X, groups, k=4, **options):
    model = FairSpectralClustering(k, random_state=0, **options)
    return model.fit(X, sensitive_features=groups)


@pytest.mark.parametrize(
    ("solver", "gamma"),
    [("nullspace", 0.1), ("lanczos", None), ("chebyshev", 0.1), ("dual", None)],
)
def test_rbf_agrees_with_the_stored_kernel(blobs, solver, gamma):
    X, _, groups = blobs
    model = fit(X, groups, affinity="rbf", gamma=gamma, solver=solver, tol=1e-7)
    stored = fit(rbf_kernel(X, gamma=gamma), groups, solver="nullspace")
    np.testing.assert_allclose(model.eigenvalues_, stored.eigenvalues_, atol=1e-8)
    assert adjusted_rand_score(model.labels_, stored.labels_) == 1
    assert model.fairness_violation_ < 1e-10
    assert isinstance(model.affinity_matrix_, RBFKernel)
    assert model.affinity_error_ is None


def test_rbf_in_float32(blobs):
    X, y, groups = blobs
    model = fit(X, groups, affinity="rbf", dtype=np.float32)
    assert model.embedding_.dtype == np.float64
    assert model.residuals_.max() <= 1e-4
    assert model.fairness_violation_ < 1e-10
    assert adjusted_rand_score(model.labels_, y) == 1


def test_admm_on_a_kernel(blobs):
    X, y, groups = blobs
    model = fit(X, groups, affinity="rbf", solver="admm", tol=0.1, max_iter=100)
    assert adjusted_rand_score(model.labels_, y) > 0.9


def test_rbf_nystroem(blobs):
    X, _, groups = blobs
    model = fit(X, groups, affinity="rbf_nystroem", n_landmarks=150, tol=1e-6)
    exact = fit(X, groups, affinity="rbf", tol=1e-6)
    assert isinstance(model.affinity_matrix_, NystroemKernel)
    assert model.affinity_matrix_.factor.shape[1] <= 150
    assert 0 < model.affinity_error_ < 0.05
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-2)
    assert adjusted_rand_score(model.labels_, exact.labels_) > 0.95
    coarse = fit(X, groups, affinity="rbf_nystroem", n_landmarks=20)
    assert coarse.affinity_error_ > model.affinity_error_


@pytest.mark.parametrize("affinity", ["rbf", "rbf_nystroem"])
def test_kernels_depend_on_nothing_but_distances(blobs, affinity):
    X, _, groups = blobs
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    one = fit(X, groups, affinity=affinity, gamma=0.2)
    other = fit(2 * X @ rotation + 7, groups, affinity=affinity, gamma=0.05)
    np.testing.assert_allclose(one.eigenvalues_, other.eigenvalues_, atol=1e-3)
    assert adjusted_rand_score(one.labels_, other.labels_) == 1


@pytest.fixture(scope="module")
def graph():
    return make_fair_sbm(
        400, n_clusters=3, n_groups=2, average_degree=30, random_state=0
    )


class _Plain(LinearOperator):
    """Nothing but a product."""

    def __init__(self, W):
        self.W = W
        super().__init__(W.dtype, W.shape)

    def _matvec(self, x):
        return self.W @ x


@pytest.mark.parametrize("wrap", [aslinearoperator, _Plain])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operator_as_precomputed_affinity(graph, wrap, dtype):
    model = fit(wrap(graph.graph), graph.sensitive_features, k=3, dtype=dtype)
    stored = fit(graph.graph, graph.sensitive_features, k=3)
    np.testing.assert_allclose(model.eigenvalues_, stored.eigenvalues_, atol=1e-6)
    assert adjusted_rand_score(model.labels_, stored.labels_) == 1
    assert model.n_features_in_ == 400
    assert (model.labels_ >= 0).all()


def test_operator_that_is_not_symmetric(graph):
    W = sparse.csr_array(sparse.triu(graph.graph) + 0.5 * sparse.eye_array(400))
    with pytest.raises(ValueError, match="symmetric"):
        fit(aslinearoperator(W), graph.sensitive_features, k=3)


def test_operator_that_is_not_square():
    with pytest.raises(ValueError, match=r"square matrix, got shape \(40, 30\)"):
        fit(aslinearoperator(np.ones((40, 30))), np.arange(40) % 2, k=3)


def test_operator_with_an_isolated_node(graph):
    W = sparse.lil_array(graph.graph)
    W[5] = 0
    W[:, 5] = 0
    with pytest.raises(ValueError, match="degree"):
        fit(aslinearoperator(sparse.csr_array(W)), graph.sensitive_features, k=3)


def test_operator_where_rows_are_expected(graph):
    with pytest.raises(ValueError, match=r"affinity=\"rbf\" takes rows of features"):
        fit(aslinearoperator(graph.graph), graph.sensitive_features, affinity="rbf")


@pytest.mark.parametrize("affinity", ["rbf", "rbf_nystroem"])
def test_sparse_rows_are_refused(affinity):
    X = sparse.random_array((50, 4), density=0.5, format="csr", rng=0)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        fit(X, np.arange(50) % 2, affinity=affinity)


@pytest.mark.parametrize("gamma", [0, -1.0, "scale"])
def test_bad_gamma(blobs, gamma):
    with pytest.raises(ValueError, match="gamma"):
        fit(blobs[0], blobs[2], affinity="rbf", gamma=gamma)


def test_points_that_see_no_other(blobs):
    # So narrow a kernel that every point is alone: nothing to cluster by, but no NaN.
    X, _, groups = blobs
    model = fit(X, groups, affinity="rbf", gamma=1e8)
    assert np.isfinite(model.embedding_).all()


def test_lobpcg_needs_a_stored_graph(blobs):
    X, _, groups = blobs
    with pytest.raises(ValueError, match=r"lobpcg.*stored.*chebyshev"):
        fit(X, groups, affinity="rbf", solver="lobpcg")


def test_nystroem_too_coarse_names_the_remedy(blobs):
    # One landmark and a narrow kernel: most nodes see nobody.
    X, _, groups = blobs
    with pytest.raises(ValueError, match=r"degree.*raise n_landmarks or lower gamma"):
        fit(X, groups, affinity="rbf_nystroem", n_landmarks=1, gamma=1e4)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_neighbours_do_not_depend_on_the_unit(blobs, unit):
    X, _, groups = blobs
    expected, found = (
        fit(
            points, groups, affinity="nearest_neighbors", connected_components="all"
        ).affinity_matrix_
        for points in (X, unit * X)
    )
    assert (expected != found).nnz == 0


# --- Graphs in blocks of rows ------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_fair_sbm(
        600, n_clusters=3, n_groups=2, average_degree=40, random_state=0
    )


def blocks(W, cuts=(0, 250, 251, 600)):
    W = sparse.csr_array(W)
    return [dask.delayed(W[i:j]) for i, j in itertools.pairwise(cuts)]


@pytest.mark.parametrize("solver", ["auto", "lanczos", "dual"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_same_as_in_memory(solver, dtype, data):
    model = FairSpectralClustering(3, solver=solver, dtype=dtype, random_state=0)
    groups = data.sensitive_features
    here = model.fit(data.graph, sensitive_features=groups)
    labels, values, H = here.labels_, here.eigenvalues_, here.embedding_
    there = model.fit(
        blocks(data.graph), sensitive_features=da.from_array(groups, chunks=50)
    )
    assert there.converged_
    assert isinstance(there.affinity_matrix_, PartitionedMatrix)
    assert adjusted_rand_score(there.labels_, labels) == 1
    np.testing.assert_allclose(there.eigenvalues_, values, atol=1e-6)
    outside = there.embedding_ - H @ (H.T @ there.embedding_)
    assert np.linalg.norm(outside) < 1e-2
    assert there.fairness_violation_ < 1e-10


def with_weight(W, i, j, value):
    W = sparse.lil_array(W)
    W[i, j] = value
    return W.tocsr()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda W: blocks(with_weight(W, 300, 20, -1.0)),
            r"Partition 2 of X, rows 251 to 599.*smallest weight is -1, at row 49",
        ),
        (lambda W: blocks(with_weight(W, 300, 20, 9.0)), "not symmetric"),
        (lambda W: blocks(with_weight(W, 300, 20, np.inf)), "not finite, at row 49"),
        (lambda W: blocks(W[:, :500]), r"square matrix, got shape \(600, 500\)"),
        (lambda W: [dask.delayed(W.toarray())], "must be CSR matrices"),
    ],
)
def test_bad_graphs(make, message, data):
    graph = make(sparse.csr_array(data.graph))
    with pytest.raises(ValueError, match=message):
        FairSpectralClustering(3).fit(graph, sensitive_features=data.sensitive_features)


def test_isolated_nodes_in_parts_are_an_error(data):
    W = sparse.lil_array(data.graph)
    W[5, :] = W[:, 5] = 0
    with pytest.raises(ValueError, match=r"1 node\(s\) have no positive degree"):
        FairSpectralClustering(3).fit(
            blocks(W), sensitive_features=data.sensitive_features
        )


def test_rows_of_features_are_not_in_parts(data):
    model = FairSpectralClustering(3, affinity="nearest_neighbors")
    with pytest.raises(ValueError, match='got a graph in parts: use affinity="precomp'):
        model.fit(blocks(data.graph), sensitive_features=data.sensitive_features)


def test_multigrid_needs_a_stored_graph(data):
    model = FairSpectralClustering(3, solver="lobpcg")
    with pytest.raises(ValueError, match='use solver="chebyshev"'):
        model.fit(blocks(data.graph), sensitive_features=data.sensitive_features)
