"""Promises of every display: names as they are, legends, axes, errors."""

import builtins
import inspect

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair.cluster import FairSpectralClustering
from scalefair.decomposition import FairPCA
from scalefair.linear_model import PartiallyFairClassifierCV
from scalefair.plotting import (
    ClusterCompositionDisplay,
    FairnessAccuracyDisplay,
    GroupLossDisplay,
    GroupRateDisplay,
    JointNumericalRangeDisplay,
    OutputDensityDisplay,
    ParetoFrontDisplay,
    ScoreDensityDisplay,
)
from scalefair.plotting._draw import literal

from .conftest import AwareClassifier, AwareRegressor

RNG = np.random.default_rng(0)
LONG_NAMES = [
    "has completed graduate school",
    "income <$50k and >$50k",
    "_prefers not to say",
]
CODES = np.arange(300) % 3
SCORES = RNG.standard_normal(300) + 0.3 * CODES


def new_axes(columns=1, **options):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    return figure.subplots(1, columns, **options)


def groups_named(names):
    return np.array(names)[CODES % len(names)]


# Parts of each display that fit together.
PARTS = {
    ClusterCompositionDisplay: {
        "proportions": [[0.5, 0.5], [0.2, 0.8]],
        "population": [0.3, 0.7],
        "clusters": [0, 1],
        "groups": ["a", "b"],
    },
    FairnessAccuracyDisplay: {"error": {"a": [1, 2]}, "unfairness": {"a": [1, 2]}},
    GroupLossDisplay: {
        "n_components": [1, 2, 4],
        "losses": {"PCA": np.ones((3, 2)), "fair": np.ones((3, 2))},
        "total_errors": {"PCA": [4, 2, 0], "fair": [5, 2, 0]},
        "groups": ["a", "b"],
    },
    GroupRateDisplay: {"rates": {"a": [[0, 0], [1, 1]]}, "groups": ["a", "b"]},
    JointNumericalRangeDisplay: {
        "boundary": [[0.0, 1.0], [1.0, 0.0]],
        "best": [1.0, 1.0],
        "fair_point": [0.5, 0.5],
    },
    OutputDensityDisplay: {
        "grid": [0, 1, 2, 3],
        "groups": ["a", "b"],
        "densities": np.ones((1, 2, 3)),
        "distances": [0.1],
    },
    ParetoFrontDisplay: {"accuracy": {"a": [1, 2]}, "fairness": {"a": [1, 2]}},
    ScoreDensityDisplay: {
        "grid": [0, 1, 2, 3],
        "groups": ["a", "b"],
        "densities": np.ones((2, 3)),
        "score_ranges": [[0, 1], [0, 1]],
        "gap": 0.1,
    },
}
every_display = pytest.mark.parametrize("display_class", PARTS)


def test_names_are_shown_as_they_are():
    display = ScoreDensityDisplay.from_predictions(
        SCORES, sensitive_features=groups_named(LONG_NAMES), ax=new_axes()
    )
    entries = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert len(entries) == len(LONG_NAMES)  # the one with an underscore too
    assert r"income <\$50k and >\$50k" in entries
    assert literal("a\n b") == "a b"
    assert literal(r"5 \$") == r"5 \$"  # escaped already
    assert literal(3) == "3"


@pytest.mark.parametrize(
    ("draw", "arguments"),
    [
        (GroupRateDisplay.from_estimator, (LogisticRegression(), [[0]])),
        (OutputDensityDisplay.from_estimator, ({"a": LinearRegression()}, [[0]])),
        (FairnessAccuracyDisplay.from_estimator, (LinearRegression(), [[0]], [0])),
        (JointNumericalRangeDisplay.from_estimator, (FairPCA(), [[0]])),
        (ClusterCompositionDisplay.from_estimator, (FairSpectralClustering(),)),
        (GroupLossDisplay.from_estimator, (FairPCA(),)),
        (ParetoFrontDisplay.from_estimator, (PartiallyFairClassifierCV([0.1]),)),
    ],
)
def test_estimators_are_fitted(draw, arguments):
    takes_groups = "sensitive_features" in inspect.signature(draw).parameters
    with pytest.raises(NotFittedError):
        draw(*arguments, **({"sensitive_features": [0]} if takes_groups else {}))


@pytest.mark.parametrize(
    ("display_class", "model", "method", "attribute"),
    [
        (GroupRateDisplay, AwareClassifier(), "decision_function", "rates"),
        (ScoreDensityDisplay, AwareClassifier(), "decision_function", "densities"),
        (OutputDensityDisplay, AwareRegressor(), "predict", "densities"),
    ],
)
@pytest.mark.parametrize("name", [None, "mine"])
def test_from_estimator_draws_the_outputs(
    display_class, model, method, attribute, name
):
    X, groups = SCORES[:, None], {"sensitive_features": groups_named(["f", "m"])}
    model.fit(X, SCORES > 0)
    outputs = getattr(model, method)(X, **groups)
    display = display_class.from_estimator(model, X, name=name, ax=new_axes(), **groups)
    name = name or type(model).__name__
    assert name in display.figure_.axes[0].get_title()
    options = groups | {"name": name, "ax": new_axes()}
    if display_class is not OutputDensityDisplay:
        options["interval"] = display.interval
        assert display.interval == model.interval
    expected = display_class.from_predictions(outputs, **options)
    np.testing.assert_equal(getattr(display, attribute), getattr(expected, attribute))


@pytest.mark.parametrize(("shape", "labels"), [((1, 3), [1, 0, 0]), ((2, 1), [1, 1])])
def test_a_shared_axis_is_labelled_once(figure, shape, labels):
    axes = figure.subplots(*shape, sharey=True)
    for ax in axes:
        display = ClusterCompositionDisplay(**PARTS[ClusterCompositionDisplay])
        display.plot(ax, legend=False)
    assert [bool(ax.get_ylabel()) for ax in axes] == labels


@every_display
def test_plots_again_with_or_without_a_legend(display_class, pyplot):
    parameters = dict(pyplot.rcParams)
    display = display_class(**PARTS[display_class])
    n_columns = 2 if display_class is GroupLossDisplay else 1
    assert display.plot(new_axes(n_columns)) is display
    assert pyplot.get_fignums() == []
    for ax in display.figure_.axes:
        assert any(c.isdigit() for c in ax.get_title())
        assert ax.get_xlabel()
    assert display.figure_.axes[-1].get_legend() is not None
    display.plot(legend=False)
    assert display.figure_ is pyplot.gcf()
    assert all(ax.get_legend() is None for ax in display.figure_.axes)
    assert len(pyplot.get_fignums()) == 1
    assert dict(pyplot.rcParams) == parameters


@every_display
def test_missing_matplotlib_is_named(display_class, monkeypatch):
    display, real_import = display_class(**PARTS[display_class]), builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "scalefair\[plot\]"'):
        display.plot()


def test_figures_within_figures_and_without_layout():
    from matplotlib.figure import Figure

    first, second = Figure(figsize=(12, 4), layout="constrained").subfigures(1, 2)
    plain, loose = Figure(figsize=(12, 4)), Figure(layout="tight")
    inset = plain.add_axes((0.1, 0.1, 0.3, 0.3))
    for ax in (first.subplots(), second.subplots(), loose.subplots(), inset):
        display = ScoreDensityDisplay(**PARTS[ScoreDensityDisplay]).plot(ax)
        assert display.figure_ is ax.figure
        assert ax.get_title().startswith("gap ")
    for figure in (first.figure, plain, loose):
        figure.draw_without_rendering()


BAD_PARTS = {
    ClusterCompositionDisplay: [
        ({"groups": ["a"]}, "two groups or more .* got 1 groups"),
        ({"clusters": []}, "got 2 groups and 0 clusters"),
        ({"population": [1.0]}, r"population must have shape \(2,\), got \(1,\)"),
        ({"proportions": [[0.5, 0.5]]}, r"proportions must have shape \(2, 2\)"),
        ({"proportions": [[2, -1], [0.2, 0.8]]}, "proportions must be shares .* -1 to"),
        ({"proportions": [[0, 0], [0.2, 0.8]]}, "proportions must be shares .* sum 0"),
        ({"population": [0.3, 0.3]}, "population must be shares of groups"),
    ],
    FairnessAccuracyDisplay: [
        ({"error": {}, "unfairness": {}}, "same methods"),
        ({"error": {"a": [1]}}, "in shape"),
        ({"point_labels": {"a": [1, 2, 3]}}, "must have 2 entries"),
    ],
    GroupLossDisplay: [
        ({"losses": {}, "total_errors": {}}, "same methods"),
        ({"groups": ["a", "b", "c"]}, r"losses of 'PCA' must have shape \(3, 3\)"),
        (
            {"total_errors": {"PCA": [4, 2, np.nan], "fair": [5, 2, 0]}},
            "total_errors of 'PCA' has a value .* infinite, the first at position 2",
        ),
    ],
    GroupRateDisplay: [
        ({"rates": {}}, "nothing to draw"),
        ({"rates": {"a": [[0, 0, 0]]}}, r"rates of 'a' .* shape \(n_points, 2\)"),
        ({"rates": {"a": [[0, 0], [2, 1]]}}, "between 0 and 1"),
        ({"groups": ["a", "b", "c"]}, "two names"),
        ({"interval": (0.3, 0.05)}, "0 <= alpha < beta <= 1"),
        ({"kappa": 1.5}, "kappa must be between 0 and 1"),
    ],
    JointNumericalRangeDisplay: [
        ({"boundary": np.zeros((4, 3))}, r"boundary must have shape \(k, 2\)"),
        ({"best": [1.0]}, r"best must have shape \(2,\), got \(1,\)"),
        ({"plain_point": [1.0, np.inf]}, "plain_point has a value that is NaN or"),
        ({"groups": ["a", "b", "c"]}, "groups must be two names, got 3"),
    ],
    OutputDensityDisplay: [
        ({"names": ["x", "y"]}, r"have shape \(2, 2, 4\) or \(2, 2, 3\), got"),
        ({"distances": [0.1, 0.2]}, r"must have shape \(1,\)"),
    ],
    ParetoFrontDisplay: [
        ({"fairness": {"b": [1, 2]}}, "same methods"),
        ({"accuracy": {"a": [[1], [np.nan]]}}, r"accuracy of 'a' .*position \(1, 0\)"),
        ({"accuracy": {"a": []}, "fairness": {"a": []}}, r"\(n_points, n_repeats\) or"),
        ({"confidence": 95}, "between 0 and 1, got 95"),
        ({"point_labels": {"x": [1, 2]}}, "unknown method, 'x'"),
    ],
    ScoreDensityDisplay: [
        ({"densities": [1, 1, 1]}, r"densities must have shape \(2, 4\) or \(2, 3\)"),
        ({"score_ranges": [[0, 1]]}, r"have shape \(2, 2\)"),
    ],
}


@pytest.mark.parametrize(
    ("display_class", "change", "message"),
    [(display, *case) for display, cases in BAD_PARTS.items() for case in cases],
)
def test_parts_must_fit_together(display_class, change, message):
    with pytest.raises(ValueError, match=message):
        display_class(**{**PARTS[display_class], **change})
