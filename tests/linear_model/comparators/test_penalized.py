"""Partial parity as a penalty: its definition, and the descent."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from scalefair.linear_model.comparators._penalized import (
    PenalizedPartialParityClassifier,
    strong_penalty,
    weak_penalty,
)

# Most groups here have few rows: what is tested does not depend on their number.
pytestmark = pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than")


def _data(m=90, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(m) % n_groups)
    X = rng.standard_normal((m, 3)) + 0.5 * groups[:, None]
    y = (X.sum(axis=1) + rng.standard_normal(m) > 1.5).astype(int)
    return X, y, groups


def _rates(scores, thresholds, groups, surrogate="ramp"):
    above = scores[:, None] - thresholds
    if surrogate == "ramp":
        value = np.clip(above + 0.5, 0, 1)
    else:
        value = 1 / (1 + np.exp(-above))
    return np.array([value[groups == k].mean(axis=0) for k in np.unique(groups)])


def _objective(model, X, y, groups):
    """(78) and (83) as they are defined."""
    scores = model.decision_function(X, sensitive_features=groups)
    low, high = model.interval
    rates = _rates(scores, model.thresholds_, groups, model.surrogate)
    if model.criterion == "strong":
        ranks = low + (high - low) * np.arange(model.n_thresholds) / model.n_thresholds
        gap = 2 / (high - low) * np.abs(rates - ranks).max()
    else:
        within = np.minimum(rates[:, 0], high) - np.minimum(rates[:, 0], low)
        gap = np.abs(within[:, None] - within).max() / (high - low)
    loss = np.logaddexp(0, -(2 * y - 1) * scores).mean()
    ridge = model.alpha / 2 * ((X.std(axis=0) * model.coef_) ** 2).sum()
    return loss + ridge + model.penalty * gap, gap


@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize(
    ("criterion", "interactions"), [("strong", True), ("strong", False), ("weak", True)]
)
def test_the_objective_is_that_of_the_paper(criterion, surrogate, interactions):
    X, y, groups = _data()
    options = {"criterion": criterion, "surrogate": surrogate}
    options |= {"interactions": interactions, "threshold": 0.2}
    options |= {"learning_rate": 0.01, "alpha": 0.1, "max_iter": 100}
    model = PenalizedPartialParityClassifier((0.1, 0.6), 0.05, **options)
    model.fit(X, y, sensitive_features=groups)
    objective, gap = _objective(model, X, y, groups)
    assert model.objective_ == pytest.approx(objective, abs=1e-10)
    assert model.surrogate_gap_ == pytest.approx(gap, abs=1e-10)
    assert model.objective_ == model.history_.min() < model.history_[0]
    assert model.history_.shape == (101,)
    assert (model.n_iter_, model.n_oracle_calls_) == (100, 101)
    if criterion == "weak":
        np.testing.assert_array_equal(model.thresholds_, [0.2])


@pytest.mark.parametrize("criterion", ["strong", "weak"])
def test_penalty_slopes(criterion):
    rng = np.random.default_rng(1)
    ranks = np.array([0.1, 0.2, 0.3])
    for _ in range(20):
        if criterion == "strong":
            rates, penalty = rng.random((4, 3)), strong_penalty(ranks, 0.4)
        else:
            rates, penalty = rng.random((4, 1)), weak_penalty(0.2, 0.7)
        step = rng.standard_normal(rates.shape)
        _, slope = penalty(rates)
        change = (penalty(rates + 1e-7 * step)[0] - penalty(rates - 1e-7 * step)[0]) / 2
        assert change / 1e-7 == pytest.approx((slope * step).sum(), abs=1e-6)


def test_without_penalty_it_is_logistic_regression():
    X, y, groups = _data()
    X = scale(X)  # as the classifier does
    model = PenalizedPartialParityClassifier(
        penalty=0.0, interactions=False, learning_rate=1.0, max_iter=600, alpha=0.05
    ).fit(X, y, sensitive_features=groups)
    plain = LogisticRegression(C=1 / (0.05 * len(y)), tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared", "auc", "partial_auc"])
def test_other_losses_fall(loss):
    X, y, groups = _data()
    model = PenalizedPartialParityClassifier(
        (0.0, 0.5), 0.05, loss=loss, learning_rate=0.02, max_iter=100
    ).fit(X, y, sensitive_features=groups)
    assert model.objective_ < model.history_[0] - 0.01


def test_tolerance_stops():
    X, y, groups = _data()
    model = PenalizedPartialParityClassifier(
        penalty=0.0, learning_rate=0.3, alpha=0.1, tol=1e-6
    ).fit(X, y, sensitive_features=groups)
    assert model.n_iter_ < 5000
    with pytest.warns(ConvergenceWarning, match="Raise max_iter") as caught:
        model.set_params(learning_rate=1e-3, max_iter=100).fit(
            X, y, sensitive_features=groups
        )
    assert caught[-1].filename == __file__


def test_steps_too_long_to_improve_warn():
    X, y, groups = _data()
    model = PenalizedPartialParityClassifier(
        penalty=10.0, learning_rate=1.0, max_iter=20
    )
    with pytest.warns(ConvergenceWarning, match="No step of 20 improved") as caught:
        model.fit(X, y, sensitive_features=groups)
    assert caught[-1].filename == __file__
    assert not model.coef_.any()


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "squared", "learning_rate": 100.0},  # of the scores
        {"alpha": 1e308, "learning_rate": 10.0},  # of the objective alone
    ],
)
def test_overflow_names_the_remedy(params):
    X, y, groups = _data()
    model = PenalizedPartialParityClassifier(**params)
    with pytest.raises(ValueError, match="lower learning_rate"):
        model.fit(X, y, sensitive_features=groups)
