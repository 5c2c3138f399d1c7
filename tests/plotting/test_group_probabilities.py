"""Displays of groups that are known as probabilities."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator

from scalefair import metrics, plotting
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.streaming import GroupMoments

from .conftest import GroupAware

RNG = np.random.default_rng(0)
N, NAMES, INTERVAL = 150, np.array(["a", "b", "c"]), (0.1, 0.6)
CODES = np.arange(N) % 3
SCORES = np.round(RNG.standard_normal(N) + 0.4 * CODES, 1)
Y, LABELS = RNG.integers(0, 2, N), RNG.integers(0, 4, N)
WEIGHTS = RNG.integers(0, 4, N)
P = pd.DataFrame(RNG.dirichlet([1, 2, 0.5], N), columns=NAMES)


class Model(BaseEstimator):
    """Fitted model whose outputs are the first column."""

    kappa = 0.1

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X, *, sensitive_features=None):
        return X[:, 0] + (0.0 if sensitive_features is None else 9.0)

    def predict(self, X):
        return X[:, 0]


class Classifier(Model):
    def predict(self, X):
        return (X[:, 0] > 0).astype(int)


class OfGroups(GroupAware, Model): ...


clusters = plotting.ClusterCompositionDisplay.from_predictions
densities = plotting.ScoreDensityDisplay.from_predictions
rates = plotting.GroupRateDisplay.from_predictions
outputs = plotting.OutputDensityDisplay.from_predictions
points = plotting.FairnessAccuracyDisplay.from_estimator
front = plotting.ParetoFrontDisplay.from_estimator
X, RANKED = SCORES[:, None], {"interval": INTERVAL, "bins": 8}
# What is drawn, of which rows and options, and the values that are shown.
DRAWN = {
    "clusters": (clusters, [LABELS], {}, "proportions population average_balance"),
    "densities": (densities, [SCORES], RANKED, "densities score_ranges gap"),
    "kernels": (densities, [SCORES], {"kind": "kde"}, "densities"),
    "labels": (densities, [SCORES], {"given": "label", "y_true": Y}, "densities gap"),
    "rates": (rates, [SCORES], {"pair": ("a", "c")}, "gaps rates"),
    "outputs": (outputs, [SCORES], {"kind": "histogram"}, "densities distances"),
    "errors": (points, [Model(), X, SCORES + 1], {}, "error unfairness"),
    "front": (front, [Classifier(), X, Y], {}, "means"),
}
every_figure = pytest.mark.parametrize("name", DRAWN)
weighted = pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5], ids=["1", "w"])


def draw(name, rows=slice(None), **options):
    """Values that a display shows."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    function, arrays, settings, attributes = DRAWN[name]
    settings = {k: v[rows] if k == "y_true" else v for k, v in settings.items()}
    arrays = [array[rows] if hasattr(array, "shape") else array for array in arrays]
    display = function(*arrays, ax=figure.subplots(), **settings, **options)
    shown = [getattr(display, attribute) for attribute in attributes.split()]
    return [x for v in shown for x in (v.values() if isinstance(v, dict) else [v])]


def same(values, expected):
    for value, other in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-11, atol=1e-14)


@every_figure
def test_weights_count_rows_and_rows_of_no_group_do_not(name):
    repeated = np.repeat(np.arange(N), WEIGHTS)
    weighted = draw(name, group_probabilities=P, sample_weight=WEIGHTS)
    same(draw(name, group_probabilities=P, sample_weight=7 * WEIGHTS), weighted)
    if name != "kernels":  # their width depends on the effective number of rows
        same(draw(name, repeated, group_probabilities=P.iloc[repeated]), weighted)
    if name in ("errors", "front"):
        return  # such rows stay in the error
    table, nothing = P.copy(), np.arange(N) % 5 == 0
    table[nothing] = np.nan
    expected = draw(name, ~nothing, group_probabilities=P[~nothing])
    same(draw(name, group_probabilities=table), expected)


def test_what_is_shown_is_expected():
    options = {"group_probabilities": P}
    shares, population, balance = draw("clusters", **options)
    np.testing.assert_allclose(shares, metrics.group_proportions(LABELS, **options))
    np.testing.assert_allclose(population, P.mean())
    assert balance == pytest.approx(metrics.balance_score(LABELS, **options))
    unknown = P[LABELS != 3].reindex(P.index)  # nothing is known of a cluster
    assert len(draw("clusters", group_probabilities=unknown)[0]) == 3
    densities, ranges, gap = draw("densities", **options)
    edges = np.histogram_bin_edges(SCORES, 8)
    for density, name in zip(densities, NAMES, strict=True):
        expected, _ = np.histogram(SCORES, edges, weights=P[name], density=True)
        np.testing.assert_allclose(density, expected)
    for (low, high), name in zip(ranges, NAMES, strict=True):
        share = P[name] / P[name].sum()
        above, from_there = np.greater(SCORES, high), np.greater_equal(SCORES, high)
        assert share[above].sum() <= 0.1 < share[from_there].sum()
        above, from_there = np.greater(SCORES, low), np.greater_equal(SCORES, low)
        assert share[above].sum() < 0.6 <= share[from_there].sum()
    assert gap == metrics.partial_parity_gap(SCORES, **options, interval=INTERVAL)
    gap = metrics.partial_equalized_odds_gap(Y, SCORES, **options)
    assert draw("labels", **options)[-1] == gap
    distance = metrics.statistical_parity_ks(SCORES, **options)
    assert draw("outputs", **options)[-1] == distance
    halves = {"group_probabilities": pd.DataFrame({"a": P["a"], "c": 1 - P["a"]})}
    gap, rates = draw("rates", **halves)
    assert gap == pytest.approx(metrics.partial_parity_gap(SCORES, **halves))
    np.testing.assert_allclose(rates[[0, -1]], [[0, 0], [1, 1]])


@pytest.mark.parametrize(
    ("display", "attribute"),
    [
        (plotting.GroupRateDisplay, "gaps"),
        (plotting.ScoreDensityDisplay, "gap"),
        (plotting.OutputDensityDisplay, "distances"),
        (plotting.FairnessAccuracyDisplay, "unfairness"),
        (plotting.ParetoFrontDisplay, "means"),
    ],
)
def test_models_that_need_groups_are_refused(ax, display, attribute):
    table = pd.DataFrame({"a": P["a"], "c": 1 - P["a"]})
    options, X = {"group_probabilities": table, "ax": ax}, SCORES[:, None]
    is_of_labels = attribute in ("unfairness", "means")
    arrays = [X, Y] if is_of_labels else [X]
    model = Classifier() if display is plotting.ParetoFrontDisplay else Model()
    shown = getattr(display.from_estimator(model, *arrays, **options), attribute)
    assert shown is not None  # groups that a model can do without are not missed
    with pytest.raises(ValueError, match="of OfGroups takes the group of each row"):
        display.from_estimator(OfGroups(), *arrays, **options)


def test_losses_of_principal_components(axes):
    X = RNG.standard_normal((N, 4))
    options = {"n_components": [1, 2], "axes": axes, "sample_weight": WEIGHTS}
    options["methods"] = {"PCA": GroupPCA()}
    soft = plotting.GroupLossDisplay.from_data(X, group_probabilities=P, **options)
    C = GroupMoments.from_data(X, group_probabilities=P, sample_weight=WEIGHTS)
    fit = GroupPCA(2).from_moments(C, n_components=2)
    np.testing.assert_allclose(soft.losses["PCA"][1], fit.group_losses_)


def test_range_of_two_expected_covariances(ax):
    X = RNG.standard_normal((N, 4))
    table = pd.DataFrame({"a": P["a"], "c": 1 - P["a"]})
    model = FairPCA(2).fit(X, sensitive_features=CODES == 0)
    draw = plotting.JointNumericalRangeDisplay.from_estimator
    options = {"group_probabilities": table, "sample_weight": WEIGHTS}
    display = draw(model, X, **options, n_angles=8, ax=ax)
    C = GroupMoments.from_data(X, **options).covariances()
    expected = [np.trace(model.components_ @ c @ model.components_.T) for c in C]
    np.testing.assert_allclose(display.fair_point, expected)
