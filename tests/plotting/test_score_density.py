import numpy as np
import pytest
from scipy.stats import gaussian_kde, ks_2samp
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import ScoreDensityDisplay

RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(400) < 0.3, "f", "m")
F = GROUPS == "f"
SCORES = RNG.standard_normal(400) + 0.7 * (GROUPS == "m")


def draw(ax, scores=SCORES, groups=GROUPS, **options):
    return ScoreDensityDisplay.from_predictions(
        scores, sensitive_features=groups, ax=ax, **options
    )


def test_histograms(ax):
    display = draw(ax, bins=20)
    for g, group in enumerate(("f", "m")):
        expected, edges = np.histogram(
            SCORES[group == GROUPS], bins=display.grid, density=True
        )
        np.testing.assert_allclose(display.densities[g], expected)
        assert len(edges) == 21
        # The line is the outline of the bars.
        x, y = display.lines_[g].get_xydata().T
        np.testing.assert_allclose(x, np.repeat(edges, 2))
        np.testing.assert_allclose(y[1:-1:2], expected)
        np.testing.assert_allclose(y[2:-1:2], expected)
        assert y[0] == y[-1] == 0
    assert display.grid[0] == SCORES.min()
    assert display.grid[-1] == SCORES.max()


def test_edges_of_the_user_leave_rows_out_of_the_area(ax):
    display = draw(ax, bins=[0.0, 0.5, 1.0])
    inside = (SCORES >= 0) & (SCORES <= 1)
    for g, group in enumerate(("f", "m")):
        share = inside[group == GROUPS].mean()
        assert display.densities[g].sum() * 0.5 == pytest.approx(share)


def test_kernel_densities(ax):
    display = draw(ax, kind="kde")
    for g, group in enumerate(("f", "m")):
        kernel = gaussian_kde(SCORES[group == GROUPS])
        np.testing.assert_allclose(display.densities[g], kernel(display.grid))
        np.testing.assert_array_equal(
            display.lines_[g].get_xydata()[:, 1], display.densities[g]
        )
    steps = np.diff(display.grid)
    areas = (display.densities[:, 1:] * steps).sum(axis=1)
    np.testing.assert_allclose(areas, 1, atol=2e-3)


@pytest.mark.parametrize(
    ("n", "interval", "ranks"),
    [
        (10, (0.0, 1.0), (0, 9)),
        (10, (0.0, 0.3), (0, 2)),
        (100, (0.07, 0.29), (7, 28)),  # 100 * 0.29 is less than 29, by rounding
        (100, (0.29, 0.5), (29, 49)),
        (10, (0.7, 1.0), (7, 9)),
        (10, (0.05, 0.3), (0, 2)),
        (10, (0.51, 0.52), (5, 5)),
        (1, (0.2, 0.4), (0, 0)),
        (10, (1 - 1e-12, 1.0), (9, 9)),  # rounds to all ranks
    ],
)
def test_score_ranges(ax, n, interval, ranks):
    scores = np.concatenate([RNG.permutation(n) * 2.0, [5.0, 6.0]])
    groups = np.repeat(["a", "b"], [n, 2])
    display = draw(ax, scores, groups, interval=interval)
    descending = np.arange(n)[::-1] * 2.0
    first, last = ranks
    assert display.score_ranges[0].tolist() == [descending[last], descending[first]]


def test_artists(ax):
    display = draw(ax, interval=(0.1, 0.4), threshold=0.25, name="plain")
    assert (display.ax_, display.figure_) == (ax, ax.figure)
    for g in range(2):
        x, y = display.bars_[g].get_data()
        np.testing.assert_allclose(x, display.score_ranges[g])
        assert max(y) < 0
        assert min(y) > ax.get_ylim()[0]
        corners = np.vstack([p.vertices for p in display.marks_[g].get_paths()])
        assert corners[:, 0].min() == pytest.approx(display.score_ranges[g, 0])
        assert corners[:, 0].max() == pytest.approx(display.score_ranges[g, 1])
    assert display.bars_[0].get_ydata()[0] != display.bars_[1].get_ydata()[0]
    assert display.marks_[0].get_hatch() != display.marks_[1].get_hatch()
    styles = {line.get_linestyle() for line in display.lines_}
    assert len(styles) == 2
    assert display.threshold_line_.get_xdata()[0] == 0.25
    gap = partial_demographic_parity_gap(
        SCORES, sensitive_features=GROUPS, interval=(0.1, 0.4)
    )
    assert ax.get_title() == f"plain: gap {gap:.3f} in ranks 0.1 to 0.4 (hatched)"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("score", "density")
    assert min(ax.get_yticks()) >= 0  # the bars lie below, where no density is
    legend = ax.get_legend()
    assert [t.get_text() for t in legend.get_texts()] == ["f", "m", "threshold"]
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().x0 > ax.get_window_extent().x1


def test_marked_area_is_the_share_of_the_interval(ax):
    # Evenly spread scores: the density is flat, the area a rectangle.
    scores = np.tile((np.arange(1000) + 0.5) / 1000, 2)
    display = draw(
        ax,
        scores,
        np.repeat([0, 1], 1000),
        interval=(0.2, 0.5),
        bins=np.linspace(0, 1, 11),
    )
    low, high = display.score_ranges[0]
    assert high - low == pytest.approx(0.3, abs=0.002)
    np.testing.assert_allclose(display.densities, 1)
    [path] = display.marks_[0].get_paths()
    assert path.vertices[:, 1].max() == pytest.approx(1)


def test_options(ax):
    display = draw(ax, legend=False, linewidth=6)
    assert ax.get_legend() is None
    assert display.threshold_line_ is None
    assert display.lines_[0].get_linewidth() == 6
    assert ax.get_title() == f"gap {ks_2samp(SCORES[F], SCORES[~F]).statistic:.3f}"


def test_title_without_a_gap(ax):
    made = draw(ax, interval=(0.1, 0.4))
    for name, interval, title in [
        (None, (0.1, 0.4), "hatched: ranks 0.1 to 0.4"),
        ("plain", (0.1, 0.4), "plain: hatched: ranks 0.1 to 0.4"),
        ("plain", (0.0, 1.0), "plain"),
        (None, (0.0, 1.0), ""),
    ]:
        ScoreDensityDisplay(
            made.grid,
            densities=made.densities,
            groups=made.groups,
            score_ranges=made.score_ranges,
            interval=interval,
            name=name,
        ).plot(ax)
        assert ax.get_title() == title


def test_equal_groups_have_no_gap(ax):
    draw(ax, np.tile(SCORES, 2), np.repeat(["f", "m"], 400), interval=(0.1, 0.4))
    assert ax.get_title() == "gap 0.000 in ranks 0.1 to 0.4 (hatched)"


def test_many_groups_and_equal_scores(ax):
    groups = np.arange(400) % 6
    display = draw(ax, np.where(groups == 3, 1.0, SCORES), groups)
    assert len(display.lines_) == 6
    assert ax.get_title().startswith("largest gap ")
    with pytest.raises(
        ValueError, match=r"Group .*3.* has no kernel density.*histogram"
    ):
        draw(ax, np.where(groups == 3, 1.0, SCORES), groups, kind="kde")
    display = draw(ax, np.zeros(400), groups)
    assert np.isfinite(display.densities).all()


class GroupAware(LogisticRegression):
    interval = (0.1, 0.5)

    def decision_function(self, X, *, sensitive_features=None):
        return super().decision_function(X) + 3 * (sensitive_features == "f")


def test_from_estimator(ax):
    X, y = SCORES[:, None], SCORES > 0
    model = GroupAware()
    with pytest.raises(NotFittedError):
        ScoreDensityDisplay.from_estimator(model, X, sensitive_features=GROUPS, ax=ax)
    model.fit(X, y)
    display = ScoreDensityDisplay.from_estimator(
        model, X, sensitive_features=GROUPS, ax=ax
    )
    assert ax.get_title().startswith("GroupAware: gap 0.")
    assert ax.get_title().endswith(" in ranks 0.1 to 0.5 (hatched)")
    scores = model.decision_function(X, sensitive_features=GROUPS)
    expected = draw(ax, scores, interval=(0.1, 0.5))
    np.testing.assert_array_equal(display.densities, expected.densities)
    np.testing.assert_array_equal(display.score_ranges, expected.score_ranges)
    plain = LogisticRegression().fit(X, y)
    display = ScoreDensityDisplay.from_estimator(
        plain, X, sensitive_features=GROUPS, ax=ax, name="x"
    )
    assert ax.get_title().startswith("x: gap 0.")
    assert display.interval == (0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "violin"}, "kind must be 'histogram' or 'kde'"),
        ({"interval": (0.5, 0.2)}, "0 <= alpha < beta <= 1"),
        ({"groups": ["a"] * 400}, "only one group"),
        ({"scores": {"a": SCORES, "b": SCORES}}, "for one model"),
        ({"groups": GROUPS[1:]}, "399 groups for 400 samples"),
        ({"scores": np.full(400, np.inf)}, "NaN or infinite, the first at position 0"),
    ],
)
def test_bad_scores(ax, options, message):
    with pytest.raises(ValueError, match=message):
        draw(ax, **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"densities": [[1, 1], [1, 1]]}, r"densities must have shape \(2, 4\)"),
        ({"densities": [1, 1, 1]}, "densities must have shape"),
        ({"densities": np.ones((2, 5))}, r"got \(2, 5\)"),
        ({"groups": ["a"]}, "With 1 groups"),
        ({"score_ranges": [[0, 1]]}, r"score_ranges must have shape \(2, 2\)"),
    ],
)
def test_bad_arguments(change, message):
    arguments = {
        "densities": [[1, 1, 1], [1, 1, 1]],
        "groups": ["a", "b"],
        "score_ranges": [[0, 1], [0, 1]],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        ScoreDensityDisplay([0, 1, 2, 3], **arguments)
