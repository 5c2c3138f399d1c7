"""What the comparators share: estimators, groups known or withheld, input."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_score

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


def _table(m=200, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(m) < 0.4, "a", "b")
    X = rng.standard_normal((m, 3)) + 2.0 * (groups == "a")[:, None] * [1, 0, 1]
    return X, X @ [1.0, 2.0, 0.5] + rng.standard_normal(m), groups


def test_fitted_estimator_is_used_as_it_is(comparator):
    X, y, groups = _table()
    inner = LinearRegression().fit(X, y)
    before = inner.coef_.copy()
    model = comparator(inner, random_state=0).fit(X, sensitive_features=groups)
    assert model.estimator_ is inner
    np.testing.assert_array_equal(inner.coef_, before)
    # Other targets change nothing unless the estimator is fitted anew.
    again = comparator(inner, random_state=0).fit(X, -y, sensitive_features=groups)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    anew = comparator(inner, prefit=False).fit(X, -y, sensitive_features=groups)
    np.testing.assert_allclose(anew.estimator_.coef_, -before)
    np.testing.assert_array_equal(inner.coef_, before)


def test_unfitted_estimator_is_cloned_and_fitted(comparator):
    X, y, groups = _table()
    inner = LinearRegression()
    model = comparator(inner).fit(X, y, sensitive_features=groups)
    assert not hasattr(inner, "coef_")
    assert hasattr(model.estimator_, "coef_")
    with pytest.raises(ValueError, match=r"y is None\. Pass y, or an estimator"):
        comparator(inner).fit(X, sensitive_features=groups)
    with pytest.raises(NotFittedError, match="prefit=True, but this Linear"):
        comparator(inner, prefit=True).fit(X, y, sensitive_features=groups)


def test_frozen_estimators_stay_fitted_in_clones(comparator):
    X, y, groups = _table()
    model = comparator(FrozenEstimator(LinearRegression().fit(X, y)))
    assert clone(model).fit(X, sensitive_features=groups).predict(X).shape == (200,)


def test_an_object_that_only_predicts(comparator):
    class Predicts:
        def predict(self, X):
            return X[:, :1]  # a column is one number a row

    class Fits(Predicts):
        def fit(self, X, y):
            self.mean_ = np.mean(y)
            return self

    X, y, groups = _table()
    for inner in (Predicts(), Fits().fit(X, y)):
        model = comparator(inner).fit(X, sensitive_features=groups)
        assert model.predict(X, sensitive_features=groups).shape == (200,)
    with pytest.raises(NotFittedError, match="prefit=True, but this Fits"):
        comparator(Fits(), prefit=True).fit(X, y, sensitive_features=groups)


def test_fit_on_targets(comparator):
    X, y, groups = _table()
    inner = LinearRegression().fit(X, y)
    on_targets = comparator(inner, fit_on="targets", random_state=0)
    with pytest.raises(ValueError, match=r'fit_on="targets" requires y'):
        on_targets.fit(X, sensitive_features=groups)
    on_targets.fit(X, 10 * y, sensitive_features=groups)
    # The maps are those of a predictor that returns the targets.
    direct = comparator(_First(), random_state=0)
    direct.fit(10 * y[:, None], sensitive_features=groups)
    scores = inner.predict(X)[:, None]
    np.testing.assert_array_equal(
        on_targets.predict(X, sensitive_features=groups),
        direct.predict(scores, sensitive_features=groups),
    )
    assert on_targets.estimator_ is inner


def test_withheld_groups_are_predicted(comparator):
    X, y, groups = _table()
    model = comparator(LinearRegression(), random_state=0)
    model.fit(X, y, sensitive_features=groups)
    guessed = model.group_predictor_.predict(X)
    assert 0.8 < (guessed == groups).mean() < 1
    np.testing.assert_array_equal(
        model.predict(X), model.predict(X, sensitive_features=guessed)
    )
    # Logistic regression does not depend on the units of the features.
    scaled = comparator(LinearRegression()).fit(
        X * [1e6, 1, 1e-6], y, sensitive_features=groups
    )
    np.testing.assert_array_equal(
        scaled.group_predictor_.predict(X * [1e6, 1, 1e-6]), guessed
    )


def test_a_classifier_of_ones_own(comparator):
    X, y, groups = _table()
    own = LogisticRegression(C=1e-9)
    model = comparator(LinearRegression(), group_predictor=own)
    model.fit(X, y, sensitive_features=groups)
    assert model.group_predictor_.C == 1e-9
    assert not hasattr(own, "coef_")
    fitted = LogisticRegression().fit(X, groups)
    model = comparator(LinearRegression(), group_predictor=fitted)
    assert model.fit(X, y, sensitive_features=groups).group_predictor_ is fitted
    stranger = LogisticRegression().fit(X, np.where(groups == "a", "a", "c"))
    model = comparator(LinearRegression(), group_predictor=stranger)
    message = r"group_predictor_ predicts 1 .* did not see: 'c'\. It saw"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=groups).predict(X)


def test_rows_logistic_regression_cannot_read(comparator):
    class Length(_First):
        def predict(self, X):
            return np.array([len(text) for text in X[:, 0]])

    X, _, groups = _table()
    X = np.array([["x" * int(abs(10 * v))] for v in X[:, 0]], dtype=object)
    with pytest.raises(ValueError, match="or group_predictor=False if predict"):
        comparator(Length()).fit(X, sensitive_features=groups)
    model = comparator(Length(), group_predictor=False)
    model.fit(X, sensitive_features=groups)
    assert model.group_predictor_ is None
    assert np.isfinite(model.predict(X, sensitive_features=groups)).all()
    with pytest.raises(ValueError, match="pass sensitive_features"):
        model.predict(X)


def test_sparse_rows_and_data_frames(comparator):
    X, y, groups = _table()
    model = comparator(LinearRegression(), random_state=0)
    model.fit(X, y, sensitive_features=groups)
    expected = model.predict(X, sensitive_features=groups)
    for rows in (sparse.csr_array(X), pd.DataFrame(X, columns=["u", "v", "w"])):
        model.fit(rows, y, sensitive_features=pd.Series(groups))
        moved = model.predict(rows, sensitive_features=groups)
        np.testing.assert_allclose(moved, expected, rtol=1e-6)
        assert model.predict(rows).shape == (200,)
    np.testing.assert_array_equal(model.feature_names_in_, ["u", "v", "w"])


def test_bad_groups(comparator):
    X, y, groups = _table()
    model = comparator(LinearRegression())
    with pytest.raises(ValueError, match=r"only one group \('a'\)"):
        model.fit(X, y, sensitive_features=["a"] * 200)
    with pytest.raises(ValueError, match="one group per sample"):
        model.fit(X, y, sensitive_features=groups[:-1])
    model.fit(X, y, sensitive_features=groups)
    message = r"sensitive_features has 1 .*'z'\. It saw 'a', 'b'"
    with pytest.raises(ValueError, match=message):
        model.predict(X, sensitive_features=["z"] * 200)
    with pytest.raises(ValueError, match="one group per sample"):
        model.predict(X, sensitive_features=groups[:-1])
    with pytest.raises(ValueError, match="missing value"):
        model.predict(X, sensitive_features=[None] * 200)


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
    X, _, groups = _table()
    inner = _First()
    inner.predict = predict
    with pytest.raises(ValueError, match=message):
        comparator(inner, prefit=True).fit(X, sensitive_features=groups)


def test_score_and_metadata_routing(comparator):
    X, y, groups = _table()
    model = comparator(LinearRegression(), random_state=0)
    model.fit(X, y, sensitive_features=groups)
    moved = model.predict(X, sensitive_features=groups)
    expected = 1 - ((y - moved) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert model.score(X, y, sensitive_features=groups) == pytest.approx(expected)
    with config_context(enable_metadata_routing=True):
        model = model.set_fit_request(sensitive_features=True)
        model.set_score_request(sensitive_features=True)
        scores = cross_val_score(
            model, X, y, cv=2, params={"sensitive_features": groups}
        )
    assert scores.shape == (2,)
