"""Isotonic regression of several sequences whose shares above a value are alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import _check_sample_weight

from scalefair.kernels import split_at_levels

Array = NDArray[np.float64]
Places = NDArray[np.integer]

# By which levels may differ in rounding.
_ROUNDING = 1e-13
# Cuts above which three chains under two conditions are compared at so many levels of
# the first one only: the cost is the product of the two.
_MAX_EXACT_CUTS = 100_000
_N_LEVELS = 1000
# Steps that a block is cut into at most.
_STEPS = 4


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
    fine_blocks: Places
    kappas: Array
    gaps: Array
    kappa: float
    gap: float


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
    columns = y, scores, chains, sample_weight
    return _Chains(columns, interval, levels_of).solve(kappa)


class _Chains:
    """Samples sorted by chain and falling score, those with equal scores added up."""

    def __init__(
        self, columns: tuple[Any, ...], interval: Any, levels_of: ArrayLike | None
    ) -> None:
        y, scores, codes, weights = _check(*columns)
        low, high = interval
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"interval must be 0 <= alpha < beta <= 1, got interval={interval!r}."
            )
        sizes = np.bincount(codes)
        if not sizes.all():
            raise ValueError(f"chains: none has the number {int(np.argmin(sizes))}.")
        compared, counts = _check_conditions(levels_of, codes, sizes.size)
        # What is allowed to a chain is never more than all.
        self.resolutions = np.minimum(1 / (counts * (high - low)), 1.0)

        self.order = np.lexsort((-scores, codes))
        scores, codes = scores[self.order], codes[self.order]
        is_first = np.append(True, codes[1:] != codes[:-1])
        # A cut lies before each chain, and behind the last of equal scores.
        is_cut = np.append(is_first[1:] | (scores[1:] < scores[:-1]), True)
        step_of = np.cumsum(is_cut) - is_cut + codes + 1  # of each sample
        n_cuts = int(step_of[-1]) + 1

        def add_up(values: Array) -> NDArray[Any]:
            return np.bincount(step_of, values[self.order], n_cuts)

        self.weights = add_up(weights)
        self.centre = np.average(y, weights=weights)  # small sums round less
        self.sums = add_up(weights * (y - self.centre))
        self.step_of, self.starts = step_of, step_of[is_first] - 1
        self.ends = np.append(self.starts[1:], n_cuts) - 1
        least = np.full(n_cuts, np.inf)
        least[step_of] = scores  # the last of each step is its lowest score
        self.limits = _limits(least, self.starts, self.ends)

        chain_of = np.repeat(np.arange(sizes.size), self.ends - self.starts + 1)
        self.chain_of = chain_of
        # (n_conditions, n_cuts)
        ranks = np.cumsum([add_up(weights * rows) for rows in compared], axis=1)
        ranks -= ranks[:, self.starts][:, chain_of]
        ranks /= ranks[:, self.ends][:, chain_of]
        self.levels = np.clip((ranks - low) / (high - low), 0.0, 1.0)
        self.levels[:, self.ends] = 1.0

    def _steps(
        self, bounds: Places, block_of: Places, enter: Array, leave: Array
    ) -> tuple[Places, Places]:
        """Cut blocks into parts of equal shares where that is allowed.

        Returns the lower ends of the steps, and their blocks.
        """
        above = np.cumsum(self.weights)
        first, last = (above[bounds[block_of + i, self.chain_of]] for i in (0, 1))
        positions = block_of + (above - first) / (last - first)  # block b: b to b + 1
        number = np.arange(_STEPS * (len(bounds) - 1))
        cuts = np.empty((number.size, self.starts.size), np.int64)
        for k, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            of_chain = positions[start + 1 : end + 1]
            cuts[:, k] = np.searchsorted(of_chain, (number + 1) / _STEPS, "right")
        cuts += self.starts
        is_end = number % _STEPS == _STEPS - 1
        cuts[is_end] = bounds[1:]
        is_met = enter[:, cuts].max(axis=2) <= leave[:, cuts].min(axis=2)
        is_new = np.diff(cuts, axis=0, prepend=bounds[:1]).any(axis=1)
        kept = (is_met.all(axis=0) & is_new) | is_end
        return cuts[kept], number[kept] // _STEPS

    def _windows(self, enter: Array, leave: Array) -> tuple[Array, Array]:
        """Return ranges for each cut that meet if those of all conditions do."""
        if len(enter) == 1 or self.starts.size == 1:
            return enter[:1], leave[:1]
        if self.starts.size == 2:
            # All conditions together allow each cut of the first chain a range of the
            # second one's cuts: the positions of these are the levels.
            one, two = slice(self.starts[1]), slice(self.starts[1], None)
            places = np.arange(enter.shape[1] - self.starts[1], dtype=np.float64)
            low = map(np.searchsorted, leave[:, two], enter[:, one])
            high = (
                np.searchsorted(a[two], b[one], "right") - 1
                for a, b in zip(enter, leave, strict=True)
            )
            enter = np.append(np.max(list(low), axis=0), places)[None]
            leave = np.append(np.min(list(high), axis=0), places)[None]
        elif enter.shape[1] > _MAX_EXACT_CUTS:  # levels of a grid, which are all used
            enter[0] = np.ceil(enter[0] * _N_LEVELS) / _N_LEVELS
            leave[0] = np.floor(leave[0] * _N_LEVELS) / _N_LEVELS
        return enter, leave

    def solve(self, kappa: float) -> ParityIsotonicResult:
        """Split the samples into blocks; fit the mean of its block to each."""
        if not 0 <= kappa <= 1:
            raise ValueError(f"kappa must be from 0 to 1, got kappa={kappa!r}.")
        allowed = np.maximum(kappa, self.resolutions)  # (n_conditions, n_chains)
        kappas = (allowed[:, :, None] + allowed[:, None]).max(axis=0) / 2
        np.fill_diagonal(kappas, 0.0)
        # A cut is allowed if some level is within half of what each chain allows.
        reach, starts = allowed[:, self.chain_of] / 2 + _ROUNDING, self.starts
        enter, leave = self._windows(self.levels - reach, self.levels + reach)
        bounds, means = split_at_levels(
            enter, leave, self.sums, self.weights, starts, self.ends
        )
        means = np.minimum.accumulate(means)  # equal ones may differ in rounding
        values = means + self.centre
        bounds = np.vstack([starts, bounds])
        block_of = np.empty(self.weights.size, np.int64)
        for k, (start, end) in enumerate(zip(starts, self.ends, strict=True)):
            lengths = np.diff(bounds[:, k])
            block_of[start + 1 : end + 1] = np.repeat(np.arange(len(means)), lengths)
        block_of[starts] = block_of[starts + 1]
        cuts, blocks = self._steps(bounds, block_of, enter, leave)
        cuts = np.vstack([starts, cuts])
        fitted = np.empty(self.order.size)
        fitted[self.order] = values[block_of[self.step_of]]
        levels = self.levels[:, cuts]  # (n_conditions, n_steps, n_chains)
        gaps = np.zeros_like(kappas)
        for k in range(starts.size):
            gaps[k] = np.abs(levels - levels[..., [k]]).max(axis=(0, 1))
        limits = self.limits[bounds], self.limits[cuts]
        kappa, gap = float(kappas.max()), float(gaps.max())
        return ParityIsotonicResult(
            fitted, values, *limits, blocks, kappas, gaps, kappa, gap
        )


def _limits(least: Array, starts: Places, ends: Places) -> Array:
    """Limit of each cut: halfway to the next score below; infinite at the ends."""
    below = np.append(least[1:], 0.0)
    with np.errstate(invalid="ignore"):  # of infinite ends
        middle = least / 2 + below / 2
    # Between neighbouring numbers none is: the lower one, which is left out.
    limits: Array = np.where(middle < least, middle, below)
    limits[starts], limits[ends] = np.inf, -np.inf
    return limits


def _check(
    y: Any, scores: Any, chains: Any, sample_weight: Any
) -> tuple[NDArray[Any], ...]:
    """Return targets, scores, chains (as int64) and weights."""
    y, scores, codes = map(column_or_1d, (y, scores, chains))
    check_consistent_length(y, scores, codes)
    for name, values in (("y", y), ("scores", scores)):
        assert_all_finite(values, input_name=name)
    weights = _check_sample_weight(sample_weight, y, dtype=np.float64)
    if codes.size == 0 or codes.dtype.kind not in "iu" or codes.min() < 0:
        raise ValueError("chains must be numbers 0, 1, ..., at least one of them.")
    if not (weights > 0).all():
        raise ValueError("sample_weight must be positive: leave out the others.")
    return y.astype(np.float64), scores.astype(np.float64), codes.astype(int), weights


def _check_conditions(
    levels_of: ArrayLike | None, codes: Places, n_chains: int
) -> tuple[NDArray[np.bool_], Places]:
    """Return which samples each condition compares, the rarest first, and how many."""
    rows = np.ones(codes.size, bool) if levels_of is None else np.asarray(levels_of)
    is_shaped = rows.ndim in (1, 2) and rows.size and len(rows) == codes.size
    if rows.dtype != bool or not is_shaped:
        raise ValueError(
            f"levels_of must be booleans of shape {codes.shape}, or with a column for "
            f"each condition, got {rows.dtype} of shape {rows.shape}."
        )
    compared = np.atleast_2d(rows.T)
    if len(compared) > 2 and n_chains > 2:
        raise ValueError(
            f"levels_of has {len(compared)} conditions: {n_chains} chains take at most "
            "2 at once."
        )
    counts = np.array(
        [np.bincount(codes[kept], minlength=n_chains) for kept in compared]
    )
    if not counts.all():
        condition, chain = np.argwhere(counts == 0)[0]
        raise ValueError(
            f"levels_of: chain {chain} has no sample of condition {condition}, so no "
            "share of it is above a value."
        )
    order = np.argsort(counts.sum(axis=1), kind="stable")
    return compared[order], counts[order]
