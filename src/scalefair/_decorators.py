"""Decorators of scikit-learn, with types; a fit runs BLAS on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if as _available_if

from scalefair._threads import single_blas_thread

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # before scikit-learn 1.9 there are no callbacks

    class _NoCallbacks:
        """A context of callbacks that does nothing."""

        def subcontext(self, **_: Any) -> Self:
            return self

        call_on_fit_task_begin = call_on_fit_task_end = subcontext

    class CallbackSupportMixin:  # type: ignore[no-redef]
        def _init_callback_context(self, **_: Any) -> _NoCallbacks:
            return _NoCallbacks()

    def _with_callbacks(method: Any) -> Any:
        return method


Method = TypeVar("Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check the parameters of an estimator, then fit it with BLAS on one thread."""
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
