"""Parity at some ranks or all, against its definition and known values."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.metrics import (
    null_parity_gap,
    partial_demographic_parity_gap,
    partial_equalized_odds_gap,
    partial_parity_gap,
    statistical_parity_ks,
    weak_partial_demographic_parity_gap,
)

from ..conftest import one_hot
from .conftest import brute_force

PARTIAL = [partial_demographic_parity_gap, weak_partial_demographic_parity_gap]
by_partial_gap = pytest.mark.parametrize("gap", PARTIAL)


@st.composite
def scored_groups(draw):
    """Scores with ties, and groups of any size, two or more with a row."""
    n = draw(st.integers(2, 40))
    score = st.integers(0, draw(st.integers(0, 15)))
    scores = draw(st.lists(score, min_size=n, max_size=n))
    groups = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    groups[:2] = [0, 1]
    return np.array(scores) / 3, groups


@st.composite
def intervals(draw):
    # Multiples of 1/24 meet the shares of small groups exactly.
    ends = st.lists(st.integers(0, 24), min_size=2, max_size=2, unique=True)
    alpha, beta = sorted(draw(ends))
    return alpha / 24, beta / 24


@settings(max_examples=50, deadline=None)
@given(scored_groups(), intervals(), st.integers(-1, 13))
def test_definitions(case, interval, threshold):
    scores, groups = case
    A = one_hot(groups)
    options = {"sensitive_features": groups, "interval": interval}
    gap = partial_demographic_parity_gap(scores, **options)
    assert gap == pytest.approx(brute_force(A, scores, interval), abs=1e-12)
    weak = weak_partial_demographic_parity_gap(scores, **options, threshold=threshold)
    expected = brute_force(A, scores, interval, [threshold])
    assert weak == pytest.approx(expected, abs=1e-12)
    assert weak <= gap + 1e-12
    distance = statistical_parity_ks(scores, sensitive_features=groups)
    at_all_ranks = brute_force(A, scores, (0.0, 1.0))
    assert distance == pytest.approx(at_all_ranks, abs=1e-12)


def test_known_answers():
    gap = partial(
        partial_demographic_parity_gap,
        [4, 3, 2, 1, 4, 3, 0, 0],
        sensitive_features=["a"] * 4 + ["b"] * 4,
    )
    assert [gap(), gap(interval=(0, 0.5)), gap(interval=(0.5, 1))] == [0.5, 0, 1]
    # Between 0 and 1, A is 1 in a and 1/3 in b.
    assert gap(interval=(0.25, 1.0)) == pytest.approx(2 / 3)
    # The weak gap counts scores above the threshold only.
    weak = partial(
        weak_partial_demographic_parity_gap,
        [0.0, 1.0, 0.0, 0.5],
        sensitive_features=["a", "a", "b", "b"],
    )
    assert (weak(), weak(threshold=0.5)) == (0, 0.5)
    with pytest.raises(ValueError, match="must be a number, got None"):
        weak(threshold=None)


@by_partial_gap
@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.3), (0.7, 1.0), (0.3, 0.31)])
def test_extremes(gap, interval):
    rng, groups = np.random.default_rng(0), np.repeat([0, 1, 2], 20)
    gap = partial(gap, sensitive_features=groups, interval=interval)
    assert gap(np.tile(rng.integers(0, 9, 20), 3)) == 0
    apart = 100.0 * groups + np.tile(np.arange(20), 3) - 50.0
    assert gap(apart) == 1
    # Sums of tenths are rounded, a group's level at its end is not.
    weights = 0.1 * (1 + np.arange(60) % 3)
    assert gap(np.ones(60), sample_weight=weights) == 0
    assert gap(apart, sample_weight=weights) == 1
    assert gap(-apart - 1.0, sample_weight=weights) == 1


@pytest.mark.parametrize("threshold", [0.1, np.float64(0.1), np.float32(0.1), 1e39])
def test_thresholds_of_scores_in_single_precision(threshold):
    """They divide the scores as ``scores > threshold`` of NumPy does."""
    scores, groups = np.float32([0.1, 0.1, 0.1, 0.3]), [0, 0, 1, 1]
    with np.errstate(over="ignore"):
        decisions = scores > threshold
    gap = weak_partial_demographic_parity_gap(
        scores, sensitive_features=groups, threshold=threshold
    )
    assert gap == abs(decisions[2:].mean() - decisions[:2].mean())


@pytest.mark.parametrize("gap", [partial_demographic_parity_gap, statistical_parity_ks])
def test_groups_of_one_row_and_infinite_scores(gap):
    assert gap([1.0, 2.0], sensitive_features=[0, 1]) == 1
    assert gap([1.0, 1.0], sensitive_features=[0, 1]) == 0
    scores, groups = [0.0, 1.0, 2.0, 3.0, 1.5], [0, 0, 0, 0, 1]
    assert gap(scores, sensitive_features=groups) == 0.5
    assert gap([np.inf, -np.inf, 0.0, 1.0], sensitive_features=[0, 1, 0, 1]) == 0.5
    if gap is partial_demographic_parity_gap:
        # A group of one row passes from 0 to 1 in a single step.
        assert gap(scores, sensitive_features=groups, interval=(0.6, 0.7)) == 1


def test_more_groups_than_16_bits_count():
    rows = np.arange(140_000)  # every group has a row at 0 and one at 1
    for gap in (partial_demographic_parity_gap, statistical_parity_ks):
        assert gap(rows % 2, sensitive_features=(rows // 2).astype(str)) == 0
        assert gap(rows % 2, sensitive_features=rows.astype(str)) == 1


LABELS = {"y_true": [0, 1, 1, 0]}
POSITIVE = {"given": "positive", **LABELS}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1, 1, 0, 1], **POSITIVE}, "all positive .* of 1 .*'f'"),
        ({"given": "negative", **LABELS}, "given must be"),
        ({"given": ["label"], **LABELS}, "given must be"),
        ({"given": "positive"}, "pass them as y_true"),
        ({"threshold": np.nan}, "must be a number, got nan"),
        ({"threshold": "0.5"}, "must be a number, got '0.5'"),
    ],
)
def test_bad_options(options, message):
    rows = {"sensitive_features": ["e", "e", "f", "f"]}
    with pytest.raises(ValueError, match=message):
        partial_parity_gap([1.0, 2.0, 3.0, 4.0], **rows, **options)


@pytest.mark.parametrize(
    ("sizes", "interval"),
    [((2000, 100), (0.0, 1.0)), ((300, 300, 150, 150, 60), (0.05, 0.3))],
)
@pytest.mark.parametrize("is_soft", [False, True])
def test_mean_gap_of_scores_drawn_alike(sizes, interval, is_soft):
    rng, n = np.random.default_rng(0), 900
    if is_soft:
        table = rng.dirichlet(np.linspace(0.5, 2.0, len(sizes)), n)
        rows = {"group_probabilities": table, "sample_weight": rng.exponential(size=n)}
        expected_gap = null_parity_gap(**rows, interval=interval)
        # As if the groups had rows of their own it would be larger.
        A = table * rows["sample_weight"][:, None]
        effective_sizes = A.sum(axis=0) ** 2 / (A**2).sum(axis=0)
        assert null_parity_gap(effective_sizes, interval=interval) > 1.2 * expected_gap
    else:
        groups = np.repeat(np.arange(len(sizes)), sizes)
        n, rows = groups.size, {"sensitive_features": groups}
        expected_gap = null_parity_gap(sizes, interval=interval)
    gap = partial(PARTIAL[0], **rows, interval=interval)
    gaps = [gap(rng.random(n)) for _ in range(300)]
    # A gap scatters by a third: standard errors are 2 % of these simulations, 2 to 3 %
    # of those inside; steps of one sample are left out there.
    assert expected_gap == pytest.approx(np.mean(gaps), rel=0.1)


def test_the_largest_gap_of_several_comparisons():
    sizes, interval = [[300, 80], [300, 80]], (0.1, 0.5)
    rng = np.random.default_rng(0)
    labels, groups = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], np.ravel(sizes), axis=1)
    options = {"sensitive_features": groups, "interval": interval}
    gaps = [
        partial_equalized_odds_gap(labels, rng.random(760), **options)
        for _ in range(400)
    ]
    expected_gap = null_parity_gap(sizes, interval=interval)
    # As above. The larger mean gap of the two comparisons would be 0.83 of it.
    assert expected_gap == pytest.approx(np.mean(gaps), rel=0.1)
    assert expected_gap > 1.15 * null_parity_gap(sizes[0], interval=interval)


def test_one_group_has_no_gap_by_chance_and_bad_sizes():
    assert null_parity_gap([100]) == 0.0
    for sizes in ([10, 0], np.ones((2, 2)), [10, np.nan], [[10, 10], [0, 1]], 10):
        with pytest.raises(ValueError, match="must be positive numbers, one per group"):
            null_parity_gap(sizes)
    with pytest.raises(ValueError, match="interval"):
        null_parity_gap([10, 10], interval=(0.5, 0.5))
