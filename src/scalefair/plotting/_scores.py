"""Scores and outputs of rows, from arrays or from fitted models, and groups."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._groups import encode_groups

__all__ = [
    "as_mapping",
    "check_scores",
    "common_setting",
    "groups_of",
    "models_by_name",
    "name_of",
    "predict_rows",
    "score_rows",
]


def as_mapping(given: Any, name: str | None = None) -> dict[str, Any]:
    """Return several things by name; a single one gets `name`, or "scores"."""
    if isinstance(given, Mapping):
        if not given:
            raise ValueError("There is nothing to draw: give at least one model.")
        if name is not None:
            raise ValueError("name applies to a single model; here the keys are names.")
        return {str(key): value for key, value in given.items()}
    return {"scores" if name is None else name: given}


def models_by_name(given: Any, name: str | None = None) -> dict[str, Any]:
    """Return several models by name; a single one has that of its class, or `name`."""
    if name is None and not isinstance(given, Mapping):
        name = type(given).__name__
    return as_mapping(given, name)


def name_of(values: Any) -> str:
    """Return the name of a pandas Series, nothing if there is none."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else ""


def check_scores(
    scores: ArrayLike, name: str, what: str = "score"
) -> NDArray[np.float64]:
    """Return the scores as float64, or say what is wrong."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError(
            f"{name} must be one-dimensional with one {what} per row, got shape "
            f"{values.shape}."
        )
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"{name} has a {what} that is NaN or infinite, the first at position "
            f"{first}. Leave such rows out."
        )
    return values


def groups_of(
    sensitive_features: ArrayLike, n_rows: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return groups, at least two, and the code of each row."""
    groups, codes = encode_groups(sensitive_features, n_rows)
    if groups.size < 2:
        raise ValueError(
            f"sensitive_features has only one group, {groups[0]!r}; two or more are "
            "compared."
        )
    return groups, codes


def common_setting(estimators: Mapping[str, Any], name: str) -> Any:
    """Return the value of a parameter if all that have it agree, else None."""
    values = [getattr(e, name) for e in estimators.values() if hasattr(e, name)]
    agree = all(np.array_equal(value, values[0]) for value in values)
    return values[0] if values and agree else None


def score_rows(estimator: Any, X: Any, sensitive_features: ArrayLike) -> NDArray[Any]:
    """Return the scores of a fitted classifier, which may need the groups."""
    check_is_fitted(estimator)
    score = getattr(estimator, "decision_function", None)
    if score is None:
        raise ValueError(
            f"{type(estimator).__name__} has no decision_function. Compute scores and "
            "use from_predictions."
        )
    scores = _call(score, X, sensitive_features)
    return check_scores(scores, f"decision_function of {type(estimator).__name__}")


def predict_rows(estimator: Any, X: Any, sensitive_features: ArrayLike) -> Any:
    """Return the outputs of a fitted regressor, which may need the groups."""
    check_is_fitted(estimator)
    return _call(estimator.predict, X, sensitive_features)


def _call(method: Any, X: Any, sensitive_features: ArrayLike) -> Any:
    """Call a method, with the groups if it takes them."""
    if "sensitive_features" in inspect.signature(method).parameters:
        return method(X, sensitive_features=sensitive_features)
    return method(X)
