"""Joint cuts through several chains, at about the same levels in each.

A chain has cuts 0, 1, ..., and for each of one or two conditions a range of levels for
each cut, from `enter` to `leave`, both nondecreasing. A joint cut takes one cut of each
chain. It is allowed if, for each condition, its ranges have a level in common. The
chains lie one after the other in arrays; `starts` and `ends` are the first and last cut
of each chain.
"""

from __future__ import annotations

import numpy as np

from scalefair._rounding import ROUNDING
from scalefair._threads import cached_njit
from scalefair.kernels._arrays import Float64Array, IntArray


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
    allowed cuts. `enter` and `leave` are (n_conditions, n_cuts). `sums` and `weights`
    are those of the samples between a cut and the one before it in its chain. Returns
    the lower cut of each block, (n_blocks, n_chains), and its mean, in decreasing order
    of the means.
    """
    n_chains = starts.size
    gains = np.empty(sums.size)
    # Arrays that grow are doubled when they are full.
    bounds, means, n_blocks = np.empty((16, n_chains), np.int64), np.empty(16), 0
    # Depth first: the current block lies between `top` and the last cut of the stack,
    # the other cuts of the stack are the lower cuts of blocks that come later. So the
    # final blocks come from the highest scores down, each where the last one ends.
    stack = np.empty((16, n_chains), np.int64)
    top = starts.copy()
    stack[0] = ends
    n_stack = 1
    while n_stack > 0:
        bottom = stack[n_stack - 1]
        # 1. Mean of the block.
        total, weight, absolute = 0.0, 0.0, 0.0
        for k in range(n_chains):
            for j in range(top[k] + 1, bottom[k] + 1):
                total += sums[j]
                weight += weights[j]
        mean = total / weight
        # 2. Gain of a cut: the sum above it, minus that of as much weight at the mean.
        # `absolute` is the sum of the moduli that are added: the rounding of a gain is
        # relative to it.
        for k in range(n_chains):
            gain = 0.0
            gains[top[k]] = 0.0
            for j in range(top[k] + 1, bottom[k] + 1):
                gain += sums[j] - mean * weights[j]
                absolute += abs(sums[j]) + abs(mean) * weights[j]
                gains[j] = gain
        # 3. Split at the allowed joint cut with the largest gain, if that is more than
        # rounding. The ends of the block are joint cuts, too. Their gain is 0 but for
        # rounding, which may exceed ROUNDING if samples are many: they are left out.
        gain, cut = _best_cut(enter, leave, gains, top, bottom)
        is_inside = np.any(cut != top) and np.any(cut != bottom)
        if gain > ROUNDING * absolute and is_inside:
            if n_stack == stack.shape[0]:
                stack = np.concatenate((stack, stack))
            stack[n_stack] = cut
            n_stack += 1
        else:
            # 4. Nothing to gain: the block is final, and the next one starts below it.
            if n_blocks == means.size:
                bounds = np.concatenate((bounds, bounds))
                means = np.concatenate((means, means))
            bounds[n_blocks], means[n_blocks] = bottom, mean
            n_blocks += 1
            top = bottom.copy()
            n_stack -= 1
    return bounds[:n_blocks], means[:n_blocks]


@cached_njit()
def _best_cut(enter, leave, gains, top, bottom):
    """Find the allowed cut of a block with the largest sum of gains.

    At a level of the first condition each chain has a window of cuts, `first` to
    `last`. The second condition is swept within these windows.
    """
    if enter.shape[0] == 1:
        return _best_in_windows(enter[0], leave[0], gains, top, bottom)
    # Invariant: of chain k the cuts from first[k] to last[k] have ranges of the first
    # condition that hold the level. Both ends only rise: each cut enters and leaves
    # once.
    first, last = top.copy(), top - 1
    largest, best = -np.inf, top
    while np.all(first <= bottom):
        # Raise the level until the first range ends: up to there windows only grow.
        level, has_grown = np.inf, False
        for k in range(top.size):
            level = min(level, leave[0, first[k]])
        for k in range(top.size):
            while last[k] < bottom[k] and enter[0, last[k] + 1] <= level:
                last[k] += 1
                has_grown = True
        # Windows that have only shrunk hold no new joint cut.
        if has_grown and np.all(first <= last):
            gain, cut = _best_in_windows(enter[1], leave[1], gains, first, last)
            if gain > largest:
                largest, best = gain, cut
        # Above this level the ranges that end at it are left.
        for k in range(top.size):
            while first[k] <= bottom[k] and leave[0, first[k]] <= level:
                first[k] += 1
    return largest, best


@cached_njit()
def _best_in_windows(enter, leave, gains, first, last):
    """Find the best of the joint cuts from `first` to `last` with a common level.

    The level rises from one end of a range to the next. Each chain keeps the cuts whose
    range holds the level in a queue of decreasing gains, the best one first (the
    sliding window maximum): the time is linear in the cuts.
    """
    # Invariant: the queue of chain k holds, of the cuts with the level in their range,
    # those that no later one beats: gains decrease, and `leave` rises, from head to
    # tail.
    # Chain k has entered the cuts before entered[k]. Those before passed[k] have ranges
    # that end at the level or below.
    entered, passed = first.copy(), first.copy()
    queue = np.empty(gains.size, np.int64)  # of chain k: from head[k] to tail[k] - 1
    head, tail = first.copy(), first.copy()
    largest, best = -np.inf, first.copy()
    while True:
        # 1. The next level is where the first range ends that has not ended yet. The
        #    search is over when a chain has no cut left.
        level, total = np.inf, 0.0
        for k in range(first.size):
            if passed[k] > last[k]:
                return largest, best
            level = min(level, leave[passed[k]])
        # 2. Move the queues of all chains to this level.
        for k in range(first.size):
            while passed[k] <= last[k] and leave[passed[k]] <= level:
                passed[k] += 1
            # A new cut removes those of smaller gain: their ranges end no later.
            while entered[k] <= last[k] and enter[entered[k]] <= level:
                gain = gains[entered[k]]
                while tail[k] > head[k] and gains[queue[tail[k] - 1]] < gain:
                    tail[k] -= 1
                queue[tail[k]] = entered[k]
                tail[k] += 1
                entered[k] += 1
            # Ranges are closed: a cut that leaves at this level still counts.
            while head[k] < tail[k] and leave[queue[head[k]]] < level:
                head[k] += 1
            total += gains[queue[head[k]]] if head[k] < tail[k] else -np.inf
        # 3. The heads are a joint cut at this level, the best one.
        if total > largest:
            largest = total
            for k in range(first.size):
                best[k] = queue[head[k]]
