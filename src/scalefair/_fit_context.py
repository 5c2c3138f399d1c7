"""scikit-learn's context of a fit, with a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import _fit_context

__all__ = ["fit_context"]

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check the parameters of an estimator before it is fitted.

    The decorator of scikit-learn is untyped and would make what it decorates Any.
    """
    context: Callable[[Method], Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return context
