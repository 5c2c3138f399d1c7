"""Displays of gaps among the rows of one label."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from scalefair.metrics import partial_demographic_parity_gap, partial_parity_gap
from scalefair.plotting import (
    GroupRateDisplay,
    ParetoFrontDisplay,
    ScoreDensityDisplay,
)

RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(200) < 0.4, "f", "m")
LABELS = np.where(RNG.random(200) < 0.3, "yes", "no")
SCORES = RNG.standard_normal(200) + (GROUPS == "m") + (LABELS == "yes")
INTERVAL = (0.1, 0.6)
OPTIONS = {"sensitive_features": GROUPS, "interval": INTERVAL}
X = SCORES[:, None]


class Classifier(LogisticRegression):
    """Its scores are in the order of the feature; displays take its settings."""

    interval, kappa, given = INTERVAL, 0.2, "label"


MODEL = Classifier().fit(X, LABELS)
conditions = pytest.mark.parametrize("given", ["positive", "label"])


def gap_of(label):
    """Gap among the rows of a label, by the metric without condition."""
    rows = label == LABELS
    return partial_demographic_parity_gap(
        SCORES[rows], sensitive_features=GROUPS[rows], interval=INTERVAL
    )


def test_rates(ax):
    options = {"sensitive_features": GROUPS, "y_true": LABELS, "ax": ax}
    display = GroupRateDisplay.from_estimator(MODEL, X, **options)
    assert display.kappa == 0.2
    assert display.gaps == {
        "Classifier, labelled yes": pytest.approx(gap_of("yes")),
        "Classifier, labelled no": pytest.approx(gap_of("no")),
    }
    display = GroupRateDisplay.from_estimator(MODEL, X, given="positive", **options)
    assert list(display.gaps.values()) == [pytest.approx(gap_of("yes"))]


@conditions
def test_densities(ax, given):
    display = ScoreDensityDisplay.from_predictions(
        SCORES, y_true=LABELS, given=given, bins=7, ax=ax, **OPTIONS
    )
    labels = ["yes"] if given == "positive" else ["yes", "no"]
    assert display.gap == pytest.approx(max(map(gap_of, labels)))
    sets = [(group, label) for label in labels for group in "fm"]
    names = [f"{group}, labelled {label}" for group, label in sets]
    assert display.groups.tolist() == names
    for density, (group, label) in zip(display.densities, sets, strict=True):
        scores = SCORES[(group == GROUPS) & (label == LABELS)]
        expected = np.histogram(scores, display.grid, density=True)[0]
        np.testing.assert_allclose(density, expected)


@conditions
@pytest.mark.parametrize("attributes", ["joint", "each"])
def test_front(ax, given, attributes):
    people = np.column_stack([GROUPS, np.arange(200) % 2])
    options = {"sensitive_features": people, "attributes": attributes}
    gap = partial_parity_gap(
        SCORES, y_true=LABELS, given=given, interval=INTERVAL, **options
    )
    if given != Classifier.given:
        options["given"] = given
    display = ParetoFrontDisplay.from_estimator([MODEL], X, LABELS, ax=ax, **options)
    assert display.means["Classifier"][0, 0] == pytest.approx(1 - gap)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": "positive"}, "y_true"),
        ({"given": "negative", "y_true": LABELS}, "given"),
        ({"given": "label", "y_true": LABELS[:9]}, "y_true"),
        (
            {"given": "positive", "y_true": np.where(GROUPS == "f", "no", LABELS)},
            "no positive samples|no rows, labelled yes",
        ),
    ],
)
@pytest.mark.parametrize("display", [GroupRateDisplay, ScoreDensityDisplay])
def test_bad_input(ax, display, options, message):
    with pytest.raises(ValueError, match=message):
        display.from_predictions(SCORES, ax=ax, **OPTIONS, **options)
