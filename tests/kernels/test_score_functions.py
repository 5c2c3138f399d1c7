"""Convex parts of sigmoids, and pairwise losses, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from scalefair.kernels import sigmoid_slopes, sigmoid_sums, top_pairwise_hinge


def parts(scores, theta, width):
    """Values and derivatives, plus parts first, of shape (m, 2 p)."""
    x = (scores[:, None] - theta) / width
    share, slope = expit(x), expit(x) * expit(-x)
    plus = np.where(x > 0, 0.5 + x / 4, share)
    values = np.hstack([plus, plus - share])
    plus_slope = np.where(x > 0, 0.25, slope)
    return values, np.hstack([plus_slope, plus_slope - slope]) / width


@pytest.mark.parametrize("width", [0.25, 1.0])
@pytest.mark.parametrize("spread", [1.0, 299.0, 301.0, 1e300])
def test_sums_and_slopes(spread, width):
    """Of a row each: those of many are tested with the oracle of a classifier."""
    theta = np.array([-0.5, 0.0, 0.5]) * spread
    far = [-1e3, 1e3, -1e5, 1e5, -1e300, 1e300, 5e-324]
    scores = np.concatenate([theta, theta + 1, far])
    values, slopes = parts(scores, theta, width)
    codes = np.arange(len(scores))
    actual = sigmoid_sums(scores, codes, theta, width, len(scores))
    np.testing.assert_allclose(actual[0], values, rtol=1e-12, atol=1e-13)
    for slopes_of in (actual[1], sigmoid_slopes(scores, theta, width)):
        np.testing.assert_allclose(slopes_of, slopes, rtol=1e-12, atol=1e-13)


def test_slopes_are_not_negative():
    # The rounded slope of a sigmoid just above its threshold is above 1/4.
    slopes = sigmoid_slopes(np.array([4.654030532350364e-15]), np.zeros(1), 1.0)
    assert (slopes >= 0).all()


def brute_force(scores, positives, negatives, n_top):
    top = np.sort(scores[negatives])[::-1][:n_top]
    return np.maximum(1 - scores[positives][:, None] + top, 0).sum()


# Multiples of 1/2 make ties among the scores and pairs at the kink.
halves = st.lists(st.integers(-6, 6).map(lambda i: i / 2), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(halves, halves, st.integers(0, 12), st.integers(0, 99))
def test_slopes_are_subgradients(positive, negative, n_top, seed):
    scores = np.array(positive + negative)
    positives = np.arange(len(positive))
    negatives = np.arange(len(positive), len(scores))
    n_tops = [0, min(n_top, len(negative))]
    results = top_pairwise_hinge(scores, positives, negatives, n_tops)
    other = scores + np.random.default_rng(seed).standard_normal(len(scores))
    for n_top, (loss, slopes) in zip(n_tops, results, strict=True):
        assert loss == pytest.approx(brute_force(scores, positives, negatives, n_top))
        bound = loss + slopes @ (other - scores)
        assert brute_force(other, positives, negatives, n_top) >= bound - 1e-9
