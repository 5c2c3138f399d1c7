"""Gaps among rows of one label, against loops over all thresholds and known values."""

from itertools import combinations

import numpy as np
import pytest

from scalefair.metrics import (
    partial_demographic_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
    partial_parity_gap,
    weak_partial_demographic_parity_gap,
)

WHOLE = (0.0, 1.0)


def brute_force(y, scores, groups, interval, labels, threshold=None, weights=None):
    """The definition: every threshold, every pair of groups, each label by itself."""
    low, high = interval
    weights = np.ones(len(y)) if weights is None else weights
    thresholds = np.append(scores, -np.inf) if threshold is None else [threshold]
    gap = 0.0
    for label in labels:
        for theta in thresholds:
            A = []
            for g in np.unique(groups):
                rows = (groups == g) & (y == label)
                P = weights[rows & (scores > theta)].sum() / weights[rows].sum()
                A.append((min(P, high) - min(P, low)) / (high - low))
            gap = max([gap, *(abs(a - b) for a, b in combinations(A, 2))])
    return gap


@pytest.mark.parametrize("interval", [WHOLE, (0.1, 0.4)])
@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.parametrize("kind", ["distinct", "ties", "weights"])
def test_definition(interval, threshold, kind):
    rng = np.random.default_rng(0)
    y, groups = rng.integers(0, 2, 90), rng.integers(0, 3, 90)
    y[:2], groups[:2], groups[2:] = [0, 1], 2, np.minimum(groups[2:], 1)  # one row each
    scores = rng.standard_normal(90) + y + 0.5 * groups
    scores = np.round(scores) if kind == "ties" else scores
    weights = rng.integers(1, 4, 90) * 0.5 if kind == "weights" else None
    options = {"threshold": threshold, "interval": interval, "sample_weight": weights}
    options["sensitive_features"] = groups
    for gap, labels in (
        (partial_equal_opportunity_gap, [1]),
        (partial_equalized_odds_gap, [0, 1]),
    ):
        expected = brute_force(y, scores, groups, interval, labels, threshold, weights)
        assert gap(y, scores, **options) == pytest.approx(expected, abs=1e-12)
        named = np.array(["no", "yes"])[y]
        assert gap(named, scores, **options) == gap(y, scores, **options)
    if weights is not None:  # a weight of two is a row that is there twice
        n = (2 * weights).astype(int)
        options |= {"sensitive_features": np.repeat(groups, n), "sample_weight": None}
        repeated = partial_equalized_odds_gap(y.repeat(n), scores.repeat(n), **options)
        assert repeated == pytest.approx(expected, abs=1e-12)


def test_names_of_one_gap():
    rng = np.random.default_rng(1)
    y, groups, scores = rng.integers(0, 2, 60), np.arange(60) % 2, rng.random(60)
    options = {"sensitive_features": groups, "interval": (0.1, 0.6)}
    gaps = {None: partial_demographic_parity_gap(scores, **options)}
    gaps["positive"] = partial_equal_opportunity_gap(y, scores, **options)
    gaps["label"] = partial_equalized_odds_gap(y, scores, **options)
    for given, gap in gaps.items():
        assert partial_parity_gap(scores, y_true=y, given=given, **options) == gap
    weak = weak_partial_demographic_parity_gap(scores, threshold=0.5, **options)
    assert partial_parity_gap(scores, threshold=0.5, **options) == weak
    # Of the rows of each label by themselves.
    by_label = [
        partial_demographic_parity_gap(
            scores[y == k], sensitive_features=groups[y == k], interval=(0.1, 0.6)
        )
        for k in (0, 1)
    ]
    assert gaps["positive"] == by_label[1]
    assert gaps["label"] == max(by_label) > min(by_label)


def test_labels_that_explain_all():
    # The groups differ in their shares of positives and in nothing else.
    y = np.repeat([1, 0, 1, 0], [40, 60, 20, 80])
    groups = np.repeat(["a", "b"], 100)
    scores = np.concatenate(
        [
            np.linspace(k, k + 0.9, n)
            for k, n in zip(y[[0, 40, 100, 120]], [40, 60, 20, 80], strict=True)
        ]
    )
    options = {"sensitive_features": groups}
    assert partial_demographic_parity_gap(scores, **options) >= 0.2
    # Steps of a row: 1/20 of the positives of the smaller group.
    assert partial_equalized_odds_gap(y, scores, **options) <= 0.05
    # Decisions that are right have no gap of either kind.
    assert partial_equalized_odds_gap(y, scores, threshold=0.95, **options) == 0.0
    assert weak_partial_demographic_parity_gap(
        scores, threshold=0.95, **options
    ) == pytest.approx(0.2)


def test_bad_input():
    y, scores, groups = [0, 1, 0, 0], [1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"]
    options = {"sensitive_features": groups}
    for gap in (partial_equal_opportunity_gap, partial_equalized_odds_gap):
        with pytest.raises(ValueError, match=r"\['b'\] have no positive samples"):
            gap(y, scores, **options)
        with pytest.raises(ValueError, match="two labels"):
            gap([0, 1, 2, 0], scores, **options)
        with pytest.raises(ValueError, match="3 labels and 4 scores"):
            gap(y[:3], scores, **options)
        with pytest.raises(ValueError, match="threshold must be a number"):
            gap([0, 1, 0, 1], scores, threshold="high", **options)
    y = [1, 1, 1, 0]
    assert (
        partial_equal_opportunity_gap(y, scores, **options) == 1.0
    )  # no negatives needed
    with pytest.raises(ValueError, match=r"\['a'\] have no negative samples"):
        partial_equalized_odds_gap(y, scores, **options)
    weights = [1, 1, 0, 1]
    with pytest.raises(ValueError, match=r"0 for all positive samples of 1 .*'b'"):
        partial_equal_opportunity_gap(y, scores, sample_weight=weights, **options)
    with pytest.raises(ValueError, match="given must be"):
        partial_parity_gap(scores, y_true=y, given="negative", **options)
    with pytest.raises(ValueError, match="pass them as y_true"):
        partial_parity_gap(scores, given="positive", **options)
