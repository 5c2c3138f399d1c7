"""Algebra on blocks and on long rows against NumPy."""

import numpy as np
import pytest

from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_rotate,
    block_subtract,
    deflate_rows,
    inner,
    rotate_ritz,
    rows_combine,
    rows_inner,
)

TYPES = [np.float64, np.float32]
# Around multiples of the 2048 rows that are handled at a time.
SIZES = [0, 1, 2048, 5000]


def block(n, k, dtype, seed):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(dtype)


def close(actual, expected, dtype, scale):
    np.testing.assert_allclose(
        actual, expected, rtol=0, atol=50 * np.finfo(dtype).eps * max(scale, 1)
    )


@pytest.mark.parametrize("n", SIZES)
def test_deflate_rows(n):
    X, q, squares = block(n, 5, float, 0), block(1, 5, float, 1)[0], np.empty(n)
    expected = X - np.outer(X @ q, q)
    deflate_rows(X, q, squares)
    close(X, expected, float, 10)
    close(squares, (expected**2).sum(axis=1), float, 1000)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
class TestAgainstNumPy:
    def test_gram(self, n, dtype):
        X, Y = block(n, 5, dtype, 0), block(n, 3, dtype, 1)
        before = X.copy(), Y.copy()
        gram = block_gram(X, Y)
        assert gram.dtype == np.float64
        close(gram, X.astype(float).T @ Y.astype(float), dtype, np.sqrt(n))
        assert np.array_equal(X, before[0])
        assert np.array_equal(Y, before[1])

    def test_rotate_and_multiply(self, n, dtype):
        X, S = block(n, 5, dtype, 0), block(5, 5, np.float64, 1)
        expected = X.astype(float) @ S
        before = X.copy(), S.copy()
        out = np.full_like(X, np.nan)  # is not read
        block_multiply(X, S, out)
        close(out, expected, dtype, 5)
        assert np.array_equal(X, before[0])
        block_rotate(X, S)
        close(X, expected, dtype, 5)
        assert np.array_equal(S, before[1])

    def test_subtract(self, n, dtype):
        out, L, C = block(n, 4, dtype, 0), block(n, 3, dtype, 1), block(3, 4, float, 2)
        expected = out.astype(float) - L.astype(float) @ C
        before = L.copy(), C.copy()
        block_subtract(out, L, C)
        close(out, expected, dtype, 5)
        assert np.array_equal(L, before[0])
        assert np.array_equal(C, before[1])

    def test_rotate_ritz(self, n, dtype):
        X, AX = block(n, 5, dtype, 0), block(n, 5, dtype, 1)
        S, values = block(5, 5, float, 2), block(1, 5, float, 3)[0]
        vectors = X.astype(float) @ S
        residuals = AX.astype(float) @ S - vectors * values
        norms = rotate_ritz(X, AX, S, values)
        close(X, vectors, dtype, 5)
        close(AX, residuals, dtype, 20)
        assert norms.dtype == np.float64
        close(norms, np.linalg.norm(residuals, axis=0), dtype, 20 * np.sqrt(n))


def test_gram_sums_in_float64_over_chunks():
    X = np.zeros((3 * 2048, 1), np.float32)
    X[[0, 2048, 4096]] = [[4096], [1], [1]]  # in float32, 2**24 + 1 = 2**24
    assert block_gram(X, X)[0, 0] == 2**24 + 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 9000])
def test_same_bits_for_any_number_of_threads(n, dtype, same_bits):
    def work():
        X, Y = block(n, 6, dtype, 0), block(n, 6, dtype, 1)
        S = block(6, 6, float, 2)
        gram = block_gram(X, Y)
        block_rotate(X, S)
        block_subtract(Y, X, S)
        norms = rotate_ritz(X, Y, S, S[0])
        out, rows = np.empty(n), np.ascontiguousarray(X.T)
        rows_combine(rows, np.arange(6.0), out)
        dots = inner(rows[0], rows[1]), rows_inner(rows, [0, 3], [1, 2])
        return gram, X, Y, norms, out, *dots

    same_bits(work)
