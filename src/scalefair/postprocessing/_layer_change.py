"""A layer of a model changed, with all that is told of the change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from scalefair.postprocessing._changed_layer import directly_changed, svd_changed
from scalefair.postprocessing._changed_wide_layer import (
    directly_changed_wide,
    svd_changed_wide,
)
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.postprocessing._passes import layer_batches
from scalefair.postprocessing._passes_over import passes_over
from scalefair.postprocessing._wide import wide_layer
from scalefair.streaming import GroupMoments

__all__ = ["LayerChange", "LayerRows", "Wanted", "change_layer", "change_wide_layer"]

# Activations of a layer are kept for the next pass up to this many bytes.
_KEPT_BYTES = 2**27


@dataclass(frozen=True)
class LayerRows:
    """The rows that enter a layer of a model.

    Attributes
    ----------
    host : LayerHost
        The model.
    layer : int
        Number of the layer.
    X : {ndarray, CSR matrix, DataFrame, Tensor, PartitionedRows} of shape (N, ...)
        Raw rows, as `raw_rows` of their passes returns them.
    codes : {ndarray of shape (N,), Parts}
        Group of each row, an index into `groups`.
    groups : ndarray of shape (G,)
        The groups, sorted.
    batch_size : int or None
        Rows that are run through the model at a time.
    """

    host: LayerHost
    layer: int
    X: Any
    codes: Any
    groups: NDArray[Any]
    batch_size: int | None


@dataclass(frozen=True)
class Wanted:
    """What is asked of the change: parameters of `ExplainableSVDRegressor`."""

    method: str
    mean_reduction: float
    covariance_reduction: float
    epsilon: float
    first_moment: str

    @property
    def reductions(self) -> dict[str, float]:
        """Both reductions by their names."""
        return {
            "mean_reduction": self.mean_reduction,
            "covariance_reduction": self.covariance_reduction,
        }

    @property
    def published(self) -> dict[str, Any]:
        """Arguments of the published method."""
        return {
            **self.reductions,
            "epsilon": self.epsilon,
            "first_moment": self.first_moment,
        }


@dataclass(frozen=True)
class LayerChange:
    """New weight of a layer and what it does.

    Attributes
    ----------
    weight : ndarray of shape (m, n)
        The new weight.
    gaps_before, gaps_after : tuple of float
        Gaps of the layer's outputs in mean and in covariance.
    change, change_bound : float
        Squared change of the outputs and a lower bound of it, as shares of their
        squares.
    converged : bool
        Whether the bounds on the gaps hold.
    moments : GroupMoments or None
        Of the layer's inputs, if they were formed.
    kept : ndarray of shape (N, n) or None
        The layer's inputs, if they were few enough to keep.
    """

    weight: NDArray[np.float64]
    gaps_before: tuple[float, float]
    gaps_after: tuple[float, float]
    change: float
    change_bound: float
    converged: bool
    moments: GroupMoments | None = None
    kept: NDArray[Any] | None = None


def change_layer(rows: LayerRows, wanted: Wanted) -> LayerChange:
    """Change a layer, from the moments of its inputs."""
    weight = rows.host.weight(rows.layer)
    moments, kept = passes_over(rows.X).layer_moments(
        rows.host,
        rows.layer,
        rows.X,
        rows.codes,
        rows.groups,
        batch_size=rows.batch_size,
        keep=_KEPT_BYTES,
    )
    layer = LayerMoments(moments)
    if wanted.method == "direct":
        changed = directly_changed(weight, layer, **wanted.reductions)
    else:
        changed = svd_changed(weight, layer, **wanted.published)
    square = layer.output_change(weight, np.zeros_like(weight)) or 1.0
    return LayerChange(
        weight=changed.weight,
        gaps_before=layer.gaps(weight),
        gaps_after=layer.gaps(changed.weight),
        change=changed.change / square,
        change_bound=changed.lower_bound / square,
        converged=changed.converged,
        moments=moments,
        kept=kept,
    )


def change_wide_layer(
    rows: LayerRows, wanted: Wanted, rank: int, random_state: Any
) -> LayerChange:
    """Change a layer without a matrix of its inputs; each product is a pass.

    The rows are in memory.
    """

    def passes() -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        for part, A in layer_batches(
            rows.host, rows.layer, rows.X, batch_size=rows.batch_size
        ):
            yield A, rows.codes[part]

    weight = rows.host.weight(rows.layer)
    layer = wide_layer(
        passes, weight, len(rows.groups), rank, random_state=random_state
    )
    if not layer.converged:
        warnings.warn(
            "The leading eigenpairs of the covariance difference were not found to "
            "their accuracy; the outputs may change more than they need to. Use "
            "rank=None, or another rank.",
            ConvergenceWarning,
            stacklevel=6,
        )
    if wanted.method == "direct":
        changed = directly_changed_wide(layer, **wanted.reductions)
    else:
        changed = svd_changed_wide(layer, **wanted.published)
    found = layer.compare(changed.weight)
    square = layer.square * layer.counts.sum() or 1.0
    return LayerChange(
        weight=changed.weight,
        gaps_before=(found.mean_gap_before, found.covariance_gap_before),
        gaps_after=(found.mean_gap_after, found.covariance_gap_after),
        change=found.output_change / square,
        change_bound=float("nan"),
        converged=changed.converged,
    )
