"""Promises of every display: names as they are, legends, axes, errors."""

import builtins
import inspect
from itertools import combinations

import numpy as np
import pandas
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
from scalefair.plotting._draw import legend as draw_legend
from scalefair.plotting._draw import literal

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


def two_attributes(names):
    ages = np.array(["under 30", "30 and over"])[CODES // 2 % 2]
    return pandas.DataFrame({"education": groups_named(names), "age": ages})


def composition(names, **options):
    options = {"sensitive_features": groups_named(names)} | options
    labels = RNG.integers(0, 6, 300)
    return ClusterCompositionDisplay.from_predictions(labels, ax=new_axes(), **options)


def composition_each(names):
    people = two_attributes(names)
    return composition(names, sensitive_features=people, attributes="each")


def outputs(names):
    return OutputDensityDisplay.from_predictions(
        {"before": SCORES, "with one layer changed": 0.5 * SCORES},
        sensitive_features=groups_named(names),
        kind="histogram",
        ax=new_axes(2, sharey=True),
    )


def scores(names):
    return ScoreDensityDisplay.from_predictions(
        SCORES, sensitive_features=groups_named(names), ax=new_axes()
    )


def rates(names, **options):
    options = {"sensitive_features": groups_named(names), "pair": names[:2]} | options
    models = {"logistic regression": SCORES, "partially fair": -SCORES}
    return GroupRateDisplay.from_predictions(models, ax=new_axes(), **options)


def rates_each(names):
    people, pair = two_attributes(names), {"education": names[:2]}
    return rates(names, sensitive_features=people, attributes="each", pair=pair)


def front(names):
    return ParetoFrontDisplay(
        {name: [0.8, 0.7, 0.6] for name in names},
        fairness={name: [0.5, 0.6, 0.7] for name in names},
        point_labels={name: [1, 2, 3] for name in names},
    ).plot(new_axes())


def trade_off(names):
    runs = RNG.random((4, 3))
    return FairnessAccuracyDisplay(
        dict.fromkeys(names, runs), unfairness=dict.fromkeys(names, runs[::-1])
    ).plot(new_axes())


def losses(names):
    values = RNG.random((4, len(names)))
    return GroupLossDisplay(
        [1, 2, 3, 4],
        losses={"PCA": values, "FairPCA": values},
        total_errors={"PCA": values[:, 0], "FairPCA": values[:, 1]},
        groups=names,
    ).plot(new_axes(2))


def joint_range(names):
    parts = RNG.standard_normal((2, 5, 5))
    return JointNumericalRangeDisplay.from_covariances(
        *(parts @ parts.transpose(0, 2, 1)),
        2,
        group_sizes=(1, 3),
        groups=names[:2],
        n_angles=40,
        ax=new_axes(),
    )


every_display = pytest.mark.parametrize(
    "make",
    [
        composition, composition_each, outputs, scores, rates,
        rates_each, front, trade_off, losses, joint_range,
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip


def test_texts_lie_in_the_figure_and_apart():
    figure = losses(LONG_NAMES).figure_
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # the layout settles
    boxes = []
    for ax in figure.axes:
        texts = [ax.title, ax.xaxis.label, ax.yaxis.label]
        texts += ax.get_legend().get_texts() if ax.get_legend() else []
        boxes += [text.get_window_extent() for text in texts]
    for box in boxes:
        assert (box.min >= figure.bbox.min - 1).all()
        assert (box.max <= figure.bbox.max + 1).all()
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_names_are_shown_as_they_are():
    display = scores(LONG_NAMES)
    entries = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert len(entries) == len(LONG_NAMES)  # the one with an underscore too
    assert r"income <\$50k and >\$50k" in entries
    assert literal("a\n b") == "a b"
    assert literal(r"5 \$") == r"5 \$"  # escaped already
    assert literal(3) == "3"


@pytest.mark.parametrize(
    "display", [GroupRateDisplay, OutputDensityDisplay, ScoreDensityDisplay]
)
def test_from_estimator_has_the_parameters_of_from_predictions(display):
    method = display.from_estimator
    parameters = inspect.signature(method).parameters
    _, *options = inspect.signature(display.from_predictions).parameters
    assert set(parameters) == {"estimator", "X", *options}
    text = inspect.getdoc(method)
    for name, parameter in parameters.items():
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        assert f"\n{stars}{name} : " in text
    with pytest.raises(TypeError, match=rf"{display.__name__}\.from_estimator\(\)"):
        method(None)


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


class GroupAware:
    """Mixed into models: their outputs depend on the groups, and they have settings."""

    interval, kappa = (0.1, 0.5), 0.2

    def decision_function(self, X, *, sensitive_features):
        return super().decision_function(X) + 3 * (sensitive_features == "f")

    def predict(self, X, *, sensitive_features):
        return super().predict(X) + 3 * (sensitive_features == "f")


class AwareClassifier(GroupAware, LogisticRegression): ...


class AwareRegressor(GroupAware, LinearRegression): ...


@pytest.mark.parametrize(
    ("display_class", "model", "method", "attribute"),
    [
        (GroupRateDisplay, AwareClassifier(), "decision_function", "rates"),
        (ScoreDensityDisplay, AwareClassifier(), "decision_function", "densities"),
        (OutputDensityDisplay, AwareRegressor(), "predict", "densities"),
    ],
)
def test_from_estimator_draws_the_outputs(display_class, model, method, attribute):
    X, groups = SCORES[:, None], {"sensitive_features": groups_named(["f", "m"])}
    model.fit(X, SCORES > 0)
    outputs = getattr(model, method)(X, **groups)
    for name in (None, "mine"):
        display = display_class.from_estimator(
            model, X, name=name, ax=new_axes(), **groups
        )
        drawn_name = name or type(model).__name__
        settings = {}
        if display_class is not OutputDensityDisplay:
            settings["interval"] = model.interval
            assert display.interval == model.interval
        expected = display_class.from_predictions(
            outputs, name=drawn_name, ax=new_axes(), **groups, **settings
        )
        np.testing.assert_equal(
            getattr(display, attribute), getattr(expected, attribute)
        )
        assert drawn_name in display.figure_.axes[0].get_title()


@pytest.mark.parametrize(
    ("shape", "sharey", "labels"),
    [
        ((1, 3), True, [1, 0, 0]),
        ((1, 3), False, [1, 1, 1]),
        ((2, 1), True, [1, 1]),  # the lower one keeps its label
    ],
)
def test_a_shared_axis_is_labelled_once(figure, shape, sharey, labels):
    axes = figure.subplots(*shape, sharey=sharey)
    for ax in axes:
        ClusterCompositionDisplay.from_predictions(
            CODES % 3, sensitive_features=CODES, ax=ax, legend=False
        )
    assert [bool(ax.get_ylabel()) for ax in axes] == labels


def test_legends_take_headings_and_break_long_entries():
    ax = new_axes()
    (line,) = ax.plot([0, 1], label="a name that is longer than a line (gap 0.123)")
    draw_legend(ax, "first", [line, "second", line])
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    broken = "a name that is longer than a line\n(gap 0.123)"
    assert entries == [broken, "second", broken]


@every_display
def test_plots_again_with_or_without_a_legend(make, pyplot):
    display, parameters = make(["f", "m"]), dict(pyplot.rcParams)
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
def test_missing_matplotlib_is_named(make, monkeypatch):
    display, real_import = make(["f", "m"]), builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "scalefair\[plot\]"'):
        display.plot()


def test_figures_within_figures_and_without_layout():
    from matplotlib.figure import Figure

    groups = groups_named(["f", "m"])
    first, second = Figure(figsize=(12, 4), layout="constrained").subfigures(1, 2)
    plain, loose = Figure(figsize=(12, 4)), Figure(layout="tight")
    inset = plain.add_axes((0.1, 0.1, 0.3, 0.3))
    for ax in (first.subplots(), second.subplots(), loose.subplots(), inset):
        display = ScoreDensityDisplay.from_predictions(
            SCORES, sensitive_features=groups, ax=ax
        )
        assert display.figure_ is ax.figure
        assert ax.get_title().startswith("gap ")
    for figure in (first.figure, plain, loose):
        figure.draw_without_rendering()
