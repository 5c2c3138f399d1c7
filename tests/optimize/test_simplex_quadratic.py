"""Quadratic programs of which some variables sum to 1."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scalefair.optimize import maximize_quadratic_on_simplex


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
