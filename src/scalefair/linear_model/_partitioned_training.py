"""Rows in parts to learn from: labels and groups encoded, an oracle for all."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._checks import check_array
from scalefair._entries import canonical
from scalefair.linear_model._group_scores import real_type
from scalefair.linear_model._oracle import ScoreOracle
from scalefair.linear_model._partitioned_oracle import PartitionedOracle
from scalefair.linear_model._training_rows import (
    TrainingRows,
    check_classes,
    check_groups,
)
from scalefair.streaming import PartitionedRows

__all__ = ["partitioned_training", "refuse_pairs"]


def partitioned_training(
    rows: PartitionedRows,
    y: ArrayLike,
    sensitive_features: ArrayLike,
    options: dict[str, Any],
) -> tuple[TrainingRows, PartitionedOracle]:
    """Return what the client knows of the rows, and the oracle over their parts.

    Parameters
    ----------
    rows : PartitionedRows
        Rows of features.
    y, sensitive_features : array-like or Dask collection of shape (m,)
        Labels of two kinds, and groups.
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
        If there are not two classes or fewer than two groups, or not one label and
        group for each row; and, from the first evaluation on if not here, if an
        entry of `X` is NaN or infinite.
    """
    classes, labels = rows.encode(y, name="y", what="label")
    check_classes(classes)
    groups, codes = rows.encode(
        sensitive_features, name="sensitive_features", what="group"
    )
    check_groups(groups)
    sizes = codes.map(_sizes, len(groups)).reduce(np.add)
    oracles = rows.map(
        _make_oracle, real_type(rows), len(groups), options, each=[labels, codes]
    )
    oracle = PartitionedOracle(
        oracles.persist(),
        rows.shape[1],
        sizes,
        interactions=options["interactions"],
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
    X = check_array(X, accept_sparse="csr", dtype=dtype, order="C", input_name="X")
    return ScoreOracle(canonical(X), _signs(labels), codes, n_groups, **options)


def _signs(labels: NDArray[Any]) -> NDArray[np.int8]:
    """Labels 0 and 1 as -1 and 1."""
    return (2 * labels - 1).astype(np.int8)


def _sizes(codes: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
    return np.bincount(codes, minlength=n_groups)
