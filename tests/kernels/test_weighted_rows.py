"""Sums over centred rows against NumPy."""

import numpy as np
import pytest

from scalefair.kernels import (
    _weighted_rows,
    dense_rows_gram,
    dense_rows_matmat,
    dense_rows_moments,
)

TYPES = [np.float64, np.float32]
VIEWS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "reversed": lambda X: X[::-1, ::-1],
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32": lambda X: X.astype(np.float32),
}


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Several slabs, each of several blocks, of a small table."""
    monkeypatch.setattr(_weighted_rows, "_BLOCK_ENTRIES", 100)
    monkeypatch.setattr(_weighted_rows, "_FEWEST_ROWS", 16)


def problem(m=700, n=5, n_codes=3, k=2, dtype=np.float64):
    """Rows, codes of which one is absent, centres and a block."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m, n)) + 3
    codes = rng.integers(0, n_codes, m)
    codes[codes == 1] = 0
    centres = rng.standard_normal((n_codes, n)).astype(dtype)
    return X, codes, centres, rng.standard_normal((n, k)).astype(dtype)


def close(actual, expected, dtype):
    scale = np.abs(expected).max(initial=1.0)
    tolerance = 100 * np.finfo(dtype).eps * scale
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_matmat(view, dtype):
    X, codes, centres, V = problem(dtype=dtype)
    X = VIEWS[view](X)
    coefficients = np.array([0.5, 2.0, -1.0], dtype)
    before = X.copy(), V.copy()
    out = dense_rows_matmat(X, codes, centres, coefficients, V)
    assert out.dtype == dtype
    Z = X.astype(float) - centres[codes]
    close(out, Z.T @ (coefficients[codes][:, None] * (Z @ V)), dtype)
    assert np.array_equal(X, before[0])
    assert np.array_equal(V, before[1])


def test_rows_without_a_coefficient_are_not_read():
    X, codes, centres, V = problem()
    X[codes == 2] = np.nan
    out = dense_rows_matmat(X, codes, centres, np.array([1.0, 1.0, 0.0]), V)
    Z = X[codes == 0] - centres[0]
    close(out, Z.T @ (Z @ V), np.float64)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_gram(view, dtype):
    X, codes, centres, V = problem(dtype=dtype)
    X = VIEWS[view](X)
    grams = dense_rows_gram(X, codes, centres, V)
    assert grams.dtype == np.float64
    products = (X.astype(float) - centres[codes]) @ V
    for code, gram in enumerate(grams):
        Y = products[codes == code]
        close(gram, Y.T @ Y, dtype)
    assert not grams[1].any()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments(view, offset):
    X, codes, *_ = problem()
    X = VIEWS[view](X + offset)
    counts, means, scatter = dense_rows_moments(X, codes, 3)
    assert counts.tolist() == np.bincount(codes, minlength=3).tolist()
    wide = X.astype(np.longdouble)
    for code in (0, 2):
        rows = wide[codes == code]
        np.testing.assert_allclose(means[code], rows.mean(axis=0), rtol=1e-14)
        expected = ((rows - rows.mean(axis=0)) ** 2).sum()
        # Nothing cancels: the squares are those of differences.
        assert scatter[code] == pytest.approx(float(expected), rel=1e-9)
    assert not means[1].any()
    assert scatter[1] == 0


# Around the 16 rows of a block and the 16 slabs.
@pytest.mark.parametrize("m", [1, 15, 16, 17, 255, 256, 257])
def test_numbers_of_rows(m):
    X, codes, centres, V = problem(m)
    Z = X - centres[codes]
    out = dense_rows_matmat(X, codes, centres, np.ones(3), V)
    close(out, Z.T @ (Z @ V), np.float64)
    counts, means, _ = dense_rows_moments(X, codes, 3)
    close(counts @ means, X.sum(axis=0), np.float64)


def test_threads_change_no_bit(with_threads):
    X, codes, centres, V = problem()

    def call():
        return (
            dense_rows_matmat(X, codes, centres, np.ones(3), V),
            dense_rows_gram(X, codes, centres, V),
            *dense_rows_moments(X, codes, 3),
        )

    for one, two in zip(with_threads(1, call), with_threads(2, call), strict=True):
        assert np.array_equal(one, two)
