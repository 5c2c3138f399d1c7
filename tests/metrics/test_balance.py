import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.metrics import balance_score, group_proportions, minimum_balance_score


def balance_by_definition(labels, groups):
    """Definition 2.1: the least ratio of the counts of two groups, in each cluster."""
    is_assigned = np.not_equal(labels, -1)
    counts = pd.crosstab(np.array(labels)[is_assigned], np.array(groups)[is_assigned])
    return (counts.min(axis=1) / counts.max(axis=1)).to_numpy()


@st.composite
def clusterings(draw):
    n = draw(st.integers(2, 40))
    groups = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    present = {g for c, g in zip(labels, groups, strict=True) if c != -1}
    if len(present) < 2:
        labels[:2], groups[:2] = [0, 0], [0, 1]
    return labels, groups


@settings(max_examples=60, deadline=None)
@given(clusterings())
def test_equals_the_definition(case):
    labels, groups = case
    expected = balance_by_definition(labels, groups)
    per_cluster = balance_score(labels, sensitive_features=groups, average=None)
    np.testing.assert_allclose(per_cluster, expected)
    mean = balance_score(labels, sensitive_features=groups)
    assert isinstance(mean, float)
    assert mean == pytest.approx(expected.mean())
    lowest = minimum_balance_score(labels, sensitive_features=groups)
    assert lowest == pytest.approx(expected.min())
    proportions = group_proportions(labels, sensitive_features=groups)
    np.testing.assert_allclose(proportions.sum(axis=1), 1)
    balances = proportions.min(axis=1) / proportions.max(axis=1)
    np.testing.assert_allclose(balances, expected)
    renamed = balance_score(
        [c if c == -1 else 10 - c for c in labels],
        sensitive_features=[f"group {9 - g}" for g in groups],
    )
    assert renamed == pytest.approx(mean)


def test_kinds_of_labels_and_the_order_of_proportions():
    groups = ["c", "a", "b", "a", "b", "c"]  # nobody of group c is assigned
    for dtype in (np.float64, object, "Int64"):
        labels = pd.Series([-1, 0, 0, 1, 1, -1]).astype(dtype)
        per_cluster = balance_score(labels, sensitive_features=groups, average=None)
        np.testing.assert_array_equal(per_cluster, [1, 1])
        assert group_proportions(labels, sensitive_features=groups).shape == (2, 2)
    proportions = group_proportions(
        [7, 7, 2, 2, 2, 2], sensitive_features=["m", "f", "m", "m", "f", "z"]
    )
    np.testing.assert_allclose(proportions, [[0.25, 0.5, 0.25], [0.5, 0.5, 0]])
    named = group_proportions(["x", "x", "w"], sensitive_features=[0, 1, 1])
    np.testing.assert_array_equal(named, [[0, 1], [0.5, 0.5]])


def test_one_group_has_proportions_but_no_balance():
    np.testing.assert_array_equal(
        group_proportions([0, 1], sensitive_features=["a", "a"]), [[1], [1]]
    )
    with pytest.raises(ValueError, match="only one among the assigned samples: 'a'"):
        balance_score([0, 1, -1], sensitive_features=["a", "a", "b"])
    with pytest.raises(ValueError, match='"mean" or None'):
        balance_score([0, 0], sensitive_features=[0, 1], average="max")


@pytest.mark.parametrize(
    ("labels", "groups", "message"),
    [
        ([[0, 1]], ["a", "b"], "labels must be one-dimensional"),
        (0, ["a"], "labels must be one-dimensional"),
        ([], [], "no sample"),
        ([-1, -1], ["a", "b"], "no sample"),
        ([0.0, np.nan], ["a", "b"], "labels has 1 missing"),
        ([0, 0], ["a", 1], "mixes values"),
    ],
)
@pytest.mark.parametrize(
    "score", [balance_score, minimum_balance_score, group_proportions]
)
def test_bad_input(score, labels, groups, message):
    with pytest.raises(ValueError, match=message):
        score(labels, sensitive_features=groups)
