"""Promises of `sample_weight`: 2 is the row twice, 0 is no row, units are free."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

from scalefair import decomposition, metrics
from scalefair.linear_model import PartiallyFairClassifier
from scalefair.operators import GroupCovariance
from scalefair.postprocessing import ExplainableSVDRegressor, FairCalibratedClassifier
from scalefair.streaming import GroupMoments

from .conftest import assert_same_moments, bad_weights

N = 60
WEIGHTS = np.random.default_rng(1).integers(0, 5, N)
WEIGHTS[:6] = 2, 1, 1, 2, 3, 1  # groups, labels and clusters all have some weight


def table():
    """Rows with ties in three groups; every label and cluster occurs in each."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 5)) + np.arange(N)[:, None] % 3
    return {
        "X": np.float64(np.float32(X)),  # exact in single precision, too
        "groups": np.array(list("abc"))[np.arange(N) % 3],
        "others": np.where(rng.random(N) < 0.5, "x", "y"),
        "labels": np.arange(N) // 3 % 2,
        "scores": rng.integers(0, 12, N).astype(float),
    }


def select(rows, index):
    return {name: values[index] for name, values in rows.items()}


def graph(rows):
    """Complete graph with self-loops, whose nodes can be repeated."""
    return np.exp(-((rows["scores"][:, None] - rows["scores"]) ** 2) / 9)


def of(function, *columns, **options):
    """Measure of columns of weighted rows, by the groups or each of two attributes."""

    def measure(rows, weights):
        groups = rows["groups"]
        if "attributes" in options:
            groups = np.column_stack([groups, rows["others"]])
        arguments = {"sensitive_features": groups, "sample_weight": weights, **options}
        return function(*(rows[name] for name in columns), **arguments)

    return measure


EACH = {"attributes": "each"}


def cut(rows, weights, W=None, **options):
    W = graph(rows) if W is None else W
    return metrics.normalized_cut_score(
        W, rows["labels"], sample_weight=weights, **options
    )


# What measures rows with weights: shares, which leave out groups without weight, and
# gaps, which refuse them.
SHARES = {
    "balance": of(metrics.balance_score, "labels", average=None, **EACH),
    "minimum balance": of(metrics.minimum_balance_score, "labels", **EACH),
    "proportions": of(metrics.group_proportions, "labels", **EACH),
    "cut": cut,
    "regularised cut": lambda rows, weights: cut(rows, weights, regularization=0.5),
}
MEASURES = {
    **SHARES,
    "KS": of(metrics.statistical_parity_ks, "scores"),
    "KS, each": of(metrics.statistical_parity_ks, "labels", **EACH),
    "moments": of(metrics.moment_gaps, "scores"),
    "moments, each": of(metrics.moment_gaps, "labels", **EACH),
    "group AUC": of(metrics.group_auc_gap, "scores"),
    "inter-group": of(metrics.inter_group_pairwise_gap, "labels", "scores"),
    "intra-group": of(metrics.intra_group_pairwise_gap, "labels", "scores"),
    "partial parity": of(metrics.partial_parity_gap, "scores", interval=(0.1, 0.6)),
    "one threshold": of(
        metrics.weak_partial_demographic_parity_gap, "scores", threshold=5.0
    ),
    "equal opportunity": of(metrics.partial_equal_opportunity_gap, "labels", "scores"),
    "equalized odds": of(metrics.partial_equalized_odds_gap, "labels", "scores"),
}


def assert_same(got, expected, rtol=1e-12):
    if not isinstance(expected, list):  # of one attribute
        got, expected = [got], [expected]
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
def test_weights_are_repetitions(measure):
    rows = table()
    expected = measure(select(rows, np.repeat(np.arange(N), WEIGHTS)), None)
    for unit in (1, 7, 1e-200, 1e200):
        assert_same(measure(rows, unit * WEIGHTS), expected)
    # Weights are seen: without them, or with equal ones, the value is another one.
    with pytest.raises(AssertionError):
        assert_same(measure(rows, None), expected)
    assert_same(measure(rows, np.ones(N)), measure(rows, None), rtol=0)
    assert_same(measure(rows, np.full(N, 0.1)), measure(rows, None))
    # No weight is no row.
    is_first = np.arange(N) < 42
    assert_same(measure(rows, is_first), measure(select(rows, is_first), None))


GAPS = [name for name in MEASURES if name not in SHARES and "each" not in name]


@pytest.mark.parametrize("name", GAPS)
def test_groups_have_weights_in_any_unit(name):
    rows, measure = table(), MEASURES[name]
    weights = np.where(rows["groups"] == "b", 1e-20, 1.0) * WEIGHTS
    assert_same(measure(rows, weights), measure(rows, WEIGHTS))


@pytest.mark.parametrize("measure", SHARES.values(), ids=list(SHARES))
def test_shares_leave_out_what_has_no_weight(measure):
    """A group and a cluster whose rows have no weight do not occur."""
    rows = table()
    rows["labels"][-6:], rows["groups"][-9:] = 7, "unseen"
    is_first = np.arange(N) < N - 9
    assert_same(measure(rows, is_first), measure(select(rows, is_first), None))


@pytest.mark.parametrize(("weights", "message"), bad_weights(N))
def test_bad_weights_of_a_cut(weights, message):
    with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
        cut(table(), weights)


def test_cut_of_sparse_graphs_and_unassigned_nodes():
    """Weights act on the entries of a sparse W, and -1 stays unassigned."""
    rows = table()
    rows["labels"][:5] = -1
    order = np.repeat(np.arange(N), WEIGHTS)
    expected = cut(select(rows, order), None)
    assert_same(cut(rows, WEIGHTS, sparse.csr_array(graph(rows))), expected)


# What is fitted to rows with weights. Iterations end at tolerances.
ESTIMATORS = {
    "gram": decomposition.FairPCA(2, solver="gram"),
    "matrix-free": decomposition.FairPCA(
        2, solver="matrix_free", centering="group", random_state=0
    ),
    "plain": decomposition.GroupPCA(2),
    "semidefinite": decomposition.SemidefiniteFairPCA(2),
    "two groups": decomposition.ErrorWeightedFairPCA(2, tol=1e-12),
}
every_estimator = pytest.mark.parametrize(
    "estimator", ESTIMATORS.values(), ids=list(ESTIMATORS)
)
FORMS = {
    "dense": np.asarray,
    "single": np.float32,
    "columns first": np.asfortranarray,
    "sparse": sparse.csr_array,
    "Dask": lambda X: pytest.importorskip("dask.array").from_array(X, (25, -1)),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))


def fit(estimator, rows, weights, form=np.asarray):
    groups = {"sensitive_features": rows["others"], "sample_weight": weights}  # two
    return clone(estimator).fit(form(rows["X"]), rows["labels"], **groups)


def assert_same_fit(got, expected, rtol=1e-9):
    for name in ("mean_", "group_losses_", "group_reconstruction_errors_"):
        assert_same(getattr(got, name), getattr(expected, name), rtol)
    P, Q = (model.components_.T @ model.components_ for model in (got, expected))
    np.testing.assert_allclose(P, Q, atol=1e4 * rtol)


@every_form
@every_estimator
def test_fit_to_weights_is_fit_to_repetitions(estimator, form):
    rows = table()
    expected = fit(estimator, select(rows, np.repeat(np.arange(N), WEIGHTS)), None)
    assert_same_fit(fit(estimator, rows, WEIGHTS, form), expected)
    plain = fit(estimator, rows, None)
    with pytest.raises(AssertionError):
        assert_same_fit(plain, expected)
    assert_same_fit(fit(estimator, rows, np.full(N, 0.1)), plain)


@every_form
@pytest.mark.parametrize("name", ["gram", "matrix-free"])
def test_fit_leaves_out_rows_without_weight(name, form):
    """Whatever they hold: a column may be constant without them."""
    rows = table()
    is_first = np.arange(N) < 42
    rows["X"][is_first, 1] = 3.0
    rows["X"][~is_first] *= 2.0**30
    expected = fit(ESTIMATORS[name], select(rows, is_first), None)
    assert_same_fit(fit(ESTIMATORS[name], rows, is_first, form), expected)


def frozen(estimator):
    return FrozenEstimator(estimator.fit(table()["X"], table()["labels"]))


@pytest.mark.parametrize(
    "estimator",
    [
        *ESTIMATORS.values(),
        PartiallyFairClassifier(),
        FairCalibratedClassifier(frozen(LogisticRegression())),
        ExplainableSVDRegressor(frozen(LinearRegression())),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("weights", "message"),
    [*bad_weights(N), (table()["others"] != "x", "0 for all .*'x'")],
)
def test_fit_to_rows_in_parts_refuses_bad_weights(estimator, weights, message):
    with pytest.raises(ValueError, match=f"sample_weight .*{message}"):
        fit(estimator, table(), weights, FORMS["Dask"])


def test_moments_of_few_rows_at_a_time(tmp_path):
    """A group may have no weight in a part, and unweighted rows weigh 1."""
    X, groups = table()["X"], table()["groups"]
    weights = np.where((groups == "b") & (np.arange(N) < 40), 0.0, 0.5)
    weights[20:40] = np.where(groups[20:40] == "b", 0.0, 1.0)
    first = GroupMoments.from_data(X[:20], groups[:20], sample_weight=weights[:20])
    assert first.groups.tolist() == ["a", "c"]
    is_weighted = weights[20:40] > 0
    first.update(X[20:40][is_weighted], groups[20:40][is_weighted])
    first.update(X[40:], groups[40:], sample_weight=weights[40:])
    expected = GroupMoments.from_data(X, groups, sample_weight=weights)
    assert_same_moments(first, expected)
    first.save(tmp_path / "moments.npz")
    assert_same_moments(GroupMoments.load(tmp_path / "moments.npz"), first, rtol=0)
    parts = FORMS["Dask"](X)
    first = GroupMoments.from_data(parts, groups, sample_weight=weights)
    assert_same_moments(first, expected)


def test_partial_fit():
    rows = table()
    expected = fit(ESTIMATORS["gram"], rows, WEIGHTS)
    model = clone(ESTIMATORS["gram"])
    for part in (slice(20), slice(20, N)):
        model.partial_fit(
            rows["X"][part],
            sensitive_features=rows["others"][part],
            sample_weight=WEIGHTS[part],
        )
    assert_same_fit(model, expected)


def test_weights_in_a_dask_collection():
    da = pytest.importorskip("dask.array")
    rows = table()
    X = FORMS["Dask"](rows["X"])
    expected = fit(ESTIMATORS["plain"], rows, WEIGHTS)
    for chunks in (25, 10, (24, 26, 10)):
        weights = da.from_array(WEIGHTS, chunks)
        assert_same_fit(fit(ESTIMATORS["plain"], rows, weights, lambda _: X), expected)
    masked = da.from_array(np.ma.masked_equal(np.arange(N), 30), 25)
    with pytest.raises(ValueError, match="Partition 1: sample_weight has masked"):
        fit(ESTIMATORS["plain"], rows, masked, lambda _: X)
    blocks = [pytest.importorskip("dask").delayed(np.ones(n)) for n in (25, 24, 11)]
    message = r"Partition [12] of sample_weight has (24|11) weights for"  # the first
    with pytest.raises(ValueError, match=message):
        fit(ESTIMATORS["plain"], rows, blocks, lambda _: X)


def test_covariance_of_a_group_without_weight():
    X, codes = table()["X"], np.arange(N) % 3
    for form in FORMS.values():
        with pytest.raises(ValueError, match="Group 1 has no row of positive weight"):
            GroupCovariance(form(X), codes, np.ones(3), sample_weight=codes != 1)
