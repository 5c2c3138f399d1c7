"""Gap made by noise alone, beside gaps of scores drawn alike for all groups."""

import numpy as np
import pytest

from scalefair.metrics import null_parity_gap, partial_demographic_parity_gap


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


def test_one_group_has_no_gap_and_bad_input():
    assert null_parity_gap([100]) == 0.0
    for sizes in ([10, 0], [[10, 10]], [10, np.nan]):
        with pytest.raises(ValueError, match="must be positive numbers, one per group"):
            null_parity_gap(sizes)
    with pytest.raises(ValueError, match="interval"):
        null_parity_gap([10, 10], interval=(0.5, 0.5))
