"""Isotonic regression of several sequences whose shares above a value are alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d

from scalefair._decorators import checked_call
from scalefair._entries import check_sample_weight
from scalefair._rounding import ROUNDING
from scalefair.kernels import split_at_levels

Array = NDArray[np.float64]
Indices = NDArray[np.integer]

# Cuts up to which three chains under two conditions are compared exactly. A split costs
# the product of the numbers of cuts and of levels: quadratic, if every cut is a level.
MAX_EXACT_CUTS = 100_000
# With more cuts, levels of the rarer condition on a regular grid.
N_GRID_LEVELS = 1000
# Steps of a block. Four rank as well as 32 (docs/solvers.md), and the cuts
# between more of them add noise to the gap.
STEPS_PER_BLOCK = 4


@dataclass(frozen=True)
class ParityIsotonicResult:
    """Fitted values, and the steps that give values to other scores.

    Attributes
    ----------
    fitted : ndarray of shape (n_samples,)
        Value of each sample.
    values : ndarray of shape (n_blocks,)
        The values that occur, decreasing, each the mean of its block.
    thresholds : ndarray of shape (n_blocks + 1, n_chains)
        Block b holds, of chain k, the scores in
        ``(thresholds[b + 1, k], thresholds[b, k]]``; the ends are infinite.
    fine_thresholds : ndarray of shape (n_steps + 1, n_chains)
        The same for steps into which blocks can be cut without widening the gap: up
        to four in each, as more add noise and hardly any order.
    fine_blocks : ndarray of shape (n_steps,)
        Block of each step.
    kappas : ndarray of shape (n_chains, n_chains)
        Difference of levels allowed to each pair: the mean of what each chain allows,
        which is `kappa` as given, or the chain's resolution if that is more. 0 for a
        chain and itself; of several conditions the largest.
    gaps : ndarray of shape (n_chains, n_chains)
        Largest difference of levels of each pair, at any cut into steps.
    kappa, gap : float
        The largest of `kappas`, and of `gaps`.
    """

    fitted: Array
    values: Array
    thresholds: Array
    fine_thresholds: Array
    fine_blocks: Indices
    kappas: Array
    gaps: Array
    kappa: float
    gap: float


@checked_call
def parity_isotonic_regression(
    y: ArrayLike,
    scores: ArrayLike,
    chains: ArrayLike,
    *,
    kappa: float,
    interval: tuple[float, float] = (0.0, 1.0),
    levels_of: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> ParityIsotonicResult:
    r"""Fit values that rise with the score in each chain, and are alike in all chains.

    Minimises :math:`\sum_i w_i (y_i - t_i)^2` over values t that rise with the score
    within each chain, and whose levels

    .. math::
        A_k(\theta) = \frac{\min(P_k(\theta), \beta) - \min(P_k(\theta), \alpha)}
        {\beta - \alpha},

    with :math:`P_k(\theta)` the share of chain k (by weight) with :math:`t_i > \theta`,
    differ by at most kappa between chains at every :math:`\theta`. That is a partial
    order on the samples, so the solution is an isotonic regression: it minimises every
    Bregman loss at once (log-loss, too, where y has zeros and ones), and for each c the
    samples with t > c are the best choice at the cost c. With kappa = 1 each chain is
    fitted for itself, as by :class:`sklearn.isotonic.IsotonicRegression`. All that
    holds, too, where shares are those of some samples only, `levels_of`: of the
    positive ones (equal opportunity), or of both labels (equalized odds).

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        What is to be fitted: labels 0 and 1, or any finite numbers.
    scores : array-like of shape (n_samples,)
        Finite; samples of a chain with equal scores get equal values.
    chains : array-like of int of shape (n_samples,)
        Chain of each sample, from 0 to n_chains - 1, none of them empty.
    kappa : float
        Largest difference of levels, from 0 to 1. Below the resolution of a chain, the
        share :math:`1 / (n_k (\beta - \alpha))` of one of its samples, its cuts hardly
        ever agree with those of others: it allows the resolution instead, and two
        chains differ by at most the mean of what they allow.
    interval : tuple of two floats, default=(0.0, 1.0)
        Shares :math:`0 \le \alpha < \beta \le 1` of a chain, counted from its highest
        score, between which levels are compared.
    levels_of : array-like of bool, (n_samples,) or (n_samples, C), default=None
        Samples whose shares are compared, :math:`n_k` of chain k; a column for each of
        C conditions that hold at once, by default all samples. Three chains and more
        take up to two conditions. They are compared exactly up to 1e5 different
        scores; above that at 1,000 levels of the rarer condition: allowed, but not
        quite the best.
    sample_weight : array-like of shape (n_samples,), default=None
        Positive weights; all 1 by default.

    Returns
    -------
    ParityIsotonicResult
        The solution, exact but for rounding.

    Raises
    ------
    ValueError
        If lengths differ, a number is not finite, a weight not positive, a chain
        empty or without a sample of a condition, or kappa or the interval out of range.

    Notes
    -----
    Blocks of samples are split in two where that lowers the loss most, until none can
    be [1]_: a maximum flow for a general order, here a window that slides over the
    levels (a cut is allowed if some level is within half of what each chain allows),
    so that a split is linear in the samples and all of them take
    :math:`O(n \log n)` as a rule; of three chains under two conditions a window slides
    within another.

    References
    ----------
    .. [1] R. Luss, S. Rosset, M. Shahar (2012), "Efficient regularized isotonic
       regression with application to gene-gene interaction search", Annals of Applied
       Statistics 6.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import parity_isotonic_regression
    >>> y = [1, 1, 1, 1, 0, 1, 0, 0, 0, 0]
    >>> scores = [5, 4, 3, 2, 1, 5, 4, 3, 2, 1]
    >>> chains = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    >>> for kappa in (0.2, 0.4, 0.6):
    ...     result = parity_isotonic_regression(y, scores, chains, kappa=kappa)
    ...     print(kappa, result.fitted.round(2).tolist())
    0.2 [1.0, 1.0, 0.5, 0.5, 0.0, 1.0, 0.5, 0.5, 0.0, 0.0]
    0.4 [1.0, 1.0, 1.0, 0.5, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0]
    0.6 [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    """
    targets, ranking = column_or_1d(y), column_or_1d(scores)
    codes = column_or_1d(np.asarray(chains))  # nullable integers stay integers
    check_consistent_length(targets, ranking, codes)
    for name, values in (("y", targets), ("scores", ranking)):
        assert_all_finite(values, input_name=name)
    weights = check_sample_weight(sample_weight, len(targets), positive=True)
    if weights is None:
        weights = np.ones(len(targets))
    if codes.size == 0 or codes.dtype.kind not in "iu" or codes.min() < 0:
        raise ValueError("chains must be numbers 0, 1, ..., at least one of them.")
    samples = targets.astype(float), ranking.astype(float), codes.astype(int), weights
    return _Chains(*samples, interval, levels_of).solve(kappa)


class _Chains:
    """Chains of cuts: samples sorted by chain and decreasing score, ties added up.

    A chain of n different scores has n + 1 cuts, before the first, between any two and
    after the last. The cuts of all chains are numbered one after the other: those of
    chain k are starts[k] to ends[k]. A joint cut, one cut of each chain, has the
    samples of larger scores above it. `weights`, and `sums` of w (y - centre), are over
    the samples of one score just above a cut: 0 at starts.
    """

    def __init__(
        self,
        y: Array,
        scores: Array,
        codes: Indices,
        weights: Array,
        interval: tuple[float, float],
        levels_of: ArrayLike | None,
    ) -> None:
        low, high = interval
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"interval must be 0 <= alpha < beta <= 1, got interval={interval!r}."
            )
        numbers, sizes = np.unique(codes, return_counts=True)
        if numbers[-1] >= sizes.size:
            missing = int(np.argmax(numbers != np.arange(sizes.size)))
            raise ValueError(f"chains: none has the number {missing}.")
        is_compared, counts = _check_conditions(levels_of, codes, sizes.size)
        # Level that one sample makes, (n_conditions, n_chains): no level exceeds 1.
        self.resolutions = np.minimum(1 / (counts * (high - low)), 1.0)

        # 1. Number the cuts: one before each chain, one after the last of equal scores.
        # `cut_below` of a sample counts the distinct scores and the starts before it.
        self.order = np.lexsort((-scores, codes))
        # From here on samples are in this order: chain after chain, scores falling.
        scores, codes = scores[self.order], codes[self.order]
        is_first = np.append(True, codes[1:] != codes[:-1])
        is_last_tie = np.append(is_first[1:] | (scores[1:] < scores[:-1]), True)
        self.cut_below = np.cumsum(is_last_tie) - is_last_tie + codes + 1
        n_cuts = int(self.cut_below[-1]) + 1
        self.starts = self.cut_below[is_first] - 1
        self.ends = np.append(self.starts[1:], n_cuts) - 1
        self.chain_of = np.repeat(np.arange(sizes.size), self.ends - self.starts + 1)

        # 2. Sums over the samples between a cut and the one before it.
        def sum_ties(values: Array) -> NDArray[Any]:
            return np.bincount(self.cut_below, values[self.order], n_cuts)

        self.weights = sum_ties(weights)
        self.centre = np.average(y, weights=weights)  # centred sums round less
        self.sums = sum_ties(weights * (y - self.centre))
        # 3. A limit for each cut, halfway between the scores above and below it. No
        # number lies between adjacent floats: take the lower one. Scores above a cut
        # are larger than its limit.
        score_above = np.full(n_cuts, np.inf)
        score_above[self.cut_below] = scores
        score_below = np.append(score_above[1:], 0.0)
        with np.errstate(invalid="ignore"):  # the ends are set below
            middle = score_above / 2 + score_below / 2
        self.limits: Array = np.where(middle < score_above, middle, score_below)
        self.limits[self.starts], self.limits[self.ends] = np.inf, -np.inf

        # 4. Shares P_k above the cuts and levels A_k, (n_conditions, n_cuts). In each
        # chain both rise from 0 to 1, which rounding must not change.
        shares = self._sums_above([sum_ties(weights * rows) for rows in is_compared])
        shares /= shares[:, self.ends][:, self.chain_of]
        self.levels = np.clip((shares - low) / (high - low), 0.0, 1.0)
        self.levels[:, self.ends] = 1.0

    def _sums_above(self, values: ArrayLike) -> Array:
        """Return sums above each cut, along the last axis, chain by chain.

        No chain loses the digits that the sums of heavier ones would take.
        """
        sums = np.array(values)
        for start, end in zip(self.starts, self.ends, strict=True):
            sums[..., start : end + 1] = sums[..., start : end + 1].cumsum(axis=-1)
        return sums

    def solve(self, kappa: float) -> ParityIsotonicResult:
        """Split the samples into blocks, each fitted by its mean."""
        if not 0 <= kappa <= 1:
            raise ValueError(f"kappa must be from 0 to 1, got kappa={kappa!r}.")
        # 1. What each chain allows, (n_conditions, n_chains), and each pair.
        allowed = np.maximum(kappa, self.resolutions)
        # Of each pair of chains, (n_chains, n_chains): the mean of what both allow, and
        # the largest over the conditions.
        kappas = (allowed[:, :, None] + allowed[:, None]).max(axis=0) / 2
        np.fill_diagonal(kappas, 0.0)

        # 2. A joint cut is allowed if, for each condition, some level is within half of
        # what each chain allows of its cut's level: if the ranges of levels, from
        # `enter` to `leave`, of its cuts intersect. Split at the allowed ones.
        # Two ranges of half widths a / 2 and b / 2 intersect where levels differ by at
        # most (a + b) / 2, the kappa of the pair.
        radius = allowed[:, self.chain_of] / 2 + ROUNDING
        enter, leave = self._merge_conditions(
            self.levels - radius, self.levels + radius
        )
        lower_cuts, means = split_at_levels(
            enter, leave, self.sums, self.weights, self.starts, self.ends
        )
        means = np.minimum.accumulate(means)  # equal means may differ by rounding
        values = means + self.centre
        bounds = np.vstack([self.starts, lower_cuts])  # (n_blocks + 1, n_chains)

        # 3. The block that lies above each cut, and the value of each sample.
        block_of = np.empty(self.weights.size, np.int64)
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            # Numbers of cuts of chain k in each block, from the highest block down.
            lengths = np.diff(bounds[:, k])
            block_of[start + 1 : end + 1] = np.repeat(np.arange(len(means)), lengths)
        # No samples of a chain are above its first cut, which gets the block below it.
        block_of[self.starts] = block_of[self.starts + 1]
        fitted = np.empty(self.order.size)
        fitted[self.order] = values[block_of[self.cut_below]]

        # 4. Steps within the blocks. The gaps are measured at the cuts between steps,
        # which include the ends of the blocks.
        lower_cuts, blocks = self._divide_blocks(bounds, block_of, enter, leave)
        cuts = np.vstack([self.starts, lower_cuts])
        levels = [self.levels[:, chain_cuts] for chain_cuts in cuts.T]
        gaps = np.zeros_like(kappas)
        for k, m in combinations(range(self.starts.size), 2):
            gaps[k, m] = gaps[m, k] = np.abs(levels[k] - levels[m]).max()
        return ParityIsotonicResult(
            fitted=fitted,
            values=values,
            thresholds=self.limits[bounds],
            fine_thresholds=self.limits[cuts],
            fine_blocks=blocks,
            kappas=kappas,
            gaps=gaps,
            kappa=float(kappas.max()),
            gap=float(gaps.max()),
        )

    def _merge_conditions(self, enter: Array, leave: Array) -> tuple[Array, Array]:
        """Return as few conditions with the same allowed cuts as the kernel can take.

        `enter` and `leave` are the ends of the ranges, (n_conditions, n_cuts).
        """
        if len(enter) == 1 or self.starts.size == 1:
            return enter[:1], leave[:1]
        if self.starts.size == 2:
            # Each condition allows a cut of the first chain a range of cuts of the
            # second, and all conditions the intersection, again a range. So positions
            # in the second chain serve as the levels of a single condition.
            n = self.starts[1]  # cuts of the first chain
            lowest = [
                np.searchsorted(second[n:], first[:n])
                for first, second in zip(enter, leave, strict=True)
            ]
            highest = [
                np.searchsorted(second[n:], first[:n], "right") - 1
                for first, second in zip(leave, enter, strict=True)
            ]
            positions = np.arange(enter.shape[1] - n, dtype=np.float64)
            enter = np.append(np.max(lowest, axis=0), positions)[None]
            leave = np.append(np.min(highest, axis=0), positions)[None]
        elif enter.shape[1] > MAX_EXACT_CUTS:
            # Ranges must intersect at a level of the grid: intersections between two
            # levels are lost. The kernel sweeps the first condition, the rarer one.
            enter[0] = np.ceil(enter[0] * N_GRID_LEVELS) / N_GRID_LEVELS
            leave[0] = np.floor(leave[0] * N_GRID_LEVELS) / N_GRID_LEVELS
        return enter, leave

    def _divide_blocks(
        self, bounds: Indices, block_of: Indices, enter: Array, leave: Array
    ) -> tuple[Indices, Indices]:
        """Divide blocks into steps of equal weight in each chain, where allowed.

        Returns the lower cuts of the steps, (n_steps, n_chains), and their blocks.
        """
        # 1. Position of each cut: from b to b + 1 in block b, by the weight above it.
        weight_above = self._sums_above(self.weights)
        top = weight_above[bounds[block_of, self.chain_of]]
        bottom = weight_above[bounds[block_of + 1, self.chain_of]]
        positions = block_of + (weight_above - top) / (bottom - top)

        # 2. The last cut of a chain at or above each step's end.
        n_steps = STEPS_PER_BLOCK * (len(bounds) - 1)
        steps = np.arange(n_steps)
        cuts = np.empty((n_steps, self.starts.size), np.int64)
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            # Step t ends at position (t + 1) / STEPS_PER_BLOCK: at equal parts of a
            # block.
            step_ends = (steps + 1) / STEPS_PER_BLOCK
            chain_positions = positions[start + 1 : end + 1]
            cuts[:, k] = start + np.searchsorted(chain_positions, step_ends, "right")
        is_block_end = (steps + 1) % STEPS_PER_BLOCK == 0
        cuts[is_block_end] = bounds[1:]

        # 3. Keep the cuts that are allowed and not the same as the cut before.
        # All ranges intersect if the last to begin does so before the first one ends.
        begin = reduce(np.maximum, (enter[:, chain_cuts] for chain_cuts in cuts.T))
        end = reduce(np.minimum, (leave[:, chain_cuts] for chain_cuts in cuts.T))
        is_allowed = (begin <= end).all(axis=0)
        is_new = np.diff(cuts, axis=0, prepend=bounds[:1]).any(axis=1)
        is_kept = (is_allowed & is_new) | is_block_end
        return cuts[is_kept], steps[is_kept] // STEPS_PER_BLOCK


def _check_conditions(
    levels_of: ArrayLike | None, codes: Indices, n_chains: int
) -> tuple[NDArray[np.bool_], Indices]:
    """Return the samples that each condition compares, rarest first, and their counts.

    Shapes (n_conditions, n_samples) and (n_conditions, n_chains).
    """
    rows = np.ones(codes.size, bool) if levels_of is None else np.asarray(levels_of)
    is_shaped = rows.ndim in (1, 2) and rows.size and len(rows) == codes.size
    if rows.dtype != bool or not is_shaped:
        raise ValueError(
            f"levels_of must be booleans of shape {codes.shape}, or with a column for "
            f"each condition, got {rows.dtype} of shape {rows.shape}."
        )
    is_compared = np.atleast_2d(rows.T)  # one row for each condition
    if len(is_compared) > 2 and n_chains > 2:
        raise ValueError(
            f"levels_of has {len(is_compared)} conditions: {n_chains} chains take at "
            "most 2 at once."
        )
    counts = np.array(
        [np.bincount(codes[rows], minlength=n_chains) for rows in is_compared]
    )
    if not counts.all():
        condition, chain = np.argwhere(counts == 0)[0]
        raise ValueError(
            f"levels_of: chain {chain} has no sample of condition {condition}, so no "
            "share of it is above a value."
        )
    # The rarest first: the kernel sweeps the levels of the first, which are the fewest.
    order = np.argsort(counts.sum(axis=1), kind="stable")
    return is_compared[order], counts[order]
