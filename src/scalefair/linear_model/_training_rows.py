"""Rows to learn from: what they are, and what labels and groups must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    "TrainingRows",
    "check_classes",
    "check_groups",
    "encode_labels",
    "refuse_parts",
]


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


def check_groups(groups: NDArray[Any]) -> None:
    """Raise a ValueError if the distinct groups are fewer than two."""
    check_two_groups(groups, "sklearn.linear_model.LogisticRegression")


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
