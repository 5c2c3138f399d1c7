"""Gaussian kernel products against a dense kernel in float64."""

import numpy as np
import pytest

from scalefair.kernels import rbf_matmat, rbf_tiles

TYPES = [np.float64, np.float32]
# Around the 256 points of a tile and the four rows computed together; one block,
# an odd number of blocks and an even one.
SIZES = [1, 4, 255, 257, 513, 900]


def points(n, d, seed=0):
    """Points at distances around 1, some of them equal."""
    P = np.random.default_rng(seed).standard_normal((n, d)) / np.sqrt(d)
    P[n // 2 :: 7] = P[0]
    return P


def block(n, k, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal((n, k)).astype(dtype)


def dense(P):
    squares = np.zeros((len(P), len(P)))
    for p in P.astype(float).T:
        squares += (p[:, None] - p) ** 2
    return np.exp2(-squares)


def product(P, X, alpha=1, shift=0, beta=0, out=None):
    out = np.full_like(X, np.nan) if out is None else out.copy()
    real = X.dtype.type
    tiles = rbf_tiles(P.astype(X.dtype))
    rbf_matmat(tiles, X, out, real(alpha), real(shift), real(beta))
    return out


def kernel(P, dtype):
    """The matrix entry by entry: products with unit vectors are exact."""
    return product(P, np.eye(len(P), dtype=dtype))


# Also far from the origin, where |p|^2 + |q|^2 - 2 p q would lose all digits, and far
# apart: where the kernel is not small, its errors stay small.
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("n", "d", "factor", "offset"),
    [
        *((n, 3, 1, 0) for n in SIZES),
        *((300, d, *far) for d in (1, 3, 130) for far in ((1, 0), (1, 4096), (100, 0))),
    ],
)
def test_every_size_and_dimension(n, d, factor, offset, dtype):
    P = (factor * points(n, d)).astype(np.float32) + np.float32(offset)
    K = kernel(P, dtype)
    np.testing.assert_allclose(K, dense(P), rtol=0, atol=20 * np.finfo(dtype).eps)
    assert np.array_equal(K, K.T)
    assert np.array_equal(np.diag(K), np.ones(n))
    assert K.max() == 1
    assert product(P, np.empty((n, 0), dtype)).shape == (n, 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_power_of_two_to_the_last_place(dtype):
    # Points on a line from 0: the first row is 2**-t, all of the squares exact.
    t = np.arange(0, 11, 1 / 64)
    row = kernel(t[:, None], dtype)[0]
    np.testing.assert_allclose(row, np.exp2(-(t**2)), rtol=1.01 * np.finfo(dtype).eps)
    integers = np.arange(11.0)
    expected = np.exp2(-(integers**2)).astype(dtype)
    assert np.array_equal(kernel(integers[:, None], dtype)[0], expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_underflow(dtype):
    tiny = np.finfo(dtype).smallest_normal
    last = np.sqrt(-np.log2(tiny))
    line = np.array([0, 0.999 * last, 1.001 * last, 1.1 * last, 1e3, 1e18, -1e18])
    row = kernel(line[:, None], dtype)[0]
    assert row[1] >= tiny
    assert np.array_equal(row[2:], np.zeros(5))
    # Squared distances that overflow.
    line = np.array([0, 1, 0.9, -0.9]) * np.finfo(dtype).max / 2
    assert np.array_equal(kernel(line[:, None], dtype), np.eye(4))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 1500])
def test_same_bits_for_any_number_of_threads(n, dtype, same_bits):
    P, X, start = points(n, 6), block(n, 7, dtype), block(n, 7, dtype, 2)

    def work():
        narrow = product(P, X[:, :1].copy())
        return narrow, product(P, X, 1.5, 0.5, 2.0, start)

    same_bits(work)
