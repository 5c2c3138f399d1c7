"""Weights of rows: 2 is the row twice, 0 is no row, and their unit does not matter."""

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_validate
from sklearn.utils import estimator_checks

from scalefair._groups import effective_sizes, encode_attributes
from scalefair._membership import Membership
from scalefair.linear_model import (
    PairwiseFairClassifier,
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
    PenalizedPartialParityClassifier,
    partial_fairness_path,
)
from scalefair.linear_model import _partitioned as training_rows
from scalefair.linear_model._continuation import _largest_tie
from scalefair.linear_model._partially_fair import best_constant, most_accurate_shift
from scalefair.linear_model._partitioned import PartitionedTraining
from scalefair.linear_model._training_rows import LabeledRows
from scalefair.linear_model._weights import column_spread
from scalefair.metrics import partial_parity_gap
from scalefair.streaming import PartitionedRows

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Gaps of groups of fewer than"),
]
INTERVAL = (0.1, 0.6)
THETA = np.array([0.75, -0.5, 0.25, 0.25, 2.0])
# What groups add is penalised by the number of rows unless it is given.
OPTIONS = {"kappa": 0.15, "n_thresholds": 6, "tol": 2e-3, "interaction_alpha": 0.02}


def table(m=600, seed=0):
    """Rows, labels, two attributes and integer weights, a fifth of them zero."""
    rng = np.random.default_rng(seed)
    attributes = rng.integers(0, [2, 3], (m, 2))
    X = rng.standard_normal((m, 3)) + 0.8 * attributes[:, :1]
    y = (X.sum(axis=1) + rng.standard_normal(m) > 1).astype(int)
    return X, y, attributes, rng.integers(0, 5, m).astype(float)


def repeated(weights, *columns):
    return [np.repeat(column, weights.astype(int), axis=0) for column in columns]


def encoded(X, y, attributes, weights=None, given=None):
    compared = encode_attributes(attributes)
    signs = np.where(y == 1, 1.0, -1.0)
    groups = Membership(compared, None, weights)
    return LabeledRows.of(X, signs, np.array([0, 1]), groups, given, weights)


def classifier(**params):
    return PartiallyFairClassifier(INTERVAL, **{**OPTIONS, **params})


def fitted(model, X, y, group, weights=None):
    return model.fit(X, y, sensitive_features=group, sample_weight=weights)


def check_same_model(model, expected, tol=1e-6):
    assert_allclose(model.objective_, expected.objective_, rtol=tol)
    if tol < 1e-3:
        assert_allclose(model.coef_, expected.coef_, atol=10 * tol)
        assert_allclose(model.intercept_, expected.intercept_, atol=10 * tol)


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize(("surrogate", "corner"), [("ramp", 0.1), ("sigmoid", 0.0)])
@pytest.mark.parametrize("given", [None, "label"])
@pytest.mark.parametrize("n_attributes", [1, 2])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_oracle(loss, surrogate, corner, given, n_attributes, container):
    X, y, attributes, weights = table()
    attributes = attributes[:, :n_attributes]
    options = {"loss": loss, "surrogate": surrogate}
    twice = repeated(weights, X, y, attributes)
    oracles = [
        encoded(container(X), y, attributes, weights, given).oracle(**options),
        encoded(container(twice[0]), *twice[1:], given=given).oracle(**options),
    ]
    rng = np.random.default_rng(1)
    w = rng.standard_normal(oracles[0].n_weights)
    n_families = oracles[0].compared.n_families
    point = w, np.tile(THETA, n_families)
    a, b = (oracle.evaluate(*point, corner=corner) for oracle in oracles)
    multipliers = rng.standard_normal((2, *b.plus.shape))
    for name in ("loss", "loss_gradient", "parts", "slopes"):
        expected = getattr(b, name)
        scale = np.abs(expected).max()
        assert_allclose(getattr(a, name), expected, rtol=0, atol=1e-12 * scale)
    expected = b.combine(*multipliers)
    scale = np.abs(expected).max()
    assert_allclose(a.combine(*multipliers), expected, rtol=0, atol=1e-12 * scale)
    shares = [0.02, 0.3, 0.9]
    assert_allclose(*(oracle.quantiles(w, shares) for oracle in oracles), rtol=1e-12)


def test_spread_of_weighted_columns():
    X, _, _, weights = table(50)
    X[:, 1] = 5.0
    X[weights == 0, 1] = 7.0  # constant but for rows that do not count
    X[:, 2] *= X[:, 2] > 0.5
    (expected,) = repeated(weights, X)
    expected = column_spread(expected)
    for container in (np.asarray, sparse.csr_array):
        spread = column_spread(container(X), weights)
        for actual, of_repeated in zip(spread, expected, strict=True):
            assert_allclose(actual, of_repeated, rtol=1e-12, atol=1e-14)
        assert spread.scale()[1] == 0


# A search for tight gaps follows rounding, so far as the solver's tolerance lets it.
@pytest.mark.parametrize(
    ("params", "tol"),
    [
        ({"criterion": "weak"}, 1e-6),
        ({"kappa": 0.9}, 1e-4),
        ({"kappa": 0.9, "given": "label", "interactions": False}, 1e-4),
        ({"kappa": 0.2}, 5e-3),
    ],
)
def test_fit(params, tol):
    X, y, attributes, weights = table()
    group, model = attributes[:, 0], classifier(**params)
    expected = fitted(clone(model), *repeated(weights, X, y, group))
    check_same_model(fitted(clone(model), X, y, group, 7 * weights), expected, tol)
    check_same_model(fitted(model, X, y, group, weights), expected, tol)
    options = {"interval": INTERVAL, "given": model.given, "y_true": y}
    options["threshold"] = 0.0 if model.criterion == "weak" else None
    groups = {"sensitive_features": group}
    scores = model.decision_function(X, **groups)
    gap = partial_parity_gap(scores, **groups, **options, sample_weight=weights)
    assert model.partial_parity_gap_ == pytest.approx(gap, abs=1e-9)


def test_default_penalty_counts_effective_rows():
    X, y, attributes, weights = table()
    group, options = attributes[:, 0], {"criterion": "weak"}
    penalty = 16 * (weights**2).sum() / weights.sum() ** 2
    model = classifier(interaction_alpha=penalty, **options)
    expected = fitted(model, X, y, group, weights)
    for unit in (1.0, 1e-200, 7.0):
        model = classifier(interaction_alpha=None, **options)
        check_same_model(fitted(model, X, y, group, unit * weights), expected)


def test_ones_are_none_and_zero_is_no_row():
    X, y, attributes, weights = table()
    group, options = attributes[:, 0], {"criterion": "weak"}
    model = fitted(classifier(**options), X, y, group)
    same = fitted(classifier(**options), X, y, group, np.ones(len(y)))
    np.testing.assert_array_equal(same.coef_, model.coef_)
    counted = weights > 0
    model = fitted(classifier(**options), X[counted], y[counted], group[counted])
    X[~counted] *= 1e6
    indicator = np.where(counted, 1.0, 0.0)
    check_same_model(fitted(classifier(**options), X, y, group, indicator), model)


# Groups by what the rows are, so that repeated rows are of the same one.
class _ByContent:
    def fit(self, X, y, *, sensitive_features=None, sample_weight=None):
        if sensitive_features is None:
            sensitive_features = 1e6 * np.asarray(X.sum(axis=1)).ravel() % 2 < 1
        rows = {"sensitive_features": sensitive_features}
        return super().fit(X, y, sample_weight=sample_weight, **rows)


class _PartiallyFair(_ByContent, PartiallyFairClassifier):
    pass


class _Chosen(_ByContent, PartiallyFairClassifierCV):
    pass


class _Penalized(_ByContent, PenalizedPartialParityClassifier):
    pass


BLIND = {"interactions": False}


@pytest.mark.parametrize(
    "model",
    [
        _PartiallyFair(kappa=0.9, n_thresholds=2, **BLIND),
        _PartiallyFair(criterion="weak", kappa=0.9, **BLIND),
        _Chosen([0.9], 0.0, estimator=_PartiallyFair(criterion="weak", **BLIND)),
        _Penalized(INTERVAL, 0.01, learning_rate=0.02, max_iter=200, **BLIND),
    ],
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_scikit_learn_checks_of_weights(model, kind):
    name = f"check_sample_weight_equivalence_on_{kind}_data"
    getattr(estimator_checks, name)("model", model)


def test_sizes_are_those_of_rows_with_as_much_noise():
    codes, weights = np.array([0, 0, 0, 2, 2]), np.array([1.0, 2.0, 0.0, 3.0, 3.0])
    expected = [9 / 5, 0, 2]
    for unit in (1.0, 0.1, 1e-250):
        assert_allclose(effective_sizes(codes, unit * weights, 3), expected)
    X, y, attributes, _ = table()
    weights = np.where(attributes[:, 0] == 1, 1.0, 0.0)
    weights[np.flatnonzero(attributes[:, 0] == 0)[:40]] = np.geomspace(1, 1e6, 40)
    with pytest.warns(UserWarning, match=r"few.*: 0 \(6\)"):
        fitted(classifier(kappa=0.9), X, y, attributes[:, 0], weights)
    model = classifier(min_group_size=7)
    with pytest.raises(ValueError, match=r"min_group_size=7: 0 \(6\)"):
        fitted(model, X, y, attributes[:, 0], weights)


def test_shift_of_weighted_rows():
    rng = np.random.default_rng(0)
    for m in (12, 400):
        scores = rng.integers(-6, 7, m) / 2
        signs = rng.choice([-1.0, 1.0], m)
        weights = rng.integers(0, 4, m).astype(float)
        shift = most_accurate_shift(*repeated(weights, scores, signs))
        for unit in (1.0, 0.3):
            assert most_accurate_shift(scores, signs, unit * weights) == shift
        if m == 12:  # no window reaches the next row

            def right(s, scores=scores, signs=signs, weights=weights):
                return weights @ ((scores + s > 0) == (signs > 0))

            assert right(shift) == max(map(right, np.arange(-3.25, 3.5, 0.5)))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_constant_score_and_ties(loss):
    signs, weights = np.array([1.0, -1.0, -1.0]), np.array([3.0, 2.0, 0.0])
    expected = best_constant(*repeated(weights, signs), loss)
    assert best_constant(signs, loss, weights) == expected
    sets = np.zeros(3, int)
    scores = np.array([1.0, 0.0, 1.0])
    assert _largest_tie(scores, sets, (0.0, 1.0), weights) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, y, group: w[:-1], "one weight per sample"),
        (lambda w, y, group: np.where(y == 1, -1.0, w), "negative"),
        (lambda w, y, group: np.where(y == 1, np.nan, w), "NaN"),
        (lambda w, y, group: 0 * w, "zero for all"),
        (lambda w, y, group: w * (group == 0), r"0 for all samples of 1 .*: 1\."),
        (lambda w, y, group: w * (y == 1), "0 for all rows of the class 0"),
    ],
)
def test_bad_weights(change, message):
    X, y, attributes, weights = table()
    group = attributes[:, 0]
    bad = change(weights + 1, y, group)
    rows = da.from_array(X, chunks=(200, 3))
    for fit in (
        classifier().fit,
        PartiallyFairClassifierCV().fit,
        lambda *args, **kwargs: partial_fairness_path(*args, kappas=[0.2], **kwargs),
    ):
        with pytest.raises(ValueError, match=message):
            fit(X, y, sensitive_features=group, sample_weight=bad)
    with pytest.raises(ValueError, match=message):
        fitted(classifier(), rows, y, group, bad)


@pytest.mark.parametrize("loss", ["auc", "partial_auc"])
def test_losses_of_pairs_take_none(loss):
    X, y, attributes, weights = table()
    with pytest.raises(ValueError, match="takes no sample_weight"):
        fitted(classifier(loss=loss), X, y, attributes[:, 0], weights)


@pytest.mark.parametrize("collection", [False, True])
def test_rows_in_parts(collection):
    X, y, attributes, weights = table()
    weights[200:400] = 0.0  # a part
    group = attributes[:, 0]
    options = {"criterion": "weak"}
    model = fitted(classifier(**options), X, y, group, weights)
    rows = [da.from_array(X, chunks=(200, 3)), y, group, weights]
    if collection:
        rows[1:] = [da.from_array(column, chunks=200) for column in rows[1:]]
    check_same_model(fitted(classifier(**options), *rows), model, 1e-5)


def test_samples_of_parts_have_rows_with_weights(monkeypatch):
    monkeypatch.setattr(training_rows, "LARGEST_SAMPLE_ROWS", 160)
    monkeypatch.setattr(training_rows, "MIN_CELL_ROWS", 20)
    X, y, attributes, weights = table()
    weights[:450] = 0.0
    parts = PartitionedRows.of(da.from_array(X, chunks=(200, 3)))
    options = {"interactions": True, "loss": "logistic", "surrogate": "ramp"}
    training = PartitionedTraining(
        *(parts, y, attributes[:, 0], (9, 1), options), sample_weight=weights
    )
    samples = list(training.nested_subsamples(np.random.RandomState(0)))
    assert samples
    for sample in samples:
        assert (sample.weights > 0).all()
        (rows,) = np.nonzero((X[:, None] == sample.X).all(axis=2).T)[1:]
        np.testing.assert_array_equal(sample.weights, weights[rows])


def test_path_and_folds():
    X, y, attributes, weights = table()
    group, kappas = attributes[:, 0], [0.1, 0.4]
    options = {"interval": INTERVAL, **OPTIONS, "criterion": "weak"}
    del options["kappa"]
    columns = repeated(weights, X, y, group)
    path, expected = (
        partial_fairness_path(
            *rows[:2],
            sensitive_features=rows[2],
            sample_weight=w,
            kappas=kappas,
            **options,
        )
        for rows, w in (((X, y, group), weights), (columns, None))
    )
    for model, of_repeated in zip(path, expected, strict=True):
        check_same_model(model, of_repeated, 2e-3)
    # Rows 0 to 299 and the others are the folds.
    first, second = np.arange(300), np.arange(300, 600)
    search = PartiallyFairClassifierCV(
        kappas, 0.0, estimator=classifier(criterion="weak"), cv=[(first, second)]
    )
    search = fitted(search, X, y, group, weights)
    for i, kappa in enumerate(kappas):
        path = partial_fairness_path(
            *(X[first], y[first]),
            sensitive_features=group[first],
            sample_weight=weights[first],
            kappas=kappas,
            **options,
        )
        held_out = {"sensitive_features": group[second]}
        of_second = {**held_out, "sample_weight": weights[second]}
        accuracy = path[i].score(X[second], y[second], **of_second)
        scores = path[i].decision_function(X[second], **held_out)
        gap = partial_parity_gap(scores, interval=INTERVAL, threshold=0, **of_second)
        assert path[i].kappa == search.cv_results_["kappa"][i] == kappa
        assert search.cv_results_["accuracy"][i, 0] == pytest.approx(accuracy)
        assert search.cv_results_["fairness"][i, 0] == pytest.approx(1 - gap)
    best = classifier(kappa=search.kappa_, criterion="weak")
    check_same_model(search.best_estimator_, fitted(best, X, y, group, weights))


def test_weights_are_routed():
    X, y, attributes, weights = table(120)
    group, seen = attributes[:, 0], []

    class Recorder(PenalizedPartialParityClassifier):
        def fit(self, X, y, *, sensitive_features, sample_weight=None):
            seen.append(sample_weight)
            return super().fit(
                X, y, sensitive_features=sensitive_features, sample_weight=sample_weight
            )

    with config_context(enable_metadata_routing=True):
        model = Recorder(INTERVAL, max_iter=5)
        model.set_fit_request(sensitive_features=True, sample_weight=True)
        model.set_score_request(sensitive_features=True, sample_weight=True)
        params = {"sensitive_features": group, "sample_weight": weights}
        splits = [(np.arange(60), np.arange(60, 120))]
        cross_validate(model, X, y, params=params, cv=splits, error_score="raise")
    np.testing.assert_array_equal(seen, [weights[:60]])


@pytest.mark.parametrize(
    "model",
    [
        PenalizedPartialParityClassifier(INTERVAL, learning_rate=0.05, max_iter=100),
        PairwiseFairClassifier(kappa=0.5, tol=1e-7),
        PairwiseFairClassifier("inter_group", kappa=0.5, tol=1e-7, loss="squared"),
    ],
)
def test_comparators(model):
    X, y, attributes, weights = table()
    rows = X, y, attributes[:, 0]
    expected = fitted(model, *repeated(weights, *rows)).coef_.copy()
    for unit in (1.0, 7.0):
        weighted = fitted(model, *rows, unit * weights)
        assert_allclose(weighted.coef_, expected, atol=1e-5)
