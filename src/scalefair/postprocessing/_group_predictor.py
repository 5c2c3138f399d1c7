"""Groups of rows that come without one, predicted by a classifier."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalefair.kernels import long_blas_call
from scalefair.postprocessing._prefit import is_fitted

__all__ = ["fit_group_predictor"]

# Scaled features need some tens of steps; this is where something is wrong.
_MAX_ITER = 1000


def fit_group_predictor(predictor: Any, X: Any, labels: NDArray[Any]) -> Any:
    """Return a classifier of groups that can predict.

    Parameters
    ----------
    predictor : classifier or None
        Used as it is if fitted, otherwise cloned and fitted. None stands for
        logistic regression on features scaled to variance one.
    X : {array-like, sparse matrix} of shape (m, d)
        Rows of features, as the classifier takes them.
    labels : ndarray of shape (m,)
        The group of each row, as the user named it.

    Returns
    -------
    classifier
        The fitted classifier.

    Raises
    ------
    ValueError
        If logistic regression was not asked for and cannot read the rows.
    """
    if predictor is not None:
        if is_fitted(predictor):
            return predictor
        with long_blas_call():  # as many threads as its own fit takes
            return clone(predictor).fit(X, labels)
    try:
        return _logistic_regression(X).fit(X, labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Logistic regression of the groups on X failed ({error}). Pass a "
            "group_predictor that reads such rows, or group_predictor=False if "
            "predict will be given sensitive_features."
        ) from error


def _logistic_regression(X: Any) -> Any:
    # Sparse rows are not centred, which would fill them.
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    return make_pipeline(scaler, LogisticRegression(max_iter=_MAX_ITER))
