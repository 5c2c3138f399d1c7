"""Weights of rows: 2 is the row twice, 0 is no row, and their unit does not matter."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from scalefair._groups import effective_sizes
from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than"),
]
INTERVAL = (0.1, 0.6)
# What groups add is penalised by the number of rows unless it is given.
OPTIONS = {"kappa": 0.15, "n_thresholds": 6, "tol": 2e-3, "interaction_alpha": 0.02}


def table(m=600, seed=0):
    """Rows, labels, groups and integer weights, a fifth of them zero."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, m)
    X = rng.standard_normal((m, 3)) + 0.8 * group[:, None]
    y = (X.sum(axis=1) + rng.standard_normal(m) > 1).astype(int)
    return X, y, group, rng.integers(0, 5, m).astype(float)


def repeated(weights, *columns):
    return [np.repeat(column, weights.astype(int), axis=0) for column in columns]


def classifier(**params):
    return PartiallyFairClassifier(INTERVAL, **{**OPTIONS, **params})


def fitted(model, X, y, group, weights=None):
    return model.fit(X, y, sensitive_features=group, sample_weight=weights)


def check_same_model(model, expected, tol=1e-6):
    assert_allclose(model.objective_, expected.objective_, rtol=tol)
    if tol < 1e-3:
        assert_allclose(model.coef_, expected.coef_, atol=10 * tol)
        assert_allclose(model.intercept_, expected.intercept_, atol=10 * tol)


# A search for tight gaps follows rounding, so far as the solver's tolerance lets it.
@pytest.mark.parametrize(
    ("model", "tol"),
    [
        (classifier(criterion="weak"), 1e-6),
        (classifier(kappa=0.9, given="label", interactions=False), 1e-4),
        (classifier(kappa=0.2), 5e-3),
        (PenalizedPartialParityClassifier(INTERVAL, 0.05, max_iter=100), 1e-6),
        (PairwiseFairClassifier(kappa=0.5, tol=1e-7), 1e-6),
        (PairwiseFairClassifier("inter_group", 0.5, tol=1e-7, loss="squared"), 1e-6),
    ],
)
def test_weights_are_repeated_rows(model, tol):
    X, y, group, weights = table()
    expected = fitted(clone(model), *repeated(weights, X, y, group))
    for unit in (1.0, 7.0):
        weighted = fitted(clone(model), X, y, group, unit * weights)
        check_same_model(weighted, expected, tol)


def test_default_penalty_counts_effective_rows():
    X, y, group, weights = table()
    options = {"criterion": "weak"}
    penalty = 16 * (weights**2).sum() / weights.sum() ** 2
    model = classifier(interaction_alpha=penalty, **options)
    expected = fitted(model, X, y, group, weights)
    for unit in (1.0, 1e-200, 7.0):
        model = classifier(interaction_alpha=None, **options)
        check_same_model(fitted(model, X, y, group, unit * weights), expected)


def test_ones_are_none_and_zero_is_no_row():
    X, y, group, weights = table()
    options = {"criterion": "weak"}
    model = fitted(classifier(**options), X, y, group)
    same = fitted(classifier(**options), X, y, group, np.ones(len(y)))
    np.testing.assert_array_equal(same.coef_, model.coef_)
    counted = weights > 0
    model = fitted(classifier(**options), X[counted], y[counted], group[counted])
    X[~counted] *= 1e6
    indicator = np.where(counted, 1.0, 0.0)
    check_same_model(fitted(classifier(**options), X, y, group, indicator), model)


def test_sizes_are_those_of_rows_with_as_much_noise():
    codes, weights = np.array([0, 0, 0, 2, 2]), np.array([1.0, 2.0, 0.0, 3.0, 3.0])
    expected = [9 / 5, 0, 2]
    for unit in (1.0, 0.1, 1e-250):
        assert_allclose(effective_sizes(codes, unit * weights, 3), expected)
    X, y, group, _ = table()
    weights = np.where(group == 1, 1.0, 0.0)
    weights[np.flatnonzero(group == 0)[:40]] = np.geomspace(1, 1e6, 40)
    with pytest.warns(UserWarning, match=r"few.*: 0 \(6\)"):
        fitted(classifier(kappa=0.9), X, y, group, weights)
    model = classifier(min_group_size=7)
    with pytest.raises(ValueError, match=r"min_group_size=7: 0 \(6\)"):
        fitted(model, X, y, group, weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, y: np.where(y == 1, -1.0, w), "negative"),
        (lambda w, y: w * (y == 1), "0 for all rows of the class 0"),
    ],
)
def test_bad_weights(change, message):
    X, y, group, weights = table()
    bad = change(weights + 1, y)
    path = partial(partial_fairness_path, kappas=[0.2])
    for fit, rows in (
        (classifier().fit, X),
        (classifier().fit, da.from_array(X, chunks=(200, 3))),
        (PartiallyFairClassifierCV().fit, X),
        (path, X),
    ):
        with pytest.raises(ValueError, match=message):
            fit(rows, y, sensitive_features=group, sample_weight=bad)


def test_losses_of_pairs_take_none():
    for loss in ("auc", "partial_auc"):
        with pytest.raises(ValueError, match="takes no sample_weight"):
            fitted(classifier(loss=loss), *table())
