"""Passes over the rows, in batches, for the moments of what enters a layer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.postprocessing._layer_host import LayerHost, is_linear_output
from scalefair.postprocessing._row_sample import rows_of_each_group
from scalefair.streaming import GroupMoments

__all__ = [
    "batches",
    "check_linear_output",
    "choose_batch_size",
    "last_layer_moments",
    "layer_batches",
    "layer_moments",
    "mean_residual",
    "moments_of_groups",
    "predictions",
    "raw_rows",
    "sample_rows",
    "unit_moments",
]

# Of the widest layer, in float64. Scatter matrices are added once a batch: with
# fewer rows than this, adding them takes longer than multiplying the rows.
_BATCH_BYTES = 2**25
_FEWEST_ROWS = 256
# Rows that show whether the last layer gives the predictions.
_TRIAL_ROWS = 32


def choose_batch_size(host: LayerHost) -> int:
    """Return how many rows make a batch of the widest layer 32 MiB large."""
    width = max(max(host.shape(i)) for i in range(host.n_layers))
    return max(_FEWEST_ROWS, _BATCH_BYTES // (8 * width))


def raw_rows(host: LayerHost, X: Any) -> Any:
    """Return the rows in a form that can be cut into batches, unread.

    Parameters
    ----------
    host : LayerHost
        The model.
    X : {array-like, sparse matrix, DataFrame, Tensor} of shape (N, ...)
        Rows as the model takes them.
    """
    return host.check_rows(X)


def sample_rows(
    host: LayerHost,
    X: Any,
    codes: NDArray[np.integer],
    n_groups: int,
    n_rows: int,
    random_state: np.random.RandomState,
) -> tuple[Any, NDArray[np.integer]]:
    """Draw rows of each group.

    Parameters
    ----------
    host, X, codes
        As for `layer_moments`.
    n_groups : int
        Number of groups.
    n_rows : int
        Rows to draw at most; two of each group are drawn in any case.
    random_state : RandomState
        Draws them.

    Returns
    -------
    X_sample : same type as `X`
        The rows, in their order.
    codes_sample : ndarray of shape (n,)
        Their groups.
    """
    rows = rows_of_each_group(codes, n_groups, n_rows, random_state)
    return (X.iloc if hasattr(X, "iloc") else X)[rows], codes[rows]


def batches(X: Any, batch_size: int) -> Iterator[tuple[slice, Any]]:
    """Iterate over batches of consecutive rows, of whatever `check_rows` returns.

    Parameters
    ----------
    X : {ndarray, CSR matrix, DataFrame, Tensor} of shape (N, ...)
        Raw rows.
    batch_size : int
        Rows of a batch.

    Yields
    ------
    rows : slice
        Which rows.
    X_batch : same type as `X`
        The rows; a view where the type allows it.
    """
    table = X.iloc if hasattr(X, "iloc") else X
    n_rows = int(X.shape[0])
    for start in range(0, n_rows, batch_size):
        rows = slice(start, min(n_rows, start + batch_size))
        yield rows, table[rows]


def layer_batches(
    host: LayerHost,
    layer: int,
    X: Any,
    *,
    batch_size: int | None = None,
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Iterate over the inputs of a layer.

    Parameters
    ----------
    host, layer, X, batch_size
        As for `layer_moments`.

    Yields
    ------
    rows : slice
        Which rows.
    A : ndarray of shape (n_rows, n)
        What they are where they enter the layer.
    """
    for rows, X_batch in batches(X, _batch_size(host, batch_size)):
        yield rows, host.inputs(X_batch, layer)


def layer_moments(
    host: LayerHost,
    layer: int,
    X: Any,
    codes: NDArray[np.integer],
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    keep: int = 0,
) -> tuple[GroupMoments, NDArray[Any] | None]:
    """Return the moments of a layer's inputs, and the inputs if they may be kept.

    Parameters
    ----------
    host : LayerHost
        The model.
    layer : int
        Number of the layer, from 0.
    X : {ndarray, CSR matrix, DataFrame, Tensor} of shape (N, ...)
        Raw rows, as ``host.check_rows`` returns them.
    codes : ndarray of shape (N,), int64
        Group of each row, an index into `groups`.
    groups : ndarray of shape (G,)
        The groups, sorted.
    batch_size : int or None, default=None
        Rows that are run through the model at a time; by default those of which the
        widest layer takes 32 MiB.
    keep : int, default=0
        Bytes that the inputs of all rows may take to be kept.

    Returns
    -------
    moments : GroupMoments
        Moments of the groups that occur.
    kept : ndarray of shape (N, n) or None
        The inputs of the layer, in the type in which the model computes them.
    """
    n_rows = _check_codes(X, codes)
    size = _batch_size(host, batch_size)
    total = _MomentsOfBatches(f"layer {host.layer_names[layer]!r}")
    kept = None
    for rows, A in layer_batches(host, layer, X, batch_size=size):
        if rows.start == 0 and n_rows * A.shape[1] * A.itemsize <= keep:
            kept = np.empty((n_rows, A.shape[1]), A.dtype)
        if kept is None:
            total.add(A, codes[rows], rows.start)
        else:
            kept[rows] = A
    if kept is not None:
        total.add(kept, codes)
    return total.moments(groups), kept


def last_layer_moments(
    host: LayerHost,
    X: Any,
    y: ArrayLike,
    codes: NDArray[np.integer],
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    layer: int | None = None,
    kept: NDArray[Any] | None = None,
) -> GroupMoments:
    """Return the joint moments of the last layer's inputs and of the targets.

    Least squares of the targets on the inputs and the moments of all groups follow
    from them.

    Parameters
    ----------
    host : LayerHost
        The model, some layer of it changed.
    X : {ndarray, CSR matrix, DataFrame, Tensor} of shape (N, ...)
        Raw rows, as ``host.check_rows`` returns them.
    y : array-like of shape (N,) or (N, k)
        Targets.
    codes : ndarray of shape (N,), int64
        Group of each row, an index into `groups`.
    groups : ndarray of shape (G,)
        The groups, sorted.
    batch_size : int or None, default=None
        As for `layer_moments`.
    layer : int or None, default=None
        First layer that was changed, whose inputs are the same as before.
    kept : ndarray of shape (N, n_layer) or None, default=None
        The inputs of `layer`, to go on from where the host can.

    Returns
    -------
    GroupMoments
        Of rows ``[a, y]``: the n inputs of the last layer, then the k targets.

    Raises
    ------
    ValueError
        If there is not one target per row, or the predictions are not the outputs
        of the last layer, which then cannot be fitted by least squares.
    """
    n_rows = _check_codes(X, codes)
    Y = np.asarray(y, dtype=np.float64)
    Y = Y.reshape(len(Y), -1) if Y.ndim != 2 else Y
    if len(Y) != n_rows:
        raise ValueError(f"y has {len(Y)} targets for {n_rows} rows.")
    size = _batch_size(host, batch_size)
    last = host.n_layers - 1
    total = _MomentsOfBatches(f"layer {host.layer_names[last]!r} and y")
    check_linear_output(host, next(batches(X, min(size, _TRIAL_ROWS)))[1])
    joint = np.empty((0, 0))
    for rows, X_batch in batches(X, size):
        if kept is not None and layer is not None and host.goes_on:
            A = host.onward(X_batch, kept[rows], layer, last)
        else:
            A = host.inputs(X_batch, last)
        if len(joint) < len(A):
            joint = np.empty((len(A), A.shape[1] + Y.shape[1]))
        joint[: len(A), : A.shape[1]] = A
        joint[: len(A), A.shape[1] :] = Y[rows]
        total.add(joint[: len(A)], codes[rows], rows.start)
    return total.moments(groups)


def unit_moments(
    host: LayerHost,
    X: Any,
    codes: NDArray[np.integer],
    groups: NDArray[Any],
    *,
    batch_size: int | None = None,
    outputs: Collection[int] = (),
    without: Collection[int] = (),
) -> list[GroupMoments | None]:
    """Return the moments of the inputs of every layer, from one pass.

    Parameters
    ----------
    host, X, codes, groups, batch_size
        As for `layer_moments`.
    outputs : collection of int, default=()
        Layers of which the outputs are taken instead, less the bias.
    without : collection of int, default=()
        Layers to leave out.

    Returns
    -------
    list of GroupMoments
        One for each layer; None for those left out and where the inputs of the
        layer are not one row per sample (a module's layer that is not called, or
        along several dimensions).
    """
    _check_codes(X, codes)
    totals: list[_MomentsOfBatches | None] = [
        None if i in without else _MomentsOfBatches(f"layer {name!r}")
        for i, name in enumerate(host.layer_names)
    ]
    weights = {i: host.weight(i).T for i in outputs}
    for rows, X_batch in batches(X, _batch_size(host, batch_size)):
        for i, A in enumerate(host.inputs_each(X_batch)):
            total = totals[i]
            if A is None:
                totals[i] = None
            elif total is not None:
                Z = A @ weights[i] if i in weights else A
                total.add(Z, codes[rows], rows.start)
    return [None if total is None else total.moments(groups) for total in totals]


def mean_residual(
    host: LayerHost,
    X: Any,
    y: NDArray[np.float64],
    *,
    batch_size: int | None = None,
) -> NDArray[np.float64]:
    """Return the mean of targets less predictions, shape (k,).

    Parameters
    ----------
    host, X, batch_size
        As for `layer_moments`.
    y : ndarray of shape (N,) or (N, k)
        Targets.
    """
    total = np.zeros(1 if y.ndim == 1 else y.shape[1])
    for rows, X_batch in batches(X, _batch_size(host, batch_size)):
        some = y[rows]
        left = some - np.asarray(host.outputs(X_batch)).reshape(some.shape)
        total += left.reshape(len(left), -1).sum(axis=0)
    return total / len(y)


def predictions(
    host: LayerHost, X: Any, *, batch_size: int | None = None
) -> NDArray[Any]:
    """Return the predictions of the model, shape (N,) or (N, k).

    Parameters
    ----------
    host, X, batch_size
        As for `layer_moments`.
    """
    size = _batch_size(host, batch_size)
    return np.concatenate([host.outputs(part) for _, part in batches(X, size)])


def check_linear_output(host: LayerHost, X_batch: Any) -> None:
    """Raise unless the predictions are what the last layer gives.

    Raises
    ------
    ValueError
        If a function of the last layer's outputs is predicted, or the last layer of
        a module is not the one that gives its output.
    """
    last = host.n_layers - 1
    A = host.inputs(X_batch, last)
    found = np.asarray(host.outputs(X_batch)).reshape(len(A), -1)
    if not is_linear_output(A, host.weight(last), host.bias(last), found):
        raise ValueError(
            f"The predictions of this {type(host.estimator).__name__} are not the "
            f"outputs of its last layer {host.layer_names[last]!r} (a link or output "
            "function follows, or another layer), so that it cannot be refitted by "
            "least squares: use refit_last=None."
        )


def moments_of_groups(total: GroupMoments, groups: NDArray[Any]) -> GroupMoments:
    """Return moments of codes as those of the groups that these stand for."""
    return GroupMoments(groups[total.groups], total.counts, total.means, total.scatters)


class _MomentsOfBatches:
    """Moments of batches, added up; groups may be missing from a batch."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._moments: GroupMoments | None = None

    def add(self, A: NDArray[Any], codes: NDArray[np.integer], start: int = 0) -> None:
        """Add a batch; `start` is the number of its first row."""
        if len(A) == 0:
            return
        try:
            if self._moments is None:
                self._moments = GroupMoments.from_data(A, codes)
            else:
                self._moments.update(A, codes)
        except ValueError as error:
            raise ValueError(
                f"Moments of {self._what}, over rows {start} to {start + len(A) - 1} "
                f"(counted from 0 within them below): {error}"
            ) from error

    def moments(self, groups: NDArray[Any]) -> GroupMoments:
        if self._moments is None:
            raise ValueError("There are no rows.")
        return moments_of_groups(self._moments, groups)


def _batch_size(host: LayerHost, batch_size: int | None) -> int:
    if batch_size is None:
        return choose_batch_size(host)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    return batch_size


def _check_codes(X: Any, codes: NDArray[np.integer]) -> int:
    n_rows = int(X.shape[0])
    if n_rows == 0:
        raise ValueError("X has no rows.")
    if len(codes) != n_rows:
        raise ValueError(f"There are {len(codes)} group codes for {n_rows} rows.")
    return n_rows
