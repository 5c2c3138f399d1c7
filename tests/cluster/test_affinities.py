"""Affinities that are not stored: kernels, operators and graphs in blocks of rows."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.operators import NystroemKernel, PartitionedMatrix, RBFKernel

from ..conftest import delayed_blocks

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, n_features=3, centers=4, cluster_std=0.7, random_state=1)
    groups = np.random.default_rng(0).integers(3, size=400)
    return X, y, groups


def fit(X, groups, k=4, **options):
    model = FairSpectralClustering(k, random_state=0, **PAPERS_METHOD | options)
    return model.fit(X, sensitive_features=groups)


@pytest.mark.parametrize(
    ("solver", "gamma", "dtype"),
    [("lanczos", None, np.float64), ("chebyshev", 0.1, np.float32)],
)
def test_rbf_agrees_with_the_stored_kernel(blobs, solver, gamma, dtype):
    X, _, groups = blobs
    model = fit(
        X, groups, affinity="rbf", gamma=gamma, solver=solver, tol=1e-7, dtype=dtype
    )
    stored = fit(rbf_kernel(X, gamma=gamma), groups, solver="nullspace")
    np.testing.assert_allclose(model.eigenvalues_, stored.eigenvalues_, atol=1e-8)
    assert adjusted_rand_score(model.labels_, stored.labels_) == 1
    assert model.fairness_violation_ < 1e-10
    assert model.embedding_.dtype == np.float64
    assert model.residuals_.max() <= 1e-7
    assert isinstance(model.affinity_matrix_, RBFKernel)
    assert model.affinity_error_ is None


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


def blocks(W, cuts=(0, 250, 251, 600)):
    return delayed_blocks(sparse.csr_array(W), cuts)


def with_weight(W, i, j, value):
    W = sparse.lil_array(W)
    W[i, j] = value
    return W.tocsr()


def without_node(W):
    return with_weight(with_weight(W, 5, slice(None), 0), slice(None), 5, 0)


OPERATOR = aslinearoperator(np.ones((600, 600)))
ROWS = np.random.default_rng(0).standard_normal((600, 3))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda W: aslinearoperator(sparse.triu(W)), {}, "symmetric|degree"),
        (lambda W: aslinearoperator(W[:, :9]), {}, r"square .*got shape \(600, 9\)"),
        (lambda W: aslinearoperator(without_node(W)), {}, "degree"),
        (lambda W: OPERATOR, {"affinity": "rbf"}, 'affinity="rbf" takes rows of fea'),
        (lambda W: OPERATOR, {"solver": "lobpcg"}, "lobpcg.*stored.*chebyshev"),
        (lambda W: ROWS, {"affinity": "rbf", "solver": "lobpcg"}, "lobpcg.*stored"),
        (
            # One landmark and a narrow kernel: most nodes see nobody.
            lambda W: ROWS,
            {"affinity": "rbf_nystroem", "n_landmarks": 1, "gamma": 1e4},
            "degree.*raise n_landmarks or lower gamma",
        ),
        (lambda W: blocks(without_node(W)), {}, r"1 node\(s\) have no positive degree"),
        (blocks, {"affinity": "nearest_neighbors"}, 'in parts: .* affinity="precomp'),
        (blocks, {"solver": "lobpcg"}, 'use solver="chebyshev"'),
        (
            lambda W: blocks(with_weight(W, 300, 20, -1.0)),
            {},
            r"Partition 2 of X, rows 251 to 599.*smallest weight is -1, at row 49",
        ),
        (lambda W: blocks(with_weight(W, 300, 20, 9.0)), {}, "not symmetric"),
    ],
)
def test_bad_affinities(make, options, message, planted):
    graph = make(sparse.csr_array(planted.graph))
    with pytest.raises(ValueError, match=message):
        fit(graph, planted.sensitive_features, **options)


def test_points_that_see_no_other(blobs):
    # So narrow a kernel that every point is alone: nothing to cluster by, but no NaN.
    X, _, groups = blobs
    model = fit(X, groups, affinity="rbf", gamma=1e8)
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize(
    ("keep", "options"),
    [
        (blocks, {"dtype": "float32"}),
        (blocks, {"solver": "lanczos", "regularization": 0.3}),
        (aslinearoperator, {"dtype": "float32", "regularization": 0.3}),
        (lambda W: LinearOperator(W.shape, W.__matmul__, dtype=W.dtype), {}),
        # Out of the range of float32
        (lambda W: LinearOperator(W.shape, (1e100 * W).__matmul__, dtype=W.dtype), {}),
    ],
)
def test_same_as_in_memory(keep, options, planted):
    groups = planted.sensitive_features
    stored = fit(planted.graph, groups, **options)
    if keep is blocks:
        groups = da.from_array(groups, chunks=50)
    model = fit(keep(planted.graph), groups, **options)
    assert model.converged_
    assert model.n_features_in_ == 600
    is_partitioned = isinstance(model.affinity_matrix_, PartitionedMatrix)
    assert is_partitioned == (keep is blocks)
    assert adjusted_rand_score(model.labels_, stored.labels_) == 1
    np.testing.assert_allclose(model.eigenvalues_, stored.eigenvalues_, atol=1e-6)
    H = stored.embedding_
    outside = model.embedding_ - H @ (H.T @ model.embedding_)
    assert np.linalg.norm(outside) < 1e-2
    assert model.fairness_violation_ < 1e-10
