"""spectral_bounds: encloses the spectrum, cheap, safe on degenerate input."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from scalefair.linalg import spectral_bounds
from scalefair.operators import NormalizedAffinity, Projected


def check_ends(bounds, values, slack=0.05):
    """Ends of the spectrum, to a fraction of its width."""
    width = values[-1] - values[0]
    assert bounds.lower <= values[0] + slack * width
    assert bounds.upper >= values[-1] - slack * width
    assert bounds.lower >= values[0] - slack * width
    assert bounds.upper <= values[-1] + slack * width


def test_ends_of_the_spectrum(graph, graphs):
    values = np.linalg.eigvalsh(graphs.normalized(graph))
    for dtype in (np.float64, np.float32):
        M = NormalizedAffinity(graph, dtype=dtype)
        for seed in range(5):
            check_ends(spectral_bounds(M, random_state=seed), values)


def test_ends_of_the_spectrum_under_constraints(graph, graphs):
    M = NormalizedAffinity(graph)
    Q = graphs.fairness_basis(M.degrees, graphs.random_groups(M.shape[0], 3))
    constrained = Projected(M, Q, constrained_value=-1.0)
    values = np.linalg.eigvalsh(constrained @ np.eye(M.shape[0]))
    check_ends(spectral_bounds(constrained, random_state=0), values)


def test_more_steps_are_closer(graphs):
    W = graphs.nearest_neighbors(300)
    values = np.linalg.eigvalsh(graphs.normalized(W))
    M = NormalizedAffinity(W)
    for seed in range(10):
        bounds = spectral_bounds(M, n_steps=40, random_state=seed)
        check_ends(bounds, values, slack=0.005)


@pytest.mark.parametrize("factor", [1e-8, 1e8, -1.0])
def test_scales_with_the_operator(graphs, factor):
    A = graphs.normalized(graphs.nearest_neighbors(100))
    bounds = spectral_bounds(A, random_state=0)
    scaled = spectral_bounds(factor * A, random_state=0)
    ends = sorted([factor * bounds.lower, factor * bounds.upper])
    np.testing.assert_allclose([scaled.lower, scaled.upper], ends, rtol=1e-6)


def test_quadrature_of_the_density():
    # The nodes and weights give moments of the spectrum, here the uniform one.
    A = sparse.diags_array(np.linspace(0, 1, 20000))
    bounds = spectral_bounds(A, random_state=0)
    assert (np.diff(bounds.nodes) > 0).all()
    assert bounds.weights.sum() == pytest.approx(1, abs=1e-12)
    for power in (1, 2, 3):
        moment = bounds.weights @ bounds.nodes**power
        assert moment == pytest.approx(1 / (power + 1), abs=0.03)


@pytest.mark.parametrize("n_steps", [1, 2, 5, 12, 30])
def test_one_product_per_step(counting, n_steps):
    A = counting(np.diag(np.linspace(-1, 2, 60)))
    bounds = spectral_bounds(A, n_steps=n_steps, random_state=0)
    assert A.n_products == A.n_columns == n_steps == len(bounds.nodes)


@pytest.mark.parametrize(
    ("A", "n_distinct"),
    [
        (np.zeros((30, 30)), 1),
        (np.eye(30), 1),
        (-7 * np.eye(30), 1),
        (np.ones((30, 30)), 2),
        (np.diag(np.repeat([-3.0, 1.0, 5.0], 10)), 3),
    ],
)
@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e8])
def test_invariant_subspace_ends_it(A, n_distinct, factor, counting):
    operator = counting(factor * A)
    bounds = spectral_bounds(operator, random_state=0)
    values = factor * np.linalg.eigvalsh(A)
    scale = 1e-12 * max(np.abs(values).max(), 1e-300)
    assert operator.n_products == n_distinct
    np.testing.assert_allclose(bounds.lower, values[0], rtol=0, atol=scale)
    np.testing.assert_allclose(bounds.upper, values[-1], rtol=0, atol=scale)


def test_order_one_and_two():
    bounds = spectral_bounds(np.array([[-2.5]]), random_state=0)
    assert bounds.lower == bounds.upper == -2.5
    bounds = spectral_bounds(np.array([[0.0, 1.0], [1.0, 0.0]]), random_state=0)
    np.testing.assert_allclose([bounds.lower, bounds.upper], [-1, 1], atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_entries_that_are_not_finite(bad):
    A = np.eye(20)
    A[3, 3] = bad
    with pytest.raises(FloatingPointError, match="not finite"):
        spectral_bounds(A, random_state=0)


@pytest.mark.parametrize("n_steps", [0, -1, 2.5])
def test_refuses_a_number_of_steps(n_steps):
    with pytest.raises(ValueError, match="n_steps must be an integer, at least 1"):
        spectral_bounds(np.eye(3), n_steps=n_steps)


def test_products_that_cannot_be_written():
    def product(x):
        y = np.linspace(-1, 2, 30) * x
        y.flags.writeable = False
        return y

    A = LinearOperator((30, 30), matvec=product, dtype=float)
    check_ends(spectral_bounds(A, random_state=0), np.linspace(-1, 2, 30))


def test_refuses_what_is_not_square_or_real():
    with pytest.raises(ValueError, match="square"):
        spectral_bounds(np.ones((3, 4)))
    with pytest.raises(TypeError, match="real"):
        spectral_bounds(1j * np.eye(3))


def test_deterministic(graphs):
    M = NormalizedAffinity(graphs.nearest_neighbors(200))
    first, second = (spectral_bounds(M, random_state=3) for _ in range(2))
    assert first.lower == second.lower
    assert np.array_equal(first.weights, second.weights)
    # A RandomState is used and advanced.
    rng = np.random.RandomState(3)
    assert spectral_bounds(M, random_state=rng).lower == first.lower
    assert spectral_bounds(M, random_state=rng).lower != first.lower
