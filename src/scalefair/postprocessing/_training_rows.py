"""Rows to fit to and their groups, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, validate_data

from scalefair._entries import check_features
from scalefair._groups import check_two_groups, encode_groups
from scalefair.streaming import PartitionedRows, is_partitioned

__all__ = ["TrainingRows", "training_rows"]


class TrainingRows(NamedTuple):
    """Rows with a group each.

    Attributes
    ----------
    X : {array-like, sparse matrix, DataFrame, Tensor, PartitionedRows} of shape \
            (N, ...)
        The rows.
    codes : {ndarray of shape (N,), Parts}
        Group of each row, an index into `groups`, cut as the rows are.
    groups : ndarray of shape (G,)
        The groups, sorted.
    n_rows : int
        Number of rows.
    """

    X: Any
    codes: Any
    groups: NDArray[Any]
    n_rows: int


def training_rows(
    estimator: BaseEstimator, X: Any, sensitive_features: Any
) -> TrainingRows:
    """Return rows and groups; the estimator takes note of the features.

    Raises
    ------
    ValueError
        If there are fewer than two rows or groups, or not one group per row.
    """
    read = _rows_in_parts if is_partitioned(X) else _rows_in_memory
    rows = read(estimator, X, sensitive_features)
    if rows.n_rows < 2:
        raise ValueError(
            f"Found {rows.n_rows} sample(s) (n_samples={rows.n_rows}): fairness "
            "compares groups, of at least one sample each."
        )
    check_two_groups(rows.groups, "the estimator itself")
    return rows


def _rows_in_memory(
    estimator: BaseEstimator, X: Any, sensitive_features: Any
) -> TrainingRows:
    X = validate_data(estimator, X, skip_check_array=True)
    n_rows = _num_samples(X)
    groups, codes = encode_groups(sensitive_features, n_rows)
    return TrainingRows(X, codes, groups, n_rows)


def _rows_in_parts(
    estimator: BaseEstimator, X: Any, sensitive_features: Any
) -> TrainingRows:
    rows = PartitionedRows.of(X)
    check_features(estimator, rows, reset=True)
    groups, codes = rows.encode(
        sensitive_features, name="sensitive_features", what="group"
    )
    return TrainingRows(rows, codes, groups, rows.shape[0])
