import builtins

import numpy as np
import pytest

from scalefair.plotting import FairnessAccuracyDisplay

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)
ERROR = {
    "direct": np.array([0.06, 0.07, 0.09])[:, None]
    + 0.003 * RNG.standard_normal((3, 5)),
    "plain": np.array([0.05])[:, None] + 0.003 * RNG.standard_normal((1, 5)),
}
UNFAIRNESS = {
    "direct": np.array([0.3, 0.35, 0.1])[:, None] + 0.003 * RNG.standard_normal((3, 5)),
    "plain": np.array([0.4])[:, None] + 0.003 * RNG.standard_normal((1, 5)),
}
SETTINGS = {"direct": [5.0, 15.0, 50.0], "plain": [np.nan]}


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


def test_means_and_deviations():
    display = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS)
    for name in ERROR:
        for column, runs in enumerate((UNFAIRNESS[name], ERROR[name])):
            np.testing.assert_allclose(
                display.means[name][:, column], runs.mean(axis=1)
            )
            np.testing.assert_allclose(
                display.deviations[name][:, column], runs.std(axis=1, ddof=1)
            )


def test_lines_join_the_settings_in_order(ax):
    display = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS).plot(ax)
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(data_of(line), display.means[name])
    assert display.lines_["direct"].get_linestyle() != "None"
    assert display.lines_["plain"].get_linestyle() == "None"  # nothing to join


def test_bars_span_the_deviations(ax):
    display = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS).plot(ax)
    assert title_of(ax).endswith("(means and standard deviations of 5 splits)")
    means, deviations = display.means["direct"], display.deviations["direct"]
    for column, bars in enumerate(display.bars_["direct"]):
        ends = np.array(bars.get_segments())[:, :, column]
        np.testing.assert_allclose(ends[:, 0], (means - deviations)[:, column])
        np.testing.assert_allclose(ends[:, 1], (means + deviations)[:, column])
    assert len(display.bars_["plain"]) == 2


def test_without_repeats(ax):
    display = FairnessAccuracyDisplay(
        {"a": [0.1, 0.2], "b": [[0.1, 0.2, 0.3]]},
        unfairness={"a": [0.3, 0.2], "b": [[0.3, 0.1, 0.1]]},
    ).plot(ax)
    assert display.bars_["a"] == []
    assert not display.deviations["a"].any()
    assert len(display.bars_["b"]) == 2
    assert title_of(ax).endswith("(means and standard deviations of 1-3 splits)")
    FairnessAccuracyDisplay({"a": [0.1]}, unfairness={"a": [0.3]}).plot(ax)
    assert title_of(ax) == "fairest and most accurate at distance 0.3, error 0.1"


@pytest.mark.parametrize(
    ("error", "unfairness", "title"),
    [
        (
            {"plain": [0.2], "fair": [0.3, 0.25]},
            {"plain": [0.5], "fair": [0.1, 0.2]},
            "fairest: fair (distance 0.1, error 0.3); "
            "most accurate: plain (error 0.2, distance 0.5)",
        ),
        (  # the corrected model is worse in both
            {"plain": [0.2], "fair": [0.3]},
            {"plain": [0.1], "fair": [0.4]},
            "plain: fairest and most accurate at distance 0.1, error 0.2",
        ),
        (  # no difference
            {"plain": [0.2], "fair": [0.2]},
            {"plain": [0.1], "fair": [0.1]},
            "plain and fair: fairest and most accurate at distance 0.1, error 0.2",
        ),
        (
            {"a": [0.2], "b": [0.2], "c": [0.2]},
            {"a": [0.1], "b": [0.1], "c": [0.1]},
            "3 methods: fairest and most accurate at distance 0.1, error 0.2",
        ),
        (  # of equally fair points the more accurate one
            {"a": [0.3, 0.2], "b": [0.1]},
            {"a": [0.1, 0.1], "b": [0.5]},
            "fairest: a (distance 0.1, error 0.2); "
            "most accurate: b (error 0.1, distance 0.5)",
        ),
        (  # one method alone needs no name
            {"a": [3e-9, 1e-9]},
            {"a": [1e-9, 2e-9]},
            "fairest at distance 1e-09, error 3e-09; "
            "most accurate at error 1e-09, distance 2e-09",
        ),
    ],
)
def test_title_names_the_ends(ax, error, unfairness, title):
    FairnessAccuracyDisplay(error, unfairness=unfairness).plot(ax)
    assert title_of(ax) == title


def test_methods_are_told_apart_without_colour(ax):
    names = [f"m{i}" for i in range(8)]
    display = FairnessAccuracyDisplay(
        {name: [0.8, 0.9] for name in names},
        unfairness={name: [0.9, 0.8] for name in names},
    ).plot(ax)
    looks = {
        (line.get_marker(), line.get_markerfacecolor() == "white")
        for line in display.lines_.values()
    }
    assert len(looks) == 8


def test_axes_and_legend(ax):
    display = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS).plot(ax)
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    assert ax.get_xlabel() == "KS distance between groups"
    assert ax.get_ylabel() == "mean squared error"
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["direct", "plain"]
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > ax.get_window_extent().x1
    legend.remove()
    display.plot(ax, legend=False, linewidth=4.5)
    assert ax.get_legend() is None
    assert display.lines_["direct"].get_linewidth() == 4.5


def records():
    return [
        {
            "method": name,
            "setting": setting,
            "mse": ERROR[name][i, split],
            "ks": UNFAIRNESS[name][i, split],
        }
        for split in range(5)
        for name in ERROR
        for i, setting in reversed(list(enumerate(SETTINGS[name])))
    ]


@pytest.mark.parametrize("form", ["records", "columns", "frame"])
def test_from_results(ax, form):
    results = records()
    if form != "records":
        results = {key: [row[key] for row in results] for key in results[0]}
    if form == "frame":
        results = pytest.importorskip("pandas").DataFrame(results)
    found = FairnessAccuracyDisplay.from_results(results, ax=ax)
    expected = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS)
    assert list(found.means) == ["direct", "plain"]
    for name in ERROR:
        # The table has the settings from the largest to the smallest.
        np.testing.assert_allclose(found.means[name], expected.means[name])
        np.testing.assert_allclose(found.deviations[name], expected.deviations[name])
    assert [text.get_text() for text in ax.texts] == ["5", "15", "50"]
    np.testing.assert_allclose(ax.texts[2].xy, expected.means["direct"][2])
    assert found.ax_ is ax
    assert ax.get_ylabel() == "mean squared error"


def test_from_results_with_words_and_other_columns(ax):
    rows = [
        {"name": "a", "how": how, "mae": error, "gap": gap}
        for how, error, gap in [("weak", 0.1, 0.3), ("strong", 0.3, 0.1)]
    ]
    found = FairnessAccuracyDisplay.from_results(
        rows, method="name", setting="how", error="mae", unfairness="gap", ax=ax
    )
    np.testing.assert_allclose(found.means["a"], [[0.3, 0.1], [0.1, 0.3]])
    assert [text.get_text() for text in ax.texts] == ["weak", "strong"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gap", "mae")


def test_from_results_without_settings(ax):
    found = FairnessAccuracyDisplay.from_results(
        records(), setting=None, label_points=False, ax=ax
    )
    np.testing.assert_allclose(
        found.means["direct"], [[UNFAIRNESS["direct"].mean(), ERROR["direct"].mean()]]
    )
    assert not ax.texts


def test_makes_a_figure_and_changes_no_setting(ax, pyplot):
    before = dict(pyplot.rcParams)
    display = FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS).plot(ax)
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
        FairnessAccuracyDisplay(ERROR, unfairness=UNFAIRNESS).plot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unfairness": {"direct": [0.1, 0.2, 0.3]}}, "same methods"),
        ({"error": {}, "unfairness": {}}, "same methods"),
        ({"error": {"a": [0.1]}, "unfairness": {"a": [0.1, 0.2]}}, "differ in shape"),
        ({"error": {"a": [np.nan]}, "unfairness": {"a": [0.1]}}, "NaN or infinite"),
        ({"error": {"a": []}, "unfairness": {"a": []}}, "must have shape"),
        ({"point_labels": {"x": [1, 2, 3]}}, "unknown method, 'x'"),
        ({"point_labels": {"direct": [1, 2]}}, "must have 3 entries"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {"error": ERROR, "unfairness": UNFAIRNESS, **change}
    with pytest.raises(ValueError, match=message):
        FairnessAccuracyDisplay(arguments.pop("error"), **arguments)


def test_bad_results(ax):
    draw = FairnessAccuracyDisplay.from_results
    with pytest.raises(ValueError, match=r"row 0 .* no column 'gap'.*'unfairness'"):
        draw(records(), unfairness="gap", ax=ax)
    with pytest.raises(ValueError, match=r"row 2 .* no column 'mse'.*'error'"):
        draw([*records()[:2], {"method": "a", "setting": 1, "ks": 1}], ax=ax)
    with pytest.raises(ValueError, match="no rows"):
        draw([], ax=ax)
    with pytest.raises(ValueError, match=r"number of repeats: 5\.0 has 4"):
        draw([row for i, row in enumerate(records()) if i != 2], ax=ax)
