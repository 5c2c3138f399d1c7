"""Augmented Lagrangian against known answers and another solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

from scalefair.optimize import ConstrainedValue, augmented_lagrangian


def linear_constraints(A, b):
    """Constraints ``A x <= b``."""
    return lambda x: A @ x - b, lambda w: A.T @ w


def problem(f, gradient, constraints, pull_back):
    return lambda x: ConstrainedValue(f(x), gradient(x), constraints(x), pull_back)


@pytest.mark.parametrize("seed", range(5))
def test_quadratic_program(seed):
    rng = np.random.RandomState(seed)
    B = rng.randn(6, 6)
    Q, c = B @ B.T + np.eye(6), rng.randn(6)
    A, b = rng.randn(9, 6), rng.uniform(0.05, 1, 9)
    constraints, pull_back = linear_constraints(A, b)
    result = augmented_lagrangian(
        problem(
            lambda x: x @ Q @ x / 2 - c @ x, lambda x: Q @ x - c, constraints, pull_back
        ),
        np.zeros(6),
        tol=1e-9,
        stationarity=1e-8,
        max_iter=100,
        max_inner=500,
    )
    other = minimize(
        lambda x: x @ Q @ x / 2 - c @ x,
        np.zeros(6),
        jac=lambda x: Q @ x - c,
        constraints={"type": "ineq", "fun": lambda x: b - A @ x, "jac": lambda x: -A},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(result.objective, other.fun, atol=1e-5)
    assert result.infeasibility <= 1e-6
    assert (result.multipliers >= 0).all()


def test_known_multipliers():
    # nearest point of {x <= 1} to (3, 2): (1, 2), multiplier 2 (3 - 1)
    constraints, pull_back = linear_constraints(np.array([[1.0, 0.0]]), np.array([1.0]))
    target = np.array([3.0, 2.0])
    result = augmented_lagrangian(
        problem(
            lambda x: ((x - target) ** 2).sum(),
            lambda x: 2 * (x - target),
            constraints,
            pull_back,
        ),
        np.zeros(2),
        tol=1e-9,
        stationarity=1e-8,
    )
    np.testing.assert_allclose(result.x, [1, 2], atol=1e-6)
    np.testing.assert_allclose(result.multipliers, [4], atol=1e-5)
    assert result.converged


def test_without_constraints():
    result = augmented_lagrangian(
        problem(
            lambda x: (x**2).sum(),
            lambda x: 2 * x,
            lambda x: np.zeros(0),
            lambda w: np.zeros(3),
        ),
        np.ones(3),
    )
    np.testing.assert_allclose(result.x, 0, atol=1e-3)
    assert result.converged
    assert result.infeasibility == 0


def test_infeasible_is_not_converged():
    # x <= -1 and x >= 1
    constraints, pull_back = linear_constraints(
        np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0])
    )
    result = augmented_lagrangian(
        problem(lambda x: x @ x, lambda x: 2 * x, constraints, pull_back),
        np.zeros(1),
        max_iter=6,
    )
    assert not result.converged
    assert result.infeasibility > 0.9


def test_start_and_multipliers_are_used():
    calls = []
    constraints, pull_back = linear_constraints(np.array([[1.0]]), np.array([1.0]))

    def evaluate(x):
        calls.append(x)
        return ConstrainedValue(
            float((x[0] - 3) ** 2), 2 * (x - 3), constraints(x), pull_back
        )

    cold = augmented_lagrangian(evaluate, [0.0], tol=1e-8, stationarity=1e-7)
    assert cold.n_calls == len(calls)
    calls.clear()
    warm = augmented_lagrangian(
        evaluate, cold.x, multipliers=cold.multipliers, tol=1e-6, stationarity=1e-4
    )
    assert warm.n_iter == 1
    assert warm.n_calls < cold.n_calls


def half_plane(x, **changes):
    parts = {
        "objective": float(x @ x),
        "gradient": 2 * x,
        "constraints": np.array([1 - x.sum()]),
        **changes,
    }
    return ConstrainedValue(**parts, pull_back=lambda w: -w[0] * np.ones(2))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("objective", np.nan),
        ("gradient", np.array([np.inf, 0.0])),
        ("constraints", np.array([np.nan])),
    ],
)
def test_numbers_that_are_not_finite(name, bad):
    with pytest.raises(FloatingPointError, match=rf"not finite \({name}\), at x0"):
        augmented_lagrangian(lambda x: half_plane(x, **{name: bad}), np.zeros(2))
    # An objective that is lost on the way must not count as converged.
    calls = []

    def evaluate(x):
        calls.append(x)
        return half_plane(x, **({name: bad} if len(calls) > 1 else {}))

    with pytest.raises(FloatingPointError, match="the end of round 1"):
        augmented_lagrangian(evaluate, np.zeros(2))


@pytest.mark.parametrize(
    ("x0", "options", "message"),
    [
        ([np.nan, 0.0], {}, "x0 must be a vector of finite numbers"),
        ([0.0, 0.0], {"max_iter": 0}, "max_iter must be a positive number"),
        ([0.0, 0.0], {"penalty": -1.0}, "penalty must be a positive number"),
        ([0.0, 0.0], {"multipliers": [1.0, 2.0]}, "multipliers must be 1 nonnegative"),
        ([0.0, 0.0], {"multipliers": [-1.0]}, "multipliers must be 1 nonnegative"),
    ],
)
def test_refuses(x0, options, message):
    with pytest.raises(ValueError, match=message):
        augmented_lagrangian(half_plane, x0, **options)


def test_history_counts_calls():
    constraints, pull_back = linear_constraints(np.array([[1.0]]), np.array([1.0]))
    result = augmented_lagrangian(
        problem(
            lambda x: (x[0] - 3) ** 2, lambda x: 2 * (x - 3), constraints, pull_back
        ),
        np.zeros(1),
    )
    objectives, violations, calls = zip(*result.history, strict=True)
    assert calls[-1] == result.n_calls
    assert list(calls) == sorted(calls)
    assert objectives[-1] == result.objective
    assert violations[-1] == result.infeasibility


@pytest.mark.parametrize("steepness", [1.0, 1e3, 1e5])
def test_constraints_of_any_scale(steepness):
    # The point of the half plane x + y >= 1 that is next to (0, -1): (1, 0).
    def evaluate(x):
        away = x - [0.0, -1.0]
        return ConstrainedValue(
            float(away @ away),
            2 * away,
            steepness * np.array([1 - x.sum()]),
            lambda weights: -steepness * weights[0] * np.ones(2),
        )

    found = augmented_lagrangian(
        evaluate, np.zeros(2), tol=1e-6, stationarity=1e-6, max_iter=100
    )
    assert found.converged
    assert found.kkt_residual <= 1e-6
    np.testing.assert_allclose(found.x, [1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(found.multipliers, 2 / steepness, rtol=1e-5)
