"""Passes over rows in parts, for the moments of what enters a layer.

The functions are those of `_passes`, called where the parts are; the model is sent
once a pass, and what they return of the parts is merged. Arguments and results are as
there, but that rows are `PartitionedRows` of shape (N, d), and codes are `Parts` that
are cut as the rows are; a group may be missing from a part.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from scalefair.postprocessing import _passes
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._row_sample import rows_of_each_group
from scalefair.streaming import GroupMoments, PartitionedRows, Parts

__all__ = [
    "last_layer_moments",
    "layer_moments",
    "mean_residual",
    "predictions",
    "raw_rows",
    "sample_rows",
    "unit_moments",
]


def raw_rows(host: LayerHost, X: PartitionedRows) -> PartitionedRows:
    """Return the rows as they are: each part is checked where it is."""
    return X


def sample_rows(
    host: LayerHost,
    X: PartitionedRows,
    codes: Parts,
    n_groups: int,
    n_rows: int,
    random_state: np.random.RandomState,
) -> tuple[Any, NDArray[np.integer]]:
    """Draw rows of each group, in memory, the same whatever the parts are."""
    every = np.concatenate(codes.gather())
    rows = rows_of_each_group(every, n_groups, n_rows, random_state)
    chosen = np.split(rows, np.searchsorted(rows, X.starts[1:]))
    places = X.parts.like(
        [part - start for part, start in zip(chosen, X.starts, strict=True)]
    )
    names = _names_for(host, X)
    blocks = X.map(_tried_rows, host, names, each=[places]).gather()
    stack = sparse.vstack(blocks, format="csr") if X.is_sparse else np.vstack(blocks)
    return _part_for(host, stack, names), every[rows]


def layer_moments(
    host: LayerHost,
    layer: int,
    X: PartitionedRows,
    codes: Parts,
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    keep: int = 0,
) -> tuple[GroupMoments, None]:
    """Return the moments of a layer's inputs; none of these are kept."""
    parts = X.map(
        _layer_moments,
        host,
        _names_for(host, X),
        layer,
        len(groups),
        batch_size,
        each=[codes],
    )
    total = parts.reduce(GroupMoments.merge)
    return _passes.moments_of_groups(total, groups), None


def last_layer_moments(
    host: LayerHost,
    X: PartitionedRows,
    y: ArrayLike,
    codes: Parts,
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    layer: int | None = None,
    kept: None = None,
) -> GroupMoments:
    """Return the joint moments of the last layer's inputs and of the targets.

    The targets travel with the parts. Inputs of a layer that are kept there are none.
    """
    parts = X.map(
        _last_layer_moments,
        host,
        _names_for(host, X),
        len(groups),
        batch_size,
        each=[codes, X.split(np.asarray(y, dtype=np.float64))],
    )
    return _passes.moments_of_groups(parts.reduce(GroupMoments.merge), groups)


def unit_moments(
    host: LayerHost,
    X: PartitionedRows,
    codes: Parts,
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    outputs: Collection[int] = (),
    without: Collection[int] = (),
) -> list[GroupMoments | None]:
    """Return the moments of the inputs of every layer, from one pass."""
    parts = X.map(
        _unit_moments,
        host,
        _names_for(host, X),
        len(groups),
        batch_size,
        set(outputs),
        set(without),
        each=[codes],
    )
    return [
        None if total is None else _passes.moments_of_groups(total, groups)
        for total in parts.reduce(_merge_each)
    ]


def mean_residual(
    host: LayerHost,
    X: PartitionedRows,
    y: NDArray[np.float64],
    *,
    batch_size: int | None = None,
) -> NDArray[np.float64]:
    """Return the mean of targets, which travel with the parts, less predictions."""
    parts = X.map(_residuals, host, _names_for(host, X), batch_size, each=[X.split(y)])
    total: NDArray[np.float64] = parts.reduce(np.add)
    return total / len(y)


def predictions(
    host: LayerHost,
    X: PartitionedRows,
    *,
    batch_size: int | None = None,
    shape: tuple[int, ...] = (),
    dtype: DTypeLike = np.float64,
) -> Any:
    """Return the predictions of the model, of a Dask collection not computed yet.

    Parameters
    ----------
    host, X, batch_size
        As for `_passes.predictions`.
    shape : tuple of int, default=()
        Shape of the prediction for one row, to be known before it is computed.
    dtype : dtype, default=np.float64
        Type of the predictions.

    Returns
    -------
    {ndarray, dask.array.Array} of shape (N,) or (N, k)
        For a Dask collection a Dask array.
    """
    names = _names_for(host, X)
    return X.rowwise(
        _predictions, host, names, batch_size, dtype, shape=shape, dtype=dtype
    )


def _layer_moments(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    layer: int,
    n_groups: int,
    batch_size: int | None,
    codes: NDArray[np.integer],
) -> GroupMoments:
    X = _part_for(host, block, names)
    return _passes.layer_moments(
        host, layer, X, codes, np.arange(n_groups), batch_size=batch_size
    )[0]


def _last_layer_moments(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    n_groups: int,
    batch_size: int | None,
    codes: NDArray[np.integer],
    y: NDArray[np.float64],
) -> GroupMoments:
    X = _part_for(host, block, names)
    return _passes.last_layer_moments(
        host, X, y, codes, np.arange(n_groups), batch_size=batch_size
    )


def _unit_moments(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    n_groups: int,
    batch_size: int | None,
    outputs: Collection[int],
    without: Collection[int],
    codes: NDArray[np.integer],
) -> list[GroupMoments | None]:
    return _passes.unit_moments(
        host,
        _part_for(host, block, names),
        codes,
        np.arange(n_groups),
        batch_size=batch_size,
        outputs=outputs,
        without=without,
    )


def _residuals(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    batch_size: int | None,
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Sum of the residuals of a part."""
    X = _part_for(host, block, names)
    return len(y) * _passes.mean_residual(host, X, y, batch_size=batch_size)


def _predictions(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    batch_size: int | None,
    dtype: DTypeLike,
) -> NDArray[Any]:
    X = _part_for(host, block, names)
    found = _passes.predictions(host, X, batch_size=batch_size)
    return found.astype(dtype, copy=False)


def _tried_rows(
    block: Any, host: LayerHost, names: NDArray[Any] | None, rows: NDArray[np.int64]
) -> Any:
    """Return rows of a part that the model takes, or say here what it refuses."""
    some = block[rows]
    if len(rows):
        for _ in host.inputs_each(_part_for(host, some, names)):
            pass
    return some


def _merge_each(
    one: list[GroupMoments | None], other: list[GroupMoments | None]
) -> list[GroupMoments | None]:
    return [
        None if mine is None or others is None else mine.merge(others)
        for mine, others in zip(one, other, strict=True)
    ]


def _names_for(host: LayerHost, X: PartitionedRows) -> NDArray[Any] | None:
    """Names of the columns, for models that were fitted on columns with names."""
    return X.feature_names if hasattr(host.estimator, "feature_names_in_") else None


def _part_for(host: LayerHost, block: Any, names: NDArray[Any] | None) -> Any:
    """Rows of a part as the model takes them."""
    if names is None or sparse.issparse(block):
        return host.check_rows(block)
    import pandas as pd  # the model was fitted on a data frame

    return host.check_rows(pd.DataFrame(block, columns=names, copy=False))
