"""The fair assignment problem: costs, share bounds and certified lower bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import single_blas_thread, soft_columns

__all__ = ["AssignmentProblem", "squared_distances"]

# Rows per chunk: sums are formed per chunk and added in a fixed order.
_CHUNK = 2048


@dataclass(frozen=True)
class AssignmentProblem:
    """Rows sorted by group, k columns; every row goes to one column.

    In column l with ``n_l`` rows, group s must have between
    ``lower[s] n_l`` and ``upper[s] n_l`` rows, and ``n_l >= smallest``.
    """

    costs: NDArray[np.float64]  # (n, k)
    offsets: NDArray[np.int64]  # (h + 1,): rows of group s
    weights: NDArray[np.float64]  # (h,): what a row of the group stands for
    lower: NDArray[np.float64]  # (h,)
    upper: NDArray[np.float64]  # (h,)
    smallest: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of groups and of columns, as of the prices."""
        return self.offsets.shape[0] - 1, self.costs.shape[1]

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group of each row."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.offsets))

    def _chunks(self) -> NDArray[np.int64]:
        """Return runs of rows of one group: start, stop, group."""
        runs = [
            (start, min(start + _CHUNK, int(stop)), s)
            for s, stop in enumerate(self.offsets[1:])
            for start in range(int(self.offsets[s]), int(stop), _CHUNK)
        ]
        return np.array(runs, dtype=np.int64)

    def choices(
        self, prices: NDArray[np.float64], temperature: float = 0.0
    ) -> tuple[float, NDArray[np.float64]]:
        """Sum over rows of the (smoothed) cheapest priced cost, and the counts."""
        groups, counts, values = self._by_chunk(prices, temperature)
        table = np.zeros(self.shape)
        np.add.at(table, groups, counts)
        value = float(np.sum(values * self.weights[groups]))
        return value, table * self.weights[:, None]

    def group_choices(
        self, prices: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sum over the rows of each group of the cheapest priced cost; the counts."""
        groups, counts, values = self._by_chunk(prices, 0.0)
        table = np.zeros(self.shape)
        np.add.at(table, groups, counts)
        sums = np.bincount(groups, values, minlength=self.shape[0])
        return sums.astype(np.float64, copy=False), table

    def _by_chunk(
        self, prices: NDArray[np.float64], temperature: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Group, counts and sum of the (smoothed) cheapest priced costs of chunks."""
        chunks = self._chunks()
        counts = np.empty((chunks.shape[0], self.shape[1]))
        values = np.empty(chunks.shape[0])
        soft_columns(self.costs, chunks, prices, temperature, counts, values)
        return chunks[:, 2], counts, values

    def certify(
        self, prices: NDArray[np.float64], credits: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Prices made feasible, and the bound on all fair assignments they prove.

        Let ``w`` be a column of fair shares and ``p_l`` the prices of column l. If
        ``w . p_l <= 0`` for all such w, prices of a fair assignment add up to at
        most 0, so the cheapest priced costs add up to a lower bound. Any prices are
        made so by subtracting the largest ``w . p_l``. The credits, >= 0, are the
        multipliers of the smallest column size.
        """
        prices = prices + credits
        prices = prices - self._dearest(prices) - credits
        value, _ = self.choices(prices)
        return prices, value + self.smallest * float(credits.sum())

    def _dearest(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest price of a unit of fairly mixed rows, for each column."""
        order = np.argsort(-prices, axis=0, kind="stable")
        left = np.full(self.shape[1], 1.0 - self.lower.sum())
        total = self.lower @ prices
        for s in order:
            more = np.minimum((self.upper - self.lower)[s], left)
            total += more * np.take_along_axis(prices, s[None, :], axis=0)[0]
            left -= more
        return total


def squared_distances(
    X: NDArray[np.float64], centers: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Squared distances of all rows to all centres, by one product.

    One BLAS thread: the last digits must not depend on the number of threads.

    Raises
    ------
    ValueError
        If they overflow.
    """
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        middle = centers.mean(axis=0)
        X, centers = X - middle, centers - middle
        costs: NDArray[np.float64] = X @ centers.T
        costs *= -2
        costs += np.einsum("ij,ij->i", X, X)[:, None]
        costs += np.einsum("ij,ij->i", centers, centers)
        total = costs.sum()
    if not np.isfinite(total):
        raise ValueError(
            "The squared distances of X to centers overflow: rescale both."
        )
    return np.maximum(costs, 0, out=costs)
