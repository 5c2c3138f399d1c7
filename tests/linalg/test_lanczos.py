"""lanczos: what ARPACK does when it fails."""

import numpy as np
import pytest

from scalefair.linalg import lanczos
from scalefair.operators import NormalizedAffinity


@pytest.mark.parametrize("k", [1, 5])
def test_max_iter(graphs, k):
    M = NormalizedAffinity(graphs.path(400))
    result = lanczos(M, k, tol=1e-12, max_iter=2, random_state=0)
    assert not result.converged
    assert "raise max_iter or tol" in result.message
    assert f"of {k} pairs" in result.message
    assert np.isfinite(result.values).all()
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(k), atol=1e-12)
    residuals = M @ result.vectors - result.vectors * result.values
    np.testing.assert_allclose(
        result.residual_norms, np.linalg.norm(residuals, axis=0), rtol=1e-9
    )


def test_zero_operator_needs_no_arpack():
    # ARPACK itself refuses it: "Starting vector is zero".
    result = lanczos(np.zeros((50, 50)), 3, random_state=0)
    assert result.converged
    assert np.array_equal(result.values, np.zeros(3))
    assert "ARPACK failed" not in result.message


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
def test_converged_means_within_tol(graph, tol):
    M = NormalizedAffinity(graph)
    result = lanczos(M, 3, tol=tol, random_state=0)
    assert result.converged == (result.residual_norms <= tol).all()
    assert result.converged


def test_float32_says_what_it_cannot_reach(graphs):
    M = NormalizedAffinity(graphs.nearest_neighbors(200), dtype=np.float32)
    result = lanczos(M, 3, tol=1e-12, random_state=0)
    assert not result.converged
    assert "raise tol" in result.message
    assert result.residual_norms.max() < 1e-5
