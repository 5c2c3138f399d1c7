"""Gap that chance makes of scores that treat all groups alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.metrics._score_gaps import TEXTS

# Draws for two groups, and points of the ranks.
_DRAWS, _POINTS = 500, 512


@documented(**TEXTS)
def null_parity_gap(
    group_sizes: ArrayLike, *, interval: tuple[float, float] = (0.0, 1.0)
) -> float:
    r"""Mean partial parity gap of fair scores, made by sampling noise alone.

    What `partial_demographic_parity_gap` is to be compared with: of groups drawn from
    one distribution it is not 0, but about this much.

    Parameters
    ----------
    group_sizes : array-like of shape (n_groups,)
        Number of rows of each group; of weighted rows :math:`(\sum w)^2 / \sum w^2`.
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
    sizes = np.asarray(group_sizes, dtype=np.float64)
    if sizes.ndim != 1 or not (sizes > 0).all():
        raise ValueError(
            f"group_sizes must be positive numbers, one per group, got {group_sizes!r}."
        )
    low, high = check_interval(interval)
    if sizes.size < 2:
        return 0.0
    scales = 1 / np.sqrt(sizes)
    reach = 2 * scales.max()  # ranks that noise brings inside
    ranks = np.linspace(max(0.0, low - reach), min(1.0, high + reach), _POINTS)
    rng = np.random.default_rng(0)  # an estimate: the same for the same sizes
    steps = np.diff(ranks, prepend=0.0, append=1.0)
    gaps = []
    for _ in range(max(2 * _DRAWS // sizes.size, 100)):
        walk = rng.normal(size=(sizes.size, steps.size)) * np.sqrt(steps)
        paths = np.cumsum(walk, axis=1)
        bridges = paths[:, :-1] - ranks * paths[:, -1:]
        shares = np.clip(ranks + scales[:, None] * bridges, low, high)
        gaps.append(np.ptp(shares, axis=0).max() / (high - low))
    return float(np.mean(gaps))
