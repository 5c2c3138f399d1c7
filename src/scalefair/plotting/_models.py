"""Outputs of fitted models for rows with groups: computed and checked."""

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
    """Return the class method `from_estimator` that belongs to `from_predictions`.

    It has the same options. Those named in `settings` are by default those of the
    models. Its docstring needs the text ``options_of_models`` of the class.
    """

    def from_estimator(
        cls: Any,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        name: str | None = None,
        **options: Any,
    ) -> Any:
        """Draw the outputs of fitted models for rows.

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
        # Settings that are not passed are those of the models, if they agree.
        for setting in settings:
            if options.get(setting) is None:
                options[setting] = common_setting(models.values(), setting)
            if options[setting] is None:
                del options[setting]  # the default
        outputs = {
            key: call_method(model, method, X, sensitive_features)
            for key, model in models.items()
        }
        options["sensitive_features"] = sensitive_features
        return cls.from_predictions(outputs, **options)

    # The signature: the parameters of both, each once.
    function, made = from_predictions.__func__, from_estimator
    signature = inspect.signature(function)
    parameters = dict(inspect.signature(made).parameters)
    del parameters["options"]
    for key, parameter in list(signature.parameters.items())[2:]:
        if key in settings:
            parameter = parameter.replace(default=None, annotation=Any)
        parameters.setdefault(key, parameter)
    vars(made)["__signature__"] = signature.replace(
        parameters=list(parameters.values())
    )
    made.__module__ = function.__module__
    made.__qualname__ = function.__qualname__.replace("predictions", "estimator")
    return classmethod(cast(Any, made))


def by_name(values: Any, name: str | None, default: str) -> dict[str, Any]:
    """Return a mapping with names as keys; a single value gets `name` or `default`."""
    if not isinstance(values, Mapping):
        return {default if name is None else name: values}
    if not values:
        raise ValueError("There is nothing to draw: give at least one model.")
    if name is not None:
        raise ValueError("name applies to a single model; here the keys are names.")
    return {str(key): value for key, value in values.items()}


def series_name(values: Any) -> str:
    """Return the name of a pandas Series, an empty string if there is none."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else ""


def call_method(model: Any, method: str, X: Any, sensitive_features: ArrayLike) -> Any:
    """Call a method of a fitted model; it is given the groups if it takes them."""
    check_is_fitted(model)
    bound = getattr(model, method, None)
    if bound is None:
        raise ValueError(
            f"{type(model).__name__} has no {method}. Compute what it would return and "
            "use from_predictions."
        )
    if "sensitive_features" in inspect.signature(bound).parameters:
        return bound(X, sensitive_features=sensitive_features)
    return bound(X)


def common_setting(models: Iterable[Any], name: str) -> Any:
    """Return a parameter of the models if all that have it agree, else None."""
    values = [getattr(model, name) for model in models if hasattr(model, name)]
    agree = all(np.array_equal(value, values[0]) for value in values)
    return values[0] if values and agree else None


def compared_rows(
    condition: str | None, y_true: ArrayLike | None, n_rows: int
) -> dict[str, Any]:
    """Return the sets of rows that are compared, by the suffix of their names.

    The condition is the parameter `given` of the displays.
    """
    if condition is None:
        return {"": slice(None)}
    if condition not in ("positive", "label") or y_true is None:
        raise ValueError(
            'given is None, "positive" or "label", and not None needs y_true, the '
            f"label of each row; got given={condition!r}."
        )
    labels, codes = encode_values(
        check_values(y_true, name="y_true", noun="label"), name="y_true"
    )
    if len(codes) != n_rows or len(labels) != 2:
        raise ValueError(
            f"y_true must have one of two labels for each of {n_rows} rows, got "
            f"{len(labels)} different ones for {len(codes)} rows."
        )
    chosen = [1] if condition == "positive" else [1, 0]
    names = labels.tolist()
    return {f", labelled {names[k]}": codes == k for k in chosen}


def check_outputs(
    outputs: Mapping[str, ArrayLike],
    sensitive_features: ArrayLike,
    quantity: str,
    attributes: str = "joint",
) -> tuple[list[NDArray[np.float64]], list[Attribute]]:
    """Return the outputs of each model as arrays, and the attributes compared."""
    arrays = [
        _check_output(output, f"{quantity} of {name!r}" if name else quantity)
        for name, output in outputs.items()
    ]
    sizes = {len(array) for array in arrays}
    if len(sizes) > 1:
        raise ValueError(
            f"All models must have {quantity} for the same rows, but some have "
            f"{min(sizes)} and some {max(sizes)}."
        )
    compared = compared_attributes(sensitive_features, sizes.pop(), attributes)
    check_compared(compared, "a figure of all rows")
    return arrays, compared


def _check_output(output: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return an array with one finite number for each row."""
    array = np.asarray(output, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # as some regressors return a single output
    if array.ndim != 1 or not array.size:
        raise ValueError(
            f"{name} must be one-dimensional with one number per row, got shape "
            f"{array.shape}."
        )
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        raise ValueError(
            f"{name} has a value that is NaN or infinite, the first at position "
            f"{is_bad.argmax()}. Leave such rows out."
        )
    return array
