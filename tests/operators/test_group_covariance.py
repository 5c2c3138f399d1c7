"""GroupCovariance against the covariances formed from their definition."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.operators import GroupCovariance
from scalefair.operators import _coded_rows as coded_rows
from scalefair.streaming import PartitionedRows

from ..conftest import (
    delayed_blocks,
    dense_covariances,
    random_groups,
    with_long_indices,
)

M, N = 230, 23
WEIGHTS = np.array([0.7, 0.0, -1.3])


def rows(m=M):
    """About a third of the entries, so that sparse and dense tell the same."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((m, N)) * (rng.random((m, N)) < 0.3) + 0.0


def random_codes(m=M, n_codes=3):
    codes = random_groups(m, n_codes, seed=1)
    codes[100:200] = 1  # other groups are absent from two parts
    return codes


def with_duplicates(X):
    """Each entry stored twice, as halves, out of order."""
    A = sparse.csr_array(np.hstack([X, X]) / 2)
    return sparse.csr_array((A.data, A.indices % X.shape[1], A.indptr), shape=X.shape)


def in_parts(X):
    return PartitionedRows.of(delayed_blocks(X, (0, 100, 101, 200, M)))


FORMS = {
    "F": np.asfortranarray,
    "rows reversed": lambda X: X[::-1].copy()[::-1],
    "list": lambda X: X.tolist(),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "int64 indices": with_long_indices,
    "duplicates": with_duplicates,
    "parts": in_parts,
    "CSR parts": lambda X: in_parts(sparse.csr_array(X)),
    "whole numbers in parts": lambda X: in_parts(X.astype(np.int16)),
}


@pytest.fixture(params=["global", "group"])
def centering(request):
    return request.param


@pytest.fixture(params=["dense", "sparse"])
def stored(request):
    return np.asarray if request.param == "dense" else sparse.csr_array


@pytest.mark.parametrize("form", FORMS)
def test_agrees_with_the_definition(form, centering):
    X, codes = rows(), random_codes()
    X = np.round(X) if "whole" in form else X
    C = dense_covariances(X, codes, centering)
    operator = GroupCovariance(FORMS[form](X), codes, WEIGHTS, centering=centering)
    expected = np.tensordot(WEIGHTS, C, axes=1)
    V = np.random.default_rng(2).standard_normal((N, 5))
    np.testing.assert_allclose(operator @ V, expected @ V, atol=1e-13)
    np.testing.assert_allclose(operator @ V[:, 0], expected @ V[:, 0], atol=1e-13)
    products = operator.products(V[:, 0].copy(), np.full((3, N), np.nan))
    np.testing.assert_allclose(products, C @ V[:, 0], atol=1e-12)
    by_columns = operator.products(V[:, 0].copy(), np.empty((3, N), order="F"))
    np.testing.assert_array_equal(by_columns, products)
    one = operator.products(V[:, 0].copy(), np.full((1, N), np.nan), codes=[2])
    np.testing.assert_array_equal(one, products[2:])
    small = operator.compress(V)
    np.testing.assert_allclose(small, V.T @ C @ V, atol=1e-12)
    assert np.array_equal(small, small.transpose(0, 2, 1))
    traces = np.trace(C, axis1=1, axis2=2)
    np.testing.assert_allclose(operator.group_traces, traces, rtol=1e-12)
    assert operator.trace == pytest.approx(np.trace(expected))
    captured = np.trace(V.T @ C @ V, axis1=1, axis2=2)
    np.testing.assert_allclose(operator.captured(V), captured, rtol=1e-12)
    np.testing.assert_array_equal(operator.counts, np.bincount(codes))
    means = [X[codes == g].mean(axis=0) for g in range(3)]
    np.testing.assert_allclose(operator.means, means, atol=1e-14)
    np.testing.assert_allclose(operator.mean, X.mean(axis=0), atol=1e-14)


def test_dense_rows_are_not_copied(tmp_path):
    X = rows()
    assert GroupCovariance(X, random_codes(), WEIGHTS)._rows._X is X
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    operator = GroupCovariance(mapped, random_codes(), WEIGHTS)
    assert np.shares_memory(operator._rows._X, mapped)
    in_memory = GroupCovariance(X, random_codes(), WEIGHTS)
    np.testing.assert_array_equal(operator @ np.eye(N), in_memory @ np.eye(N))


def test_far_from_the_origin(stored, centering):
    # The covariance is far below the square of the mean. Few digits in the entries:
    # the shifted ones are exact.
    X, codes = np.round(rows() * 64) / 64, random_codes()
    C = dense_covariances(X, codes, centering)
    operator = GroupCovariance(stored(X + 1e6), codes, WEIGHTS, centering=centering)
    expected = np.tensordot(WEIGHTS, C, axes=1)
    np.testing.assert_allclose(operator @ np.eye(N), expected, atol=2e-7)
    traces = np.trace(C, axis1=1, axis2=2)
    np.testing.assert_allclose(operator.group_traces, traces, rtol=1e-8)


def test_many_blocks_slabs_and_tiles(stored, centering, monkeypatch, with_threads):
    monkeypatch.setattr(coded_rows, "TILE_ROWS", 500)
    X = rows(m=7000)
    codes = random_codes(7000, 4)
    codes[:1000] = 3  # blocks of one code
    weights = np.array([0.1, 0.4, 0.2, 0.3])
    C = dense_covariances(X, codes, centering)
    operator = GroupCovariance(stored(X), codes, weights, centering=centering)
    if stored is sparse.csr_array:
        assert len(operator._rows._tiles) > 10
    V = np.random.default_rng(7).standard_normal((N, 6))
    expected = np.tensordot(weights, C, axes=1) @ V

    def one_by_one(V):
        return operator.products(V[:, 0].copy(), np.empty((4, N)))

    np.testing.assert_allclose(operator @ V, expected, rtol=1e-12, atol=1e-13)
    for compute in (operator.compress, operator.matmat, one_by_one):
        assert np.array_equal(with_threads(1, compute, V), with_threads(2, compute, V))
    small = operator.compress(V)
    np.testing.assert_allclose(small, V.T @ C @ V, rtol=1e-11)
    traces = np.trace(C, axis1=1, axis2=2)
    np.testing.assert_allclose(operator.group_traces, traces, rtol=1e-13)


@pytest.mark.parametrize(
    ("m", "n", "h", "scale"), [(1, 1, 1, 1), (2, 1, 2, 1), (5, 3, 2, 1), (6, 4, 2, 0)]
)
def test_small_tables(m, n, h, scale, stored, centering):
    X = scale * np.random.default_rng(0).standard_normal((m, n))  # or without entries
    codes = np.arange(m) % h
    operator = GroupCovariance(stored(X), codes, WEIGHTS[-h:], centering=centering)
    C = dense_covariances(X, codes, centering)
    expected = np.tensordot(WEIGHTS[-h:], C, axes=1)
    np.testing.assert_allclose(operator @ np.eye(n), expected, atol=1e-12)
    np.testing.assert_allclose(operator @ np.ones(n), expected.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(operator.compress(np.eye(n)), C, atol=1e-12)
    assert operator.compress(np.empty((n, 0))).shape == (h, 0, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": [0, 1]}, "one for each row"),
        ({"codes": [0.0, 1.0, 1.0]}, "integers"),
        ({"codes": [0, -1, 1]}, "between 0 and 1"),
        ({"codes": [1, 1, 1]}, "Group 0 has no row: number the groups from 0"),
        ({"weights": []}, "at least one"),
        ({"weights": [[1.0, 2.0]]}, "weights"),
        ({"weights": [1.0, np.nan]}, "finite, got nan for group 1"),
        ({"centering": "none"}, "centering"),
        ({"X": [1.0, 2.0, 3.0]}, "table"),
        ({"X": sparse.coo_array(np.ones(3))}, "table"),
        ({"X": np.empty((0, 2))}, "rows and columns"),
        ({"X": [[0.0], [np.nan], [1.0]]}, r"NaN.*row 1, column 0 \(nan\)"),
        ({"X": sparse.csr_array([[0.0, 7], [0, np.nan], [1, 0]])}, "row 1, column 1"),
        ({"X": [[0.0], [1e200], [-1e200]]}, "squares .* overflow: rescale"),
    ],
)
def test_bad_input(change, message):
    arguments = {"X": np.eye(3), "codes": [0, 1, 1], "weights": [1.0, 1.0], **change}
    X, codes, weights = (arguments.pop(name) for name in ("X", "codes", "weights"))
    with pytest.raises(ValueError, match=message):
        GroupCovariance(X, codes, weights, **arguments)


def test_bad_blocks_and_weights():
    operator = GroupCovariance(np.eye(3), [0, 1, 1], [1.0, 1.0])
    with pytest.raises(ValueError, match="length 3"):
        operator.compress(np.ones((4, 2)))
    with pytest.raises(ValueError, match="length 3"):
        operator.compress(np.ones(3))
    with pytest.raises(TypeError, match="real blocks"):
        operator.compress(1j * np.ones((3, 2)))
    with pytest.raises(ValueError, match="2 groups"):
        operator.with_weights([1.0, 1.0, 1.0])
    with pytest.raises(TypeError, match="real"):
        GroupCovariance(1j * np.eye(3), [0, 1, 1], [1.0, 1.0])


def test_a_group_without_rows():
    X, codes = in_parts(rows()), random_codes()
    _, parts = X.encode(codes, name="codes", noun="code")
    for of_rows in (codes, parts):
        with pytest.raises(ValueError, match="Group 3 has no row"):
            GroupCovariance(X, of_rows, np.ones(4))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_bad_values_are_placed(value):
    X = np.ones((M, N))
    X[150, 2] = value
    message = "Partition 2 of X, rows 101 to 199.*" + (
        "squares .* overflow" if value == 1e200 else "row 49, column 2"
    )
    with (
        pytest.raises(ValueError, match=message),
        np.errstate(over="ignore", invalid="ignore"),
    ):
        GroupCovariance(in_parts(X), random_codes(), np.ones(3))


def test_values_that_overflow_between_partitions():
    X = np.zeros((M, N))
    X[:, 0] = np.where(np.arange(M) < 100, 1e154, -1e154)
    with pytest.raises(ValueError, match="between the partitions of X overflow"):
        GroupCovariance(in_parts(X), np.zeros(M, int), np.ones(1))


def test_kept_parts_tell_their_size(stored):
    """Dask moves what it takes for small."""
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    X = stored(rows())
    part = coded_rows._code_part(X, random_codes())
    assert sizeof(part) >= (X.data.nbytes if sparse.issparse(X) else X.nbytes)


def test_parts_that_were_converted_are_of_the_type_of_the_products():
    X = in_parts(sparse.csr_array(np.round(rows()).astype(np.int8)))
    operator = GroupCovariance(X, random_codes(), WEIGHTS, dtype=np.float32)
    kept = operator._typed_rows._parts.gather()
    assert {part.rows._X.dtype for part in kept} == {np.dtype(np.float32)}
