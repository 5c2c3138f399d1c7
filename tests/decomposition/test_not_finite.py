"""Rows that are infinite somewhere, or too large; warnings are errors here."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA, joint_numerical_range

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 6)) + 0.1
groups = np.arange(60) % 3
BOTH = np.array([np.inf, -np.inf] * 3)  # their sum is NaN on every processor


@pytest.fixture(scope="module")
def fitted():
    return FairPCA(2).fit(X, sensitive_features=groups % 2)


@pytest.mark.parametrize("row", [np.inf, -np.inf, np.nan, BOTH], ids=str)
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, sparse.csr_array])
def test_rows_that_are_not_finite(fitted, row, wrap):
    bad = X.copy()
    bad[7] = row
    with pytest.raises(ValueError, match=r"X contains NaN.* position 7"):
        fitted.transform(wrap(bad))
    for solver in ("gram", "matrix_free"):
        with pytest.raises(ValueError, match=r"NaN or infinite .* at row 7, column 0"):
            FairPCA(2, solver=solver).fit(wrap(bad), sensitive_features=groups)
    with pytest.raises(ValueError, match=r"NaN or infinite .* at row 7, column 0"):
        FairPCA(2).partial_fit(wrap(bad), sensitive_features=groups)
    if wrap is not sparse.csr_array:
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            fitted.inverse_transform(wrap(bad[:, :2]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_too_large(fitted, dtype):
    bad = X.astype(dtype)
    bad[7] = 0.9 * np.finfo(dtype).max * np.sign(fitted.components_[0])
    with pytest.raises(ValueError, match=r"too large for float\d\d, in 1 .*position 7"):
        fitted.transform(bad)
    turned = FairPCA(2).fit(X[:, :2], sensitive_features=groups)
    scores = np.finfo(dtype).max * np.sign(turned.components_[:, :1].T)
    with pytest.raises(ValueError, match="too large for float"):
        turned.inverse_transform(scores.astype(dtype))


@pytest.mark.parametrize("entry", [1e160, 1e308, np.inf])
def test_joint_range(entry):
    C = np.diag([1.0, 2.0, entry])
    with pytest.raises(ValueError, match=r"C_A (has entries as|contains inf)"):
        joint_numerical_range(C, np.eye(3), 1)
