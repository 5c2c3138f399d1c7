"""Features of rows in parts: recorded and compared as scikit-learn does."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_features"]


def check_features(estimator: Any, rows: Any, *, reset: bool) -> None:
    """Set `n_features_in_` and `feature_names_in_`, or compare with them.

    Parameters
    ----------
    estimator : BaseEstimator
        What is fitted or was.
    rows : PartitionedRows
        Rows with a shape and feature names.
    reset : bool
        Whether the attributes are set.

    Raises
    ------
    ValueError
        If there are other features than in `fit`.
    """
    n_features, names = rows.shape[1], rows.feature_names
    if reset:
        estimator.n_features_in_ = n_features
        vars(estimator).pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if names is not None and fitted is not None and list(names) != list(fitted):
        raise ValueError(
            "The feature names should match those that were passed during fit; the "
            f"first that differs is {_first_difference(names, fitted)}."
        )


def _first_difference(names: Any, fitted: Any) -> str:
    pairs = zip(names, fitted, strict=True)
    i, (name, expected) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
    return f"{name!r} instead of {expected!r} (column {i})"
