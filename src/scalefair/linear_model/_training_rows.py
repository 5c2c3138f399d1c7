"""Rows to learn from, and the weights that are learned from them.

What labels and groups must be; features that are centred and scaled without being
touched, as their weights are; the weights of all groups as one vector.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from scalefair._entries import all_finite, judged_later
from scalefair._groups import (
    check_two_groups,
    check_values,
    encode_values,
    listed,
)
from scalefair.streaming import is_partitioned, row_blocks

# The share of the rows above a threshold has, in a group of fewer, a standard error
# of up to 0.09: more than most gaps that are asked for.
FEW_ROWS = 30
# Groups that a message names.
_NAMED = 5


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from, checked and encoded.

    Features are C-contiguous or canonical CSR, float64 or float32; None where they
    are elsewhere.
    """

    X: Any  # (m, d)
    signs: NDArray[Any]  # (m,), label of each row, -1 or +1
    codes: NDArray[Any]  # (m,), group of each row, an index into `groups`
    classes: NDArray[Any]  # (2,), sorted; the second has the sign +1
    groups: NDArray[Any]  # (G,), sorted

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Rows of each group."""
        return np.bincount(self.codes, minlength=len(self.groups))

    def units(self) -> FeatureUnits:
        """Return the units in which all features have mean 0 and variance 1."""
        return FeatureUnits.of(column_spread(self.X))


def encode_labels(y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the two classes, sorted, and the sign of each label."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    labels = check_values(y, name="y", what="label")
    classes, codes = encode_values(labels, name="y")
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{kind}, with {len(classes)} classes."
        )
    if len(classes) < 2:
        raise ValueError(
            f"y must have two classes, found 1 class ({classes.tolist()[0]!r}): there "
            "is nothing to tell apart."
        )
    return classes, np.where(codes == 1, 1.0, -1.0)


class GroupLimits(NamedTuple):
    """How many groups there may be, and the rows that each must have."""

    max_groups: int
    min_group_size: int

    def check(self, groups: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> None:
        """Raise a ValueError if the distinct groups, of these sizes, are not groups."""
        check_two_groups(groups, "sklearn.linear_model.LogisticRegression")
        if len(groups) > self.max_groups:
            raise ValueError(
                f"sensitive_features has {len(groups):,} different values, more than "
                f"max_groups={self.max_groups}: is it a number or an identifier, not a "
                "category? Every group takes constraints and weights of its own. Put "
                "the values into a few ranges or kinds, or pass "
                f"max_groups={len(groups)} if all of them are meant."
            )
        small = np.flatnonzero(sizes < self.min_group_size)
        if small.size:
            raise ValueError(
                f"{small.size} of the {len(groups)} groups of sensitive_features have "
                f"fewer rows than min_group_size={self.min_group_size}: "
                f"{_named(groups, sizes, small)}. Shares of so few rows cannot be "
                "compared: join them with others or leave them out. "
                f"min_group_size={sizes.min()} takes them as they are."
            )


def warn_few_rows(
    groups: NDArray[Any], sizes: NDArray[np.integer[Any]], *, stacklevel: int
) -> None:
    """Warn of groups in which shares, and so gaps, are mostly noise; see `FEW_ROWS`."""
    small = np.flatnonzero(sizes < FEW_ROWS)
    if small.size:
        error = 0.5 / np.sqrt(sizes.min())
        warnings.warn(
            f"Gaps of groups of fewer than {FEW_ROWS} rows mean little: "
            f"{_named(groups, sizes, small)}. A share of {sizes.min()} row(s) has a "
            f"standard error of up to {error:.2f}. Join such groups with others, or "
            "measure the gaps on more rows.",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _named(
    groups: NDArray[Any], sizes: NDArray[np.integer[Any]], small: NDArray[np.intp]
) -> str:
    """Return groups with their sizes, the smallest first."""
    order = small[np.argsort(sizes[small], kind="stable")]
    names = [f"{groups.tolist()[k]!r} ({sizes[k]})" for k in order[:_NAMED]]
    rest = small.size - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest > 0 else "")


def check_classes(classes: NDArray[Any]) -> None:
    """Raise a ValueError if the distinct labels are not two classes."""
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported, y has "
            f"{len(classes)} different values: {listed(classes.tolist())}."
        )
    encode_labels(classes)


def refuse_parts(X: Any, name: str) -> None:
    """Raise a TypeError for rows in parts where only rows in memory are taken."""
    if is_partitioned(X):
        raise TypeError(
            f"{name} takes rows that are in memory, got a {type(X).__name__}. Load "
            "them, or use PartiallyFairClassifier, which takes Dask collections and "
            "readers of files."
        )


_Array = NDArray[np.float64]

# Blocks that stay in the cache while they are read three times.
_BLOCK_BYTES = 2**20
# A column that varies by less than this part of its largest entry is constant: less
# than half of the digits of its scores and gradients would be left.
_CONSTANT = 1e-10
# Nor does a smaller one vary: its weights would overflow.
_TINIEST = 1e-290
# What rounding may do to a variance.
_TWO_VALUES = 1e-9


class ColumnSpread(NamedTuple):
    """Rows, and for each column mean, standard deviation, least and largest entry.

    Deviations are never squared as they are, so that none overflows.
    """

    n_rows: int
    mean: _Array
    deviation: _Array
    low: _Array
    high: _Array

    def merge(self, other: ColumnSpread) -> ColumnSpread:
        """Return the spread of the rows of both."""
        n_rows = self.n_rows + other.n_rows
        ours, theirs = self.n_rows / n_rows, other.n_rows / n_rows
        with judged_later():
            between = other.mean - self.mean
        within = np.hypot(
            np.sqrt(ours) * self.deviation, np.sqrt(theirs) * other.deviation
        )
        return ColumnSpread(
            n_rows,
            self.mean + theirs * between,
            np.hypot(within, np.sqrt(ours * theirs) * between),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def largest(self) -> _Array:
        """Largest absolute value of each column."""
        return np.maximum(self.high, -self.low)

    def scale(self) -> _Array:
        """Return the unit of each column: 0 for constant ones.

        The distance of its values if it has two, else the standard deviation: so
        indicators of rare categories do not become large [Gelman 2008].
        """
        with judged_later():
            distance = self.high - self.low
        if not (all_finite(distance) and all_finite(self.deviation)):
            raise ValueError(
                "X has features whose values lie too far apart to be subtracted from "
                "each other: rescale its features."
            )
        varies = self.deviation > np.maximum(_CONSTANT * self.largest, _TINIEST)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = (self.mean - self.low) / distance
            variance = (self.deviation / distance) ** 2
            # Bhatia and Davis: no variance is larger, and only two values reach it.
            largest = part * (self.high - self.mean) / distance
            two_values = np.abs(largest - variance) <= _TWO_VALUES * largest
        return np.where(varies, np.where(two_values, distance, self.deviation), 0.0)


def column_spread(X: Any, chosen: NDArray[np.bool_] | None = None) -> ColumnSpread:
    """Return the spread of finite rows, or of those that are `chosen`.

    An ndarray or canonical CSR, of any real type; sparse rows stay sparse.
    """
    blocks = row_blocks(X, _BLOCK_BYTES)
    if chosen is not None:
        blocks = ((rows, X[chosen[rows]]) for rows, X in blocks if chosen[rows].any())
    return reduce(ColumnSpread.merge, (_spread_of_block(X) for _, X in blocks))


def _spread_of_block(X: Any) -> ColumnSpread:
    m, n = X.shape
    if sparse.issparse(X):
        stored = np.bincount(X.indices, minlength=n)
        low = np.where(stored < m, 0.0, np.inf)
        high = -low
        np.minimum.at(low, X.indices, X.data)
        np.maximum.at(high, X.indices, X.data)
    else:
        low, high = X.min(axis=0).astype(float), X.max(axis=0).astype(float)
    unit = np.maximum(high, -low)
    unit[unit == 0] = 1.0
    if sparse.issparse(X):
        values = X.data / unit[X.indices]
        mean = np.bincount(X.indices, values, minlength=n) / m
        values -= mean[X.indices]
        square = (m - stored) * mean**2
        square += np.bincount(X.indices, values**2, minlength=n)
    else:
        values = X / unit
        mean = values.mean(axis=0)
        values -= mean
        square = np.einsum("ij,ij->j", values, values)
    return ColumnSpread(m, unit * mean, unit * np.sqrt(square / m), low, high)


class FeatureUnits(NamedTuple):
    """How weights of standardized features become weights of the features given.

    Standardized features are never formed: sparse rows stay sparse, no row is copied.
    Scores take ``coefficient / scale`` and an intercept less ``centre`` times that.
    """

    # (n,) each, 0 for a constant column, which gets no weight.
    centre: _Array  # means
    scale: _Array  # units, those of `ColumnSpread`
    factor: _Array  # one over them

    @classmethod
    def given(cls, n: int) -> FeatureUnits:
        """Return the units in which the features are given."""
        return cls(np.zeros(n), np.ones(n), np.ones(n))

    @classmethod
    def of(cls, spread: ColumnSpread) -> FeatureUnits:
        """Return the units of columns."""
        scale = spread.scale()
        varies = scale > 0
        factor = np.divide(1.0, scale, out=np.zeros_like(scale), where=varies)
        return cls(np.where(varies, spread.mean, 0.0), scale, factor)

    def restore(self, rows: _Array) -> _Array:
        """Weights (..., n + 1) of the features as given, intercept last."""
        restored = np.empty_like(rows)
        restored[..., :-1] = rows[..., :-1] * self.factor
        restored[..., -1] = rows[..., -1] - restored[..., :-1] @ self.centre
        return restored

    def standardize(self, rows: _Array) -> _Array:
        """Weights of standardized features with the same scores: undoes `restore`."""
        changed = np.empty_like(rows)
        changed[..., :-1] = rows[..., :-1] * self.scale
        changed[..., -1] = rows[..., -1] + rows[..., :-1] @ self.centre
        return changed

    def pull_back(self, gradients: _Array) -> _Array:
        """Adjoint of `restore`: gradients in standardized weights, (..., n + 1)."""
        pulled = np.empty_like(gradients)
        np.multiply(gradients[..., -1:], self.centre, out=pulled[..., :-1])
        np.subtract(gradients[..., :-1], pulled[..., :-1], out=pulled[..., :-1])
        pulled[..., :-1] *= self.factor
        pulled[..., -1] = gradients[..., -1]
        return pulled


class WeightLayout(NamedTuple):
    """Rows of n coefficients, each with its intercept last, as one vector in `units`.

    Without interactions one row; with them one for each group: the first is shared
    by all groups, the others are what their groups add.
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
