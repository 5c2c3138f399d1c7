"""csr_matmat against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import csr_matmat

TYPES = [np.float64, np.float32]
INDICES = [np.int32, np.int64]


def random_csr(n_rows, n_columns, dtype, index_dtype, density=0.2, seed=0):
    """Random CSR arrays with rows of 0, 1, 2, ... entries, among them empty ones."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n_rows, n_columns))
    dense[rng.random((n_rows, n_columns)) > density] = 0
    dense[::5] = 0
    A = sparse.csr_array(dense.astype(dtype))
    return A.indptr.astype(index_dtype), A.indices.astype(index_dtype), A.data, dense


def reference(dense, X, out, alpha, shift, beta):
    """The same in float64 by its definition."""
    X = X.astype(np.float64)
    product = dense @ X
    if shift:
        product -= shift * X
    product *= alpha
    return product + beta * out if beta else product


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index_dtype", INDICES)
@pytest.mark.parametrize("k", range(1, 10))
def test_agrees_with_numpy(dtype, index_dtype, k):
    rng = np.random.default_rng(k)
    *csr, dense = random_csr(43, 43, dtype, index_dtype)
    X = rng.standard_normal((43, k)).astype(dtype)
    start = rng.standard_normal((43, k)).astype(dtype)
    tolerance = 200 * np.finfo(dtype).eps
    for alpha in (1.0, -0.7, 0.0):
        for shift in (0.0, 1.3):
            for beta in (0.0, 1.0, -2.5):
                out = start.copy()
                csr_matmat(*csr, X, out, dtype(alpha), dtype(shift), dtype(beta))
                expected = reference(dense, X, start, alpha, shift, beta)
                np.testing.assert_allclose(
                    out, expected, rtol=tolerance, atol=tolerance
                )


@pytest.mark.parametrize("n_entries", range(0, 13))
def test_every_row_length(n_entries):
    # Four entries at a time: the remainder of 0 to 3 has a loop of its own.
    data = np.arange(1.0, n_entries + 1)
    indices = np.arange(n_entries, dtype=np.int32)
    indptr = np.array([0, n_entries], dtype=np.int32)
    X = np.random.default_rng(0).standard_normal((12, 3))
    out = np.full((1, 3), np.nan)
    csr_matmat(indptr, indices, data, X, out, 1.0, 0.0, 0.0)
    np.testing.assert_allclose(out[0], data @ X[:n_entries], atol=1e-13)


def test_rectangular():
    *csr, dense = random_csr(30, 17, np.float64, np.int32)
    X = np.random.default_rng(0).standard_normal((17, 4))
    out = np.empty((30, 4))
    csr_matmat(*csr, X, out, 2.0, 0.0, 0.0)
    np.testing.assert_allclose(out, 2 * dense @ X, atol=1e-13)


@pytest.mark.parametrize("dtype", TYPES)
def test_out_is_not_read_when_beta_is_zero(dtype):
    *csr, dense = random_csr(43, 43, dtype, np.int32)
    X = np.random.default_rng(0).standard_normal((43, 3)).astype(dtype)
    out = np.full((43, 3), np.nan, dtype)
    csr_matmat(*csr, X, out, dtype(1), dtype(0), dtype(0))
    np.testing.assert_allclose(out, dense @ X, rtol=1e-4, atol=1e-5)
    assert np.array_equal(out[::5], np.zeros_like(out[::5]))  # the empty rows


def test_no_rows():
    out = np.empty((0, 3))
    empty = np.empty(0, np.int32)
    csr_matmat(
        np.zeros(1, np.int32), empty, np.empty(0), np.empty((0, 3)), out, 1.0, 0.0, 0.0
    )
    assert out.shape == (0, 3)


def test_leaves_its_inputs_alone():
    *csr, _ = random_csr(43, 43, np.float64, np.int32)
    X = np.random.default_rng(0).standard_normal((43, 3))
    before = [a.copy() for a in (*csr, X)]
    csr_matmat(*csr, X, np.empty((43, 3)), 1.0, 0.5, 0.0)
    for a, b in zip((*csr, X), before, strict=True):
        assert np.array_equal(a, b)


# So many entries that 64-bit indices are used as they are.
@pytest.mark.parametrize(
    ("dtype", "index_dtype"), [(np.float64, np.int32), (np.float32, np.int64)]
)
def test_same_bits_for_any_number_of_threads(dtype, index_dtype, with_threads):
    n = 3001
    W = sparse.random_array((n, n), density=0.004, rng=np.random.default_rng(0))
    A = sparse.csr_array(W, dtype=dtype)
    assert A.nnz > 2**14
    csr = A.indptr.astype(index_dtype), A.indices.astype(index_dtype), A.data
    X = np.random.default_rng(1).standard_normal((n, 7)).astype(dtype)
    start = np.random.default_rng(2).standard_normal((n, 7)).astype(dtype)

    def product():
        out = start.copy()
        scalars = dtype(0.3), dtype(-0.2), dtype(1.7)
        csr_matmat(*csr, X, out, *scalars)
        return out

    one = with_threads(1, product)
    assert np.array_equal(one, with_threads(2, product))
    expected = 0.3 * (A @ X + 0.2 * X) + 1.7 * start
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)
