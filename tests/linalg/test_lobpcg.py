"""lobpcg: preconditioned by multigrid, starting vectors, limits, failure modes."""

import numpy as np
from scipy import sparse

from scalefair.linalg import lobpcg
from scalefair.operators import NormalizedAffinity
from scalefair.operators._amg import AMGPreconditioner

from .conftest import check_pairs


def multigrid(W, dtype=np.float64):
    M = NormalizedAffinity(W)
    L = sparse.eye_array(M.shape[0]) - M.matrix
    return AMGPreconditioner(L, candidate=np.sqrt(M.degrees), dtype=dtype)


def solve(W, k, tol=1e-9):
    options = {"preconditioner": multigrid(W), "random_state": 0}
    return lobpcg(NormalizedAffinity(W), k, tol=tol, **options)


def test_every_graph(graph, graphs):
    check_pairs(solve(graph, 4), graphs.normalized(graph), 4, 1e-9)


def test_few_iterations_on_a_mesh_of_any_size(graphs):
    for m in (25, 60):
        result = solve(graphs.grid(m, m + 1), 6, tol=1e-6)
        assert result.converged
        assert result.n_iter <= 20
    # Eigenvalues 1e-6 apart.
    result = solve(graphs.path(4000), 4)
    expected = graphs.path_eigenvalues(4000)[:4]
    np.testing.assert_allclose(1 - result.values, 1 - expected, atol=1e-10)


def test_single_precision_preconditioner_of_a_tiny_operator(graphs):
    # Residuals of 1e-46 and less do not exist in float32.
    W = graphs.grid(24, 25)
    dense, T = graphs.normalized(W), multigrid(W, np.float32)
    result = lobpcg(1e-42 * dense, 4, tol=1e-8, preconditioner=T, random_state=0)
    assert result.converged
    assert result.n_iter < 30
    expected = np.linalg.eigvalsh(dense)[:-5:-1]
    np.testing.assert_allclose(1e42 * result.values, expected, atol=1e-8)
