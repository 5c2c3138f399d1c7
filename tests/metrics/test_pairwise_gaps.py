from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scalefair.metrics import (
    group_auc_gap,
    inter_group_pairwise_gap,
    intra_group_pairwise_gap,
)

LABELLED = [inter_group_pairwise_gap, intra_group_pairwise_gap]
ALL = [group_auc_gap, *LABELLED]


def chance(upper, lower):
    """Chance that a score of the first outranks one of the second, pair by pair."""
    wins = sum((a > b) + 0.5 * (a == b) for a, b in product(upper, lower))
    return wins / (len(upper) * len(lower))


def brute_force_gaps(y_true, scores, groups):
    """The three gaps over all pairs of groups and rows."""
    names = sorted(set(groups))
    rows = list(zip(y_true, scores, groups, strict=True))
    everyone = {k: [s for _, s, g in rows if g == k] for k in names}
    positive = {k: [s for y, s, g in rows if g == k and y == 1] for k in names}
    negative = {k: [s for y, s, g in rows if g == k and y == 0] for k in names}
    pairs = [(k, j) for k in names for j in names if k != j]
    return {
        group_auc_gap: max(
            abs(chance(everyone[k], everyone[j]) - 0.5) for k, j in pairs
        ),
        inter_group_pairwise_gap: max(
            abs(chance(positive[k], negative[j]) - chance(positive[j], negative[k]))
            for k, j in pairs
        ),
        intra_group_pairwise_gap: max(
            abs(chance(positive[k], negative[k]) - chance(positive[j], negative[j]))
            for k, j in pairs
        ),
    }


def compute(gap, y_true, scores, groups):
    if gap is group_auc_gap:
        return gap(scores, sensitive_features=groups)
    return gap(y_true, scores, sensitive_features=groups)


@st.composite
def labelled_scores(draw):
    """Scores with ties, two to four groups, each with both labels."""
    n_groups = draw(st.integers(2, 4))
    extra = draw(
        st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, n_groups - 1)), max_size=25
        )
    )
    rows = [*product([0, 1], range(n_groups)), *extra]
    n_levels = draw(st.integers(0, 10))
    scores = draw(
        st.lists(st.integers(0, n_levels), min_size=len(rows), max_size=len(rows))
    )
    return [y for y, _ in rows], [float(s) for s in scores], [g for _, g in rows]


def test_known_answers():
    groups = ["a"] * 4 + ["b"] * 4
    y_true = [1, 1, 0, 0] * 2
    scores = [5, 3, 3, 1, 4, 0, 2, 2]
    # a outranks b in 4 + 3 + 3 + 1 of 16 pairs.
    assert group_auc_gap(scores, sensitive_features=groups) == 11 / 16 - 1 / 2
    # 4 of 4 pairs of positive a, negative b; 2 of positive b (4 > 3, 4 > 1).
    inter = inter_group_pairwise_gap(y_true, scores, sensitive_features=groups)
    assert inter == 1 - 1 / 2
    # 3.5 of 4 pairs within a (one tie), 2 of 4 within b.
    intra = intra_group_pairwise_gap(y_true, scores, sensitive_features=groups)
    assert intra == 3.5 / 4 - 2 / 4


@pytest.mark.parametrize("gap", ALL)
@settings(max_examples=80, deadline=None)
@given(case=labelled_scores())
def test_equals_the_definition(gap, case):
    value = compute(gap, *case)
    assert isinstance(value, float)
    assert value == pytest.approx(brute_force_gaps(*case)[gap], abs=1e-12)


@pytest.mark.parametrize("gap", ALL)
@settings(max_examples=30, deadline=None)
@given(case=labelled_scores(), random=st.randoms(use_true_random=False))
def test_unchanged_by_order_names_and_scale(gap, case, random):
    y_true, scores, groups = case
    value = compute(gap, *case)
    order = list(range(len(scores)))
    random.shuffle(order)
    assert compute(gap, *([v[i] for i in order] for v in case)) == value
    assert compute(gap, y_true, np.arctan(scores), groups) == value
    assert compute(gap, y_true, np.float32(scores), groups) == value
    renamed = [f"group {9 - g}" for g in groups]
    assert compute(gap, y_true, scores, renamed) == value
    labels = np.where(np.array(y_true) == 1, "yes", "no")
    assert compute(gap, labels, scores, groups) == value
    signs = 2 * np.array(y_true) - 1
    assert compute(gap, signs, scores, groups) == value
    frame = pd.DataFrame({"y": y_true, "s": scores, "g": groups}, index=order)
    assert compute(gap, frame["y"], frame["s"], frame["g"]) == value


@pytest.mark.parametrize("gap", ALL)
def test_extremes(gap):
    y_true, groups = [0, 1, 0, 1], ["a", "a", "b", "b"]
    assert compute(gap, y_true, [7.0] * 4, groups) == 0
    apart = [1, 2, 4, 3] if gap is intra_group_pairwise_gap else [1, 2, 3, 4]
    largest = 0.5 if gap is group_auc_gap else 1
    assert compute(gap, y_true, apart, groups) == largest


def test_groups_of_one_row():
    assert group_auc_gap([1.0, 2.0], sensitive_features=[0, 1]) == 0.5
    assert group_auc_gap([1.0, 1.0], sensitive_features=[0, 1]) == 0
    assert group_auc_gap([1.0, 2.0, 3.0], sensitive_features=[0, 1, 0]) == 0


def test_counts_of_many_pairs_do_not_overflow():
    # 4e10 pairs between the groups, more than 32 bits, and long ties.
    rng = np.random.default_rng(0)
    groups = np.arange(400_000) % 2
    y_true = rng.integers(0, 2, 400_000)
    scores = rng.integers(0, 3 + 2 * groups + y_true)
    area = roc_auc_score(groups, scores)
    assert group_auc_gap(scores, sensitive_features=groups) == pytest.approx(area - 0.5)

    def pairs(k, j):  # the positive rows of k and the negative ones of j
        return np.where(y_true == 1, groups == k, groups == j)

    for gap, (k, j) in [
        (intra_group_pairwise_gap, (pairs(0, 0), pairs(1, 1))),
        (inter_group_pairwise_gap, (pairs(0, 1), pairs(1, 0))),
    ]:
        expected = roc_auc_score(y_true[k], scores[k]) - roc_auc_score(
            y_true[j], scores[j]
        )
        value = compute(gap, y_true, scores, groups)
        assert value == pytest.approx(abs(expected), abs=1e-12)


@pytest.mark.parametrize("gap", LABELLED)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": [0, 1, 0]}, "same samples"),
        ({"y_true": [0, 1, 2, 1]}, "two labels.*3: 0, 1, 2"),
        ({"y_true": [1, 1, 1, 1]}, "two labels"),
        ({"y_true": [0, 1, np.nan, 1]}, "missing"),
        ({"y_true": [1, 1, 0, 1]}, r"group\(s\) \['a'\] have no negative"),
        ({"y_true": [1, 0, 0, 0]}, r"group\(s\) \['b'\] have no positive"),
        ({"y_score": [0, 1, np.nan, 1]}, "NaN"),
        ({"sensitive_features": ["a"] * 4}, "only one: 'a'"),
        ({"sensitive_features": ["a", "b"]}, "one group per sample"),
    ],
)
def test_bad_input(gap, change, message):
    arguments = {
        "y_true": [0, 1, 0, 1],
        "y_score": [1.0, 2.0, 3.0, 4.0],
        "sensitive_features": ["a", "a", "b", "b"],
        **change,
    }
    with pytest.raises(ValueError, match=message):
        gap(**arguments)
