"""Assignment kernels beside NumPy, enumeration and HiGHS."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from scalefair.kernels import (
    capped_distances,
    largest_fair_set,
    min_cost_flow,
    nearest_centres,
    smoothed_minima,
)


@pytest.mark.parametrize(
    ("temperature", "weighted"), [(0.0, False), (1e-3, True), (10.0, False)]
)
def test_smoothed_minima(temperature, weighted, same_bits):
    rng = np.random.default_rng(0)
    C, prices = rng.random((200, 5)), rng.standard_normal((3, 5)) / 10
    kinds = np.repeat(np.arange(3), [70, 30, 100])
    chunks = np.array([(0, 0, 0), (0, 70, 0), (70, 80, 1), (80, 100, 1), (100, 200, 2)])
    row_weights = rng.gamma(1.0, size=len(C)) if weighted else None
    w = row_weights if weighted else np.ones(len(C))
    reduced = C + prices[kinds]
    if temperature:
        scaled = -reduced / temperature
        low = -temperature * logsumexp(scaled, axis=1)
        shares = np.exp(scaled - logsumexp(scaled, axis=1, keepdims=True))
    else:
        low = reduced.min(axis=1)
        shares = np.eye(C.shape[1])[reduced.argmin(axis=1)]

    def call():
        m, k = len(chunks), C.shape[1]
        values, counts = np.full(m, np.nan), np.full((m, k), np.nan)
        curvatures = np.full((m, k, k), np.nan)
        out = values, counts, curvatures
        smoothed_minima(C, row_weights, chunks, prices, temperature, *out)
        return values, counts, curvatures

    result = same_bits(call)
    for (i, j, _), value, count, curvature in zip(chunks, *result, strict=True):
        q, wq = shares[i:j], w[i:j, None] * shares[i:j]
        assert value == pytest.approx(w[i:j] @ low[i:j], rel=1e-6, abs=1e-12)
        # Weights below exp(-16) are left out.
        np.testing.assert_allclose(count, wq.sum(axis=0), atol=1e-6 * (j - i))
        expected = (np.diag(wq.sum(axis=0)) - q.T @ wq) / (temperature or np.inf)
        scale = (j - i) / (temperature or 1.0)
        np.testing.assert_allclose(curvature, expected, atol=1e-6 * scale)


@pytest.mark.parametrize("seed", range(10))
def test_largest_fair_set(seed):
    rng = np.random.default_rng(seed)
    h, m = rng.integers(1, 4), rng.integers(1, 7)
    min_size = rng.integers(1, m + 1)
    gains = -np.sort(-rng.normal(size=(h, m + 1)), axis=1)
    gains[0, rng.integers(1, m + 2) :] = -np.inf
    low = rng.integers(0, 2, (h, m))
    high = low + rng.integers(0, 4, (h, m))
    sums = np.concatenate([np.zeros((h, 1)), np.cumsum(gains, axis=1)], axis=1)
    best, result = -np.inf, np.zeros(h, np.int64)
    for z in range(min_size, m + 1):
        ranges = (
            range(a, b + 1) for a, b in zip(low[:, z - 1], high[:, z - 1], strict=True)
        )
        for counts in itertools.product(*ranges):
            if sum(counts) == z:
                best = max(best, sum(sums[s, c] for s, c in enumerate(counts)))
    gain = largest_fair_set(gains, low, high, min_size, result)
    assert gain == pytest.approx(best)
    if np.isfinite(best):
        assert sums[np.arange(h), result].sum() == pytest.approx(best)
        z = result.sum() - 1
        assert (low[:, z] <= result).all()
        assert (result <= high[:, z]).all()


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
