"""Displays of accuracy against fairness: points, bars, fronts, tables of runs."""

from itertools import combinations

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import mean_squared_error

from scalefair.datasets import make_biased_rows
from scalefair.linear_model import PartiallyFairClassifierCV
from scalefair.metrics import (
    partial_demographic_parity_gap,
    partial_parity_gap,
    statistical_parity_ks,
)
from scalefair.plotting import FairnessAccuracyDisplay, ParetoFrontDisplay
from scalefair.postprocessing import FairCalibratedClassifier

from .conftest import AwareRegressor

RNG = np.random.default_rng(0)


def runs_around(*means):
    return np.array(means)[:, None] + 0.003 * RNG.standard_normal((len(means), 5))


ACCURACY = {"DC": runs_around(0.83, 0.84, 0.85), "other": runs_around(0.82, 0.8, 0.86)}
FAIRNESS = {"DC": runs_around(0.98, 0.9, 0.6), "other": runs_around(0.9, 0.7, 0.5)}
ERROR = {"direct": runs_around(0.06, 0.07, 0.09), "plain": runs_around(0.05)}
UNFAIRNESS = {"direct": runs_around(0.3, 0.35, 0.1), "plain": runs_around(0.4)}


def front(accuracy=ACCURACY, fairness=FAIRNESS, **options):
    return ParetoFrontDisplay(accuracy, fairness=fairness, **options)


def trade_off(error=ERROR, unfairness=UNFAIRNESS, **options):
    return FairnessAccuracyDisplay(error, unfairness=unfairness, **options)


def test_means_and_spreads():
    for display, x, y in (
        (front(), FAIRNESS, ACCURACY),
        (trade_off(), UNFAIRNESS, ERROR),
    ):
        for name in x:
            means = np.column_stack([x[name].mean(axis=1), y[name].mean(axis=1)])
            np.testing.assert_allclose(display.means[name], means)
    runs = FAIRNESS["DC"]
    for confidence in (0.95, 0.99):
        low, high = stats.t.interval(
            confidence, 4, loc=runs.mean(axis=1), scale=stats.sem(runs, axis=1)
        )
        half = front(confidence=confidence).half_widths["DC"][:, 0]
        np.testing.assert_allclose(half, (high - low) / 2)
    deviations = trade_off().deviations["direct"][:, 1]
    np.testing.assert_allclose(deviations, ERROR["direct"].std(axis=1, ddof=1))


def test_fronts_join_points_that_nothing_beats(ax):
    display = front(
        {"a": [0.8, 0.9, 0.85, 0.85, 0.7]}, {"a": [0.9, 0.5, 0.7, 0.6, 0.9]}
    ).plot(ax)
    # The fourth is as accurate as the third, and the fifth as fair as the first.
    assert display.dominated["a"].tolist() == [False, False, False, True, True]
    joined, lighter = display.lines_["a"], display.dominated_["a"]
    expected = [[0.5, 0.9], [0.7, 0.85], [0.9, 0.8]]
    np.testing.assert_allclose(joined.get_xydata(), expected)
    np.testing.assert_allclose(lighter.get_xydata(), [[0.6, 0.85], [0.9, 0.7]])
    # Equal points do not beat each other.
    assert not front({"a": [0.8, 0.8]}, {"a": [0.9, 0.9]}).dominated["a"].any()


def test_curves_join_the_settings_in_order(ax):
    display = trade_off().plot(ax, linewidth=4.5)
    assert "(means and standard deviations of 5" in ax.get_title()
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_xydata(), display.means[name])
        assert line.get_linewidth() == 4.5
        assert len(display.bars_[name]) == 2
    assert display.lines_["direct"].get_linestyle() != "None"
    assert display.lines_["plain"].get_linestyle() == "None"  # nothing to join
    assert ax.get_xlabel() == "KS distance between groups"
    assert ax.get_ylabel() == "mean squared error"
    front().plot(ax)
    assert "(means of 5 splits, 95 % confidence" in ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("fairness (1 - gap)", "accuracy")


def test_without_repeats(ax):
    display = trade_off(
        {"a": [0.1, 0.2], "b": [[0.1, 0.2, 0.3]]},
        {"a": [0.3, 0.2], "b": [[0.3, 0.1, 0.1]]},
    ).plot(ax)
    assert display.bars_["a"] == []
    assert not display.deviations["a"].any()
    assert len(display.bars_["b"]) == 2
    assert ax.get_title().endswith("(means and standard deviations of 1-3 splits)")
    assert not front({"a": [0.1]}, {"a": [0.3]}).half_widths["a"].any()


@pytest.mark.parametrize(
    ("points", "title"),
    [
        (
            # Of equally fair points the more accurate one is named.
            {"plain": [(0.5, 0.2)], "fair": [(0.1, 0.4), (0.1, 0.3), (0.2, 0.25)]},
            "fairest: fair (distance 0.1, error 0.3); "
            "most accurate: plain (distance 0.5, error 0.2)",
        ),
        (  # the corrected model is worse in both
            {"plain": [(0.1, 0.2)], "fair": [(0.4, 0.3)]},
            "fairest and most accurate: plain (distance 0.1, error 0.2)",
        ),
        (  # no difference
            {"plain": [(0.1, 0.2)], "fair": [(0.1, 0.2)]},
            "fairest and most accurate: plain and fair (distance 0.1, error 0.2)",
        ),
        (
            {name: [(0.1, 0.2)] for name in "abc"},
            "fairest and most accurate: 3 methods (distance 0.1, error 0.2)",
        ),
    ],
)
def test_title_names_the_ends(ax, points, title):
    for make, sign in ((trade_off, 1), (front, -1)):
        x, y = (
            {name: sign * np.transpose(p)[i] for name, p in points.items()}
            for i in range(2)
        )
        make(y, x).plot(ax)
        assert ax.get_title().split(" (")[0] == title.split(" (")[0]
        assert sign < 0 or ax.get_title() == title


def test_labels_that_would_overlap_are_hidden(ax):
    accuracy, fairness = 0.01 * RNG.random((2, 30)) + [[0.8], [0.5]]
    labels = {"a": np.linspace(0, 1, 30).round(2)}
    accuracy, fairness = {"a": accuracy, "b": [0.7]}, {"a": fairness, "b": [0.2]}
    front(accuracy, fairness, point_labels=labels).plot(ax)
    ax.figure.draw_without_rendering()
    boxes = [t.get_window_extent() for t in ax.texts if t.get_visible()]
    assert 1 <= len(boxes) < 30
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_labels_are_numbers_in_short_or_names_as_they_are(ax):
    labels = {"DC": [0.1 + 0.2, "$x$ and $y$", True]}
    display = front(point_labels=labels).plot(ax)
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["0.3", r"\$x\$ and \$y\$", "True"]
    np.testing.assert_allclose([text.xy for text in ax.texts], display.means["DC"])


def rows_of(first, second, settings, columns):
    """Rows of runs, of the last settings first."""
    return [
        dict(zip(columns, (name, settings[i], *values), strict=True))
        for split in range(5)
        for name in first
        for i in reversed(range(len(first[name])))
        for values in [(first[name][i, split], second[name][i, split])]
    ]


REGRESSORS = rows_of(ERROR, UNFAIRNESS, [5, 15, 50], ["method", "setting", "mse", "ks"])
CLASSIFIERS = rows_of(
    ACCURACY, FAIRNESS, [0.01, 0.1, 0.3], ["method", "kappa", "accuracy", "fairness"]
)


@pytest.mark.parametrize("form", ["records", "columns", "frame", "generator"])
def test_from_results(ax, form):
    def as_form(rows):
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        forms = {"records": rows, "columns": columns, "generator": iter(rows)}
        return {**forms, "frame": pandas.DataFrame(columns)}[form]

    display = FairnessAccuracyDisplay.from_results(as_form(REGRESSORS), ax=ax)
    assert list(display.means) == ["direct", "plain"]
    for name, expected in trade_off().means.items():
        np.testing.assert_allclose(display.means[name], expected)
        deviations = trade_off().deviations[name]
        np.testing.assert_allclose(display.deviations[name], deviations)
    assert [text.get_text() for text in ax.texts] == ["5", "15", "50"]
    assert ax.get_ylabel() == "mean squared error"
    display = ParetoFrontDisplay.from_results(
        as_form(CLASSIFIERS), ax=ax, label_points=True
    )
    for name, expected in front().means.items():  # in the order of the table
        np.testing.assert_allclose(display.means[name], expected[::-1])
    assert display.point_labels == {name: [0.3, 0.1, 0.01] for name in ACCURACY}


def test_from_results_with_other_settings_and_columns(ax):
    rows = [
        {"name": "a", "strength": strength, "mae": error, "gap": gap}
        for strength, error, gap in [("weak", 0.1, 0.3), ("strong", 0.3, 0.1)]
    ]
    display = FairnessAccuracyDisplay.from_results(
        rows, method="name", setting="strength", error="mae", unfairness="gap", ax=ax
    )
    np.testing.assert_allclose(display.means["a"], [[0.3, 0.1], [0.1, 0.3]])
    assert [text.get_text() for text in ax.texts] == ["weak", "strong"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gap", "mae")
    # Without settings rows repeat a point of a regressor, of classifiers each is one.
    display = FairnessAccuracyDisplay.from_results(REGRESSORS, setting=None, ax=ax)
    expected = [[UNFAIRNESS["direct"].mean(), ERROR["direct"].mean()]]
    np.testing.assert_allclose(display.means["direct"], expected)
    rows = CLASSIFIERS[:2]
    display = ParetoFrontDisplay.from_results(
        rows, setting=None, label_points=True, ax=ax
    )
    expected = [[row["fairness"], row["accuracy"]] for row in rows]
    np.testing.assert_allclose(display.means["DC"], expected)
    assert not display.point_labels


def test_nan_is_a_setting_of_methods_without_parameter(ax):
    results = [
        {"method": "plain", "kappa": float("nan"), "accuracy": a, "fairness": 0.5}
        for a in (0.8, 0.9)
    ] + [{"method": "DC", "kappa": "small", "accuracy": 0.7, "fairness": 1}]
    display = ParetoFrontDisplay.from_results(results, ax=ax, label_points=True)
    np.testing.assert_allclose(display.means["plain"], [[0.5, 0.85]])
    assert not display.point_labels
    results[2]["method"] = None  # no run is left out
    assert len(ParetoFrontDisplay.from_results(results, ax=ax).means) == 2


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        (CLASSIFIERS, {"fairness": "gap"}, "results has no column 'gap'.*'fairness'"),
        ([], {}, "no rows"),
        ({k: [] for k in ("method", "kappa", "accuracy", "fairness")}, {}, "no rows"),
        (CLASSIFIERS[:3] + CLASSIFIERS[4:], {}, r"number of repeats: 0\.3 has 4"),
        ([{**CLASSIFIERS[0], "accuracy": "good"}], {}, "no numbers.*good"),
        ([{**CLASSIFIERS[0], "accuracy": None}], {}, "of 'DC' has a value .* NaN"),
        (
            {"method": ["a"], "kappa": [1], "accuracy": [1], "fairness": [1, 2]},
            {},
            "same length",
        ),
    ],
)
def test_bad_results(ax, results, options, message):
    with pytest.raises(ValueError, match=message):
        ParetoFrontDisplay.from_results(results, ax=ax, **options)


def test_a_search_over_gaps(ax):
    data = make_biased_rows(400, 3, random_state=0)
    search = PartiallyFairClassifierCV([0.1, 0.4], cv=3, fairness_floor=0.0)
    search.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    for label_points, labels in ((False, []), (True, ["0.1", "0.4"])):
        display = ParetoFrontDisplay.from_estimator(
            search, name="ours", ax=ax, label_points=label_points
        )
        assert [text.get_text() for text in ax.texts] == labels
    results = search.cv_results_
    expected = [results["fairness"].mean(axis=1), results["accuracy"].mean(axis=1)]
    np.testing.assert_allclose(display.means["ours"].T, expected)


def test_paths_of_classifiers(ax):
    data = make_biased_rows(400, 3, random_state=0)
    X, y = data.data, data.target
    groups = {"sensitive_features": data.sensitive_features}
    plain = LogisticRegression().fit(X, y)
    path = [
        FairCalibratedClassifier(plain, (0.1, 0.6), kappa, cv="prefit").fit(
            X, y, **groups
        )
        for kappa in (0.05, 0.4)
    ]
    draw = ParetoFrontDisplay.from_estimator
    display = draw({"fair": path, "plain": plain}, X, y, **groups, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["0.05", "0.4"]
    expected = {"plain": [], "fair": []}
    for name, model in (("plain", plain), *(("fair", model) for model in path)):
        options = {} if name == "plain" else groups
        scores = model.decision_function(X, **options)
        gap = partial_demographic_parity_gap(scores, **groups, interval=(0.1, 0.6))
        expected[name].append([1 - gap, np.mean(model.predict(X, **options) == y)])
    for name, points in expected.items():
        np.testing.assert_allclose(display.means[name], points)
    single = draw(path, X, y, **groups, interval=(0, 1), label_points=False, ax=ax)
    scores = path[0].decision_function(X, **groups)
    gap = partial_demographic_parity_gap(scores, **groups)
    means = single.means["FairCalibratedClassifier"]
    assert means[0, 0] == pytest.approx(1 - gap)
    assert 1 - gap < display.means["fair"][0, 0] - 0.01  # the interval matters
    assert not single.point_labels
    with pytest.raises(ValueError, match="needs y and sensitive_features"):
        draw(path, X, y)
    for empty in ([], {"a": []}):
        with pytest.raises(ValueError, match="is empty"):
            draw(empty, X, y, **groups)


class OfEachLabel(LogisticRegression):
    interval, given = (0.1, 0.6), "label"


@pytest.mark.parametrize("given", ["positive", "label"])
@pytest.mark.parametrize("attributes", ["joint", "each"])
def test_gaps_of_the_rows_of_a_label(ax, given, attributes):
    data = make_biased_rows(200, 3, random_state=0)
    model = OfEachLabel().fit(data.data, data.target)
    people = np.column_stack([data.sensitive_features, np.arange(200) % 2])
    options = {"sensitive_features": people, "attributes": attributes}
    scores, condition = model.decision_function(data.data), {"given": given}
    gap = partial_parity_gap(
        scores, y_true=data.target, interval=model.interval, **condition, **options
    )
    options |= condition if given != model.given else {}
    draw = ParetoFrontDisplay.from_estimator
    display = draw([model], data.data, data.target, ax=ax, **options)
    assert display.means["OfEachLabel"][0, 0] == pytest.approx(1 - gap)


def test_points_of_regressors(ax):
    codes = RNG.integers(0, 2, 300)
    groups = {"sensitive_features": np.array(["f", "m"])[codes]}
    X = np.column_stack([RNG.standard_normal(300), codes])
    y = X.sum(axis=1) + 0.1 * RNG.standard_normal(300)
    models = {"all": LinearRegression().fit(X, y), "aware": AwareRegressor().fit(X, y)}
    draw = FairnessAccuracyDisplay.from_estimator
    display = draw(models, X, y, **groups, ax=ax)
    predicted = {"all": models["all"].predict(X)}
    predicted["aware"] = models["aware"].predict(X, **groups)
    for name, values in predicted.items():
        ks = statistical_parity_ks(values, **groups)
        expected = [[ks, mean_squared_error(y, values)]]
        np.testing.assert_allclose(display.means[name], expected)
    single = draw(models["all"], X, y, **groups, ax=ax).means["LinearRegression"]
    np.testing.assert_array_equal(single, display.means["all"])
    series = pandas.Series(y, name="wage")
    FairnessAccuracyDisplay.from_predictions(series, y + 1, **groups, ax=ax)
    assert ax.get_ylabel() == "mean squared error of wage"
