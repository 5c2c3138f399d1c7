"""Some rows of CSR matrices against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import (
    csr_add_matmat,
    csr_rows_matmat,
    csr_rows_scatter,
    csr_rows_transpose,
)

TYPES = [np.float64, np.float32]
INDICES = [np.int32, np.int64]
PAIRS = [(np.float64, np.int64), (np.float32, np.int32)]
M, N, K = 60, 17, 3


def matrix(dtype=np.float64, index_dtype=np.int32):
    """Rows of 0, 1, 2, ... entries, and their CSR arrays."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((M, N)).astype(dtype)
    dense[rng.random((M, N)) < 0.6] = 0
    dense[::7] = 0
    A = sparse.csr_array(dense)
    csr = A.indptr.astype(index_dtype), A.indices.astype(index_dtype), A.data
    return dense, csr


def block(n, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(dtype)


def close(actual, expected, dtype):
    np.testing.assert_allclose(actual, expected, atol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("dtype", "index_dtype"), PAIRS)
def test_rows_matmat(dtype, index_dtype):
    dense, csr = matrix(dtype, index_dtype)
    rows = np.array([5, 0, 59, 7, 5, 30, 31])
    bounds = np.array([0, 3, 3, 7])  # a part without rows
    V, offset = block(N, dtype), block(1, dtype, 2)[0]
    out = np.full((len(rows), K), np.nan, dtype)  # is not read
    sums = csr_rows_matmat(*csr, rows, bounds, V, offset, out)
    expected = dense[rows] @ V - offset
    close(out, expected, dtype)
    assert sums.dtype == np.float64
    close(sums, out.sum(axis=0, dtype=np.float64), np.float64)


@pytest.mark.parametrize("dtype", TYPES)
def test_entries_of_a_narrower_type(dtype):
    # As SparseRows keeps them: float32 entries, times blocks in float64.
    dense, csr = matrix(np.float32)
    out = np.ones((M, K), dtype)
    csr_add_matmat(*csr, np.array([0, M]), dtype(2), block(N, dtype), out)
    close(out, 1 + 2 * dense.astype(dtype) @ block(N, dtype), np.float32)


@pytest.mark.parametrize(("dtype", "index_dtype"), PAIRS)
def test_add_matmat(dtype, index_dtype):
    dense, csr = matrix(dtype, index_dtype)
    Y, start = block(N, dtype), block(M, dtype, 2)
    out = start.copy()
    csr_add_matmat(*csr, np.array([0, 1, 40, 40, M]), dtype(-0.7), Y, out)
    close(out, start - dtype(0.7) * (dense @ Y), dtype)


@pytest.mark.parametrize("index_dtype", INDICES)
@pytest.mark.parametrize("rows", [[], [3], [9, 2, 9, 0, 58]])
def test_rows_transpose(index_dtype, rows):
    dense, csr = matrix(np.float32, index_dtype)
    rows = np.array(rows, dtype=np.int64)
    indptr, indices, data = csr_rows_transpose(*csr, rows, N)
    assert indptr.dtype == indices.dtype == np.int32
    assert data.dtype == np.float32
    T = sparse.csr_array((data, indices, indptr), shape=(N, len(rows)))
    assert T.has_canonical_format
    assert np.array_equal(T.toarray(), dense[rows].T)


def test_rows_scatter():
    dense, (indptr, _, data) = matrix(np.float32)
    centre = np.random.default_rng(3).standard_normal(M)
    scatter = np.ones(M)
    csr_rows_scatter(indptr, data, N, centre, scatter)
    expected = 1 + ((dense.astype(float) - centre[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(scatter, expected, rtol=1e-13)


def test_threads_change_no_bit(with_threads):
    _, csr = matrix()
    rows, bounds = np.arange(M), np.array([0, 10, 20, 30, 40, 50, M])

    def call():
        out, added, scatter = np.empty((M, K)), block(M, float, 2), np.zeros(M)
        sums = csr_rows_matmat(*csr, rows, bounds, block(N, float), np.ones(K), out)
        csr_add_matmat(*csr, bounds, 0.3, block(N, float), added)
        csr_rows_scatter(csr[0], csr[2], N, np.ones(M), scatter)
        return sums, out, added, scatter

    for one, two in zip(with_threads(1, call), with_threads(2, call), strict=True):
        assert np.array_equal(one, two)
