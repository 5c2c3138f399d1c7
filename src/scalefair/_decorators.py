"""Decorators of scikit-learn, with types, and with threads held back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.callback import with_callbacks as _with_callbacks
from sklearn.utils.metaestimators import available_if as _available_if

from scalefair._threads import single_blas_thread

Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check the parameters of an estimator, then fit it with BLAS on one thread."""
    # Two frames are between a fit and who calls it.
    context = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(method: Method) -> Method:
        fit: Method = single_blas_thread()(context(method))
        return fit

    return decorate


def with_callbacks(method: Method) -> Method:
    """Let a fit report its progress to callbacks."""
    wrapped: Method = _with_callbacks(method)
    return wrapped


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Make a method an attribute of estimators that pass the check only."""
    decorate: Callable[[Method], Method] = _available_if(check)
    return decorate
