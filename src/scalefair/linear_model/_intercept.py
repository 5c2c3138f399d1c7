"""The best score of all rows alike, and the best shift of given scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["best_constant", "most_accurate_shift"]


# Share of the rows, to either side, over which the accuracy of cuts is averaged.
_NEIGHBOURS = 0.01


def most_accurate_shift(
    scores: NDArray[np.float64], signs: NDArray[np.float64]
) -> float:
    """Return the shift after which most signs of the scores are right.

    The number of right signs as a function of the cut is a random walk, whose maximum
    follows the noise: it is averaged over the cuts up to 1 % of the rows away first.
    Between two neighbouring scores all shifts do the same: the middle is taken, and
    of several best places the one that shifts least. Zero if nothing is better.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Scores.
    signs : ndarray of shape (m,)
        Labels, -1 or 1.
    """
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    # gain[i]: rows right if the i lowest scores become negative, up to a constant
    gain = np.concatenate([[0.0], np.cumsum(-signs[order])])
    gain = _averaged(gain, int(_NEIGHBOURS * scores.size))
    distinct = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    now = np.searchsorted(ordered, 0.0, side="right")  # a score of 0 is negative
    if gain[now] >= gain[distinct].max():
        return 0.0
    places = np.flatnonzero(distinct & (gain == gain[distinct].max()))
    padded = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    cuts = (padded[places] + padded[places + 1]) / 2
    return float(-cuts[np.abs(cuts).argmin()])


def _averaged(values: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Means over neighbours, the ends repeated beyond them."""
    if reach == 0:
        return values
    sums = np.concatenate([[0.0], np.cumsum(np.pad(values, reach, mode="edge"))])
    width = 2 * reach + 1
    means: NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means


def best_constant(signs: NDArray[np.float64], loss: str) -> float:
    """Return the score with the least mean loss if all rows have the same.

    Parameters
    ----------
    signs : ndarray of shape (m,)
        Labels, -1 or 1, of both kinds.
    loss : str
        Loss of `ScoreOracle`; those of pairs do not depend on a constant.
    """
    mean = float(signs.mean())
    if loss == "logistic":
        return float(np.log1p(mean) - np.log1p(-mean))
    if loss == "hinge":
        return float(np.sign(mean))
    return mean if loss == "squared" else 0.0
