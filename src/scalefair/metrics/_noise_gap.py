"""Gaps that chance makes of fair scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Draws, and points of the ranks, from which the gap of noise is estimated.
_DRAWS, _POINTS = 200, 1024


def noise_gap(variances: NDArray[np.float64], interval: tuple[float, float]) -> float:
    """Mean gap of shares whose errors are Brownian bridges of these variances."""
    if variances.size < 2:
        return 0.0
    low, high = interval
    reach = 4 * np.sqrt(variances.max() * 0.25)  # ranks that noise brings inside
    ranks = np.linspace(max(0.0, low - reach), min(1.0, high + reach), _POINTS)
    rng = np.random.default_rng(0)  # an estimate: the same for the same sizes
    steps = np.diff(ranks, prepend=0.0, append=1.0)
    gaps = []
    for _ in range(_DRAWS):
        walk = rng.normal(size=(variances.size, steps.size)) * np.sqrt(steps)
        paths = np.cumsum(walk, axis=1)
        bridges = paths[:, :-1] - ranks * paths[:, -1:]
        shares = np.clip(ranks + np.sqrt(variances)[:, None] * bridges, low, high)
        gaps.append(np.ptp(shares, axis=0).max() / (high - low))
    return float(np.mean(gaps))
