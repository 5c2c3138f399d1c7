"""Promises of every gap of scores; pairwise gaps, pair by pair."""

from itertools import permutations, product

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
    partial_demographic_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
    statistical_parity_ks,
    weak_partial_demographic_parity_gap,
)

LABELLED = [
    inter_group_pairwise_gap,
    intra_group_pairwise_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
]
GAPS = [
    group_auc_gap,
    partial_demographic_parity_gap,
    statistical_parity_ks,
    weak_partial_demographic_parity_gap,
    *LABELLED,
]
every_gap = pytest.mark.parametrize("gap", GAPS)
every_labelled_gap = pytest.mark.parametrize("gap", LABELLED)


def measure(gap, y_true, scores, groups):
    labels = [y_true] if gap in LABELLED else []
    return gap(*labels, scores, sensitive_features=groups)


@st.composite
def labelled_scores(draw):
    """Scores with ties, two to four groups, each with both labels."""
    n_groups = draw(st.integers(2, 4))
    row = st.tuples(st.integers(0, 1), st.integers(0, n_groups - 1))
    rows = [*product([0, 1], range(n_groups)), *draw(st.lists(row, max_size=25))]
    score = st.integers(0, draw(st.integers(0, 10)))
    scores = draw(st.lists(score, min_size=len(rows), max_size=len(rows)))
    return [y for y, _ in rows], [float(s) for s in scores], [g for _, g in rows]


@every_gap
@settings(max_examples=10, deadline=None)
@given(case=labelled_scores(), random=st.randoms(use_true_random=False))
def test_unchanged_by_order_names_and_scale(gap, case, random):
    y_true, scores, groups = case
    order = list(range(len(scores)))
    random.shuffle(order)
    frame = pd.DataFrame({"y": y_true, "s": scores, "g": groups}, index=order)
    values = {
        measure(gap, *rows)
        for rows in [
            case,
            ([v[i] for i in order] for v in case),
            (y_true, np.arctan(scores), groups),
            (y_true, np.float32(scores), groups),
            (y_true, scores, [f"group {9 - g}" for g in groups]),
            (np.where(np.array(y_true) == 1, "yes", "no"), scores, groups),
            (2 * np.array(y_true) - 1, scores, groups),
            (frame["y"], frame["s"], frame["g"]),
            (frame[["y"]], frame[["s"]], frame[["g"]]),
            (np.array(v, dtype=object) for v in case),
        ]
    }
    assert len(values) == 1
    assert type(*values) is float


ROWS = {"y_true": [0, 1, 0, 1], "scores": [1, 2, 3, 4], "groups": ["a", "a", "b", "b"]}


@every_gap
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0, np.nan, 2.0, 0]}, r"y_\w+ has 1 NaN.* first at position 1"),
        ({"scores": [[1.0, 2.0]] * 4}, "one-dimensional.*pass one column"),
        ({"scores": []}, "empty"),
        ({"scores": np.ma.masked_less([1, 2, 3, 4], 2)}, "masked entries"),
        ({"scores": ["high", "low", "low", "low"]}, "real numbers"),
        ({"scores": np.array(["a", 1, 2, 3], dtype=object)}, "real numbers"),
        ({"scores": [1.0, None, 2.0, 0]}, r"real numbers|NaN"),
        ({"scores": np.array([1j, 0, 1, 0])}, "real numbers"),
        ({"groups": ["a"] * 4}, "only one group .'a'.*measures of accuracy"),
    ],
)
def test_scores_and_groups_that_are_refused(gap, change, message):
    with pytest.raises(ValueError, match=message):
        measure(gap, *(ROWS | change).values())


@every_labelled_gap
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 0], "3 labels and 4 scores"),
        ([0, 1, 2, 1], "two labels.*3: 0, 1, 2"),
        ([1, 1, 1, 1], "two labels"),
        ([0, 1, np.nan, 1], "missing"),
        ([1, 0, 0, 0], r"group\(s\) \['b'\] have no positive"),
    ],
)
def test_labels_that_are_refused(gap, labels, message):
    with pytest.raises(ValueError, match=message):
        measure(gap, *(ROWS | {"y_true": labels}).values())


@every_labelled_gap
def test_negative_rows_are_needed_where_they_are_compared(gap):
    rows = ROWS | {"y_true": [1, 1, 0, 1]}
    if gap is partial_equal_opportunity_gap:
        assert measure(gap, *rows.values()) == 1
        return
    with pytest.raises(ValueError, match=r"group\(s\) \['a'\] have no negative"):
        measure(gap, *rows.values())


def brute_force_gaps(y_true, scores, groups):
    """The three gaps over all pairs of groups and rows."""
    y_true, scores, groups = map(np.array, (y_true, scores, groups))

    def chance(group, other, labels, other_labels):
        """Chance that a score of the first group outranks one of the other."""
        upper = scores[(groups == group) & np.isin(y_true, labels), None]
        lower = scores[(groups == other) & np.isin(y_true, other_labels)]
        return np.mean((upper > lower) + 0.5 * (upper == lower))

    pairs, every = list(permutations(np.unique(groups), 2)), [0, 1]
    return {
        group_auc_gap: max(abs(chance(k, j, every, every) - 0.5) for k, j in pairs),
        inter_group_pairwise_gap: max(
            abs(chance(k, j, 1, 0) - chance(j, k, 1, 0)) for k, j in pairs
        ),
        intra_group_pairwise_gap: max(
            abs(chance(k, k, 1, 0) - chance(j, j, 1, 0)) for k, j in pairs
        ),
    }


@settings(max_examples=50, deadline=None)
@given(case=labelled_scores())
def test_pairwise_definitions(case):
    for gap, expected in brute_force_gaps(*case).items():
        assert measure(gap, *case) == pytest.approx(expected, abs=1e-12)


def test_counts_of_many_pairs_do_not_overflow():
    # 4e10 pairs between the groups, more than 32 bits, and long ties.
    rng = np.random.default_rng(0)
    groups = np.arange(400_000) % 2
    y_true = rng.integers(0, 2, 400_000)
    scores = rng.integers(0, 3 + 2 * groups + y_true)
    area = roc_auc_score(groups, scores)
    assert group_auc_gap(scores, sensitive_features=groups) == pytest.approx(area - 0.5)

    auc = [roc_auc_score(y_true[groups == g], scores[groups == g]) for g in (0, 1)]
    value = intra_group_pairwise_gap(y_true, scores, sensitive_features=groups)
    assert value == pytest.approx(abs(auc[0] - auc[1]), abs=1e-12)


@every_gap
def test_several_attributes_each_by_itself(gap):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, [2, 3], (300, 2)), columns=["sex", "age"])
    y_true, scores = rng.integers(0, 2, 300), rng.standard_normal(300)
    rows = [y_true, scores] if gap in LABELLED else [scores]
    gaps = [gap(*rows, sensitive_features=frame[name]) for name in frame]
    assert gaps[0] != gaps[1]
    assert gap(*rows, sensitive_features=frame, attributes="each") == max(gaps)
