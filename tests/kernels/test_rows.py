"""Algebra on long rows against NumPy."""

import numpy as np
import pytest

from scalefair.kernels import add_scaled, combine, inner, rows_combine, rows_inner

# Around multiples of the 4096 entries that are handled at a time.
LENGTHS = [0, 1, 4095, 4096, 4097, 10_000]


def rows(p, length, seed=0):
    return np.random.default_rng(seed).standard_normal((p, length))


@pytest.mark.parametrize("length", LENGTHS)
class TestAgainstNumPy:
    def test_inner(self, length):
        X, Y = rows(2, length)
        assert inner(X, Y) == pytest.approx(X @ Y, rel=0, abs=1e-11)

    def test_rows_inner(self, length):
        R = rows(5, length)
        expected = R[[4, 1, 3]] @ R[[3, 0]].T
        actual = rows_inner(R, [4, 1, 3], [3, 0])
        np.testing.assert_allclose(actual, expected, atol=1e-10)

    def test_rows_combine(self, length):
        R, a = rows(5, length), np.array([1.0, 0.0, -2.0, 0.5, 3.0])
        out = np.full(length, np.nan)  # is not read
        rows_combine(R, a, out)
        np.testing.assert_allclose(out, a @ R, atol=1e-13)

    def test_combine(self, length):
        X, Y = rows(2, length)
        out = np.full(length, np.nan)  # is not read
        combine(out, 2.0, X, -0.5, Y)
        np.testing.assert_allclose(out, 2 * X - 0.5 * Y, atol=1e-15)

    def test_add_scaled(self, length):
        out, X = rows(2, length)
        expected = out - 1.5 * X
        before = X.copy()
        add_scaled(out, -1.5, X)
        np.testing.assert_allclose(out, expected, atol=1e-15)
        assert np.array_equal(X, before)


def test_blocks_are_taken_as_long_vectors():
    X = rows(300, 7)
    assert inner(X, X) == pytest.approx((X**2).sum())
    out = np.zeros_like(X)
    add_scaled(out, 2.0, X)
    np.testing.assert_array_equal(out, 2 * X)


def test_thread_count_does_not_matter(with_threads):
    R = rows(4, 50_000)

    def run():
        out = np.empty(50_000)
        rows_combine(R, np.arange(4.0), out)
        return inner(R[0], R[1]), rows_inner(R, [0, 3], [1, 2]), out

    for a, b in zip(with_threads(1, run), with_threads(2, run), strict=True):
        np.testing.assert_array_equal(a, b)
