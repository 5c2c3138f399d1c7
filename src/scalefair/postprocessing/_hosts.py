"""Layers of scikit-learn's models, and the host that fits a trained model."""

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
    is_linear_output,
    new_values,
)
from scalefair.postprocessing._torch_host import TorchHost
from scalefair.postprocessing._training_rows import is_module

_SUPPORTED = (
    "Supported are a fitted MLPRegressor, a regressor with coef_ and intercept_ that "
    "predicts by them (LinearRegression, Ridge, Lasso, SGDRegressor, ...), a Pipeline "
    "that ends in one of these, and a torch.nn.Module with nn.Linear layers (extra "
    '"torch"), alone or as module_ of its wrapper.'
)
# Wrappers of a regressor, and where they keep it once they are fitted.
_INNER = {
    "best_estimator_": "pass its best_estimator_",
    "regressor_": (
        "pass its regressor_, with the targets as that was trained on them, and "
        "transform the predictions back"
    ),
    "estimator_": "pass its estimator_",
}
# Their predictions are a link function of X coef_ + intercept_.
_WITH_LINK = (GammaRegressor, PoissonRegressor, TweedieRegressor)
_KERNEL_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
# In place, as activations are large.
_ACTIVATIONS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "identity": lambda Z: None,
    "logistic": lambda Z: expit(Z, out=Z),
    "tanh": lambda Z: np.tanh(Z, out=Z),
    "relu": lambda Z: np.maximum(Z, 0, out=Z),
}


def find_host(estimator: Any) -> LayerHost:
    """Return the host that can read and change the layers of a fitted model.

    A TypeError lists the models that have one; of a frozen estimator it is that inside.
    """
    if isinstance(estimator, type):
        raise TypeError(
            f"estimator is the class {estimator.__name__}: pass a fitted instance of "
            "it."
        )
    if isinstance(estimator, FrozenEstimator):  # its layers are what is meant
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
    _refuse_others(estimator)
    if isinstance(estimator, MLPRegressor):
        return MLPHost(estimator)
    return LinearHost(estimator)


def _refuse_others(estimator: Any) -> None:
    """Raise for a model without a host, or one that has not been fitted."""
    name = type(estimator).__name__
    for attribute, advice in _INNER.items():
        # Ensembles keep an unfitted one beside those that were fitted.
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

    Its predictions are ``X @ coef_.T + intercept_`` or, of generalized linear models, a
    link function of them; models that only look like it are refused.
    """

    can_resume = True

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
        if not isinstance(estimator, _WITH_LINK) and not self._predicts_linearly():
            raise TypeError(
                f"{name} has coef_ and intercept_ but does not predict by "
                "X @ coef_.T + intercept_, so changing coef_ would not change the "
                "inputs of one linear layer. Use a plain linear model, with what is "
                "done to X before it in a Pipeline."
            )

    def _predicts_linearly(self) -> bool:
        weight, bias = self.weight(0), self.bias(0)
        # A row of zeros shows the intercept, the other one the sum over features.
        n_features = weight.shape[1]
        trial = np.stack([np.zeros(n_features), np.cos(np.arange(n_features))])
        with warnings.catch_warnings():  # features may have had names in the fit
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            found = np.asarray(self.estimator.predict(trial)).reshape(2, -1)
        return is_linear_output(trial, weight, bias, found)

    def shape(self, layer: int) -> tuple[int, int]:
        n_outputs, n_features = np.atleast_2d(self.estimator.coef_).shape
        return n_outputs, n_features

    def weight(self, layer: int) -> NDArray[np.float64]:
        return np.atleast_2d(np.array(self.estimator.coef_, dtype=np.float64))

    def bias(self, layer: int) -> NDArray[np.float64]:
        """Return ``intercept_``, repeated if one number serves several outputs."""
        intercept = np.asarray(self.estimator.intercept_, dtype=np.float64)
        return np.broadcast_to(intercept.reshape(-1), self.shape(layer)[:1]).copy()

    def check_rows(self, X: Any) -> Any:
        return _table(X, self.shape(0)[1])

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        return _dense_reals(_rows_for(self.estimator, X_batch))

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        yield self.inputs(X_batch, 0)

    def forward_from(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        return A  # there is no later layer

    def replaced(self, layers: LayerChanges) -> LinearHost:
        changed = copy.deepcopy(self.estimator)
        for layer, (weight, bias) in layers.items():
            old, shape = np.asarray(changed.coef_), self.shape(layer)
            new = new_values("weight of coef_", weight, shape, old.dtype)
            changed.coef_ = new.reshape(old.shape)
            if bias is not None:
                new = new_values("intercept_", bias, shape[:1], np.float64)
                changed.intercept_ = _as_intercept(new, changed.intercept_)
        return LinearHost(changed)


def _as_intercept(bias: NDArray[np.float64], old: Any) -> Any:
    """Return a bias in the form of the old intercept: a number or an array."""
    if np.ndim(old) == 0:
        return float(bias[0]) if len(bias) == 1 else bias
    old = np.asarray(old)
    if old.size != len(bias):  # one number served several outputs
        return bias
    return bias.astype(np.result_type(old, np.float32)).reshape(old.shape)


class MLPHost(LayerHost):
    """Layers of a fitted `MLPRegressor`, named ``coefs_[0]``, ``coefs_[1]``, ..."""

    can_resume = True

    def __init__(self, estimator: MLPRegressor) -> None:
        self.estimator = estimator
        self.layer_names = [f"coefs_[{i}]" for i in range(len(estimator.coefs_))]
        self._activation = estimator.activation

    def shape(self, layer: int) -> tuple[int, int]:
        n_inputs, n_outputs = self.estimator.coefs_[layer].shape
        return n_outputs, n_inputs

    def weight(self, layer: int) -> NDArray[np.float64]:
        return np.array(self.estimator.coefs_[layer].T, dtype=np.float64, order="C")

    def bias(self, layer: int) -> NDArray[np.float64]:
        return np.array(self.estimator.intercepts_[layer], dtype=np.float64)

    def check_rows(self, X: Any) -> Any:
        return _table(X, self.estimator.n_features_in_)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        A = _rows_for(self.estimator, X_batch)
        return _dense_reals(self._forward(A, 0, layer))

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        A = _rows_for(self.estimator, X_batch)
        for layer in range(self.n_layers):
            if layer > 0:
                A = self._forward(A, layer - 1, layer)
            yield _dense_reals(A)

    def forward_from(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        later_inputs: NDArray[Any] = self._forward(A, layer, later)
        return later_inputs

    def replaced(self, layers: LayerChanges) -> MLPHost:
        changed = copy.deepcopy(self.estimator)
        for layer, (weight, bias) in layers.items():
            what, old = f"weight of {self.layer_names[layer]}", changed.coefs_[layer]
            new = new_values(what, weight, self.shape(layer), old.dtype)
            changed.coefs_[layer] = np.ascontiguousarray(new.T)
            if bias is not None:
                what, old = f"intercepts_[{layer}]", changed.intercepts_[layer]
                new = new_values(what, bias, old.shape, old.dtype)
                changed.intercepts_[layer] = new
        return MLPHost(changed)

    def _forward(self, A: Any, layer: int, later: int) -> Any:
        activate = _ACTIVATIONS[self._activation]
        for i in range(layer, later):
            A = _product(A, self.estimator.coefs_[i])
            A += self.estimator.intercepts_[i]
            activate(A)
        return A


def _product(A: Any, weight: NDArray[Any]) -> Any:
    """Return ``A @ weight``; dense rows are shared among the threads of kernels."""
    dense = isinstance(A, np.ndarray) and A.flags.c_contiguous
    if not (dense and A.dtype == weight.dtype and weight.dtype in _KERNEL_TYPES):
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

    def weight(self, layer: int) -> NDArray[np.float64]:
        return self._last.weight(layer)

    def bias(self, layer: int) -> NDArray[np.float64]:
        return self._last.bias(layer)

    def check_rows(self, X: Any) -> Any:
        """Return the rows as they are, a list as an array: the first step checks."""
        if sparse.issparse(X):
            return X.tocsr()
        return X if hasattr(X, "iloc") or hasattr(X, "shape") else np.asarray(X)

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        return self._last.inputs(self._transform(X_batch), layer)

    def inputs_by_layer(self, X_batch: Any) -> Iterator[NDArray[Any] | None]:
        return self._last.inputs_by_layer(self._transform(X_batch))

    def forward_from(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        """Return the inputs of a later layer; rows are transformed only if needed."""
        if not self.can_resume:
            X_batch = self._transform(X_batch)
        return self._last.forward_from(X_batch, A, layer, later)

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        return self._last.outputs(self._transform(X_batch))

    def replaced(self, layers: LayerChanges) -> PipelineHost:
        last = self._last.replaced(layers)
        # The copy of the last step is the changed one: it is not copied twice.
        memo = {id(self._last.estimator): last.estimator}
        return PipelineHost(copy.deepcopy(self.estimator, memo), last)

    def _transform(self, X: Any) -> Any:
        for _, step in self.estimator.steps[:-1]:
            if step is not None and not isinstance(step, str):  # "passthrough"
                X = step.transform(X)
        return X


def _table(X: Any, n_features: int) -> Any:
    """Return a table of rows that can be cut by slices: frame, CSR or ndarray."""
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


def _rows_for(estimator: Any, X: Any) -> Any:
    """Return rows as the estimator's own predict takes them, dense or CSR.

    An estimator that is not of scikit-learn is trusted to have no feature names.
    """
    if not hasattr(estimator, "__sklearn_tags__"):
        return X
    options = {"accept_sparse": ["csr", "csc"], "ensure_min_samples": 0}
    return validate_data(estimator, X, reset=False, **options)


def _dense_reals(A: Any) -> NDArray[Any]:
    """Return rows as an array, in float32 if they are that, otherwise in float64."""
    rows: NDArray[Any] = A.toarray() if sparse.issparse(A) else np.asarray(A)
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
