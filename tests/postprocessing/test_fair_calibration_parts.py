"""Fair calibration of rows in parts: what it gives of rows in memory."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from scalefair.postprocessing import FairCalibratedClassifier, fair_calibration_path
from scalefair.streaming import RowReader

M = 240
NAMES = ["age", "pay", "years"]
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 2, M)
X = RNG.standard_normal((M, 3)) + 0.5 * CODES[:, None]
Y = np.where(X[:, 0] + RNG.standard_normal(M) > 0.5, "yes", "no")
GROUPS = np.array(["f", "m"])[CODES]
WEIGHTS = RNG.integers(0, 3, M)
INNER = LogisticRegression().fit(X[:100], Y[:100])


class Blocks(RowReader):
    """Rows as if they were in a file."""

    def __init__(self, rows, size=70):
        self._rows, self._size = rows, size
        starts = np.arange(0, rows.shape[0], size)
        self.lengths = np.diff(np.append(starts, rows.shape[0]))
        self.n_features, self.dtype = rows.shape[1], rows.dtype
        self.is_sparse = sparse.issparse(rows)
        self.nnz = rows.nnz if self.is_sparse else rows.size

    def block(self, number):
        start = number * self._size
        return self._rows[start : start + self._size]


def array_of(values, chunks=70):
    return pytest.importorskip("dask.array").from_array(np.asarray(values), chunks)


def frame_of(rows, size=70):
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    frame = pandas.DataFrame(rows, columns=NAMES)
    return dataframe.from_pandas(frame, chunksize=size, sort=False)


def csr_blocks(rows, size=70):
    dask = pytest.importorskip("dask")
    return [dask.delayed(sparse.csr_array(rows[i : i + size])) for i in range(0, M, 70)]


PARTS = {
    "array": lambda rows: array_of(rows, (70, 2)),
    "frame": frame_of,
    "CSR blocks": csr_blocks,
    "reader": Blocks,
    "reader of CSR": lambda rows: Blocks(sparse.csr_array(rows)),
}
by_parts = pytest.mark.parametrize("parts", PARTS)


def fair(rows=X, y=Y, groups=GROUPS, weights=WEIGHTS, **options):
    options = {"estimator": FrozenEstimator(INNER), "kappa": 0.1} | options
    model = FairCalibratedClassifier(**options)
    return model.fit(rows, y, sensitive_features=groups, sample_weight=weights)


@by_parts
def test_same_as_in_memory(parts):
    rows, expected = PARTS[parts](X), fair()
    in_dask = "reader" not in parts
    columns = [array_of(c) if in_dask else c for c in (Y, GROUPS, WEIGHTS)]
    model = fair(rows, *columns)
    # Products of sparse rows round otherwise.
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, rtol=1e-12)
    np.testing.assert_allclose(model.values_, expected.values_, rtol=1e-12)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.n_features_in_ == 3
    assert hasattr(model, "feature_names_in_") == (parts == "frame")
    given = {"sensitive_features": columns[1]}
    for name in ("decision_function", "predict_proba", "predict"):
        found = getattr(model, name)(rows, **given)
        assert hasattr(found, "dask") == in_dask  # not computed yet
        wanted = getattr(expected, name)(X, sensitive_features=GROUPS)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        found = np.asarray(found)
        if name == "predict":
            np.testing.assert_array_equal(found, wanted)
        else:
            np.testing.assert_allclose(found, wanted, atol=1e-12)
    score = expected.score(X, Y, sensitive_features=GROUPS)
    assert model.score(rows, columns[0], **given) == score


def test_path():
    kappas, weights = [0.3, 0.05], {"sample_weight": array_of(WEIGHTS)}
    options = {"sensitive_features": array_of(GROUPS), "kappas": kappas, **weights}
    path = fair_calibration_path(
        FrozenEstimator(INNER), PARTS["array"](X), array_of(Y), **options
    )
    for kappa, model in zip(kappas, path, strict=True):
        expected = fair(kappa=kappa)
        np.testing.assert_array_equal(model.thresholds_, expected.thresholds_)


def test_classifiers_that_know_names_get_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES)
    named = FrozenEstimator(LogisticRegression().fit(frame, Y))
    model = fair(frame_of(X), estimator=named)  # a warning would be an error
    expected = fair(frame, estimator=named)
    np.testing.assert_allclose(model.thresholds_, expected.thresholds_, rtol=1e-12)
    found = model.decision_function(frame_of(X), sensitive_features=GROUPS)
    wanted = expected.decision_function(frame, sensitive_features=GROUPS)
    np.testing.assert_array_equal(np.asarray(found), wanted)
    other = frame_of(X).rename(columns={"pay": "age", "age": "pay"})
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(other, sensitive_features=GROUPS)


def not_finite(rows):
    rows = rows.copy()
    rows[75] = np.inf
    return rows


@pytest.mark.parametrize("parts", ["array", "reader"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": LogisticRegression()}, "not cross-validated: fit this Logistic"),
        ({"y": Y[:9]}, "one label per sample, got 9 labels for 240"),
        ({"y": np.zeros(M)}, r"two labels, got 1 class\(es\): 0.0"),
        ({"y": X[:, 0]}, "Unknown label type: continuous"),
        ({"y": CODES}, "labels 0, 1, the estimator was fitted to 'no', 'yes'"),
        ({"groups": np.where(CODES, None, "f")}, "missing"),
        ({"weights": Y == "no"}, r"have a weight must have two labels.*: 'no'"),
        ({"weights": CODES}, "0 for all rows of 1 group.*'f'"),
        ({"weights": WEIGHTS[:9]}, "sample_weight.shape == "),
        ({"rows": not_finite(X)}, "Partition 1 of X.*infinity"),
    ],
)
def test_bad_input(parts, arguments, message):
    rows = PARTS[parts](arguments.get("rows", X))
    with pytest.raises(ValueError, match=message):
        fair(**arguments | {"rows": rows})


def test_unseen_group():
    with pytest.raises(ValueError, match="fit did not see: 'x'"):
        fair().predict(PARTS["array"](X), sensitive_features=np.full(M, "x"))
