import builtins
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from scalefair.plotting import ParetoFrontDisplay

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)
ACCURACY = {
    "DC": np.array([0.83, 0.84, 0.85])[:, None] + 0.003 * RNG.standard_normal((3, 5)),
    "other": np.array([0.82, 0.80, 0.86])[:, None]
    + 0.003 * RNG.standard_normal((3, 5)),
}
FAIRNESS = {
    "DC": np.array([0.98, 0.90, 0.60])[:, None] + 0.003 * RNG.standard_normal((3, 5)),
    "other": np.array([0.90, 0.70, 0.50])[:, None]
    + 0.003 * RNG.standard_normal((3, 5)),
}


@pytest.fixture
def ax():
    from matplotlib.figure import Figure

    return Figure(figsize=(8, 5), layout="constrained").subplots()


@pytest.fixture
def pyplot():
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def title_of(ax):
    """Title in one line: where it breaks depends on the width."""
    return " ".join(ax.get_title().split())


def data_of(line):
    return np.column_stack(line.get_data())


def test_means_and_intervals():
    display = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS)
    for name in ACCURACY:
        for column, runs in enumerate((FAIRNESS[name], ACCURACY[name])):
            np.testing.assert_allclose(
                display.means[name][:, column], runs.mean(axis=1)
            )
            low, high = stats.t.interval(
                0.95, 4, loc=runs.mean(axis=1), scale=stats.sem(runs, axis=1)
            )
            half = display.half_widths[name][:, column]
            np.testing.assert_allclose(half, (high - low) / 2)
    wider = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS, confidence=0.99)
    assert (wider.half_widths["DC"] > display.half_widths["DC"]).all()


def test_bars_span_the_intervals(ax):
    display = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS).plot(ax)
    assert title_of(ax).endswith("(means of 5 splits, 95 % confidence)")
    horizontal, vertical = display.bars_["DC"]
    means, half = display.means["DC"], display.half_widths["DC"]
    for column, bars in ((0, horizontal), (1, vertical)):
        ends = np.array(bars.get_segments())[:, :, column]
        np.testing.assert_allclose(ends[:, 0], means[:, column] - half[:, column])
        np.testing.assert_allclose(ends[:, 1], means[:, column] + half[:, column])


def test_fronts_join_points_that_nothing_beats(ax):
    display = ParetoFrontDisplay(
        {"a": [0.8, 0.9, 0.85, 0.85, 0.7]},
        fairness={"a": [0.9, 0.5, 0.7, 0.6, 0.9]},
    ).plot(ax)
    # The fourth is as accurate as the third, and the fifth as fair as the first.
    np.testing.assert_array_equal(
        display.dominated["a"], [False, False, False, True, True]
    )
    np.testing.assert_allclose(
        data_of(display.lines_["a"]), [[0.5, 0.9], [0.7, 0.85], [0.9, 0.8]]
    )
    np.testing.assert_allclose(
        data_of(display.dominated_["a"]), [[0.6, 0.85], [0.9, 0.7]]
    )
    assert display.dominated_["a"].get_alpha() < 0.5
    assert display.dominated_["a"].get_linestyle() == "None"


def test_equal_points_do_not_beat_each_other():
    display = ParetoFrontDisplay({"a": [0.8, 0.8]}, fairness={"a": [0.9, 0.9]})
    assert not display.dominated["a"].any()


def test_methods_are_told_apart_without_colour(ax):
    names = [f"m{i}" for i in range(8)]
    display = ParetoFrontDisplay(
        {name: [0.8, 0.9] for name in names},
        fairness={name: [0.9, 0.8] for name in names},
    ).plot(ax)
    looks = {
        (line.get_marker(), line.get_markerfacecolor() == "white")
        for line in display.lines_.values()
    }
    assert len(looks) == 8
    styles = {line.get_linestyle() for line in list(display.lines_.values())[:4]}
    assert len(styles) >= 3
    assert not any(display.bars_.values())  # no repeats, nothing to span
    assert title_of(ax) == (
        "8 methods: fairest at fairness 0.9, accuracy 0.8; "
        "most accurate at accuracy 0.9, fairness 0.8"
    )


def test_title_names_the_ends(ax):
    ParetoFrontDisplay(
        {"DC": [0.8, 0.85], "plain": [0.9]}, fairness={"DC": [0.9, 0.7], "plain": [0.1]}
    ).plot(ax)
    assert title_of(ax) == (
        "fairest: DC (fairness 0.9, accuracy 0.8); "
        "most accurate: plain (accuracy 0.9, fairness 0.1)"
    )
    # The fair method is worse in both.
    ParetoFrontDisplay(
        {"DC": [0.8], "plain": [0.9]}, fairness={"DC": [0.1], "plain": [0.2]}
    ).plot(ax)
    assert (
        title_of(ax) == "plain: fairest and most accurate at fairness 0.2, accuracy 0.9"
    )


def texts_overlap(ax):
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    return any(a.overlaps(b) for a, b in combinations(boxes, 2))


@pytest.mark.parametrize("spread", [1.0, 0.1, 0.01, 0.0])
def test_labels_of_points_do_not_overlap(ax, spread):
    n = 30
    ParetoFrontDisplay(
        {"a": 0.8 + spread * 0.1 * RNG.random(n), "b": [0.7]},
        fairness={"a": 0.9 - spread * 0.5 * RNG.random(n), "b": [0.2]},
        point_labels={"a": np.linspace(0, 1, n).round(2)},
    ).plot(ax)
    assert 1 <= len(ax.texts) <= n
    assert not texts_overlap(ax)


def test_labels_are_numbers_in_short_or_names_as_they_are(ax):
    labels = {"a": [0.1 + 0.2, "$x$ and $y$"]}
    ParetoFrontDisplay(
        {"a": [0.1, 0.9]}, fairness={"a": [0.9, 0.1]}, point_labels=labels
    ).plot(ax)
    assert [text.get_text() for text in ax.texts] == ["0.3", r"\$x\$ and \$y\$"]


def test_axes_and_legend(ax):
    display = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS).plot(ax)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    assert ax.get_xlabel() == "fairness (1 - gap)"
    assert ax.get_ylabel() == "accuracy"
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["DC", "other"]
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > ax.get_window_extent().x1
    legend.remove()
    display.plot(ax, legend=False, linewidth=4.5)
    assert ax.get_legend() is None
    assert display.lines_["DC"].get_linewidth() == 4.5


def test_points_may_be_labelled(ax):
    ParetoFrontDisplay(
        ACCURACY, fairness=FAIRNESS, point_labels={"DC": [0.01, 0.1, 0.3]}
    ).plot(ax)
    assert [text.get_text() for text in ax.texts] == ["0.01", "0.1", "0.3"]
    np.testing.assert_allclose(
        ax.texts[0].xy, [FAIRNESS["DC"][0].mean(), ACCURACY["DC"][0].mean()]
    )


def records():
    return [
        {
            "method": name,
            "kappa": kappa,
            "accuracy": ACCURACY[name][i, split],
            "fairness": FAIRNESS[name][i, split],
        }
        for split in range(5)
        for name in ACCURACY
        for i, kappa in enumerate([0.01, 0.1, 0.3])
    ]


@pytest.mark.parametrize("form", ["records", "columns", "frame"])
def test_from_results(ax, form):
    results = records()
    if form != "records":
        results = {key: [row[key] for row in results] for key in results[0]}
    if form == "frame":
        results = pytest.importorskip("pandas").DataFrame(results)
    found = ParetoFrontDisplay.from_results(results, ax=ax, label_points=True)
    expected = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS)
    assert list(found.means) == ["DC", "other"]
    for name in ACCURACY:
        np.testing.assert_allclose(found.means[name], expected.means[name])
        np.testing.assert_allclose(found.half_widths[name], expected.half_widths[name])
    assert found.point_labels["other"] == [0.01, 0.1, 0.3]
    assert found.ax_ is ax


def test_from_results_without_settings(ax):
    rows = [
        {"name": "a", "acc": 0.8, "fair": 0.9},
        {"name": "a", "acc": 0.9, "fair": 0},
    ]
    found = ParetoFrontDisplay.from_results(
        rows, method="name", setting=None, accuracy="acc", fairness="fair", ax=ax
    )
    np.testing.assert_allclose(found.means["a"], [[0.9, 0.8], [0.0, 0.9]])


@pytest.mark.parametrize("form", ["records", "frame"])
def test_nan_is_a_setting_of_methods_without_parameter(ax, form):
    results = [
        {"method": "plain", "kappa": float("nan"), "accuracy": a, "fairness": 0.5}
        for a in (0.8, 0.9)
    ]
    if form == "frame":
        results = pytest.importorskip("pandas").DataFrame(results)
    found = ParetoFrontDisplay.from_results(results, ax=ax, label_points=True)
    np.testing.assert_allclose(found.means["plain"], [[0.5, 0.85]])
    assert not ax.texts


def test_makes_a_figure_and_changes_no_setting(ax, pyplot):
    before = dict(pyplot.rcParams)
    display = ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS)
    display.plot(ax)
    assert pyplot.get_fignums() == []
    display.plot()
    assert display.figure_ is pyplot.gcf()
    assert dict(pyplot.rcParams) == before


def test_missing_matplotlib_is_named(monkeypatch):
    real_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r'pip install "scalefair\[plot\]"'):
        ParetoFrontDisplay(ACCURACY, fairness=FAIRNESS).plot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fairness": {"DC": [0.1, 0.2, 0.3]}}, "same methods"),
        ({"accuracy": {}, "fairness": {}}, "same methods"),
        ({"accuracy": {"a": [0.1]}, "fairness": {"a": [0.1, 0.2]}}, "differ in shape"),
        (
            {"accuracy": {"a": [0.1, np.nan]}, "fairness": {"a": [0.1, 0.1]}},
            "accuracy of 'a' is NaN or infinite, the first at point 1 and split 0",
        ),
        ({"accuracy": {"a": []}, "fairness": {"a": []}}, "must have shape"),
        ({"confidence": 95}, "between 0 and 1, got 95"),
        ({"point_labels": {"x": [1, 2, 3]}}, "unknown method, 'x'"),
        ({"point_labels": {"DC": [1, 2]}}, "must have 3 entries"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"accuracy": ACCURACY, "fairness": FAIRNESS, **change}
    with pytest.raises(ValueError, match=message):
        ParetoFrontDisplay(arguments.pop("accuracy"), **arguments)


def test_bad_results(ax):
    draw = ParetoFrontDisplay.from_results
    with pytest.raises(ValueError, match=r"row 0 .* no column 'gap'.*'fairness'"):
        draw(records(), fairness="gap", ax=ax)
    with pytest.raises(ValueError, match=r"results has no column 'gap'.*'method'"):
        draw({"method": []}, method="gap", ax=ax)
    with pytest.raises(ValueError, match="no rows"):
        draw([], ax=ax)
    with pytest.raises(ValueError, match=r"number of repeats: 0\.3 has 4"):
        draw(records()[:-4] + records()[-3:-1], ax=ax)
    words = {"method": "a", "kappa": 1, "accuracy": "good", "fairness": 1}
    with pytest.raises(ValueError, match=r"measures of 'a' must be numbers.*good"):
        draw([words], ax=ax)
    columns = {"method": ["a"], "kappa": [1], "accuracy": [1], "fairness": [1, 2]}
    with pytest.raises(ValueError, match=r"differ in length: .*'fairness': 2"):
        draw(columns, ax=ax)
