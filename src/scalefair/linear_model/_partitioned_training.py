"""Rows in parts to learn from: labels and groups encoded, an oracle for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._checks import check_array
from scalefair._entries import canonical
from scalefair.linear_model._feature_units import (
    ColumnSpread,
    FeatureUnits,
    column_spread,
)
from scalefair.linear_model._group_scores import real_type
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.linear_model._training_rows import (
    GroupLimits,
    TrainingRows,
    check_classes,
)
from scalefair.streaming import PartitionedRows

__all__ = ["partitioned_training", "refuse_pairs"]


def partitioned_training(
    rows: PartitionedRows,
    y: ArrayLike,
    sensitive_features: ArrayLike,
    limits: GroupLimits,
    options: dict[str, Any],
) -> tuple[TrainingRows, PartitionedOracle]:
    """Return what the client knows of the rows, and the oracle over their parts.

    Parameters
    ----------
    rows : PartitionedRows
        Rows of features.
    y, sensitive_features : array-like or Dask collection of shape (m,)
        Labels of two kinds, and groups.
    limits : GroupLimits
        What groups there may be.
    options : dict
        Interactions, loss of single rows and surrogate of `ScoreOracle`.

    Returns
    -------
    known : TrainingRows
        Signs and groups in small integers, without features.
    oracle : PartitionedOracle
        Its parts are kept where they were made, if there is room for that.

    Raises
    ------
    ValueError
        If there are not two classes, or groups that the limits refuse, or not one
        label and group for each row, or if an entry of `X` is NaN or infinite.
    """
    classes, labels = rows.encode(y, name="y", what="label")
    check_classes(classes)
    groups, codes = rows.encode(
        sensitive_features, name="sensitive_features", what="group"
    )
    sizes = codes.map(_sizes, len(groups)).reduce(np.add)
    limits.check(groups, sizes)
    dtype = real_type(rows)
    oracles = rows.map(_make_oracle, dtype, len(groups), options, each=[labels, codes])
    units = FeatureUnits.of(rows.map(_spread, dtype).reduce(ColumnSpread.merge))
    oracle = PartitionedOracle(
        oracles.persist(),
        rows.shape[1],
        sizes,
        interactions=options["interactions"],
        units=units,
    )
    known = TrainingRows(
        None,
        np.concatenate(labels.map(_signs).gather()),
        np.concatenate(codes.gather()),
        classes,
        groups,
    )
    return known, oracle


def refuse_pairs(loss: str) -> None:
    """Raise a ValueError for a loss that rows of one part do not have alone."""
    if loss in {"auc", "partial_auc"}:
        raise ValueError(
            f"loss={loss!r} compares pairs of rows and cannot be added up over blocks "
            'or partitions: use "logistic", "hinge" or "squared".'
        )


def _make_oracle(
    X: Any,
    dtype: np.dtype,
    n_groups: int,
    options: dict[str, Any],
    labels: NDArray[Any],
    codes: NDArray[Any],
) -> ScoreOracle:
    """Oracle of one part, whose entries are looked at."""
    X = _checked(X, dtype)
    return ScoreOracle(X, _signs(labels), codes, n_groups, **options)


def _spread(X: Any, dtype: np.dtype) -> ColumnSpread:
    """Spread of the columns of one part, whose entries are looked at."""
    return column_spread(_checked(X, dtype))


def _checked(X: Any, dtype: np.dtype) -> Any:
    return canonical(
        check_array(X, accept_sparse="csr", dtype=dtype, order="C", input_name="X")
    )


def _signs(labels: NDArray[Any]) -> NDArray[np.int8]:
    """Labels 0 and 1 as -1 and 1."""
    return (2 * labels - 1).astype(np.int8)


def _sizes(codes: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    return np.bincount(codes, minlength=n_groups)
