"""Fair spectral clustering of graphs in blocks of rows."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.operators import PartitionedMatrix

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N = 600


@pytest.fixture(scope="module")
def data():
    return make_fair_sbm(N, n_clusters=3, n_groups=2, average_degree=40, random_state=0)


def blocks(W, cuts=(0, 250, 251, N)):
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


def test_isolated_nodes_are_an_error(data):
    W = sparse.lil_array(data.graph)
    W[5, :] = W[:, 5] = 0
    with pytest.raises(ValueError, match=r"1 node\(s\) have no positive degree"):
        FairSpectralClustering(3).fit(
            blocks(W), sensitive_features=data.sensitive_features
        )


def test_rows_of_features_are_not_in_parts(data):
    model = FairSpectralClustering(3, affinity="nearest_neighbors")
    with pytest.raises(ValueError, match='graphs in parts go with affinity="precomp'):
        model.fit(blocks(data.graph), sensitive_features=data.sensitive_features)


def test_multigrid_needs_a_stored_graph(data):
    model = FairSpectralClustering(3, solver="lobpcg")
    with pytest.raises(ValueError, match='use solver="chebyshev"'):
        model.fit(blocks(data.graph), sensitive_features=data.sensitive_features)
