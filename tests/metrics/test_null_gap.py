"""Gap made by noise alone, against simulated gaps of scores from one distribution."""

import numpy as np
import pytest

from scalefair.metrics import (
    null_parity_gap,
    partial_demographic_parity_gap,
    partial_equalized_odds_gap,
)


@pytest.mark.parametrize("interval", [(0.0, 1.0), (0.05, 0.3), (0.48, 0.5), (0.0, 0.1)])
@pytest.mark.parametrize("sizes", [(400, 400), (2000, 100), (300, 300, 150, 150, 60)])
def test_mean_gap_of_scores_drawn_alike(sizes, interval):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    gaps = [
        partial_demographic_parity_gap(
            rng.random(groups.size), sensitive_features=groups, interval=interval
        )
        for _ in range(400)
    ]
    # Standard errors: 2 % of these simulations, 2 to 3 % of those inside; steps of
    # one sample are left out there.
    assert null_parity_gap(sizes, interval=interval) == pytest.approx(
        np.mean(gaps), rel=0.1
    )


def test_the_largest_gap_of_several_comparisons():
    sizes = [[300, 80], [300, 80]]
    rng = np.random.default_rng(0)
    labels, groups = np.repeat([[0, 0, 1, 1], [0, 1, 0, 1]], np.ravel(sizes), axis=1)
    gaps = [
        partial_equalized_odds_gap(
            labels, rng.random(760), sensitive_features=groups, interval=(0.1, 0.5)
        )
        for _ in range(400)
    ]
    expected_gap = null_parity_gap(sizes, interval=(0.1, 0.5))
    # As above. The larger mean gap of the two comparisons would be 0.83 of it.
    assert expected_gap == pytest.approx(np.mean(gaps), rel=0.1)
    assert expected_gap > 1.15 * null_parity_gap(sizes[0], interval=(0.1, 0.5))


def test_one_group_has_no_gap_and_bad_input():
    assert null_parity_gap([100]) == 0.0
    for sizes in ([10, 0], np.ones((2, 2)), [10, np.nan], [[10, 10], [0, 1]], 10):
        with pytest.raises(ValueError, match="must be positive numbers, one per group"):
            null_parity_gap(sizes)
    with pytest.raises(ValueError, match="interval"):
        null_parity_gap([10, 10], interval=(0.5, 0.5))
