"""Dask collections as parts: arrays, data frames, bags, lists of delayed blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.streaming._dask_parts import DaskParts, require_dask

__all__ = ["column_names", "dask_column", "dask_rows", "is_dask"]

_PACKAGES = {"dask", "dask_expr", "distributed"}


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask collection, or a list of delayed values or futures."""
    if isinstance(X, np.ndarray):  # as to_delayed returns them
        return X.dtype == object and X.size > 0 and is_dask(X.flat[0])
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(is_dask(x) for x in X)
    return type(X).__module__.split(".")[0] in _PACKAGES


def dask_rows(X: Any) -> DaskParts:
    """Return the partitions of a table, each with all columns.

    Raises
    ------
    ValueError
        If `X` is an array of another than two dimensions.
    """
    if hasattr(type(X), "numblocks"):
        if X.ndim != 2:
            raise ValueError(
                f"X must have two dimensions, rows and features, got shape {X.shape}."
            )
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
    return DaskParts.of_delayed(_partitions(X))


def dask_column(values: Any, lengths: list[int] | None, name: str) -> DaskParts:
    """Return the partitions of one value for each row, cut as the rows are.

    Parameters
    ----------
    values : Dask collection
        A Dask array of known chunks is cut anew.
    lengths : list of int or None
        Rows of each partition of the table; None to leave the cuts as they are.
    name : str
        Of the argument, for messages.

    Raises
    ------
    ValueError
        If the values cannot be cut like the rows.
    """
    if hasattr(type(values), "numblocks"):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1:
            raise ValueError(
                f"{name} must be one-dimensional with one value per sample, got shape "
                f"{values.shape}."
            )
        if lengths is not None and not np.isnan(values.shape[0]):
            if values.shape[0] != sum(lengths):
                raise ValueError(
                    f"{name} must have one value per sample, got {values.shape[0]} "
                    f"for {sum(lengths)} samples."
                )
            values = values.rechunk((tuple(lengths),))
    parts = _partitions(values)
    if lengths is not None and len(parts) != len(lengths):
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {len(lengths)}: cut both "
            "alike, for example by repartition, or take them from one data frame."
        )
    return DaskParts.of_delayed(parts)


def column_names(X: Any) -> NDArray[np.object_] | None:
    """Return the names of the columns if all are strings, else None."""
    names = getattr(X, "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return np.asarray(names, dtype=object)


def _partitions(X: Any) -> list[Any]:
    """Delayed values of a collection, a block of rows each."""
    if isinstance(X, (list, tuple, np.ndarray)) and is_dask(X):
        delayed = require_dask().delayed
        blocks = X.ravel() if isinstance(X, np.ndarray) else X
        return [x if hasattr(x, "dask") else delayed(x) for x in blocks]
    if not hasattr(type(X), "to_delayed"):
        raise ValueError(
            f"A {type(X).__name__} is no collection of rows: use a Dask array or data "
            "frame, or a list of delayed blocks of rows."
        )
    parts = X.to_delayed()
    if isinstance(parts, np.ndarray):
        return list(parts.ravel())
    if type(X).__module__.startswith("dask.bag"):
        stack = require_dask().delayed(_stacked)
        return [stack(part) for part in parts]
    return list(parts)


def _stacked(blocks: Any) -> Any:
    """Blocks of rows in the partition of a bag as one."""
    blocks = list(blocks)
    if not blocks:
        raise ValueError("A partition of the bag has no block of rows.")
    if sparse.issparse(blocks[0]):
        return sparse.vstack(blocks, format="csr")
    return np.concatenate(blocks)
