"""Switching subgradients: the steps by hand, and the bundle as reference."""

import numpy as np
import pytest

from scalefair.optimize import (
    DCProblem,
    direct_switching_subgradient,
    proximal_bundle,
    switching_subgradient,
)


class Tent(DCProblem):
    """|x| + |y - 1| subject to 1 - x - y <= 0 and x - 3 <= 0."""

    n_variables, n_constraints = 2, 2

    def plus(self, v):
        values = np.array([abs(v[0]) + abs(v[1] - 1), 1 - v.sum(), v[0] - 3])
        first = [np.sign(v[0]), np.sign(v[1] - 1)]
        return values, np.array([first, [-1, -1], [1, 0.0]])

    def minus(self, v):
        return np.zeros(3), np.zeros((3, 2))


class Outside(DCProblem):
    """(x - 2)^2 + y^2 outside the ball of radius 3."""

    n_variables, n_constraints = 2, 1

    def plus(self, v):
        d = v - np.array([2.0, 0.0])
        return np.array([d @ d, 9.0]), np.array([2 * d, [0, 0]])

    def minus(self, v):
        return np.array([0, v @ v]), np.array([[0, 0], 2 * v])


def test_step_where_nearly_feasible():
    # g_0' = (1, 1) at (2, 2): the step is eps / 2 along -(1, 1), and it is better
    found = switching_subgradient(Tent(), [2.0, 2.0], mu=1e-12, eps=0.5, max_calls=1)
    np.testing.assert_allclose(found.x, [1.75, 1.75])
    assert found.n_calls == 1


def test_step_where_violated():
    # From an allowed violation of 2: first step 0.5 / |(-1, -1)|^2 along
    # (1, 1) makes the objective smaller.
    found = switching_subgradient(Tent(), [-0.5, -0.5], mu=1e-12, eps=0.5, max_calls=1)
    np.testing.assert_allclose(found.x, [-0.25, -0.25])
    # Two steps down from (3, 2): the second one starts at a violated point.
    visited = []

    class Recorded(Tent):
        def plus(self, v):
            visited.append(v)
            return super().plus(v)

    switching_subgradient(Recorded(), [0.5, 0.6], mu=1e-12, eps=0.25, max_calls=2)
    # (0.5, 0.6), slope (1, -1): to (0.375, 0.725), feasible; then on
    np.testing.assert_allclose(visited[1], [0.375, 0.725])
    direct_switching_subgradient(Recorded(), [0.0, 0.0], eps=0.1, max_iter=1)
    # violation 1, slope (-1, -1): a step of 1/2
    np.testing.assert_allclose(visited[-1], [0.5, 0.5])


def test_proximal_term_is_part_of_the_functions():
    # d = 0 at first, then the gradient holds mu d
    found = switching_subgradient(Outside(), [4.0, 0.0], mu=100.0, max_calls=2000)
    exact = proximal_bundle(Outside(), [4.0, 0.0], mu=100.0, eps=1e-10)
    assert found.value == pytest.approx(exact.value, abs=2e-3)
    np.testing.assert_allclose(found.x, exact.x, atol=0.02)


@pytest.mark.parametrize("problem", [Tent(), Outside()])
@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_agrees_with_bundle(problem, mu):
    centre = np.array([2.5, 2.5])
    exact = proximal_bundle(problem, centre, mu=mu, eps=1e-9)
    found = switching_subgradient(problem, centre, mu=mu, eps=1e-2, max_calls=3000)
    assert exact.converged
    # Within eps of the optimum, of the problem with eps more room.
    assert abs(found.value - exact.value) <= 0.03
    assert found.violation <= 1e-2
    assert found.lower_bound == -np.inf
    assert not found.converged
    if isinstance(problem, Outside):  # smooth: one subgradient is enough
        np.testing.assert_allclose(found.multipliers, exact.multipliers, atol=0.1)


def test_more_steps_are_not_worse():
    few, many = (
        switching_subgradient(Tent(), [2.5, 2.5], eps=1e-2, max_calls=k)
        for k in (50, 500)
    )
    assert many.value <= few.value


@pytest.mark.parametrize(("eps", "decreasing"), [(1e-2, False), (5.0, True)])
def test_direct(eps, decreasing):
    found = direct_switching_subgradient(
        Outside(), [4.0, 1.0], eps=eps, decreasing=decreasing, tol=0.1, max_iter=4000
    )
    np.testing.assert_allclose(found.x, [3, 0], atol=0.1)
    assert found.converged
    assert found.kkt_residual <= 0.1
    assert found.multipliers == pytest.approx([1 / 3], abs=0.05)
    assert found.infeasibility <= 1e-2
    assert len(found.history) <= 102
    assert found.n_calls == found.n_iter + 1


def test_direct_takes_the_steps_of_the_rule():
    visited = []

    class Recorded(Outside):
        def plus(self, v):
            visited.append(v)
            return super().plus(v)

    direct_switching_subgradient(
        Recorded(), [5.0, 0.0], eps=1.2, decreasing=True, max_iter=2
    )
    # |f_0'| = 6, then 5.6: steps of 1.2 / 6 and 0.6 / 5.6
    np.testing.assert_allclose([v[0] for v in visited], [5, 4.8, 4.8 - 0.6 / 5.6])


def test_direct_says_so_when_not_stationary():
    found = direct_switching_subgradient(Outside(), [9.0, 0.0], eps=1e-3, max_iter=3)
    assert not found.converged
    assert found.kkt_residual > 1
    assert "raise max_iter" in found.message


def test_direct_returns_the_least_infeasible_point():
    class Impossible(DCProblem):
        n_variables, n_constraints = 1, 1

        def plus(self, v):
            return np.array([v[0], 1 + v[0] ** 2]), np.array([[1.0], 2 * v])

        def minus(self, v):
            return np.zeros(2), np.zeros((2, 1))

    found = direct_switching_subgradient(Impossible(), [2.0], max_iter=100)
    assert not found.converged
    assert 1 <= found.infeasibility < 1.2


def test_refuses_bad_numbers():
    for method in (switching_subgradient, direct_switching_subgradient):
        with pytest.raises(ValueError, match="eps must be a positive"):
            method(Tent(), [2.0, 2.0], eps=0.0)


def test_stops_where_no_step_leads_on():
    class Flat(DCProblem):
        n_variables, n_constraints = 1, 0

        def plus(self, v):
            return np.maximum(v - 1, 0), (v > 1).astype(float)[None]

        def minus(self, v):
            return np.zeros(1), np.zeros((1, 1))

    found = switching_subgradient(Flat(), [0.5])
    assert found.n_calls == 0
    assert "Zero subgradient after 0 steps" in found.message
    assert direct_switching_subgradient(Flat(), [0.5]).converged
