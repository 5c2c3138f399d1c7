"""Probabilities in place of groups: expected statistics, and how far they are off."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scalefair.metrics import (
    balance_score,
    group_probabilities,
    group_proportions,
    minimum_balance_score,
    moment_gaps,
    null_parity_gap,
    partial_demographic_parity_gap,
    partial_equal_opportunity_gap,
    partial_equalized_odds_gap,
    partial_parity_gap,
    statistical_parity_ks,
    unmixed_parity_gap,
    weak_partial_demographic_parity_gap,
)

from .conftest import brute_force, moment_differences

RNG = np.random.default_rng(0)
N, NAMES, INTERVAL = 120, ["a", "b", "c"], (0.1, 0.6)
CODES = np.arange(N) % 3
SCORES = np.round(RNG.standard_normal(N) + 0.4 * CODES, 1)  # some are equal
Y, LABELS, Z = RNG.integers(0, 2, N), RNG.integers(0, 4, N), RNG.standard_normal((N, 4))
WEIGHTS = RNG.integers(0, 4, N)
P = pd.DataFrame(RNG.dirichlet([1, 2, 0.5], N), columns=NAMES)
P.iloc[::7] = np.eye(3)[CODES[::7]]  # some are certain

# Metrics of groups, and the rows that they are of.
METRICS = {
    "ks": (statistical_parity_ks, SCORES),
    "demographic": (partial(partial_demographic_parity_gap, interval=INTERVAL), SCORES),
    "weak": (
        partial(weak_partial_demographic_parity_gap, threshold=0.3, interval=INTERVAL),
        SCORES,
    ),
    "opportunity": (
        partial(partial_equal_opportunity_gap, interval=INTERVAL),
        Y,
        SCORES,
    ),
    "odds": (partial_equalized_odds_gap, Y, SCORES),
    "balance": (partial(balance_score, average=None), LABELS),
    "mean balance": (balance_score, LABELS),
    "minimum": (minimum_balance_score, LABELS),
    "proportions": (group_proportions, LABELS),
    "moments": (moment_gaps, Z),
    "sparse moments": (
        lambda Z, **options: moment_gaps(sparse.csr_array(Z), **options),
        Z,
    ),
}
every_metric = pytest.mark.parametrize("name", METRICS)
weighted = pytest.mark.parametrize("weights", [None, WEIGHTS + 0.5], ids=["1", "w"])


def measure(name, *, rows=slice(None), **options):
    metric, *arrays = METRICS[name]
    return metric(*(array[rows] for array in arrays), **options)


def close(value, expected, **tolerance):
    np.testing.assert_allclose(value, expected, **({"rtol": 1e-12} | tolerance))


@every_metric
@weighted
def test_rows_of_no_group_count_for_none(name, weights):
    table, nothing = P.copy(), np.arange(N) % 5 == 0
    table[nothing], table.iloc[0] = 0.0, np.nan
    some = {"rows": ~nothing, "group_probabilities": P[~nothing]}
    expected = measure(
        name, **some, sample_weight=weights if weights is None else weights[~nothing]
    )
    for same in (table, table.astype("Float64")):
        close(measure(name, group_probabilities=same, sample_weight=weights), expected)


@every_metric
def test_weights_count_rows(name):
    repeated = np.repeat(np.arange(N), WEIGHTS)
    expected = measure(name, rows=repeated, group_probabilities=P.iloc[repeated])
    close(measure(name, group_probabilities=P, sample_weight=WEIGHTS), expected)


@weighted
@pytest.mark.parametrize("interval", [(0.0, 1.0), INTERVAL])
@pytest.mark.parametrize("threshold", [None, 0.3])
def test_gaps_by_definition(weights, interval, threshold):
    A = P.to_numpy() * (1 if weights is None else weights[:, None])
    options = {"group_probabilities": P, "sample_weight": weights, "interval": interval}
    V = A @ np.linalg.inv(P.to_numpy().T @ A)
    unmixed = unmixed_parity_gap(SCORES, **options)
    close(unmixed, brute_force(V, SCORES, interval), rtol=1e-9)
    options["threshold"] = threshold
    cuts = None if threshold is None else [threshold]
    gap = partial_parity_gap(SCORES, **options)
    close(gap, brute_force(A, SCORES, interval, cuts))
    kinds = [np.equal(Y, label) for label in (0, 1)]
    of_labels = [brute_force(A[rows], SCORES[rows], interval, cuts) for rows in kinds]
    for given, gap, expected in (
        ("positive", partial_equal_opportunity_gap, of_labels[1]),
        ("label", partial_equalized_odds_gap, max(of_labels)),
    ):
        value = partial_parity_gap(SCORES, **options, y_true=Y, given=given)
        close(value, expected)
        assert gap(Y, SCORES, **options) == value


@weighted
def test_balance_and_moments_by_definition(weights):
    A = P.to_numpy() * (1 if weights is None else weights[:, None])
    options = {"group_probabilities": P, "sample_weight": weights}
    counts = np.array([A[np.equal(LABELS, k)].sum(axis=0) for k in range(4)])
    close(group_proportions(LABELS, **options), counts / counts.sum(axis=1)[:, None])
    balance = counts.min(axis=1) / counts.max(axis=1)
    close(balance_score(LABELS, **options), balance.mean())
    close(moment_gaps(Z, **options), moment_differences(A, Z))


def test_a_cluster_of_which_nothing_is_known():
    table, labels = P.copy(), np.where(np.arange(N) < 9, 7, LABELS)
    table[:9] = 0.0
    balances = balance_score(labels, group_probabilities=table, average=None)
    assert np.isnan(balances).tolist() == [False] * 4 + [True]
    close(balance_score(labels, group_probabilities=table), balances[:4].mean())
    close(minimum_balance_score(labels, group_probabilities=table), balances[:4].min())
    proportions = group_proportions(labels, group_probabilities=table)
    assert np.isnan(proportions[4]).all()
    labels[9:] = -1
    with pytest.raises(ValueError, match="0 or missing for all samples in clusters"):
        balance_score(labels, group_probabilities=table)


def joint_law(rng, n_z=40):
    """Weights of all (z, group, score), P(group | z), and scores that follow `z`."""
    p_z = rng.dirichlet(np.ones(n_z))
    p = rng.beta(0.5, 1.5, n_z)  # of group 1
    z, group = np.repeat(np.arange(n_z), 2), np.tile([0, 1], n_z)
    weights = p_z[z] * np.where(group == 1, p[z], 1 - p[z])
    return weights, np.column_stack([1 - p, p])[z], group, z


def test_probabilities_of_all_that_scores_depend_on_give_the_true_gap():
    rng = np.random.default_rng(1)
    weights, table, group, z = joint_law(rng)
    scores = rng.standard_normal(40)[z] + 2 * table[:, 1]  # a function of z
    rows = {"sample_weight": weights, "interval": (0.05, 0.7)}
    true_gap = partial_parity_gap(scores, sensitive_features=group, **rows)
    close(partial_parity_gap(scores, group_probabilities=table, **rows), true_gap)
    groups = table.argmax(axis=1)
    most_likely = partial_parity_gap(scores, sensitive_features=groups, **rows)
    unmixed = unmixed_parity_gap(scores, group_probabilities=table, **rows)
    assert min(most_likely, unmixed) > 1.2 * true_gap


def test_the_unmixed_gap_is_true_if_scores_follow_the_group_alone():
    rng = np.random.default_rng(2)
    weights, table, group, _ = joint_law(rng)
    # Three scores, whose chances depend on the group alone.
    chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])
    scores = np.tile([0.0, 1.0, 2.0], len(group))
    rows = {"sample_weight": np.ravel(weights[:, None] * chances[group])}
    rows["interval"] = (0.05, 0.7)
    table, group = np.repeat(table, 3, axis=0), np.repeat(group, 3)
    true_gap = partial_parity_gap(scores, sensitive_features=group, **rows)
    close(unmixed_parity_gap(scores, group_probabilities=table, **rows), true_gap)
    mixed = partial_parity_gap(scores, group_probabilities=table, **rows)
    assert mixed < 0.8 * true_gap


def test_columns_that_cannot_be_unmixed():
    halves = P.assign(c=P["c"] / 2, d=P["c"] / 2)
    with pytest.raises(ValueError, match="combination of the others"):
        unmixed_parity_gap(SCORES, group_probabilities=halves)
    groups = np.array(NAMES)[CODES]
    gap = unmixed_parity_gap(SCORES, group_probabilities=pd.get_dummies(groups))
    close(gap, partial_parity_gap(SCORES, sensitive_features=groups))
    gaps = [
        unmixed_parity_gap(SCORES, group_probabilities=P, sample_weight=unit * WEIGHTS)
        for unit in (1, 1e200)
    ]
    close(*gaps)
    table = P.copy()
    table[::5] = 0.0  # rows of no group
    known = table.sum(axis=1) > 0
    expected = unmixed_parity_gap(SCORES[known], group_probabilities=P[known])
    close(unmixed_parity_gap(SCORES, group_probabilities=table), expected, rtol=1e-9)


def test_unmixed_scores_that_are_equal_or_infinite():
    assert unmixed_parity_gap(np.ones(N), group_probabilities=P) == 0
    scores = np.where(SCORES > 1, np.inf, np.where(SCORES < -1, -np.inf, SCORES))
    finite = unmixed_parity_gap(np.clip(scores, -9, 9), group_probabilities=P)
    assert unmixed_parity_gap(scores, group_probabilities=P) == finite


def test_sizes_or_probabilities():
    for options in ({}, {"group_sizes": [9, 9], "group_probabilities": P}):
        with pytest.raises(TypeError, match="one of group_sizes and group_prob"):
            null_parity_gap(**options)
    with pytest.raises(TypeError, match="sample_weight goes with group_probabilities"):
        null_parity_gap([9, 9], sample_weight=np.ones(2))
    with pytest.raises(ValueError, match="must be a list, too"):
        null_parity_gap(group_probabilities=[P, P], sample_weight=WEIGHTS)
    for table in (3, P * 1j):
        with pytest.raises(ValueError, match="group_probabilities must h"):
            null_parity_gap(group_probabilities=table)
    # The same group twice has no gap; it is the root of a singular matrix.
    halves = pd.DataFrame({"a": np.full(50, 0.5), "b": 0.5})
    assert null_parity_gap(group_probabilities=halves) < 1e-6


class Columns:
    """A frame as Polars has it."""

    def __init__(self, frame):
        self.columns, self.frame = frame.columns.tolist(), frame

    def __array__(self, dtype=None, copy=None):
        return self.frame.to_numpy(dtype)


HOLES = {
    "list": (["m", None, "f", np.nan], ["f", "m"]),
    "numbers": (np.array([1.0, np.nan, 0.0, np.nan]), [0, 1]),
    "strings": (pd.Series(["m", pd.NA, "f", pd.NA], dtype="string"), ["f", "m"]),
    "categories": (pd.Series(["m", None, "f", None], dtype="category"), ["f", "m"]),
    "integers": (pd.Series([1, None, 0, None], dtype="Int64"), [0, 1]),
    "truth": ([True, None, False, None], [False, True]),
    "column": (pd.DataFrame({"sex": ["m", None, "f", None]}), ["f", "m"]),
    "columns": (
        pd.DataFrame({"sex": ["m", None, "f", "f"], "age": [1, 1, 2, None]}),
        ["f, 2", "m, 1"],
    ),
}


@pytest.mark.filterwarnings("ignore:.*combinations of several attributes, have fewer")
@pytest.mark.parametrize("kind", HOLES)
def test_missing_groups_are_filled(kind):
    values, groups = HOLES[kind]
    table = group_probabilities(values)
    assert table.columns.tolist() == groups
    assert table.to_numpy().tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    rows = np.array([[0.1, 0.9], [0.2, 0.8], [0.3, 0.7], [0.0, 0.0]])
    frame = pd.DataFrame(rows[:, ::-1], columns=groups[::-1])
    expected = [[0, 1], [0.2, 0.8], [1, 0], [0, 0]]
    fills = [rows, frame, frame.set_index(np.arange(4) + 9), Columns(frame)]
    for fill in (*fills, frame.astype("Float64").mask(frame == 0)):
        close(group_probabilities(values, fill), expected)
    prior = dict(zip(groups[::-1], [0.6, 0.4], strict=True))
    expected = [[0, 1], [0.4, 0.6], [1, 0], [0.4, 0.6]]
    for fill in (prior, pd.Series(prior), [0.4, 0.6], [[0.4, 0.6]]):
        close(group_probabilities(values, fill=fill), expected)


def test_an_index_is_kept():
    values = pd.Series(["f", None, "m"], index=[7, 8, 9])
    assert group_probabilities(values).index.tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("values", "fill", "message"),
    [
        (["f", None, "m"], {"f": 1.0}, r"probabilities of \['f'\], .* \['f', 'm'\]"),
        (["f", None, "m"], [0.2, 0.2, 0.6], r"column for each .* \['f', 'm'\], got"),
        (["f", None, "m"], [0.5, 0.6], r"do not add up to 1, the first row 1 \(1.1\)"),
        (["f", None, "m"], [[1.5, -0.5]], "below 0 or above 1, the first in row 1"),
        (["f", None], None, "two or more"),
        ([None, None], None, "two or more"),
        (
            pd.Series(["f", None, "m"]),
            pd.DataFrame({"f": [1, 0.5, 0], "m": [0, 0.5, 1]}, index=[2, 1, 0]),
            "the same labels in another order",
        ),
        ("sex", None, "one-dimensional"),
        (np.arange(60) / 7, None, "a quantity, not a group"),
    ],
)
def test_holes_that_cannot_be_filled(values, fill, message):
    with pytest.raises(ValueError, match=message):
        group_probabilities(values, fill)


def test_frames_of_all_kinds():
    table = P.astype("Float64")
    table.loc[2] = pd.NA
    frame = table[NAMES[::-1]].astype(float)
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    expected = group_proportions(LABELS, group_probabilities=frame)
    for form in (table, table.astype("double[pyarrow]"), arrow, Columns(frame)):
        close(group_proportions(LABELS, group_probabilities=form), expected)


def test_the_errors_name_the_remedy():
    with pytest.raises(ValueError, match=r"metrics\.group_probabilities makes"):
        statistical_parity_ks([1, 2], sensitive_features=["f", None])
    with pytest.raises(ValueError, match=r"add up to 1 .* group_probabilities="):
        statistical_parity_ks(SCORES, sensitive_features=P)
    with pytest.raises(ValueError, match=r"cluster label, or drop it\.$"):
        balance_score([1, np.nan], sensitive_features=["f", "m"])
