"""Layers of scikit-learn's multi-layer perceptron."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.neural_network import MLPRegressor
from sklearn.utils.extmath import safe_sparse_dot

from scalefair.kernels import block_multiply
from scalefair.postprocessing._layer_host import (
    LayerChanges,
    LayerHost,
    as_dense_reals,
    check_bias,
    check_rows_for,
    check_table,
    check_weight,
)

__all__ = ["MLPHost"]


def _identity(Z: NDArray[Any]) -> None:
    """Leave Z as it is."""


def _logistic(Z: NDArray[Any]) -> None:
    expit(Z, out=Z)


def _tanh(Z: NDArray[Any]) -> None:
    np.tanh(Z, out=Z)


def _relu(Z: NDArray[Any]) -> None:
    np.maximum(Z, 0, out=Z)


_KERNEL_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
# In place, as activations are large.
_ACTIVATIONS: dict[str, Callable[[NDArray[Any]], None]] = {
    "identity": _identity,
    "logistic": _logistic,
    "tanh": _tanh,
    "relu": _relu,
}


class MLPHost(LayerHost):
    """Layers of a fitted `MLPRegressor`, named ``coefs_[0]``, ``coefs_[1]``, ...

    Parameters
    ----------
    estimator : MLPRegressor
        Fitted.
    """

    goes_on = True

    def __init__(self, estimator: MLPRegressor) -> None:
        self.estimator = estimator
        self.layer_names = [f"coefs_[{i}]" for i in range(len(estimator.coefs_))]
        self._activate = _ACTIVATIONS[estimator.activation]

    def shape(self, layer: int) -> tuple[int, int]:
        """Return the numbers of outputs and inputs of a layer."""
        n_inputs, n_outputs = self.estimator.coefs_[layer].shape
        return n_outputs, n_inputs

    def weight(self, layer: int) -> NDArray[np.float64]:
        """Return the transpose of an entry of ``coefs_``."""
        return np.array(self.estimator.coefs_[layer].T, dtype=np.float64, order="C")

    def bias(self, layer: int) -> NDArray[np.float64]:
        """Return an entry of ``intercepts_``."""
        return np.array(self.estimator.intercepts_[layer], dtype=np.float64)

    def check_rows(self, X: Any) -> Any:
        """Return the rows as a frame, a CSR matrix or an array."""
        return check_table(X, self.estimator.n_features_in_)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Return the activations below a layer."""
        A = check_rows_for(self.estimator, X_batch)
        return as_dense_reals(self._forward(A, 0, layer))

    def inputs_each(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        """Return the activations below every layer in turn."""
        A = check_rows_for(self.estimator, X_batch)
        for layer in range(self.n_layers):
            if layer > 0:
                A = self._forward(A, layer - 1, layer)
            yield as_dense_reals(A)

    def onward(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        """Return the activations below a later layer."""
        later_inputs: NDArray[Any] = self._forward(A, layer, later)
        return later_inputs

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions of the network."""
        predicted: NDArray[Any] = self.estimator.predict(X_batch)
        return predicted

    def replaced(self, layers: LayerChanges) -> MLPHost:
        """Return the host of a deep copy with some layers changed."""
        changed = copy.deepcopy(self.estimator)
        for key, (weight, bias) in layers.items():
            layer = self.resolve(key)
            old = changed.coefs_[layer]
            weight = check_weight(layer, weight, self.shape(layer), old.dtype)
            changed.coefs_[layer] = np.ascontiguousarray(weight.T)
            if bias is not None:
                old = changed.intercepts_[layer]
                changed.intercepts_[layer] = check_bias(
                    layer, bias, len(old), old.dtype
                )
        return MLPHost(changed)

    def _forward(self, A: Any, layer: int, later: int) -> Any:
        for i in range(layer, later):
            A = _product(A, self.estimator.coefs_[i])
            A += self.estimator.intercepts_[i]
            self._activate(A)
        return A


def _product(A: Any, weight: NDArray[Any]) -> Any:
    """Return ``A @ weight``; dense rows are shared among the threads of kernels."""
    dense = isinstance(A, np.ndarray) and A.flags.c_contiguous
    if not (dense and A.dtype == weight.dtype and weight.dtype in _KERNEL_TYPES):
        return safe_sparse_dot(A, weight)
    product = np.empty((A.shape[0], weight.shape[1]), A.dtype)
    block_multiply(A, weight, product)
    return product
