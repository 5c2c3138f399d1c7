"""Nearest centres against NumPy."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scalefair.kernels import nearest_centres


@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (1500, 12), (70_000, 2)])
def test_nearest_centres(n, k):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((n, 4)), rng.standard_normal((k, 4))
    apart = cdist(X, centres, "sqeuclidean")
    found = nearest_centres(X, centres)
    assert np.array_equal(found.labels, apart.argmin(axis=1))
    np.testing.assert_allclose(found.low, apart.min(axis=1), atol=1e-12)
    member = np.eye(k)[found.labels]
    np.testing.assert_allclose(found.sums, member.T @ X, atol=1e-10)
    assert np.array_equal(found.counts, member.sum(axis=0))
    if k > 1:
        lost = np.diff(np.partition(apart, 1, axis=1)[:, :2])
        np.testing.assert_allclose(found.losses, (member.T @ lost)[:, 0], rtol=1e-9)


def test_first_of_equal_centres():
    X, centres = np.zeros((5, 2)), np.ones((3, 2))
    found = nearest_centres(X, centres)
    assert not found.labels.any()
    assert not found.losses.any()
    assert np.array_equal(found.counts, [5, 0, 0])


def test_same_digits_whatever_the_threads(with_threads):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((9000, 5)), rng.standard_normal((7, 5))
    one, two = (with_threads(n, lambda: nearest_centres(X, centres)) for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a, b)
