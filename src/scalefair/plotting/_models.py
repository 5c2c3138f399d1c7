"""What models give to rows of groups, read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._groups import (
    Attribute,
    check_compared,
    check_values,
    compared_attributes,
    encode_values,
)


def estimator_method(
    from_predictions: Any, method: str, settings: tuple[str, ...] = ()
) -> Any:
    """Class method with the parameters of `from_predictions`, for fitted models."""
    # The class's texts have ``options_of_models``; `settings` may be the models'.

    def from_estimator(
        cls: Any,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """Draw what fitted models give to rows.

        Parameters
        ----------
        estimator : estimator, or mapping of str to estimators
            Fitted classifier with `decision_function`, or regressor; or, for displays
            of several, those by name. Each is given the groups if it takes them.
        %(X)s
        %(sensitive_features)s
        name : str or None, default=None
            Name of a single model; None takes its class.
        %(options_of_models)s
        %(as_for_predictions)s
        """
        models = by_name(estimator, name, type(estimator).__name__)
        for setting in settings:
            if options.get(setting) is None:
                options.pop(setting, None)
                options |= common(models.values(), setting)
        found = {
            key: apply(model, method, X, sensitive_features)
            for key, model in models.items()
        }
        groups = {"sensitive_features": sensitive_features}
        return cls.from_predictions(found, **groups, **options)

    drawing, made = from_predictions.__func__, from_estimator
    signature = inspect.signature(drawing)
    parameters = dict(inspect.signature(made).parameters)
    del parameters["options"]
    for key, parameter in list(signature.parameters.items())[2:]:
        if key in settings:
            parameter = parameter.replace(default=None, annotation=Any)
        parameters.setdefault(key, parameter)
    vars(made)["__signature__"] = signature.replace(
        parameters=list(parameters.values())
    )
    made.__module__ = drawing.__module__
    made.__qualname__ = drawing.__qualname__.replace("predictions", "estimator")
    return classmethod(cast(Any, made))


def by_name(given: Any, name: str | None, default: str) -> dict[str, Any]:
    """Return several things by name; a single one gets `name`, or the default."""
    if not isinstance(given, Mapping):
        return {default if name is None else name: given}
    if not given:
        raise ValueError("There is nothing to draw: give at least one model.")
    if name is not None:
        raise ValueError("name applies to a single model; here the keys are names.")
    return {str(key): value for key, value in given.items()}


def series_name(values: Any) -> str:
    """Return the name of a pandas Series, nothing if there is none."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else ""


def apply(model: Any, method: str, X: Any, sensitive_features: ArrayLike) -> Any:
    """Return what a method of a model gives to rows, and to groups if it takes them."""
    check_is_fitted(model)
    call = getattr(model, method, None)
    if call is None:
        raise ValueError(
            f"{type(model).__name__} has no {method}. Compute what it would return and "
            "use from_predictions."
        )
    if "sensitive_features" in inspect.signature(call).parameters:
        return call(X, sensitive_features=sensitive_features)
    return call(X)


def common(models: Iterable[Any], name: str) -> dict[str, Any]:
    """Return a parameter, by its name, if all models that have it agree, else none."""
    values = [getattr(model, name) for model in models if hasattr(model, name)]
    agree = all(np.array_equal(value, values[0]) for value in values)
    return {name: values[0]} if values and agree and values[0] is not None else {}


def compared_rows(
    given: str | None, y_true: ArrayLike | None, n_rows: int
) -> dict[str, Any]:
    """Rows that are compared among each other, by what a name is to have added."""
    if given is None:
        return {"": slice(None)}
    if given not in ("positive", "label") or y_true is None:
        raise ValueError(
            'given is None, "positive" or "label", and not None needs y_true, the '
            f"label of each row; got given={given!r}."
        )
    labels, codes = encode_values(
        check_values(y_true, name="y_true", what="label"), name="y_true"
    )
    if len(codes) != n_rows or len(labels) != 2:
        raise ValueError(
            f"y_true must have one of two labels for each of {n_rows} rows, got "
            f"{len(labels)} different ones for {len(codes)} rows."
        )
    chosen = [1] if given == "positive" else [1, 0]
    names = labels.tolist()
    return {f", labelled {names[k]}": codes == k for k in chosen}


def check_rows(
    given: Mapping[str, ArrayLike],
    sensitive_features: ArrayLike,
    what: str,
    attributes: str = "joint",
) -> tuple[list[NDArray[np.float64]], list[Attribute]]:
    """Return each model's numbers for the rows, and the groups that are compared."""
    found = [
        _check_numbers(values, f"{what} of {name!r}" if name else what)
        for name, values in given.items()
    ]
    sizes = {len(values) for values in found}
    if len(sizes) > 1:
        raise ValueError(
            f"All models must have {what} for the same rows, but some have "
            f"{min(sizes)} and some {max(sizes)}."
        )
    each = compared_attributes(sensitive_features, sizes.pop(), attributes)
    check_compared(each, "a figure of all rows")
    return found, each


def _check_numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a finite number for each row, or say what is wrong."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # as some regressors return a single output
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be one-dimensional with one number per row, got shape "
            f"{array.shape}."
        )
    wrong = ~np.isfinite(array)
    if wrong.any():
        raise ValueError(
            f"{name} has a value that is NaN or infinite, the first at position "
            f"{wrong.argmax()}. Leave such rows out."
        )
    return array
