"""Tables of rows as kernels read them, and their chunks."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import _arrays
from scalefair.kernels._arrays import row_chunks, row_table


@pytest.fixture(autouse=True)
def types_stay(monkeypatch):
    """As for large inputs; small ones are converted."""
    monkeypatch.setattr(_arrays, "SMALL_SIZE", 0)


def matrix(dtype=np.float64):
    return np.random.default_rng(0).standard_normal((20, 7)).astype(dtype)


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


@pytest.mark.parametrize("n_rows", [0, 4095, 4096, 10**6])
@pytest.mark.parametrize("n_partial", [1, 10**7, 10**9])
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
