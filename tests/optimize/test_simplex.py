"""Maximisers on the simplex against known answers and other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
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
    assert_optimal(c, Q, np.full(n, True), found.x)


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


def random_program(seed, n, rank, n_summed):
    """Bounded: the linear part of the free variables lies in the range of Q."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((rank, n))
    c = B.T @ rng.standard_normal(rank)
    subset = np.zeros(n, dtype=bool)
    subset[rng.permutation(n)[:n_summed]] = True
    c[subset] += rng.standard_normal(n_summed)
    return c, B.T @ B, subset


def assert_optimal(c, Q, subset, x, tol=1e-9):
    assert x.min() >= 0
    assert x[subset].sum() == pytest.approx(1, abs=1e-13)
    slope = c - Q @ x
    slope[subset] -= slope[subset] @ x[subset]
    size = max(np.abs(c).max(), np.abs(Q).max()) * max(1.0, x.max())
    assert slope.max() <= tol * size
    assert np.abs(slope[x > 0]).max(initial=0.0) <= tol * size


@settings(deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12)
)
def test_meets_the_optimality_conditions(seed, n, rank, n_summed):
    c, Q, subset = random_program(seed, n, rank, min(n, n_summed))
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    assert_optimal(c, Q, subset, x)
    x0 = np.random.default_rng(seed).random(n)
    other = maximize_quadratic_on_simplex(c, Q, subset=subset, x0=x0)
    assert_optimal(c, Q, subset, other)
    value = c @ x - x @ Q @ x / 2
    assert c @ other - other @ Q @ other / 2 == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_slsqp(seed):
    c, Q, subset = random_program(seed, 8, 8, 3)
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    reference = minimize(
        lambda x: x @ Q @ x / 2 - c @ x,
        np.where(subset, 1 / 3, 0.5),
        jac=lambda x: Q @ x - c,
        bounds=[(0, None)] * 8,
        constraints={
            "type": "eq",
            "fun": lambda x: x[subset].sum() - 1,
            "jac": lambda x: subset.astype(float),
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert c @ x - x @ Q @ x / 2 == pytest.approx(-reference.fun, abs=1e-8)
    np.testing.assert_allclose(x, reference.x, atol=1e-4)


def test_closed_form():
    subset = np.array([True, True, False, False])
    x = maximize_quadratic_on_simplex(
        [1.0, 1.0, 4.0, -1.0], np.diag([1.0, 3.0, 2.0, 1.0]), subset=subset
    )
    np.testing.assert_allclose(x, [0.75, 0.25, 2, 0], atol=1e-14)


@pytest.mark.parametrize("copies", [2, 5])
def test_equal_rows(copies):
    """Copies of a row share its weight and change nothing else."""
    c, Q, subset = random_program(1, 6, 4, 2)
    rows = np.repeat(np.arange(6), copies)
    x = maximize_quadratic_on_simplex(
        c[rows], Q[np.ix_(rows, rows)], subset=subset[rows]
    )
    total = x.reshape(6, copies).sum(axis=1)
    assert_optimal(c, Q, subset, total)


def test_all_is_the_simplex():
    c, Q, _ = random_program(3, 7, 5, 7)
    np.testing.assert_array_equal(
        maximize_quadratic_on_simplex(c, Q, subset=np.ones(7, dtype=bool)),
        maximize_quadratic_on_simplex(c, Q),
    )


def test_constant_of_the_sum_does_not_matter():
    c, Q, subset = random_program(4, 9, 9, 4)
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    lifted = maximize_quadratic_on_simplex(c + 7 * subset, Q, subset=subset)
    np.testing.assert_allclose(lifted, x, atol=1e-10)
    other = maximize_quadratic_on_simplex(c + 7, Q, subset=subset)
    assert np.abs(other - x).max() > 1e-3


def test_permutation():
    c, Q, subset = random_program(5, 9, 9, 4)
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    order = np.random.default_rng(0).permutation(9)
    y = maximize_quadratic_on_simplex(
        c[order], Q[np.ix_(order, order)], subset=subset[order]
    )
    np.testing.assert_allclose(y, x[order], atol=1e-10)


def test_start_without_weight_in_the_subset():
    c, Q, subset = random_program(6, 6, 6, 2)
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    x0 = np.where(subset, 0.0, 1.0)
    y = maximize_quadratic_on_simplex(c, Q, subset=subset, x0=x0)
    np.testing.assert_allclose(y, x, atol=1e-10)


def test_refuses_what_is_no_subset():
    c, Q, _ = random_program(0, 3, 3, 1)
    for subset in ([False] * 3, [True] * 2, [1, 0, 0]):
        with pytest.raises(ValueError, match="subset must be 3 booleans"):
            maximize_quadratic_on_simplex(c, Q, subset=subset)


@pytest.mark.parametrize(
    ("c", "Q", "x0", "message"),
    [
        ([1.0, np.nan], np.eye(2), None, "c and Q must be finite"),
        ([1.0, 1.0], np.full((2, 2), np.inf), None, "c and Q must be finite"),
        ([1.0, 1.0], np.eye(3), None, r"Q of shape \(n, n\)"),
        ([], np.empty((0, 0)), None, "n at least 1"),
        ([1.0, 1.0], np.eye(2), [1.0], "x0 must hold 2 finite"),
        ([1.0, 1.0], np.eye(2), [1.0, np.nan], "x0 must hold 2 finite"),
    ],
)
def test_refuses_what_is_no_program(c, Q, x0, message):
    with pytest.raises(ValueError, match=message):
        maximize_quadratic_on_simplex(c, Q, x0=x0)


def test_the_start_is_not_changed():
    c, Q, _ = random_program(0, 3, 3, 1)
    x0 = np.array([-1.0, 2.0, 3.0])
    x = maximize_quadratic_on_simplex(c, Q, x0=x0)
    np.testing.assert_array_equal(x0, [-1, 2, 3])
    np.testing.assert_allclose(x, maximize_quadratic_on_simplex(c, Q), atol=1e-12)
