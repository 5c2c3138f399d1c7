"""Rows in parts give the classifier of rows in memory."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError

from scalefair.linear_model import (
    PartiallyFairClassifier,
    PartiallyFairClassifierCV,
)
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._training_rows import PartitionedTraining
from scalefair.linear_model._weights import FeatureUnits, column_spread
from scalefair.streaming import PartitionedRows, RowReader

LIMITS = 100, 2
CUTS = [0, 300, 310, 900, 1500]


class Blocks(RowReader):
    """Blocks of rows in memory, that counts how often one is read."""

    def __init__(self, X, cuts=CUTS):
        self._X = X
        self._cuts = cuts
        self.lengths = np.diff(cuts)
        self.n_features = X.shape[1]
        self.dtype = X.dtype
        self.is_sparse = sparse.issparse(X)
        self.nnz = X.nnz if self.is_sparse else X.size
        self.n_read = 0

    def block(self, number):
        self.n_read += 1
        return self._X[self._cuts[number] : self._cuts[number + 1]]


def as_reader(X):
    return Blocks(X)


def as_array(X):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(tuple(np.diff(CUTS)), 2))


def as_csr_blocks(X):
    dask = pytest.importorskip("dask")
    X = sparse.csr_array(X)
    return [dask.delayed(X[i:j]) for i, j in pairwise(CUTS)]


def as_frame(X):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    return dd.from_pandas(frame, npartitions=3)


PARTITIONED = [as_reader, as_array, as_csr_blocks, as_frame]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(4)
    group = np.sort(rng.randint(3, size=1500))  # parts without some of the groups
    X = rng.randn(1500, 3) + 0.6 * (group[:, None] == 1)
    y = np.where(X.sum(axis=1) + rng.randn(1500) > 0.6, "yes", "no")
    y[300:310] = "no"  # a part without one of the classes
    return X, y, np.array(["a", "b", "c"])[group]


def classifier(**params):
    params = {"kappa": 0.1, "n_thresholds": 6, "tol": 2e-3, **params}
    return PartiallyFairClassifier((0.1, 0.5), **params)


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, group = rows
    return classifier(criterion="weak").fit(X, y, sensitive_features=group)


def oracles(rows, X, **options):
    """The oracle of rows in parts, and that of the same rows in memory."""
    whole, y, group = rows
    options = {
        "interactions": True,
        "loss": "logistic",
        "surrogate": "ramp",
        **options,
    }
    training = PartitionedTraining(PartitionedRows.of(X), y, group, LIMITS, options)
    known, many = training.known, training.oracle
    units = FeatureUnits.of(column_spread(whole))
    for of_parts, of_whole in zip(many.layout.units, units, strict=True):
        assert_allclose(of_parts, of_whole, rtol=1e-13, atol=1e-15)
    units = many.layout.units
    one = ScoreOracle(whole, known.signs, known.codes, 3, units=units, **options)
    return many, one


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("surrogate", ["ramp", "sigmoid"])
@pytest.mark.parametrize("interactions", [True, False])
def test_oracle_of_the_parts_is_that_of_the_rows(rows, loss, surrogate, interactions):
    many, one = oracles(
        rows,
        as_reader(rows[0]),
        loss=loss,
        surrogate=surrogate,
        interactions=interactions,
    )
    for name in ("n_features", "n_weights", "n_groups"):
        assert getattr(many, name) == getattr(one, name)
    assert many.group_sizes.tolist() == one.group_sizes.tolist()
    rng = np.random.RandomState(0)
    w, theta = rng.randn(one.n_weights), rng.randn(5)
    shape = {"corner": 0.05 if surrogate == "ramp" else 0.0}
    a, b = many.evaluate(w, theta, **shape), one.evaluate(w, theta, **shape)
    for name in (
        "loss",
        "loss_gradient",
        "plus",
        "minus",
        "plus_gradient",
        "minus_gradient",
    ):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)
    weights = rng.randn(2, 3, 5)
    assert_allclose(a.combine(*weights), b.combine(*weights), rtol=1e-12, atol=1e-12)
    assert_allclose(many.scores(w), one.scores(w), rtol=1e-14)
    assert many.n_calls == one.n_calls == 1


def test_float32_rows_stay_float32(rows):
    # Many of them: the kernels take few as float64.
    X, y, group = (np.concatenate([column] * 12) for column in rows)
    X = X.astype(np.float32)
    many, one = oracles((X, y, group), Blocks(X, [0, 10_000, 18_000]))
    part = next(iter(many._oracles))
    assert part._rows.table[2].dtype == np.float32
    w, theta = np.ones(one.n_weights), np.zeros(2)
    assert_allclose(many.evaluate(w, theta).loss, one.evaluate(w, theta).loss, 1e-6)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("protocol", [4, 5])
def test_pickled_oracle(rows, container, protocol):
    X, y, _group = rows
    signs = np.where(y == "yes", 1, -1)
    oracle = ScoreOracle(container(X), signs, np.arange(1500) % 2, 2)
    if protocol == 4:  # all arrays come back writeable
        copy = pickle.loads(pickle.dumps(oracle, protocol=4))
    else:  # all come back read-only, as from another process
        buffers = []
        data = pickle.dumps(oracle, protocol=5, buffer_callback=buffers.append)
        copy = pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])
    w, theta = np.ones(8), np.zeros(2)
    assert copy.evaluate(w, theta).loss == oracle.evaluate(w, theta).loss
    assert not any(array.flags.writeable for array in copy._rows.table)
    assert copy._rows.codes.flags.writeable
    assert copy._signs.flags.writeable


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"start": "zero"},
        {"interactions": False, "kappa": 0.3},
        {"surrogate": "sigmoid", "tol": 5e-3},
        {"criterion": "weak"},
        {"criterion": "weak", "start": "zero", "interactions": False},
        {"loss": "squared", "alpha": 0.01},
    ],
    ids=str,
)
def test_fit_is_that_in_memory(rows, params):
    X, y, group = rows
    whole = classifier(**params).fit(X, y, sensitive_features=group)
    parts = classifier(**params).fit(as_reader(X), y, sensitive_features=group)
    tol = whole.tol
    assert parts.converged_
    assert parts.infeasibility_ <= tol
    assert abs(parts.n_oracle_calls_ - whole.n_oracle_calls_) <= 50
    assert_allclose(parts.objective_, whole.objective_, atol=0.1 * tol)
    assert_allclose(parts.thresholds_, whole.thresholds_, atol=5 * tol)
    assert_allclose(parts.coef_, whole.coef_, atol=5 * tol)
    assert_allclose(parts.partial_parity_gap_, whole.partial_parity_gap_, atol=5 * tol)


@pytest.mark.parametrize("form", PARTITIONED)
def test_every_collection(rows, fitted, form):
    X, y, group = rows
    model = classifier(criterion="weak").fit(form(X), y, sensitive_features=group)
    assert_allclose(model.coef_, fitted.coef_, atol=1e-8)
    assert_allclose(model.intercept_, fitted.intercept_, atol=1e-8)
    assert_allclose(model.objective_, fitted.objective_, rtol=1e-10)
    assert model.partial_parity_gap_ == pytest.approx(fitted.partial_parity_gap_)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3


def test_everything_from_one_data_frame(rows, fitted):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, y, group = rows
    frame = pd.DataFrame(X, columns=["u", "v", "w"]).assign(y=y == "yes", group=group)
    frame = dd.from_pandas(frame, npartitions=4)
    features = frame[["u", "v", "w"]]
    model = classifier(criterion="weak").fit(
        features, frame["y"], sensitive_features=frame["group"]
    )
    assert_allclose(model.coef_, fitted.coef_, atol=1e-8)
    assert model.classes_.tolist() == [False, True]
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    accuracy = model.score(features, frame["y"], sensitive_features=frame["group"])
    assert accuracy == fitted.score(X, y, sensitive_features=group)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["v", "u", "w"]], sensitive_features=frame["group"])


@pytest.mark.parametrize("form", PARTITIONED)
@pytest.mark.parametrize("method", ["decision_function", "predict", "predict_proba"])
def test_prediction(rows, fitted, form, method):
    X, y, group = rows
    predict = getattr(fitted, method)
    expected = predict(X, sensitive_features=group)
    found = predict(form(X), sensitive_features=group)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if form is as_reader:
        assert isinstance(found, np.ndarray)
    else:
        assert hasattr(found, "compute")
        n_parts = 3 if form is as_frame else len(CUTS) - 1
        assert found.npartitions == n_parts
    if method == "predict":
        assert (np.asarray(found) == expected).all()
    else:
        assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-14)
    assert fitted.score(form(X), y, sensitive_features=group) == fitted.score(
        X, y, sensitive_features=group
    )


def test_prediction_is_lazy(rows, fitted):
    dask = pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    X, _y, group = rows

    def refuse(block):
        raise ValueError("computed")

    lazy = da.from_delayed(dask.delayed(refuse)(0), X.shape, X.dtype)
    scores = fitted.decision_function(lazy, sensitive_features=group)
    with pytest.raises(ValueError, match="computed"):
        scores.compute()


def test_prediction_errors(rows, fitted):
    X, _y, group = rows
    with pytest.raises(ValueError, match="interactions=False"):
        fitted.predict(as_reader(X))
    with pytest.raises(ValueError, match=r"'z'.* It saw 'a', 'b', 'c'"):
        fitted.predict(as_reader(X), sensitive_features=["z"] * 1500)
    with pytest.raises(ValueError, match=r"2 features.* expecting 3"):
        fitted.predict(as_reader(X[:, :2]), sensitive_features=group)
    with pytest.raises(ValueError, match=r"1499 groups for 1500"):
        fitted.predict(as_reader(X), sensitive_features=group[1:])
    with pytest.raises(NotFittedError):
        classifier().predict(as_reader(X), sensitive_features=group)
    bad = X.copy()
    bad[1000, 1] = np.nan
    with pytest.raises(ValueError, match="Partition 3 of X, rows 900"):
        fitted.predict(as_reader(bad), sensitive_features=group)


def test_prediction_without_groups_in_float32(rows):
    X, y, group = rows
    model = classifier(criterion="weak", interactions=False)
    model.fit(X, y, sensitive_features=group)
    X = X.astype(np.float32)
    found = model.decision_function(as_reader(X))
    assert found.dtype == np.float32
    assert_allclose(found, model.decision_function(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", PARTITIONED)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_placed(rows, form, value):
    X, y, group = rows
    X = X.copy()
    X[1200, 1] = value
    part = 2 if form is as_frame else 3
    with pytest.raises(ValueError, match=rf"Partition {part} of X.*(NaN|infinity)"):
        classifier().fit(form(X), y, sensitive_features=group)


def test_entries_are_looked_at_before_solving(rows):
    X, y, group = rows
    X = X.copy()
    X[1200, 1] = np.nan
    reader = as_reader(X)
    with pytest.raises(ValueError, match="NaN"):
        classifier().fit(reader, y, sensitive_features=group)
    assert reader.n_read <= len(CUTS) - 1


@pytest.mark.parametrize("form", [as_reader, as_array])
def test_labels_and_groups_must_fit(rows, form):
    X, y, group = rows

    def fit(y=y, group=group, **params):
        classifier(**params).fit(form(X), y, sensitive_features=group)

    with pytest.raises(ValueError, match="found 1 class"):
        fit(y=np.zeros(1500))
    with pytest.raises(ValueError, match=r"Only binary .* 3 different values: 'a'"):
        fit(y=group)
    with pytest.raises(ValueError, match="continuous"):
        fit(y=np.where(y == "yes", 0.5, 1.25))
    with pytest.raises(ValueError, match=r"only one group \('a'\)"):
        fit(group=["a"] * 1500)
    with pytest.raises(ValueError, match="1499 labels for 1500"):
        fit(y=y[1:])
    with pytest.raises(ValueError, match="1499 groups for 1500"):
        fit(group=group[1:])
    for loss in ("auc", "partial_auc"):
        with pytest.raises(ValueError, match="pairs of rows"):
            fit(loss=loss)


def test_blocks_of_different_widths(rows):
    dask = pytest.importorskip("dask")
    X, y, group = rows
    blocks = [dask.delayed(X[:700]), dask.delayed(X[700:, :2])]
    with pytest.raises(ValueError, match="Partition 1 of X has 2 columns"):
        classifier().fit(blocks, y, sensitive_features=group)


def test_partitions_without_rows(rows, fitted):
    dask = pytest.importorskip("dask")
    X, y, group = rows
    blocks = [dask.delayed(X[i:j]) for i, j in [(0, 0), (0, 700), (700, 1500)]]
    model = classifier(criterion="weak").fit(blocks, y, sensitive_features=group)
    assert_allclose(model.coef_, fitted.coef_, atol=1e-8)


def test_cross_validated_model_predicts_parts(rows):
    X, y, group = rows
    model = PartiallyFairClassifierCV(
        [0.3], 0.0, estimator=classifier(criterion="weak"), cv=2
    ).fit(X, y, sensitive_features=group)
    found = model.predict(as_reader(X), sensitive_features=group)
    assert (found == model.predict(X, sensitive_features=group)).all()
