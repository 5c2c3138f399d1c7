"""Sums over rows with codes, shifted on the fly, against NumPy."""

import numpy as np
import pytest

from scalefair.kernels import (
    first_means,
    gather_shifted,
    label_scatter,
)


def packed(X):
    """Rows whose strides are no multiples of the size of an entry."""
    records = np.zeros(len(X), dtype=[("flag", "i1"), ("row", X.dtype, X.shape[1])])
    records["row"] = X
    return records["row"]


VIEWS = {
    "C": np.ascontiguousarray,
    "packed": packed,
    "repeated": lambda X: np.broadcast_to(X[3], X.shape),
    "Fortran": np.asfortranarray,
    "rows reversed": lambda X: X[::-1],
    "reversed": lambda X: X[::-1, ::-1],
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32": lambda X: X.astype(np.float32),
}


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
    # Around multiples of the 256 rows of a tile, the 2048 of a chunk, and the four
    # columns of a tile. Few rows in float32 are converted.
    @pytest.mark.parametrize(
        ("m", "n", "n_labels", "dtype"),
        [
            *((m, 3, 2, float) for m in (1, 255, 257, 2049)),
            *((700, n, 3, np.float32) for n in (1, 4, 40)),
            (5000, 3, 400, float),
        ],
    )
    def test_sizes(self, m, n, n_labels, dtype):
        X, codes, shifts = labelled_rows(m, n, n_labels, dtype)
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))
        check(label_scatter(X, 0 * codes, shifts), dense_scatter(X, 0 * codes, shifts))

    @pytest.mark.parametrize("view", VIEWS)
    def test_views_stay_and_may_be_read_only(self, view):
        X, codes, shifts = labelled_rows(600, 6, 2)
        X = VIEWS[view](X)
        X.flags.writeable = False
        before = X.copy()
        check(label_scatter(X, codes, shifts), dense_scatter(X, codes, shifts))
        assert np.array_equal(X, before)


def test_threads_change_no_bit(same_bits):
    X, codes, shifts = labelled_rows(20_000, 9, 3)
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
