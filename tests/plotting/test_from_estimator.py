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
