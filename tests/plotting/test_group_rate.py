"""Display of the rates of two groups."""

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair.linear_model import PartiallyFairClassifier
from scalefair.metrics import partial_demographic_parity_gap, partial_parity_gap
from scalefair.plotting import GroupRateDisplay, ScoreDensityDisplay
from scalefair.plotting._group_rate import allowed_region

RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(300) < 0.3, "f", "m")
SCORES = RNG.standard_normal(300) + 0.4 * (GROUPS == "m")
LABELS = np.where(RNG.random(300) < 0.3, "yes", "no")


def rates_above(scores, groups):
    """Rates at every threshold there is, one by one."""
    thresholds = [np.inf, *np.unique(scores)[::-1], -np.inf]
    parts = [scores[groups == g] for g in np.unique(groups)]
    return np.array([[(part > t).mean() for part in parts] for t in thresholds])


def draw(scores, groups, ax=None, **options):
    from matplotlib.figure import Figure

    return GroupRateDisplay.from_predictions(
        scores, sensitive_features=groups, ax=ax or Figure().subplots(), **options
    )


@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40),
    st.sampled_from([(0.0, 1.0), (0.2, 0.4), (0.5, 1.0)]),
)
@settings(max_examples=80, deadline=None)
def test_curve_passes_all_rates_and_no_others(rows, interval):
    scores = np.array([float(score) for score, _ in rows])
    groups = np.array([group for _, group in rows])
    if len(np.unique(groups)) < 2:
        return
    display = draw(scores, groups, interval=interval)
    [curve], [gap] = display.rates.values(), display.gaps.values()
    options = {"sensitive_features": groups, "interval": interval}
    assert gap == pytest.approx(partial_demographic_parity_gap(scores, **options))
    expected = rates_above(scores, groups)
    # Vertices are some of the rates, in their order; the others lie between.
    assert {tuple(p) for p in curve.tolist()} <= {tuple(p) for p in expected.tolist()}
    assert curve[[0, -1]].tolist() == [[0, 0], [1, 1]]
    # The position along the curve, which rises in both rates, gives the others.
    along = np.interp(expected.sum(axis=1), curve.sum(axis=1), curve[:, 0])
    np.testing.assert_allclose(along, expected[:, 0], atol=1e-12)


def test_straight_pieces_have_no_vertices():
    # Everyone of the first group is above everyone of the second.
    scores = np.concatenate([np.arange(50.0) + 100, np.arange(50.0)])
    [curve] = draw(scores, np.repeat(["a", "b"], 50)).rates.values()
    assert curve.tolist() == [[0, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize("kappa", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.3), (0.7, 1.0)])
def test_region_is_where_the_gap_is_small(interval, kappa):
    from matplotlib.path import Path

    low, high = interval
    corners = allowed_region(interval, kappa)
    points = RNG.random((4000, 2))
    A, B = points.clip(low, high).T
    excess = np.abs(A - B) - kappa * (high - low)
    clear = np.abs(excess) > 1e-9
    if kappa == 1:  # nothing is excluded
        clear = excess < 0
    inside = Path([*corners, corners[0]], closed=True).contains_points(points[clear])
    np.testing.assert_array_equal(inside, excess[clear] < 0)


def test_artists(ax):
    models = {"plain": SCORES, "fair": -SCORES}
    display = draw(models, GROUPS, ax, interval=(0.05, 0.3), kappa=0.1)
    for name, line in display.lines_.items():
        np.testing.assert_array_equal(line.get_xydata(), display.rates[name])
    assert len({line.get_linestyle() for line in display.lines_.values()}) == 2
    np.testing.assert_array_equal(display.parity_line_.get_xydata(), [[0, 0], [1, 1]])
    corners = display.region_.get_xy()[:-1]
    np.testing.assert_allclose(corners, allowed_region((0.05, 0.3), 0.1))
    assert ax.get_xlabel() == "rate of group f above the threshold"
    assert ax.get_ylabel() == "rate of group m above the threshold"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    gaps = [f"{name} (gap {gap:.3f})" for name, gap in display.gaps.items()]
    assert names == ["ranks 0.05 to 0.3", "gap at most 0.1", "equal rates", *gaps]


def test_title_has_the_gaps(ax):
    def title(names, **options):
        models = {name: SCORES * (name == "a") for name in names}
        draw(models, GROUPS, ax, **options)
        return ax.get_title()

    gap = partial_demographic_parity_gap(SCORES, sensitive_features=GROUPS)
    inside = partial_demographic_parity_gap(
        SCORES, sensitive_features=GROUPS, interval=(0.1, 0.3)
    )
    assert title("abc") == f"largest gap: a {gap:.3f}, b 0.000, c 0.000"
    assert title("abcd") == f"largest gaps: from b 0.000 to a {gap:.3f}"
    ranks = "in ranks 0.1 to 0.3"
    assert title("a", interval=(0.1, 0.3)) == f"largest gap {ranks}: a {inside:.3f}"


def test_pairs_of_many_groups():
    groups = np.arange(300) % 3
    display = draw(SCORES, groups, pair=(2, 0))
    assert display.groups.tolist() == [2, 0]
    kept = groups != 1
    swapped = draw(SCORES[kept], groups[kept]).rates["scores"]
    np.testing.assert_array_equal(display.rates["scores"], swapped[:, ::-1])
    with pytest.raises(ValueError, match=r"3 groups.*pair=\(0, 1\)"):
        draw(SCORES, groups)
    for pair in ((0, 0), (0, 5), (0,)):
        with pytest.raises(ValueError, match="pair must be two of the groups"):
            draw(SCORES, groups, pair=pair)


RACES = np.array(["asian", "black", "white"])[RNG.integers(0, 3, 300)]
PEOPLE = pandas.DataFrame({"sex": GROUPS, "race": RACES, "age": RNG.random(300) < 0.4})
PAIR = {"race": ("white", "asian")}


def test_each_attribute_has_a_curve():
    options = {"attributes": "each", "pair": PAIR, "interval": (0.1, 0.6)}
    models = {"plain": SCORES, "fair": -SCORES}
    display = draw(models, PEOPLE, **options)
    names = [f"{model}, {column}" for model in models for column in PEOPLE]
    assert list(display.gaps) == names
    assert display.groups.tolist() == ["f / white / False", "m / asian / True"]
    for name in PEOPLE:
        alone = draw(models, PEOPLE[name], pair=PAIR.get(name), interval=(0.1, 0.6))
        for model in models:
            curve = display.rates[f"{model}, {name}"]
            np.testing.assert_array_equal(curve, alone.rates[model])
    two = PEOPLE[["sex", "age"]]
    options["pair"] = None
    gap = partial_parity_gap(
        SCORES, sensitive_features=two, interval=(0.1, 0.6), attributes="each"
    )
    assert max(draw(SCORES, two, **options).gaps.values()) == pytest.approx(gap)
    labels = {"y_true": SCORES > 0, "given": "label"}
    gaps = draw(SCORES, two, **options, **labels).gaps
    assert "scores, age, labelled False" in gaps
    for people, pair, message in [
        (PEOPLE, None, r"3 groups of race, .*pair=\{'race': \('asian"),
        (PEOPLE, {"race": ("x", "white")}, "two of the groups of race"),
        (two.assign(age=1), None, r"Column age .* has only one group"),
    ]:
        with pytest.raises(ValueError, match=message):
            draw(SCORES, people, attributes="each", pair=pair)


def test_attributes_of_a_model(ax):
    model = PartiallyFairClassifier(kappa=0.9, attributes="each", interactions=False)
    two, X = PEOPLE[["sex", "age"]], SCORES[:, None]
    model.fit(X, SCORES > 0, sensitive_features=two)
    options = {"sensitive_features": two, "ax": ax}
    display = GroupRateDisplay.from_estimator(model, X, **options)
    names = [f"PartiallyFairClassifier, {name}" for name in two]
    assert list(display.gaps) == names
    options["pair"] = ("f, False", "m, True")
    display = GroupRateDisplay.from_estimator(model, X, attributes="joint", **options)
    assert display.groups.tolist() == ["f, False", "m, True"]


class WithSettings(LogisticRegression):
    interval, kappa = (0.1, 0.5), 0.2


PLAIN, SET, OTHER = LogisticRegression(), WithSettings(), WithSettings()
OTHER.interval = np.array([0.1, 0.6])


@pytest.mark.parametrize(
    ("models", "options", "interval", "kappa"),
    [
        ([PLAIN], {}, (0.0, 1.0), None),
        ([PLAIN, SET], {}, (0.1, 0.5), 0.2),
        ([SET, OTHER], {}, (0.0, 1.0), 0.2),  # they agree on one
        ([OTHER], {"interval": None}, (0.1, 0.6), 0.2),
        ([SET], {"interval": (0, 0.5), "kappa": 0.3}, (0, 0.5), 0.3),
    ],
)
def test_settings_on_which_models_agree(ax, models, options, interval, kappa):
    X = SCORES[:, None]
    fitted = {str(i): model.fit(X, SCORES > 0) for i, model in enumerate(models)}
    display = GroupRateDisplay.from_estimator(
        fitted, X, sensitive_features=GROUPS, ax=ax, **options
    )
    assert list(display.rates) == list(fitted)
    assert (display.interval, display.kappa) == (interval, kappa)


def test_rows_of_one_label(ax):
    """By the condition of a model, or by another one."""
    model = WithSettings().fit(SCORES[:, None], LABELS)
    model.given = "label"
    options = {"sensitive_features": GROUPS, "y_true": LABELS, "ax": ax}
    display = GroupRateDisplay.from_estimator(model, SCORES[:, None], **options)
    gaps = {
        f"WithSettings, labelled {label}": partial_demographic_parity_gap(
            SCORES[label == LABELS],
            sensitive_features=GROUPS[label == LABELS],
            interval=model.interval,
        )
        for label in ("yes", "no")
    }
    assert display.gaps == pytest.approx(gaps)
    options["given"] = "positive"
    display = GroupRateDisplay.from_estimator(model, SCORES[:, None], **options)
    assert [*display.gaps.values()] == pytest.approx([*gaps.values()][:1])


BAD_LABELS = [
    ({"given": "positive"}, "y_true"),
    ({"given": "negative", "y_true": LABELS}, "given"),
    ({"given": "label", "y_true": LABELS[:9]}, "y_true"),
    (
        {"given": "positive", "y_true": np.where(GROUPS == "f", "no", LABELS)},
        "no positive samples|no rows, labelled yes",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_LABELS)
@pytest.mark.parametrize("display", [GroupRateDisplay, ScoreDensityDisplay])
def test_labels_that_are_refused(ax, display, options, message):
    groups = {"sensitive_features": GROUPS}
    with pytest.raises(ValueError, match=message):
        display.from_predictions(SCORES, ax=ax, **groups, **options)


def test_models_without_scores(ax):
    X, model = SCORES[:, None], LinearRegression()
    with pytest.raises(ValueError, match="LinearRegression has no decision_function"):
        GroupRateDisplay.from_estimator(
            model.fit(X, SCORES), X, sensitive_features=GROUPS, ax=ax
        )
