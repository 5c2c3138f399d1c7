"""Joint cuts through several chains, at about the same levels in each.

A chain has cuts 0, 1, ..., and for each of one or two conditions a range of levels for
each cut, from `enter` to `leave`, both nondecreasing. A joint cut takes one cut of each
chain; it is allowed if its ranges have a level in common, for each condition. The
chains lie one behind the other in arrays; `starts` and `ends` have the first and last
cut of each.
"""

from __future__ import annotations

import numpy as np

from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray

# Gains below this part of a block's absolute sum are rounding.
_ROUNDING = 1e-13


@cached_njit()
def split_at_levels(
    enter: Float64Array,
    leave: Float64Array,
    sums: Float64Array,
    weights: Float64Array,
    starts: IntArray,
    ends: IntArray,
) -> tuple[IntArray, Float64Array]:
    """Split chains at allowed joint cuts, while the mean above one is larger.

    The recursive partitioning of isotonic regression, whose upper sets are here the
    allowed cuts. `enter` and `leave` are (n_conditions, n_cuts); `sums` and `weights`
    are those of what lies between a cut and the one before it in its chain. Returns
    the lower end of each block, (n_blocks, n_chains), and its mean, from the first
    cuts to the last.
    """
    n_chains = starts.size
    gains = np.empty(sums.size)
    bounds, means, n_blocks = np.empty((16, n_chains), np.int64), np.empty(16), 0
    below = np.empty((16, n_chains), np.int64)  # lower ends of the blocks to come
    above = starts.copy()
    below[0] = ends
    n_below = 1
    while n_below > 0:
        end = below[n_below - 1]
        total, weight, absolute = 0.0, 0.0, 0.0
        for k in range(n_chains):
            for j in range(above[k] + 1, end[k] + 1):
                total += sums[j]
                weight += weights[j]
        mean = total / weight
        for k in range(n_chains):
            gain = 0.0
            gains[above[k]] = 0.0
            for j in range(above[k] + 1, end[k] + 1):
                excess = sums[j] - mean * weights[j]
                gain += excess
                absolute += abs(sums[j]) + abs(mean) * weights[j]
                gains[j] = gain
        gain, cut = _best_cut(enter, leave, gains, above, end)
        # At the ends of a block, too, the gain may be more than that: of 10^6 terms.
        is_inside = np.any(cut != above) and np.any(cut != end)
        if gain > _ROUNDING * absolute and is_inside:
            if n_below == below.shape[0]:
                below = np.concatenate((below, below))
            below[n_below] = cut
            n_below += 1
        else:
            if n_blocks == means.size:
                bounds = np.concatenate((bounds, bounds))
                means = np.concatenate((means, means))
            bounds[n_blocks], means[n_blocks] = end, mean
            n_blocks += 1
            above = end.copy()
            n_below -= 1
    return bounds[:n_blocks], means[:n_blocks]


@cached_njit()
def _best_cut(
    enter: Float64Array,
    leave: Float64Array,
    gains: Float64Array,
    above: IntArray,
    end: IntArray,
) -> tuple[float, IntArray]:
    """Find the allowed cut of a block with the largest sum of gains.

    At a level of the first condition each chain has a window of cuts; the second one
    is swept within these.
    """
    if enter.shape[0] == 1:
        return _best_in_windows(enter[0], leave[0], gains, above, end)
    first, last = above.copy(), above - 1
    largest, best = -np.inf, above
    while np.all(first <= end):
        level, has_grown = np.inf, False
        for k in range(above.size):
            level = min(level, leave[0, first[k]])
        for k in range(above.size):
            while last[k] < end[k] and enter[0, last[k] + 1] <= level:
                last[k] += 1
                has_grown = True
        # Windows that have only shrunk hold nothing new.
        if has_grown and np.all(first <= last):
            gain, cut = _best_in_windows(enter[1], leave[1], gains, first, last)
            if gain > largest:
                largest, best = gain, cut
        for k in range(above.size):
            while first[k] <= end[k] and leave[0, first[k]] <= level:
                first[k] += 1
    return largest, best


@cached_njit()
def _best_in_windows(
    enter: Float64Array,
    leave: Float64Array,
    gains: Float64Array,
    first: IntArray,
    last: IntArray,
) -> tuple[float, IntArray]:
    """Find the best of the joint cuts from `first` to `last` with a common level.

    As the level rises, each chain keeps the maximum of the gains of the cuts whose
    range it is in, in a queue of falling gains: linear in the cuts.
    """
    head, tail, ahead, lowest = first.copy(), first.copy(), first.copy(), first.copy()
    queue = np.empty(gains.size, np.int64)  # of chain k from first[k] on
    largest, best = -np.inf, first.copy()
    while True:
        level, total = np.inf, 0.0
        for k in range(first.size):
            if lowest[k] > last[k]:
                return largest, best
            level = min(level, leave[lowest[k]])
        for k in range(first.size):
            while lowest[k] <= last[k] and leave[lowest[k]] <= level:
                lowest[k] += 1
            while ahead[k] <= last[k] and enter[ahead[k]] <= level:
                while tail[k] > head[k] and gains[queue[tail[k] - 1]] < gains[ahead[k]]:
                    tail[k] -= 1
                queue[tail[k]] = ahead[k]
                tail[k] += 1
                ahead[k] += 1
            while head[k] < tail[k] and leave[queue[head[k]]] < level:
                head[k] += 1
            total += gains[queue[head[k]]] if head[k] < tail[k] else -np.inf
        if total > largest:
            largest = total
            for k in range(first.size):
                best[k] = queue[head[k]]
