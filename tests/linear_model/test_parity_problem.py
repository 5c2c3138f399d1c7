"""Training problems against sums over rows, and the properties of their parts."""

from itertools import permutations

import numpy as np
import pytest

from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import StrongParity, WeakParity, rank_grid

INTERVAL = (0.1, 0.6)


def ramp(x):
    return np.maximum(x + 0.5, 0) - np.maximum(x - 0.5, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def rows():
    rng = np.random.RandomState(3)
    codes = np.repeat([0, 1, 2], [40, 25, 10])
    X = rng.randn(75, 4) + 0.3 * codes[:, None]
    signs = np.where(X.sum(axis=1) + rng.randn(75) > 0, 1.0, -1.0)
    return X, signs, codes.astype(np.int64)


def scores_of(v, rows, interactions):
    X, _, codes = rows
    W = v[: 5 * (3 if interactions else 1)].reshape(-1, 5).copy()
    if interactions:
        W[1:] += W[0]
    else:
        W = np.tile(W, (3, 1))
    return (X * W[codes, :4]).sum(axis=1) + W[codes, 4]


def strong(rows, surrogate="ramp", interactions=True, kappa=0.1, ridge=0.0, **options):
    options |= {"interactions": interactions, "surrogate": surrogate}
    oracle = ScoreOracle(*rows, 3, **options)
    return StrongParity(oracle, INTERVAL, kappa, ridge, 6, surrogate)


def weak(rows, surrogate="ramp", interactions=True, kappa=0.1, ridge=0.0, **options):
    options |= {"interactions": interactions, "surrogate": surrogate}
    oracle = ScoreOracle(*rows, 3, **options)
    return WeakParity(oracle, INTERVAL, kappa, ridge, 0.2, 0.7)


def rates(v, theta, rows, interactions, sigma):
    h = scores_of(v, rows, interactions)
    return np.array(
        [sigma(h[rows[2] == k][:, None] - theta).mean(axis=0) for k in range(3)]
    )


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("interactions", [True, False])
def test_strong_constraints(rows, surrogate, interactions):
    problem = strong(rows, surrogate, interactions)
    sigma = {"ramp": ramp, "sigmoid": sigmoid}[surrogate]
    rng = np.random.RandomState(0)
    for _ in range(5):
        v = rng.randn(problem.n_variables)
        theta = v[-6:]
        S = rates(v, theta, rows, interactions, sigma)
        p = rank_grid(INTERVAL, 0.1, 6)
        expected = np.concatenate([(p - S).ravel(), (S - p - 0.05).ravel()])
        (plus, _), (minus, _) = problem.evaluate(v)
        np.testing.assert_allclose((plus - minus)[1:], expected, atol=1e-12)
        np.testing.assert_allclose(
            problem.smoothed(v, 0.0).constraints, expected, atol=1e-12
        )


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
def test_weak_constraints(rows, surrogate):
    problem = weak(rows, surrogate)
    sigma = {"ramp": ramp, "sigmoid": sigmoid}[surrogate]
    rng = np.random.RandomState(1)
    for scale in (0.1, 1.0, 3.0):
        v = scale * rng.randn(problem.n_variables)
        S = rates(v, np.array([0.2]), rows, True, sigma)[:, 0]
        A = np.minimum(S, 0.6) - np.minimum(S, 0.1)
        expected = [A[k] - A[j] - 0.05 for k, j in permutations(range(3), 2)]
        (plus, _), (minus, _) = problem.evaluate(v)
        np.testing.assert_allclose((plus - minus)[1:], expected, atol=1e-12)
        np.testing.assert_allclose(
            problem.smoothed(v, 0.0).constraints, expected, atol=1e-12
        )


@pytest.mark.parametrize("make", [strong, weak])
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
def test_parts_are_convex_with_subgradients(rows, make, surrogate):
    problem = make(rows, surrogate, ridge=0.1)
    rng = np.random.RandomState(2)
    for _ in range(10):
        u, v = rng.randn(2, problem.n_variables)
        for at_u, at_v in zip(problem.evaluate(u), problem.evaluate(v), strict=True):
            below = at_v[0] + at_v[1] @ (u - v)
            assert (at_u[0] >= below - 1e-12).all()


@pytest.mark.parametrize("make", [strong, weak])
def test_start_is_feasible(rows, make):
    for surrogate in ("ramp", "sigmoid"):
        problem = make(rows, surrogate)
        v = problem.start()
        (plus, _), (minus, _) = problem.evaluate(v)
        assert (plus - minus)[1:].max() <= -0.05 / 2 + 1e-12
        if make is strong:
            assert plus[0] == pytest.approx(np.log(2))
        else:
            scores = problem.oracle.scores(problem.weights(v))
            np.testing.assert_allclose(scores, 0.7)


@pytest.mark.parametrize("make", [strong, weak])
@pytest.mark.parametrize(("surrogate", "corner"), [("ramp", 0.05), ("sigmoid", 0.05)])
@pytest.mark.parametrize("loss", ["logistic", "partial_auc"])
def test_gradients_of_the_smoothed_problem(rows, make, surrogate, corner, loss):
    options = {"loss": loss, "auc_interval": INTERVAL}
    problem = make(rows, surrogate, ridge=0.3, **options)
    rng = np.random.RandomState(4)
    v = 0.3 * rng.randn(problem.n_variables)
    value = problem.smoothed(v, corner)
    plus, minus = (part[0][0] for part in problem.evaluate(v))
    assert value.objective == pytest.approx(plus - minus)
    multipliers = rng.uniform(size=problem.n_constraints)
    gradient = value.gradient + value.pull_back(multipliers)
    for _ in range(5):
        d = rng.randn(v.size)
        step = 1e-6
        ahead, behind = (problem.smoothed(v + s * d, corner) for s in (step, -step))
        change = ahead.objective - behind.objective
        change += multipliers @ (ahead.constraints - behind.constraints)
        np.testing.assert_allclose(change / (2 * step), gradient @ d, rtol=1e-5)


def test_penalty_leaves_intercepts_out(rows):
    problem, free = strong(rows, ridge=2.0), strong(rows)
    v = np.random.RandomState(5).randn(problem.n_variables)
    W = v[:15].reshape(3, 5)
    penalized, plain = problem.evaluate(v)[0][0][0], free.evaluate(v)[0][0][0]
    np.testing.assert_allclose(penalized - plain, (W[:, :4] ** 2).sum())


def test_ranks_end_below_the_interval():
    np.testing.assert_allclose(rank_grid((0.05, 0.30), 0.1, 5)[[0, -1]], [0.05, 0.23])
