"""Isotonic regression of several sequences whose shares above a value are alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.kernels import cuts_between, split_at_levels

# By which levels may differ in rounding.
_ROUNDING = 1e-13


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
        The same for steps into which blocks can be cut without widening the gap:
        as many as there are.
    fine_blocks : ndarray of shape (n_steps,)
        Block of each step.
    gap : float
        Largest difference of levels between chains, at any cut into steps.
    """

    fitted: NDArray[np.float64]
    values: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    fine_thresholds: NDArray[np.float64]
    fine_blocks: NDArray[np.integer]
    gap: float


def parity_isotonic_regression(
    y: ArrayLike,
    scores: ArrayLike,
    chains: ArrayLike,
    *,
    kappa: float,
    interval: tuple[float, float] = (0.0, 1.0),
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
    fitted for itself, as by :class:`sklearn.isotonic.IsotonicRegression`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        What is to be fitted: labels 0 and 1, or any finite numbers.
    scores : array-like of shape (n_samples,)
        Finite; samples of a chain with equal scores get equal values.
    chains : array-like of int of shape (n_samples,)
        Chain of each sample, from 0 to n_chains - 1, none of them empty.
    kappa : float
        Largest difference of levels, from 0 to 1. Below the resolution, the share
        :math:`1 / (n_k (\beta - \alpha))` of one sample of the smallest chain, cuts
        hardly ever agree: the resolution takes its place.
    interval : tuple of two floats, default=(0.0, 1.0)
        Shares :math:`0 \le \alpha < \beta \le 1` of a chain, counted from its highest
        score, between which levels are compared.
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
        empty, or kappa or the interval out of range.

    Notes
    -----
    Blocks of samples are split in two where that lowers the loss most, until none can
    be [1]_: a maximum flow for a general order, here a window that slides over the
    levels, so that a split is linear in the samples and all of them take
    :math:`O(n \log n)` as a rule.

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
    y, scores, weights, codes = _check(y, scores, chains, sample_weight)
    low, high = interval
    if not (0 <= low < high <= 1 and 0 <= kappa <= 1):
        raise ValueError(
            "interval must be 0 <= alpha < beta <= 1 and kappa in [0, 1], got interval="
            f"{interval!r} and kappa={kappa!r}."
        )
    sizes = np.bincount(codes)
    if not sizes.all():
        raise ValueError(f"chains: none has the number {int(np.argmin(sizes))}.")
    width = max(kappa, 1 / (sizes.min() * (high - low))) + _ROUNDING

    order = np.lexsort((-scores, codes))
    scores, sorted_codes = scores[order], codes[order]
    is_first = np.append(True, sorted_codes[1:] != sorted_codes[:-1])
    # A cut lies before each chain, and behind the last of equal scores.
    is_cut = np.append(is_first[1:] | (scores[1:] < scores[:-1]), True)
    step_of = np.cumsum(is_cut) - is_cut + sorted_codes + 1  # of each sample
    n_cuts = int(step_of[-1]) + 1
    step_weights = _sums(step_of, weights[order], n_cuts)
    centre = np.average(y, weights=weights)  # small sums round less
    sums = _sums(step_of, (weights * (y - centre))[order], n_cuts)
    chain_of = np.empty(n_cuts, np.int64)
    chain_of[step_of] = sorted_codes
    starts = step_of[is_first] - 1
    chain_of[starts] = np.arange(sizes.size)
    ends = np.append(starts[1:], n_cuts) - 1

    ranks = np.cumsum(step_weights)
    ranks -= ranks[starts][chain_of]
    ranks = (ranks / ranks[ends][chain_of] - low) / (high - low)
    levels = np.clip(ranks, 0.0, 1.0)
    levels[ends] = 1.0
    bounds, means = split_at_levels(levels, sums, step_weights, starts, ends, width)
    means = np.minimum.accumulate(means)  # equal ones may differ in rounding
    bounds = np.vstack([starts, bounds])
    cuts, blocks = cuts_between(levels, ranks, bounds, width)
    cuts = np.vstack([starts, cuts])

    block_of = np.empty(n_cuts, np.int64)
    for k, start in enumerate(starts):
        lengths = np.diff(bounds[:, k])
        block_of[start + 1 : ends[k] + 1] = np.repeat(np.arange(len(means)), lengths)
    fitted = np.empty_like(y)
    fitted[order] = (means + centre)[block_of[step_of]]
    least = np.full(n_cuts, np.inf)
    least[step_of] = scores  # the last of each step is its lowest score
    limits = _limits(least, starts, ends)
    return ParityIsotonicResult(
        fitted,
        means + centre,
        limits[bounds],
        limits[cuts],
        blocks,
        float(np.ptp(levels[cuts], axis=1).max()),
    )


def _sums(
    steps: NDArray[np.int64], values: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    return np.bincount(steps, values, n).astype(np.float64, copy=False)


def _limits(
    least: NDArray[np.float64], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Limit of each cut: halfway to the next score below; infinite at the ends."""
    below = np.append(least[1:], 0.0)
    with np.errstate(invalid="ignore"):  # of infinite ends
        middle = least / 2 + below / 2
    # Between neighbouring numbers none is: the lower one, which is left out.
    limits: NDArray[np.float64] = np.where(middle < least, middle, below)
    limits[starts], limits[ends] = np.inf, -np.inf
    return limits


def _check(
    y: ArrayLike, scores: ArrayLike, chains: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[NDArray[np.float64], ...]:
    """Return targets, scores and weights as float64, and chains as int64."""
    weights = np.ones(np.shape(y)) if sample_weight is None else sample_weight
    given = {"y": y, "scores": scores, "sample_weight": weights}
    arrays = {name: np.asarray(x, dtype=np.float64) for name, x in given.items()}
    codes = np.asarray(chains)
    if any(x.shape != codes.shape or x.ndim != 1 for x in arrays.values()):
        shapes = [x.shape for x in arrays.values()]
        raise ValueError(
            f"y, scores, sample_weight and chains must be vectors of one length, got "
            f"shapes {shapes} and {codes.shape}."
        )
    if codes.size == 0 or codes.dtype.kind not in "iu" or codes.min() < 0:
        raise ValueError("chains must be numbers 0, 1, ..., at least one of them.")
    for name, x in arrays.items():
        if not np.isfinite(x).all():
            bad = int(np.flatnonzero(~np.isfinite(x))[0])
            raise ValueError(f"{name} is not finite at position {bad}: {x[bad]}.")
    if not (arrays["sample_weight"] > 0).all():
        raise ValueError("sample_weight must be positive: leave out the others.")
    return *arrays.values(), codes.astype(np.int64)
