"""Interface of a trained model whose linear layers can be read and changed."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._entries import all_finite, validate_data
from scalefair.kernels import long_blas_call

Array = NDArray[np.float64]

# New weight (m, n) and bias (m,) of layers by number; None keeps the bias.
LayerChanges: TypeAlias = Mapping[int, tuple[ArrayLike, ArrayLike | None]]


class LayerHost(ABC):
    """A trained model as a sequence of linear layers 0, 1, ...; never modified.

    A layer maps n inputs to m outputs, ``inputs @ weight.T + bias``. `estimator` is
    what the user gave: the `model` with the layers, or a Pipeline that ends in it,
    whose steps before it are the `transformers`. A subclass defines the layers, and
    either `forward_from` or both `inputs` and `inputs_by_layer`.
    """

    layer_names: list[str]  # set by the subclass, one for each layer
    # Whether `forward_from` computes the inputs of a later layer from those of a layer.
    can_resume = True

    def __init__(self, model: Any, estimator: Any, transformers: Sequence[Any]) -> None:
        self.model, self.estimator, self.transformers = model, estimator, transformers

    @property
    def n_layers(self) -> int:
        return len(self.layer_names)

    def resolve(self, layer: int | str) -> int:
        """Return the number of a layer, given a name or a number, maybe negative."""
        layers = f"The layers are {', '.join(map(repr, self.layer_names))}."
        if isinstance(layer, str):
            if layer not in self.layer_names:
                raise ValueError(f"There is no layer {layer!r}. {layers}")
            return self.layer_names.index(layer)
        if not isinstance(layer, Integral) or isinstance(layer, bool | np.bool_):
            raise TypeError(f"layer must be an integer or a name, got {layer!r}.")
        n_layers = self.n_layers
        if not -n_layers <= layer < n_layers:
            raise ValueError(
                f"layer={layer} is out of range for {n_layers} linear layer(s): give "
                f"a number from {-n_layers} to {n_layers - 1}, or a name. {layers}"
            )
        return int(layer) % n_layers

    @abstractmethod
    def shape(self, layer: int) -> tuple[int, int]:
        """Return the numbers of outputs m and inputs n of a layer."""

    @abstractmethod
    def weight(self, layer: int) -> Array:
        """Return a copy of the weight of a layer, shape (m, n)."""

    @abstractmethod
    def bias(self, layer: int) -> Array:
        """Return a copy of the bias of a layer, shape (m,); zeros if it has none."""

    @abstractmethod
    def _set_layer(self, layer: int, weight: ArrayLike, bias: ArrayLike | None) -> None:
        """Change a layer of this model in place."""

    def check_rows(self, X: Any) -> Any:
        """Return rows in a form that can be sliced, after a check of their shape."""
        if sparse.issparse(X):
            X = X.tocsr()
        elif not hasattr(X, "shape"):
            X = np.asarray(X)
        if not self.transformers:  # the first of them checks its rows
            self._check_shape(tuple(X.shape))
        return X

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise a ValueError unless rows of this shape fit the model."""
        if len(shape) != 2:
            raise ValueError(
                f"X must have two dimensions, rows and features, got shape {shape}. "
                "Reshape a single feature by X.reshape(-1, 1), a single row by "
                "X.reshape(1, -1)."
            )
        n_features = self.shape(0)[1]
        if shape[1] != n_features:
            raise ValueError(
                f"X has {shape[1]} features, the estimator was fitted on {n_features}."
            )

    def transform(self, X_batch: Any) -> Any:
        """Return raw rows as the steps before the model transform them."""
        for transformer in self.transformers:
            X_batch = transformer.transform(X_batch)
        return X_batch

    def _first_inputs(self, X_batch: Any) -> Any:
        """Return transformed rows, checked as the predict of the model does."""
        X_batch = self.transform(X_batch)
        if not hasattr(self.model, "__sklearn_tags__"):  # not scikit-learn's
            return X_batch
        options = {"accept_sparse": ["csr", "csc"], "ensure_min_samples": 0}
        return validate_data(self.model, X_batch, reset=False, **options)

    def forward_from(self, A: Any, layer: int, later: int) -> Any:
        """Return the inputs of a later layer, given the inputs `A` of a layer."""
        raise NotImplementedError

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Return the inputs (rows, n) of a layer: maybe a view, never written to."""
        A = self.forward_from(self._first_inputs(X_batch), 0, layer)
        return _to_dense_float(A)

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        """Yield the inputs of layer after layer, from one pass of the rows.

        None stands for a layer whose inputs are not rows of samples, as there may be in
        a module of PyTorch.
        """
        A = self._first_inputs(X_batch)
        for layer in range(self.n_layers):  # each from the one before it
            A = self.forward_from(A, max(layer - 1, 0), layer)
            yield _to_dense_float(A)

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions for some raw rows, (rows,) or (rows, n_outputs)."""
        X_batch = self.transform(X_batch)
        sizes = [math.prod(self.shape(i)) for i in range(self.n_layers)]
        with long_blas_call(0.03 * X_batch.shape[0] * sum(sizes)):
            predicted: NDArray[Any] = self.model.predict(X_batch)
        return predicted

    def replaced(self, layers: LayerChanges) -> LayerHost:
        """Return the host of a deep copy of the estimator with some layers changed."""
        parts = copy.deepcopy((self.model, self.estimator, self.transformers))
        changed = type(self)(*parts)
        for layer, (weight, bias) in layers.items():
            changed._set_layer(layer, weight, bias)
        return changed

    def check_linear_output(self, X_batch: Any) -> None:
        """Raise a ValueError unless the last layer gives the predictions."""
        last = self.n_layers - 1
        A = self.inputs(X_batch, last)
        outputs = np.asarray(self.outputs(X_batch)).reshape(len(A), -1)
        # 1. Inputs that overflow: name the first layer that has some.
        if not all_finite(A):
            for name, inputs in zip(
                self.layer_names, self.inputs_by_layer(X_batch), strict=True
            ):
                if inputs is not None:
                    check_no_overflow(inputs, f"inputs of layer {name!r}")
        # 2. Predictions that are finite tell what follows the layer; others do not.
        kept = np.isfinite(outputs).all(axis=1)
        parameters = self.weight(last), self.bias(last)
        if not is_linear_output(A[kept], *parameters, outputs[kept]):
            raise ValueError(
                f"The predictions of this {type(self.estimator).__name__} are not the "
                f"outputs of its last layer {self.layer_names[last]!r} (a link or "
                "output function follows, or another layer), so that it cannot be "
                "refitted by least squares: use refit_last=None."
            )
        check_no_overflow(outputs, f"outputs of layer {self.layer_names[last]!r}")

    def check_finite_layers(self) -> None:
        """Raise a ValueError if training has left NaN or infinity in a layer."""
        for layer, name in enumerate(self.layer_names):
            parts = {"weight": self.weight(layer), "bias": self.bias(layer)}
            for part, values in parts.items():
                if not np.isfinite(values).all():
                    raise ValueError(
                        f"The {part} of layer {name!r} of this "
                        f"{type(self.model).__name__} has entries that are NaN or "
                        "infinite: its training has failed. Train it again, with a "
                        "smaller learning rate for example."
                    )


def _to_dense_float(A: Any) -> NDArray[Any]:
    """Return rows as an array of float64, or of float32 if they are float32."""
    rows: NDArray[Any] = A.toarray() if sparse.issparse(A) else np.asarray(A)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def check_no_overflow(values: NDArray[Any], name: str) -> None:
    """Raise a ValueError if numbers that a model has computed are not finite."""
    if not all_finite(values):
        raise ValueError(
            f"The {name} have entries that are NaN or infinite. "
            f"{overflow_advice(values)}"
        )


def overflow_advice(values: NDArray[Any]) -> str:
    """Say why numbers that a model has computed are not finite, and what to do."""
    other_type = ", or pass X and a model in float64"
    return (
        f"Unless X has such entries, the model overflows in {values.dtype}: scale X as "
        "the rows that it was trained on"
        f"{'' if values.dtype == np.float64 else other_type}."
    )


def is_linear_output(
    A: NDArray[Any], weight: Array, bias: Array, outputs: NDArray[Any]
) -> bool:
    """Whether the outputs are ``A @ weight.T + bias``, to half of the digits."""
    expected = A @ weight.T + bias
    # Rounding errors are relative to the sums of moduli: the terms may cancel.
    scale = np.abs(A) @ np.abs(weight.T) + np.abs(bias)
    rtol = np.sqrt(np.finfo(np.result_type(np.float32, outputs)).eps)
    return outputs.shape == expected.shape and bool(
        (np.abs(outputs - expected) <= rtol * scale).all()
    )


def check_new_values(
    name: str, values: ArrayLike, shape: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """Return a new weight or bias in the type of the old one, after checking it."""
    with np.errstate(over="ignore"):  # infinite values are refused below
        # An old weight of integers, set by hand, becomes floating point.
        array = np.array(values, dtype=np.result_type(dtype, np.float32))
    if array.shape != shape:
        raise ValueError(f"The {name} must have shape {shape}, got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(
            f"The new {name} has entries that are not finite in {array.dtype}."
        )
    return array
