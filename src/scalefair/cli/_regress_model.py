"""Open the saved estimator of ``scalefair regress``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure, blame_file, warn

__all__ = ["Model", "load_model"]

# Rows that are predicted at a time.
_ROWS = 2**16


@dataclass(frozen=True)
class Model:
    """A saved estimator, and the columns that it takes.

    Attributes
    ----------
    path : Path
        The file.
    estimator : regressor
        Fitted.
    names : list of str or None
        Names of the columns, if it was fitted to named ones.
    n_features : int or None
        Number of columns, if it tells.
    """

    path: Path
    estimator: Any
    names: list[str] | None
    n_features: int | None

    def predict(self, X: Any, rows: Path) -> NDArray[np.float64]:
        """Predictions of the rows of the file `rows`; a Failure if it cannot."""
        try:
            found = predict(self.estimator, X)
        except (OSError, MemoryError):
            raise
        # What can go wrong depends on what is in the file.
        except Exception as error:
            raise Failure(
                f"{rows}: {self.path} cannot predict these rows "
                f"({type(error).__name__}: {error}). Check that they are such as it "
                "was fitted to, and that it was saved by these versions."
            ) from error
        if found.ndim != 1:
            raise Failure(
                f"{self.path}: predicts {found.shape[1]} numbers for a row; there is "
                "one --target. Save a model of one output."
            )
        bad = np.flatnonzero(~np.isfinite(found))
        if bad.size:
            raise Failure(
                f"{rows}: {self.path} predicts {found[bad[0]]} for row {bad[0]} "
                "(counted from 0). Check the scale of the columns."
            )
        return found


def predict(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Predictions, some thousand rows at a time; one column becomes a vector."""
    rows = getattr(X, "iloc", X)  # of a DataFrame
    starts = range(0, X.shape[0], _ROWS)
    parts = [estimator.predict(rows[start : start + _ROWS]) for start in starts]
    found = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    return found.ravel() if found.shape[1:] == (1,) else found


def load_model(path: Path) -> Model:
    """Open a file of joblib and look at what is in it.

    Parameters
    ----------
    path : Path
        The file. Code in it is run: it must be trusted.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold a fitted regressor.
    """
    estimator = _load(path)
    name = type(estimator).__name__
    if isinstance(estimator, type) or not hasattr(estimator, "predict"):
        held = estimator.__name__ if isinstance(estimator, type) else name
        kind = "the class" if isinstance(estimator, type) else "an object of type"
        raise Failure(
            f"{path}: holds {kind} {held}, not a fitted regressor. Save the regressor "
            "itself: joblib.dump(model, file)."
        )
    _refuse_other_estimators(path, estimator, name)
    names = getattr(estimator, "feature_names_in_", None)
    n_features = getattr(estimator, "n_features_in_", None)
    return Model(
        path,
        estimator,
        None if names is None else [str(column) for column in names],
        None if n_features is None else int(n_features),
    )


def _load(path: Path) -> Any:
    import joblib

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with blame_file(path), open(path, "rb") as file:
            try:
                estimator = joblib.load(file)
            except (OSError, MemoryError):
                raise
            except ImportError as error:
                raise Failure(
                    f"{path}: needs a module that is missing here ({error}). Install "
                    "what the model was made with."
                ) from error
            # What can go wrong depends on what is in the file.
            except Exception as error:
                raise Failure(
                    f"{path}: not an estimator saved by joblib.dump, or damaged, or "
                    f"made with other versions ({type(error).__name__}: {error}). Save "
                    "it again."
                ) from error
    for warning in caught:
        if issubclass(warning.category, UserWarning):  # such as other versions
            warn(f"{path}: {warning.message}")
    return estimator


def _refuse_other_estimators(path: Path, estimator: Any, name: str) -> None:
    from sklearn.base import BaseEstimator, is_classifier, is_regressor
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(estimator, BaseEstimator):
        return  # what has the interface only is for the layers to judge
    if is_classifier(estimator):
        raise Failure(
            f"{path}: holds a classifier, {name}; the groups' predictions are compared "
            "as numbers. Save a regressor, or train by scalefair classify."
        )
    if not is_regressor(estimator):
        raise Failure(f"{path}: holds {name}, which is no regressor. Save a regressor.")
    try:
        check_is_fitted(estimator)
    except NotFittedError as error:
        raise Failure(
            f"{path}: holds {name}, which is not fitted yet. Fit it before it is saved."
        ) from error
