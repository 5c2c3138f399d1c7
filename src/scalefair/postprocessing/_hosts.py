"""The host that fits a trained model."""

from __future__ import annotations

import sys
from typing import Any

from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._linear_host import LinearHost
from scalefair.postprocessing._mlp_host import MLPHost
from scalefair.postprocessing._pipeline_host import PipelineHost

__all__ = ["find_host", "is_module"]

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


def find_host(estimator: Any) -> LayerHost:
    """Return the host that knows how to read and change the layers of a model.

    Parameters
    ----------
    estimator : object
        A fitted regressor of scikit-learn or a PyTorch module.

    Returns
    -------
    LayerHost
        Host of the model itself, not of a copy; of a frozen estimator, of that inside.

    Raises
    ------
    TypeError
        If the model is of a kind that has no host; the message lists those that do.
    NotFittedError
        If the model has not been fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from scalefair.postprocessing._hosts import find_host
    >>> model = LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> host = find_host(model)
    >>> host.layer_names, host.weight(0).round(6), host.bias(0).round(6)
    (['coef_'], array([[2.]]), array([1.]))
    >>> host.replaced({0: ([[0.0]], None)}).outputs(np.ones((2, 1))).round(6)
    array([1., 1.])
    >>> model.coef_.round(6)
    array([2.])
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
        from scalefair.postprocessing._torch_host import TorchHost  # needs PyTorch

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


def is_module(estimator: Any) -> bool:
    """Whether a model is a PyTorch module.

    Nobody can have made one without importing PyTorch, so this does not.
    """
    torch = sys.modules.get("torch")
    base = getattr(getattr(torch, "nn", None), "Module", None)
    return base is not None and isinstance(estimator, base)


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
