"""Scatter matrices of labelled rows against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.kernels import (
    first_means,
    gather_shifted,
    label_scatter,
    mirror_lower,
    sparse_gram,
)


def dense_scatter(X, codes, shifts):
    """Counts, sums and scatter matrices from their definitions."""
    n_labels = len(shifts)
    shifted = X.astype(np.float64) - shifts[codes]
    counts = np.bincount(codes, minlength=n_labels)
    parts = [shifted[codes == code] for code in range(n_labels)]
    return (
        counts,
        np.array([part.sum(axis=0) for part in parts]),
        np.array([part.T @ part for part in parts]),
    )


def labelled_rows(m, n, n_labels, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, n)).astype(dtype)
    return X, rng.integers(0, n_labels, m), rng.standard_normal((n_labels, n))


def check(actual, expected):
    counts, sums, scatters = actual
    assert counts.dtype == np.int64
    assert np.array_equal(counts, expected[0])
    scale = max(1, expected[2].max())
    np.testing.assert_allclose(sums, expected[1], rtol=0, atol=1e-13 * scale)
    np.testing.assert_allclose(scatters, expected[2], rtol=0, atol=1e-13 * scale)
    assert np.array_equal(scatters, scatters.transpose(0, 2, 1))


class TestLabelScatter:
    # Around multiples of the four columns of a tile.
    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 40])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_widths(self, n, dtype):
        X, codes, shifts = labelled_rows(700, n, 3, dtype)
        assert n < 40 or X.size > 2**14  # few in float32 are converted
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))

    # Around multiples of the 256 rows of a tile and the 2048 of a chunk.
    @pytest.mark.parametrize("m", [1, 2, 255, 256, 257, 2047, 2048, 2049, 5000])
    def test_numbers_of_rows(self, m):
        X, codes, shifts = labelled_rows(m, 3, 2)
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))
        check(label_scatter(X, 0 * codes, shifts), dense_scatter(X, 0 * codes, shifts))

    # Around the eight labels up to which rows are not sorted.
    @pytest.mark.parametrize("n_labels", [1, 7, 8, 9, 400])
    def test_numbers_of_labels(self, n_labels):
        X, codes, shifts = labelled_rows(5000, 3, n_labels)
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))

    @pytest.mark.parametrize(
        "view",
        [np.asfortranarray, lambda X: X[::-1], lambda X: X[:, ::-1], lambda X: X[:10]],
        ids=["fortran", "rows reversed", "columns reversed", "few"],
    )
    def test_strides(self, view):
        X, codes, shifts = labelled_rows(600, 6, 2)
        X = view(X)
        codes = codes[: len(X)]
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))

    def test_input_stays_and_may_be_read_only(self):
        X, codes, shifts = labelled_rows(300, 4, 2)
        before = X.copy()
        label_scatter(X, codes, shifts)
        assert X.flags.writeable
        assert np.array_equal(X, before)
        X.flags.writeable = False
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_sums_show_what_is_not_finite(self, bad):
        X, codes, shifts = labelled_rows(5000, 5, 2)
        X[4321, 3] = bad
        _, sums, _ = label_scatter(X, codes, shifts)
        assert not np.isfinite(sums[codes[4321], 3])
        X[4320, 3] = -bad  # cancels if it can
        codes[4320] = codes[4321]
        _, sums, _ = label_scatter(X, codes, shifts)
        assert not np.isfinite(sums[codes[4321], 3])

    def test_threads_change_no_bit(self, with_threads):
        X, codes, shifts = labelled_rows(20_000, 9, 3)
        one = with_threads(1, label_scatter, X, codes, shifts)
        two = with_threads(2, label_scatter, X, codes, shifts)
        for a, b in zip(one, two, strict=True):
            assert np.array_equal(a, b)


class TestGatherShifted:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("m", [0, 1, 63, 64, 65, 500])
    def test_against_numpy(self, m, order, dtype):
        X, _, shifts = labelled_rows(600, 7, 1, dtype)
        rows = np.random.default_rng(1).permutation(600)[:m]
        out = np.full((m, 7), np.nan)
        sums = gather_shifted(np.asarray(X, order=order), rows, shifts[0], out)
        expected = X[rows].astype(float) - shifts[0]
        assert np.array_equal(out, expected)
        np.testing.assert_allclose(sums, expected.sum(axis=0), 1e-12, 1e-12)

    def test_threads_change_no_bit(self, with_threads):
        X, _, shifts = labelled_rows(1000, 7, 1)
        rows, out = np.arange(1000), np.empty((1000, 7))
        one = with_threads(1, gather_shifted, X, rows, shifts[0], out)
        two = with_threads(2, gather_shifted, X, rows, shifts[0], out)
        assert np.array_equal(one, two)


def test_first_means():
    X, codes, _ = labelled_rows(50, 3, 2, np.float32)
    codes[7:] = np.minimum(codes[7:], 0)  # the second has few
    n_rows = np.minimum(np.bincount(codes, minlength=4), 10)
    means, counts = first_means(X, codes, 4, 10)
    assert np.array_equal(counts, n_rows)
    for code in range(2):
        expected = X[codes == code][:10].astype(float).mean(axis=0)
        np.testing.assert_allclose(means[code], expected, rtol=1e-14)
    assert not means[2:].any()


def test_first_means_of_every_label():
    X = np.arange(12.0).reshape(6, 2)
    means, counts = first_means(X, np.array([0, 1, 0, 1, 0, 1]), 2, 2)
    assert np.array_equal(means, [[2, 3], [4, 5]])
    assert counts.tolist() == [2, 2]


def test_first_mean_of_one_row_is_the_row():
    X = np.array([[0.1, 0.7], [0.3, 0.9]])
    assert np.array_equal(first_means(X, np.array([0, 1]), 2, 1000)[0], X)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, 200])
def test_mirror_lower(n):
    A = np.random.default_rng(0).standard_normal((n, n))
    expected = np.tril(A) + np.tril(A, -1).T
    mirror_lower(A)
    assert np.array_equal(A, expected)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_gram(index, with_threads):
    X = sparse.random_array((200, 30), density=0.1, rng=np.random.default_rng(0))
    X = sparse.csr_array(X)
    T = X.T.tocsr()
    X.indptr, X.indices = X.indptr.astype(index), X.indices.astype(index)
    T.indptr, T.indices = T.indptr.astype(index), T.indices.astype(index)

    def gram():
        out = np.ones((30, 30))
        sparse_gram(X.indptr, X.indices, X.data, T.indptr, T.indices, T.data, out)
        return out

    out = with_threads(1, gram)
    np.testing.assert_allclose(out, 1 + (X.T @ X).toarray(), atol=1e-13)
    assert np.array_equal(out, out.T)
    assert np.array_equal(out, with_threads(2, gram))
