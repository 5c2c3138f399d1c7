"""Certified solutions of convex subproblems against other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from scalefair.optimize import DCProblem, proximal_bundle


class MaxOfAffine(DCProblem):
    """Every function is the largest of a few affine ones; random, feasible at 0."""

    def __init__(self, seed, n, m, pieces=4):
        rng = np.random.default_rng(seed)
        self.n_variables, self.n_constraints = n, m
        self.A = rng.standard_normal((m + 1, pieces, n))
        self.b = rng.standard_normal((m + 1, pieces))
        self.b[1:] -= 0.5 + self.b[1:].max(axis=1, keepdims=True)

    def plus(self, v):
        heights = self.A @ v + self.b
        i = np.arange(len(heights)), heights.argmax(axis=1)
        return heights[i], self.A[i]

    def minus(self, v):
        return np.zeros(len(self.A)), np.zeros((len(self.A), v.size))


class Quadratics(DCProblem):
    """Convex quadratic plus parts, minus parts quadratic as well."""

    def __init__(self, seed, n, m):
        rng = np.random.default_rng(seed)
        self.n_variables, self.n_constraints = n, m
        B = rng.standard_normal((2, m + 1, n, n))
        self.Q = B.transpose(0, 1, 3, 2) @ B / n
        self.Q[1] *= 0.3
        self.q = rng.standard_normal((m + 1, n))
        self.c = np.append(0.0, -0.1 - rng.random(m))

    def plus(self, v):
        curve = self.Q[0] @ v
        return curve @ v / 2 + self.q @ v + self.c, curve + self.q

    def minus(self, v):
        curve = self.Q[1] @ v
        return curve @ v / 2, curve


def subproblem(problem, c, mu, metric):
    """Value and gradient of the functions of the subproblem."""
    fixed, slope = problem.minus(c)

    def functions(v):
        values, jacobian = problem.plus(v)
        d = v - c
        pull = mu * metric @ d
        return values - fixed - slope @ d + pull @ d / 2, jacobian - slope + pull

    return functions


@pytest.mark.parametrize(
    ("seed", "n", "m", "mu", "has_metric"),
    [
        (3, 2, 1, 10.0, False),
        (8, 5, 3, 0.1, False),
        (4, 4, 0, 1.0, False),
        (43, 3, 40, 1.0, False),
        (5, 4, 3, 1.0, True),
        # A constraint is violated through the proximal term alone: its tangent is
        # negative wherever the step goes.
        (0, 1, 4, 0.5, False),
        (41, 1, 3, 0.5, False),
    ],
)
def test_quadratics_against_slsqp(seed, n, m, mu, has_metric):
    problem, c = Quadratics(seed, n, m), np.zeros(n)
    metric, options = np.eye(n), {"mu": mu, "eps": 1e-9, "max_calls": 500}
    if has_metric:
        B = np.random.default_rng(0).standard_normal((n, n))
        metric = options["metric"] = B @ B.T + 0.1 * np.eye(n)
    actual = proximal_bundle(problem, c, **options)
    functions = subproblem(problem, c, mu, metric)
    reference = minimize(
        lambda v: functions(v)[0][0],
        c,
        jac=lambda v: functions(v)[1][0],
        constraints={
            "type": "ineq",
            "fun": lambda v: -functions(v)[0][1:],
            "jac": lambda v: -functions(v)[1][1:],
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert reference.success or reference.status == 8
    assert actual.converged, actual.message
    assert actual.value == pytest.approx(reference.fun, abs=1e-7)
    assert actual.lower_bound <= reference.fun + 1e-9
    np.testing.assert_allclose(actual.x, reference.x, atol=1e-3)
    # Multipliers: the Lagrangian of the subproblem is stationary.
    _, jacobian = functions(actual.x)
    slope = np.append(1.0, actual.multipliers) @ jacobian
    assert np.abs(slope).max() <= 1e-3 * (1 + actual.multipliers.sum())


# The dual is steep where mu is small: rounding hides the last steps of Newton's method.
@pytest.mark.parametrize(("seed", "mu"), [(1, 1e-5), (16, 1e-5), (14, 1e-3)])
def test_small_weight_is_a_linear_program(seed, mu):
    problem = MaxOfAffine(seed, 3, 12, pieces=8)
    A, b = problem.A, problem.b
    # The first eight pieces are below the height, which is the last variable.
    heights = -1.0 * (np.arange(104) < 8)
    epigraph = np.column_stack([A.reshape(-1, 3), heights])
    reference = linprog(
        [0, 0, 0, 1.0], A_ub=epigraph, b_ub=-b.ravel(), bounds=[(None, None)] * 4
    )
    assert reference.status == 0
    actual = proximal_bundle(problem, np.zeros(3), mu=mu, eps=1e-6, max_calls=300)
    assert actual.converged, actual.message
    assert actual.value == pytest.approx(reference.fun, abs=1e-3)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 8), st.integers(1, 25))
def test_certificate(seed, n, m, max_calls):
    """Whenever it stops, the bound is below and `converged` is the truth."""
    problem, c, mu, eps = Quadratics(seed, n, m), np.zeros(n), 0.5, 1e-5
    actual = proximal_bundle(problem, c, mu=mu, eps=eps, max_calls=max_calls)
    functions = subproblem(problem, c, mu, np.eye(n))
    optimum = proximal_bundle(problem, c, mu=mu, eps=1e-8, max_calls=2000)
    assert optimum.converged
    assert actual.lower_bound <= optimum.value + 1e-7
    values = functions(actual.x)[0]
    assert actual.value == pytest.approx(values[0], abs=1e-12)
    assert actual.violation == pytest.approx(values[1:].max(initial=0), abs=1e-9)
    assert actual.gap == actual.value - actual.lower_bound
    assert actual.converged == (actual.gap <= eps and actual.violation <= eps)
    assert actual.n_calls <= max_calls
    if not actual.converged:
        assert "raise max_calls" in actual.message


def test_refuses_bad_numbers():
    problem = Quadratics(0, 2, 1)
    for name in ("mu", "eps", "max_calls"):
        for number in (0.0, -1.0, np.nan):
            with pytest.raises(ValueError, match=f"{name} must be a positive"):
                proximal_bundle(problem, np.zeros(2), **{name: number})
    for metric, got in (
        ([1.0], r"shape \(1,\)"),
        ([1.0, 0.0], "0.0 among the numbers"),
        ([1.0, np.nan], "not finite"),
        ([[1.0, 2.0], [2.0, 1.0]], "indefinite"),
        ([[1.0, 0.5], [0.0, 1.0]], "not symmetric"),
    ):
        message = f"metric must be 2 positive numbers .*{got}"
        with pytest.raises(ValueError, match=message):
            proximal_bundle(problem, np.zeros(2), metric=metric)
