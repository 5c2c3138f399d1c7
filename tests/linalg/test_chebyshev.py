"""chebyshev: starting vectors, limits, counts; bounds on a spectrum."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.linalg import SpectralBounds, chebyshev, spectral_bounds
from scalefair.operators import NormalizedAffinity

from .conftest import check_pairs


@pytest.fixture(scope="module")
def problem(graphs):
    """Operator and its matrix."""
    W = graphs.nearest_neighbors(300)
    return NormalizedAffinity(W), graphs.normalized(W)


@pytest.mark.parametrize("max_degree", [3, 200])
def test_any_degree_converges(problem, max_degree, counting):
    A, options = counting(problem[0]), {"max_degree": max_degree, "max_iter": 1000}
    result = chebyshev(A, 4, tol=1e-7, random_state=0, **options)
    check_pairs(result, problem[1], 4, 1.1e-7)
    assert result.n_products <= 12 + result.n_iter * (max_degree + 1)


@pytest.mark.parametrize(("lower", "upper"), [(-0.5, -0.5), (0.0, 0.1), (0.1, 0.0)])
def test_survives_wrong_bounds(problem, lower, upper):
    # Relative to the width: too narrow (> 0) and too wide.
    M, dense = problem
    good = spectral_bounds(M, random_state=0)
    ends = np.linalg.eigvalsh(dense)[[0, -1]]
    bounds = SpectralBounds(*ends + np.ptp(ends) * np.array([lower, -upper]), *good[2:])
    result = chebyshev(M, 4, tol=1e-7, bounds=bounds, random_state=0)
    norm = max(abs(bounds.lower), abs(bounds.upper))
    check_pairs(result, dense, 4, 1e-7 * max(norm, 1))


def test_finds_a_lower_end_that_the_bounds_miss():
    # Without the correction the filter grows the far lower end instead.
    values = np.r_[-3.0, -2.9, -2.8, np.linspace(-1, 1, 300), 1.3, 1.4, 1.5]
    A = sparse.csr_array(sparse.diags_array(values))
    good = spectral_bounds(A, random_state=0)
    bounds = SpectralBounds(-1.0, 1.5, *good[2:])
    result = chebyshev(A, 3, tol=1e-8, bounds=bounds, max_iter=20, random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, [1.5, 1.4, 1.3], atol=1e-7)


def test_not_finite_beyond_the_bounds(problem):
    # Bounds that are given: the iteration itself has to notice.
    bounds = spectral_bounds(problem[0], random_state=0)
    A = problem[1].copy()
    A[3, 3] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        chebyshev(A, 4, bounds=bounds, random_state=0)


def test_ends_of_the_spectrum(graph, graphs):
    values = np.linalg.eigvalsh(graphs.normalized(graph))
    for dtype in (np.float64, np.float32):
        M = NormalizedAffinity(graph, dtype=dtype)
        bounds = spectral_bounds(M, random_state=0)
        ends, width = values[[0, -1]], values[-1] - values[0]
        found = bounds.lower, bounds.upper
        np.testing.assert_allclose(found, ends, rtol=0, atol=0.05 * width)


def test_ritz_values_of_a_spectrum_far_from_zero():
    A = np.diag(1000 + np.linspace(0, 1, 60))
    nodes = spectral_bounds(A, random_state=0).nodes
    assert 1000 <= nodes[0] < nodes[-1] <= 1001


@pytest.mark.parametrize("n_steps", [1, 12])
def test_one_product_per_step(counting, n_steps):
    A = counting(np.diag(np.linspace(-1, 2, 60)))
    bounds = spectral_bounds(A, n_steps=n_steps, random_state=0)
    assert A.n_products == A.n_columns == n_steps == len(bounds.nodes)
    for bad in (0, -n_steps, 2.5):
        with pytest.raises(ValueError, match="n_steps must be an integer >= 1"):
            spectral_bounds(np.eye(3), n_steps=bad)


@pytest.mark.parametrize(
    ("A", "n_distinct"),
    [
        (np.zeros((30, 30)), 1),
        (-7 * np.eye(30), 1),
        (np.diag(np.repeat([-3.0, 1.0, 5.0], 10)), 3),
    ],
)
@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_invariant_subspace_ends_it(A, n_distinct, factor, counting):
    operator = counting(factor * A)
    bounds = spectral_bounds(operator, random_state=0)
    values = factor * np.linalg.eigvalsh(A)
    scale = 1e-12 * max(np.abs(values).max(), 1e-300)
    assert operator.n_products == n_distinct
    np.testing.assert_allclose(bounds.lower, values[0], rtol=0, atol=scale)
    np.testing.assert_allclose(bounds.upper, values[-1], rtol=0, atol=scale)
