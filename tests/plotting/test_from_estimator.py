"""Displays made from fitted estimators show what the long way shows."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error

from scalefair.datasets import make_biased_rows, make_group_gaussians
from scalefair.decomposition import FairPCA
from scalefair.linear_model import PartiallyFairClassifierCV
from scalefair.metrics import statistical_parity_ks
from scalefair.plotting import (
    FairnessAccuracyDisplay,
    GroupLossDisplay,
    ParetoFrontDisplay,
)

pytest.importorskip("matplotlib")


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 4))


def test_losses_of_a_fitted_fair_pca(figure):
    data = make_group_gaussians(400, 6, random_state=0)
    X, groups = data.data, data.sensitive_features
    pca = FairPCA(3, solver="gram", centering="group")
    pca.fit(X, sensitive_features=groups)
    axes = figure.subplots(1, 2)
    found = GroupLossDisplay.from_estimator(pca, axes=axes)
    expected = GroupLossDisplay.from_data(
        X,
        sensitive_features=groups,
        n_components=[1, 2, 3],
        centering="group",
        axes=axes,
    )
    assert list(found.n_components) == [1, 2, 3]
    assert list(found.axes_) == list(axes)
    for name in ("PCA", "FairPCA"):
        np.testing.assert_allclose(found.losses[name], expected.losses[name])
    np.testing.assert_allclose(found.losses["FairPCA"][2], pca.group_losses_)
    with pytest.raises(ValueError, match="n_components is empty"):
        GroupLossDisplay.from_estimator(pca, n_components=[], axes=axes)


def test_a_fair_pca_without_moments(figure):
    data = make_group_gaussians(100, 6, random_state=0)
    pca = FairPCA(2, solver="matrix_free")
    with pytest.raises(NotFittedError):
        GroupLossDisplay.from_estimator(pca)
    pca.fit(data.data, sensitive_features=data.sensitive_features)
    with pytest.raises(ValueError, match='solver="gram", or use from_data'):
        GroupLossDisplay.from_estimator(pca, axes=figure.subplots(1, 2))


def test_a_search_over_gaps(figure):
    data = make_biased_rows(400, 3, random_state=0)
    search = PartiallyFairClassifierCV([0.1, 0.4], cv=3, fairness_floor=0.0)
    with pytest.raises(NotFittedError):
        ParetoFrontDisplay.from_estimator(search)
    search.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    ax = figure.subplots()
    display = ParetoFrontDisplay.from_estimator(search, name="ours", ax=ax)
    found = search.cv_results_
    expected = [found["fairness"].mean(axis=1), found["accuracy"].mean(axis=1)]
    np.testing.assert_allclose(display.means["ours"].T, expected)
    assert display.ax_ is ax
    assert {"0.1", "0.4"} <= {text.get_text() for text in ax.texts}


def test_points_of_regressors(figure):
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 300)
    X = np.column_stack([rng.standard_normal(300), groups])
    y = X.sum(axis=1) + 0.1 * rng.standard_normal(300)
    blind = LinearRegression().fit(X * [1, 0], y)
    models = {"all": LinearRegression().fit(X, y), "blind": blind}
    ax = figure.subplots()
    display = FairnessAccuracyDisplay.from_estimator(
        models, X, y, sensitive_features=groups, ax=ax
    )
    for name, model in models.items():
        predicted = model.predict(X)
        expected = [
            statistical_parity_ks(predicted, sensitive_features=groups),
            mean_squared_error(y, predicted),
        ]
        np.testing.assert_allclose(display.means[name], [expected])
    assert display.ax_ is ax
    assert set(display.lines_) == set(models)
    single = FairnessAccuracyDisplay.from_estimator(
        models["all"], X, y, sensitive_features=groups, ax=ax
    )
    np.testing.assert_array_equal(
        single.means["LinearRegression"], display.means["all"]
    )
    with pytest.raises(NotFittedError):
        FairnessAccuracyDisplay.from_estimator(
            LinearRegression(), X, y, sensitive_features=groups, ax=ax
        )


class GroupAware(LinearRegression):
    def predict(self, X, *, sensitive_features):
        return super().predict(X) + 3 * np.asarray(sensitive_features)


def test_regressors_are_given_the_groups_if_they_take_them(figure):
    rng = np.random.default_rng(0)
    groups, X = np.arange(60) % 2, rng.standard_normal((60, 2))
    model = GroupAware().fit(X, X[:, 0])
    display = FairnessAccuracyDisplay.from_estimator(
        model, X, X[:, 0], sensitive_features=groups, ax=figure.subplots()
    )
    expected = mean_squared_error(X[:, 0], X[:, 0] + 3 * groups)
    np.testing.assert_allclose(display.means["GroupAware"][0, 1], expected)


def test_the_error_has_the_name_of_the_target(figure):
    y = pytest.importorskip("pandas").Series([1.0, 2.0, 3.0, 4.0], name="wage")
    ax = figure.subplots()
    FairnessAccuracyDisplay.from_predictions(
        y, y + 1, sensitive_features=[0, 0, 1, 1], ax=ax
    )
    assert ax.get_ylabel() == "mean squared error of wage"
