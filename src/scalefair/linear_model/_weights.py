"""Units of the features, and the weights of all groups as one vector.

A row of weights is n coefficients and an intercept, (n + 1,). The optimiser sees them
in standardized units and in one vector w; users see them in units of the features.

From w to the scores of the rows of a cell, and from gradients back to w:

    w   -- `rows` -->  rows of weights  -- `of_groups` -->  weights of each group
    w'  <-- `lift` --  standardized gradients  <-- `units.pull_back` --  of each cell

`effective` does both steps of the first line; a cell has the weights of its group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from scalefair._entries import all_finite, ignore_fp_warnings
from scalefair._membership import Cells
from scalefair.streaming import row_blocks

Array = NDArray[np.float64]

# A column whose deviation is below this part of its largest entry is constant: less
# than half of the digits of its scores and gradients would be correct.
CONSTANT_RTOL = 1e-10


class ColumnSpread(NamedTuple):
    """Weight of rows; of each column mean, standard deviation, minimum and maximum.

    Deviations are not variances, so that large entries do not overflow.
    """

    n_rows: float  # the sum of their weights
    mean: Array
    deviation: Array
    low: Array
    high: Array

    def merge(self, other: ColumnSpread) -> ColumnSpread:
        """Return the spread of the rows of both."""
        # Chan, Golub, LeVeque: the variance of both is the mean of the variances plus
        # share * other_share * (difference of the means)^2. `hypot` adds squares that
        # would overflow.
        n_rows = self.n_rows + other.n_rows
        share, other_share = self.n_rows / n_rows, other.n_rows / n_rows
        with ignore_fp_warnings():
            between = other.mean - self.mean
        within = np.hypot(
            np.sqrt(share) * self.deviation, np.sqrt(other_share) * other.deviation
        )
        return ColumnSpread(
            n_rows,
            self.mean + other_share * between,
            np.hypot(within, np.sqrt(share * other_share) * between),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def scale(self) -> Array:
        """Return the unit of each column, 0 for a constant one.

        For two values it is their distance, otherwise the deviation [Gelman 2008]: a
        0/1 column, however rare its ones are, keeps its unit and its penalty.
        """
        with ignore_fp_warnings():
            distance = self.high - self.low
        if not (all_finite(distance) and all_finite(self.deviation)):
            raise ValueError(
                "X has features whose values lie too far apart to be subtracted from "
                "each other: rescale its features."
            )
        largest_entry = np.maximum(self.high, -self.low)
        # Weights are divided by the unit: with one below 1e-290 they would overflow.
        varies = self.deviation > np.maximum(CONSTANT_RTOL * largest_entry, 1e-290)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # Bhatia and Davis: variance <= (mean - low) (high - mean), with equality
            # for two values only. Both sides are divided by distance^2, so that no
            # product overflows. The tolerance is for the rounding of the variance.
            variance = (self.deviation / distance) ** 2
            bound = (self.mean - self.low) / distance
            bound = bound * (self.high - self.mean) / distance
            two_values = np.abs(bound - variance) <= 1e-9 * bound
        return np.where(varies, np.where(two_values, distance, self.deviation), 0.0)


def column_spread(X: Any, weights: Array | None = None) -> ColumnSpread:
    """Return the spread of finite rows, dense or canonical CSR, that have a weight.

    Rows of weight 0 are left out: their entries count for no minimum and no maximum.
    """

    def spreads() -> Iterator[ColumnSpread]:
        # Blocks of one MiB stay in the cache while they are read three times.
        for rows, block in row_blocks(X, 2**20):
            if weights is None:
                yield _spread_of_block(block, None)
            elif (counted := weights[rows] > 0).any():
                yield _spread_of_block(block[counted], weights[rows][counted])

    return reduce(ColumnSpread.merge, spreads())


def _spread_of_block(X: Any, weights: Array | None) -> ColumnSpread:
    """Spread of rows (m, n), all with a weight."""
    # Step 1: minimum and maximum of each column; entries not stored are zero.
    m, n = X.shape
    total = m if weights is None else float(weights.sum())
    if sparse.issparse(X):
        n_stored = np.bincount(X.indices, minlength=n)
        low = np.where(n_stored < m, 0.0, np.inf)
        high = -low
        np.minimum.at(low, X.indices, X.data)
        np.maximum.at(high, X.indices, X.data)
    else:
        low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    # Step 2: mean and variance, of columns divided by their largest entry so that no
    # square overflows. Squares are of what is left without the mean: no digits are lost
    # where it is large.
    unit = np.maximum(high, -low)
    unit[unit == 0] = 1.0
    if sparse.issparse(X):
        csr = X.data / unit[X.indices], X.indices, X.indptr
        scaled = sparse.csr_array(csr, shape=X.shape)
        mean, variance = mean_variance_axis(scaled, 0, weights)
    else:
        values = X / unit
        mean = np.average(values, axis=0, weights=weights)
        values -= mean
        values *= values
        variance = np.average(values, axis=0, weights=weights)
    deviation = unit * np.sqrt(np.maximum(variance, 0.0))  # below zero is rounding
    return ColumnSpread(total, unit * mean, deviation, low, high)


class FeatureUnits(NamedTuple):
    """Conversion of weights between standardized features and the features as given.

    The standardized features are ``(x - centre) * factor``. They are never formed: a
    score is the same whether features are standardized or weights are converted. All of
    (n,), and 0 for a constant column, which gets no weight.
    """

    centre: Array  # mean
    scale: Array  # unit, `ColumnSpread.scale`
    factor: Array  # 1 / scale

    @classmethod
    def identity(cls, n: int) -> FeatureUnits:
        """Return the units in which the features are given."""
        return cls(np.zeros(n), np.ones(n), np.ones(n))

    @classmethod
    def of(cls, spread: ColumnSpread) -> FeatureUnits:
        """Return the units of columns."""
        scale = spread.scale()
        varies = scale > 0
        factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)
        return cls(np.where(varies, spread.mean, 0.0), scale, factor)

    def restore(self, rows: Array) -> Array:
        """Weights (..., n + 1) of the features as given, intercept last."""
        # v^T diag(factor) (x - centre) + b = coef^T x + (b - coef^T centre).
        coef = rows[..., :-1] * self.factor
        return np.append(coef, rows[..., -1:] - coef @ self.centre[:, None], axis=-1)

    def standardize(self, rows: Array) -> Array:
        """Weights of standardized features with the same scores: undoes `restore`."""
        intercept = rows[..., -1:] + rows[..., :-1] @ self.centre[:, None]
        return np.append(rows[..., :-1] * self.scale, intercept, axis=-1)

    def pull_back(self, gradients: Array) -> Array:
        """Adjoint of `restore`: gradients in standardized weights, (..., n + 1).

        From those in the weights of the features as given.
        """
        # In a coefficient: factor * (gradient - centre * that in the intercept). No
        # temporary arrays: gradients of all constraints may be large.
        pulled = np.empty_like(gradients)
        np.multiply(gradients[..., -1:], self.centre, out=pulled[..., :-1])
        np.subtract(gradients[..., :-1], pulled[..., :-1], out=pulled[..., :-1])
        pulled[..., :-1] *= self.factor
        pulled[..., -1] = gradients[..., -1]
        return pulled


@dataclass(frozen=True)
class WeightLayout:
    """Rows of weights, a shared one and those of groups, as one vector in `units`.

    The weights of a group are a sum of such rows: of one attribute those of group 0 are
    row 0, and those of group k are row 0 plus row k. Of several attributes a group is a
    combination, such as women over 60, and adds a row of each attribute. The samples of
    a group are divided into cells, such as by label: cell c is of group
    ``c // cells_per_group``.
    """

    n_features: int
    # 1 for the rows of weights that a group adds up, (n_groups, n_rows): see
    # `group_members`.
    members: sparse.csr_array
    units: FeatureUnits
    cells_per_group: int = 1

    @property
    def n_groups(self) -> int:
        """Groups, or combinations of several attributes' groups."""
        return int(self.members.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the rows of weights, (n_rows, n + 1)."""
        return int(self.members.shape[1]), self.n_features + 1

    @property
    def n_cells(self) -> int:
        """Cells of all groups."""
        return self.n_groups * self.cells_per_group

    @property
    def n_weights(self) -> int:
        """Number of parameters."""
        return math.prod(self.shape)

    def rows(self, w: Array) -> Array:
        """Rows of weights of the features as given, (n_rows, n + 1), from w."""
        return self.units.restore(np.reshape(w, self.shape))

    def parameters(self, rows: Array) -> Array:
        """Vector w of rows of weights of the features as given."""
        return self.units.standardize(rows).ravel()

    def effective(self, w: Array) -> Array:
        """Weights of each cell, which are those of its group, (n_cells, n + 1)."""
        return np.repeat(self.of_groups(self.rows(w)), self.cells_per_group, axis=0)

    def of_groups(self, rows: Array) -> Array:
        """Weights of each group, (n_groups, n + 1): sums of rows of weights."""
        effective: Array = self.members @ rows
        return effective

    def pull_back(self, gradient: Array) -> Array:
        """Adjoint of `effective`: gradient in w from those in the weights of cells."""
        return self.lift(self.units.pull_back(gradient))

    def lift(self, gradient: Array) -> Array:
        """Gradient in w from those in the standardized weights of each cell."""
        # Weights of a cell are sums of rows: the gradient in a row is the sum of those
        # of the cells that add it.
        cells = gradient.reshape(self.n_groups, self.cells_per_group, -1)
        with ignore_fp_warnings():
            lifted: Array = self._adjoint @ cells.sum(axis=1)
        return lifted.ravel()

    @cached_property
    def _adjoint(self) -> sparse.csr_array:
        """Transposed members, kept: transposing takes longer than a small product."""
        return sparse.csr_array(self.members.T)


def group_members(cells: Cells) -> sparse.csr_array:
    """Rows of weights that are added up for each combination of groups, a cell.

    Row 0 is shared by all; each group of an attribute but its first one has a row. The
    first group needs none: its weights are the shared ones, as with dummy variables.
    """
    first_groups = np.cumsum([0, *cells.n_sets])[:-1].astype(np.int64)
    has_row = np.delete(np.arange(sum(cells.n_sets)), first_groups)
    shared = sparse.csr_array(np.ones((len(cells.sets), 1)))
    return sparse.hstack([shared, cells.members.T[:, has_row]], format="csr")


def ridge_factors(
    layout: WeightLayout, alpha: float, interaction_alpha: float | None = None
) -> Array:
    """Penalty of each weight, (n_rows, n + 1): 0 for the intercepts.

    Row 0, the shared weights, has `alpha`; what groups add has `interaction_alpha`, by
    default `alpha` too.
    """
    factors = np.full(layout.shape, float(alpha))
    if interaction_alpha is not None:
        factors[1:] = interaction_alpha
    factors[:, -1] = 0.0
    return factors
