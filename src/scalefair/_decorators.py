"""Decorators of scikit-learn, with types.

They are untyped there, and what an untyped decorator decorates is Any to its callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.callback import with_callbacks as _with_callbacks
from sklearn.utils.metaestimators import available_if as _available_if

__all__ = ["available_if", "fit_context", "with_callbacks"]

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check the parameters of an estimator before it is fitted."""
    context: Callable[[Method], Method] = _fit_context(
        prefer_skip_nested_validation=prefer_skip_nested_validation
    )
    return context


def with_callbacks(method: Method) -> Method:
    """Let a fit report its progress to callbacks."""
    wrapped: Method = _with_callbacks(method)
    return wrapped


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Make a method an attribute of estimators that pass the check only."""
    decorate: Callable[[Method], Method] = _available_if(check)
    return decorate
