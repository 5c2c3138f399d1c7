"""Estimators that come fitted, or do not."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from scalefair.kernels import long_blas_call
from scalefair.postprocessing._hosts import is_module
from scalefair.streaming import is_partitioned

__all__ = ["fitted_estimator", "is_fitted"]


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator can predict.

    What has no ``fit`` can, and so can a PyTorch module, which does not tell. What is
    not of scikit-learn can once it has an attribute that ends in an underscore.
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
    """Return an estimator that can predict: as given, or a fitted clone.

    Parameters
    ----------
    estimator : estimator
        What to use or to fit; never changed.
    X : {array-like, sparse matrix} of shape (m, d)
        Rows to fit to. To rows in parts no estimator is fitted.
    y : array-like of shape (m,) or None
        Targets to fit to. Only a clone needs them.
    prefit : bool or "auto"
        Whether `estimator` is used as it is; "auto" finds out.

    Raises
    ------
    NotFittedError
        If `prefit` is True and the estimator is not fitted.
    ValueError
        If the estimator must be fitted and there is no `y`, or the rows are in
        parts.
    """
    fitted = is_fitted(estimator)
    if prefit is True and not fitted:
        raise NotFittedError(
            f"prefit=True, but this {type(estimator).__name__} is not fitted. Fit it "
            'first, or use prefit="auto" to have a clone fitted.'
        )
    if prefit is not False and fitted:
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
    with long_blas_call():  # as many threads as its own fit takes
        return clone(estimator).fit(X, y)
