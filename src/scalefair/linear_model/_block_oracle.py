"""The oracle of rows that are read in blocks, each call anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.linear_model._base import TrainingRows
from scalefair.linear_model._oracle import OracleValue, ScoreOracle

__all__ = ["BlockOracle"]


class BlockOracle:
    """What `ScoreOracle` offers, for rows of which one block is in memory at a time.

    Parameters
    ----------
    read : callable
        Returns an iterator over encoded blocks; called once for each evaluation.
    make_oracle : callable
        Makes the `ScoreOracle` of a block.
    n_rows : int
        Number of all rows.
    group_sizes : ndarray of shape (G,)
        Rows of each group.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[TrainingRows]],
        make_oracle: Callable[[TrainingRows], ScoreOracle],
        n_rows: int,
        group_sizes: NDArray[np.int64],
    ) -> None:
        self._read = read
        self._make_oracle = make_oracle
        self._n_rows = n_rows
        first = make_oracle(next(read()))
        self.n_features = first.n_features
        self.n_weights = first.n_weights
        self.n_groups = first.n_groups
        self.group_sizes = group_sizes
        self.n_calls = 0

    def scores(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of all rows, in their order."""
        parts = [self._make_oracle(block).scores(w) for block in self._read()]
        return np.concatenate(parts)

    def evaluate(
        self, w: NDArray[np.float64], theta: NDArray[np.float64], **shape: Any
    ) -> OracleValue:
        """Return means over all rows, added up block by block."""
        self.n_calls += 1
        loss, gradient = 0.0, np.zeros(self.n_weights)
        plus = np.zeros((self.n_groups, len(theta)))
        minus = np.zeros_like(plus)
        slopes = np.zeros((self.n_groups, 2 * len(theta), self.n_features + 1))
        for block in self._read():
            oracle = self._make_oracle(block)
            value = oracle.evaluate(w, theta, **shape)
            share = block.signs.size / self._n_rows
            shares = (oracle.group_sizes / self.group_sizes)[:, None]
            loss += share * value.loss
            gradient += share * value.loss_gradient
            plus += shares * value.plus
            minus += shares * value.minus
            slopes += shares[:, :, None] * value._slopes
        return OracleValue(oracle, loss, gradient, plus, minus, lambda: slopes)
