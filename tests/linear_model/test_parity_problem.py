"""Training problems: starts, slopes and penalties; test_given has the constraints."""

from functools import partial

import numpy as np
import pytest

from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._parity_problem import StrongParity, WeakParity
from scalefair.linear_model._weights import ridge_factors

INTERVAL = (0.1, 0.6)


@pytest.fixture
def rows():
    rng = np.random.RandomState(3)
    codes = np.repeat([0, 1, 2], [40, 25, 10])
    X = rng.randn(75, 4) + 0.3 * codes[:, None]
    signs = np.where(X.sum(axis=1) + rng.randn(75) > 0, 1.0, -1.0)
    return X, signs, codes.astype(np.int64)


def strong(rows, surrogate="ramp", ridge=0.0, kind=StrongParity, **options):
    oracle = ScoreOracle(*rows, 3, surrogate=surrogate, **options)
    criterion = {"n_thresholds": 6, "surrogate": surrogate}
    if kind is WeakParity:
        criterion = {"threshold": 0.2}
    factors = ridge_factors(oracle.layout, ridge)
    return kind(oracle, INTERVAL, 0.1, factors, 0.7, **criterion)


weak = partial(strong, kind=WeakParity)


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
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("loss", ["logistic", "partial_auc"])
def test_gradients_of_the_smoothed_problem(rows, make, surrogate, loss):
    corner = 0.05
    problem = make(rows, surrogate, ridge=0.3, loss=loss, auc_interval=INTERVAL)
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
