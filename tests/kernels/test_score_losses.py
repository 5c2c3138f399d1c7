"""Convex parts of sigmoids, and pairwise losses, against NumPy."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import expit

from scalefair.kernels import sigmoid_slopes, sigmoid_sums, top_pairwise_hinge

THETA = np.array([-1.0, 0.5, 0.5, 0.0, 3.0])


def parts(scores, theta, width):
    """Values and derivatives, plus parts first, of shape (m, 2 p)."""
    x = (scores[:, None] - theta) / width
    share, slope = expit(x), expit(x) * expit(-x)
    plus = np.where(x > 0, 0.5 + x / 4, share)
    values = np.hstack([plus, plus - share])
    plus_slope = np.where(x > 0, 0.25, slope)
    return values, np.hstack([plus_slope, plus_slope - slope]) / width


def by_code(rows, codes, n_codes):
    return np.array([rows[codes == k].sum(axis=0) for k in range(n_codes)])


@pytest.mark.parametrize("width", [0.25, 1.0])
@pytest.mark.parametrize(
    ("m", "n_codes", "weighted"), [(1, 1, False), (2049, 3, False), (20_000, 2, True)]
)
def test_sums_and_slopes(width, m, n_codes, weighted, same_bits):
    rng = np.random.default_rng(0)
    scores = np.append(2 * rng.standard_normal(m - 1), 0.5)  # one on thresholds
    codes = rng.integers(0, n_codes, m)
    weights = rng.random(m) * (np.arange(m) % 3) if weighted else None
    values, slopes = parts(scores, THETA, width)

    def call():
        sums = sigmoid_sums(scores, codes, THETA, width, n_codes, weights)
        return *sums, sigmoid_slopes(scores, THETA, width)

    *sums, actual_slopes = same_bits(call)
    w = weights[:, None] if weighted else 1.0
    for actual, rows in zip(sums, (values, slopes), strict=True):
        expected = by_code(w * rows, codes, n_codes)
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(actual_slopes, slopes, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("spread", [1.0, 299.0, 301.0, 1e300])
def test_nothing_overflows(spread):
    theta = np.array([-0.5, 0.0, 0.5]) * spread
    scores = np.concatenate(
        [theta, theta + 1, [-1e3, 1e3, -1e5, 1e5, -1e300, 1e300, 5e-324]]
    )
    values, slopes = parts(scores, theta, 1.0)
    codes = np.arange(len(scores))
    actual = sigmoid_sums(scores, codes, theta, 1.0, len(scores))
    np.testing.assert_allclose(actual[0], values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(actual[1], slopes, rtol=1e-12, atol=1e-13)
    assert np.isfinite(sigmoid_slopes(scores, theta, 1.0)).all()


@settings(max_examples=60, deadline=None)
@given(st.floats(-30, 30), st.floats(-30, 30), st.floats(-3, 3), st.floats(0.25, 4))
# The rounded slope of a sigmoid just above its threshold is above 1/4.
@example(0.0, 4.654030532350364e-15, 0.0, 1.0)
def test_parts_are_convex_and_increase(first, second, theta, width):
    thresholds = np.array([theta])
    scores = np.array([first, second])
    values = sigmoid_sums(scores, np.arange(2), thresholds, width, 2)[0]
    slopes = sigmoid_slopes(scores, thresholds, width)
    assert (slopes >= 0).all()
    tangent = values[0] + slopes[0] * (second - first)
    assert (values[1] >= tangent - 1e-12).all()


def brute_force(scores, positives, negatives, n_top):
    top = np.sort(scores[negatives])[::-1][:n_top]
    return np.maximum(1 - scores[positives][:, None] + top, 0).sum()


def labelled(m, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    positive = rng.random(m) < 0.4
    positive[:2] = False, True
    scores = scale * rng.standard_normal(m) + positive
    return scores, np.flatnonzero(positive), np.flatnonzero(~positive)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_values_and_slopes(scale):
    scores, positives, negatives = labelled(300, scale=scale)
    n_tops = [0, 1, 17, len(negatives) - 1, len(negatives)]
    results = top_pairwise_hinge(scores, positives, negatives, n_tops)
    step = 1e-7 * scale
    direction = np.random.default_rng(1).standard_normal(300)
    for n_top, (loss, slopes) in zip(n_tops, results, strict=True):
        assert loss == pytest.approx(
            brute_force(scores, positives, negatives, n_top), rel=1e-12
        )
        ahead, behind = (
            brute_force(scores + s * direction, positives, negatives, n_top)
            for s in (step, -step)
        )
        difference = (ahead - behind) / (2 * step)
        assert slopes @ direction == pytest.approx(difference, rel=1e-5, abs=1e-5)


# Multiples of 1/2 make ties among the scores and pairs at the kink.
halves = st.lists(st.integers(-6, 6).map(lambda i: i / 2), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(halves, halves, st.integers(0, 12), st.integers(0, 99))
def test_slopes_are_subgradients(positive, negative, n_top, seed):
    scores = np.array(positive + negative)
    positives = np.arange(len(positive))
    negatives = np.arange(len(positive), len(scores))
    n_top = min(n_top, len(negative))
    ((loss, slopes),) = top_pairwise_hinge(scores, positives, negatives, [n_top])
    assert loss == pytest.approx(brute_force(scores, positives, negatives, n_top))
    other = scores + np.random.default_rng(seed).standard_normal(len(scores))
    bound = loss + slopes @ (other - scores)
    assert brute_force(other, positives, negatives, n_top) >= bound - 1e-9
