"""Parity of scores and predictions: at all ranks, at some of them, at a threshold."""

from functools import partial
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from scalefair.metrics import (
    group_auc_gap,
    inter_group_pairwise_gap,
    intra_group_pairwise_gap,
    partial_demographic_parity_gap,
    statistical_parity_ks,
    weak_partial_demographic_parity_gap,
)

INTERVALS = [(0.0, 1.0), (0.05, 0.3), (0.0, 0.25), (0.7, 1.0), (0.3, 0.31)]
PARTIAL = [partial_demographic_parity_gap, weak_partial_demographic_parity_gap]
ALL = [*PARTIAL, statistical_parity_ks]
by_partial_gap = pytest.mark.parametrize("gap", PARTIAL)
by_gap = pytest.mark.parametrize("gap", ALL)


def share_above(scores, threshold, alpha, beta):
    """A_k of one group, from its definition."""
    rate = sum(s > threshold for s in scores) / len(scores)
    return (min(rate, beta) - min(rate, alpha)) / (beta - alpha)


def gap_at(scores, groups, threshold, interval):
    scores, groups = np.asarray(scores), np.asarray(groups)
    shares = [
        share_above(scores[groups == k], threshold, *interval)
        for k in np.unique(groups)
    ]
    return max(shares) - min(shares)


def brute_force_gap(scores, groups, interval):
    """Largest gap over all thresholds at, between and outside the scores."""
    levels = sorted(set(scores))
    between = [(a + b) / 2 for a, b in pairwise(levels)]
    thresholds = [levels[0] - 1, *levels, *between, levels[-1] + 1]
    return max(gap_at(scores, groups, t, interval) for t in thresholds)


def largest_ks(y_pred, groups):
    """Largest of scipy's statistics over the pairs of groups."""
    parts = [y_pred[groups == k] for k in np.unique(groups)]
    return max(
        ks_2samp(a, b, method="asymp").statistic for a, b in combinations(parts, 2)
    )


@st.composite
def scored_groups(draw):
    """Scores with ties, and groups of any size, two or more with a row."""
    n = draw(st.integers(2, 40))
    n_levels = draw(st.integers(0, 15))
    scores = draw(st.lists(st.integers(0, n_levels), min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    groups[:2] = [0, 1]
    return [value / 3 for value in scores], groups


@st.composite
def intervals(draw):
    # Multiples of 1/24 meet the shares of small groups exactly.
    ends = st.lists(st.integers(0, 24), min_size=2, max_size=2, unique=True)
    alpha, beta = sorted(draw(ends))
    return alpha / 24, beta / 24


def test_known_answers():
    groups = ["a"] * 4 + ["b"] * 4
    gap = partial(
        partial_demographic_parity_gap,
        [4, 3, 2, 1, 4, 3, 0, 0],
        sensitive_features=groups,
    )
    assert gap() == 0.5
    assert gap(interval=(0.0, 0.5)) == 0
    assert gap(interval=(0.5, 1.0)) == 1
    # Between 0 and 1, A is 1 in a and 1/3 in b.
    assert gap(interval=(0.25, 1.0)) == pytest.approx(2 / 3)
    # Up to 1: all of a, a third of b, none of c.
    y_pred = [0, 1, 1, 1, 1, 1, 2, 3, 2, 2]
    groups = ["a"] * 5 + ["b"] * 3 + ["c"] * 2
    assert statistical_parity_ks(y_pred, sensitive_features=groups) == 1
    assert statistical_parity_ks(y_pred[:8], sensitive_features=groups[:8]) == 1 - 1 / 3
    # The weak gap counts scores above the threshold only.
    weak = partial(
        weak_partial_demographic_parity_gap,
        [0.0, 1.0, 0.0, 0.5],
        sensitive_features=["a", "a", "b", "b"],
    )
    assert weak() == 0
    assert weak(threshold=0.5) == 0.5


@settings(max_examples=200, deadline=None)
@given(scored_groups(), intervals(), st.integers(-1, 13))
def test_equal_the_definitions(case, interval, threshold):
    scores, groups = case
    options = {"sensitive_features": groups, "interval": interval}
    gap = partial_demographic_parity_gap(scores, **options)
    assert gap == pytest.approx(brute_force_gap(scores, groups, interval), abs=1e-12)
    weak = weak_partial_demographic_parity_gap(scores, **options, threshold=threshold)
    expected = gap_at(scores, groups, threshold, interval)
    assert weak == pytest.approx(expected, abs=1e-12)
    assert weak <= gap + 1e-12
    distance = statistical_parity_ks(scores, sensitive_features=groups)
    assert {type(gap), type(weak), type(distance)} == {float}
    at_all_ranks = partial_demographic_parity_gap(scores, sensitive_features=groups)
    assert distance == pytest.approx(at_all_ranks, abs=1e-12)


@by_partial_gap
@settings(max_examples=100, deadline=None)
@given(case=scored_groups(), interval=intervals(), data=st.data())
def test_weights_count_rows(gap, case, interval, data):
    scores, groups = map(np.array, case)
    n = scores.size
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    weights[np.unique(groups, return_index=True)[1]] += 1  # every group has some
    repeated = gap(
        np.repeat(scores, weights),
        sensitive_features=np.repeat(groups, weights),
        interval=interval,
    )
    gap = partial(gap, scores, sensitive_features=groups, interval=interval)
    assert gap(sample_weight=weights) == repeated  # sums of integers are exact
    assert gap(sample_weight=0.1 * weights) == pytest.approx(repeated, abs=1e-12)
    assert gap(sample_weight=np.full(n, 7.0)) == gap()


@pytest.mark.parametrize(
    ("n_groups", "n_rows"), [(2, 40), (3, 90), (2, 20_000), (7, 20_000)]
)
def test_kolmogorov_smirnov_as_in_scipy(n_groups, n_rows):
    rng = np.random.default_rng(n_groups)
    groups = rng.integers(0, n_groups, n_rows)
    y_pred = rng.standard_normal(n_rows) * (1 + 0.1 * groups) + 0.1 * groups
    for values in (y_pred, np.round(y_pred, 1)):
        distance = statistical_parity_ks(values, sensitive_features=groups)
        # SciPy 1.18 multiplies steps of 1 / n.
        assert distance == pytest.approx(largest_ks(values, groups), rel=0, abs=1e-15)


@by_gap
@settings(max_examples=50, deadline=None)
@given(case=scored_groups(), random=st.randoms(use_true_random=False))
def test_unchanged_by_order_names_and_scale(gap, case, random):
    scores, groups = case
    order = list(range(len(scores)))
    random.shuffle(order)
    gaps = {
        gap(s, sensitive_features=g)
        for s, g in [
            (scores, groups),
            ([scores[i] for i in order], [groups[i] for i in order]),
            (scores, [f"group {9 - g}" for g in groups]),
            (np.arctan(scores), groups),
            (np.float32(scores), groups),
        ]
    }
    assert len(gaps) == 1


@by_partial_gap
@pytest.mark.parametrize("interval", INTERVALS)
def test_extremes(gap, interval):
    rng, groups = np.random.default_rng(0), np.repeat([0, 1, 2], 20)
    gap = partial(gap, sensitive_features=groups, interval=interval)
    assert gap(np.ones(60)) == 0
    assert gap(np.tile(rng.integers(0, 9, 20), 3)) == 0
    apart = 100.0 * groups + np.tile(np.arange(20), 3) - 50.0
    assert gap(apart) == 1
    # Sums of tenths are rounded, a group's level at its end is not.
    weights = 0.1 * (1 + np.arange(60) % 3)
    assert gap(np.ones(60), sample_weight=weights) == 0
    assert gap(apart, sample_weight=weights) == 1
    assert gap(-apart - 1.0, sample_weight=weights) == 1


@pytest.mark.parametrize("gap", [partial_demographic_parity_gap, statistical_parity_ks])
def test_groups_of_one_row_and_infinite_scores(gap):
    assert gap([1.0, 2.0], sensitive_features=[0, 1]) == 1
    assert gap([2.0, 1.0], sensitive_features=[0, 1]) == 1
    assert gap([1.0, 1.0], sensitive_features=[0, 1]) == 0
    scores, groups = [0.0, 1.0, 2.0, 3.0, 1.5], [0, 0, 0, 0, 1]
    assert gap(scores, sensitive_features=groups) == 0.5
    assert gap([np.inf, -np.inf, 0.0, 1.0], sensitive_features=[0, 1, 0, 1]) == 0.5
    if gap is partial_demographic_parity_gap:
        # A group of one row passes from 0 to 1 in a single step.
        assert gap(scores, sensitive_features=groups, interval=(0.6, 0.7)) == 1


def test_many_groups():
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(3000) % 700)
    scores = rng.integers(0, 5, 3000) + groups % 3 / 10
    gap = partial_demographic_parity_gap(
        scores, sensitive_features=groups.astype(str), interval=(0.2, 0.6)
    )
    levels = np.unique(scores)
    rates = np.array([(scores[groups == g, None] > levels).mean(0) for g in range(700)])
    shares = np.clip((rates - 0.2) / 0.4, 0, 1)
    assert gap == pytest.approx(np.ptp(shares, axis=0).max(), abs=1e-12)
    # More groups than 16 bits count: every one has a row at 0 and one at 1.
    rows = np.arange(140_000)
    for gap in (partial_demographic_parity_gap, statistical_parity_ks):
        assert gap(rows % 2, sensitive_features=(rows // 2).astype(str)) == 0
        assert gap(rows % 2, sensitive_features=rows.astype(str)) == 1


@by_gap
@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        lambda v: pd.Series(v, index=range(7, 7 + len(v))),
        pd.DataFrame,
        lambda v: np.array(v, dtype=object),
    ],
)
def test_kinds_of_input(convert, gap):
    scores, groups = [4, 3, 0, -1], ["m", "f", "m", "f"]
    expected = 0.5 if gap is not weak_partial_demographic_parity_gap else 0
    assert gap(convert(scores), sensitive_features=convert(groups)) == expected


@pytest.mark.parametrize("gap", [*ALL, group_auc_gap])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0, np.nan, 2.0]}, r"y_\w+ has 1 NaN.* first at position 1"),
        ({"scores": [[1.0, 2.0]] * 3}, "one-dimensional.*pass one column"),
        ({"scores": []}, "empty"),
        ({"scores": ["high", "low", "low"]}, "real numbers"),
        ({"scores": np.array(["a", 1, 2], dtype=object)}, "real numbers"),
        ({"scores": [1.0, None, 2.0]}, r"real numbers|NaN"),
        ({"scores": np.array([1j, 0, 1])}, "real numbers"),
        ({"scores": [1.0, 2.0]}, "one group per sample"),
        ({"sensitive_features": [0, 0, 0]}, "only one: 0"),
        ({"sensitive_features": ["a", None, "b"]}, "missing"),
    ],
)
def test_bad_input(gap, change, message):
    arguments = {"scores": [1.0, 2.0, 3.0], "sensitive_features": [0, 1, 1], **change}
    with pytest.raises(ValueError, match=message):
        gap(arguments.pop("scores"), **arguments)


@by_partial_gap
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1.0, -1.0, 1.0]}, "Negative values in.*sample_weight"),
        ({"sample_weight": [1.0, np.nan, 1.0]}, "sample_weight contains NaN"),
        ({"sample_weight": [1.0, 1.0]}, r"sample_weight.shape == \(2,\)"),
        ({"sample_weight": [1.0, 0.0, 0.0]}, r"0 for all samples of 1 .*: 'f'. Leave"),
        ({"interval": (0.3, 0.3)}, "alpha < beta"),
        ({"interval": (-0.1, 0.3)}, "alpha < beta"),
        ({"interval": (0.5, 1.1)}, "alpha < beta"),
        ({"interval": (np.nan, 1.0)}, "alpha < beta"),
        ({"interval": 0.3}, "two numbers"),
        ({"interval": ("low", "high")}, "two numbers"),
    ],
)
def test_bad_options(gap, options, message):
    with pytest.raises(ValueError, match=message):
        gap([1.0, 2.0, 3.0], sensitive_features=["e", "f", "f"], **options)


@pytest.mark.parametrize("threshold", [np.nan, None, "0.5"])
def test_threshold_is_a_number(threshold):
    with pytest.raises(ValueError, match=f"must be a number, got {threshold!r}"):
        weak_partial_demographic_parity_gap(
            [1.0, 2.0], sensitive_features=[0, 1], threshold=threshold
        )


@pytest.mark.parametrize("n_groups", [2, 3])
def test_with_metric_frame(n_groups):
    fairlearn = pytest.importorskip("fairlearn.metrics", reason="needs fairlearn")
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal(300), rng.integers(0, 2, 300)
    groups, region = rng.integers(0, n_groups, 300), rng.choice(["north", "south"], 300)
    interval = (0.05, 0.3)

    def gap(y_true, y_score, sensitive_features):
        return partial_demographic_parity_gap(
            y_score, sensitive_features=sensitive_features, interval=interval
        )

    def share(y_true, y_score):
        return share_above(np.asarray(y_score), 0.2, *interval)

    samples = {"y_true": labels, "y_pred": scores}
    for metric in (gap, inter_group_pairwise_gap, intra_group_pairwise_gap):
        frame = fairlearn.MetricFrame(
            metrics=metric,
            **samples,
            sensitive_features=region,
            sample_params={"sensitive_features": groups},
        )
        for name in ("north", "south"):
            rows = region == name
            expected = metric(
                labels[rows], scores[rows], sensitive_features=groups[rows]
            )
            assert frame.by_group[name] == expected
    frame = fairlearn.MetricFrame(metrics=share, **samples, sensitive_features=groups)
    weak = weak_partial_demographic_parity_gap(
        scores, sensitive_features=groups, interval=interval, threshold=0.2
    )
    assert frame.difference() == pytest.approx(weak)
