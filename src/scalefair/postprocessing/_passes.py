"""Passes over the rows, part by part and in batches, for the moments of layers.

Rows in memory are one part. What is done to a part is a function of the module level:
it is sent to where the part is, with the model, and what it returns is merged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._groups import GroupCodes, as_list, squeeze_single
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import (
    LayerUnfairness,
    Moments,
    layer_unfairness,
)
from scalefair.postprocessing._training_rows import GroupedRows
from scalefair.streaming import GroupMoments, LocalParts, PartitionedRows, Parts

# Of the widest layer, in float64. Scatter matrices are added once a batch: with
# fewer rows than this, adding them takes longer than multiplying the rows.
_BATCH_BYTES = 2**25
_FEWEST_ROWS = 256
# Inputs of a layer of rows in memory are kept for the next pass up to so many bytes.
_KEPT_BYTES = 2**27
# Columns of which a matrix is formed for each group, to compare all layers.
_WIDEST = 5000


class RowsInMemory:
    """Rows in memory as one part, with what passes ask of `PartitionedRows`."""

    starts = np.zeros(1, np.int64)
    feature_names = None

    def __init__(self, X: Any) -> None:
        self.X = X
        self.parts = LocalParts([X].__iter__, 1)

    def map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Parts] = ()
    ) -> Parts:
        return self.parts.map(function, *args, each=each)

    def split(self, values: NDArray[Any]) -> Parts:
        return self.parts.like([values])


@dataclass(frozen=True)
class ModelRows:
    """Rows of two groups or more, to be run through a model in batches."""

    host: LayerHost
    X: RowsInMemory | PartitionedRows
    codes: Parts  # of each row, the index of its group, of each attribute
    groups: Any
    batch_size: int | None

    @classmethod
    def of(
        cls, host: LayerHost, rows: GroupedRows, batch_size: int | None
    ) -> ModelRows:
        X, codes = rows.X, rows.codes
        if not isinstance(X, PartitionedRows):
            X = RowsInMemory(host.check_rows(X))
            codes = X.split(codes)
        return cls(host, X, codes, rows.groups, batch_size)

    def sample(self, n_rows: int, random_state: np.random.RandomState) -> ModelRows:
        """Draw rows of each group, in memory, the same whatever the parts are."""
        codes = np.concatenate(self.codes.gather())
        rows = _rows_of_each_group(codes, n_rows, random_state)
        starts = self.X.starts
        chosen = np.split(rows, np.searchsorted(rows, starts[1:]))
        places = [part - start for part, start in zip(chosen, starts, strict=True)]
        # What the model refuses, it refuses where the part's place can be told.
        tried = isinstance(self.X, PartitionedRows)
        names = column_names(self.host, self.X)
        blocks = self.X.map(
            _some_rows, self.host, names, tried, each=[self.X.parts.like(places)]
        ).gather()
        some = blocks[0]
        if tried and sparse.issparse(some):
            some = sparse.vstack(blocks, format="csr")
        elif tried:
            some = np.vstack(blocks)
        drawn = RowsInMemory(as_taken(self.host, some, names))
        return ModelRows(
            self.host, drawn, drawn.split(codes[rows]), self.groups, self.batch_size
        )

    def layer_moments(self, layer: int) -> tuple[Moments, NDArray[Any] | None]:
        """Moments of a layer's inputs, and these, shape (N, n), if they are few."""
        keep = 0 if isinstance(self.X, PartitionedRows) else _KEPT_BYTES
        parts = self._map(_moments_of_layer, layer, keep, each=[self.codes])
        moments, kept = parts.reduce(_merge_moments)
        return self._named(moments), kept

    def last_layer_moments(
        self, targets: NDArray[Any], layer: int, kept: NDArray[Any] | None
    ) -> Moments:
        """Joint moments of the last layer's inputs, from `kept` ones, and targets."""
        each = [self.codes, self.X.split(targets.reshape(len(targets), -1))]
        parts = self._map(_moments_of_last_layer, layer, kept, each=each)
        return self._named(parts.reduce(GroupMoments._merge_each))

    def outputs(self, layer: int, kept: NDArray[Any] | None) -> NDArray[Any]:
        """Predictions for all rows, shape (N, k), from inputs of a layer if kept."""
        parts = self._map(_outputs_of_part, layer, kept, each=[]).gather()
        return np.concatenate([part.reshape(len(part), -1) for part in parts])

    def unfairness_by_layer(self) -> list[LayerUnfairness | None]:
        """Gaps of the outputs of every layer, from one pass.

        None stands for layers that cannot be post-processed, or have more than 5,000
        inputs and as many outputs.
        """
        parts = self._map(_moments_of_every_layer, each=[self.codes])
        found: list[LayerUnfairness | None] = []
        for layer, moments in enumerate(parts.reduce(_merge_each)):
            if moments is None:
                found.append(None)
                continue
            weight = self.host.weight(layer)
            if _has_fewer_outputs(self.host, layer):
                weight = np.eye(len(weight))
            name = self.host.layer_names[layer]
            found.append(layer_unfairness(name, moments, weight))
        return found

    def mean_residual(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean of targets less predictions, shape (k,)."""
        parts = self._map(_sum_of_residuals, each=[self.X.split(targets)])
        total: NDArray[np.float64] = parts.reduce(np.add)
        return total / len(targets)

    def _map(
        self, function: Callable[..., Any], *args: Any, each: Sequence[Parts]
    ) -> Parts:
        """``function(host, rows, batch_size, *args, *one of each)`` of every part."""
        size = self.batch_size or choose_batch_size(self.host)
        names = column_names(self.host, self.X)
        return self.X.map(_in_part, function, self.host, names, size, *args, each=each)

    def _named(self, totals: list[GroupMoments]) -> Moments:
        """Moments of codes as those of the groups that these stand for."""
        found: Moments = squeeze_single(
            [
                GroupMoments(groups[m.groups], m.counts, m.means, m.scatters)
                for groups, m in zip(as_list(self.groups), totals, strict=True)
            ]
        )
        return found


def predictions(
    host: LayerHost, X: Any, batch_size: int | None, like: NDArray[Any]
) -> Any:
    """Predictions for all rows, those of Dask lazy; `like` is that of one row."""
    size = batch_size or choose_batch_size(host)
    if not isinstance(X, PartitionedRows):
        return _outputs(host, host.check_rows(X), size)
    names = column_names(host, X)
    args = _outputs, host, names, size, like.dtype
    return X.rowwise(_in_part, *args, shape=like.shape, dtype=like.dtype)


def choose_batch_size(host: LayerHost) -> int:
    """How many rows make a batch of the widest layer 32 MiB large."""
    width = max(max(host.shape(i)) for i in range(host.n_layers))
    return max(_FEWEST_ROWS, _BATCH_BYTES // (8 * width))


def batches(X: Any, batch_size: int) -> Iterator[tuple[slice, Any]]:
    """Consecutive rows of whatever `check_rows` returns, views where these can be."""
    table = X.iloc if hasattr(X, "iloc") else X
    n_rows = int(X.shape[0])
    for start in range(0, n_rows, batch_size):
        rows = slice(start, min(n_rows, start + batch_size))
        yield rows, table[rows]


def column_names(host: LayerHost, X: Any) -> NDArray[Any] | None:
    """Names of the columns, for models that were fitted on columns with names."""
    return X.feature_names if hasattr(host.estimator, "feature_names_in_") else None


def as_taken(host: LayerHost, block: Any, names: NDArray[Any] | None) -> Any:
    """Rows of a part as the model takes them."""
    if names is None or sparse.issparse(block):
        return host.check_rows(block)
    import pandas as pd  # the model was fitted on a data frame

    return host.check_rows(pd.DataFrame(block, columns=names, copy=False))


def _in_part(
    block: Any,
    function: Callable[..., Any],
    host: LayerHost,
    names: NDArray[Any] | None,
    *args: Any,
) -> Any:
    return function(host, as_taken(host, block, names), *args)


def _moments_of_layer(
    host: LayerHost,
    X: Any,
    batch_size: int,
    layer: int,
    keep: int,
    codes: NDArray[np.integer],
) -> tuple[list[GroupMoments] | None, NDArray[Any] | None]:
    what = f"layer {host.layer_names[layer]!r}"
    total, kept = None, None
    for rows, X_batch in batches(X, batch_size):
        A = host.inputs(X_batch, layer)
        if rows.start == 0 and len(codes) * A.shape[1] * A.itemsize <= keep:
            kept = np.empty((len(codes), A.shape[1]), A.dtype)
        if kept is None:
            total = _added(total, A, codes, rows, what)
        else:
            kept[rows] = A
    if kept is not None:
        total = _added(None, kept, codes, slice(0, len(kept)), what)
    return total, kept


def _moments_of_last_layer(
    host: LayerHost,
    X: Any,
    batch_size: int,
    layer: int,
    kept: NDArray[Any] | None,
    codes: NDArray[np.integer],
    targets: NDArray[np.float64],
) -> list[GroupMoments] | None:
    last, total, joint = host.n_layers - 1, None, np.empty((0, 0))
    what = f"layer {host.layer_names[last]!r} and y"
    for rows, X_batch in batches(X, batch_size):
        if kept is not None and host.can_resume:
            A = host.forward_from(kept[rows], layer, last)
        else:
            A = host.inputs(X_batch, last)
        if len(joint) < len(A):
            joint = np.empty((len(A), A.shape[1] + targets.shape[1]))
        joint[: len(A), : A.shape[1]] = A
        joint[: len(A), A.shape[1] :] = targets[rows]
        total = _added(total, joint[: len(A)], codes, rows, what)
    return total


def _moments_of_every_layer(
    host: LayerHost, X: Any, batch_size: int, codes: NDArray[np.integer]
) -> list[list[GroupMoments] | None]:
    """Of the inputs, or the outputs less the bias where these are fewer."""
    totals: list[list[GroupMoments] | None] = [None] * host.n_layers
    left_out = {i for i in range(host.n_layers) if min(host.shape(i)) > _WIDEST}
    weights = {
        i: host.weight(i).T
        for i in range(host.n_layers)
        if _has_fewer_outputs(host, i) and i not in left_out
    }
    for rows, X_batch in batches(X, batch_size):
        for i, A in enumerate(host.inputs_by_layer(X_batch)):
            if A is None:
                left_out.add(i)
            if A is None or i in left_out:
                continue
            Z = A @ weights[i] if i in weights else A
            what = f"layer {host.layer_names[i]!r}"
            totals[i] = _added(totals[i], Z, codes, rows, what)
    return [None if i in left_out else total for i, total in enumerate(totals)]


def _has_fewer_outputs(host: LayerHost, layer: int) -> bool:
    n_outputs, n_inputs = host.shape(layer)
    return n_outputs < n_inputs


def _sum_of_residuals(
    host: LayerHost, X: Any, batch_size: int, targets: NDArray[np.float64]
) -> NDArray[np.float64]:
    total = np.zeros(1 if targets.ndim == 1 else targets.shape[1])
    for rows, X_batch in batches(X, batch_size):
        some = targets[rows]
        left = some - np.asarray(host.outputs(X_batch)).reshape(some.shape)
        total += left.reshape(len(left), -1).sum(axis=0)
    return total


def _outputs(
    host: LayerHost, X: Any, batch_size: int, dtype: Any = None
) -> NDArray[Any]:
    found = np.concatenate([host.outputs(part) for _, part in batches(X, batch_size)])
    return found.astype(found.dtype if dtype is None else dtype, copy=False)


def _outputs_of_part(
    host: LayerHost, X: Any, batch_size: int, layer: int, kept: NDArray[Any] | None
) -> NDArray[Any]:
    if kept is None or not host.can_resume:
        return _outputs(host, X, batch_size)
    last = host.n_layers - 1
    weight, bias = host.weight(last).T, host.bias(last)
    hidden = (
        host.forward_from(kept[i], layer, last) for i, _ in batches(X, batch_size)
    )
    return np.concatenate([A @ weight + bias for A in hidden])


def _added(
    total: list[GroupMoments] | None,
    A: NDArray[Any],
    codes: NDArray[np.integer],
    rows: slice,
    what: str,
) -> list[GroupMoments]:
    """Add the moments of a batch, whose groups may be others than those before."""
    try:
        moments = GroupMoments._compared(A, codes[rows].view(GroupCodes), "each")
        return moments if total is None else GroupMoments._merge_each(total, moments)
    except ValueError as error:
        raise ValueError(
            f"Moments of {what}, over rows {rows.start} to {rows.stop - 1} "
            f"(counted from 0 within them below): {error}"
        ) from error


def _merge_moments(one: Any, other: Any) -> tuple[list[GroupMoments], None]:
    return GroupMoments._merge_each(one[0], other[0]), None


def _merge_each(
    one: list[list[GroupMoments] | None], other: list[list[GroupMoments] | None]
) -> list[list[GroupMoments] | None]:
    return [
        None
        if mine is None or others is None
        else GroupMoments._merge_each(mine, others)
        for mine, others in zip(one, other, strict=True)
    ]


def _some_rows(
    block: Any,
    host: LayerHost,
    names: NDArray[Any] | None,
    tried: bool,
    rows: NDArray[np.int64],
) -> Any:
    """Rows of a part; if they are tried, what the model refuses is said here."""
    some = (block.iloc if hasattr(block, "iloc") else block)[rows]
    if tried and len(rows):
        for _ in host.inputs_by_layer(as_taken(host, some, names)):
            pass
    return some


def _rows_of_each_group(
    codes: NDArray[np.integer], n_rows: int, random_state: np.random.RandomState
) -> NDArray[np.int64]:
    """Draw about as many rows of each group, `n_rows` at most in all, in order."""
    columns = codes.reshape(len(codes), -1).T
    sizes = [int(own.max()) + 1 for own in columns]
    each = max(n_rows // sum(sizes), 2)
    chosen = []
    for own, n_groups in zip(columns, sizes, strict=True):
        for group in range(n_groups):
            rows = np.flatnonzero(own == group)
            if len(rows) > each:
                rows = random_state.choice(rows, each, replace=False)
            chosen.append(rows)
    return np.unique(np.concatenate(chosen))
