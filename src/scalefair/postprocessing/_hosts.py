"""Hosts of scikit-learn's models, and the choice of the host of a model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from scalefair._entries import validate_data
from scalefair.kernels import block_multiply
from scalefair.postprocessing._layer_host import (
    LayerChanges,
    LayerHost,
    check_new_values,
    is_linear_output,
)
from scalefair.postprocessing._torch_host import TorchHost
from scalefair.postprocessing._training_rows import is_module

Array = NDArray[np.float64]

_SUPPORTED = (
    "Supported are a fitted MLPRegressor, a regressor with coef_ and intercept_ that "
    "predicts by them (LinearRegression, Ridge, Lasso, SGDRegressor, ...), a Pipeline "
    "that ends in one of these, and a torch.nn.Module with nn.Linear layers (extra "
    '"torch"), alone or as module_ of its wrapper.'
)
# Fitted attributes of wrappers that hold the regressor inside, and what to do instead.
_WRAPPED_ADVICE = {
    "best_estimator_": "pass its best_estimator_",
    "regressor_": (
        "pass its regressor_, with the targets as that was trained on them, and "
        "transform the predictions back"
    ),
    "estimator_": "pass its estimator_",
}
# Regressors that predict an inverse link function of X coef_ + intercept_.
_LINK_REGRESSORS = (GammaRegressor, PoissonRegressor, TweedieRegressor)
# In place: the inputs of layers may be larger than X.
_ACTIVATIONS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "identity": lambda Z: None,
    "logistic": lambda Z: expit(Z, out=Z),
    "tanh": lambda Z: np.tanh(Z, out=Z),
    "relu": lambda Z: np.maximum(Z, 0, out=Z),
}


def find_host(estimator: Any) -> LayerHost:
    """Return the host that can read and change the layers of a fitted model.

    The host of a frozen estimator is that of the estimator inside. For a model without
    a host, a TypeError lists those that have one.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator is the class {estimator.__name__}: pass a fitted instance of "
            "it."
        )
    if isinstance(estimator, FrozenEstimator):
        return find_host(estimator.estimator)
    if hasattr(estimator, "__sklearn_tags__") and is_classifier(estimator):
        raise TypeError(
            f"{type(estimator).__name__} is a classifier, not a regressor. {_SUPPORTED}"
        )
    if is_module(estimator) or is_module(getattr(estimator, "module_", None)):
        return TorchHost(estimator)
    if isinstance(estimator, Pipeline):
        last = estimator.steps[-1][1]
        if last is None or isinstance(last, str):
            raise TypeError(
                f"The last step of the Pipeline is {last!r}: it must be a regressor. "
                f"{_SUPPORTED}"
            )
        return PipelineHost(estimator, find_host(last))
    _check_has_layers(estimator)
    if isinstance(estimator, MLPRegressor):
        return MLPHost(estimator)
    return LinearHost(estimator)


def _check_has_layers(estimator: Any) -> None:
    """Raise for a model without linear layers, or one that has not been fitted."""
    name = type(estimator).__name__
    for attribute, advice in _WRAPPED_ADVICE.items():
        # The estimator_ of an ensemble is a template that was not fitted.
        if hasattr(estimator, attribute) and not hasattr(estimator, "estimators_"):
            raise TypeError(
                f"A {name} wraps the regressor whose layers are meant: {advice}."
            )
    if not hasattr(estimator, "predict"):
        raise TypeError(f"estimator has no predict, got {estimator!r}. {_SUPPORTED}")
    if hasattr(estimator, "__sklearn_tags__") and hasattr(estimator, "fit"):
        try:
            check_is_fitted(estimator)
        except NotFittedError as error:
            raise NotFittedError(
                f"This {name} has not been fitted: call its fit first. {_SUPPORTED}"
            ) from error
    has_layers = isinstance(estimator, MLPRegressor) or (
        hasattr(estimator, "coef_") and hasattr(estimator, "intercept_")
    )
    if not has_layers:
        raise TypeError(
            f"{name} has no linear layer that could be changed. {_SUPPORTED} Of a "
            "search or another wrapper, pass the fitted regressor inside it."
        )


class LinearHost(LayerHost):
    """A fitted linear model as a network of one layer, named ``coef_``.

    Its predictions are ``X @ coef_.T + intercept_``, or an inverse link function of
    that for generalized linear models. Other models with `coef_` are refused.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.layer_names = ["coef_"]
        name = type(estimator).__name__
        if isinstance(getattr(type(estimator), "coef_", None), property):
            raise TypeError(
                f"The coef_ of a {name} is computed from its other attributes and "
                "cannot be changed: fit LinearSVR or another linear model instead."
            )
        coef = estimator.coef_
        if sparse.issparse(coef) or np.ndim(coef) not in (1, 2):
            raise TypeError(
                f"The coef_ of a {name} must be an array of shape (n,) or (m, n)."
            )
        self.check_finite_layers()
        if not isinstance(estimator, _LINK_REGRESSORS) and not self._is_linear():
            raise TypeError(
                f"{name} has coef_ and intercept_ but does not predict by "
                "X @ coef_.T + intercept_, so changing coef_ would not change the "
                "inputs of one linear layer. Use a plain linear model, with what is "
                "done to X before it in a Pipeline."
            )

    def _is_linear(self) -> bool:
        """Compare predictions with the layer's outputs: at zero and at another row."""
        weight, bias = self.weight(0), self.bias(0)
        n_features = weight.shape[1]
        rows = np.stack([np.zeros(n_features), np.cos(np.arange(n_features))])
        with warnings.catch_warnings():  # the fit may have seen feature names
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            predicted = np.asarray(self.estimator.predict(rows)).reshape(2, -1)
        return is_linear_output(rows, weight, bias, predicted)

    def shape(self, layer: int) -> tuple[int, int]:
        n_outputs, n_features = np.atleast_2d(self.estimator.coef_).shape
        return n_outputs, n_features

    def weight(self, layer: int) -> Array:
        return np.atleast_2d(np.array(self.estimator.coef_, dtype=np.float64))

    def bias(self, layer: int) -> Array:
        """Return ``intercept_``, repeated if one number serves several outputs."""
        intercept = np.asarray(self.estimator.intercept_, dtype=np.float64)
        return np.broadcast_to(intercept.reshape(-1), self.shape(layer)[:1]).copy()

    def check_rows(self, X: Any) -> Any:
        return _check_table(X, self.shape(0)[1])

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        return _to_dense_float(_validate_rows(self.estimator, X_batch))

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        yield self.inputs(X_batch, 0)

    def forward_from(self, A: NDArray[Any], layer: int, later: int) -> NDArray[Any]:
        return A  # the only layer

    def replaced(self, layers: LayerChanges) -> LinearHost:
        changed = copy.deepcopy(self.estimator)
        for layer, (weight, bias) in layers.items():
            old, shape = np.asarray(changed.coef_), self.shape(layer)
            new = check_new_values("weight of coef_", weight, shape, old.dtype)
            changed.coef_ = new.reshape(old.shape)
            if bias is not None:
                new = check_new_values("intercept_", bias, shape[:1], np.float64)
                changed.intercept_ = _like_intercept(new, changed.intercept_)
        return LinearHost(changed)


def _like_intercept(bias: Array, intercept: Any) -> Any:
    """Return a bias in the form of the old intercept: a number or an array."""
    if np.ndim(intercept) == 0 and len(bias) == 1:
        return float(bias[0])
    intercept = np.asarray(intercept)
    if intercept.size != len(bias):  # one number was the intercept of several outputs
        return bias
    return bias.astype(np.result_type(intercept, np.float32)).reshape(intercept.shape)


class MLPHost(LayerHost):
    """Layers of a fitted `MLPRegressor`, named ``coefs_[0]``, ``coefs_[1]``, ..."""

    def __init__(self, estimator: MLPRegressor) -> None:
        self.estimator = estimator
        self.layer_names = [f"coefs_[{i}]" for i in range(len(estimator.coefs_))]
        self._activation = estimator.activation

    def shape(self, layer: int) -> tuple[int, int]:
        n_inputs, n_outputs = self.estimator.coefs_[layer].shape
        return n_outputs, n_inputs

    def weight(self, layer: int) -> Array:
        return np.array(self.estimator.coefs_[layer].T, dtype=np.float64, order="C")

    def bias(self, layer: int) -> Array:
        return np.array(self.estimator.intercepts_[layer], dtype=np.float64)

    def check_rows(self, X: Any) -> Any:
        return _check_table(X, self.estimator.n_features_in_)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        A = _validate_rows(self.estimator, X_batch)
        return _to_dense_float(self._forward(A, 0, layer))

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        A = _validate_rows(self.estimator, X_batch)
        for layer in range(self.n_layers):
            if layer > 0:
                A = self._forward(A, layer - 1, layer)
            yield _to_dense_float(A)

    def forward_from(self, A: NDArray[Any], layer: int, later: int) -> NDArray[Any]:
        later_inputs: NDArray[Any] = self._forward(A, layer, later)
        return later_inputs

    def replaced(self, layers: LayerChanges) -> MLPHost:
        changed = copy.deepcopy(self.estimator)
        for layer, (weight, bias) in layers.items():
            name, old = f"weight of {self.layer_names[layer]}", changed.coefs_[layer]
            new = check_new_values(name, weight, self.shape(layer), old.dtype)
            changed.coefs_[layer] = np.ascontiguousarray(new.T)
            if bias is not None:
                name, old = f"intercepts_[{layer}]", changed.intercepts_[layer]
                new = check_new_values(name, bias, old.shape, old.dtype)
                changed.intercepts_[layer] = new
        return MLPHost(changed)

    def _forward(self, A: Any, layer: int, later: int) -> Any:
        """Return the inputs of a later layer from the inputs of a layer."""
        activate = _ACTIVATIONS[self._activation]
        for i in range(layer, later):
            A = _product(A, self.estimator.coefs_[i])
            A += self.estimator.intercepts_[i]
            activate(A)
        return A


def _product(A: Any, weight: NDArray[Any]) -> Any:
    """Return ``A @ weight``; a kernel shares dense rows among its threads."""
    is_dense = isinstance(A, np.ndarray) and A.flags.c_contiguous
    is_float = weight.dtype in (np.float32, np.float64)
    if not (is_dense and is_float and A.dtype == weight.dtype):
        return safe_sparse_dot(A, weight)
    product = np.empty((A.shape[0], weight.shape[1]), A.dtype)
    block_multiply(A, weight, product)
    return product


class PipelineHost(LayerHost):
    """Layers of the last step, whose rows the steps before it transform."""

    def __init__(self, estimator: Pipeline, last: LayerHost) -> None:
        self.estimator = estimator
        self.layer_names = last.layer_names
        self.can_resume = last.can_resume
        self._last = last

    def shape(self, layer: int) -> tuple[int, int]:
        return self._last.shape(layer)

    def weight(self, layer: int) -> Array:
        return self._last.weight(layer)

    def bias(self, layer: int) -> Array:
        return self._last.bias(layer)

    def check_rows(self, X: Any) -> Any:
        """Return the rows, a list as an array; the first step checks them."""
        if sparse.issparse(X):
            return X.tocsr()
        return X if hasattr(X, "iloc") or hasattr(X, "shape") else np.asarray(X)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        return self._last.inputs(self._transform(X_batch), layer)

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        return self._last.inputs_by_layer(self._transform(X_batch))

    def forward_from(self, A: NDArray[Any], layer: int, later: int) -> NDArray[Any]:
        return self._last.forward_from(A, layer, later)

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        return self._last.outputs(self._transform(X_batch))

    def replaced(self, layers: LayerChanges) -> PipelineHost:
        last = self._last.replaced(layers)
        # deepcopy takes the changed last step from `memo` instead of a copy.
        memo = {id(self._last.estimator): last.estimator}
        return PipelineHost(copy.deepcopy(self.estimator, memo), last)

    def _transform(self, X: Any) -> Any:
        for _, step in self.estimator.steps[:-1]:
            if step is not None and not isinstance(step, str):  # "passthrough"
                X = step.transform(X)
        return X


def _check_table(X: Any, n_features: int) -> Any:
    """Return rows as a frame, CSR or ndarray, which can be sliced into batches."""
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
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, the estimator was fitted on {n_features}."
        )
    return X


def _validate_rows(estimator: Any, X: Any) -> Any:
    """Validate rows as the predict of a scikit-learn estimator does."""
    if not hasattr(estimator, "__sklearn_tags__"):
        return X
    return validate_data(
        estimator, X, reset=False, accept_sparse=["csr", "csc"], ensure_min_samples=0
    )


def _to_dense_float(A: Any) -> NDArray[Any]:
    """Return rows as an array of float64, or of float32 if they are float32."""
    rows: NDArray[Any] = A.toarray() if sparse.issparse(A) else np.asarray(A)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
