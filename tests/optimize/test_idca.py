"""The outer loop on problems whose KKT points are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.optimize import DCProblem, idca, nearly_kkt_residual


class Functions(DCProblem):
    """Pairs of functions (plus, minus), each returning value and subgradient."""

    def __init__(self, n, *pairs):
        self.n_variables, self.n_constraints = n, len(pairs) - 1
        self.pairs = pairs

    def _part(self, i, v):
        values, slopes = zip(*(pair[i](v) for pair in self.pairs), strict=True)
        return np.array(values, dtype=float), np.array(slopes, dtype=float)

    def plus(self, v):
        return self._part(0, v)

    def minus(self, v):
        return self._part(1, v)


def zero(v):
    return 0.0, np.zeros(v.size)


def distance(*target):
    return lambda v: (((v - target) ** 2).sum(), 2 * (v - target))


def constant(c):
    return lambda v: (c, np.zeros(v.size))


def l1(v):
    return np.abs(v).sum(), np.sign(v)


def l2(v):
    norm = np.linalg.norm(v)
    return norm, v / norm if norm else np.zeros(v.size)


def square(v):
    return v @ v, 2 * v


def assert_kkt(problem, found, tol):
    assert found.converged, found.message
    assert found.kkt_residual <= tol
    assert found.infeasibility <= tol
    assert found.multipliers.min(initial=0.0) >= 0


def test_convex_smooth():
    """Projection of (2, 2) on the unit disc: multiplier sqrt(8) - 1."""
    problem = Functions(2, (distance(2, 2), zero), (lambda v: (v @ v - 1, 2 * v), zero))
    found = idca(problem, [0.0, 0.0], tol=1e-6)
    assert_kkt(problem, found, 1e-6)
    np.testing.assert_allclose(found.x, np.sqrt([0.5, 0.5]), atol=1e-5)
    assert found.multipliers == pytest.approx([np.sqrt(8) - 1], abs=1e-4)
    again = nearly_kkt_residual(problem, found.x, found.multipliers, found.x)
    assert again.value <= 1e-4


def test_convex_nonsmooth():
    """|x| + |y| subject to x + 2 y >= 2: the vertex (0, 1), multiplier 1/2."""
    problem = Functions(2, (l1, zero), (lambda v: (2 - v @ [1, 2], [-1, -2]), zero))
    found = idca(problem, [3.0, 3.0], tol=1e-6)
    assert_kkt(problem, found, 1e-6)
    np.testing.assert_allclose(found.x, [0, 1], atol=1e-5)
    assert found.multipliers == pytest.approx([0.5], abs=1e-5)


@pytest.mark.parametrize("sign", [-1, 1])
def test_several_minima(sign):
    problem = Functions(1, (lambda v: (v[0] ** 4, 4 * v**3), square))
    found = idca(problem, [2.0 * sign], tol=1e-7)
    assert found.x == pytest.approx([sign * np.sqrt(0.5)], abs=1e-6)
    assert found.objective == pytest.approx(-0.25)
    # zero is stationary as well, and the algorithm knows
    still = idca(problem, [0.0], tol=1e-7)
    assert still.converged
    assert still.n_iter == 1
    np.testing.assert_allclose(still.x, 0, atol=1e-7)


@pytest.mark.parametrize(
    ("start", "end", "multiplier"), [([0, 4], [3, 0], 1 / 3), ([-4, 0], [-3, 0], 5 / 3)]
)
def test_reverse_convex_constraint(start, end, multiplier):
    """Outside of the ball of radius 3: two KKT points, one of them a minimum."""
    problem = Functions(2, (distance(2, 0), zero), (constant(9.0), square))
    found = idca(problem, start, tol=1e-6)
    assert_kkt(problem, found, 1e-6)
    np.testing.assert_allclose(found.x, end, atol=1e-4)
    assert found.multipliers == pytest.approx([multiplier], abs=1e-3)


def test_inactive_constraint():
    problem = Functions(2, (distance(2, 0), zero), (lambda v: (v[0] - 7, [1, 0]), zero))
    found = idca(problem, [-3.0, 5.0], tol=1e-7)
    assert_kkt(problem, found, 1e-7)
    np.testing.assert_allclose(found.x, [2, 0], atol=1e-6)
    assert found.multipliers == pytest.approx([0], abs=1e-7)


def test_degenerate_constraint():
    """The constraint passes through the unconstrained minimum: multiplier zero."""
    problem = Functions(2, (distance(2, 0), zero), (lambda v: (v[0] - 2, [1, 0]), zero))
    found = idca(problem, [-3.0, 5.0], tol=1e-6)
    assert_kkt(problem, found, 1e-6)
    np.testing.assert_allclose(found.x, [2, 0], atol=1e-5)


def test_linearly_dependent_constraints():
    rows = [(lambda v, k=k: (k * (1 - v[0]), [-k, 0]), zero) for k in (1, 2, 3, 3)]
    problem = Functions(2, (square, zero), *rows)
    found = idca(problem, [3.0, 2.0], tol=1e-6)
    assert_kkt(problem, found, 1e-6)
    np.testing.assert_allclose(found.x, [1, 0], atol=1e-5)
    assert found.multipliers @ [1, 2, 3, 3] == pytest.approx(2, abs=1e-4)


def test_difference_of_norms():
    """Nearest point of a line, with |v|_1 - |v|_2 as price: a sparse solution."""

    def fit(v):
        misfit = v @ [1, 2, 4] - 4
        return (
            5 * misfit**2 + np.abs(v).sum(),
            10 * misfit * np.array([1, 2, 4]) + np.sign(v),
        )

    problem = Functions(3, (fit, l2))
    found = idca(problem, [0.1, 0.2, 2.0], tol=1e-5)
    assert_kkt(problem, found, 1e-5)
    np.testing.assert_allclose(found.x, [0, 0, 1], atol=1e-4)
    assert found.objective == pytest.approx(0, abs=1e-6)


def test_nonsmooth_with_curved_pieces():
    """Largest of two paraboloids: the kink is curved and no iterate lies on it."""

    def largest(v):
        one, two = distance(1, 0)(v), distance(-1, 0)(v)
        return one if one[0] >= two[0] else two

    problem = Functions(2, (largest, zero))
    found = idca(problem, [2.0, 3.0], tol=1e-4)
    assert_kkt(problem, found, 1e-4)
    np.testing.assert_allclose(found.x, [0, 0], atol=1e-3)


class Random(DCProblem):
    """Logistic objective; differences of mean hinges as constraints."""

    def __init__(self, seed, n=6, m=4, rows=60):
        rng = np.random.default_rng(seed)
        self.n_variables, self.n_constraints = n, m
        self.X = rng.standard_normal((rows, n))
        self.y = np.sign(self.X @ rng.standard_normal(n) + rng.standard_normal(rows))
        self.half = rng.random((m, rows)) < 0.5
        self.room = 0.05

    def _hinges(self, v, shift):
        h = self.X @ v + shift
        on = (h > 0).astype(float)
        values, slopes = [], []
        for rows in self.half:
            w = rows / rows.sum()
            values.append(w @ (h * on))
            slopes.append((w * on) @ self.X)
        return np.array(values), np.array(slopes)

    def plus(self, v):
        margin = self.y * (self.X @ v)
        loss = np.logaddexp(0, -margin).mean()
        slope = -(self.y / (1 + np.exp(margin))) @ self.X / len(self.y)
        values, slopes = self._hinges(v, 0.5)
        return np.append(loss, values), np.vstack([slope, slopes])

    def minus(self, v):
        values, slopes = self._hinges(v, -0.5)
        return (
            np.append(0.0, values + 0.5 + self.room),
            np.vstack([0 * v, slopes]),
        )


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_iterates_stay_feasible_and_the_residual_is_proved(seed):
    problem = Random(seed)
    found = idca(problem, np.zeros(6), tol=1e-3, max_iter=500)
    assert_kkt(problem, found, 1e-3)
    assert max(record.infeasibility for record in found.history) <= 1e-12
    assert found.objective < np.log(2)
    (plus, _), (minus, _) = problem.evaluate(found.x)
    assert found.objective == pytest.approx((plus - minus)[0], abs=1e-14)
    assert np.abs(found.multipliers * (plus - minus)[1:]).max() <= 1e-3


def test_order_of_the_constraints_does_not_matter():
    problem, other = Random(3), Random(3)
    order = np.array([2, 0, 3, 1])
    other.half = other.half[order]
    found, moved = (idca(p, np.zeros(6), tol=1e-4) for p in (problem, other))
    assert moved.objective == pytest.approx(found.objective, abs=1e-5)
    np.testing.assert_allclose(moved.x, found.x, atol=1e-2)
    np.testing.assert_allclose(moved.multipliers, found.multipliers[order], atol=1e-2)


def test_twice_the_same_answer():
    first, second = (idca(Random(4), np.zeros(6)) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)


def test_bundle_needs_far_fewer_calls_than_switching_subgradients():
    problem, tol = Random(0), 1e-2
    bundle = idca(problem, np.zeros(6), tol=tol)
    other = idca(
        problem, np.zeros(6), inner="switching_subgradient", tol=tol, max_iter=60
    )
    assert bundle.converged
    assert bundle.n_calls * 10 <= other.n_calls
    assert other.objective < np.log(2)


def test_switching_subgradient_converges():
    problem = Functions(2, (distance(2, 0), zero), (constant(9.0), square))
    found = idca(
        problem,
        [3.5, 1.0],
        inner="switching_subgradient",
        eps=1e-2,
        tol=0.1,
        inner_calls=100,
        max_iter=100,
    )
    assert_kkt(problem, found, 0.1)
    np.testing.assert_allclose(found.x, [3, 0], atol=0.1)


@pytest.mark.parametrize("mu", [1e-3, 1.0, 100.0])
def test_weight_changes_the_way_only(mu):
    problem = Functions(2, (distance(2, 0), zero), (constant(9.0), square))
    found = idca(problem, [3.0, 3.0], mu=mu, tol=1e-4, max_iter=5000)
    assert_kkt(problem, found, 1e-4)
    np.testing.assert_allclose(found.x, [3, 0], atol=1e-3)


def test_metric_saves_calls():
    scale = np.logspace(-2, 2, 5)

    def stretched(v):
        return (scale * (v - 1) ** 2).sum() / 2, scale * (v - 1)

    problem = Functions(5, (stretched, zero))
    plain = idca(problem, np.zeros(5), tol=1e-4, max_iter=3000)
    scaled = idca(problem, np.zeros(5), tol=1e-4, metric=scale)
    assert scaled.converged
    assert scaled.n_calls < plain.n_calls
    np.testing.assert_allclose(scaled.x, 1, atol=0.02)


def test_infeasible_start():
    problem = Functions(2, (distance(2, 0), zero), (constant(9.0), square))
    found = idca(problem, [1.0, 0.5], tol=1e-4, max_iter=300)
    violations = [record.infeasibility for record in found.history]
    assert violations[-1] < 8
    assert found.converged == (found.kkt_residual <= 1e-4)


def test_no_feasible_point():
    problem = Functions(1, (square, zero), (lambda v: (1 + v[0] ** 2, 2 * v), zero))
    found = idca(problem, [2.0], max_iter=50)
    assert not found.converged
    assert found.infeasibility >= 1
    assert "start from a feasible point" in found.message


def test_says_so_when_limits_are_reached():
    few = idca(Random(1), np.zeros(6), tol=1e-9, max_iter=2)
    assert not few.converged
    assert few.n_iter == 2
    assert "raise max_iter" in few.message
    calls = idca(Random(1), np.zeros(6), tol=1e-9, max_calls=9)
    assert not calls.converged
    assert calls.n_calls <= 9


def test_callback_sees_every_record():
    seen = []
    found = idca(Random(2), np.zeros(6), callback=seen.append)
    assert seen == found.history


def test_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match='inner must be "bundle"'):
        idca(Random(0), np.zeros(6), inner="simplex")
    for name in ("mu", "tol", "eps", "max_iter", "max_calls", "inner_calls"):
        with pytest.raises(ValueError, match=f"{name} must be a positive"):
            idca(Random(0), np.zeros(6), **{name: -1.0})
