"""Layers of the last step of a pipeline."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline

from scalefair.postprocessing._layer_host import LayerChanges, LayerHost

__all__ = ["PipelineHost"]


class PipelineHost(LayerHost):
    """Layers of the last step, whose rows the steps before it transform.

    Parameters
    ----------
    estimator : Pipeline
        Fitted.
    last : LayerHost
        Host of its last step.
    """

    def __init__(self, estimator: Pipeline, last: LayerHost) -> None:
        self.estimator = estimator
        self.layer_names = last.layer_names
        self.goes_on = last.goes_on
        self._last = last

    def shape(self, layer: int) -> tuple[int, int]:
        """Return the numbers of outputs and inputs of a layer of the last step."""
        return self._last.shape(layer)

    def weight(self, layer: int) -> NDArray[np.float64]:
        """Return the weight of a layer of the last step."""
        return self._last.weight(layer)

    def bias(self, layer: int) -> NDArray[np.float64]:
        """Return the bias of a layer of the last step."""
        return self._last.bias(layer)

    def check_rows(self, X: Any) -> Any:
        """Return the rows as they are, a list as an array: the first step checks."""
        if sparse.issparse(X):
            return X.tocsr()
        if hasattr(X, "iloc") or hasattr(X, "shape"):
            return X
        return np.asarray(X)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Return the inputs of a layer of the last step."""
        return self._last.inputs(self._transform(X_batch), layer)

    def inputs_each(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        """Return the inputs of every layer of the last step."""
        return self._last.inputs_each(self._transform(X_batch))

    def onward(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        """Return the inputs of a later layer; rows are transformed only if needed."""
        if not self.goes_on:
            X_batch = self._transform(X_batch)
        return self._last.onward(X_batch, A, layer, later)

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions of the last step."""
        return self._last.outputs(self._transform(X_batch))

    def replaced(self, layers: LayerChanges) -> PipelineHost:
        """Return the host of a deep copy with some layers changed."""
        last = self._last.replaced(layers)
        # The copy of the last step is the changed one: it is not copied twice.
        memo = {id(self._last.estimator): last.estimator}
        return PipelineHost(copy.deepcopy(self.estimator, memo), last)

    def _transform(self, X: Any) -> Any:
        for _, step in self.estimator.steps[:-1]:
            if step is not None and not isinstance(step, str):  # "passthrough"
                X = step.transform(X)
        return X
