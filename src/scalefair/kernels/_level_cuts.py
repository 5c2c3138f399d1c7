"""Joint cuts through several chains, at about the same level in each.

A chain has cuts 0, 1, ... of nondecreasing ranges of levels, from `low` to `high`. A
joint cut takes one cut of each chain; it is allowed if no range begins more than a
width above the end of another: some level is then within half of it of all (Helly).
The chains lie one behind the other in arrays; `starts` and `ends` have the first and
last cut of each.
"""

from __future__ import annotations

import numpy as np

from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray

# Gains below this part of a block's absolute sum are rounding.
_ROUNDING = 1e-13


@cached_njit()
def split_at_levels(
    low: Float64Array,
    high: Float64Array,
    sums: Float64Array,
    weights: Float64Array,
    starts: IntArray,
    ends: IntArray,
    width: float,
) -> tuple[IntArray, Float64Array]:
    """Split chains at allowed joint cuts, while the mean above one is larger.

    The recursive partitioning of isotonic regression, whose upper sets are here the
    allowed cuts. `sums` and `weights` are those of what lies between a cut and the
    one before it in its chain. Returns the lower end of each block, (n_blocks,
    n_chains), and its mean, from the first cuts to the last.
    """
    n_chains = starts.size
    gains = np.empty(low.size)
    queue = np.empty(low.size, np.int64)
    pointers = np.empty((4, n_chains), np.int64)
    cut = np.empty(n_chains, np.int64)
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
        gain = _best_cut(low, high, gains, above, end, width, queue, pointers, cut)
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
    low: Float64Array,
    high: Float64Array,
    gains: Float64Array,
    above: IntArray,
    end: IntArray,
    width: float,
    queue: IntArray,
    pointers: IntArray,
    cut: IntArray,
) -> float:
    """Find the allowed cut of a block with the largest sum of gains; `cut` is it.

    As the lowest end of a range rises, each chain keeps the maximum of its gains in the
    window of that width in a queue of falling gains: linear in the block's cuts.
    """
    head, tail, ahead, lowest = pointers[0], pointers[1], pointers[2], pointers[3]
    for k in range(above.size):
        head[k] = tail[k] = ahead[k] = lowest[k] = above[k]
    largest = -np.inf
    while True:
        level = np.inf
        for k in range(above.size):
            if lowest[k] <= end[k]:
                level = min(level, high[lowest[k]])
        if level == np.inf:
            return largest
        total = 0.0
        for k in range(above.size):
            while lowest[k] <= end[k] and high[lowest[k]] <= level:
                lowest[k] += 1
            while ahead[k] <= end[k] and low[ahead[k]] <= level + width:
                while tail[k] > head[k] and gains[queue[tail[k] - 1]] < gains[ahead[k]]:
                    tail[k] -= 1
                queue[tail[k]] = ahead[k]
                tail[k] += 1
                ahead[k] += 1
            while head[k] < tail[k] and high[queue[head[k]]] < level:
                head[k] += 1
            total += gains[queue[head[k]]] if head[k] < tail[k] else -np.inf
        if total > largest:
            largest = total
            for k in range(above.size):
                cut[k] = queue[head[k]]
