"""scikit-learn's checks of what users give, without warnings of NumPy.

They add up the entries to find those that are not finite, and let NumPy warn of sums
such as inf - inf. Every floor above uses this module.
"""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_array as _check_array
from sklearn.utils.validation import validate_data as _validate_data

from scalefair._entries import judged_later

__all__ = ["check_array", "validate_data"]


def check_array(X: Any, **options: Any) -> Any:
    """Check an array as scikit-learn does."""
    with judged_later():
        return _check_array(X, **options)


def validate_data(
    estimator: Any, X: Any, y: Any = "no_validation", /, **options: Any
) -> Any:
    """Check what an estimator is given, as scikit-learn does."""
    with judged_later():
        return _validate_data(estimator, X, y, **options)
