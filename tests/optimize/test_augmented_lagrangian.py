"""Augmented Lagrangian against known answers."""

from dataclasses import replace

import numpy as np
import pytest

from scalefair.optimize import ConstrainedValue, augmented_lagrangian


def nearest(target, A, b):
    """Nearest point of ``A x <= b`` to the target; counts its calls."""
    target, A, calls = np.array(target), np.array(A), []

    def evaluate(x):
        calls.append(x)
        away = x - target
        return ConstrainedValue(away @ away, 2 * away, A @ x - b, lambda w: A.T @ w)

    return evaluate, calls


def test_quadratic_program():
    rng = np.random.RandomState(0)
    B = rng.randn(6, 6)
    Q, c = B @ B.T + np.eye(6), rng.randn(6)
    A, b = rng.randn(9, 6), rng.uniform(0.05, 1, 9)
    result = augmented_lagrangian(
        lambda x: ConstrainedValue(
            x @ Q @ x / 2 - c @ x, Q @ x - c, A @ x - b, lambda w: A.T @ w
        ),
        np.zeros(6),
        tol=1e-9,
        stationarity=1e-8,
        max_iter=100,
    )
    # It is convex: these conditions make the optimum.
    x, multipliers = result.x, result.multipliers
    np.testing.assert_allclose(Q @ x - c + A.T @ multipliers, 0, atol=1e-5)
    np.testing.assert_allclose(multipliers * (A @ x - b), 0, atol=1e-5)
    assert (A @ x - b).max() <= 1e-6
    assert multipliers.min() >= 0
    assert (multipliers > 1e-3).sum() > 1


def test_known_multipliers():
    # nearest point of {x <= 1} to (3, 2): (1, 2), multiplier 2 (3 - 1)
    evaluate, calls = nearest([3.0, 2.0], [[1.0, 0.0]], [1.0])
    cold = augmented_lagrangian(evaluate, np.zeros(2), tol=1e-9, stationarity=1e-8)
    np.testing.assert_allclose(cold.x, [1, 2], atol=1e-6)
    np.testing.assert_allclose(cold.multipliers, [4], atol=1e-5)
    assert cold.converged
    objectives, violations, counts = zip(*cold.history, strict=True)
    assert counts[-1] == cold.n_calls == len(calls)
    assert list(counts) == sorted(counts)
    assert objectives[-1] == cold.objective
    assert violations[-1] == cold.infeasibility
    warm = augmented_lagrangian(
        evaluate, cold.x, multipliers=cold.multipliers, tol=1e-6, stationarity=1e-4
    )
    assert warm.n_iter == 1
    assert warm.n_calls < cold.n_calls


def test_without_constraints_and_without_feasible_points():
    evaluate, _ = nearest(np.zeros(3), np.empty((0, 3)), [])
    result = augmented_lagrangian(evaluate, np.ones(3))
    np.testing.assert_allclose(result.x, 0, atol=1e-3)
    assert result.converged
    assert result.infeasibility == 0
    evaluate, _ = nearest([0.0], [[1.0], [-1.0]], [-1.0, -1.0])
    result = augmented_lagrangian(evaluate, np.zeros(1), max_iter=6)
    assert not result.converged
    assert result.infeasibility > 0.9


@pytest.mark.parametrize("steepness", [1.0, 1e3, 1e5])
def test_constraints_of_any_scale(steepness):
    # The point of the half plane x + y >= 1 that is next to (0, -1): (1, 0).
    evaluate, _ = nearest([0.0, -1.0], [[-steepness, -steepness]], [-steepness])
    actual = augmented_lagrangian(
        evaluate, np.zeros(2), tol=1e-6, stationarity=1e-6, max_iter=100
    )
    assert actual.converged
    assert actual.kkt_residual <= 1e-6
    np.testing.assert_allclose(actual.x, [1.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(actual.multipliers, 2 / steepness, rtol=1e-5)


half_plane, _ = nearest([0.0, 0.0], [[-1.0, -1.0]], [-1.0])


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
        augmented_lagrangian(
            lambda x: replace(half_plane(x), **{name: bad}), np.zeros(2)
        )
    # An objective that is lost on the way must not count as converged.
    calls = []

    def evaluate(x):
        calls.append(x)
        return replace(half_plane(x), **({name: bad} if len(calls) > 1 else {}))

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
