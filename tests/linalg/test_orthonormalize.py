"""orthonormalize on blocks that are hard to orthonormalise."""

import numpy as np
import pytest

from scalefair.linalg import orthonormalize

TYPES = [np.float64, np.float32]
N, M = 400, 8


def gaussian(n=N, m=M, seed=0):
    return np.random.default_rng(seed).standard_normal((n, m))


def with_condition(condition, seed=0):
    U = np.linalg.qr(gaussian(seed=seed))[0]
    V = np.linalg.qr(gaussian(M, M, seed=seed + 1))[0]
    return (U * np.logspace(0, -np.log10(condition), M)) @ V


def scaled(dtype, mix=0.0):
    """Columns of norms from one end of the type's range to the other."""
    end = 200 if dtype == np.float64 else 30
    X = gaussian()
    return (X + mix * X[:, :1]) * np.logspace(-end, end, M)


BLOCKS = {
    "well-conditioned": lambda dtype: gaussian(),
    "condition 1e8": lambda dtype: with_condition(1e8),
    "condition 1e20": lambda dtype: with_condition(1e20),
    "twice": lambda dtype: np.hstack([gaussian(), gaussian()]),
    "equal columns, square": lambda dtype: np.ones((8, 8)),
    "one number": lambda dtype: np.array([[-3.0]]),
    "zero columns": lambda dtype: gaussian() * (np.arange(M) % 3 > 0),
    "all zero": lambda dtype: 0 * gaussian(),
    "scaled, dependent": lambda dtype: scaled(dtype, mix=100.0),
    "powers": lambda dtype: np.vander(np.linspace(0, 1, N), 30),
    "many rows": lambda dtype: with_condition(1e6)[np.arange(5000) % N] + 1.0,
}


def check(X, dtype, against=None, keeps_digits=True):
    X = np.ascontiguousarray(X, dtype=dtype)
    original = X.copy()
    result = orthonormalize(X, against=against, rng=np.random.RandomState(0))
    assert result is X  # in place
    assert result.dtype == dtype
    epsilon = np.finfo(dtype).eps
    Y = result.astype(np.float64)
    np.testing.assert_allclose(Y.T @ Y, np.eye(Y.shape[1]), atol=100 * epsilon)
    peaks = np.abs(original).max(axis=0)
    scaled = original / np.where(peaks > 0, peaks, 1).astype(dtype)
    scaled = scaled.astype(np.float64)
    if against is not None:
        basis = against.astype(np.float64)
        np.testing.assert_allclose(basis.T @ Y, 0, atol=100 * epsilon)
        scaled -= basis @ (basis.T @ scaled)
    if keeps_digits:  # every column that was given lies in the span, to rounding
        lost = np.linalg.norm(scaled - Y @ (Y.T @ scaled), axis=0)
        assert lost.max() <= 100 * epsilon * np.linalg.norm(scaled)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("block", BLOCKS)
def test_orthonormal_and_the_same_span(block, dtype):
    check(BLOCKS[block](dtype), dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inside", [1.0, 1e12])
def test_orthogonal_to_a_basis(inside, dtype):
    basis = np.ascontiguousarray(np.linalg.qr(gaussian(N, 5, seed=3))[0], dtype=dtype)
    X = gaussian(N, 4) + inside * basis @ gaussian(5, 4, seed=4)
    check(X, dtype, basis, keeps_digits=inside <= 1)


def test_leaves_an_orthonormal_block_alone():
    X = np.ascontiguousarray(np.linalg.qr(gaussian())[0])
    before = X.copy()
    assert np.array_equal(orthonormalize(X, rng=np.random.RandomState(0)), before)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_entries_that_are_not_finite(bad, dtype):
    X = np.ones((3000, 20), dtype)  # more than one chunk of rows: their sums meet
    X[3], X[2500] = bad, -bad
    with pytest.raises(FloatingPointError, match="not finite"):
        orthonormalize(X, rng=np.random.RandomState(0))


def test_refuses_more_columns_than_can_be_orthonormal():
    rng = np.random.RandomState(0)
    with pytest.raises(ValueError, match="3 columns of length 2 cannot be orthonormal"):
        orthonormalize(np.ones((2, 3)), rng=rng)
    with pytest.raises(ValueError, match=r"2 columns of length 4.*3 others"):
        orthonormalize(np.ones((4, 2)), against=np.eye(4)[:, :3].copy(), rng=rng)
