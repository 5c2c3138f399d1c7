"""Rows in parts: Dask collections and readers of files."""

import time
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.postprocessing import (
    ExplainableSVDRegressor,
    FairCalibratedClassifier,
    _explainable_svd_regressor,
)
from scalefair.postprocessing._hosts import find_host
from scalefair.postprocessing._passes import ModelRows, training_rows

from ..conftest import CountedBlocks
from .conftest import assert_same_moments, mlp, table

M = 240
NAMES = ["age", "pay", "years", "rank"]


X, Y, CODES = table(M)
ORDER = np.argsort(CODES, kind="stable")  # parts without a group
X, Y, CODES = X[ORDER], Y[ORDER], CODES[ORDER]


network = cache(lambda: mlp(X, Y))  # the estimator never modifies what it is given


def in_blocks(rows, size=70):
    m = rows.shape[0]
    return CountedBlocks(rows, [*range(0, m, size), m])


def delayed_blocks(rows, size=70):
    dask = pytest.importorskip("dask")
    return [dask.delayed(rows[i : i + size]) for i in range(0, M, size)]


def frame_of(rows, size=70):
    pd = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(rows, columns=NAMES)
    return dataframe.from_pandas(frame, chunksize=size, sort=False)


def array_of(values, chunks=70):
    return pytest.importorskip("dask.array").from_array(np.asarray(values), chunks)


PARTS = {
    "array": lambda rows: array_of(rows, (70, 3)),
    "frame": frame_of,
    "CSR blocks": lambda rows: delayed_blocks(sparse.csr_array(rows)),
    "reader": in_blocks,
    "reader of CSR": lambda rows: in_blocks(sparse.csr_array(rows)),
}


def fair(estimator, rows=X, targets=Y, codes=CODES, **options):
    names = ("sample_weight", "group_probabilities")
    groups = {name: options.pop(name) for name in names if name in options}
    if "group_probabilities" not in groups:
        groups["sensitive_features"] = codes
    model = ExplainableSVDRegressor(estimator, **{"random_state": 0} | options)
    return model.fit(rows, targets, **groups)


def close(actual, expected, atol=0.0):
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=atol)


def assert_same(model, expected):
    """Fits are the same, but for rounding."""
    for name in ("layer_", "layer_changed_", "converged_", "n_features_in_"):
        assert getattr(model, name) == getattr(expected, name)
    assert_same_moments(model, expected, 1e-8)
    # L-BFGS may amplify rounding.
    close(model.weight_, expected.weight_, atol=1e-4 * np.abs(expected.weight_).max())
    for name in ("mean_gap_before_", "refit_gaps_before_", "ks_before_"):
        # None becomes NaN.
        values = (np.array(getattr(m, name), float) for m in (model, expected))
        close(*values, atol=1e-9)
    close(*([u.score for u in m.unfairness_by_layer_] for m in (model, expected)))


# Groups as arguments of the fit; of some rows, and of a whole part, nothing is known.
P = 0.8 * np.eye(2)[CODES] + 0.1
P[::7] = P[70:140] = 0.0
HEAVY = np.random.default_rng(1).integers(0, 4, M) * 1.5 * (np.arange(M) >= 70)
KINDS = {
    "one": {},
    "each": {"codes": np.column_stack([CODES, np.arange(M) % 3]), "attributes": "each"},
    "weights": {"sample_weight": HEAVY},
    "probabilities": {
        "group_probabilities": P,
        "sample_weight": np.arange(M) % 4 + 1.0,
    },
}
# A form of the rows, groups, and options of the fit.
CASES = [
    ("array", "one", {"layer": "auto", "method": "explainable_svd"}),
    ("array", "probabilities", {"max_distance": 0.3}),
    ("array", "weights", {"layer": "auto", "refit_last": "gradient"}),
    ("frame", "each", {"noise_floor": False}),
    ("CSR blocks", "one", {"batch_size": 7}),
    ("reader", "probabilities", {"layer": 0, "refit_last": None}),
    ("reader", "each", {"layer": "auto", "method": "explainable_svd"}),
    ("reader of CSR", "weights", {"layer": -1}),
]


@pytest.mark.parametrize(("kind", "groups", "options"), CASES, ids=str)
def test_the_fit_is_that_in_memory(kind, groups, options):
    groups = KINDS[groups]
    expected, is_lazy = fair(network(), **groups, **options), "reader" not in kind
    if is_lazy and "codes" in groups:
        groups = groups | {"codes": delayed_blocks(groups["codes"])}
    elif is_lazy and groups.keys() == {"sample_weight"}:
        groups = {"sample_weight": array_of(groups["sample_weight"], 31)}
    model = fair(network(), PARTS[kind](X), **groups, **options)
    assert_same(model, expected)
    predicted = model.predict(PARTS[kind](X))
    if is_lazy:
        assert predicted.chunks == ((70, 70, 70, 30),)
    else:
        assert type(predicted) is np.ndarray
    assert (predicted.shape, predicted.dtype) == ((M,), np.float64)
    np.testing.assert_allclose(np.asarray(predicted), expected.predict(X), atol=1e-4)
    score = expected.score(X, Y)
    assert model.score(PARTS[kind](X), Y) == pytest.approx(score, abs=1e-4)


def test_predictions_are_lazy():
    array = pytest.importorskip("dask.array")
    seen = []

    def noted(block):
        seen.append(len(block))
        return block

    rows = array_of(X).map_blocks(noted, dtype=X.dtype, meta=np.empty((0, 0)))
    model = fair(network())
    predicted = model.predict(rows)
    assert isinstance(predicted, array.Array)
    assert not seen
    close(predicted[:70].compute(), model.predict(X[:70]), atol=1e-10)
    assert seen == [70]


def test_batches_of_a_part():
    linear = fair(Ridge().fit(X, Y), in_blocks(X), batch_size=7)
    spy = patch.object(Ridge, "predict", autospec=True, side_effect=Ridge.predict)
    with spy as predict:
        linear.predict(in_blocks(X))
    sizes = [len(rows) for (_, rows), _ in predict.call_args_list]
    assert max(sizes) == 7
    assert sum(sizes) == M + 2  # two to see that the model is linear


def test_targets_and_groups_of_every_kind():
    dataframe = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    expected = fair(network())
    columns = pd.DataFrame({"y": Y, "g": CODES})
    columns = dataframe.from_pandas(columns, chunksize=70, sort=False)
    arrays = array_of(X)
    for rows, targets, codes in [
        (arrays, array_of(Y, 100), array_of(CODES, 31)),
        (arrays, columns[["y"]], columns[["g"]]),
        (arrays, delayed_blocks(Y), array_of(CODES).to_delayed()),
        (arrays, list(Y), delayed_blocks(CODES)),
        (in_blocks(X), columns["y"], columns["g"]),
    ]:
        assert_same(fair(network(), rows, targets, codes), expected)


def test_names_of_columns_reach_the_model():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=NAMES)
    by_name = ColumnTransformer([("some", StandardScaler(), ["rank", "age", "pay"])])
    estimator = make_pipeline(by_name, Ridge()).fit(frame, Y)
    expected, model = fair(estimator, frame), fair(estimator, frame_of(X))
    assert_same(model, expected)
    assert model.feature_names_in_.tolist() == NAMES
    close(model.predict(frame_of(X)).compute(), expected.predict(frame), 1e-8)
    moved = frame_of(X)[NAMES[::-1]]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(moved)
    network_of_names = mlp(frame, Y)
    with pytest.raises(ValueError, match="feature names"):
        fair(network_of_names, moved)
    # They go when rows without names are fitted.
    model.set_params(estimator=network()).fit(in_blocks(X), Y, sensitive_features=CODES)
    assert not hasattr(model, "feature_names_in_")


def test_torch_modules_are_shared_by_threads():
    """The hooks of one thread see no rows of another."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("dask")

    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 5, dtype=torch.float64)
            self.last = torch.nn.Linear(5, 1, dtype=torch.float64)

        def forward(self, rows):
            time.sleep(0.002)
            return self.last(torch.tanh(self.first(rows)))

    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Slow()
    expected = fair(module, layer="first")
    model = fair(module, array_of(X, 30), layer="first")
    assert_same(model, expected)
    close(model.predict(array_of(X, 30)).compute(), expected.predict(X), atol=1e-8)
    assert not module.first._forward_pre_hooks
    assert module.training


def test_the_sample_does_not_depend_on_the_parts():
    codes = np.sort(table(M, n_groups=3)[2])
    host, samples = find_host(network()), []
    for rows in (X, *(in_blocks(X, size) for size in (1, 37, M))):
        rows = training_rows(ExplainableSVDRegressor(host.estimator), rows, codes)
        sample = ModelRows.build(host, *rows, None).sample(30, np.random.RandomState(1))
        samples.append((sample.X.X, sample.membership.codes))
    for sample in samples:
        for column, expected in zip(sample, samples[0], strict=True):
            np.testing.assert_array_equal(column, expected)
    assert np.bincount(samples[0][1]).tolist() == [10, 10, 10]


def test_how_often_a_file_is_read():
    for options, n_passes in [
        # Sample, layer, last layer before and after, three models' predictions.
        ({}, 7),
        ({"layer": "auto"}, 5),  # which is the last one here
        ({"layer": -1}, 4),
        ({"refit_last": None}, 4),
    ]:
        reader = in_blocks(X)
        model = fair(network(), reader, **options)
        assert reader.n_read == n_passes * len(reader)
        reader.n_read = 0
        model.predict(reader)
        assert reader.n_read == len(reader)


@pytest.mark.parametrize(("kind", "bad"), [("array", np.nan), ("reader", np.inf)])
def test_entries_that_are_not_finite_are_placed(kind, bad, monkeypatch):
    rows = X.copy()
    rows[150, 2] = bad
    message = "Partition 2 of X, rows 140 to 209"
    with pytest.raises(ValueError, match=message):
        np.asarray(fair(network()).predict(PARTS[kind](rows)))
    for sampled, layer in ((M, 0), (4, "auto"), (4, -1)):  # in the sample, and not
        monkeypatch.setattr(_explainable_svd_regressor, "N_SAMPLED_ROWS", sampled)
        with pytest.raises(ValueError, match=message):
            fair(network(), PARTS[kind](rows), layer=layer)


def test_columns_that_do_not_fit():
    for parts in (array_of(X[:, :3]), in_blocks(X[:, :3])):
        with pytest.raises(ValueError, match="X has 3 features"):
            fair(network(), parts)
        with pytest.raises(ValueError, match="X has 3 features"):
            fair(network()).predict(parts)


def test_groups_that_do_not_fit_and_targets_that_are_not_needed():
    for rows, codes, message in (
        (X, CODES[1:], "239 groups for 240 samples"),
        (X, 0 * CODES, "only one group"),
        (X[:1], CODES[:1], "1 sample"),
    ):
        with pytest.raises(ValueError, match=message):
            fair(network(), in_blocks(rows), Y[: len(rows)], codes)
    model = fair(network(), in_blocks(X), None, refit_last=None)
    assert model.refit_gaps_after_ is None


def test_the_estimator_must_come_fitted():
    for rows in (array_of(X), in_blocks(X)):
        with pytest.raises(ValueError, match="fitted already"):
            fair(MLPRegressor(), rows)
        with pytest.raises(ValueError, match="fitted already"):
            fair(network(), rows, prefit=False)
        with pytest.raises(NotFittedError, match="prefit=True"):
            fair(MLPRegressor(), rows, prefit=True)


LABELS = np.where(X[:, 0] + np.cos(7.0 * np.arange(M)) > 1.0, "yes", "no")
GROUPS = np.array(["f", "m"])[CODES]
WEIGHTS = np.random.default_rng(2).integers(0, 3, M)
CLASSIFIER = LogisticRegression().fit(X[:100], LABELS[:100])


def calibrated(rows=X, y=LABELS, groups=GROUPS, weights=WEIGHTS, **options):
    options = {"estimator": FrozenEstimator(CLASSIFIER), "kappa": 0.1} | options
    model = FairCalibratedClassifier(**options)
    return model.fit(rows, y, sensitive_features=groups, sample_weight=weights)


@pytest.mark.parametrize("kind", list(PARTS))
def test_calibration_is_that_in_memory(kind):
    rows, expected, is_lazy = PARTS[kind](X), calibrated(), "reader" not in kind
    columns = LABELS, GROUPS, WEIGHTS
    y, groups, weights = map(array_of, columns) if is_lazy else columns
    model = calibrated(rows, y, groups, weights)
    # Products of sparse rows round otherwise.
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, rtol=1e-12)
    np.testing.assert_allclose(model.values_, expected.values_, rtol=1e-12)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 4
    assert hasattr(model, "feature_names_in_") == (kind == "frame")
    for name in ("decision_function", "predict_proba", "predict"):
        outputs = getattr(model, name)(rows, sensitive_features=groups)
        in_memory = getattr(expected, name)(X, sensitive_features=GROUPS)
        assert hasattr(outputs, "dask") == is_lazy  # not computed yet
        assert (outputs.shape, outputs.dtype) == (in_memory.shape, in_memory.dtype)
        if name == "predict":
            np.testing.assert_array_equal(np.asarray(outputs), in_memory)
        else:
            np.testing.assert_allclose(np.asarray(outputs), in_memory, atol=1e-12)
    score = expected.score(X, LABELS, sensitive_features=GROUPS)
    assert model.score(rows, y, sensitive_features=groups) == score
    with pytest.raises(ValueError, match="fit did not see: 'x'"):
        model.predict(rows, sensitive_features=np.full(M, "x"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": LogisticRegression()}, "not cross-validated: fit this Logistic"),
        ({"y": LABELS[:9]}, "one label per sample, got 9 labels for 240"),
        ({"y": np.zeros(M)}, r"two labels, got 1 class\(es\): 0.0"),
        ({"weights": WEIGHTS[:9]}, "one weight per sample"),
        ({"rows": np.where(np.arange(M) == 75, np.inf, X.T).T}, "ion 1 of X.*infinity"),
    ],
)
def test_bad_input_of_calibration(arguments, message):
    rows = in_blocks(arguments.get("rows", X))
    with pytest.raises(ValueError, match=message):
        calibrated(**arguments | {"rows": rows})
