"""Covariances of rows in parts are those of rows in memory."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from scalefair.operators import GroupCovariance
from scalefair.operators._coded_rows import _code_part
from scalefair.streaming import PartitionedRows

dask = pytest.importorskip("dask")

M, N, G = 300, 17, 3


CUTS = (0, 100, 101, 200, M)


def delayed(X):
    return [dask.delayed(X[i:j]) for i, j in itertools.pairwise(CUTS)]


@pytest.fixture(scope="module", name="X", params=["dense", "sparse"])
def table(request):
    X = sparse.random_array((M, N), density=0.3, rng=np.random.default_rng(0))
    X = X.tocsr() * 3.0
    return X if request.param == "sparse" else X.toarray() + 50


@pytest.fixture(scope="module")
def codes():
    codes = np.random.default_rng(1).integers(0, G, M)
    codes[100:200] = 1  # other groups are absent from two parts
    return codes


@pytest.fixture
def rows(X):
    return PartitionedRows.of(delayed(X))


@pytest.mark.parametrize(
    ("centering", "weights"),
    [("global", [0.2, 0.5, 0.3]), ("group", [0.0, 0.0, -2.0])],
)
def test_products(centering, weights, X, codes, rows):
    local = GroupCovariance(X, codes, weights, centering=centering)
    remote = GroupCovariance(rows, codes, weights, centering=centering)
    np.testing.assert_allclose(remote.means, local.means, rtol=1e-13)
    np.testing.assert_allclose(remote.group_traces, local.group_traces, rtol=1e-11)
    assert remote.counts.tolist() == local.counts.tolist()
    assert remote.gathers_rows == local.gathers_rows
    V = np.random.default_rng(2).standard_normal((N, 4))
    size = local.group_traces.max()
    np.testing.assert_allclose(remote @ V, local @ V, atol=1e-12 * size)
    np.testing.assert_allclose(remote @ V[:, 0], local @ V[:, 0], atol=1e-12 * size)
    np.testing.assert_allclose(remote.compress(V), local.compress(V), atol=1e-12 * size)
    single = remote.astype(np.float32) @ V
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, local @ V, atol=1e-5 * size)


def test_a_group_without_rows(rows, codes):
    with pytest.raises(ValueError, match="Group 3 has no row"):
        GroupCovariance(rows, codes, np.ones(G + 1))
    _, parts = rows.encode(codes, name="codes", noun="code")
    with pytest.raises(ValueError, match="Group 3 has no row"):
        GroupCovariance(rows, parts, np.ones(G + 1))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_bad_values_are_placed(value, codes):
    X = np.ones((M, N))
    X[150, 2] = value
    message = "Partition 2 of X, rows 101 to 199.*" + (
        "squares .* overflow" if value == 1e200 else "row 49, column 2"
    )
    with (
        pytest.raises(ValueError, match=message),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        GroupCovariance(PartitionedRows.of(delayed(X)), codes, np.ones(G))


def test_values_that_overflow_between_partitions(codes):
    X = np.zeros((M, N))
    X[:, 0] = np.where(np.arange(M) < 100, 1e154, -1e154)
    with pytest.raises(ValueError, match="between the partitions of X overflow"):
        GroupCovariance(PartitionedRows.of(delayed(X)), 0 * codes, np.ones(1))


def test_kept_parts_tell_their_size(X, codes):
    """Dask moves what it takes for small."""
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    part = _code_part(X, codes)
    assert sizeof(part) >= (X.data.nbytes if sparse.issparse(X) else X.nbytes)


def test_whole_numbers(codes):
    X = np.random.default_rng(2).integers(-9, 9, (M, N)).astype(np.int16)
    C = GroupCovariance(PartitionedRows.of(delayed(X)), codes, np.ones(G))
    expected = GroupCovariance(X.astype(np.float64), codes, np.ones(G))
    np.testing.assert_allclose(C @ np.eye(N), expected @ np.eye(N), rtol=1e-12)
