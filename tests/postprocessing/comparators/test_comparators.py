"""The comparators: what they share, the barycentre, transport of binned scores."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import ks_2samp
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair.postprocessing import (
    DiscretizedTransportRegressor,
    WassersteinBarycenterRegressor,
)


class _First(RegressorMixin, BaseEstimator):
    """The first feature is the score; nothing to fit."""

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X)[:, 0]


@pytest.fixture(params=["wasserstein", "discretized"])
def comparator(request):
    """Either comparator, with an estimator as its only argument."""
    if request.param == "wasserstein":
        return WassersteinBarycenterRegressor
    return partial(DiscretizedTransportRegressor, n_bins=12)


RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(200) < 0.4, "a", "b")
X = RNG.standard_normal((200, 3)) + 2.0 * (GROUPS == "a")[:, None] * [1, 0, 1]
Y = X @ [1.0, 2.0, 0.5] + RNG.standard_normal(200)


def _fair(model, rows=X, targets=Y, groups=GROUPS):
    return model.fit(rows, targets, sensitive_features=groups)


class Fits:
    """An object that only predicts."""

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return X[:, :1]  # a column is one number a row


def test_estimators_are_used_as_they_are_or_cloned(comparator):
    inner = LinearRegression().fit(X, Y)
    before = inner.coef_.copy()
    model = _fair(comparator(inner, random_state=0), targets=None)
    assert model.estimator_ is inner
    # Other targets change nothing unless the estimator is fitted anew.
    again = _fair(comparator(inner, random_state=0), targets=-Y)
    assert_array_equal(model.predict(X), again.predict(X))
    anew = _fair(comparator(inner, prefit=False), targets=-Y)
    assert_allclose(anew.estimator_.coef_, -before)
    assert_array_equal(inner.coef_, before)
    frozen = clone(comparator(FrozenEstimator(inner)))
    assert _fair(frozen, targets=None).predict(X).shape == (200,)
    fresh = LinearRegression()
    assert hasattr(_fair(comparator(fresh)).estimator_, "coef_")
    assert not hasattr(fresh, "coef_")
    with pytest.raises(ValueError, match=r"y is None\. Pass y, or an estimator"):
        _fair(comparator(fresh), targets=None)
    for alone, message in ((fresh, "this Linear"), (Fits(), "this Fits")):
        with pytest.raises(NotFittedError, match=f"prefit=True, but {message}"):
            _fair(comparator(alone, prefit=True))
    model = _fair(comparator(Fits().fit(X, Y)), targets=None)
    assert model.predict(X, sensitive_features=GROUPS).shape == (200,)


def test_fit_on_targets(comparator):
    inner = LinearRegression().fit(X, Y)
    on_targets = comparator(inner, fit_on="targets", random_state=0)
    with pytest.raises(ValueError, match=r'fit_on="targets" requires y'):
        _fair(on_targets, targets=None)
    _fair(on_targets, targets=10 * Y)
    # The maps are those of a predictor that returns the targets.
    direct = _fair(comparator(_First(), random_state=0), 10 * Y[:, None], None)
    scores = inner.predict(X)[:, None]
    assert_array_equal(
        on_targets.predict(X, sensitive_features=GROUPS),
        direct.predict(scores, sensitive_features=GROUPS),
    )


def test_withheld_groups_are_predicted(comparator):
    model = _fair(comparator(LinearRegression(), random_state=0))
    guessed = model.group_predictor_.predict(X)
    assert 0.8 < (guessed == GROUPS).mean() < 1
    assert_array_equal(model.predict(X), model.predict(X, sensitive_features=guessed))
    # Logistic regression does not depend on the units of the features.
    rows = X * [1e6, 1, 1e-6]
    scaled = _fair(comparator(LinearRegression()), rows)
    assert_array_equal(scaled.group_predictor_.predict(rows), guessed)


def test_group_predictor(comparator):
    classifier = LogisticRegression(C=1e-9)
    model = _fair(comparator(LinearRegression(), group_predictor=classifier))
    assert model.group_predictor_.C == 1e-9
    assert not hasattr(classifier, "coef_")
    fitted = LogisticRegression().fit(X, GROUPS)
    model = comparator(LinearRegression(), group_predictor=fitted)
    assert _fair(model).group_predictor_ is fitted
    stranger = LogisticRegression().fit(X, np.where(GROUPS == "a", "a", "c"))
    model = _fair(comparator(LinearRegression(), group_predictor=stranger))
    message = r"group_predictor_ predicts 1 .* did not see: 'c'\. It saw"
    with pytest.raises(ValueError, match=message):
        model.predict(X)


def test_rows_logistic_regression_cannot_read(comparator):
    class Length(_First):
        def predict(self, X):
            return np.array([len(text) for text in X[:, 0]])

    rows = np.array([["x" * int(abs(10 * v))] for v in X[:, 0]], dtype=object)
    with pytest.raises(ValueError, match="or group_predictor=False if predict"):
        _fair(comparator(Length()), rows, None)
    model = _fair(comparator(Length(), group_predictor=False), rows, None)
    assert model.group_predictor_ is None
    assert np.isfinite(model.predict(rows, sensitive_features=GROUPS)).all()
    with pytest.raises(ValueError, match="pass sensitive_features"):
        model.predict(rows)


def test_sparse_rows_and_data_frames(comparator):
    model = _fair(comparator(LinearRegression(), random_state=0))
    expected = model.predict(X, sensitive_features=GROUPS)
    residual = ((Y - expected) ** 2).sum() / ((Y - Y.mean()) ** 2).sum()
    score = model.score(X, Y, sensitive_features=GROUPS)
    assert score == pytest.approx(1 - residual)
    for rows in (sparse.csr_array(X), pd.DataFrame(X, columns=["u", "v", "w"])):
        _fair(model, rows, groups=pd.Series(GROUPS))
        moved = model.predict(rows, sensitive_features=GROUPS)
        assert_allclose(moved, expected, rtol=1e-6)
        assert model.predict(rows).shape == (200,)
    assert_array_equal(model.feature_names_in_, ["u", "v", "w"])


def test_bad_groups_and_rows_in_parts(comparator):
    model = comparator(LinearRegression())
    parts = pytest.importorskip("dask.array").from_array(X, (100, 3))
    with pytest.raises(ValueError, match=r"memory only.*ExplainableSVDRegressor"):
        _fair(model, parts)
    _fair(model)
    for groups, message in [
        (["z"] * 200, r"sensitive_features has 1 .*'z'\. It saw 'a', 'b'"),
        (GROUPS[:-1], "one group per sample"),
        ([None] * 200, "missing value"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.predict(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="memory only"):
        model.predict(parts, sensitive_features=GROUPS)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda X: X, r"one number a row, .* \(200, 3\)"),
        (lambda X: np.ones(3), r"one number a row, .* \(3,\).*200 rows"),
        (lambda X: X[:, 0] * np.where(X[:, 0] > 0, 1, np.nan), "NaN or infinity"),
        (lambda X: np.full(len(X), -1e160), r"above 1e\+150.*squares overflow"),
    ],
)
def test_bad_predictions(comparator, predict, message):
    inner = _First()
    inner.predict = predict
    with pytest.raises(ValueError, match=message):
        _fair(comparator(inner, prefit=True), targets=None)


def _fitted(comparator, scores, groups, **options):
    options = {"random_state": 0, "group_predictor": False, **options}
    model = comparator(_First(), **options)
    return model.fit(scores[:, None], sensitive_features=groups)


_map = partial(_fitted, DiscretizedTransportRegressor)
_barycenter = partial(_fitted, WassersteinBarycenterRegressor, jitter=0)


def _outputs(fit, scores, groups, **options):
    model = fit(scores, groups, **options)
    return model.predict(scores[:, None], sensitive_features=groups)


_to_barycenter = partial(_outputs, _barycenter)


def _rows(m=300, n_groups=3, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(n_groups, size=m)
    groups[:n_groups] = np.arange(n_groups)
    return rng.standard_normal(m) * (1 + groups) + 2 * groups, groups


def _distance(outputs, groups):
    parts = [outputs[groups == g] for g in np.unique(groups)]
    return max(ks_2samp(a, b, method="asymp").statistic for a in parts for b in parts)


def test_nondecreasing_and_constant_beyond_the_ends():
    scores, groups = _rows()
    model = _barycenter(scores, groups)
    grid = np.linspace(scores.min() - 5, scores.max() + 5, 2001)
    for g in range(3):
        moved = model.predict(grid[:, None], sensitive_features=np.full(2001, g))
        assert (np.diff(moved) >= -1e-12).all()
        # Up to the level of an end, not beyond.
        members = np.sort(scores[groups == g])
        ends = model.predict(members[[0, -1], None], sensitive_features=[g, g])
        assert_allclose(moved[[0, -1]], ends)


def test_known_answers_of_the_barycenter():
    # Barycentre 5 to 16; a quarter of the way in both.
    scores, groups = np.array([0.0, 2.0, 10.0, 30.0]), np.array([0, 0, 1, 1])
    model = _barycenter(scores, groups)
    moved = model.predict(np.array([[0.5], [15.0]]), sensitive_features=[0, 1])
    assert_allclose(moved, [7.75, 7.75])
    # Ties without jitter share the middle rank.
    scores = np.array([1.0, 1.0, 1.0, 5.0, 6.0, 7.0])
    moved = _to_barycenter(scores, np.array([0, 0, 0, 1, 1, 1]))
    assert_allclose(moved, [3.5, 3.5, 3.5, 3.0, 3.5, 4.0], rtol=1e-12)
    # Two point masses: the barycentre is the mean of all.
    masses = np.array([0.0] * 6 + [4.0] * 2)
    assert_allclose(_to_barycenter(masses, masses > 0), 1.0)


def test_groups_agree_after_the_barycenter():
    scores, groups = _rows(600, n_groups=4)
    assert _distance(scores, groups) > 0.5
    moved = _to_barycenter(scores, groups)
    assert _distance(np.round(moved, 9), groups) <= 1.01 / np.bincount(groups).min()
    # Jitter spreads ties over their ranks.
    scores = np.array([1.0] * 400 + list(np.linspace(5, 7, 400)))
    groups = np.repeat([0, 1], 400)
    assert _distance(_to_barycenter(scores, groups), groups) > 0.4
    model = _barycenter(scores, groups, jitter=1e-5, random_state=3)
    moved = model.predict(scores[:, None], sensitive_features=groups)
    assert _distance(np.round(moved, 9), groups) <= 0.01


@pytest.mark.parametrize(
    ("fit", "options"),
    [(_barycenter, {"jitter": 0.1}), (_map, {"assignment": "random"})],
)
def test_same_seed_same_outputs(fit, options):
    scores, groups = _rows(n_groups=2)
    first, again, other = (
        _outputs(fit, scores, groups, random_state=seed, **options)
        for seed in (7, 7, 8)
    )
    assert_array_equal(first, again)
    assert (first != other).any()
    model = fit(scores, groups, random_state=np.random.RandomState(0), **options)
    draws = [model.predict(scores[:, None], sensitive_features=groups) for _ in "123"]
    assert (draws[0] != draws[1]).any()


@pytest.mark.parametrize(
    ("fit", "options", "slopes"),
    [
        (_barycenter, {}, (3.0, -0.5)),
        # A power of two, so that no score changes its bin by rounding.
        (_map, {"assignment": "ordered"}, (4.0,)),
        (_map, {"assignment": "mean"}, (4.0,)),
    ],
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6), n_groups=st.integers(2, 4))
def test_invariances(fit, options, slopes, seed, n_groups):
    scores, groups = _rows(25, n_groups, seed)
    moved = partial(_outputs, fit, **options)
    expected = moved(scores, groups)
    close = {"rtol": 0, "atol": 1e-6 if fit is _map else 1e-11}
    order = np.random.default_rng(seed).permutation(25)
    assert_allclose(moved(scores[order], groups[order]), expected[order])
    names = np.array(["q", "c", "x", "a"])[groups]
    assert_allclose(moved(scores, names), expected, **close)
    for slope in slopes:
        assert_allclose(moved(slope * scores, groups), slope * expected, **close)
    for g in range(n_groups):
        ranks = scores[groups == g].argsort(kind="stable")
        assert (np.diff(expected[groups == g][ranks]) >= -1e-9).all()


def _largest_ks(moved):
    sums = np.cumsum(moved, axis=1)
    return np.abs(sums[:, None] - sums).max()


def _coupling_cost(source, target):
    """Cost of the coupling of histograms that keeps the order, in squares of bins."""
    sums = np.cumsum([source, target], axis=1)
    levels = np.unique(np.append(sums.clip(0, 1), [0.0, 1.0]))
    middle = (levels[1:] + levels[:-1]) / 2
    bins = [np.searchsorted(row[:-1], middle) for row in sums]
    return np.diff(levels) @ (bins[0] - bins[1]) ** 2


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_groups=st.integers(2, 4),
    n_bins=st.integers(1, 9),
    tolerance=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
)
def test_tolerance_is_kept_at_the_cost_it_states(seed, n_groups, n_bins, tolerance):
    scores, groups = _rows(60, n_groups, seed)
    model = _map(scores, groups, n_bins=n_bins, tolerance=tolerance)
    distributions, moved = model.distributions_, model.moved_distributions_
    assert (moved >= 0).all()
    assert_allclose(moved.sum(axis=1), 1.0)
    assert _largest_ks(moved) <= tolerance + 1e-7
    pairs = zip(distributions, moved, strict=True)
    cost = model.group_shares_ @ [_coupling_cost(*pair) for pair in pairs]
    width = np.ptp(scores) / n_bins
    assert model.transport_cost_ == pytest.approx(cost * width**2, abs=1e-5 * width**2)
    if _largest_ks(distributions) <= tolerance:
        assert_allclose(moved, distributions, atol=1e-6)
    if tolerance == 0.0:
        assert_array_equal(moved, [model.barycenter_] * n_groups)


def test_known_answers():
    # All of one group in the first of five bins, all of the other in the last.
    fit = partial(_map, n_bins=5, bounds=(0, 5))
    model = fit(np.array([0.5, 4.5]), np.array([0, 1]))
    assert_allclose(model.barycenter_, [0, 0, 1, 0, 0], atol=1e-9)
    assert model.transport_cost_ == pytest.approx(4.0)
    model = fit(np.array([0.5, 0.5, 0.5, 4.5]), np.array([0, 0, 0, 1]))
    assert_allclose(model.barycenter_, [0, 1, 0, 0, 0], atol=1e-9)


def test_given_bounds():
    scores, groups = _rows(n_groups=2)
    model = _map(scores, groups, bounds=(-1, 3), n_bins=4)
    assert_allclose(model.bin_edges_, [-1, 0, 1, 2, 3])
    assert model.distributions_[0, 0] == (scores[groups == 0] < 0).mean()
    for bounds in [(3, -1), (0, 0), (0, np.inf), (0, 1, 2), ("a", "b"), ((0, 1), 2)]:
        with pytest.raises(ValueError, match="bounds must be two finite numbers"):
            _map(scores, groups, bounds=bounds)
