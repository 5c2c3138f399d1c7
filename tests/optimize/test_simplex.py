"""Maximisers on the simplex against known answers and other solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from scalefair.optimize import maximize_on_simplex, maximize_quadratic_on_simplex


def quadratic(c, Q, with_hessian=True):
    def oracle(x):
        slope = c - Q @ x
        return c @ x - x @ Q @ x / 2, slope, -Q if with_hessian else None

    return oracle


def smallest_of(rows, offsets):
    """Minimum of linear functions: piecewise linear, a linear program."""

    def oracle(x):
        values = rows @ x + offsets
        i = int(np.argmin(values))
        return values[i], rows[i], None

    return oracle


def random_quadratic(seed, n, rank=None):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((rank or n, n))
    return rng.standard_normal(n), B.T @ B


def assert_optimal(c, Q, x):
    """First-order conditions on the simplex."""
    assert x.min() >= 0
    assert x.sum() == pytest.approx(1, abs=1e-14)
    slope = c - Q @ x
    assert (slope - slope @ x).max() <= 1e-12 * max(1, np.abs(Q).max())


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12))
def test_quadratic_meets_the_optimality_conditions(seed, n, rank):
    c, Q = random_quadratic(seed, n, rank)
    assert_optimal(c, Q, maximize_quadratic_on_simplex(c, Q))
    x0 = np.random.default_rng(seed).dirichlet(np.ones(n))
    assert_optimal(c, Q, maximize_quadratic_on_simplex(c, Q, x0=x0))


def test_quadratic_of_zero_is_a_vertex():
    x = maximize_quadratic_on_simplex(np.array([0.0, 2.0, 1.0]), np.zeros((3, 3)))
    np.testing.assert_array_equal(x, [0, 1, 0])
    x0 = np.array([0.5, 0.25, 0.25])
    x = maximize_quadratic_on_simplex([0.0, 2.0, 1.0], np.zeros((3, 3)), x0=x0)
    np.testing.assert_allclose(x, [0, 1, 0], atol=1e-15)


@pytest.mark.parametrize("factor", [1e-200, 1e-9, 1e12])
def test_quadratic_does_not_depend_on_the_unit(factor):
    c, Q = random_quadratic(3, 6)
    x = maximize_quadratic_on_simplex(c, Q)
    scaled = maximize_quadratic_on_simplex(factor * c, factor * Q)
    np.testing.assert_allclose(scaled, x, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_newton_ends_a_quadratic_in_two_calls(n):
    c, Q = random_quadratic(n, n)
    found = maximize_on_simplex(quadratic(c, Q), n, tol=1e-12, atol=1e-13)
    assert found.converged
    assert found.n_iter <= 2
    assert_optimal(c, Q, found.x)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_without_hessian(n):
    c, Q = random_quadratic(n, n)
    found = maximize_on_simplex(quadratic(c, Q, False), n, tol=1e-6, max_iter=400)
    best = maximize_quadratic_on_simplex(c, Q)
    optimum = c @ best - best @ Q @ best / 2
    assert found.converged, found.message
    assert found.value <= optimum + 1e-14
    assert found.upper_bound >= optimum - 1e-14
    assert found.value == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize(("n", "m"), [(2, 3), (6, 10), (20, 40)])
def test_piecewise_linear_against_linear_programming(n, m):
    rng = np.random.default_rng(m)
    rows, offsets = rng.standard_normal((m, n)), rng.standard_normal(m)
    found = maximize_on_simplex(smallest_of(rows, offsets), n, tol=1e-10)
    reference = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-rows, np.ones((m, 1))]),
        b_ub=offsets,
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    assert found.converged, found.message
    assert found.value == pytest.approx(-reference.fun, abs=1e-9)


def test_smooth_function_against_slsqp():
    rows = np.abs(np.random.default_rng(0).standard_normal((30, 5)))

    def oracle(x):  # sum of logarithms
        values = rows @ x
        scaled = rows / values[:, None]
        return np.log(values).sum(), scaled.sum(axis=0), -(scaled.T @ scaled)

    found = maximize_on_simplex(oracle, 5, tol=1e-12)
    reference = minimize(
        lambda x: -np.log(rows @ x).sum(),
        np.full(5, 0.2),
        jac=lambda x: -(rows / (rows @ x)[:, None]).sum(axis=0),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.converged
    assert found.n_iter <= 12
    assert found.value == pytest.approx(-reference.fun, rel=1e-8)
    np.testing.assert_allclose(found.x, reference.x, atol=1e-4)


def test_kink_across_a_curved_function():
    """The maximum of -|x - a| - curvature sits where no Hessian tells the way."""
    target = np.array([0.2, 0.3, 0.5])

    def oracle(x):
        d = x - target
        slope = -np.sign(d) - d
        return -np.abs(d).sum() - d @ d / 2 + 1, slope, -np.eye(3)

    found = maximize_on_simplex(oracle, 3, tol=1e-9, max_iter=100)
    assert found.converged, found.message
    np.testing.assert_allclose(found.x, target, atol=1e-8)
    assert 1 - 1e-9 <= found.value <= 1 <= found.upper_bound + 1e-14


def test_bound_holds_when_calls_run_out():
    c, Q = random_quadratic(1, 8)
    best = maximize_quadratic_on_simplex(c, Q)
    optimum = c @ best - best @ Q @ best / 2
    found = maximize_on_simplex(quadratic(c, Q, False), 8, tol=1e-12, max_iter=7)
    assert not found.converged
    assert found.n_iter == 7
    assert "raise max_iter" in found.message
    assert found.value < optimum < found.upper_bound
    assert found.gap == pytest.approx(found.upper_bound - found.value)


def test_start():
    c, Q = random_quadratic(2, 4)
    solution = maximize_quadratic_on_simplex(c, Q)
    found = maximize_on_simplex(quadratic(c, Q), 4, x0=3 * solution, atol=1e-12)
    assert found.n_iter == 1
    for x0 in (np.zeros(4), [-1, 1, 1, 1], [1, 1, 1], [np.nan, 1, 1, 1]):
        with pytest.raises(ValueError, match="x0 must hold 4"):
            maximize_on_simplex(quadratic(c, Q), 4, x0=x0)


def test_refuses_values_that_are_not_finite():
    with pytest.raises(FloatingPointError, match="not finite"):
        maximize_on_simplex(lambda x: (np.nan, x, None), 3)
    bad = np.full((3, 3), np.inf)
    with pytest.raises(FloatingPointError, match="Hessian that is not finite"):
        maximize_on_simplex(lambda x: (0.0, x, bad), 3)


def test_refuses_arrays_of_other_shapes():
    for slope, hessian in ((np.ones(2), None), (np.ones(3), np.eye(2))):
        with pytest.raises(ValueError, match=r"shape \(3,\) and a Hessian of shape"):
            maximize_on_simplex(lambda x, s=slope, h=hessian: (0.0, s, h), 3)
    with pytest.raises(ValueError, match="n must be at least 1"):
        maximize_on_simplex(lambda x: (0.0, x, None), 0)


def test_arrays_that_are_written_again():
    c, Q = random_quadratic(2, 4)
    slope = np.empty(4)

    def frugal(x):
        slope[:] = c - Q @ x
        return c @ x - x @ Q @ x / 2, slope, None

    found = maximize_on_simplex(frugal, 4, tol=1e-6)
    plain = maximize_on_simplex(quadratic(c, Q, False), 4, tol=1e-6)
    np.testing.assert_array_equal(found.x, plain.x)
    assert found.converged
