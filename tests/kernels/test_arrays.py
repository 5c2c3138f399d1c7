"""Rows of any layout as arrays that kernels read, and how they are cut."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import _arrays
from scalefair.kernels._arrays import row_chunks, row_table, strided_table

VIEWS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "rows reversed": lambda X: X[::-1],
    "columns reversed": lambda X: X[:, ::-1],
    "both reversed": lambda X: X[::-1, ::-1],
    "strided": lambda X: X[1::3, ::2],
    "one row": lambda X: X[4:5],
    "one column": lambda X: X[:, 2:3],
    "no rows": lambda X: X[:0],
    "repeated": lambda X: np.broadcast_to(X[3], (6, X.shape[1])),
}


@pytest.fixture(autouse=True)
def types_stay(monkeypatch):
    """As for many rows; few are converted."""
    monkeypatch.setattr(_arrays, "SMALL_SIZE", 0)


def matrix(dtype=np.float64):
    return np.random.default_rng(0).standard_normal((20, 7)).astype(dtype)


def entries(table, shape):
    """Entries where the kernels look for them."""
    memory, first, row_step, column_step = table
    i, j = np.indices(shape)
    return memory[first + i * row_step + j * column_step]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_of_any_layout(view, dtype):
    X = VIEWS[view](matrix(dtype))
    table = strided_table(X)
    assert table[0].dtype == dtype or X.size == 0
    assert table[0].ndim == 1
    assert not table[0].flags.writeable
    assert np.shares_memory(table[0], X) or X.size == 0
    assert np.array_equal(entries(table, X.shape), X)


def test_entries_between_multiples_of_their_size():
    packed = np.zeros(20, dtype=[("flag", "i1"), ("row", "f8", 7)])
    packed["row"] = matrix()
    X = packed["row"]
    assert X.strides[0] % X.itemsize
    assert np.array_equal(entries(strided_table(X), X.shape), X)


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_tables_of_many_rows_are_not_copied(index_dtype):
    X = sparse.csr_array(matrix(np.float32))
    X.indptr, X.indices = X.indptr.astype(index_dtype), X.indices.astype(index_dtype)
    indptr, indices, data = row_table(X)
    assert indptr.dtype == np.int64
    assert indices.dtype.kind == "u"
    assert np.array_equal(indptr, X.indptr)
    assert np.array_equal(indices, X.indices)
    assert np.shares_memory(indices, X.indices)
    assert np.shares_memory(data, X.data)
    dense = matrix()
    assert np.shares_memory(row_table(dense)[2], dense)


@pytest.mark.parametrize("n_rows", [0, 1, 4095, 4096, 100_000, 10**6])
@pytest.mark.parametrize("n_partial", [1, 1000, 10**7, 10**9])
def test_chunks(n_rows, n_partial):
    table = row_table(np.zeros((max(n_rows, 1), 1), np.int8))
    bounds = row_chunks(table, n_rows, n_partial)
    assert bounds[0] == 0
    assert bounds[-1] == n_rows
    lengths = np.diff(bounds)
    assert len(lengths) <= 64
    if len(lengths) > 1:
        assert lengths.min() >= 2048
        assert 8 * n_partial * len(lengths) <= 2**27
    assert np.ptp(lengths) <= 1
