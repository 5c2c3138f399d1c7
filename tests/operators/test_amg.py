"""AMGPreconditioner: symmetric, positive definite, an approximate inverse."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.operators import NormalizedAffinity, _amg
from scalefair.operators._amg import AMGPreconditioner, coarse_degree


def laplacian(W):
    """Normalised Laplacian and its null vector."""
    M = NormalizedAffinity(W)
    return sparse.csr_array(sparse.eye_array(M.shape[0]) - M.matrix), np.sqrt(M.degrees)


def dumbbell(graphs, weight):
    """Two grids joined by one edge."""
    W = sparse.lil_array(sparse.block_diag([graphs.grid(17, 18)] * 2))
    W[0, 306] = W[306, 0] = weight
    return sparse.csr_array(W)


def with_loops(W):
    return sparse.csr_array(W + sparse.diags_array(np.arange(W.shape[0]) % 3 * 0.5))


def lognormal(W):
    """Weights that differ by factors of thousands."""
    upper = sparse.csr_array(sparse.triu(W))
    upper.data = np.exp(2 * np.random.default_rng(0).standard_normal(upper.nnz))
    return sparse.csr_array(upper + upper.T)


# Orders above 500: there are levels, unless the graph has nothing to aggregate. Where
# there is a gap: least eigenvalues of T L beside the null vector.
GRAPHS = {
    "grid": (lambda g: g.grid(24, 25), 0.3),
    "path": (lambda g: g.path(700), 0.3),
    "star": (lambda g: g.star(600), None),
    "k-NN": (lambda g: g.nearest_neighbors(700), 0.15),
    "weak tie": (lambda g: dumbbell(g, 1e-6), 0.3),
    "many components": (lambda g: g.many_cliques(110, 5), None),
    "self-loops": (lambda g: with_loops(g.grid(24, 25)), None),
    "loops only": (lambda g: sparse.csr_array(sparse.eye_array(600)), None),
    "weights": (lambda g: lognormal(g.grid(24, 25)), None),
    "small": (lambda g: g.nearest_neighbors(200), 0.99),
    "one node": (lambda g: sparse.csr_array(np.ones((1, 1))), None),
}


def preconditioned(L, T):
    """Eigenvalues of T L, in ascending order."""
    C = np.linalg.cholesky(T @ np.eye(L.shape[0]))
    return np.linalg.eigvalsh(C.T @ (L @ C))


@pytest.mark.parametrize(("make", "least"), GRAPHS.values(), ids=GRAPHS)
def test_symmetric_positive_definite_and_close_to_the_inverse(graphs, make, least):
    L, b = laplacian(make(graphs))
    T = AMGPreconditioner(L, candidate=b)
    dense = T @ np.eye(L.shape[0])
    np.testing.assert_allclose(dense, dense.T, atol=1e-13 * np.abs(dense).max())
    # Eigenvalues of T L in [0, 1]: I - T L is the error of a convergent cycle.
    values = preconditioned(L, T)  # by a Cholesky factor of T: it is definite
    assert values.max() < 1 + 1e-7  # T has norm 1e8 across the weak tie
    assert values.min() > -1e-7
    assert least is None or values[1] > least


def test_a_laplacian_of_rounding_errors():
    # Nodes with nothing but a loop of weight 3: errors below zero.
    L, b = laplacian(sparse.csr_array(3.0 * sparse.eye_array(600)))
    assert L.diagonal().max() < 0
    T = AMGPreconditioner(L, candidate=b)
    assert (T @ np.ones(600) > 0).all()


def test_more_components_than_fit_a_dense_inverse(graphs, monkeypatch):
    monkeypatch.setattr(_amg, "MAX_COARSE_SIZE", 50)
    L, b = laplacian(graphs.many_cliques(150, 3))
    T = AMGPreconditioner(L, candidate=b)
    assert sparse.issparse(T.coarsest)
    values = preconditioned(L, T)
    np.testing.assert_allclose(values[:150], 0, atol=1e-10)
    assert values[150] > 0.5
    assert values[-1] < 1 + 1e-8


def test_does_not_fill_up_on_expanders(graphs):
    i, j = np.random.default_rng(0).integers(0, 3000, (2, 9000))
    W = sparse.csr_array(sparse.coo_array((np.ones(9000), (i, j)), shape=(3000, 3000)))
    L, b = laplacian(sparse.csr_array(W + W.T + graphs.cycle(3000)))
    assert AMGPreconditioner(L, candidate=b).operator_complexity < 6


def test_deterministic_and_leaves_the_global_state_alone(graphs):
    L, b = laplacian(graphs.nearest_neighbors(1000))
    X = np.random.default_rng(0).standard_normal((1000, 4))
    products = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        products.append(AMGPreconditioner(L, candidate=b) @ X)
        state = np.random.get_state()[1:3]  # noqa: NPY002
        np.random.seed(seed)  # noqa: NPY002
        expected = np.random.get_state()[1:3]  # noqa: NPY002
        np.testing.assert_equal(state, expected)
    assert np.array_equal(*products)


class TestBadInput:
    @pytest.mark.parametrize("unit", [1e-50, 1e50])
    def test_inverse_out_of_range(self, unit):
        A = unit * (2 * np.eye(3) - np.ones((3, 3)) / 3)
        with pytest.raises(ValueError, match=r"out of the range of float32\. Scale"):
            AMGPreconditioner(A, dtype=np.float32)
        product = AMGPreconditioner(A) @ np.ones(3)
        np.testing.assert_allclose(product, 1 / unit, rtol=1e-9)

    @pytest.mark.parametrize(
        ("A", "candidate", "message"),
        [
            (np.ones((3, 4)), None, r"square.*\(3, 4\)"),
            (np.ones(3), None, r"square.*3,\)"),
            (sparse.csr_array((0, 0)), None, "no rows"),
            (np.diag([1.0, np.nan]), None, r"not finite, at row 1, column 1 \(nan\)"),
            (np.eye(3), np.ones((3, 1)), "candidate must be a vector of 3 positive"),
            (np.eye(3), [1, -1, 1], r"3 positive numbers, got -1\.0 at entry 1"),
            (np.eye(3), [1e-200, 1, 1], "too far apart"),
        ],
    )
    def test_matrix_and_candidate(self, A, candidate, message):
        with pytest.raises(ValueError, match=message):
            AMGPreconditioner(A, candidate=candidate)
        with pytest.raises(TypeError, match="real"):
            AMGPreconditioner(1j * np.eye(3))


def test_the_coarse_degree_grows_with_the_dimension(graphs):
    W = graphs.path(1000)
    assert coarse_degree(W) < 2.5
    far = sparse.diags_array(np.ones(1000 - 500), offsets=500, shape=(1000, 1000))
    stored = sparse.csr_array(W + far + far.T)
    stored.data[np.abs(stored.tocoo().row - stored.tocoo().col) == 500] = 0
    assert coarse_degree(stored) == coarse_degree(W)  # zeros are no edges
    assert 4 < coarse_degree(graphs.grid(40, 40)) < 8
    assert coarse_degree(graphs.complete(200)) == np.inf  # too few aggregates to tell
