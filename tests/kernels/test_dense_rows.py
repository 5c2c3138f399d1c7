"""Sums over rows with codes, shifted on the fly, against NumPy."""

import numpy as np

from scalefair.kernels import (
    first_means,
    gather_shifted,
    label_scatter,
)


def test_threads_change_no_bit(same_bits):
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
