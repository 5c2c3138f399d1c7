"""Weights of rows, 2 is the row twice and 0 no row; units of weights and features."""

from functools import partial

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import scale

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
    pytest.mark.filterwarnings("ignore:The gap of the training rows"),
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


def classifier(**params):
    return PartiallyFairClassifier(INTERVAL, **{**OPTIONS, **params})


def fitted(model, X, y, group, weights=None):
    model = clone(model).fit(X, y, sensitive_features=group, sample_weight=weights)
    return getattr(model, "best_estimator_", model)


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
    order = np.repeat(np.arange(len(y)), weights.astype(int))
    expected = fitted(model, X[order], y[order], group[order])
    for unit in (1.0, 7.0):
        weighted = fitted(model, X, y, group, unit * weights)
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


def test_a_weight_of_zero_is_no_row():
    X, y, group, weights = table()
    counted, model = weights > 0, classifier(criterion="weak")
    expected = fitted(model, X[counted], y[counted], group[counted])
    X[~counted] *= 1e6
    check_same_model(fitted(model, X, y, group, 1.0 * counted), expected)


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


def test_a_class_without_weight():
    X, y, group, weights = table()
    of_one = (weights + 1) * (y == 1)
    path = partial(partial_fairness_path, kappas=[0.2])
    for fit, rows in (
        (classifier().fit, X),
        (classifier().fit, da.from_array(X, chunks=(200, 3))),
        (PartiallyFairClassifierCV().fit, X),
        (path, X),
    ):
        with pytest.raises(ValueError, match="0 for all rows of the class 0"):
            fit(rows, y, sensitive_features=group, sample_weight=of_one)


def test_losses_of_pairs_take_none():
    for loss in ("auc", "partial_auc"):
        with pytest.raises(ValueError, match="takes no sample_weight"):
            fitted(classifier(loss=loss), *table())


@pytest.fixture(scope="module")
def survey():
    """Rows in units that differ by orders of magnitude, and the same standardized."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=800)
    Z = rng.standard_normal((800, 5)) + 0.5 * group[:, None]
    Z[:, 3] = Z[:, 3] > 1
    y = Z.sum(axis=1) + rng.standard_normal(800) > 1.5
    # In their own units: year, income, level, indicator, share.
    X = [1985.0, 4e4, 3.0, 0.0, 1e-8] + [20.0, 3e4, 1.0, 1.0, 1e-8] * Z
    X[:, 2] = np.round(X[:, 2])
    return X, scale(X), y.astype(int), group


def fair(**options):
    # The method of the paper: its surrogate stays as it is, and the gap may be any.
    options = {"surrogate_width": 1.0, "alpha": 0.0, "start": "zero"} | options
    options = {"kappa": 0.1, "n_thresholds": 5} | options
    return PartiallyFairClassifier((0.1, 0.5), **options)


dense, csr = np.asarray, sparse.csr_array
# Estimators, and how the rows are stored.
MODELS = {
    "fit": (fair(), csr),
    "augmented Lagrangian": (fair(start="auto"), dense),
    "blind": (fair(interactions=False, surrogate="sigmoid"), dense),
    "ranking": (fair(loss="partial_auc"), csr),
    "weak": (fair(criterion="weak", alpha=0.1), dense),
    "choice": (
        PartiallyFairClassifierCV([0.3], 0.5, estimator=fair(tol=5e-3), cv=2),
        csr,
    ),
    "pairwise": (PairwiseFairClassifier("inter_group", 0.3, tol=1e-6, alpha=0.1), csr),
    "penalized": (PenalizedPartialParityClassifier((0.1, 0.5), 0.1, max_iter=200), csr),
}


# Both are one problem up to rounding, which decides which of many cuts are active:
# from there on the solvers take other ways to points that are as good, within `tol`,
# 1e-3, of the same residual. Without units they end percents apart.
SAME = {"rel": 5e-4}


@pytest.mark.parametrize(("model", "container"), MODELS.values(), ids=MODELS)
def test_codes_as_they_are_and_standardized(survey, model, container):
    X, Z, y, group = survey
    raw, standard = fitted(model, container(X), y, group), fitted(model, Z, y, group)
    assert raw.objective_ == pytest.approx(standard.objective_, **SAME)
    expected = standard.decision_function(Z, sensitive_features=group)
    scores = raw.decision_function(container(X), sensitive_features=group)
    assert (scores - expected).std() < 0.05 * expected.std()
    np.testing.assert_allclose(raw.coef_ * X.std(axis=0), standard.coef_, atol=0.15)
    assert getattr(raw, "converged_", True)


@pytest.mark.parametrize(
    ("container", "start", "factor"),
    [(dense, "zero", 2.0**-500), (csr, "auto", 2.0**500), (csr, "zero", 1e8)],
)
def test_one_column_in_other_units(survey, container, start, factor):
    _, Z, y, group = survey
    factors = np.array([1.0, factor, 1.0, 1.0, 1.0])
    plain = fitted(fair(start=start), container(Z), y, group)
    model = fitted(fair(start=start), container(Z * factors), y, group)
    assert model.converged_
    # Powers of two change no digit.
    is_exact = np.log2(factor) == round(np.log2(factor))
    same = {"rel": 1e-13} if is_exact else SAME
    assert model.objective_ == pytest.approx(plain.objective_, **same)
    np.testing.assert_allclose(
        model.coef_ * factors, plain.coef_, atol=1e-12 if is_exact else 0.05
    )


def test_columns_that_say_nothing_or_the_same(survey):
    X, Z, y, group = survey
    more = np.column_stack(
        [X, np.zeros(800), np.full(800, 1e8), X[:, 0] + 1e-6 * Z[:, 2], 1e9 + Z[:, 1]]
    )
    model = fair().fit(more, y, sensitive_features=group)
    plain = fair().fit(X, y, sensitive_features=group)
    assert model.converged_
    assert not model.coef_[:, 5:7].any()
    assert model.objective_ <= plain.objective_ + 1e-3


def test_starts_are_in_the_units_given(survey):
    X, _, y, group = survey
    model = fair(kappa=0.05, n_thresholds=10, warm_start=True)
    model.fit(X, y, sensitive_features=group)
    objective, n_calls = model.objective_, model.n_oracle_calls_
    weights = np.column_stack([model.coef_, model.intercept_])
    given = fair(n_thresholds=10, start=weights, max_iter=1, tol=1.0)
    given.fit(X, y, sensitive_features=group)
    assert given.objective_ < objective + 1e-3
    model.fit(X, y, sensitive_features=group)
    assert model.n_oracle_calls_ < n_calls
    assert model.objective_ < objective + 1e-3


# Rows whose scores overflow: the error is ours; warnings are errors here.
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [dense, csr])
def test_scores_too_large(survey, dtype, container):
    _, Z, y, group = survey
    model = fitted(fair(tol=0.1), Z, y, group)
    model.coef_ = 3 * np.ones_like(model.coef_)
    bad = Z.astype(dtype)
    bad[7] = 0.5 * np.finfo(dtype).max
    for method in (model.decision_function, model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=r"too large for .*position 7"):
            method(container(bad), sensitive_features=group)


@pytest.mark.parametrize("kind", [PenalizedPartialParityClassifier, fair])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_large_features(survey, kind):
    _, Z, y, group = survey
    for size in (1e160, 1e300):
        # Weights are those of standardised features: nothing overflows.
        for large in (size * np.sign(Z), np.r_[np.full((1, 5), size), Z[1:]]):
            model = kind(max_iter=5).fit(large, y, sensitive_features=group)
            scores = model.decision_function(large, sensitive_features=group)
            assert np.isfinite(scores).all()
    for size in (8e307, 1.7e308):  # to be summed, or subtracted
        with pytest.raises(ValueError, match=r"scale (its|the) features"):
            kind().fit(size * np.sign(Z), y, sensitive_features=group)
