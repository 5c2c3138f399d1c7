"""Rows in parts give the classifier of rows in memory, after a sample of many."""

import pickle
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from scalefair._membership import Cells
from scalefair.linear_model import PartiallyFairClassifier, _partitioned
from scalefair.linear_model._continuation import _largest_tie
from scalefair.linear_model._oracle import ScoreOracle, most_accurate_shift
from scalefair.linear_model._partitioned import PartitionedTraining
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.metrics import partial_parity_gap
from scalefair.streaming import LocalParts, PartitionedRows
from scalefair.streaming._dask import DaskParts

from ..conftest import CountedBlocks, delayed_blocks

pytestmark = pytest.mark.filterwarnings("ignore:The gap of the training rows")
LIMITS = 100, 2
OPTIONS = {"interactions": True, "loss": "logistic", "surrogate": "ramp"}
CUTS = [0, 300, 310, 900, 1500]


def as_reader(X):
    return CountedBlocks(X, CUTS if len(X) == 1500 else [0, 700, 3000, 4000])


def as_array(X):
    chunks = tuple(np.diff(CUTS)) if len(X) == 1500 else 500
    return da.from_array(X, chunks=(chunks, 2))


def as_csr_blocks(X):
    return delayed_blocks(sparse.csr_array(X), CUTS)


def as_frame(X):
    return dd.from_pandas(pd.DataFrame(X, columns=["u", "v", "w"]), npartitions=3)


def as_blocks(X):
    """Blocks, one of them without rows."""
    return delayed_blocks(X, [0, 0, *CUTS[1:]])


PARTITIONED = [as_reader, as_array, as_csr_blocks, as_frame]


def make_rows(m, n_groups, seed, least):
    rng = np.random.RandomState(seed)
    group = np.sort(rng.randint(n_groups, size=m))  # parts without some of the groups
    X = rng.randn(m, 3) + 0.6 * (group[:, None] == 1)
    y = np.where(X.sum(axis=1) + rng.randn(m) > least, "yes", "no")
    return X, y, np.array(["a", "b", "c"])[group]


X, y, group = make_rows(1500, 3, seed=4, least=0.6)
y[300:310] = "no"  # a part without one of the classes


def classifier(**params):
    # The method of the paper: its surrogate stays as it is, and the gap may be any.
    params = {"surrogate_width": 1.0, "alpha": 0.0, "tol": 2e-3} | params
    params = {"kappa": 0.1, "n_thresholds": 6} | params
    return PartiallyFairClassifier((0.1, 0.5), **params)


@pytest.fixture(scope="module")
def fitted():
    return classifier(criterion="weak").fit(X, y, sensitive_features=group)


@pytest.mark.parametrize("protocol", [4, 5])
def test_pickled_oracle(protocol):
    signs, codes = np.where(y == "yes", 1, -1), np.arange(1500) % 2
    oracle = ScoreOracle(X, signs, codes, 2, weights=np.arange(1500.0) % 3)
    if protocol == 4:  # all arrays come back writeable
        copy = pickle.loads(pickle.dumps(oracle, protocol=4))
    else:  # all come back read-only, as from another process
        buffers = []
        data = pickle.dumps(oracle, protocol=5, buffer_callback=buffers.append)
        copy = pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])
    w, theta = np.ones(8), np.zeros(2)
    assert copy.evaluate(w, theta).loss == oracle.evaluate(w, theta).loss
    # Dask counts its arrays.
    assert copy.__sizeof__() > sum(array.nbytes for array in copy._rows.table)


def groups_of(group, kind):
    """Groups as arguments of fit: hard, of two attributes, likely, or weighted."""
    rng = np.random.default_rng(0)
    if kind == "probabilities":
        P = rng.dirichlet(np.ones(3), len(group)) + (group[:, None] == ["a", "b", "c"])
        return {"group_probabilities": P / 2}
    if kind == "each":
        group = pd.DataFrame({"group": group, "half": rng.random(len(group)) < 0.4})
    weights = rng.integers(1, 4, len(group)) * 1.0
    weights[310:900] = 0.0  # a part
    weights = weights if kind == "weights" else None
    return {"sensitive_features": group, "sample_weight": weights}


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("one", {"start": "zero"}),
        ("one", {"surrogate": "sigmoid", "interactions": False, "kappa": 0.3}),
        ("one", {"criterion": "weak", "start": "zero", "interactions": False}),
        ("one", {"loss": "squared", "alpha": 0.01}),
        ("one", {"given": "label", "criterion": "weak", "tune_intercept": False}),
        ("weights", {"criterion": "weak"}),
        ("each", {"criterion": "weak"}),
        ("probabilities", {"criterion": "weak", "interactions": False}),
    ],
    ids=str,
)
def test_fit_is_that_in_memory(kind, params):
    groups = groups_of(group, kind)
    attributes = "each" if kind == "each" else "joint"
    params = {"attributes": attributes, "tol": 5e-3, **params}
    whole = classifier(**params).fit(X, y, **groups)
    parts = classifier(**params).fit(as_reader(X), y, **groups)
    tol = whole.tol
    assert parts.converged_
    assert parts.infeasibility_ <= tol
    # Sums in another order: both stop within the tolerance of the same problem.
    assert_allclose(parts.objective_, whole.objective_, atol=tol)
    assert_allclose(parts.thresholds_, whole.thresholds_, atol=0.05)
    assert_allclose(parts.coef_, whole.coef_, atol=0.05)
    assert_allclose(parts.partial_parity_gap_, whole.partial_parity_gap_, atol=0.03)
    if kind == "probabilities":
        assert_allclose(parts.unmixed_parity_gap_, whole.unmixed_parity_gap_, atol=0.03)


@pytest.mark.parametrize(
    ("form", "criterion"), [(as_reader, "strong"), (as_array, "weak")]
)
def test_gap_is_at_most_kappa(form, criterion):
    model = classifier(criterion=criterion, surrogate_width="auto", kappa=0.4, tol=5e-3)
    model.fit(form(X), y, sensitive_features=group)
    assert model.converged_
    assert model.partial_parity_gap_ <= 0.4


@pytest.mark.parametrize("form", [*PARTITIONED, as_blocks])
def test_every_collection(fitted, form):
    model = classifier(criterion="weak").fit(form(X), y, sensitive_features=group)
    assert_allclose(model.coef_, fitted.coef_, atol=1e-8)
    assert_allclose(model.intercept_, fitted.intercept_, atol=1e-8)
    assert_allclose(model.objective_, fitted.objective_, rtol=1e-10)
    assert model.partial_parity_gap_ == pytest.approx(fitted.partial_parity_gap_)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


def test_everything_from_one_data_frame(fitted):
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y == "yes", group=group)
    frame = dd.from_pandas(frame, npartitions=4)
    people = {"sensitive_features": frame["group"]}
    model = classifier(criterion="weak")
    model.fit(frame[["u", "v", "w"]], frame["y"], **people)
    assert_allclose(model.coef_, fitted.coef_, atol=1e-8)
    assert model.classes_.tolist() == [False, True]
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["v", "u", "w"]], **people)


@pytest.mark.parametrize("form", PARTITIONED)
def test_prediction(fitted, form):
    for method in ("decision_function", "predict", "predict_proba"):
        predict = getattr(fitted, method)
        expected = predict(X, sensitive_features=group)
        actual = predict(form(X), sensitive_features=group)
        assert actual.shape == expected.shape
        assert actual.dtype == expected.dtype
        if form is as_reader:
            assert isinstance(actual, np.ndarray)
        else:
            assert actual.npartitions == (3 if form is as_frame else len(CUTS) - 1)
        if method == "predict":
            assert (np.asarray(actual) == expected).all()
        else:
            assert_allclose(np.asarray(actual), expected, rtol=1e-12, atol=1e-14)
    assert fitted.score(form(X), y, sensitive_features=group) == fitted.score(
        X, y, sensitive_features=group
    )


def test_prediction_of_some_groups_is_lazy(fitted):
    few = X[600:], group[600:]  # two of three groups
    actual = fitted.decision_function(as_array(few[0]), sensitive_features=few[1])
    expected = fitted.decision_function(few[0], sensitive_features=few[1])
    assert_allclose(actual.compute(), expected, rtol=1e-12, atol=1e-14)

    def refuse(block):
        raise ValueError("computed")

    lazy = da.from_delayed(dask.delayed(refuse)(0), X.shape, X.dtype)
    scores = fitted.decision_function(lazy, sensitive_features=group)
    with pytest.raises(ValueError, match="computed"):
        scores.compute()


def test_prediction_errors(fitted):
    bad = X.copy()
    bad[1000, 1] = np.nan
    errors = {
        "interactions=False": (X, None),
        "'z'.* It saw 'a', 'b', 'c'": (X, ["z"] * 1500),
        "2 features.* expecting 3": (X[:, :2], group),
        "1499 groups for 1500": (X, group[1:]),
        "Partition 3 of X, rows 900": (bad, group),
    }
    for message, (given, groups) in errors.items():
        with pytest.raises(ValueError, match=message):
            fitted.predict(as_reader(given), sensitive_features=groups)
    with pytest.raises(NotFittedError):
        classifier().predict(as_reader(X), sensitive_features=group)


@pytest.mark.parametrize("form", PARTITIONED)
def test_entries_that_are_not_finite_are_placed(form):
    bad = X.copy()
    bad[1200, 1] = np.nan if form is as_reader else np.inf
    part = 2 if form is as_frame else 3
    rows = form(bad)
    with pytest.raises(ValueError, match=rf"Partition {part} of X.*(NaN|infinity)"):
        classifier().fit(rows, y, sensitive_features=group)
    if form is as_reader:  # before anything is solved
        assert rows.n_read <= len(CUTS) - 1


@pytest.mark.parametrize("form", [as_reader, as_array])
def test_labels_and_groups_must_fit(form):
    def fit(y=y, group=group, **params):
        classifier(**params).fit(form(X), y, sensitive_features=group)

    bad = {
        "found 1 class": {"y": np.zeros(1500)},
        "Only binary .* multiclass, with 3 classes: 'a', 'b'": {"y": group},
        "continuous": {"y": np.where(y == "yes", 0.5, 1.25)},
        r"only one group \('a'\)": {"group": ["a"] * 1500},
        "1499 labels for 1500": {"y": y[1:]},
        "1499 groups for 1500": {"group": group[1:]},
        "'partial_auc' compares pairs of rows": {"loss": "partial_auc"},
    }
    for message, given in bad.items():
        with pytest.raises(ValueError, match=message):
            fit(**given)


@pytest.fixture
def small_samples(monkeypatch):
    """The rows below are many."""
    monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", 1200)


MANY_X, MANY_Y, MANY_GROUP = make_rows(4000, 2, seed=2, least=0.9)


def in_parts(X):
    return da.from_array(X, chunks=(700, X.shape[1]))


def in_sparse_parts(X):
    return in_parts(X).map_blocks(sparse.csr_array)


def fit(X, **params):
    model = classifier(n_thresholds=4, tol=1e-3, random_state=0, kappa=0.05, **params)
    return model.fit(X, MANY_Y, sensitive_features=MANY_GROUP)


def samples(X, seed=0):
    parts = PartitionedRows.of(X)
    training = PartitionedTraining(parts, MANY_Y, MANY_GROUP, LIMITS, OPTIONS)
    return list(training.nested_subsamples(np.random.RandomState(seed)))


def test_a_sample_first_takes_fewer_passes(small_samples):
    X = as_reader(MANY_X)
    model, whole = fit(X), fit(MANY_X)
    assert model.converged_
    assert model.classes_.tolist() == ["no", "yes"]
    # Both are solved to tol, 1e-3.
    assert model.objective_ <= whole.objective_ + 1e-3
    assert model.infeasibility_ <= 1e-3
    assert model.partial_parity_gap_ <= whole.partial_parity_gap_ + 0.03
    assert model.n_oracle_calls_ < whole.n_oracle_calls_
    assert np.array_equal(fit(X).coef_, model.coef_)


def test_other_starts_go_without_a_sample(monkeypatch):
    def drawn(*_):
        raise AssertionError("a sample was drawn")
        yield

    X = in_parts(MANY_X)
    model = fit(X, warm_start=True)
    monkeypatch.setattr(PartitionedTraining, "nested_subsamples", drawn)
    first = model.n_oracle_calls_
    model.fit(X, MANY_Y, sensitive_features=MANY_GROUP)
    assert model.n_oracle_calls_ < first / 2
    fit(X, start="zero")
    with pytest.raises(AssertionError, match="drawn"):
        fit(X)


@pytest.mark.parametrize("form", [in_parts, in_sparse_parts])
def test_samples_grow_and_have_every_group(form, small_samples):
    actual = samples(form(MANY_X))
    # Shares 1/16 and 1/4 of either group have fewer than 500 rows.
    assert [len(sample.signs) for sample in actual] == [1000, 1000, 1201]
    positions = []
    for sample in actual:
        rows_taken = sample.X.toarray() if sparse.issparse(sample.X) else sample.X
        numbers = [np.flatnonzero((x == MANY_X).all(axis=1))[0] for x in rows_taken]
        assert (sample.signs == np.where(MANY_Y[numbers] == "yes", 1, -1)).all()
        (groups,) = sample.group_arguments.values()
        assert (groups == MANY_GROUP[numbers]).all()
        assert len(set(numbers)) == len(numbers)
        positions.append(numbers)
    assert set(positions[0]) <= set(positions[1]) < set(positions[2])
    assert np.ptp(positions[0]) > 3000  # not the first ones
    assert samples(form(MANY_X), seed=1)[0].X[0, 0] != actual[0].X[0, 0]


def test_samples_have_the_rows_with_weight_of_rare_cells(monkeypatch):
    monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", 900)
    monkeypatch.setattr(_partitioned, "MIN_CELL_ROWS", 60)
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((6000, 2)), rng.integers(0, 2, 6000)
    y, weights = np.zeros(6000, int), rng.integers(0, 3, 6000) * 1.0
    y[:70] = 1  # 35 in either group, about: fewer than the least, so all
    training = PartitionedTraining(
        *(PartitionedRows.of(in_parts(X)), y, group, (9, 1), OPTIONS, "label"),
        sample_weight=weights,
    )
    drawn = list(training.nested_subsamples(np.random.RandomState(0)))
    assert drawn
    for sample in drawn:
        positions = [np.flatnonzero((x == X).all(axis=1))[0] for x in sample.X]
        assert (weights[positions] > 0).all()
        assert np.array_equal(sample.weights, weights[positions])
        expected = np.flatnonzero((y == 1) & (weights > 0))
        assert np.flatnonzero(sample.signs > 0).size == expected.size
        assert set(expected) <= set(positions)
        assert sample.given == "label"


def test_no_sample_of_few_or_wide_rows(monkeypatch):
    assert not samples(in_parts(MANY_X))
    for limit in (900, 4000):  # below 500 a group; as many as there are
        monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", limit)
        assert not samples(in_parts(MANY_X))
    monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", 3999)
    monkeypatch.setattr(_partitioned, "SAMPLE_BYTES", 1100 * MANY_X[0].nbytes)
    assert len(samples(in_parts(MANY_X))[-1].signs) == 1101
    assert len(samples(in_parts(MANY_X.astype(np.float32)))[-1].signs) == 2201
    assert len(samples(in_sparse_parts(MANY_X))) == 0  # with 4 bytes an index
    monkeypatch.setattr(_partitioned, "SAMPLE_BYTES", 900 * MANY_X[0].nbytes)
    assert not samples(in_parts(MANY_X))


def test_weak_criterion_where_the_sample_lacks_a_class(small_samples):
    # Four positives of 20,000: from a sample without them all is one class.
    rng = np.random.RandomState(0)
    X, group = rng.randn(20_000, 2), np.arange(20_000) % 2
    y = np.zeros(20_000, int)
    y[[100, 5001, 12_000, 19_001]] = 1
    model = PartiallyFairClassifier((0, 0.25), criterion="weak", random_state=0)
    with pytest.warns(ConvergenceWarning, match="than the same score"):
        model.fit(in_parts(X), y, sensitive_features=group)
    rate = 4 / 20_000
    best = -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)  # of a constant score
    assert model.objective_ <= best * (1 + 1e-9)


# Ranks of scores in parts are those of all scores; what travels does not grow.

SCORES = {
    "smooth": lambda x: x,
    "tied": lambda x: np.round(x, 1),
    "long tails": lambda x: np.sinh(4 * x) ** 3,
    "many tied": lambda x: np.where(x > 0.5, x, 0.0),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("has_weights", [False, True])
def test_ranks_of_parts(kind, has_weights):
    rng = np.random.default_rng(3)
    groups, signs = rng.integers(0, 3, 6000), rng.choice([-1.0, 1.0], 6000)
    scores = SCORES[kind](rng.normal(size=6000) + 0.3 * (groups == 1) + 0.5 * signs)
    weights = rng.integers(0, 3, 6000) * 1.0 if has_weights else None
    families = Cells(np.arange(3)[:, None], [3])
    parts = [
        ScoreOracle(
            *(scores[i::4, None], signs[i::4], groups[i::4], 3),
            weights=None if weights is None else weights[i::4],
            families=families,
        ).without_interactions()
        for i in range(4)
    ]
    sizes = np.bincount(groups, weights)
    oracles = LocalParts(parts.__iter__, 4)
    oracle = PartitionedOracle(oracles, parts[0].layout, sizes, families)
    ranked = oracle.ranked(np.array([1.0, 0.0]))
    arguments = {"sensitive_features": groups, "sample_weight": weights}
    for interval in [(0.0, 1.0), (0.1, 0.4)]:
        for threshold in (None, 0.0, 0.3):
            options = {"interval": interval, "threshold": threshold}
            expected = partial_parity_gap(scores, **options, **arguments)
            assert ranked.gap(**options) == pytest.approx(expected, abs=1e-12)
        tie = _largest_tie(scores, groups, interval, weights)
        assert ranked.largest_tie(interval) == pytest.approx(tie, abs=5e-3)
    levels = [0.0, 0.02, 0.5, 0.98, 1.0]
    options = {"weights": weights, "method": "inverted_cdf"}
    assert (
        oracle.quantiles([1.0, 0.0], levels) == np.quantile(scores, levels, **options)
    ).all()
    shift = most_accurate_shift(scores, signs, weights)
    assert ranked.most_accurate_shift() == pytest.approx(shift, abs=2e-3)


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    totals = []  # bytes to and from the parts in each step
    map_to, keep, gather = DaskParts.map, DaskParts.like, DaskParts.gather

    def add(values):
        totals[-1] += len(pickle.dumps(values))
        return values

    def add_map(self, *args, aligned=()):
        return map_to(self, *add(args), aligned=aligned)

    monkeypatch.setattr(_partitioned, "LARGEST_SAMPLE_ROWS", 1200)
    monkeypatch.setattr(DaskParts, "map", add_map)
    monkeypatch.setattr(DaskParts, "like", lambda self, v: keep(self, add([*v])))
    monkeypatch.setattr(DaskParts, "gather", lambda self: add(gather(self)))
    rng = np.random.default_rng(0)
    group, weights = rng.integers(0, 2, 3000), rng.choice([1.0, 2.0], 3000)
    X, y = rng.normal(size=(3000, 2)), np.where(rng.random(3000) < 0.4, "yes", "no")
    w = np.array([1.0, 0.5, 0.1, 0.0, 1.0, 0.0])
    for copies in (1, 16):
        chunks = 750 * copies, -1
        rows, *columns = (
            da.from_array(np.concatenate([a] * copies), chunks=chunks[: a.ndim])
            for a in (X, y, group, weights)
        )
        totals.append(0)
        training = PartitionedTraining(
            *(PartitionedRows.of(rows), *columns[:2], LIMITS, OPTIONS),
            sample_weight=columns[2],
        )
        totals.append(0)
        assert len(list(training.nested_subsamples(np.random.RandomState(0)))) == 3
        ranked = training.oracle.ranked(w)
        for step in (
            partial(training.oracle.evaluate, w, np.zeros(3)),
            partial(ranked.gap, (0.1, 0.5), None),
            partial(ranked.quantiles, [0.1, 0.9]),
            partial(ranked.largest_tie, (0.1, 0.5)),
            ranked.most_accurate_shift,
        ):
            totals.append(0)
            step()
    one, many = np.reshape(totals, (2, -1))
    assert (many <= 1.2 * one).all(), totals


def test_weights_of_a_collection():
    rows = PartitionedRows.of(da.ones((4, 1), chunks=2))
    weights = rows.weights(da.from_array([0.0, 0.0, 1.0, 2.0], chunks=1))
    assert np.concatenate(weights.gather()).tolist() == [0, 0, 1, 2]
    assert rows.weights(da.ones(4, chunks=2)) is None
    with pytest.raises(ValueError, match="zero for all samples"):
        rows.weights(da.zeros(4, chunks=2))
    with pytest.raises(ValueError, match=r"Partition 1: .* negative, .* position 0"):
        rows.weights(da.from_array([1.0, 0.0, -1.0, 2.0], chunks=2))
