"""Products of CSR matrices, or some of their rows, against NumPy."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import csr_is_symmetric, csr_matmat, csr_workspace


# Blocks beyond the cache, whose rows are asked for ahead: rows without entries, a hub
# that is one part of the work by itself, columns in any order. Each row's sum is the
# same wherever it is stored, so that renumbered nodes change no bit.
def test_large_blocks(same_bits):
    rng = np.random.default_rng(0)
    n, k, dtype, index_dtype = 70_000, 62, np.float32, np.int64
    lengths = rng.integers(0, 4, n)
    lengths[[0, n // 2]] = 5000
    lengths[-300:] = 0
    indptr = np.concatenate([[0], lengths.cumsum()]).astype(index_dtype)
    indices = rng.integers(n, size=indptr[-1]).astype(index_dtype)
    data = rng.standard_normal(indices.size).astype(dtype)
    X = rng.standard_normal((n, k)).astype(dtype)
    assert X.nbytes > 2**24

    def call(X, indices):
        out = np.full_like(X, np.nan)
        csr_matmat(indptr, indices, data, X, out, dtype(1), dtype(0), dtype(0))
        return out

    (out,) = same_bits(lambda: (call(X, indices),))
    A = sparse.csr_array((data, indices, indptr), shape=(n, n))
    # Sums of up to 5000 terms of size one, in another order.
    np.testing.assert_allclose(out, A @ X, atol=5000 * np.finfo(dtype).eps)
    renumbered = rng.permutation(n)
    Y = np.empty_like(X)
    Y[renumbered] = X
    assert np.array_equal(call(Y, renumbered[indices].astype(index_dtype)), out)


@pytest.mark.parametrize(
    ("dtype", "k", "width"), [(np.float32, 25, 32), (np.float64, 25, 25)]
)
def test_rows_at_cache_lines(dtype, k, width):
    n = 2**24 // (k * np.dtype(dtype).itemsize) + 1
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, k)).astype(dtype)
    assert csr_workspace(X[1:-1], None, False) is None  # fits the cache
    workspace = csr_workspace(X, None, False)
    assert (workspace is None) == (width == k)
    workspace = csr_workspace(X, workspace, True)
    assert workspace.shape == (n, width)
    assert workspace.ctypes.data % 64 == 0
    assert csr_workspace(X, workspace, True) is workspace
    indptr = np.arange(0, 3 * n + 1, 3)
    indices, data = rng.integers(n, size=3 * n), rng.standard_normal(3 * n)
    csr = indptr.astype(np.int32), indices.astype(np.int32), data.astype(dtype)
    out, aligned = np.full((2, n, k), np.nan, dtype)
    scalars = dtype(1.5), dtype(0.5), dtype(0)
    csr_matmat(*csr, X, out, *scalars)
    csr_matmat(*csr, X, aligned, *scalars, workspace=workspace)
    assert np.array_equal(out, aligned)
    scale = rng.uniform(0.5, 2, n).astype(dtype)
    csr_matmat(*csr, X, aligned, *scalars, scale, workspace)
    A = sparse.csr_array((csr[2], indices, indptr), shape=(n, n))
    expected = 1.5 * (scale[:, None] * (A @ (scale[:, None] * X)) - 0.5 * X)
    np.testing.assert_allclose(aligned, expected, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    ("dtype", "index_dtype"), [(np.float64, np.int64), (np.float32, np.int32)]
)
@pytest.mark.parametrize("density", [0.2, 1])
def test_symmetry(dtype, index_dtype, density):
    def is_symmetric(dense):
        A = sparse.csr_array(dense)
        indptr, indices = A.indptr.astype(index_dtype), A.indices.astype(index_dtype)
        return csr_is_symmetric(indptr, indices, A.data)

    rng = np.random.default_rng(0)
    for n in (1, 3, 12):
        dense = rng.random((n, n)).astype(dtype) * (rng.random((n, n)) < density)
        dense = np.maximum(dense, dense.T)
        assert is_symmetric(dense)
        for i, j in product(range(n), repeat=2):
            changed = dense.copy()
            # One unit in the last place, or one entry more.
            changed[i, j] = np.nextafter(dense[i, j], dtype(2)) if dense[i, j] else 1
            assert is_symmetric(changed) == (i == j)
            changed[i, j] = 0
            assert is_symmetric(changed) == (i == j or dense[i, j] == 0)
