"""Change of a layer for groups that are known as probabilities."""

import warnings

import dask.array
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.neural_network import MLPRegressor

from scalefair.postprocessing import (
    ExplainableSVDRegressor,
    _explainable_svd_regressor,
)

M = 240
RNG = np.random.default_rng(0)
CODES = RNG.integers(2, size=M)
X = RNG.standard_normal((M, 4)) + 0.3
X[:, 0] += 1.2 * CODES
X[:, 1] *= 1 + CODES
Y = X[:, 0] + np.abs(X[:, 1]) + 0.3 * X[:, 2]
NET = MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=40, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    NET.set_params(learning_rate_init=0.01).fit(X, Y)
WEIGHTS = np.random.default_rng(1).integers(0, 4, M).astype(np.float64)
P = 0.8 * np.eye(2)[CODES] + 0.2 * RNG.dirichlet([1, 1], M)
P[::7] = P[-3:] = 0.0  # nothing is known, of the last rows either
P = pd.DataFrame(P, columns=["a", "b"])
# Fits without a number of rows, and with.
EXACT = [
    {"method": "explainable_svd"},
    {"method": "explainable_svd", "layer": -1},
    {"noise_floor": False, "layer": "auto", "refit_last": None},
]
OPTIONS = [{}, {"max_distance": 0.2}, {"refit_last": "gradient"}, *EXACT]


def fair(index=slice(None), P=P, estimator=NET, weights=None, **options):
    model = ExplainableSVDRegressor(estimator, random_state=0, **options)
    return model.fit(X[index], Y[index], group_probabilities=P, sample_weight=weights)


def assert_same(model, expected, rtol=1e-9):
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol, rtol)
    for name in ("ks_before_", "ks_after_", "r2_before_", "mean_gap_noise_"):
        values = (np.array(getattr(m, name), float) for m in (model, expected))
        np.testing.assert_allclose(*values, rtol=max(rtol, 1e-7), err_msg=name)
    assert model.layer_changed_ == expected.layer_changed_


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_one_hot_is_hard(options, weights):
    soft = fair(P=np.eye(2)[CODES], weights=weights, **options)
    hard = ExplainableSVDRegressor(NET, random_state=0, **options)
    hard.fit(X, Y, sensitive_features=CODES, sample_weight=weights)
    np.testing.assert_array_equal(soft.groups_, hard.groups_)
    np.testing.assert_allclose(soft.moments_.means, hard.moments_.means, 1e-12)
    np.testing.assert_allclose(soft.moments_.scatters, hard.moments_.scatters, 1e-12)
    # Rows of weight 0 have no entries: L-BFGS may amplify the other rounding.
    assert_same(soft, hard, 1e-12 if weights is None else 1e-8)
    for one, other in zip(
        soft.unfairness_by_layer_, hard.unfairness_by_layer_, strict=True
    ):
        assert one.score == pytest.approx(other.score, rel=1e-12)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_and_columns_may_be_cut_otherwise(options):
    expected = fair(**options)
    assert_same(fair(P=P[["b", "a"]], **options), expected)
    # Batches; L-BFGS may amplify rounding.
    assert_same(fair(batch_size=37, **options), expected, 1e-4)
    is_of_group = P.to_numpy().any(axis=1)
    some = fair(index=is_of_group, P=P[is_of_group], **options)
    assert_same(some, expected, 1e-4)
    assert_same(fair(weights=np.full(M, 7.0), **options), expected, 1e-4)


def test_sampled_rows_keep_their_entries(monkeypatch):
    """The same rows are drawn whatever groups are, and whoever is of no group."""

    def scores(model):
        return [layer.score for layer in model.unfairness_by_layer_]

    all_rows = scores(fair(refit_last=None))
    monkeypatch.setattr(_explainable_svd_regressor, "N_SAMPLED_ROWS", 60)
    soft = fair(P=np.eye(2)[CODES], refit_last=None)
    hard = ExplainableSVDRegressor(NET, random_state=0, refit_last=None)
    hard.fit(X, Y, sensitive_features=CODES)
    np.testing.assert_allclose(scores(soft), scores(hard))
    is_of_group = P.to_numpy().any(axis=1)
    some = fair(index=is_of_group, P=P[is_of_group], refit_last=None)
    sampled = scores(fair(refit_last=None))
    np.testing.assert_allclose(sampled, scores(some))
    assert not np.allclose(sampled, all_rows)


@pytest.mark.parametrize("options", EXACT, ids=str)
def test_weights_are_repetitions(options):
    repeated = np.repeat(np.arange(M), WEIGHTS.astype(int))
    expected = fair(index=repeated, P=P.iloc[repeated], **options)
    model = fair(weights=WEIGHTS, **options)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), 1e-4, 1e-4)
    assert model.ks_after_ == pytest.approx(expected.ks_after_, abs=1e-12)


def test_what_is_said_of_groups_is_expected():
    """Moments, noise, distances and r2 by a NumPy twin."""
    model = fair(weights=WEIGHTS)
    A = P.to_numpy() * WEIGHTS[:, None]
    inputs = np.maximum(X @ NET.coefs_[0] + NET.intercepts_[0], 0)
    W = NET.coefs_[1].T
    means, covariances = [], []
    for a in A.T:
        means.append(a @ inputs / a.sum())
        offsets = inputs - means[-1]
        covariances.append((offsets.T * a) @ offsets / a.sum())
    assert model.moments_.groups.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.moments_.counts, A.sum(axis=0))
    np.testing.assert_allclose(model.moments_.means, means)
    np.testing.assert_allclose(model.moments_.covariances("group"), covariances)
    gap = np.linalg.norm(W @ (means[1] - means[0]))
    assert model.mean_gap_before_ == pytest.approx(gap)
    # Noise of as many rows as there are in effect, W_g^2 / sum A^2.
    sizes = A.sum(axis=0) ** 2 / (A**2).sum(axis=0)
    within = np.tensordot(A.sum(axis=0), covariances, axes=1) / A.sum()
    trace = np.trace(W @ within @ W.T) * sizes.sum() / (sizes.sum() - 2)
    noise = np.sqrt(trace * (1 / sizes).sum())
    assert model.mean_gap_noise_[0, 1] == pytest.approx(noise)
    # Predictions on the rows of fit.
    for when, predicted in (("before", NET.predict(X)), ("after", model.predict(X))):
        shares = [
            (A * (predicted <= t)[:, None]).sum(axis=0) / A.sum(axis=0)
            for t in predicted
        ]
        distance = np.abs(np.diff(shares)).max()
        assert getattr(model, f"ks_{when}_") == pytest.approx(distance, abs=1e-12)
        r2 = [r2_score(Y, predicted, sample_weight=a) for a in A.T]
        np.testing.assert_allclose(getattr(model, f"r2_{when}_"), r2, rtol=1e-6)
    # The mean residual of the rows in effect is zero.
    residuals = A.sum(axis=1) @ (Y - model.predict(X)) / A.sum()
    assert residuals == pytest.approx(0, abs=1e-9)
    assert model.ks_after_ < model.ks_before_


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_in_parts(options, weights):
    groups = P.copy()
    groups[70:140] = 0.0  # nothing is known of a whole part
    model = ExplainableSVDRegressor(NET, random_state=0, **options)
    parts = dask.array.from_array(X, (70, 4))
    model.fit(parts, Y, group_probabilities=groups, sample_weight=weights)
    assert_same(model, fair(P=groups, weights=weights, **options))


def test_an_estimator_is_fitted_to_all_rows():
    model = fair(estimator=LinearRegression(), refit_last=None, weights=WEIGHTS)
    fitted = LinearRegression().fit(X, Y, sample_weight=WEIGHTS)
    expected = fair(estimator=fitted, refit_last=None, weights=WEIGHTS)
    np.testing.assert_allclose(model.predict(X), expected.predict(X))


def test_what_is_refused():
    regressor = ExplainableSVDRegressor(NET)
    for arguments in ({}, {"sensitive_features": CODES, "group_probabilities": P}):
        with pytest.raises(TypeError, match=r"got (neither|both)"):
            regressor.fit(X, Y, **arguments)
    wrong = P.copy()
    wrong.loc[5, "b"] = np.nan
    with pytest.raises(ValueError, match="first in row 5, column 'b'"):
        regressor.fit(X, Y, group_probabilities=wrong)
