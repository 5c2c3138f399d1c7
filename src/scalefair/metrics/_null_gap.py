"""Gap that chance makes of scores that treat all groups alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.metrics._partial_parity import PARITY_TEXTS


@documented(**PARITY_TEXTS)
def null_parity_gap(
    group_sizes: ArrayLike | list[ArrayLike],
    *,
    interval: tuple[float, float] = (0.0, 1.0),
) -> float:
    r"""Mean partial parity gap of fair scores, made by sampling noise alone.

    What `partial_parity_gap` is to be compared with: of groups drawn from one
    distribution it is not 0, but about this much.

    Parameters
    ----------
    group_sizes : array-like of shape (n_groups,), or list of such
        Number of rows of each group that are compared, of
        `partial_equal_opportunity_gap` the positive ones; of weighted rows
        :math:`(\sum w)^2 / \sum w^2`. A list has the sizes of several comparisons, of
        `partial_equalized_odds_gap` those of each label: the largest gap counts.
        Where scores were fitted to :math:`n` rows and are measured on :math:`n'` new
        ones, :math:`1 / (1/n + 1/n')`.
    %(interval)s

    Returns
    -------
    gap : float
        Mean of the largest difference between Brownian bridges of the variances
        ``1 / group_sizes``. Single samples scatter by about a third of it.

    Raises
    ------
    ValueError
        If a size is not positive, or the interval is none.

    Examples
    --------
    >>> from scalefair.metrics import null_parity_gap
    >>> round(null_parity_gap([1000, 1000]), 2), round(null_parity_gap([1000, 50]), 2)
    (0.04, 0.12)
    """
    is_several = isinstance(group_sizes, list) and any(map(np.ndim, group_sizes))
    comparisons: Any = group_sizes if is_several else [group_sizes]
    comparisons = [np.asarray(sizes, dtype=np.float64) for sizes in comparisons]
    if not all(sizes.ndim == 1 and (sizes > 0).all() for sizes in comparisons):
        raise ValueError(
            f"group_sizes must be positive numbers, one per group, got {group_sizes!r}."
        )
    low, high = check_interval(interval)
    # The rank t of a group is off by scale * B(t), with a Brownian bridge B.
    scales_of_comparisons = [1 / np.sqrt(n) for n in comparisons if n.size > 1]
    if not scales_of_comparisons:
        return 0.0
    rng = np.random.default_rng(0)  # the same estimate for the same sizes
    # 500 draws for two groups: single gaps scatter by a third, their mean by 1.5 %.
    # The largest gap of many groups scatters less, and takes more time.
    gaps = np.zeros(max(1000 // sum(map(len, scales_of_comparisons)), 100))
    for scales in scales_of_comparisons:
        # Ranks from outside that four standard deviations bring into the interval: that
        # of B is at most 1/2.
        margin = 2 * scales.max()
        ranks = np.linspace(max(0.0, low - margin), min(1.0, high + margin), 512)
        steps = np.diff(ranks, prepend=0.0, append=1.0)
        for i in range(gaps.size):
            # Brownian bridge B(t) = W(t) - t W(1) from the increments of W.
            increments = rng.normal(size=(scales.size, steps.size)) * np.sqrt(steps)
            paths = np.cumsum(increments, axis=1)
            bridges = paths[:, :-1] - ranks * paths[:, -1:]
            shares = np.clip(ranks + scales[:, None] * bridges, low, high)
            gaps[i] = max(gaps[i], np.ptp(shares, axis=0).max() / (high - low))
    return float(gaps.mean())
