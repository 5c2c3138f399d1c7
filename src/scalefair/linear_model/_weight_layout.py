"""How parameters of a linear model with groups make coefficients for each group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import judged_later
from scalefair.linear_model._feature_units import FeatureUnits

__all__ = ["WeightLayout", "ridge_factors"]

_Array = NDArray[np.float64]


class WeightLayout(NamedTuple):
    """Rows of n coefficients, each with its intercept last, as one vector.

    Without interactions one row; with them one for each group: the first is shared
    by all groups, the others are what their groups add. Features are in `units`; what
    goes to and comes from the rows is in those that they are given in.
    """

    n_features: int
    n_groups: int
    interactions: bool
    units: FeatureUnits

    @property
    def n_weights(self) -> int:
        """Number of parameters."""
        return (self.n_features + 1) * (self.n_groups if self.interactions else 1)

    def rows(self, w: _Array) -> _Array:
        """Rows of coefficients and intercept of the features as given, (?, n + 1)."""
        rows = np.asarray(w, dtype=np.float64).reshape(-1, self.n_features + 1)
        return self.units.restore(rows)

    def parameters(self, rows: _Array) -> _Array:
        """Parameters of such rows."""
        return self.units.standardize(rows).ravel()

    def effective(self, w: _Array) -> _Array:
        """Coefficients and intercept of each group, (G, n + 1)."""
        rows = self.rows(w)
        effective = np.empty((self.n_groups, self.n_features + 1))
        effective[:] = rows[0]
        if self.interactions:
            effective[1:] += rows[1:]
        return effective

    def lift(self, gradient: _Array) -> _Array:
        """Gradients in w from those of each group, in the same units."""
        with judged_later():
            total: _Array = gradient.sum(axis=0)
        if not self.interactions:
            return total
        lifted = gradient.copy()
        lifted[0] = total
        return lifted.ravel()

    def spread(self, slopes: _Array) -> _Array:
        """Gradients in (w, theta) of functions of one group and threshold."""
        n_groups, n_thresholds, n_columns = slopes.shape
        out = np.zeros((n_groups, n_thresholds, self.n_weights + n_thresholds))
        out[:, :, :n_columns] = slopes
        if self.interactions:
            for k in range(1, n_groups):
                out[k, :, k * n_columns : (k + 1) * n_columns] = slopes[k]
        p = np.arange(n_thresholds)
        # A higher threshold is a lower score.
        out[:, p, self.n_weights + p] = -slopes[:, :, -1]
        return out


def ridge_factors(n_weights: int, n_features: int, alpha: float) -> _Array:
    """Penalty of each weight: `alpha`, 0 for the intercepts, shape (n_rows, n + 1)."""
    factors = np.full((n_weights // (n_features + 1), n_features + 1), float(alpha))
    factors[:, -1] = 0.0
    return factors
