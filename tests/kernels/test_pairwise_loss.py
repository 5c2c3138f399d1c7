"""Pairwise losses against all pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.kernels._pairwise_loss import top_pairwise_hinge


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


def test_one_pair():
    rows = np.array([0]), np.array([1])
    ((loss, slopes),) = top_pairwise_hinge(np.array([0.25, 0.0]), *rows, [1])
    assert loss == 0.75
    assert slopes.tolist() == [-1.0, 1.0]
    # At the kink and beyond it there is no loss.
    ((loss, slopes),) = top_pairwise_hinge(np.array([1.0, 0.0]), *rows, [1])
    assert loss == 0.0
    assert slopes.tolist() == [0.0, 0.0]


def test_all_scores_equal():
    positives, negatives = np.arange(3), np.arange(3, 8)
    ((loss, slopes),) = top_pairwise_hinge(np.full(8, 1e6), positives, negatives, [2])
    assert loss == 6.0
    assert slopes[positives].tolist() == [-2.0] * 3
    assert sorted(slopes[negatives]) == [0.0, 0.0, 0.0, 3.0, 3.0]


def test_far_from_zero():
    scores, positives, negatives = labelled(200)
    scores = np.round(64 * scores) / 64  # exact at both places
    near = top_pairwise_hinge(scores, positives, negatives, [50])[0]
    far = top_pairwise_hinge(scores + 2.0**40, positives, negatives, [50])[0]
    assert far[0] == pytest.approx(near[0], rel=1e-12)


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
