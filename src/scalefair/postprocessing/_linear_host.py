"""The one layer of a linear regression model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

from scalefair.postprocessing._layer_host import (
    LayerChanges,
    LayerHost,
    as_dense_reals,
    check_bias,
    check_finite_layers,
    check_rows_for,
    check_table,
    check_weight,
    is_linear_output,
)

__all__ = ["LinearHost"]

# Their predictions are a link function of X coef_ + intercept_.
_WITH_LINK = (GammaRegressor, PoissonRegressor, TweedieRegressor)


class LinearHost(LayerHost):
    """A fitted linear model as a network of one layer, named ``coef_``.

    Parameters
    ----------
    estimator : object
        Fitted regressor with `coef_`, shape (n,) or (m, n), and `intercept_`, a
        number or an array of shape (m,), whose predictions are ``X @ coef_.T +
        intercept_`` or, of generalized linear models, a link function of them.

    Raises
    ------
    TypeError
        If the predictions for two trial rows are something else, or `coef_` cannot
        be set.
    ValueError
        If a coefficient is NaN or infinite.
    """

    goes_on = True

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.layer_names = ["coef_"]
        self._check_kind()

    def shape(self, layer: int) -> tuple[int, int]:
        """Return the numbers of outputs and features."""
        n_outputs, n_features = np.atleast_2d(self.estimator.coef_).shape
        return n_outputs, n_features

    def weight(self, layer: int) -> NDArray[np.float64]:
        """Return ``coef_`` with one row per output."""
        return np.atleast_2d(np.array(self.estimator.coef_, dtype=np.float64))

    def bias(self, layer: int) -> NDArray[np.float64]:
        """Return ``intercept_``, repeated if one number serves several outputs."""
        intercept = np.asarray(self.estimator.intercept_, dtype=np.float64)
        return np.broadcast_to(intercept.reshape(-1), self.shape(layer)[:1]).copy()

    def check_rows(self, X: Any) -> Any:
        """Return the rows as a frame, a CSR matrix or an array."""
        return check_table(X, self.shape(0)[1])

    def inputs(self, X_batch: Any, layer: int) -> NDArray[Any]:
        """Return the rows themselves, dense."""
        return as_dense_reals(check_rows_for(self.estimator, X_batch))

    def inputs_each(self, X_batch: Any) -> Iterator[NDArray[Any]]:
        """Return the inputs of the one layer."""
        yield self.inputs(X_batch, 0)

    def onward(
        self, X_batch: Any, A: NDArray[Any], layer: int, later: int
    ) -> NDArray[Any]:
        """Return the inputs given: there is no later layer."""
        return A

    def outputs(self, X_batch: Any) -> NDArray[Any]:
        """Return the predictions of the model, with its link function if it has one."""
        predicted: NDArray[Any] = self.estimator.predict(X_batch)
        return predicted

    def replaced(self, layers: LayerChanges) -> LinearHost:
        """Return the host of a deep copy with the layer changed."""
        changed = copy.deepcopy(self.estimator)
        for key, (weight, bias) in layers.items():
            layer = self.resolve(key)
            old = np.asarray(changed.coef_)
            shape = self.shape(layer)
            weight = check_weight(layer, weight, shape, old.dtype)
            changed.coef_ = weight.reshape(old.shape)
            if bias is not None:
                changed.intercept_ = _as_intercept(
                    check_bias(layer, bias, shape[0], np.float64), changed.intercept_
                )
        return LinearHost(changed)

    def _check_kind(self) -> None:
        """Refuse models that only look linear, such as those that centre their rows."""
        estimator = self.estimator
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
        check_finite_layers(self)
        if isinstance(estimator, _WITH_LINK):
            return
        weight, bias = self.weight(0), self.bias(0)
        # A row of zeros shows the intercept, the other one the sum over features.
        trial = np.stack(
            [np.zeros(weight.shape[1]), np.cos(np.arange(weight.shape[1]))]
        )
        found = _predict_unnamed(estimator, trial).reshape(2, -1)
        if not is_linear_output(trial, weight, bias, found):
            raise TypeError(
                f"{name} has coef_ and intercept_ but does not predict by "
                "X @ coef_.T + intercept_, so changing coef_ would not change the "
                "inputs of one linear layer. Use a plain linear model, with what is "
                "done to X before it in a Pipeline."
            )


def _predict_unnamed(estimator: Any, X: NDArray[np.float64]) -> NDArray[Any]:
    """Predict for an array; features may have had names when they were fitted."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(estimator.predict(X))


def _as_intercept(bias: NDArray[np.float64], old: Any) -> Any:
    """Return a bias in the form of the old intercept: a number or an array."""
    if np.ndim(old) == 0:
        return float(bias[0]) if len(bias) == 1 else bias
    old = np.asarray(old)
    if old.size != len(bias):  # one number served several outputs
        return bias
    return bias.astype(np.result_type(old, np.float32)).reshape(old.shape)
