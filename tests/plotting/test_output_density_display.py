import numpy as np
import pytest
from scipy.stats import gaussian_kde, ks_2samp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from scalefair.plotting import OutputDensityDisplay

RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(400) < 0.3, "f", "m")
BEFORE = RNG.standard_normal(400) + 0.7 * (GROUPS == "m")
AFTER = 0.2 * BEFORE - 0.1 * (GROUPS == "m")
MODELS = {"before": BEFORE, "after": AFTER}


def draw(ax, y_pred=MODELS, groups=GROUPS, **options):
    return OutputDensityDisplay.from_predictions(
        y_pred, sensitive_features=groups, ax=ax, **options
    )


def ks(y_pred):
    return ks_2samp(y_pred[GROUPS == "f"], y_pred[GROUPS == "m"]).statistic


def test_kernel_densities(figure):
    display = draw(figure.subplots(1, 2))
    for i, y_pred in enumerate(MODELS.values()):
        for g, group in enumerate(("f", "m")):
            expected = gaussian_kde(y_pred[group == GROUPS])(display.grid)
            np.testing.assert_allclose(display.densities[i, g], expected)
            np.testing.assert_array_equal(
                display.lines_[i][g].get_xydata(),
                np.column_stack([display.grid, display.densities[i, g]]),
            )
    areas = display.densities.sum(axis=-1) * np.diff(display.grid)[0]
    np.testing.assert_allclose(areas, 1, atol=2e-3)


def test_histograms_have_common_edges(figure):
    display = draw(figure.subplots(1, 2), kind="histogram", bins=20)
    assert display.grid[0] == min(BEFORE.min(), AFTER.min())
    assert display.grid[-1] == max(BEFORE.max(), AFTER.max())
    for i, y_pred in enumerate(MODELS.values()):
        for g, group in enumerate(("f", "m")):
            expected, edges = np.histogram(
                y_pred[group == GROUPS], display.grid, density=True
            )
            np.testing.assert_allclose(display.densities[i, g], expected)
            x, y = display.lines_[i][g].get_xydata().T
            np.testing.assert_allclose(x, np.repeat(edges, 2))
            np.testing.assert_allclose(y[1:-1:2], expected)
            assert y[0] == y[-1] == 0


def test_side_by_side(figure):
    axes = figure.subplots(1, 2, sharey=True)
    display = draw(axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_ is figure
    np.testing.assert_allclose(display.distances, [ks(BEFORE), ks(AFTER)])
    for i, (ax, name) in enumerate(zip(axes, MODELS, strict=True)):
        assert ax.get_title() == f"{name}, KS = {display.distances[i]:.3f}"
        assert ax.get_xlabel() == "output"
        assert ax.get_lines() == display.lines_[i]
        assert len({line.get_color() for line in display.lines_[i]}) == 2
        assert len({line.get_linestyle() for line in display.lines_[i]}) == 2
        for line, area in zip(display.lines_[i], display.areas_[i], strict=True):
            top = max(path.vertices[:, 1].max() for path in area.get_paths())
            assert top == line.get_ydata().max()
        # The highest density, wherever it is, can be seen, and axes be compared.
        low, high = ax.get_ylim()
        assert low == 0
        assert display.densities.max() < high < 1.2 * display.densities.max()
    legend = axes[1].get_legend()
    assert axes[0].get_legend() is None
    assert [text.get_text() for text in legend.get_texts()] == ["f", "m"]
    assert legend.get_title().get_text() == "group"
    assert (axes[0].get_ylabel(), axes[1].get_ylabel()) == ("density", "")
    figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > axes[1].get_window_extent().x1


def test_overlaid(figure):
    ax = figure.subplots()
    display = draw(ax)
    assert list(display.axes_) == [ax]
    lines = display.lines_
    assert ax.get_lines() == [*lines[0], *lines[1]]
    for i in range(2):  # a regressor is told by its line
        assert lines[i][0].get_linestyle() == lines[i][1].get_linestyle()
        # and a group by its colour and marker
        assert lines[0][i].get_color() == lines[1][i].get_color()
        assert lines[0][i].get_marker() == lines[1][i].get_marker()
    assert lines[0][0].get_linestyle() != lines[1][0].get_linestyle()
    assert lines[0][0].get_color() != lines[0][1].get_color()
    assert lines[0][0].get_marker() != lines[0][1].get_marker()
    assert display.areas_ == [[], []]
    first, second = (f"{distance:.3f}" for distance in display.distances)
    assert ax.get_title() == f"KS distance: before {first}, after {second}"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["f", "m", "regressor", "before", "after"]


@pytest.mark.parametrize(
    ("name", "title"), [(None, "KS = {:.3f}"), ("net", "net, KS = {:.3f}")]
)
def test_one_regressor(figure, name, title):
    ax = figure.subplots()
    display = draw(ax, BEFORE, name=name, legend=False, linewidth=6)
    assert ax.get_title() == title.format(ks(BEFORE))
    assert ax.get_legend() is None
    assert display.lines_[0][0].get_linewidth() == 6
    column = draw(ax, BEFORE[:, None])  # as some regressors return it
    np.testing.assert_array_equal(column.densities, display.densities)


def test_many_groups_and_equal_outputs(figure):
    groups = np.arange(400) % 3
    constant = np.where(groups == 2, 1.0, BEFORE)
    ax = figure.subplots()
    with pytest.raises(
        ValueError, match=r"Group .*2.* has no kernel density.*histogram"
    ):
        draw(ax, {"a": BEFORE, "b": constant}, groups)
    display = draw(ax, {"a": BEFORE, "b": constant}, groups, kind="histogram")
    assert [len(lines) for lines in display.lines_] == [3, 3]
    display = draw(ax, np.zeros(400), groups, kind="histogram")
    assert display.distances.tolist() == [0]
    assert np.isfinite(display.densities).all()


def test_the_axis_has_the_name_of_what_is_predicted(figure):
    ax = figure.subplots()
    draw(ax, BEFORE, output_name="grade (points)")
    assert ax.get_xlabel() == "grade (points)"
    X = BEFORE[:, None]
    model = LinearRegression().fit(X, AFTER)
    OutputDensityDisplay.from_estimator(
        model, X, sensitive_features=GROUPS, ax=ax, output_name="wage"
    )
    assert ax.get_xlabel() == "wage"
    series = pytest.importorskip("pandas").Series(BEFORE, name="wage in dollars")
    draw(ax, series)
    assert ax.get_xlabel() == "wage in dollars"
    draw(ax, {"before": BEFORE, "after": series})
    assert ax.get_xlabel() == "wage in dollars"
    draw(ax, series.rename(3))
    assert ax.get_xlabel() == "output"


def test_outputs_too_narrow_for_a_kernel(figure):
    tiny = BEFORE * 1e-170  # the variance underflows
    with pytest.raises(ValueError, match=r"Group 'f' .* values are all the same, or"):
        draw(figure.subplots(), tiny)
    draw(figure.subplots(), tiny, kind="histogram")


class GroupAware(LinearRegression):
    def predict(self, X, *, sensitive_features=None):
        return super().predict(X) + 3 * (sensitive_features == "f")


def test_from_estimator(figure):
    axes, X = figure.subplots(1, 2), BEFORE[:, None]
    plain, aware = LinearRegression().fit(X, AFTER), GroupAware()
    models = {"plain": plain, "aware": aware}
    with pytest.raises(NotFittedError):
        OutputDensityDisplay.from_estimator(models, X, sensitive_features=GROUPS)
    aware.fit(X, AFTER)
    display = OutputDensityDisplay.from_estimator(
        models, X, sensitive_features=GROUPS, ax=axes, kind="histogram"
    )
    expected = draw(
        axes,
        {
            "plain": plain.predict(X),
            "aware": aware.predict(X, sensitive_features=GROUPS),
        },
        kind="histogram",
    )
    assert display.names == ["plain", "aware"]
    np.testing.assert_array_equal(display.densities, expected.densities)
    np.testing.assert_array_equal(display.distances, expected.distances)
    for name, title in ((None, "LinearRegression"), ("x", "x")):
        OutputDensityDisplay.from_estimator(
            plain, X, sensitive_features=GROUPS, ax=axes[0], name=name
        )
        assert axes[0].get_title().startswith(f"{title}, KS = ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "violin"}, "kind must be 'histogram' or 'kde'"),
        ({"groups": ["a"] * 400}, "only one group"),
        ({"groups": GROUPS[1:]}, "399 groups for 400 samples"),
        ({"y_pred": np.full(400, np.nan)}, "y_pred has a value that is NaN"),
        ({"y_pred": {"a": np.full(400, np.inf)}}, "y_pred of 'a' has .* infinite"),
        ({"y_pred": {"a": BEFORE, "b": BEFORE[1:]}}, "some have 399 and some 400"),
        ({"y_pred": np.zeros((400, 2))}, "one-dimensional"),
        ({"y_pred": {}}, "at least one model"),
        ({"name": "x"}, "name applies to a single"),
    ],
)
def test_bad_outputs(figure, options, message):
    with pytest.raises(ValueError, match=message):
        draw(figure.subplots(), **options)


def test_axes_that_are_neither_one_nor_one_each(figure):
    with pytest.raises(ValueError, match=r"one for each of the 2 regressors, got 3"):
        draw(figure.subplots(1, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"densities": [[[1, 1], [1, 1]]]}, r"densities must have shape \(1, 2, 4\)"),
        ({"densities": [[1, 1, 1], [1, 1, 1]]}, "densities must have shape"),
        ({"groups": ["a"]}, "1 groups"),
        ({"names": ["x", "y"]}, r"must have shape \(2, 2, 4\)"),
        ({"distances": [0.1, 0.2]}, r"distances must have shape \(1,\)"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {
        "densities": [[[1, 1, 1], [1, 1, 1]]],
        "groups": ["a", "b"],
        "distances": [0.1],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        OutputDensityDisplay([0, 1, 2, 3], **arguments)
