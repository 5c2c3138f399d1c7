"""Displays of gaps among the rows of one label."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from scalefair.metrics import (
    partial_demographic_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
)
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
OF = {"sensitive_features": GROUPS, "interval": INTERVAL}
POSITIVE, NEGATIVE = LABELS == "yes", LABELS == "no"


class Classifier(BaseEstimator):
    """Scores are the only feature; what a display may take from it."""

    interval, kappa, given = INTERVAL, 0.2, "label"

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return np.where(X[:, 0] > 0, "yes", "no")


def gap_of(rows):
    of = {"sensitive_features": GROUPS[rows], "interval": INTERVAL}
    return partial_demographic_parity_gap(SCORES[rows], **of)


def test_rates(ax):
    model = {"sensitive_features": GROUPS, "y_true": LABELS, "ax": ax}
    display = GroupRateDisplay.from_estimator(Classifier(), SCORES[:, None], **model)
    assert display.kappa == 0.2
    assert display.gaps == {
        "Classifier, labelled yes": pytest.approx(gap_of(POSITIVE)),
        "Classifier, labelled no": pytest.approx(gap_of(NEGATIVE)),
    }
    of = {**OF, "y_true": LABELS, "ax": ax}
    [gap] = GroupRateDisplay.from_predictions(
        SCORES, given="positive", **of
    ).gaps.values()
    assert gap == pytest.approx(partial_equal_opportunity_gap(LABELS, SCORES, **OF))


@pytest.mark.parametrize("given", ["positive", "label"])
def test_densities(ax, given):
    display = ScoreDensityDisplay.from_predictions(
        SCORES, y_true=LABELS, given=given, bins=7, ax=ax, **OF
    )
    gap = {
        "positive": partial_equal_opportunity_gap,
        "label": partial_equalized_odds_gap,
    }
    assert display.gap == gap[given](LABELS, SCORES, **OF)
    names = ["f, labelled yes", "m, labelled yes", "f, labelled no", "m, labelled no"]
    rows = [(n[0] == GROUPS) & (n.endswith("yes") == POSITIVE) for n in names]
    n_sets = 2 if given == "positive" else 4
    assert display.groups.tolist() == names[:n_sets]
    for density, own in zip(display.densities, rows, strict=False):
        expected = np.histogram(SCORES[own], display.grid, density=True)[0]
        np.testing.assert_allclose(density, expected)


def test_front(ax):
    of = {"sensitive_features": GROUPS, "ax": ax}
    X = SCORES[:, None]
    display = ParetoFrontDisplay.from_estimator([Classifier()], X, LABELS, **of)
    [[fairness, _]] = display.means["Classifier"]
    assert fairness == pytest.approx(
        1 - partial_equalized_odds_gap(LABELS, SCORES, **OF)
    )
    display = ParetoFrontDisplay.from_estimator(
        [Classifier()], X, LABELS, given="positive", **of
    )
    [[fairness, _]] = display.means["Classifier"]
    gap = partial_equal_opportunity_gap(LABELS, SCORES, **OF)
    assert fairness == pytest.approx(1 - gap)


def test_bad_input(ax):
    draw = [GroupRateDisplay.from_predictions, ScoreDensityDisplay.from_predictions]
    for method in draw:
        with pytest.raises(ValueError, match="y_true"):
            method(SCORES, given="positive", ax=ax, **OF)
        with pytest.raises(ValueError, match="given"):
            method(SCORES, given="negative", y_true=LABELS, ax=ax, **OF)
        with pytest.raises(ValueError, match="y_true"):
            method(SCORES, given="label", y_true=LABELS[:9], ax=ax, **OF)
        alone = np.where(GROUPS == "f", "no", LABELS)
        with pytest.raises(
            ValueError, match=r"no positive samples|no rows, labelled yes"
        ):
            method(SCORES, given="positive", y_true=alone, ax=ax, **OF)
