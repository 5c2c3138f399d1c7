"""Validation of rows and groups for `fit`, and of estimators, fitted or not."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from scalefair._entries import check_features
from scalefair._groups import check_compared, compared_attributes, fitted_groups
from scalefair.kernels import long_blas_call
from scalefair.streaming import PartitionedRows, is_partitioned


class GroupedRows(NamedTuple):
    """Rows and their groups, in memory or both in parts."""

    X: Any
    codes: Any  # indices into groups, (n_rows,) or (n_rows, n_attributes); or Parts
    groups: Any  # ndarray, or a list of one for each attribute
    n_rows: int


def training_rows(
    estimator: BaseEstimator, X: Any, sensitive_features: Any, attributes: str = "joint"
) -> GroupedRows:
    """Return rows of two groups or more; set the estimator's names of features."""
    if is_partitioned(X):
        X = PartitionedRows.of(X)
        check_features(estimator, X, reset=True)
        compared = X.compared_attributes(sensitive_features, attributes)
        n_rows = X.shape[0]
    else:
        X = validate_data(estimator, X, skip_check_array=True)
        n_rows = _num_samples(X)
        compared = compared_attributes(sensitive_features, n_rows, attributes)
    if n_rows < 2:
        raise ValueError(
            f"Found {n_rows} sample(s) (n_samples={n_rows}): fairness "
            "compares groups, of at least one sample each."
        )
    check_compared(compared, "the estimator itself")
    codes, *more_codes = (attribute.codes for attribute in compared)
    if more_codes and is_partitioned(X):
        codes = codes.map(_stack_columns, each=more_codes).persist()
    elif more_codes:
        codes = _stack_columns(codes, *more_codes)
    return GroupedRows(X, codes, fitted_groups(compared), n_rows)


def _stack_columns(*codes: NDArray[Any]) -> NDArray[Any]:
    return np.column_stack(codes)


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


def fitted_estimator(estimator: Any, X: Any, y: Any, prefit: bool | str) -> Any:
    """Return the estimator if it is fitted, else a clone fitted to X and y."""
    already_fitted = is_fitted(estimator)
    if prefit is True and not already_fitted:
        raise NotFittedError(
            f"prefit=True, but this {type(estimator).__name__} is not fitted. Fit it "
            'first, or use prefit="auto" to have a clone fitted.'
        )
    if prefit is not False and already_fitted:
        return estimator
    if is_partitioned(X):
        raise ValueError(
            f"This {type(estimator).__name__} would have to be fitted to rows in parts "
            "(a Dask collection or a file), which it cannot read: pass one that is "
            "fitted already, to a sample for example."
        )
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} has to be fitted, which requires y to "
            "be passed, but the target y is None. Pass y, or an estimator that is "
            "fitted already."
        )
    with long_blas_call():  # the estimator's own fit may use all threads of BLAS
        return clone(estimator).fit(X, y)
