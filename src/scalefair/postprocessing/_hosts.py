"""Hosts of scikit-learn's models, the choice of a model's host, fitted models."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.neural_network._base import ACTIVATIONS
from sklearn.pipeline import Pipeline
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter

from scalefair._entries import check_sample_weight
from scalefair.kernels import block_multiply, long_blas_call
from scalefair.postprocessing._layer_host import (
    Array,
    LayerHost,
    check_new_values,
    is_linear_output,
)
from scalefair.postprocessing._torch_host import TorchHost
from scalefair.streaming import is_partitioned

_SUPPORTED = (
    "Supported are a fitted MLPRegressor, a regressor with coef_ and intercept_ that "
    "predicts by them (LinearRegression, Ridge, Lasso, SGDRegressor, ...), a Pipeline "
    "that ends in one of these, and a torch.nn.Module with nn.Linear layers (extra "
    '"torch"), alone or as module_ of its wrapper.'
)
# Regressors that predict an inverse link function of X coef_ + intercept_.
_LINK_REGRESSORS = (GammaRegressor, PoissonRegressor, TweedieRegressor)


class LinearHost(LayerHost):
    """A fitted linear model as a network of one layer, named ``coef_``.

    Its predictions are ``X @ coef_.T + intercept_``, or an inverse link function of
    that for generalized linear models. Other models with `coef_` are refused.
    """

    def __init__(self, model: Any, estimator: Any, transformers: Sequence[Any]) -> None:
        super().__init__(model, estimator, transformers)
        self.layer_names = ["coef_"]
        name = type(model).__name__
        if isinstance(getattr(type(model), "coef_", None), property):
            raise TypeError(
                f"The coef_ of a {name} is computed from its other attributes and "
                "cannot be changed: fit LinearSVR or another linear model instead."
            )
        if sparse.issparse(model.coef_) or np.ndim(model.coef_) not in (1, 2):
            raise TypeError(
                f"The coef_ of a {name} must be an array of shape (n,) or (m, n)."
            )
        self.check_finite_layers()
        if isinstance(model, _LINK_REGRESSORS):
            return
        # Compare predictions with the layer's outputs: at zero and at another row.
        n_features = self.shape(0)[1]
        rows = np.stack([np.zeros(n_features), np.cos(np.arange(n_features))])
        with warnings.catch_warnings():  # the fit may have seen feature names
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            predicted = np.asarray(model.predict(rows)).reshape(2, -1)
        if not is_linear_output(rows, self.weight(0), self.bias(0), predicted):
            raise TypeError(
                f"{name} has coef_ and intercept_ but does not predict by "
                "X @ coef_.T + intercept_, so changing coef_ would not change the "
                "inputs of one linear layer. Use a plain linear model, with what is "
                "done to X before it in a Pipeline."
            )

    def shape(self, layer: int) -> tuple[int, int]:
        n_outputs, n_features = np.atleast_2d(self.model.coef_).shape
        return n_outputs, n_features

    def weight(self, layer: int) -> Array:
        return np.atleast_2d(np.array(self.model.coef_, dtype=np.float64))

    def bias(self, layer: int) -> Array:
        """Return ``intercept_``, repeated if one number serves several outputs."""
        intercept = np.asarray(self.model.intercept_, dtype=np.float64)
        return np.broadcast_to(intercept.reshape(-1), self.shape(layer)[:1]).copy()

    def forward_from(self, A: Any, layer: int, later: int) -> Any:
        return A  # the only layer

    def _set_layer(self, layer: int, weight: ArrayLike, bias: ArrayLike | None) -> None:
        # 1. The weight, in the shape and type of the old one.
        old, shape = np.asarray(self.model.coef_), self.shape(layer)
        new = check_new_values("weight of coef_", weight, shape, old.dtype)
        self.model.coef_ = new.reshape(old.shape)
        if bias is None:
            return
        # 2. The intercept: a number stays a number, an array keeps its shape and type.
        old = np.asarray(self.model.intercept_)
        new = check_new_values("intercept_", bias, shape[:1], np.float64)
        if np.ndim(self.model.intercept_) == 0 and len(new) == 1:
            self.model.intercept_ = float(new[0])
        elif old.size == len(new):
            dtype = np.result_type(old, np.float32)
            self.model.intercept_ = new.astype(dtype).reshape(old.shape)
        else:  # one number was the intercept of several outputs
            self.model.intercept_ = new


class MLPHost(LayerHost):
    """Layers of a fitted `MLPRegressor`, named ``coefs_[0]``, ``coefs_[1]``, ..."""

    def __init__(self, model: Any, estimator: Any, transformers: Sequence[Any]) -> None:
        super().__init__(model, estimator, transformers)
        self.layer_names = [f"coefs_[{i}]" for i in range(len(model.coefs_))]

    def shape(self, layer: int) -> tuple[int, int]:
        n_inputs, n_outputs = self.model.coefs_[layer].shape
        return n_outputs, n_inputs

    def weight(self, layer: int) -> Array:
        return np.array(self.model.coefs_[layer].T, dtype=np.float64, order="C")

    def bias(self, layer: int) -> Array:
        return np.array(self.model.intercepts_[layer], dtype=np.float64)

    def forward_from(self, A: Any, layer: int, later: int) -> Any:
        """Apply the layers between two, each with its activation."""
        activate = ACTIVATIONS[self.model.activation]  # in place
        for i in range(layer, later):
            A = _product(A, self.model.coefs_[i])
            A += self.model.intercepts_[i]
            activate(A)
        return A

    def _set_layer(self, layer: int, weight: ArrayLike, bias: ArrayLike | None) -> None:
        name, old = f"weight of {self.layer_names[layer]}", self.model.coefs_[layer]
        new = check_new_values(name, weight, self.shape(layer), old.dtype)
        self.model.coefs_[layer] = np.ascontiguousarray(new.T)
        if bias is not None:
            name, old = f"intercepts_[{layer}]", self.model.intercepts_[layer]
            new = check_new_values(name, bias, old.shape, old.dtype)
            self.model.intercepts_[layer] = new


def _product(A: Any, weight: NDArray[Any]) -> Any:
    """Return ``A @ weight``; a kernel shares dense rows among its threads."""
    is_dense = isinstance(A, np.ndarray) and A.flags.c_contiguous
    if not (is_dense and A.dtype == weight.dtype):
        return safe_sparse_dot(A, weight)
    product = np.empty((A.shape[0], weight.shape[1]), A.dtype)
    block_multiply(A, weight, product)
    return product


def find_host(estimator: Any) -> LayerHost:
    """Return the host that can read and change the layers of a fitted model.

    The host of a frozen estimator is that of the estimator inside. For a model without
    a host, a TypeError lists those that have one.
    """
    # 1. The model behind the steps of a Pipeline, an instance and no classifier.
    if isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    model, transformers = _unwrapped(estimator)
    name = type(model).__name__
    if isinstance(model, type):
        raise TypeError(
            f"estimator is the class {model.__name__}: pass a fitted instance of it."
        )
    if hasattr(model, "__sklearn_tags__") and is_classifier(model):
        raise TypeError(f"{name} is a classifier, not a regressor. {_SUPPORTED}")
    if is_module(model) or is_module(getattr(model, "module_", None)):
        return TorchHost(model, estimator, transformers)
    # 2. What cannot be changed is refused, with what to do instead.
    for attribute in ("best_estimator_", "regressor_", "estimator_"):
        # The estimator_ of an ensemble is a template that was not fitted.
        if hasattr(model, attribute) and not hasattr(model, "estimators_"):
            advice = f"pass its {attribute}"
            if attribute == "regressor_":
                advice += (
                    ", with the targets as that was trained on them, and transform "
                    "the predictions back"
                )
            raise TypeError(
                f"A {name} wraps the regressor whose layers are meant: {advice}."
            )
    if not hasattr(model, "predict"):
        raise TypeError(f"estimator has no predict, got {model!r}. {_SUPPORTED}")
    if hasattr(model, "__sklearn_tags__") and not is_fitted(model):
        raise NotFittedError(
            f"This {name} has not been fitted: call its fit first. {_SUPPORTED}"
        )
    # 3. The models of scikit-learn that can.
    if isinstance(model, MLPRegressor):
        return MLPHost(model, estimator, transformers)
    if hasattr(model, "coef_") and hasattr(model, "intercept_"):
        return LinearHost(model, estimator, transformers)
    raise TypeError(
        f"{name} has no linear layer that could be changed. {_SUPPORTED} Of a search "
        "or another wrapper, pass the fitted regressor inside it."
    )


def _unwrapped(estimator: Any) -> tuple[Any, list[Any]]:
    """Return the model behind the steps of a Pipeline, and these."""
    model, transformers = estimator, []
    while isinstance(model, FrozenEstimator | Pipeline):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
            continue
        *steps, model = (step for _, step in model.steps)
        if model is None or isinstance(model, str):
            raise TypeError(
                f"The last step of the Pipeline is {model!r}: it must be a regressor. "
                f"{_SUPPORTED}"
            )
        # A step that is None or "passthrough" leaves the rows as they are.
        transformers += [s for s in steps if s is not None and not isinstance(s, str)]
    return model, transformers


def is_module(estimator: Any) -> bool:
    """Whether a model is a PyTorch module."""
    torch = sys.modules.get("torch")  # whoever has a module has imported PyTorch
    base = getattr(getattr(torch, "nn", None), "Module", None)
    return base is not None and isinstance(estimator, base)


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator can predict.

    An object without ``fit`` counts as fitted, and so does a PyTorch module. An object
    that is not of scikit-learn is fitted if an attribute ends in an underscore.
    """
    if not hasattr(estimator, "fit") or is_module(estimator):
        return True
    if not hasattr(estimator, "__sklearn_tags__"):
        names = getattr(estimator, "__dict__", {})
        return any(name.endswith("_") and not name.startswith("__") for name in names)
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def fitted_estimator(
    estimator: Any, X: Any, y: Any, prefit: bool | str, weights: Any = None
) -> Any:
    """Return the estimator if it is fitted, else a clone fitted to weighted rows.

    `prefit` is the parameter of the regressors: True insists on the first, False on the
    second.
    """
    name, already_fitted = type(estimator).__name__, is_fitted(estimator)
    if prefit is True and not already_fitted:
        raise NotFittedError(
            f"prefit=True, but this {name} is not fitted. Fit it first, or use "
            'prefit="auto" to have a clone fitted.'
        )
    if prefit is not False and already_fitted:
        return estimator
    if is_partitioned(X):
        raise ValueError(
            f"This {name} would have to be fitted to rows in parts (a Dask collection "
            "or a file), which it cannot read: pass one that is fitted already, to a "
            "sample for example."
        )
    if y is None:
        raise ValueError(
            f"This {name} has to be fitted, which requires y to be passed, but the "
            "target y is None. Pass y, or an estimator that is fitted already."
        )
    weights = check_sample_weight(weights, _num_samples(X))
    fit_params = {} if weights is None else {"sample_weight": weights}
    if fit_params and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"This {name} has to be fitted, and its fit takes no sample_weight: pass "
            "one that is fitted already."
        )
    with long_blas_call():  # the estimator's own fit may use all threads of BLAS
        return clone(estimator).fit(X, y, **fit_params)


# Regressors that were saved with the host of a Pipeline find its class by this name.
PipelineHost = LinearHost
