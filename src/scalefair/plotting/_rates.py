"""Rates of two groups above all thresholds, and which of them are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["allowed_region", "rate_curve"]


def allowed_region(interval: tuple[float, float], kappa: float) -> NDArray[np.float64]:
    """Corners of the set of rates (P_1, P_2) with |A_1 - A_2| <= kappa.

    Below the interval a rate counts as its lower end, above it as its upper end:
    the strip around the diagonal widens to a square at either side.
    """
    low, high = interval
    d = kappa * (high - low)
    if kappa == 1:
        return np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    below: list[list[float]] = [
        [0, 0],
        [low + d, 0],
        [low + d, low],
        [high, high - d],
        [1, high - d],
    ]
    above = [corner[::-1] for corner in reversed(below[1:])]
    return np.array([*below, [1, 1], *above], dtype=np.float64)


def rate_curve(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Rates of scores `a` and `b` above all thresholds, from the highest down.

    Those in the middle of a horizontal or vertical piece are left out. On a sloping
    one, which ties make, the gap within an interval may be largest in the middle.
    """
    scores = np.concatenate([a, b])
    order = np.argsort(-scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) != 0, True)  # of a run of ties
    from_a = (order < len(a)).cumsum()[is_last]
    from_b = np.flatnonzero(is_last) + 1 - from_a
    counts = np.vstack([np.zeros((1, 2), np.int64), np.column_stack([from_a, from_b])])
    steps = np.diff(counts, axis=0)
    straight = ((steps[:-1] == 0) & (steps[1:] == 0)).any(axis=1)
    vertices = counts[np.concatenate([[True], ~straight, [True]])]
    rates: NDArray[np.float64] = vertices / [len(a), len(b)]
    return rates
