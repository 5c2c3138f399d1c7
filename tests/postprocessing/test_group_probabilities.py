"""Calibration with groups known as probabilities: chains of weighted entries."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from scalefair.metrics import null_parity_gap
from scalefair.postprocessing import FairCalibratedClassifier, fair_calibration_path

pytestmark = pytest.mark.filterwarnings("ignore:kappa=")
FITTED = ("values_", "thresholds_", "kappas_", "partial_parity_gaps_")
NAMES = np.array(["b", "a", "c"])


def table(m=600, seed=0):
    """Rows, labels, probabilities, of some rows none, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), m)
    P[::7] = 0.0
    X = rng.standard_normal((m, 3))
    X[:, 0] += P[:, 0] - P[:, 1]
    y = (X @ [0.5, 1.0, 1.0] + rng.standard_normal(m) > 0).astype(int)
    return X, y, P, rng.integers(0, 4, m).astype(float)


X, Y, P, WEIGHTS = table()
PREFIT = FrozenEstimator(LogisticRegression().fit(X, Y))


def test_rows_in_parts():
    options = {"group_probabilities": P, "sample_weight": WEIGHTS}
    expected = FairCalibratedClassifier(PREFIT, kappa=0.02).fit(X, Y, **options)
    parts = da.from_array(X, chunks=(100, 3))
    model = FairCalibratedClassifier(PREFIT, kappa=0.02).fit(parts, Y, **options)
    for name in FITTED:
        assert_allclose(getattr(model, name), getattr(expected, name), atol=1e-12)


@pytest.mark.parametrize(
    ("weights", "given"),
    [(None, None), (WEIGHTS, None), (None, "positive"), (WEIGHTS, "label")],
)
def test_is_that_of_expanded_rows(weights, given):
    options = {"kappa": 0.02, "interval": (0.1, 0.8), "given": given}
    A = P * (np.ones(len(Y)) if weights is None else weights)[:, None]
    row, group = np.nonzero(A)
    model = FairCalibratedClassifier(PREFIT, **options)
    model.fit(X, Y, group_probabilities=P, sample_weight=weights)
    expanded = FairCalibratedClassifier(PREFIT, **options).fit(
        X[row], Y[row], sensitive_features=group, sample_weight=A[row, group]
    )
    for name in FITTED:
        assert_allclose(getattr(model, name), getattr(expanded, name), atol=1e-12)
    assert model.roc_distance_ == pytest.approx(expanded.roc_distance_, abs=1e-12)
    # Noise is that of as many rows as there are, which the groups share.
    n_rows = np.unique(row).size
    assert model.null_gap_ == expanded.null_gap(n_rows) > expanded.null_gap_
    if given is None:
        shares = A.sum(axis=0) / A.sum()
        sizes = 1 / ((A**2).sum(axis=0) / A.sum(axis=0) ** 2 + 1 / (n_rows * shares))
        expected = null_parity_gap(sizes, interval=(0.1, 0.8))
        assert model.null_gap_ == pytest.approx(expected, rel=1e-9)
    codes = np.arange(len(Y)) % 3
    assert_allclose(
        model.predict_proba(X, sensitive_features=codes),
        expanded.predict_proba(X, sensitive_features=codes),
        atol=1e-12,
    )


def test_certain_probabilities_are_groups():
    groups = NAMES[P.argmax(axis=1)]
    frame = pd.get_dummies(groups).astype(float)[["c", "a", "b"]]
    estimator, rows = LogisticRegression(), {"sample_weight": WEIGHTS}
    model = FairCalibratedClassifier(estimator, kappa=0.02)
    expected = FairCalibratedClassifier(estimator, kappa=0.02)
    model.fit(X, Y, group_probabilities=frame, **rows)
    expected.fit(X, Y, sensitive_features=groups, **rows)
    assert model.groups_.tolist() == expected.groups_.tolist() == ["a", "b", "c"]
    for name in (*FITTED, "null_gap_"):
        assert_allclose(getattr(model, name), getattr(expected, name), atol=1e-12)
    path = fair_calibration_path(
        estimator, X, Y, group_probabilities=frame, kappas=[0.3, 0.02], **rows
    )
    assert np.array_equal(path[1].values_, model.values_)
    labels = model.predict(X, sensitive_features=groups)
    assert np.array_equal(labels, expected.predict(X, sensitive_features=groups))


def test_few_rows_are_those_of_equal_noise():
    thin = np.tile([1 - 1e-3, 1e-3], (len(Y), 1))
    thin[0] = [0.0, 1.0]
    model = FairCalibratedClassifier(PREFIT, kappa=0.3)
    with pytest.warns(UserWarning, match=r"few rows for kappa=0.3: 1 \(3\)"):
        model.fit(X, Y, group_probabilities=thin)
    with pytest.raises(ValueError, match=r"min_group_size=4: 1 \(3\)"):
        model.set_params(min_group_size=4).fit(X, Y, group_probabilities=thin)


def test_what_is_refused():
    model = FairCalibratedClassifier(PREFIT)
    for groups in ({}, {"sensitive_features": Y, "group_probabilities": P}):
        for rows in (X, da.from_array(X, chunks=(100, 3))):
            with pytest.raises(TypeError, match="Pass sensitive_features="):
                model.fit(rows, Y, **groups)
    holes = pd.DataFrame(P, columns=NAMES)
    holes.iloc[4, 1] = np.nan
    with pytest.raises(ValueError, match="missing, the first in row 4, column 'a'"):
        model.fit(X, Y, group_probabilities=holes)
    lost = np.where(P[:, 2] > 0, 0.0, 1.0)
    with pytest.raises(ValueError, match="weight is 0 for all samples of 3 group"):
        model.fit(X, Y, group_probabilities=P, sample_weight=lost)
    # At prediction a row has to have a group.
    model.fit(X, Y, group_probabilities=P)
    for name in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match="for fit only: a mixture of"):
            getattr(model, name)(X, group_probabilities=P)
        with pytest.raises(TypeError, match="Pass sensitive_features, the group"):
            getattr(model, name)(X)
