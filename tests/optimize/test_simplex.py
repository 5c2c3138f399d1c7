"""Maximisers on the simplex against known answers and other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from scalefair.optimize import maximize_on_simplex, maximize_quadratic_on_simplex


def quadratic(c, Q):
    return lambda x: (c @ x - x @ Q @ x / 2, c - Q @ x, -Q)


def random_quadratic(seed, n, rank=None):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((rank or n, n))
    return rng.standard_normal(n), B.T @ B


@pytest.mark.parametrize("n", [1, 5])
def test_newton_ends_a_quadratic_in_two_calls(n):
    c, Q = random_quadratic(n, n)
    actual = maximize_on_simplex(quadratic(c, Q), n, tol=1e-12, atol=1e-13)
    assert actual.converged
    assert actual.n_iter <= 2
    assert_optimal(c, Q, np.full(n, True), actual.x)
    again = maximize_on_simplex(quadratic(c, Q), n, x0=3 * actual.x, atol=1e-12)
    assert again.n_iter == 1


@pytest.mark.parametrize(("n", "max_iter"), [(2, 400), (6, 400), (8, 7)])
def test_bounds_without_hessian(n, max_iter):
    c, Q = random_quadratic(n, n)
    slope = np.empty(n)

    def oracle(x):  # writes to the same array again
        slope[:] = c - Q @ x
        return c @ x - x @ Q @ x / 2, slope, None

    actual = maximize_on_simplex(oracle, n, tol=1e-6, max_iter=max_iter)
    best = maximize_quadratic_on_simplex(c, Q)
    optimum = c @ best - best @ Q @ best / 2
    assert actual.value - 1e-14 <= optimum <= actual.upper_bound + 1e-14
    assert actual.gap == pytest.approx(actual.upper_bound - actual.value)
    if max_iter == 400:
        assert actual.converged, actual.message
        assert actual.value == pytest.approx(optimum, rel=1e-6)
        return
    assert not actual.converged  # calls run out
    assert actual.n_iter == 7
    assert "raise max_iter" in actual.message


def test_rounding_stops_progress():
    c, Q = random_quadratic(6, 6)
    actual = maximize_on_simplex(
        lambda x: (*quadratic(c, Q)(x)[:2], None), 6, tol=1e-17, max_iter=400
    )
    assert not actual.converged
    assert "raise tol" in actual.message


@pytest.mark.parametrize(("n", "m"), [(2, 3), (6, 10), (20, 40)])
def test_piecewise_linear_against_linear_programming(n, m):
    rng = np.random.default_rng(m)
    rows, offsets = rng.standard_normal((m, n)), rng.standard_normal(m)

    def smallest(x):
        values = rows @ x + offsets
        i = int(np.argmin(values))
        return values[i], rows[i], None

    actual = maximize_on_simplex(smallest, n, tol=1e-10)
    reference = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-rows, np.ones((m, 1))]),
        b_ub=offsets,
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    assert actual.converged, actual.message
    assert actual.value == pytest.approx(-reference.fun, abs=1e-9)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((np.nan, np.ones(3), None), FloatingPointError, "not finite"),
        (
            (0.0, np.ones(3), np.full((3, 3), np.inf)),
            FloatingPointError,
            "Hessian that is not finite",
        ),
        ((0.0, np.ones(2), None), ValueError, r"shape \(3,\) and a Hessian"),
        ((0.0, np.ones(3), np.eye(2)), ValueError, r"Hessian of shape \(3, 3\)"),
    ],
)
def test_refuses_what_the_oracle_returns(answer, error, message):
    with pytest.raises(error, match=message):
        maximize_on_simplex(lambda x: answer, 3)


@pytest.mark.parametrize("x0", [np.zeros(4), [-1, 1, 1, 1], [1] * 3, [np.nan, 1, 1, 1]])
def test_starts_that_are_refused(x0):
    c, Q = random_quadratic(2, 4)
    with pytest.raises(ValueError, match="x0 must hold 4"):
        maximize_on_simplex(quadratic(c, Q), 4, x0=x0)
    with pytest.raises(ValueError, match="n must be at least 1"):
        maximize_on_simplex(quadratic(c, Q), 0)


def assert_optimal(c, Q, subset, x, tol=1e-9):
    assert x.min() >= 0
    assert x[subset].sum() == pytest.approx(1, abs=1e-13)
    slope = c - Q @ x
    slope[subset] -= slope[subset] @ x[subset]
    size = max(np.abs(c).max(), np.abs(Q).max()) * max(1.0, x.max())
    assert slope.max() <= tol * size
    assert np.abs(slope[x > 0]).max(initial=0.0) <= tol * size


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), *[st.integers(1, 12)] * 3)
def test_meets_the_optimality_conditions(seed, n, rank, n_summed):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((rank, n))
    # Bounded: the linear part of the free variables lies in the range of Q.
    c, Q = B.T @ rng.standard_normal(rank), B.T @ B
    subset = rng.permutation(n) < n_summed
    c[subset] += rng.standard_normal(subset.sum())
    x = maximize_quadratic_on_simplex(c, Q, subset=subset)
    assert_optimal(c, Q, subset, x)
    value = c @ x - x @ Q @ x / 2
    start = np.random.default_rng(seed).standard_normal(n)
    for x0 in (start, np.where(subset, 0.0, 1.0)):  # or without weight in the subset
        before = x0.copy()
        other = maximize_quadratic_on_simplex(c, Q, subset=subset, x0=x0)
        assert_optimal(c, Q, subset, other)
        assert c @ other - other @ Q @ other / 2 == pytest.approx(value, abs=1e-8)
        np.testing.assert_array_equal(x0, before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"c": [1.0, np.nan]}, "c and Q must be finite"),
        ({"Q": np.full((2, 2), np.inf)}, "c and Q must be finite"),
        ({"Q": np.eye(3)}, r"Q of shape \(n, n\)"),
        ({"c": [], "Q": np.empty((0, 0))}, "n at least 1"),
        ({"x0": [1.0]}, "x0 must hold 2 finite"),
        ({"x0": [1.0, np.nan]}, "x0 must hold 2 finite"),
        ({"subset": [False] * 2}, "subset must be 2 booleans"),
        ({"subset": [True] * 3}, "subset must be 2 booleans"),
        ({"subset": [1, 0]}, "subset must be 2 booleans"),
    ],
)
def test_refuses_what_is_no_program(changes, message):
    with pytest.raises(ValueError, match=message):
        maximize_quadratic_on_simplex(**({"c": [1.0, 1.0], "Q": np.eye(2)} | changes))
