"""Weighted rows, and groups known as probabilities: regressor and classifier."""

import dask.array
import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.metrics import null_parity_gap
from scalefair.postprocessing import (
    ExplainableSVDRegressor,
    FairCalibratedClassifier,
    _explainable_svd_regressor,
)

from .conftest import assert_same_moments, mlp, table

M = 240
RNG = np.random.default_rng(3)
X, Y, CODES = table(M)
NET = mlp(X, Y)
WEIGHTS = np.random.default_rng(1).integers(0, 4, M)
REPEATED = np.repeat(np.arange(M), WEIGHTS)
OF_FIT = ("ks_before_", "r2_before_", "mean_gap_before_", "covariance_gap_before_")
# Fits without a number of rows, which weights do not have.
EXACT = [
    {"method": "explainable_svd"},
    {"method": "explainable_svd", "layer": -1},
    {"noise_floor": False, "layer": "auto"},
]


def fair(weights, rows=X, codes=CODES, estimator=NET, index=slice(None), **options):
    model = ExplainableSVDRegressor(estimator, random_state=0, **options)
    groups = {"sensitive_features": codes[index], "sample_weight": weights}
    return model.fit(rows[index], Y[index], **groups)


def scores(model):
    return [layer.score for layer in model.unfairness_by_layer_]


def assert_same(model, expected, rtol, unit=1.0):
    """Moments to the last digits, and predictions."""
    assert_same_moments(model, expected, 1e-12, unit)
    for name in OF_FIT:
        values = (np.array(getattr(m, name), float) for m in (model, expected))
        np.testing.assert_allclose(*values, rtol=1e-10, err_msg=name)
    assert model.layer_changed_ == expected.layer_changed_
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol, rtol)


@pytest.mark.parametrize("options", EXACT, ids=str)
def test_weights_are_repetitions(options):
    rtol = 1e-8 if "method" in options else 1e-4  # of L-BFGS
    repeated = fair(None, index=REPEATED, **options)
    assert_same(fair(WEIGHTS, **options), repeated, rtol)
    with pytest.raises(AssertionError):  # weights are seen
        assert_same(fair(None, **options), repeated, rtol)


def test_units_are_free_and_no_weight_is_no_row():
    options = {"max_distance": 0.2}
    expected = fair(WEIGHTS, **options)
    for unit in (7, 1e30):  # integers of 64 bits are smaller
        assert_same(fair(unit * WEIGHTS, **options), expected, 1e-4, unit=unit)
    is_first = np.arange(M) < 200
    weights = is_first * np.linspace(1.0, 2.0, M)
    options = {"refit_last": "gradient"}
    expected = fair(weights[is_first], index=is_first, **options)
    assert_same(fair(weights, **options), expected, 1e-4)


def test_noise_has_no_units():
    """It is that of as many rows as (sum w)^2 / sum w^2."""
    expected = fair(None).mean_gap_noise_[0, 1]
    assert fair(np.full(M, 0.3)).mean_gap_noise_[0, 1] == pytest.approx(expected)
    # A group that is one row, but for others of hardly any weight.
    weights = np.where(CODES == 1, 1e-6, 1.0)
    weights[np.flatnonzero(CODES == 1)[0]] = 1.0
    with pytest.warns(UserWarning, match=r"^1 \(1 rows\): .* have fewer rows"):
        fair(weights)


def test_weights_go_to_the_estimators_fit():
    model = fair(WEIGHTS, estimator=LinearRegression(), method="explainable_svd")
    repeated = {"estimator": LinearRegression(), "method": "explainable_svd"}
    expected = fair(None, index=REPEATED, **repeated)
    np.testing.assert_allclose(model.predict(X), expected.predict(X))
    pipeline = make_pipeline(StandardScaler(), LinearRegression())
    with pytest.raises(ValueError, match=r"Pipeline has to be fitted, .* no sample_we"):
        fair(WEIGHTS, estimator=pipeline)
    assert fair(WEIGHTS, estimator=pipeline.fit(X, Y)).layer_ == 0


P = 0.8 * np.eye(2)[CODES] + 0.2 * RNG.dirichlet([1, 1], M)
P[::7] = P[-3:] = 0.0  # nothing is known, of the last rows either
P = pd.DataFrame(P, columns=["a", "b"])
OPTIONS = [
    {"max_distance": 0.2},
    {"noise_floor": False, "layer": "auto", "refit_last": "gradient"},
    {"method": "explainable_svd", "layer": -1},
]


def fair_soft(index=slice(None), P=P, estimator=NET, weights=None, **options):
    model = ExplainableSVDRegressor(estimator, random_state=0, **options)
    return model.fit(X[index], Y[index], group_probabilities=P, sample_weight=weights)


def assert_same_fit(model, expected, rtol=1e-9, unit=1.0):
    assert_same(model, expected, rtol, unit)
    noise = (m.mean_gap_noise_ for m in (model, expected))
    np.testing.assert_allclose(*noise, rtol=1e-7)


@pytest.mark.parametrize(
    ("options", "weights"),
    [(OPTIONS[0], None), (OPTIONS[1], WEIGHTS), (OPTIONS[2], WEIGHTS)],
    ids=str,
)
def test_one_hot_is_hard(options, weights):
    soft = fair_soft(P=np.eye(2)[CODES], weights=weights, **options)
    hard = fair(weights, **options)
    # Rows of weight 0 have no entries: L-BFGS may amplify the other rounding.
    assert_same_fit(soft, hard, 1e-12 if weights is None else 1e-8)
    assert scores(soft) == pytest.approx(scores(hard), rel=1e-12)


def test_rows_and_columns_may_be_cut_otherwise():
    (options, *_), is_of_group = OPTIONS, P.to_numpy().any(axis=1)
    expected = fair_soft(**options)
    assert_same_fit(fair_soft(P=P[["b", "a"]], **options), expected)
    # Batches; L-BFGS may amplify rounding.
    assert_same_fit(fair_soft(batch_size=37, **options), expected, 1e-4)
    some = fair_soft(index=is_of_group, P=P[is_of_group], **options)
    assert_same_fit(some, expected, 1e-4)
    assert_same_fit(fair_soft(weights=np.full(M, 7.0), **options), expected, 1e-4, 7)


def test_sampled_rows_keep_their_entries(monkeypatch):
    """The same rows are drawn whatever groups are, and whoever is of no group."""
    options = {"refit_last": None}
    all_rows = scores(fair_soft(**options))
    monkeypatch.setattr(_explainable_svd_regressor, "N_SAMPLED_ROWS", 60)
    soft, hard = fair_soft(P=np.eye(2)[CODES], **options), fair(None, **options)
    np.testing.assert_allclose(scores(soft), scores(hard))
    is_of_group = P.to_numpy().any(axis=1)
    some = fair_soft(index=is_of_group, P=P[is_of_group], **options)
    sampled = scores(fair_soft(**options))
    np.testing.assert_allclose(sampled, scores(some))
    assert not np.allclose(sampled, all_rows)
    # A row without weight is none of them.
    has_weight = WEIGHTS > 0
    some = fair(WEIGHTS[has_weight], index=has_weight, **options)
    np.testing.assert_allclose(scores(fair(WEIGHTS, **options)), scores(some))


def test_what_is_said_of_groups_is_expected():
    """Moments, noise, distances and r2 by a NumPy twin."""
    model = fair_soft(weights=WEIGHTS)
    A = P.to_numpy() * WEIGHTS[:, None]
    inputs = np.maximum(X @ NET.coefs_[0] + NET.intercepts_[0], 0)
    W = NET.coefs_[1].T
    means = [np.average(inputs, axis=0, weights=a) for a in A.T]
    covariances = [np.cov(inputs.T, ddof=0, aweights=a) for a in A.T]
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


LABELS = (X @ [1.0, 0.5, 1.0, 1.0] + RNG.standard_normal(M) > 1).astype(int)
PREFIT = FrozenEstimator(LogisticRegression().fit(X, LABELS))
FITTED = ("values_", "thresholds_", "kappas_", "partial_parity_gaps_", "roc_distance_")


def calibrated(rows=X, labels=LABELS, estimator=PREFIT, kappa=0.02, **options):
    names = ("sensitive_features", "group_probabilities", "sample_weight")
    groups = {name: options.pop(name) for name in names if name in options}
    model = FairCalibratedClassifier(estimator, kappa=kappa, **options)
    return model.fit(rows, labels, **groups)


def assert_same_calibration(model, expected):
    for name in FITTED:
        values = (np.array(getattr(m, name), float) for m in (model, expected))
        np.testing.assert_allclose(*values, atol=1e-12)


@pytest.mark.filterwarnings("ignore:(Groups of too few|kappa=.* is less than)")
@pytest.mark.parametrize(
    ("weights", "given"), [(None, None), (WEIGHTS, "positive"), (WEIGHTS, "label")]
)
def test_calibration_is_that_of_expanded_rows(weights, given):
    options = {"interval": (0.1, 0.8), "given": given}
    A = P.to_numpy() * (np.ones(M) if weights is None else weights)[:, None]
    row, group = np.nonzero(A)
    groups = {"group_probabilities": P, "sample_weight": weights}
    model = calibrated(**groups, **options)
    entries = {"sensitive_features": group, "sample_weight": A[row, group]}
    expanded = calibrated(X[row], LABELS[row], **entries, **options)
    assert_same_calibration(model, expanded)
    parts = dask.array.from_array(X, (100, 4))
    assert_same_calibration(calibrated(parts, **groups, **options), model)
    # Noise is that of as many rows as there are, which the groups share.
    n_rows = np.unique(row).size
    assert model.null_gap_ == expanded.null_gap(n_rows) > expanded.null_gap_
    if given is None:
        shares = A.sum(axis=0) / A.sum()
        sizes = 1 / ((A**2).sum(axis=0) / A.sum(axis=0) ** 2 + 1 / (n_rows * shares))
        expected = null_parity_gap(sizes, interval=(0.1, 0.8))
        assert model.null_gap_ == pytest.approx(expected, rel=1e-9)
    outputs = (
        m.predict_proba(X, sensitive_features=names[CODES])
        for m, names in ((model, np.array(["a", "b"])), (expanded, np.arange(2)))
    )
    np.testing.assert_allclose(*outputs, atol=1e-12)


def test_calibration_by_certain_probabilities():
    names = np.array(["b", "a"])[CODES]
    frame = pd.get_dummies(names).astype(float)[["b", "a"]]
    options = {"estimator": LogisticRegression(), "sample_weight": WEIGHTS}
    model = calibrated(group_probabilities=frame, **options)
    expected = calibrated(sensitive_features=names, **options)
    assert model.groups_.tolist() == expected.groups_.tolist() == ["a", "b"]
    assert_same_calibration(model, expected)
    assert model.null_gap_ == pytest.approx(expected.null_gap_, abs=1e-12)


def test_few_rows_are_those_of_equal_noise():
    thin = np.tile([1 - 1e-3, 1e-3], (M, 1))
    thin[0] = [0.0, 1.0]
    options = {"group_probabilities": thin, "kappa": 0.3}
    with pytest.warns(UserWarning, match=r"few rows for kappa=0.3: 1 \(2\)"):
        calibrated(**options)
    with pytest.raises(ValueError, match=r"min_group_size=4: 1 \(2\)"):
        calibrated(**options, min_group_size=4)


def test_at_prediction_a_row_has_to_have_a_group():
    classifier = calibrated(group_probabilities=P)
    for name in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match="for fit only: a mixture of"):
            getattr(classifier, name)(X, group_probabilities=P)
        with pytest.raises(TypeError, match="Pass sensitive_features, the group"):
            getattr(classifier, name)(X)
