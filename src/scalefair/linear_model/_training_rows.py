"""Rows to learn from: what they are, and what labels and groups must be."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from scalefair._groups import (
    check_two_groups,
    check_values,
    encode_values,
    listed,
)
from scalefair.linear_model._feature_units import FeatureUnits, column_spread
from scalefair.streaming import is_partitioned

__all__ = [
    "FEW_ROWS",
    "GroupLimits",
    "TrainingRows",
    "check_classes",
    "encode_labels",
    "refuse_parts",
    "warn_few_rows",
]

# The share of the rows above a threshold has, in a group of fewer, a standard error
# of up to 0.09: more than most gaps that are asked for.
FEW_ROWS = 30
# Groups that a message names.
_NAMED = 5


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from, checked and encoded.

    Attributes
    ----------
    X : {ndarray, csr_array} of shape (m, d), or None
        Features: C-contiguous or canonical CSR, float64 or float32. None where they
        are elsewhere.
    signs : ndarray of shape (m,)
        Label of each row, -1 or +1.
    codes : ndarray of shape (m,)
        Group of each row, an index into `groups`.
    classes : ndarray of shape (2,)
        The labels, sorted; the second has the sign +1.
    groups : ndarray of shape (G,)
        The groups, sorted.
    """

    X: Any
    signs: NDArray[Any]
    codes: NDArray[Any]
    classes: NDArray[Any]
    groups: NDArray[Any]

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
