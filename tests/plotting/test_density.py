"""Both displays of densities: of scores and of outputs."""

import numpy as np
import pandas
import pytest
from scipy.stats import gaussian_kde, ks_2samp

from scalefair.metrics import partial_demographic_parity_gap, partial_parity_gap
from scalefair.plotting import OutputDensityDisplay, ScoreDensityDisplay

RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(400) < 0.3, "f", "m")
F = GROUPS == "f"
SCORES = RNG.standard_normal(400) + 0.7 * ~F
LABELS = np.where(RNG.random(400) < 0.3, "yes", "no")
AFTER = 0.2 * SCORES - 0.1 * ~F
MODELS = {"before": SCORES, "after": AFTER}
both = pytest.mark.parametrize(
    "display_class", [ScoreDensityDisplay, OutputDensityDisplay]
)


def draw(display_class, ax, values=SCORES, groups=GROUPS, **options):
    return display_class.from_predictions(
        values, sensitive_features=groups, ax=ax, **options
    )


def draw_scores(ax, *args, **options):
    return draw(ScoreDensityDisplay, ax, *args, **options)


def draw_outputs(ax, values=MODELS, *args, **options):
    return draw(OutputDensityDisplay, ax, values, *args, **options)


def drawn(display):
    """Densities and lines of each group, of the first model."""
    first = display.densities, display.lines_
    return first if display.densities.ndim == 2 else (first[0][0], first[1][0])


def ks(values):
    return ks_2samp(values[F], values[~F]).statistic


def styles(lines, *properties):
    """Different looks of lines, as matplotlib names their properties."""
    return {tuple(getattr(line, f"get_{p}")() for p in properties) for line in lines}


@both
def test_histograms(ax, display_class):
    display = draw(display_class, ax, kind="histogram", bins=20)
    assert display.grid[[0, -1]].tolist() == [SCORES.min(), SCORES.max()]
    for density, rows in zip(drawn(display)[0], (F, ~F), strict=True):
        expected, edges = np.histogram(SCORES[rows], display.grid, density=True)
        np.testing.assert_allclose(density, expected)
        assert len(edges) == 21
    inside = (SCORES >= 0) & (SCORES <= 1)  # edges of the user leave rows out
    density, _ = drawn(draw(display_class, ax, kind="histogram", bins=[0.0, 0.5, 1.0]))
    shares = [inside[F].mean(), inside[~F].mean()]
    np.testing.assert_allclose(density.sum(axis=1) * 0.5, shares)


@both
def test_kernel_densities(ax, display_class):
    display = draw(display_class, ax, kind="kde")
    for density, line, rows in zip(*drawn(display), (F, ~F), strict=True):
        kernel = gaussian_kde(SCORES[rows])
        np.testing.assert_allclose(density, kernel(display.grid))
        np.testing.assert_array_equal(line.get_xydata().T, [display.grid, density])
    # The grid reaches to where next to nothing is left.
    areas = display.densities.sum(axis=-1) * np.diff(display.grid)[0]
    np.testing.assert_allclose(areas, 1, atol=2e-3)


@both
def test_many_groups_and_equal_values(ax, display_class):
    groups = np.arange(400) % 6
    constant = np.where(groups == 3, 1.0, SCORES)
    display = draw(display_class, ax, constant, groups, kind="histogram")
    assert len(drawn(display)[1]) == 6
    for values, group in ((constant, 3), (SCORES * 1e-170, 0)):  # variance underflows
        with pytest.raises(ValueError, match=rf"Group {group} has no .*histogram"):
            draw(display_class, ax, values, groups, kind="kde")
    for values in (np.zeros(400), SCORES * 1e-170):
        display = draw(display_class, ax, values, groups, kind="histogram")
        assert np.isfinite(display.densities).all()


@pytest.mark.parametrize(
    ("n", "interval", "ranks"),
    [
        (10, (0.0, 1.0), (0, 9)),
        (100, (0.07, 0.29), (7, 28)),  # 100 * 0.29 is less than 29, by rounding
        (100, (0.29, 0.5), (29, 49)),
        (10, (0.05, 0.3), (0, 2)),
        (10, (0.51, 0.52), (5, 5)),
        (1, (0.2, 0.4), (0, 0)),
        (10, (1 - 1e-12, 1.0), (9, 9)),  # rounds to all ranks
    ],
)
def test_score_ranges(ax, n, interval, ranks):
    scores = np.tile(np.arange(n)[::-1], 2).astype(float)  # rank 0 has n - 1
    groups = np.repeat(["a", "b"], n)
    display = draw_scores(ax, scores, groups, interval=interval)
    expected = [n - 1 - ranks[1], n - 1 - ranks[0]]
    np.testing.assert_array_equal(display.score_ranges, [expected, expected])


def test_the_interval_is_marked(ax):
    display = draw_scores(ax, interval=(0.1, 0.4), threshold=0.25, name="plain")
    for limits, bar in zip(display.score_ranges, display.bars_, strict=True):
        assert bar.get_xdata().tolist() == limits.tolist()
    assert len(styles(display.lines_, "linestyle")) == 2
    assert len(styles(display.marks_, "hatch")) == 2
    assert display.threshold_line_.get_xdata()[0] == 0.25
    options = {"sensitive_features": GROUPS, "interval": (0.1, 0.4)}
    gap = partial_demographic_parity_gap(SCORES, **options)
    assert ax.get_title() == f"plain: gap {gap:.3f} in ranks 0.1 to 0.4 (hatched)"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("score", "density")
    entries = [t.get_text() for t in ax.get_legend().get_texts()]
    assert entries == ["f", "m", "threshold"]


def test_each_attribute_has_densities(ax):
    people = pandas.DataFrame({"sex": GROUPS, "age": np.arange(400) % 2})
    display = draw_scores(ax, groups=people, attributes="each")
    assert display.groups.tolist() == ["sex f", "sex m", "age 0", "age 1"]
    gap = partial_parity_gap(SCORES, sensitive_features=people, attributes="each")
    assert display.gap == pytest.approx(gap)
    alone = draw_scores(ax, bins=display.grid)
    np.testing.assert_allclose(display.densities[:2], alone.densities)


@pytest.mark.parametrize(
    ("given", "labels"), [("positive", ["yes"]), ("label", ["yes", "no"])]
)
def test_densities_of_the_rows_of_a_label(ax, given, labels):
    display = draw_scores(ax, y_true=LABELS, given=given, bins=7)
    sets = [(group, label) for label in labels for group in "fm"]
    names = [f"{group}, labelled {label}" for group, label in sets]
    assert display.groups.tolist() == names
    for density, (group, label) in zip(display.densities, sets, strict=True):
        scores = SCORES[(group == GROUPS) & (label == LABELS)]
        expected = np.histogram(scores, display.grid, density=True)[0]
        np.testing.assert_allclose(density, expected)
    gaps = [
        partial_demographic_parity_gap(SCORES[rows], sensitive_features=GROUPS[rows])
        for rows in (label == LABELS for label in labels)
    ]
    assert display.gap == pytest.approx(max(gaps))


def test_titles_of_scores(ax):
    display = draw_scores(ax, linewidth=6)
    assert display.threshold_line_ is None
    assert display.lines_[0].get_linewidth() == 6
    assert ax.get_title() == f"gap {ks(SCORES):.3f}"
    draw_scores(ax, SCORES, np.arange(400) % 3)
    assert ax.get_title().startswith("largest gap ")
    names = ("densities", "groups", "score_ranges")
    parts = {name: vars(display)[name] for name in names}  # whose gap is not given
    for interval, title in (((0.1, 0.4), "hatched: ranks 0.1 to 0.4"), ((0, 1), "")):
        ScoreDensityDisplay(display.grid, interval=interval, **parts).plot(ax)
        assert ax.get_title() == title


def test_regressors_side_by_side(figure):
    axes = figure.subplots(1, 2, sharey=True)
    display = draw_outputs(axes)
    np.testing.assert_allclose(display.distances, [ks(SCORES), ks(AFTER)])
    for i, (ax, name) in enumerate(zip(axes, MODELS, strict=True)):
        assert ax.get_title() == f"{name}, KS = {display.distances[i]:.3f}"
        assert ax.get_lines() == display.lines_[i]
        # Of both axes, to be compared.
        assert ax.get_ylim() == (0, 1.05 * display.densities.max())
    names = [text.get_text() for text in axes[1].get_legend().get_texts()]
    assert names == ["f", "m"]


def test_regressors_overlaid(ax):
    display = draw_outputs(ax)
    before, after = display.lines_
    # A regressor is told by its line, and a group by its colour and marker.
    assert styles(before, "color", "marker") == styles(after, "color", "marker")
    assert len(styles(before, "color", "marker")) == 2
    assert styles(before, "linestyle") != styles(after, "linestyle")
    assert display.areas_ == [[], []]
    first, second = (f"{distance:.3f}" for distance in display.distances)
    assert ax.get_title() == f"KS distance: before {first}, after {second}"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["f", "m", "regressor", "before", "after"]


def test_one_regressor_and_what_it_predicts(ax):
    for name, title in ((None, "KS = {:.3f}"), ("net", "net, KS = {:.3f}")):
        display = draw_outputs(ax, SCORES, name=name, linewidth=6)
        assert ax.get_title() == title.format(ks(SCORES))
        assert display.lines_[0][0].get_linewidth() == 6
    column = draw_outputs(ax, SCORES[:, None])  # as some regressors return it
    np.testing.assert_array_equal(column.densities, display.densities)
    series = pandas.Series(SCORES, name="wage in dollars")
    for values, options, name in [
        (SCORES, {"output_name": "grade (points)"}, "grade (points)"),
        (series, {}, "wage in dollars"),
        ({"before": SCORES, "after": series}, {}, "wage in dollars"),
        (series.rename(3), {}, "output"),
    ]:
        draw_outputs(ax, values, **options)
        assert ax.get_xlabel() == name


@both
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "violin"}, "kind must be 'histogram' or 'kde'"),
        ({"values": np.full(400, np.inf)}, "NaN or infinite, the first at position 0"),
        ({"values": {"a": SCORES, "b": SCORES[1:]}}, "some have 399 and some 400"),
        ({"values": np.zeros((400, 2))}, r"shape \(n_samples,\), got \(400, 2\)"),
        ({"values": {}}, "at least one model"),
        ({"values": MODELS, "name": "x"}, "name applies to a single"),
    ],
)
def test_bad_values(ax, display_class, options, message):
    with pytest.raises(ValueError, match=message):
        draw(display_class, ax, **options)


def test_bad_values_of_one_display(figure):
    ax = figure.subplots()
    with pytest.raises(ValueError, match="for one model"):
        draw_scores(ax, MODELS)
    with pytest.raises(ValueError, match=r"y_pred of 'a' has .* infinite"):
        draw_outputs(ax, {"a": np.full(400, np.inf)})
    with pytest.raises(ValueError, match=r"one for each of the 2 regressors, got 3"):
        draw_outputs(figure.subplots(1, 3))
