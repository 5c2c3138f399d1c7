"""Decorators of scikit-learn, with types; checks of how functions are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar, cast

from sklearn.base import _fit_context
from sklearn.utils.metaestimators import available_if as _available_if

from scalefair._entries import check_aligned, refuse_unread
from scalefair._membership import column_labels
from scalefair._messages import ROUTED, listed
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

GROUP_ARGUMENTS = "sensitive_features", "group_probabilities"
GROUP_METHODS = {
    "fit",
    "partial_fit",
    "predict",
    "predict_proba",
    "decision_function",
    "score",
}


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Check groups and parameters of an estimator, then fit it, BLAS on one thread."""
    context = _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)

    def decorate(method: Method) -> Method:
        fit: Method = single_blas_thread()(context(method))
        return checked_call(fit, needs_groups=True)

    return decorate


def checked_call(function: Method, *, needs_groups: bool = False) -> Method:
    """Check the arguments of a function or method: names, order of labels, types.

    Errors name the class of the estimator; Python's would name the private base class.
    Columns of groups are those of `fit`.
    """
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        owner = ""
        if first in ("self", "cls"):
            owner = (args[0] if first == "cls" else type(args[0])).__name__ + "."
        try:
            is_missing = False
            if needs_groups:
                arguments = signature.bind_partial(*args, **kwargs).arguments
                is_missing = all(arguments.get(k) is None for k in GROUP_ARGUMENTS)
            if not is_missing:
                arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            by_name = " Pass groups by name, sensitive_features=."
            hint = by_name * ("too many positional" in str(error))
            raise TypeError(f"{owner}{function.__name__}(): {error}.{hint}") from None
        # A misspelt name was refused above; missing groups are told before a missing y.
        if is_missing:
            _refuse_missing_groups(signature, arguments.get("y"))
        for name, value in arguments.items():
            refuse_unread(value, name)
        check_aligned(arguments)
        is_fit = function.__name__ == "fit"
        labels = column_labels(arguments.get("sensitive_features")) or []
        names = [str(label) for label in labels] if len(labels) > 1 else []
        fitted = getattr(args[0], "_group_columns", []) if first == "self" else []
        if names and fitted and names != fitted and not is_fit:
            # Values need not tell: 0 and 1 of a flag could be those of another.
            raise ValueError(
                f"sensitive_features has the columns {listed(names)}, fit saw "
                f"{listed(fitted)}: give the same ones in the same order."
            )
        result = function(*args, **kwargs)
        if names and needs_groups:
            args[0]._group_columns = names
        elif fitted and is_fit:  # a fit forgets the names of the one before
            del args[0]._group_columns
        return result

    return cast(Method, checked)


def _refuse_missing_groups(signature: inspect.Signature, y: Any) -> None:
    """Raise a TypeError that says how groups are passed."""
    probabilities = ", or group_probabilities=, a column for each group; got neither"
    takes_probabilities = "group_probabilities" in signature.parameters
    hint = ""
    if y is not None and signature.parameters["y"].default is None:
        hint = " If y has the groups, pass them as sensitive_features=."
    raise TypeError(
        "Pass sensitive_features=, the group of each sample"
        f"{probabilities * takes_probabilities}.{hint} {ROUTED}"
    )


class GroupRequests:
    """Groups are requested by default where scikit-learn routes metadata."""

    def __init_subclass__(cls, **options: Any) -> None:
        for name in GROUP_METHODS.intersection(vars(cls)):
            parameters = inspect.signature(getattr(cls, name)).parameters
            request = {group: True for group in GROUP_ARGUMENTS if group in parameters}
            setattr(cls, f"__metadata_request__{name}", request)
        super().__init_subclass__(**options)


def with_callbacks(method: Method) -> Method:
    """Let a fit report its progress to callbacks."""
    wrapped: Method = _with_callbacks(method)
    return wrapped


def available_if(check: Callable[[Any], bool]) -> Callable[[Method], Method]:
    """Make a method an attribute of estimators that pass the check only."""
    decorate: Callable[[Method], Method] = _available_if(check)
    return decorate
