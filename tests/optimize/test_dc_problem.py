"""Problems with differences of convex functions, and their nearly-KKT residual."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from scalefair.optimize import (
    DCProblem,
    DCRecord,
    idca,
    nearly_kkt_residual,
    proximal_bundle,
)
from scalefair.optimize._dc_problem import Oracle, least_residual, residual_of_aggregate


class Bowl(DCProblem):
    """|v|^2 subject to v_1 >= 1, counting its calls."""

    n_variables, n_constraints = 2, 1

    def __init__(self):
        self.calls = []

    def plus(self, v):
        self.calls.append("plus")
        return np.array([v @ v, 1 - v[0]]), np.array([2 * v, [-1.0, 0.0]])

    def minus(self, v):
        self.calls.append("minus")
        return np.zeros(2), np.zeros((2, 2))


def test_evaluate_calls_both_parts():
    problem = Bowl()
    (plus, J), (minus, K) = problem.evaluate(np.array([3.0, 4.0]))
    np.testing.assert_array_equal(plus, [25, -2])
    np.testing.assert_array_equal(J, [[6, 8], [-1, 0]])
    np.testing.assert_array_equal(minus, [0, 0])
    np.testing.assert_array_equal(K, np.zeros((2, 2)))
    assert problem.calls == ["plus", "minus"]


def test_shared_pass_is_used():
    class Shared(Bowl):
        def evaluate(self, v):
            self.calls.append("both")
            return super().plus(v), super().minus(v)

    problem = Shared()
    found = idca(problem, [3.0, 1.0])
    assert found.converged
    assert problem.calls.count("both") == found.n_calls
    assert problem.calls.count("plus") == problem.calls.count("minus") == found.n_calls


def test_abstract():
    with pytest.raises(TypeError):
        DCProblem()


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
def test_wrong_shapes(solver):
    class Short(Bowl):
        def minus(self, v):
            return np.zeros(1), np.zeros((1, 2))

    class Flat(Bowl):
        def plus(self, v):
            return np.zeros(2), np.zeros(2)

    with pytest.raises(ValueError, match=r"minus must return 2 values"):
        solver(Short(), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"plus must return .* shape \(2, 2\)"):
        solver(Flat(), [1.0, 1.0])
    name = "x0" if solver is idca else "center"
    for x0, got in (
        ([1.0], r"shape \(1,\)"),
        ([[1.0, 1.0]], r"shape \(1, 2\)"),
        ([1.0, np.nan], "nan at entry 1"),
    ):
        message = f"{name} must hold 2 finite numbers, one per variable, got {got}"
        with pytest.raises(ValueError, match=message):
            solver(Bowl(), x0)


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite(solver, bad):
    class Broken(Bowl):
        def plus(self, v):
            values, jacobian = super().plus(v)
            jacobian[1, 1] = bad
            return values, jacobian

    message = "plus returned .* for constraint 1, at call 1"
    with pytest.raises(FloatingPointError, match=message):
        solver(Broken(), [1.0, 1.0])
    Broken.plus = lambda self, v: (np.array([bad, 0.0]), np.zeros((2, 2)))
    with pytest.raises(FloatingPointError, match="for the objective, at call 1"):
        solver(Broken(), [1.0, 1.0])


def test_start_is_not_changed():
    x0 = np.array([3.0, 1.0])
    idca(Bowl(), x0)
    np.testing.assert_array_equal(x0, [3, 1])


@pytest.mark.parametrize("solver", [idca, proximal_bundle])
def test_arrays_that_are_written_again(solver):
    class Frugal(Bowl):
        def __init__(self):
            super().__init__()
            self.values, self.jacobian = np.empty(2), np.empty((2, 2))

        def plus(self, v):
            self.values[:], self.jacobian[:] = super().plus(v)
            return self.values, self.jacobian

    frugal, plain = (solver(problem(), [3.0, 1.0]) for problem in (Frugal, Bowl))
    np.testing.assert_array_equal(frugal.x, plain.x)
    assert frugal.n_calls == plain.n_calls


def test_history_is_of_records():
    found = idca(Bowl(), [3.0, 1.0], tol=1e-8)
    assert all(isinstance(record, DCRecord) for record in found.history)
    assert len(found.history) == found.n_iter
    calls = [record.n_calls for record in found.history]
    assert calls == sorted(calls)
    assert calls[-1] == found.n_calls
    last = found.history[-1]
    assert last.objective == found.objective
    assert last.kkt_residual == found.kkt_residual


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
