"""Nearly-KKT residual at points whose multipliers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from scalefair.optimize import DCProblem, nearly_kkt_residual
from scalefair.optimize._dc_problem import Oracle, least_residual, residual_of_aggregate


class Outside(DCProblem):
    """Distance to (2, 0) squared, outside the ball of radius 3 and with y <= 5.

    KKT points (3, 0) and (-3, 0) with multipliers 1/3 and 5/3 of the first
    constraint; the second is inactive at both.
    """

    n_variables, n_constraints = 2, 2

    def plus(self, v):
        d = v - np.array([2.0, 0.0])
        values = np.array([d @ d, 9.0, v[1] - 5])
        return values, np.array([2 * d, [0, 0], [0, 1.0]])

    def minus(self, v):
        return np.array([0, v @ v, 0]), np.array([[0, 0], 2 * v, [0, 0.0]])


class AbsoluteValue(DCProblem):
    n_variables, n_constraints = 1, 0

    def plus(self, v):
        return np.abs(v), np.sign(v)[None]

    def minus(self, v):
        return np.zeros(1), np.zeros((1, 1))


@pytest.mark.parametrize(("x", "multiplier"), [(3.0, 1 / 3), (-3.0, 5 / 3)])
def test_zero_at_kkt_points(x, multiplier):
    found = nearly_kkt_residual(Outside(), [x, 0], [multiplier, 0], [x, 0])
    assert found.value == pytest.approx(0, abs=1e-15)


@given(st.floats(-4, 4), st.floats(-4, 4), st.floats(0, 3), st.floats(0, 3))
def test_positive_elsewhere(x, y, first, second):
    found = nearly_kkt_residual(Outside(), [x, y], [first, second], [x, y])
    near = min(abs(abs(x) - 3) + abs(y), 1.0)
    assert found.value >= 0.05 * near


def test_parts():
    at = [3.0, 0.0]
    base = [1 / 3, 0.0]
    away = nearly_kkt_residual(Outside(), at, base, [3.0, 0.25])
    assert away.distance == 0.25
    # plus-subgradients at x_hat: 2 (x_hat - (2, 0)) - 2/3 (3, 0) = (0, 0.5)
    assert away.stationarity == pytest.approx(0.5)
    assert away.value == pytest.approx(0.5)
    assert away.violation == away.complementarity == 0
    slack = nearly_kkt_residual(Outside(), at, [1 / 3, 0.1], at)
    assert slack.complementarity == pytest.approx(0.5)
    assert slack.stationarity == pytest.approx(0.1)
    assert slack.value == slack.complementarity
    inside = nearly_kkt_residual(Outside(), [2.0, 0.0], [0, 0], [2.0, 0.0])
    assert inside.violation == inside.value == 5
    assert inside.stationarity == 0
    # minus-subgradients belong to x, not to x_hat
    moved = nearly_kkt_residual(Outside(), [-3.0, 0.0], [5 / 3, 0], [3.0, 0.0])
    assert moved.stationarity == pytest.approx(12)
    assert moved.distance == 6


def test_refuses_bad_multipliers():
    for multipliers in ([1.0], [-1.0, 0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="2 nonnegative"):
            nearly_kkt_residual(Outside(), [3.0, 0], multipliers, [3.0, 0])


@pytest.mark.parametrize(("x", "multiplier"), [(3.0, 1 / 3), (-3.0, 5 / 3)])
def test_multipliers_are_found(x, multiplier):
    point = Oracle(Outside())(np.array([x, 0.0]))
    residual, multipliers = least_residual(point, point)
    assert residual.value == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(multipliers, [multiplier, 0], atol=1e-6)


@pytest.mark.parametrize("shift", [1e-1, 1e-3, 1e-5])
def test_found_multipliers_fit_nearby(shift):
    point = Oracle(Outside())(np.array([3.0 + shift, shift]))
    residual, multipliers = least_residual(point, point)
    assert residual.value <= 10 * shift
    again = nearly_kkt_residual(Outside(), point.x, multipliers, point.x)
    assert again.value == pytest.approx(residual.value, rel=1e-12)


@given(st.floats(0, 2), st.floats(0, 2), st.floats(1e-8, 2))
def test_aggregate_takes_the_best_witness(x, norm, error):
    point, witness = (Oracle(AbsoluteValue())(np.array([z])) for z in (0.0, x))
    found = residual_of_aggregate(point, np.zeros(0), witness, norm, error)
    best = minimize_scalar(
        lambda u: max(x + np.exp(u), norm + error / np.exp(u)),
        bounds=(-20, 4),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert found.value == pytest.approx(best.fun, rel=1e-6)


def test_aggregate_without_error_is_exact():
    point = Oracle(AbsoluteValue())(np.zeros(1))
    found = residual_of_aggregate(point, np.zeros(0), point, 0.25, 0.0)
    assert (found.distance, found.stationarity) == (0, 0.25)
