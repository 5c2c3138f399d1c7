"""Algebra on blocks and on long rows against NumPy."""

import numpy as np
import pytest

from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_subtract,
    deflate_rows,
    first_means,
    gather_shifted,
    inner,
    label_scatter,
    rotate_ritz,
    rows_combine,
    rows_inner,
)

TYPES = [np.float64, np.float32]
# Around multiples of the 2048 rows that are handled at a time.
SIZES = [0, 1, 2048, 9000]


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


def test_gram_sums_in_float64_over_chunks():
    X = np.zeros((3 * 2048, 1), np.float32)
    X[[0, 2048, 4096]] = [[4096], [1], [1]]  # in float32, 2**24 + 1 = 2**24
    assert block_gram(X, X)[0, 0] == 2**24 + 2


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", SIZES)
def test_against_numpy_on_any_number_of_threads(n, dtype, same_bits):
    X, Y, L = (block(n, k, dtype, seed) for seed, k in enumerate((5, 5, 3)))
    S, C, values = block(5, 5, float, 3), block(3, 5, float, 4), np.arange(5.0)
    inputs = X, Y, L, S, C
    before = [A.copy() for A in inputs]

    def call():
        product, rotated, remainder = np.full_like(X, np.nan), X.copy(), X.copy()
        vectors, residuals = X.copy(), Y.copy()
        block_multiply(X, S, product)
        block_multiply(rotated, S, rotated)
        block_subtract(remainder, L, C)
        norms = rotate_ritz(vectors, residuals, S, values)
        return block_gram(X, L), norms, product, rotated, remainder, vectors, residuals

    gram, norms, *blocks = same_bits(call)
    assert gram.dtype == norms.dtype == np.float64
    wide, turned = X.astype(float), X.astype(float) @ S
    R = Y.astype(float) @ S - turned * values
    close(gram, wide.T @ L, dtype, np.sqrt(n))
    close(norms, np.linalg.norm(R, axis=0), dtype, 20 * np.sqrt(n))
    for actual, expected in zip(
        blocks, (turned, turned, wide - L.astype(float) @ C, turned, R), strict=True
    ):
        close(actual, expected, dtype, 20)
    assert all(map(np.array_equal, inputs, before))


@pytest.mark.parametrize("n", [1, 9000])
def test_long_rows(n, same_bits):
    rows, out = block(5, n, float, 0), np.empty(n)

    def call():
        rows_combine(rows, np.arange(5.0), out)
        return out.copy(), inner(rows[0], rows[1]), rows_inner(rows, [0, 3], [1, 2])

    combined, product, products = same_bits(call)
    close(combined, np.arange(5.0) @ rows, float, 20)
    close(product, rows[0] @ rows[1], float, np.sqrt(n))
    close(products, rows[[0, 3]] @ rows[[1, 2]].T, float, np.sqrt(n))


def test_rows_with_codes_on_any_number_of_threads(same_bits):
    rng = np.random.default_rng(0)
    X, codes = rng.standard_normal((20_000, 9)), rng.integers(0, 3, 20_000)
    shifts = rng.standard_normal((3, 9))
    out, rows = np.empty_like(X), np.arange(len(X))[::-1]
    weights = np.where(codes == 2, 0.0, 0.5)

    def call():
        sums = gather_shifted(X, rows, shifts[0], out)
        return (
            *label_scatter(X, codes, shifts),
            sums,
            *first_means(X, codes, 4, 10, weights),
        )

    *_, means, counts = same_bits(call)
    assert np.array_equal(out, X[rows] - shifts[0])
    np.testing.assert_allclose(means[1], X[codes == 1][:10].mean(axis=0), rtol=1e-14)
    assert counts.tolist() == [10, 10, 0, 0]
