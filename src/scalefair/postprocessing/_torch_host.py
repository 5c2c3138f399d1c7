"""Layers of a PyTorch module, read by forward hooks.

PyTorch is imported where it is used: whoever has a module has imported it by then.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import _num_samples

from scalefair.postprocessing._layer_host import (
    LayerHost,
    check_new_values,
    check_no_overflow,
)

# Hooks and the mode belong to the module: threads that share it run one at a time.
_LOCK = threading.RLock()


class TorchHost(LayerHost):
    """The ``nn.Linear`` layers of a module, or of an estimator's `module_`, by name.

    Rows are run through the module in evaluation mode, without gradients, in its own
    type and on its own device. The inputs of a layer are always computed from the raw
    rows: only the module's `forward` knows what lies between two layers.
    """

    can_resume = False

    def __init__(self, model: Any, estimator: Any, transformers: Sequence[Any]) -> None:
        super().__init__(model, estimator, transformers)
        import torch

        # A bare module takes and returns tensors; its wrapper, a regressor, arrays.
        self._is_bare = isinstance(model, torch.nn.Module)
        self._module = model if self._is_bare else model.module_
        self.layer_names, self._layers = [], []
        for name, layer in self._module.named_modules():
            if not isinstance(layer, torch.nn.Linear):
                continue
            if isinstance(layer.weight, torch.nn.parameter.UninitializedParameter):
                raise ValueError(
                    f"Layer {name!r} has not seen any rows yet: run and train the "
                    "module first."
                )
            self.layer_names.append(name)
            self._layers.append(layer)
        if not self._layers:
            raise TypeError(
                f"{type(self._module).__name__} has no torch.nn.Linear that could be "
                "changed."
            )

    def shape(self, layer: int) -> tuple[int, int]:
        linear = self._layers[layer]
        return linear.out_features, linear.in_features

    def weight(self, layer: int) -> NDArray[np.float64]:
        return _to_numpy(self._layers[layer].weight).astype(np.float64)

    def bias(self, layer: int) -> NDArray[np.float64]:
        linear = self._layers[layer]
        if linear.bias is None:
            return np.zeros(linear.out_features)
        return _to_numpy(linear.bias).astype(np.float64)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if self._is_bare and len(shape) < 2:  # a wrapper converts its rows
            raise ValueError(
                f"X must have one row per sample, shape (rows, ...), got {shape}."
            )

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Run rows through the whole module; return what the layer was called with."""
        calls = self._record_calls(X_batch, [layer])[0]
        name, n_rows = self.layer_names[layer], _num_samples(X_batch)
        # The layer must have seen every row once, as a row: the three errors say how
        # it did not.
        if not calls:
            raise ValueError(
                f"Layer {name!r} is not called in the forward pass: choose another one."
            )
        shape = calls[0].shape
        if len(shape) != 2:
            raise ValueError(
                f"The inputs of layer {name!r} have shape {shape}: it is applied along "
                "the last of several dimensions, so its rows would not be samples, "
                "which have a group. Choose a layer whose inputs have shape (rows, "
                "features)."
            )
        if not _are_rows_of_samples(calls, n_rows):
            raise ValueError(
                f"Layer {name!r} was called {len(calls)} time(s) with "
                f"{sum(len(call) for call in calls)} rows in all for {n_rows} rows of "
                "X. A layer that is used several times in one forward pass, or whose "
                "rows are not samples, cannot be changed for one of its uses alone: "
                "choose another layer."
            )
        return _join_calls(calls, name)

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        """Yield what each layer was called with, in one run of the module."""
        n_rows = _num_samples(X_batch)
        layer_calls = self._record_calls(X_batch, range(self.n_layers))
        for name, calls in zip(self.layer_names, layer_calls, strict=True):
            are_rows = _are_rows_of_samples(calls, n_rows)
            yield _join_calls(calls, name) if are_rows else None

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions of the module, a single column as a vector."""
        with _evaluation_mode(self._module):
            out = self._run(X_batch)
        n_rows = _num_samples(X_batch)
        if self._is_bare:  # a wrapper returns arrays
            if not hasattr(out, "detach") or out.ndim not in (1, 2):
                raise ValueError(
                    "The module must return one tensor of shape (rows,) or (rows, "
                    f"n_outputs), got {getattr(out, 'shape', type(out).__name__)}. "
                    "Wrap it in a module that returns the predictions alone."
                )
            out = _to_numpy(out)
            out = out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out
        if len(out) != n_rows:
            raise ValueError(
                f"The module returned {len(out)} predictions for {n_rows} rows."
            )
        check_no_overflow(out, "predictions")
        predicted: NDArray[Any] = out
        return predicted

    def _set_layer(self, layer: int, weight: ArrayLike, bias: ArrayLike | None) -> None:
        """Copy new values into the parameters of a layer."""
        import torch

        linear, name = self._layers[layer], self.layer_names[layer]
        # 1. The layer's weight and bias must be its own, not computed or shared.
        parameters = dict(linear.named_parameters(recurse=False))
        if "weight" not in parameters:
            raise ValueError(
                f"The weight of layer {name!r} is computed from other parameters "
                "(torch.nn.utils.parametrize): remove the parametrization first."
            )
        identities = {id(parameter) for parameter in parameters.values()}
        for submodule in self._module.modules():
            shared = map(id, submodule.parameters(recurse=False))
            if submodule is not linear and not identities.isdisjoint(shared):
                raise ValueError(
                    f"Layer {name!r} shares its weight or bias with another layer, "
                    "which would change too: choose another layer."
                )
        # 2. Copy the new values, in the type and to the device of the old ones.
        shape, dtype = self.shape(layer), _numpy_type(linear.weight.dtype)

        def convert(part: str, values: ArrayLike, shape: tuple[int, ...]) -> Any:
            """Tensor of the new values, which may be too large for half precision."""
            subject = f"{part} of layer {name!r}"
            new = check_new_values(subject, values, shape, dtype)
            tensor = torch.from_numpy(new).to(linear.weight)
            if not tensor.isfinite().all():
                raise ValueError(
                    f"The new {subject} has entries that are not finite in "
                    f"{tensor.dtype}: convert the module by .float()."
                )
            return tensor

        with torch.no_grad():
            linear.weight.copy_(convert("weight", weight, shape))
            if bias is None:
                return
            values = convert("bias", bias, shape[:1])
            if linear.bias is None:
                linear.bias = torch.nn.Parameter(values)
            else:
                linear.bias.copy_(values)

    def _record_calls(
        self, X_batch: Any, layers: Sequence[int]
    ) -> list[list[NDArray[Any]]]:
        """Run the rows once; return for each layer the inputs of all its calls."""
        layer_calls: list[list[NDArray[Any]]] = [[] for _ in layers]
        with ExitStack() as stack:
            # On the way out hooks are removed first, then the old modes are restored.
            stack.enter_context(_evaluation_mode(self._module))
            for layer, calls in zip(layers, layer_calls, strict=True):
                hook = functools.partial(_record, calls)
                handle = self._layers[layer].register_forward_pre_hook(
                    hook, with_kwargs=True
                )
                stack.callback(handle.remove)
            self._run(X_batch)
        return layer_calls

    def _run(self, X_batch: Any) -> Any:
        """Return what the model gives for raw rows: a tensor if it is a bare module."""
        rows = self.transform(X_batch)
        if not self._is_bare:
            return self.model.predict(rows)
        import torch

        with torch.no_grad():
            return self._module(_to_tensor(rows, self._module))


def _record(calls: list[NDArray[Any]], module: Any, args: Any, kwargs: Any) -> None:
    """Append the inputs of a call to a list, as a hook of a layer."""
    x = args[0] if args else kwargs["input"]
    calls.append(_to_numpy(x).copy())  # later operations may work in place


@contextmanager
def _evaluation_mode(module: Any) -> Iterator[None]:
    """Set evaluation mode; restore the mode of every submodule afterwards."""
    with _LOCK:
        modes = [(submodule, submodule.training) for submodule in module.modules()]
        module.eval()
        try:
            yield
        finally:
            for submodule, is_training in modes:
                submodule.training = is_training


def _are_rows_of_samples(calls: list[NDArray[Any]], n_rows: int) -> bool:
    """Whether the calls of a layer saw one row for each sample."""
    return (
        bool(calls)
        and all(call.ndim == 2 for call in calls)
        and sum(len(call) for call in calls) == n_rows
    )


def _join_calls(calls: list[NDArray[Any]], name: str) -> NDArray[Any]:
    """Return the inputs of all calls of a layer, which are finite."""
    A = np.concatenate(calls) if len(calls) > 1 else calls[0]
    check_no_overflow(A, f"inputs of layer {name!r}")
    return A


def _to_tensor(X: Any, module: Any) -> Any:
    """Return rows as a tensor of the module's type; a tensor of integers stays so."""
    import torch

    parameter = next(p for p in module.parameters() if p.is_floating_point())
    dtype, device = parameter.dtype, parameter.device
    if hasattr(X, "detach"):
        return X.to(device=device, dtype=dtype if X.is_floating_point() else X.dtype)
    X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=_numpy_type(dtype))
    return torch.tensor(X, device=device, dtype=dtype)


def _to_numpy(tensor: Any) -> NDArray[Any]:
    """Return a tensor as an array of float64 or float32, perhaps a view."""
    is_double = _numpy_type(tensor.dtype) is np.float64
    tensor = tensor.detach().cpu()
    array: NDArray[Any] = (tensor if is_double else tensor.float()).numpy()
    return array


def _numpy_type(dtype: Any) -> Any:
    """Return NumPy's type for tensors: half precision becomes float32."""
    import torch

    return np.float64 if dtype == torch.float64 else np.float32
