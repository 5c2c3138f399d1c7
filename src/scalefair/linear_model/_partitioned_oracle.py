"""The oracle of rows in parts: every part adds its sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair.linear_model._feature_units import FeatureUnits
from scalefair.linear_model._oracle import OracleValue, ScoreOracle
from scalefair.linear_model._weight_layout import WeightLayout
from scalefair.streaming import Parts

__all__ = ["PartitionedOracle", "RowOracle"]

_Array = NDArray[np.float64]


class PartitionedOracle:
    """What `ScoreOracle` offers, for rows in parts and losses of single rows.

    To each part go the parameters and the thresholds; back come sums of the size of
    their gradients, G x 2 P x (n + 1) numbers whatever the number of rows, which are
    combined on the way.

    Parameters
    ----------
    oracles : Parts
        A `ScoreOracle` for each part. A part may lack groups and classes.
    n_features : int
        Number of features.
    group_sizes : ndarray of shape (G,)
        Rows of each group in all parts.
    interactions : bool
        Whether groups have weights of their own.
    units : FeatureUnits or None, default=None
        As of `ScoreOracle`. The parts know nothing of them.

    Attributes
    ----------
    layout, n_features, n_weights, n_groups, group_sizes, n_calls
        As of `ScoreOracle`.
    """

    def __init__(
        self,
        oracles: Parts,
        n_features: int,
        group_sizes: NDArray[np.int64],
        *,
        interactions: bool,
        units: FeatureUnits | None = None,
    ) -> None:
        self._oracles = oracles
        units = units or FeatureUnits.given(n_features)
        self.layout = WeightLayout(n_features, len(group_sizes), interactions, units)
        self.n_features = n_features
        self.n_weights = self.layout.n_weights
        self.n_groups = len(group_sizes)
        self.group_sizes = group_sizes
        self.n_calls = 0

    def scores(self, w: _Array) -> _Array:
        """Return the scores of all rows, ndarray of shape (m,)."""
        return np.concatenate(
            self._oracles.map(_scores, self.layout.rows(w).ravel()).gather()
        )

    def evaluate(
        self, w: _Array, theta: _Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        """Return means over the rows of all parts; see `ScoreOracle.evaluate`."""
        self.n_calls += 1
        at = _Point(
            self.layout.rows(w).ravel(),
            np.asarray(theta, dtype=np.float64),
            width,
            corner,
        )
        sums: _Sums = self._oracles.map(_sums, at).reduce(_added)
        n_rows = self.group_sizes.sum()
        shares = sums.shares / self.group_sizes[:, None]
        slopes = sums.slopes / self.group_sizes[:, None, None]
        gradient = sums.loss_gradient.reshape(-1, self.n_features + 1)
        return OracleValue(
            self.layout,
            sums.loss / n_rows,
            self.layout.units.pull_back(gradient).ravel() / n_rows,
            shares[:, : len(theta)],
            shares[:, len(theta) :],
            lambda: slopes,
        )


RowOracle = ScoreOracle | PartitionedOracle


class _Point(NamedTuple):
    """Where an oracle is evaluated: one thing to send."""

    w: _Array
    theta: _Array
    width: float
    corner: float


class _Sums(NamedTuple):
    """Sums over rows of what `OracleValue` has the means of."""

    loss: float
    loss_gradient: _Array
    shares: _Array  # plus parts, then minus parts, (G, 2 P)
    slopes: _Array  # likewise, (G, 2 P, n + 1)


def _sums(oracle: ScoreOracle, at: _Point) -> _Sums:
    # What was sent may be read-only, and kernels are compiled for what is not.
    value = oracle.evaluate(at.w, at.theta.copy(), width=at.width, corner=at.corner)
    sizes = oracle.group_sizes
    return _Sums(
        value.loss * sizes.sum(),
        value.loss_gradient * sizes.sum(),
        np.hstack([value.plus, value.minus]) * sizes[:, None],
        value.slopes * sizes[:, None, None],
    )


def _added(a: _Sums, b: _Sums) -> _Sums:
    return _Sums(
        a.loss + b.loss,
        a.loss_gradient + b.loss_gradient,
        a.shares + b.shares,
        a.slopes + b.slopes,
    )


def _scores(oracle: ScoreOracle, w: _Array) -> _Array:
    return oracle.scores(w)
