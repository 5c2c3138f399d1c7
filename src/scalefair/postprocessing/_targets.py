"""Targets that a last layer is fitted to, and predictions of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.postprocessing._layer_host import LayerHost
from scalefair.streaming import is_partitioned

__all__ = ["check_n_targets", "checked_targets", "one_prediction"]

# Squares of covariances of outputs are added up: fourth powers.
_LARGEST = 1e70


def checked_targets(y: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the targets as numbers in memory, one row each; Dask's are gathered.

    Raises
    ------
    ValueError
        If they are no numbers, not one row each, or one is NaN, infinite or so large
        that its fourth power overflows.
    """
    if isinstance(y, (list, tuple, np.ndarray)) and is_partitioned(y):
        dask = import_module("dask")  # it made what is in the list
        blocks = y.ravel() if isinstance(y, np.ndarray) else y
        # Futures have to be made delayed values to be computed.
        parts = dask.compute(*[dask.delayed(block) for block in blocks])
        y = np.concatenate([np.asarray(part) for part in parts])
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers, one or more a row: {error}.") from error
    if targets.ndim not in (1, 2) or len(targets) != n_rows:
        raise ValueError(
            f"y must have shape ({n_rows},) or ({n_rows}, k), got {targets.shape}."
        )
    moderate = (np.abs(targets.T) <= _LARGEST).reshape(-1, n_rows).all(axis=0)
    if not moderate.all():
        bad = np.flatnonzero(~moderate)
        raise ValueError(
            f"y has entries that are NaN or infinite in {bad.size} row(s), or above "
            f"{_LARGEST:g}, the first at position {bad[0]}: drop these rows, or scale "
            "the targets."
        )
    return targets


def check_n_targets(targets: NDArray[np.float64], host: LayerHost) -> None:
    """Raise a ValueError unless there is a target for each output of the model."""
    n_targets = 1 if targets.ndim == 1 else targets.shape[1]
    n_outputs = host.shape(host.n_layers - 1)[0]
    if n_targets != n_outputs:
        raise ValueError(
            f"This {type(host.estimator).__name__} predicts {n_outputs} target(s) a "
            f"row, y has {n_targets}: pass those that it was trained for."
        )


def one_prediction(host: LayerHost, X_batch: Any) -> NDArray[Any]:
    """Return what is predicted for the first row, to know its shape and its type.

    A model that gives something else than predictions may be changed all the same;
    its prediction is taken to be a number, and `predict` will complain.
    """
    try:
        return np.asarray(np.asarray(host.outputs(X_batch))[0])
    except ValueError:
        return np.zeros(())
