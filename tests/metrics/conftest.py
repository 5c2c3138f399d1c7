"""Gaps by their definitions, of groups of which rows have the weights A (m, G)."""

from itertools import combinations

import numpy as np

from ..conftest import dense_covariances


def brute_force(A, scores, interval, thresholds=None):
    """Largest difference between groups at any threshold."""
    low, high = interval
    gap = 0.0
    for threshold in np.append(scores, -np.inf) if thresholds is None else thresholds:
        rates = A[scores > threshold].sum(axis=0) / A.sum(axis=0)
        shares = (np.clip(rates, low, high) - low) / (high - low)
        gap = max([gap, *(abs(a - b) for a, b in combinations(shares, 2))])
    return gap


def moment_differences(A, Z):
    """Differences of means and of covariances, over all pairs."""
    means = A.T @ Z / A.sum(axis=0)[:, None]
    return [
        np.sqrt(sum(np.sum((a - b) ** 2) for a, b in combinations(values, 2)))
        for values in (means, dense_covariances(Z, A, "per-group"))
    ]
