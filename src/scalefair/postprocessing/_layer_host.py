"""What a trained model must offer for one of its linear layers to be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._entries import validate_data

__all__ = [
    "LayerChanges",
    "LayerHost",
    "as_dense_reals",
    "check_bias",
    "check_finite_layers",
    "check_rows_for",
    "check_table",
    "check_weight",
    "is_linear_output",
]

# Weight (m, n) and bias (m,) of the layers to change; no bias leaves it alone.
LayerChanges: TypeAlias = Mapping[int, tuple[ArrayLike, ArrayLike | None]]


class LayerHost(Protocol):
    """A trained model seen as a sequence of linear layers.

    Layers are counted from 0. A layer takes rows of n inputs and gives m outputs,
    ``inputs @ weight.T + bias``. A host never changes the model it was made from.

    Attributes
    ----------
    estimator : object
        The trained model.
    layer_names : list of str
        A name for each layer, by which it may be asked for.
    goes_on : bool
        Whether `onward` starts from the inputs of a layer, not from the raw rows.
    """

    estimator: Any
    layer_names: list[str]
    goes_on: bool

    @property
    def n_layers(self) -> int:
        """Number of linear layers."""
        return len(self.layer_names)

    def resolve(self, layer: int | str) -> int:
        """Return the number of a layer, counted from 0, from its number or name.

        Raises
        ------
        TypeError
            If `layer` is neither an integer nor a string.
        ValueError
            If there is no such layer; the message names those that there are.
        """
        known = f"The layers are {', '.join(map(repr, self.layer_names))}."
        if isinstance(layer, str):
            if layer not in self.layer_names:
                raise ValueError(f"There is no layer {layer!r}. {known}")
            return self.layer_names.index(layer)
        if not isinstance(layer, Integral) or isinstance(layer, bool | np.bool_):
            raise TypeError(f"layer must be an integer or a name, got {layer!r}.")
        n_layers = self.n_layers
        if not -n_layers <= layer < n_layers:
            raise ValueError(
                f"layer={layer} is out of range for {n_layers} linear layer(s): give "
                f"a number from {-n_layers} to {n_layers - 1}, or a name. {known}"
            )
        return int(layer) % n_layers

    def shape(self, layer: int) -> tuple[int, int]:
        """Return the numbers of outputs m and inputs n of a layer."""
        ...

    def weight(self, layer: int) -> NDArray[np.float64]:
        """Return a copy of the weight of a layer, shape (m, n)."""
        ...

    def bias(self, layer: int) -> NDArray[np.float64]:
        """Return a copy of the bias of a layer, shape (m,); zeros if it has none."""
        ...

    def check_rows(self, X: Any) -> Any:
        """Return raw rows in a form that can be cut into batches, unread."""
        ...

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Return the inputs of a layer for some raw rows, shape (rows, n).

        The array may be a view of the raw rows: it is not to be written to.
        """
        ...

    def inputs_each(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        """Return the inputs of every layer in turn, from one pass of the rows.

        None stands for a layer whose inputs are not rows of samples.
        """
        ...

    def onward(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        """Return the inputs of a later layer, given the inputs `A` of a layer."""
        ...

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions for some raw rows, (rows,) or (rows, n_outputs)."""
        ...

    def replaced(self, layers: LayerChanges) -> LayerHost:
        """Return the host of a deep copy of the model with some layers changed.

        Parameters
        ----------
        layers : dict of int to (weight, bias)
            New weight, shape (m, n), and bias, shape (m,), of layers; a bias that
            is None stays as it is.

        Raises
        ------
        ValueError
            If a shape is not that of the layer, or an entry is not finite.
        """
        ...


def check_table(X: Any, n_features: int | None = None) -> Any:
    """Return a table of rows that can be cut by slices: frame, CSR or ndarray.

    Raises
    ------
    ValueError
        If it has not two dimensions or another number of features.
    """
    if sparse.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "iloc"):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, got shape {X.shape}. "
            "Reshape a single feature by X.reshape(-1, 1), a single row by "
            "X.reshape(1, -1)."
        )
    if n_features is not None and X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, the estimator was fitted on {n_features}."
        )
    return X


def check_rows_for(estimator: Any, X: Any) -> Any:
    """Return rows as the estimator's own predict takes them, dense or CSR.

    An estimator that is not of scikit-learn is trusted to have no feature names.
    """
    if hasattr(estimator, "__sklearn_tags__"):
        return validate_data(
            estimator,
            X,
            accept_sparse=["csr", "csc"],
            reset=False,
            ensure_min_samples=0,
        )
    return check_table(X)


def as_dense_reals(A: Any) -> NDArray[Any]:
    """Return rows as an array, in float32 if they are that, otherwise in float64."""
    rows: NDArray[Any] = A.toarray() if sparse.issparse(A) else np.asarray(A)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def is_linear_output(
    A: NDArray[Any],
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    outputs: NDArray[Any],
) -> bool:
    """Whether the outputs are ``A @ weight.T + bias``, but for rounding."""
    expected = A @ weight.T + bias
    size = np.abs(A) @ np.abs(weight.T) + np.abs(bias)
    eps = np.sqrt(np.finfo(np.result_type(np.float32, outputs)).eps)
    return outputs.shape == expected.shape and bool(
        (np.abs(outputs - expected) <= eps * size).all()
    )


def check_finite_layers(host: LayerHost) -> None:
    """Raise if training has left NaN or infinity in a layer.

    Raises
    ------
    ValueError
        If it has; the message names the layer.
    """
    for layer, name in enumerate(host.layer_names):
        for what, values in (
            ("weight", host.weight(layer)),
            ("bias", host.bias(layer)),
        ):
            if not np.isfinite(values).all():
                raise ValueError(
                    f"The {what} of layer {name!r} of this "
                    f"{type(host.estimator).__name__} has entries that are NaN or "
                    "infinite: its training has failed. Train it again, with a "
                    "smaller learning rate for example."
                )


def check_weight(
    layer: int, weight: ArrayLike, shape: tuple[int, int], dtype: Any
) -> NDArray[Any]:
    """Return a new weight in the type of the old one, after checking it."""
    return _check_array(f"weight of layer {layer}", weight, shape, dtype)


def check_bias(layer: int, bias: ArrayLike, size: int, dtype: Any) -> NDArray[Any]:
    """Return a new bias in the type of the old one, after checking it."""
    return _check_array(f"bias of layer {layer}", bias, (size,), dtype)


def _check_array(
    what: str, values: ArrayLike, shape: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # refused below
        # Integers, as set by hand, would cut the new values off.
        array = np.array(values, dtype=np.result_type(dtype, np.float32))
    if array.shape != shape:
        raise ValueError(f"The {what} must have shape {shape}, got {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(
            f"The new {what} has entries that are not finite in {array.dtype}."
        )
    return array
