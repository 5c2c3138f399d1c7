"""What every display does: figures, names as they are, lines that fit, no overlap."""

import builtins
import inspect

import numpy as np
import pandas
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair.cluster import FairSpectralClustering
from scalefair.decomposition import FairPCA
from scalefair.linear_model import PartiallyFairClassifierCV
from scalefair.metrics import partial_parity_gap
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
from scalefair.postprocessing import FairCalibratedClassifier

RNG = np.random.default_rng(0)
LONG = [
    "has completed graduate school",
    "income <$50k and >$50k",
    "_prefers not to say",
    "high school, not completed",
    "bachelor or equivalent degree",
]
CODES = np.arange(600) % 5
SCORES = RNG.standard_normal(600) + 0.3 * CODES


def figure_of(width, height, columns=1, **options):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.subplots(1, columns, **options)


def of_groups(names):
    return np.array(names)[CODES % len(names)]


def cluster(names, scale, **options):
    options = {"sensitive_features": of_groups(names)} | options
    return ClusterCompositionDisplay.from_predictions(
        RNG.integers(0, 6, 600),
        name="A clustering with a long name",
        ax=figure_of(6.4, 4.8),
        **options,
    )


def clusters(names, scale):
    axes = figure_of(12, 4, 3, sharey=True)
    for ax in axes:
        display = ClusterCompositionDisplay.from_predictions(
            RNG.integers(0, 20, 600),
            sensitive_features=of_groups(names),
            name="Fair, k-means",
            ax=ax,
            legend=ax is axes[-1],
        )
    return display


def each_attribute(names):
    """Two attributes, the second of two groups."""
    ages = np.array(["under 30", "30 and over"])[CODES // 2 % 2]
    return pandas.DataFrame({"education": of_groups(names), "age": ages})


def cluster_each(names, scale):
    people = each_attribute(names)
    return cluster(names, scale, sensitive_features=people, attributes="each")


def outputs(names, scale):
    return OutputDensityDisplay.from_predictions(
        {"before": scale * SCORES, "with one layer changed": 0.5 * scale * SCORES},
        sensitive_features=of_groups(names),
        kind="histogram",
        ax=figure_of(9.5, 3.5, 2, sharey=True),
    )


def scores(names, scale):
    return ScoreDensityDisplay.from_predictions(
        scale * SCORES,
        sensitive_features=of_groups(names),
        interval=(0.1, 0.4),
        name="PartiallyFairClassifier",
        ax=figure_of(8, 4.5),
    )


def rates(names, scale):
    return GroupRateDisplay.from_predictions(
        {"logistic regression": SCORES, "partially fair": -SCORES},
        sensitive_features=of_groups(names),
        interval=(0.05, 0.3),
        kappa=0.1,
        pair=names[:2],
        ax=figure_of(8, 5),
    )


def rates_each(names, scale):
    return GroupRateDisplay.from_predictions(
        {"logistic regression": SCORES, "partially fair": -SCORES},
        sensitive_features=each_attribute(names),
        attributes="each",
        pair={"education": names[:2]},
        ax=figure_of(8, 5),
    )


def pareto(names, scale):
    values = scale * np.linspace(0.5, 1, 5)
    return ParetoFrontDisplay(
        {name: values[::-1] - 0.1 * scale * i for i, name in enumerate(names)},
        fairness={name: values - 0.05 * scale * i for i, name in enumerate(names)},
        point_labels={name: [1, 2, 3, 4, 5] for name in names},
    ).plot(figure_of(8, 5))


def trade_off(names, scale):
    runs = scale * RNG.random((4, 3))
    return FairnessAccuracyDisplay(
        dict.fromkeys(names, runs), unfairness=dict.fromkeys(names, runs[::-1])
    ).plot(figure_of(8, 5))


def losses(names, scale):
    values = scale * RNG.random((4, len(names)))
    return GroupLossDisplay(
        [1, 2, 3, 4],
        losses={"PCA": values, "FairPCA": values},
        total_errors={"PCA": values[:, 0], "FairPCA": values[:, 1]},
        groups=names,
    ).plot(figure_of(10, 4, 2))


def plane(names, scale, view="all"):
    parts = RNG.standard_normal((2, 5, 5))
    first, second = scale * parts @ parts.transpose(0, 2, 1)
    return JointNumericalRangeDisplay.from_covariances(
        first,
        second,
        2,
        group_sizes=(1, 3),
        groups=names[:2],
        view=view,
        n_angles=40,
        ax=figure_of(8, 5),
    )


def near_optimum(names, scale):
    return plane(names, scale, "optimum")


EVERY = [
    cluster, clusters, outputs, scores, rates,
    pareto, trade_off, losses, plane, near_optimum,
    cluster_each, rates_each,
]  # fmt: skip


def written(figure):
    """Boxes of titles, labels of axes, numbers and entries of legends, by text."""
    for ax in figure.axes:
        parts = [ax, *ax.child_axes]
        texts = [ax.title]
        for part in parts:
            for axis in (part.xaxis, part.yaxis):
                low, high = sorted(axis.get_view_interval())
                numbers = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
                texts += [axis.label, axis.offsetText]
                texts += [text for at, text in numbers if low <= at <= high]
        legend = ax.get_legend()
        if legend is not None:
            texts += [legend.get_title(), *legend.get_texts()]
        for text in texts:
            if text.get_visible() and text.get_text().strip():
                yield text.get_text(), text.get_window_extent()


CASES = {
    "short": (["f", "m"], 1.0),
    "long": (LONG, 1.0),
    "tiny": (LONG, 1e-9),
    "large": (["f", "m"], 1e7),
}
SHARES = {cluster, clusters, cluster_each, rates, rates_each}  # which have no scale


@pytest.mark.parametrize(
    ("make", "names", "scale"),
    [
        pytest.param(make, *case, id=f"{make.__name__}-{name}")
        for make in EVERY
        for name, case in CASES.items()
        if make not in SHARES or case[1] == 1.0
    ],
)
def test_nothing_overlaps_and_nothing_is_clipped(make, scale, names):
    display = make(names, scale)
    figure = display.figure_
    figure.draw_without_rendering()
    figure.draw_without_rendering()  # the layout settles
    texts = list(written(figure))
    edge = figure.bbox
    for text, box in texts:
        assert (box.min >= edge.min - 1).all(), text
        assert (box.max <= edge.max + 1).all(), text
    for i, (one, box) in enumerate(texts):
        for other, second in texts[:i]:
            across = min(box.x1, second.x1) - max(box.x0, second.x0)
            up = min(box.y1, second.y1) - max(box.y0, second.y0)
            assert across < 2 or up < 2, (one, other)


def test_names_are_shown_as_they_are():
    display = scores(LONG, 1.0)
    entries = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert len(entries) == len(LONG)  # the one with an underscore too
    assert r"income <\$50k and >\$50k" in entries
    assert literal("a\n b") == "a b"
    assert literal(r"5 \$") == r"5 \$"  # escaped already
    assert literal(3) == "3"


@pytest.mark.parametrize(
    "of", [GroupRateDisplay, OutputDensityDisplay, ScoreDensityDisplay]
)
def test_from_estimator_has_the_parameters_of_from_predictions(of):
    draw = of.from_estimator
    taken = inspect.signature(draw).parameters
    given = inspect.signature(of.from_predictions).parameters
    assert set(taken) == {"estimator", "X", *list(given)[1:]}
    text = inspect.getdoc(draw)
    for name, parameter in taken.items():
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        assert f"\n{stars}{name} : " in text
    with pytest.raises(TypeError, match=rf"{of.__name__}\.from_estimator\(\)"):
        draw(None)


@pytest.mark.parametrize(
    ("draw", "given"),
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
def test_estimators_are_fitted(draw, given):
    takes_groups = "sensitive_features" in inspect.signature(draw).parameters
    with pytest.raises(NotFittedError):
        draw(*given, **({"sensitive_features": [0]} if takes_groups else {}))


@pytest.mark.filterwarnings("ignore:Groups of too few rows")
@pytest.mark.parametrize("given", [None, "positive"])
@pytest.mark.parametrize("of", [GroupRateDisplay, ScoreDensityDisplay])
def test_calibrated_classifiers_are_told_the_groups(of, given):
    """Their scores depend on them; judged in their interval, and what they compare."""
    X, y = SCORES[:, None], CODES + 3 * SCORES > 2
    told = {"sensitive_features": np.array(["f", "m"])[CODES % 2]}
    options = {"interval": (0.1, 0.6), "kappa": 0.1, "given": given}
    model = FairCalibratedClassifier(LogisticRegression(), **options)
    model.fit(X, y, **told)
    labels = {} if given is None else {"y_true": y}
    display = of.from_estimator(model, X, **told, **labels, ax=figure_of(8, 5))
    assert display.interval == (0.1, 0.6)
    gap = partial_parity_gap(
        model.decision_function(X, **told),
        interval=(0.1, 0.6),
        given=given,
        **told,
        **labels,
    )
    if of is GroupRateDisplay:
        name = "FairCalibratedClassifier" + ", labelled True" * (given is not None)
        assert display.gaps == {name: pytest.approx(gap)}
        assert display.kappa == 0.1
    else:
        assert display.gap == pytest.approx(gap)


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
    ax = figure_of(6, 4)
    (line,) = ax.plot([0, 1], label="a name that is longer than a line (gap 0.123)")
    draw_legend(ax, "first", [line, "second", line])
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    broken = "a name that is longer than a line\n(gap 0.123)"
    assert entries == [broken, "second", broken]


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_plots_again_with_or_without_a_legend(make, pyplot):
    display, before = make(["f", "m"], 1.0), dict(pyplot.rcParams)
    assert pyplot.get_fignums() == []
    for ax in display.figure_.axes:  # the figure says what it finds
        assert any(c.isdigit() for c in ax.get_title())
        assert ax.get_xlabel()
    legends = [ax.get_legend() for ax in display.figure_.axes]
    assert legends[-1] is not None
    display.figure_.draw_without_rendering()
    right = display.figure_.axes[-1].get_window_extent().x1
    assert legends[-1].get_window_extent().x0 > right
    display.plot(legend=False)
    assert display.figure_ is pyplot.gcf()
    assert all(ax.get_legend() is None for ax in display.figure_.axes)
    assert len(pyplot.get_fignums()) == 1
    assert dict(pyplot.rcParams) == before


@pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)
def test_missing_matplotlib_is_named(make, monkeypatch):
    display, real_import = make(["f", "m"], 1.0), builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "scalefair\[plot\]"'):
        display.plot()


def test_figures_within_figures_and_without_layout():
    from matplotlib.figure import Figure

    groups = np.array(["f", "m"])[CODES % 2]
    left, right = Figure(figsize=(12, 4), layout="constrained").subfigures(1, 2)
    plain, loose = Figure(figsize=(12, 4)), Figure(layout="tight")
    inset = plain.add_axes((0.1, 0.1, 0.3, 0.3))
    for ax in (left.subplots(), right.subplots(), loose.subplots(), inset):
        display = ScoreDensityDisplay.from_predictions(
            SCORES, sensitive_features=groups, ax=ax
        )
        assert display.figure_ is ax.figure
        assert ax.get_title().startswith("gap ")
    for figure in (left.figure, plain, loose):
        figure.draw_without_rendering()
