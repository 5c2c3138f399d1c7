"""Problems whose KKT points are known: residuals, the outer loop, subgradients."""

import numpy as np
import pytest

from scalefair.optimize import (
    DCProblem,
    direct_switching_subgradient,
    idca,
    nearly_kkt_residual,
    proximal_bundle,
    switching_subgradient,
)


class Functions(DCProblem):
    """Pairs of functions (plus, minus), each returning value and subgradient.

    Keeps the points at which the plus parts were asked for. The answers are written to
    the same arrays again.
    """

    def __init__(self, n, *pairs):
        self.n_variables, self.n_constraints = n, len(pairs) - 1
        self.pairs, self.visited = pairs, []
        m = len(pairs)
        self.parts = [(np.empty(m), np.empty((m, n))) for _ in range(2)]

    def _part(self, i, v):
        for k, pair in enumerate(self.pairs):
            self.parts[i][0][k], self.parts[i][1][k] = pair[i](v)
        return self.parts[i]

    def plus(self, v):
        self.visited.append(v)
        return self._part(0, v)

    def minus(self, v):
        return self._part(1, v)


def zero(v):
    return 0.0, np.zeros(v.size)


def distance(*target):
    return lambda v: (((v - target) ** 2).sum(), 2 * (v - target))


def linear(c, *slope):
    return lambda v: (c + v @ slope, slope)


def l1(v):
    return np.abs(v).sum(), np.sign(v)


def l2(v):
    norm = np.linalg.norm(v)
    return norm, v / norm if norm else np.zeros(v.size)


def square(v):
    return v @ v, 2 * v


def outside(*more):
    """Distance to (2, 0) squared, outside the ball of radius 3.

    KKT points (3, 0) and (-3, 0) with multipliers 1/3 and 5/3.
    """
    return Functions(2, (distance(2, 0), zero), (linear(9, 0, 0), square), *more)


def tent():
    """|x| + |y - 1| subject to 1 - x - y <= 0 and x - 3 <= 0."""
    return Functions(
        2,
        (lambda v: l1(v - [0, 1]), zero),
        (linear(1, -1, -1), zero),
        (linear(-3, 1, 0), zero),
    )


def bowl():
    """|v|^2 subject to v_1 >= 1."""
    return Functions(2, (square, zero), (linear(1, -1, 0), zero))


def assert_kkt(found, tol):
    assert found.converged, found.message
    assert found.kkt_residual <= tol
    assert found.infeasibility <= tol
    assert found.multipliers.min(initial=0.0) >= 0


SOLVERS = [idca, proximal_bundle, switching_subgradient, direct_switching_subgradient]


@pytest.mark.parametrize("solver", SOLVERS)
def test_refuses(solver):
    def broken(name, values, jacobian):
        problem = bowl()
        setattr(problem, name, lambda v: (np.array(values), np.array(jacobian)))
        return problem

    with pytest.raises(ValueError, match=r"minus must return 2 values"):
        solver(broken("minus", [0.0], [[0.0, 0.0]]), [1.0, 1.0])
    with pytest.raises(ValueError, match=r"plus must return .* shape \(2, 2\)"):
        solver(broken("plus", [0.0, 0.0], [0.0, 0.0]), [1.0, 1.0])
    for bad in (np.nan, np.inf):
        message = "plus returned .* for constraint 1, at call 1"
        with pytest.raises(FloatingPointError, match=message):
            solver(broken("plus", [1.0, 0.0], [[2.0, 2.0], [-1.0, bad]]), [1.0, 1.0])
        with pytest.raises(FloatingPointError, match="for the objective, at call 1"):
            solver(broken("plus", [bad, 0.0], np.zeros((2, 2))), [1.0, 1.0])
    for x0, got in (
        ([1.0], r"shape \(1,\)"),
        ([[1.0, 1.0]], r"shape \(1, 2\)"),
        ([1.0, np.nan], "nan at entry 1"),
    ):
        message = f"must hold 2 finite numbers, one per variable, got {got}"
        with pytest.raises(ValueError, match=message):
            solver(bowl(), x0)
    with pytest.raises(ValueError, match="eps must be a positive"):
        solver(bowl(), [2.0, 2.0], eps=0.0)


# A second constraint that is inactive at both KKT points.
LOW = (linear(-5, 0, 1), zero)


def test_parts():
    problem, at, base = outside(LOW), [3.0, 0.0], [1 / 3, 0.0]
    away = nearly_kkt_residual(problem, at, base, [3.0, 0.25])
    assert away.distance == 0.25
    # plus-subgradients at x_hat: 2 (x_hat - (2, 0)) - 2/3 (3, 0) = (0, 0.5)
    assert away.value == away.stationarity == pytest.approx(0.5)
    assert away.violation == away.complementarity == 0
    slack = nearly_kkt_residual(problem, at, [1 / 3, 0.1], at)
    assert slack.value == slack.complementarity == pytest.approx(0.5)
    assert slack.stationarity == pytest.approx(0.1)
    inside = nearly_kkt_residual(problem, [2.0, 0.0], [0, 0], [2.0, 0.0])
    assert inside.violation == inside.value == 5
    assert inside.stationarity == 0
    # minus-subgradients belong to x, not to x_hat
    moved = nearly_kkt_residual(problem, [-3.0, 0.0], [5 / 3, 0], [3.0, 0.0])
    assert moved.stationarity == pytest.approx(12)
    assert moved.distance == 6
    for multipliers in ([1.0], [-1.0, 0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="2 nonnegative"):
            nearly_kkt_residual(problem, at, multipliers, at)


def largest_of_two(v):
    """The kink between two paraboloids is curved: no iterate lies on it."""
    return max(distance(1, 0)(v), distance(-1, 0)(v), key=lambda pair: pair[0])


def fit(v):
    """Squared misfit of a line; with |v|_1 - |v|_2 as price it wants few entries."""
    misfit, (norm, signs) = v @ [1, 2, 4] - 4, l1(v)
    return 5 * misfit**2 + norm, 10 * misfit * np.array([1, 2, 4]) + signs


# Projection of (2, 2) on the unit disc; |x| + |y| subject to x + 2 y >= 2.
DISC = Functions(2, (distance(2, 2), zero), (lambda v: (v @ v - 1, 2 * v), zero))
VERTEX = Functions(2, (l1, zero), (linear(2, -1, -2), zero))


QUARTIC = Functions(1, (lambda v: (v[0] ** 4, 4 * v**3), square))
DEPENDENT = Functions(2, (square, zero), *[(linear(k, -k, 0), zero) for k in (1, 2, 2)])


def left_of(c):
    return Functions(2, (distance(2, 0), zero), (linear(-c, 1, 0), zero))


@pytest.mark.parametrize(
    ("problem", "start", "end", "multipliers", "tol"),
    [
        (DISC, [0.0, 0.0], np.sqrt([0.5, 0.5]), [np.sqrt(8) - 1], 1e-6),
        (VERTEX, [3.0, 3.0], [0, 1], [0.5], 1e-6),
        (Functions(2, (largest_of_two, zero)), [2.0, 3.0], [0, 0], [], 1e-4),
        (Functions(3, (fit, l2)), [0.1, 0.2, 2.0], [0, 0, 1], [], 1e-5),
        # Two KKT points, one of them a minimum.
        (outside(), [0, 4], [3, 0], [1 / 3], 1e-6),
        (outside(), [-4, 0], [-3, 0], [5 / 3], 1e-6),
        # Inactive, and through the unconstrained minimum: multiplier zero.
        (left_of(7), [-3.0, 5.0], [2, 0], [0], 1e-7),
        (left_of(2), [-3.0, 5.0], [2, 0], [0], 1e-6),
        # A minimum, and zero, which is stationary as well.
        (QUARTIC, [2.0], np.sqrt([0.5]), [], 1e-7),
        (QUARTIC, [0.0], [0], [], 1e-7),
        # Multipliers of dependent constraints are not unique.
        (DEPENDENT, [3.0, 2.0], [1, 0], None, 1e-6),
    ],
)
def test_known_answers(problem, start, end, multipliers, tol):
    actual = idca(problem, start, tol=tol)
    assert_kkt(actual, tol)
    (plus, _), (minus, _) = problem.evaluate(actual.x)
    assert actual.objective == pytest.approx((plus - minus)[0], abs=1e-14)
    assert max(record.infeasibility for record in actual.history) <= 1e-12
    # Points of residual tol lie within the hundredfold in these problems.
    np.testing.assert_allclose(actual.x, end, atol=100 * tol)
    if multipliers is None:
        assert actual.multipliers @ [1, 2, 2] == pytest.approx(2, abs=1e-4)
    else:
        np.testing.assert_allclose(actual.multipliers, multipliers, atol=1e-3)


def test_bundle_needs_far_fewer_calls_than_switching_subgradients():
    options = {"eps": 1e-2, "inner_calls": 100, "max_iter": 100}
    options["inner"] = "switching_subgradient"
    actual = idca(outside(), [3.5, 1.0], tol=0.1, **options)
    assert_kkt(actual, 0.1)
    np.testing.assert_allclose(actual.x, [3, 0], atol=0.1)
    assert 10 * idca(outside(), [3.5, 1.0], tol=0.1).n_calls <= actual.n_calls


def test_says_so_when_it_fails():
    actual = idca(outside(), [1.0, 0.5], tol=1e-4, max_iter=300)
    assert actual.history[-1].infeasibility < 8  # infeasible at the start
    assert actual.converged == (actual.kkt_residual <= 1e-4)
    nowhere = Functions(1, (square, zero), (lambda v: (1 + v[0] ** 2, 2 * v), zero))
    for solver, message in (
        (idca, "start from a feasible point"),
        (direct_switching_subgradient, "raise max_iter"),
    ):
        actual = solver(nowhere, [2.0], max_iter=100)
        assert not actual.converged
        assert 1 <= actual.infeasibility < 1.2  # the least infeasible point
        assert message in actual.message
    seen = []
    kink, start = Functions(2, (largest_of_two, zero)), [2.0, 3.0]
    few = idca(kink, start, tol=1e-9, max_iter=2, callback=seen.append)
    assert seen == few.history
    assert not few.converged
    assert few.n_iter == 2
    assert "raise max_iter" in few.message
    calls = idca(kink, start, tol=1e-9, max_calls=9)
    assert not calls.converged
    assert calls.n_calls <= 9


def test_refuses_options():
    with pytest.raises(ValueError, match='inner must be "bundle"'):
        idca(bowl(), [1.0, 1.0], inner="simplex")
    for name in ("mu", "tol", "eps", "max_iter", "max_calls", "inner_calls"):
        with pytest.raises(ValueError, match=f"{name} must be a positive"):
            idca(bowl(), [1.0, 1.0], **{name: -1.0})


@pytest.mark.parametrize(
    ("start", "eps", "end"),
    [
        # g_0' = (1, 1): the step is eps / 2 along -(1, 1), and it is better.
        ([2.0, 2.0], 0.5, [1.75, 1.75]),
        # From an allowed violation of 2: 0.5 / |(-1, -1)|^2 along (1, 1).
        ([-0.5, -0.5], 0.5, [-0.25, -0.25]),
        # Slope (1, -1), to a feasible point.
        ([0.5, 0.6], 0.25, [0.375, 0.725]),
    ],
)
def test_steps_of_switching_subgradients(start, eps, end):
    problem = tent()
    actual = switching_subgradient(problem, start, mu=1e-12, eps=eps, max_calls=1)
    np.testing.assert_allclose(problem.visited[1], end)
    np.testing.assert_allclose(actual.x, end)
    assert actual.n_calls == 1


@pytest.mark.parametrize(("make", "mu"), [(tent, 1.0), (outside, 0.1)])
def test_switching_subgradients_agree_with_bundle(make, mu):
    problem, centre = make(), np.array([2.5, 2.5])
    exact = proximal_bundle(problem, centre, mu=mu, eps=1e-9)
    few, actual = (
        switching_subgradient(problem, centre, mu=mu, eps=1e-2, max_calls=k)
        for k in (50, 3000)
    )
    assert exact.converged
    # Within eps of the optimum, of the problem with eps more room.
    assert abs(actual.value - exact.value) <= 0.03
    assert actual.value <= few.value
    assert actual.violation <= 1e-2
    assert actual.lower_bound == -np.inf
    assert not actual.converged
    if make is outside:  # smooth: one subgradient is enough
        np.testing.assert_allclose(actual.multipliers, exact.multipliers, atol=0.1)


def test_direct():
    options = {"eps": 5.0, "decreasing": True, "tol": 0.1, "max_iter": 4000}
    actual = direct_switching_subgradient(outside(), [4.0, 1.0], **options)
    assert_kkt(actual, 0.1)
    np.testing.assert_allclose(actual.x, [3, 0], atol=0.1)
    assert actual.multipliers == pytest.approx([1 / 3], abs=0.05)
    assert actual.infeasibility <= 1e-2
    assert len(actual.history) <= 102
    assert actual.n_calls == actual.n_iter + 1


def test_stops_where_no_step_leads_on():
    flat = Functions(1, (lambda v: (max(v[0] - 1, 0), v > 1), zero))
    actual = switching_subgradient(flat, [0.5])
    assert actual.n_calls == 0
    assert "Zero subgradient after 0 steps" in actual.message
    assert direct_switching_subgradient(flat, [0.5]).converged
