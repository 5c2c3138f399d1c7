from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from scalefair.metrics import (
    partial_demographic_parity_gap,
    weak_partial_demographic_parity_gap,
)

INTERVALS = [(0.0, 1.0), (0.05, 0.3), (0.0, 0.25), (0.7, 1.0), (0.3, 0.31)]


def share_above(scores, threshold, alpha, beta):
    """A_k of one group, from its definition."""
    rate = sum(s > threshold for s in scores) / len(scores)
    return (min(rate, beta) - min(rate, alpha)) / (beta - alpha)


def gap_at(scores, groups, threshold, interval):
    shares = [
        share_above([s for s, g in zip(scores, groups, strict=True) if g == k], *args)
        for k in sorted(set(groups))
        for args in [(threshold, *interval)]
    ]
    return max(abs(a - b) for a in shares for b in shares)


def brute_force_gap(scores, groups, interval):
    """Largest gap over all thresholds at, between and outside the scores."""
    levels = sorted(set(scores))
    between = [(a + b) / 2 for a, b in pairwise(levels)]
    thresholds = [levels[0] - 1, *levels, *between, levels[-1] + 1]
    return max(gap_at(scores, groups, t, interval) for t in thresholds)


@st.composite
def scored_groups(draw):
    """Scores with ties, and groups of any size, each of two or more with a row."""
    n = draw(st.integers(2, 30))
    n_levels = draw(st.integers(1, 12))
    scores = draw(st.lists(st.integers(0, n_levels), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    groups[:2] = [0, 1]
    return [float(s) for s in scores], groups


@st.composite
def intervals(draw):
    # Multiples of 1/24 meet the shares of small groups exactly.
    alpha, beta = sorted(
        draw(st.lists(st.integers(0, 24), min_size=2, max_size=2, unique=True))
    )
    return alpha / 24, beta / 24


def test_known_answer():
    scores = [4, 3, 2, 1, 4, 3, 0, 0]
    groups = ["a"] * 4 + ["b"] * 4
    gap = partial_demographic_parity_gap
    assert gap(scores, sensitive_features=groups) == 0.5
    assert gap(scores, sensitive_features=groups, interval=(0.0, 0.5)) == 0
    assert gap(scores, sensitive_features=groups, interval=(0.5, 1.0)) == 1
    # Between 0 and 1, A is 1 in a and 1/3 in b.
    upper = gap(scores, sensitive_features=groups, interval=(0.25, 1.0))
    assert upper == pytest.approx(2 / 3)


@settings(max_examples=200, deadline=None)
@given(scored_groups(), intervals())
def test_equals_the_definition(case, interval):
    scores, groups = case
    gap = partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=interval
    )
    assert isinstance(gap, float)
    assert gap == pytest.approx(brute_force_gap(scores, groups, interval), abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(scored_groups(), intervals(), st.integers(-1, 13))
def test_weak_gap_equals_the_definition(case, interval, threshold):
    scores, groups = case
    weak = weak_partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=interval, threshold=threshold
    )
    assert isinstance(weak, float)
    expected = gap_at(scores, groups, threshold, interval)
    assert weak == pytest.approx(expected, abs=1e-12)
    strong = partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=interval
    )
    assert weak <= strong + 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_whole_interval_is_kolmogorov_smirnov(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 40, 2)
    groups = np.repeat([0, 1], sizes)
    scores = rng.integers(0, rng.integers(1, 30), sizes.sum()) / 3
    distance = ks_2samp(
        scores[groups == 0], scores[groups == 1], method="asymp"
    ).statistic
    gap = partial_demographic_parity_gap(scores, sensitive_features=groups)
    assert gap == pytest.approx(distance, abs=1e-12)


def test_kolmogorov_smirnov_of_many_scores():
    rng = np.random.default_rng(0)
    groups = rng.random(30_000) < 0.2
    scores = rng.standard_normal(30_000) + 0.5 * groups
    gap = partial_demographic_parity_gap(scores, sensitive_features=groups)
    expected = ks_2samp(scores[groups], scores[~groups], method="asymp").statistic
    assert gap == pytest.approx(expected, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(scored_groups(), intervals(), st.randoms(use_true_random=False))
def test_unchanged_by_order_names_and_scale(case, interval, random):
    scores, groups = case
    order = list(range(len(scores)))
    random.shuffle(order)
    gaps = [
        partial_demographic_parity_gap(s, sensitive_features=g, interval=interval)
        for s, g in [
            (scores, groups),
            ([scores[i] for i in order], [groups[i] for i in order]),
            (scores, [f"group {9 - g}" for g in groups]),
            (np.arctan(scores), groups),
            (np.float32(scores), groups),
            (np.exp(scores), groups),
        ]
    ]
    assert gaps == [gaps[0]] * len(gaps)


@settings(max_examples=50, deadline=None)
@given(scored_groups())
def test_no_gap_between_copies(case):
    scores = case[0]
    twins = scores * 3
    groups = np.repeat(["a", "b", "c"], len(scores))
    for interval in INTERVALS:
        gap = partial_demographic_parity_gap(
            twins, sensitive_features=groups, interval=interval
        )
        assert gap == 0


@pytest.mark.parametrize("interval", INTERVALS)
def test_constant_scores_have_no_gap(interval):
    groups = ["a", "b", "b", "c"]
    for gap in (partial_demographic_parity_gap, weak_partial_demographic_parity_gap):
        assert gap([1.0] * 4, sensitive_features=groups, interval=interval) == 0


@pytest.mark.parametrize("interval", INTERVALS)
def test_separated_groups_have_gap_one(interval):
    groups = np.repeat([0, 1, 2], 20)
    scores = 100.0 * groups + np.tile(np.arange(20), 3)
    for gap in (
        partial_demographic_parity_gap(
            scores, sensitive_features=groups, interval=interval
        ),
        weak_partial_demographic_parity_gap(
            scores, sensitive_features=groups, interval=interval, threshold=50.0
        ),
    ):
        assert gap == 1


def test_groups_of_one_row():
    gap = partial_demographic_parity_gap
    assert gap([1.0, 2.0], sensitive_features=[0, 1]) == 1
    assert gap([1.0, 1.0], sensitive_features=[0, 1], interval=(0.2, 0.4)) == 0
    scores = [0.0, 1.0, 2.0, 3.0, 1.5]
    groups = [0, 0, 0, 0, 1]
    assert gap(scores, sensitive_features=groups) == 0.5
    # A group of one row passes from 0 to 1 in a single step.
    assert gap(scores, sensitive_features=groups, interval=(0.6, 0.7)) == 1


def test_weak_gap_counts_scores_above_the_threshold_only():
    scores, groups = [0.0, 1.0, 0.0, 0.5], ["a", "a", "b", "b"]
    gap = weak_partial_demographic_parity_gap
    assert gap(scores, sensitive_features=groups) == 0
    assert gap(scores, sensitive_features=groups, threshold=0.5) == 0.5


def test_infinite_scores_are_the_ends_of_the_ranks():
    scores = np.array([np.inf, 1.0, -np.inf, 2.0, 1.0, -np.inf])
    groups = [0, 0, 0, 1, 1, 1]
    finite = [3.0, 1.0, 0.0, 2.0, 1.0, 0.0]
    assert partial_demographic_parity_gap(
        scores, sensitive_features=groups
    ) == partial_demographic_parity_gap(finite, sensitive_features=groups)


def test_many_groups():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(3000) % 700)
    scores = rng.integers(0, 5, 3000) + groups % 3 / 10
    gap = partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=(0.2, 0.6)
    )
    levels = np.unique(scores)
    rates = np.array([(scores[groups == g, None] > levels).mean(0) for g in range(700)])
    shares = np.clip((rates - 0.2) / 0.4, 0, 1)
    assert gap == pytest.approx(np.ptp(shares, axis=0).max(), abs=1e-12)
    assert gap < 1 or np.ptp(shares, axis=0).max() == 1


def test_more_groups_than_16_bits_count():
    groups = np.arange(140_000) // 2  # every group of one row at 0 and one at 1
    scores = np.arange(140_000) % 2
    assert partial_demographic_parity_gap(scores, sensitive_features=groups) == 0
    codes = np.arange(140_000)
    assert partial_demographic_parity_gap(scores, sensitive_features=codes) == 1


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        pd.Series,
        lambda v: pd.Series(v, index=range(7, 7 + len(v))),
        pd.DataFrame,
        lambda v: np.array(v, dtype=object),
    ],
)
def test_kinds_of_input(convert):
    scores, groups = [4, 3, 2, 1], ["m", "f", "m", "f"]
    for gap in (partial_demographic_parity_gap, weak_partial_demographic_parity_gap):
        assert gap(convert(scores), sensitive_features=convert(groups)) == gap(
            scores, sensitive_features=groups
        )


@pytest.mark.parametrize(
    "gap", [partial_demographic_parity_gap, weak_partial_demographic_parity_gap]
)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_score": [1.0, np.nan, 2.0]}, "NaN"),
        ({"y_score": [[1.0, 2.0]] * 3}, "column of one class"),
        ({"y_score": []}, "empty"),
        ({"y_score": ["high", "low", "low"]}, "real numbers"),
        ({"y_score": [1.0, None, 2.0]}, r"real numbers|NaN"),
        ({"y_score": np.array([1j, 0, 1])}, "real numbers"),
        ({"y_score": [1.0, 2.0]}, "one group per sample"),
        ({"sensitive_features": [0, 0, 0]}, "only one: 0"),
        ({"sensitive_features": ["a", None, "b"]}, "missing"),
        ({"interval": (0.3, 0.3)}, "alpha < beta"),
        ({"interval": (0.5, 0.3)}, "alpha < beta"),
        ({"interval": (-0.1, 0.3)}, "alpha < beta"),
        ({"interval": (0.5, 1.1)}, "alpha < beta"),
        ({"interval": (np.nan, 1.0)}, "alpha < beta"),
        ({"interval": 0.3}, "two numbers"),
        ({"interval": (0.1, 0.2, 0.3)}, "two numbers"),
        ({"interval": ("low", "high")}, "two numbers"),
    ],
)
def test_bad_input(gap, change, message):
    arguments = {"y_score": [1.0, 2.0, 3.0], "sensitive_features": [0, 1, 1], **change}
    with pytest.raises(ValueError, match=message):
        gap(arguments.pop("y_score"), **arguments)


@pytest.mark.parametrize("threshold", [np.nan, None, "0.5"])
def test_threshold_is_a_number(threshold):
    with pytest.raises(
        ValueError, match=f"threshold must be a number, got {threshold!r}"
    ):
        weak_partial_demographic_parity_gap(
            [1.0, 2.0], sensitive_features=[0, 1], threshold=threshold
        )


@pytest.mark.parametrize("n_groups", [2, 3])
def test_with_metric_frame(n_groups):
    fairlearn = pytest.importorskip("fairlearn.metrics", reason="needs fairlearn")
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(300)
    groups = rng.integers(0, n_groups, 300)
    region = rng.choice(["north", "south"], 300)

    def gap(y_true, y_score, sensitive_features):
        return partial_demographic_parity_gap(
            y_score, sensitive_features=sensitive_features, interval=(0.05, 0.3)
        )

    frame = fairlearn.MetricFrame(
        metrics=gap,
        y_true=np.zeros(300),
        y_pred=scores,
        sensitive_features=region,
        sample_params={"sensitive_features": groups},
    )
    for place in ("north", "south"):
        rows = region == place
        assert frame.by_group[place] == partial_demographic_parity_gap(
            scores[rows], sensitive_features=groups[rows], interval=(0.05, 0.3)
        )

    def share(y_true, y_score):
        return share_above(np.asarray(y_score), 0.2, 0.05, 0.3)

    frame = fairlearn.MetricFrame(
        metrics=share, y_true=np.zeros(300), y_pred=scores, sensitive_features=groups
    )
    assert frame.difference() == pytest.approx(
        weak_partial_demographic_parity_gap(
            scores, sensitive_features=groups, interval=(0.05, 0.3), threshold=0.2
        )
    )
