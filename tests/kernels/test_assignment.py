"""Assignment kernels beside SciPy."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scalefair.kernels import capped_distances, min_cost_flow, nearest_centres


def test_flow_of_places_that_do_not_add_up():
    # Two rows of kind 0 for one place, which no bound lets pass from kind 1.
    kinds, target = np.array([0, 0, 1]), np.array([[1], [2]])
    flow = np.zeros((3, 1)), kinds, np.zeros((2, 1)), target, target, target.copy()
    assert min_cost_flow(*flow, np.zeros(3, np.int64)) == -1


@pytest.mark.parametrize(
    ("n", "k", "weighted"), [(1, 1, False), (1500, 12, True), (70_000, 2, False)]
)
def test_nearest_centres(n, k, weighted, same_bits):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((n, 4)), rng.standard_normal((k, 4))
    centres[2:3] = centres[:1]  # the first of equal centres
    apart = cdist(X, centres, "sqeuclidean")
    weights = rng.random(n) if weighted else np.ones(n)
    labels, distances, sums, counts, losses = same_bits(
        lambda: nearest_centres(X, centres, weights)
    )
    assert np.array_equal(labels, apart.argmin(axis=1))
    np.testing.assert_allclose(distances, apart.min(axis=1), atol=1e-12)
    member = np.eye(k)[labels] * weights[:, None]
    np.testing.assert_allclose(sums, member.T @ X, atol=1e-10)
    np.testing.assert_allclose(counts, member.sum(axis=0), rtol=1e-12)
    if k > 1:
        lost = np.diff(np.partition(apart, 1, axis=1)[:, :2])
        np.testing.assert_allclose(losses, (member.T @ lost)[:, 0], rtol=1e-9)


@pytest.mark.parametrize(("n", "weighted"), [(1, False), (5000, True)])
def test_capped_distances(n, weighted, same_bits):
    rng = np.random.default_rng(0)
    X, centres = rng.standard_normal((n, 5)), rng.standard_normal((3, 5))
    centres[1] = X[0]
    low = rng.chisquare(10, n)
    low[n // 2] = np.inf
    weights = rng.random(n) if weighted else np.ones(n)

    def call():
        out = np.full((3, n), np.nan)
        return out, capped_distances(X, centres, low, weights, out)

    out, sums = same_bits(call)
    assert out[1, 0] == 0  # exactly: a row that is taken is not taken again
    expected = np.minimum(cdist(centres, X, "sqeuclidean"), low)
    np.testing.assert_allclose(out, expected, rtol=1e-13)
    np.testing.assert_allclose(sums, expected @ weights, rtol=1e-12)
