"""Means and variances of linear scores in cells of rows, with their gradients.

The mean of ``(1 + h_i - h_j)**2 / 2`` over all pairs of a row i of cell A and a row
j of cell B is ``((1 + mean_A - mean_B)**2 + variance_A + variance_B) / 2``: pairs are
never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.linear_model._feature_units import FeatureUnits, column_spread
from scalefair.streaming import GroupMoments

__all__ = ["CellScores", "MomentCells", "RowCells", "ScoreCells", "score_cells"]

Array = NDArray[np.float64]

# Matrices of second moments are formed if they are at most this many bytes, and no
# more numbers than a few passes over the rows would read.
_MOMENT_BYTES = 2**30
_PASSES = 4


@dataclass(frozen=True)
class CellScores:
    """Means and variances of the scores of each cell, at some weights.

    Attributes
    ----------
    means, variances : ndarray of shape (n_cells,)
        The variances divide by the number of rows.
    gradient : callable
        Takes weights of a sum of all means and variances, shape (n_cells,) each,
        and returns its derivatives in the weights of each group, shape
        (n_groups, d + 1).
    """

    means: Array
    variances: Array
    gradient: Callable[[Array, Array], Array]


class ScoreCells(Protocol):
    """Means and variances of scores as functions of the weights."""

    def evaluate(self, weights: Array) -> CellScores:
        """Return them at weights of shape (n_groups, d + 1), the intercepts last."""

    def second_moments(self, group: int) -> Array:
        """Return the sum of (x, 1) (x, 1)^T over a group, over the number of rows.

        The matrix of shape (d + 1, d + 1), or its diagonal where it is not formed.
        """


class MomentCells:
    """Cells known by the mean and the covariance matrix of their rows.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (m, d)
        Rows, read once.
    units : FeatureUnits
        Of the features that the weights are for.
    cells : ndarray of shape (m,), int64
        Cell of each row, every one of them occupied.
    group_of_cell : ndarray of shape (n_cells,), int64
        The group that the rows of each cell belong to.
    """

    def __init__(
        self,
        X: Any,
        units: FeatureUnits,
        cells: NDArray[np.int64],
        group_of_cell: NDArray[np.int64],
    ) -> None:
        moments = GroupMoments.from_data(X, cells)
        means = (moments.means - units.centre) * units.factor
        self.means = np.column_stack([means, np.ones(len(moments.counts))])
        self.covariances = moments.covariances("group")
        self.covariances *= units.factor[:, None]
        self.covariances *= units.factor
        self._shares = moments.counts / moments.counts.sum()
        self._group = group_of_cell

    def evaluate(self, weights: Array) -> CellScores:
        """See `ScoreCells`."""
        own = weights[self._group]
        pulled = np.matmul(self.covariances, own[:, :-1, None])[:, :, 0]

        def gradient(on_means: Array, on_variances: Array) -> Array:
            cells = on_means[:, None] * self.means
            cells[:, :-1] += 2.0 * on_variances[:, None] * pulled
            total = np.zeros_like(weights)
            np.add.at(total, self._group, cells)
            return total

        variances = np.einsum("cj,cj->c", own[:, :-1], pulled)
        return CellScores(
            np.einsum("cj,cj->c", own, self.means),
            np.maximum(variances, 0.0),  # what is below zero is rounding
            gradient,
        )

    def second_moments(self, group: int) -> Array:
        """See `ScoreCells`."""
        columns = self.means.shape[1]
        total = np.zeros((columns, columns))
        for cell in np.flatnonzero(self._group == group):
            share, mean = self._shares[cell], self.means[cell]
            total += share * np.outer(mean, mean)
            total[:-1, :-1] += share * self.covariances[cell]
        return total


class RowCells:
    """Cells whose rows are multiplied by: for many features.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (m, d)
        Rows.
    units : FeatureUnits
        Of the features that the weights are for.
    cells : ndarray of shape (m,), int64
        Cell of each row, every one of them occupied.
    group_of_cell : ndarray of shape (n_cells,), int64
        The group that the rows of each cell belong to.
    scores : callable
        Returns the scores of all rows for weights of shape (n_groups, d + 1).
    """

    def __init__(
        self,
        X: Any,
        units: FeatureUnits,
        cells: NDArray[np.int64],
        group_of_cell: NDArray[np.int64],
        scores: Callable[[Array], Array],
    ) -> None:
        self._X = X
        self._units = units
        self._cells = cells
        self._group = group_of_cell
        self._scores = scores
        self._counts = np.bincount(cells, minlength=len(group_of_cell))

    def evaluate(self, weights: Array) -> CellScores:
        """See `ScoreCells`."""
        scores = self._scores(weights)
        means = np.bincount(self._cells, scores) / self._counts
        deviations = scores - means[self._cells]
        variances = np.bincount(self._cells, deviations**2) / self._counts

        def gradient(on_means: Array, on_variances: Array) -> Array:
            on_rows = (2.0 * on_variances / self._counts)[self._cells] * deviations
            on_rows += (on_means / self._counts)[self._cells]
            return self._group_sums(on_rows, len(weights))

        return CellScores(means, variances, gradient)

    def second_moments(self, group: int) -> Array:
        """See `ScoreCells`; the diagonal."""
        spread = column_spread(self._X, self._group[self._cells] == group)
        units = self._units
        square = ((spread.mean - units.centre) * units.factor) ** 2
        square += (spread.deviation * units.factor) ** 2
        return np.append(square, 1.0) * spread.n_rows / len(self._cells)

    def _group_sums(self, on_rows: Array, n_groups: int) -> Array:
        """Return weighted sums of (x, 1) over the rows of each group."""
        groups = self._group[self._cells]
        m = len(groups)
        place = sparse.csc_array((on_rows, groups, np.arange(m + 1)), (n_groups, m))
        product = place @ self._X
        sums = np.empty((n_groups, self._X.shape[1] + 1))
        sums[:, :-1] = product.toarray() if sparse.issparse(product) else product
        sums[:, -1] = np.bincount(groups, on_rows, minlength=n_groups)
        return self._units.pull_back(sums)


def score_cells(
    X: Any,
    units: FeatureUnits,
    cells: NDArray[np.int64],
    group_of_cell: NDArray[np.int64],
    scores: Callable[[Array], Array],
) -> ScoreCells:
    """Return the kind of cells that costs less; parameters as of `RowCells`."""
    numbers = len(group_of_cell) * X.shape[1] ** 2
    entries = X.nnz if sparse.issparse(X) else X.size
    if 8 * numbers <= _MOMENT_BYTES and numbers <= _PASSES * entries:
        return MomentCells(X, units, cells, group_of_cell)
    return RowCells(X, units, cells, group_of_cell, scores)
