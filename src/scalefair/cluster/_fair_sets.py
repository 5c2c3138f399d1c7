"""The rows of which one small cluster gains most, within bounds on shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import largest_fair_set

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rows up to which the best set of rows of a small cluster is searched exactly.
MAX_SET_SIZE = 600


@dataclass(frozen=True)
class FairSet:
    """The rows of which one cluster gains most, with counts within the bounds."""

    gain: float  # an upper bound for sets of any size
    is_exact: bool  # whether this set has it
    rows: Ints
    counts: Ints  # (h,)
    prices: Array  # (h,): between the gains of the last row in and the first one out

    @classmethod
    def best(cls, problem: Any, cluster: int, values: Array, max_size: int) -> FairSet:
        """Find the set for gains ``values - C[:, cluster]``, of few rows."""
        bounds, offsets, n = problem.bounds, problem.offsets, len(problem.C)
        h = len(offsets) - 1
        max_size = max(min(max_size, MAX_SET_SIZE, n), problem.min_size)
        # Step 1: the largest gains of each group, falling.
        gains, rows = np.full((h, max_size + 1), -np.inf), []
        for s in range(h):
            part = slice(offsets[s], offsets[s + 1])
            group_gains = values[part] - problem.C[part, cluster]
            m = min(max_size + 1, len(group_gains))
            top = np.argpartition(-group_gains, m - 1)[:m]
            top = top[np.argsort(-group_gains[top], kind="stable")]
            gains[s, :m] = group_gains[top]
            rows.append(offsets[s] + top)
        # Step 2: the best set of at most `max_size` rows.
        low, high = bounds.counts(np.arange(1, max_size + 1))
        counts = np.zeros(h, np.int64)
        gain = largest_fair_set(gains, low, high, problem.min_size, counts)
        groups, is_exact = np.arange(h), True
        if max_size < n:
            # Step 3: larger sets gain at most a tangent of the concave sums of gains.
            shares = (bounds.lower + bounds.upper) / 2
            tangent = np.rint(max_size * shares).astype(np.int64)
            tangent = np.minimum(np.minimum(tangent, bounds.sizes - 1), max_size)
            slopes = gains[groups, tangent]
            intercept = sum(gains[s, : tangent[s]].sum() for s in range(h))
            intercept -= tangent @ slopes
            row_gain, rounding_gain = bounds.best_mix(slopes)
            size = n if row_gain > 0 else max_size + 1
            larger_gain = float(intercept + size * row_gain + rounding_gain)
            gain, is_exact = max(gain, larger_gain), gain >= larger_gain
        first_out = gains[groups, counts]
        last_in = np.where(counts > 0, gains[groups, counts - 1], first_out)
        prices = np.where(np.isfinite(first_out), (first_out + last_in) / 2, last_in)
        members = np.concatenate([r[:m] for r, m in zip(rows, counts, strict=True)])
        return cls(gain, is_exact, members, counts, prices)
