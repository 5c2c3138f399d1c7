"""What displays are drawn from: outputs of models, tables of runs; checked.

The displays share their constructors: `from_estimator` asks models for outputs and is
made from `from_predictions`, which computes; the class itself only draws.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import pandas
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import checked_call
from scalefair._groups import Attribute, GroupCodes, samples_by_label
from scalefair._membership import Membership, check_one_of

# Arrays of shape (n_points, n_repeats) by name of the method.
Measures = dict[str, NDArray[np.float64]]
Weights = NDArray[np.float64] | None  # of rows; None: all are 1


def estimator_method(
    from_predictions: Any, method: str, settings: tuple[str, ...] = ()
) -> Any:
    """Return the class method `from_estimator` that belongs to `from_predictions`.

    It has the same options. Those named in `settings` are by default those of the
    models. Its docstring needs the text ``options_of_models`` of the class.
    """

    @checked_call
    def from_estimator(
        cls: Any,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
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
        %(group_probabilities)s
        %(sample_weight)s
        name : str or None, default=None
            Name of a single model; None takes its class.
        %(options_of_models)s
        %(as_for_predictions)s
        """
        check_one_of(sensitive_features, group_probabilities)
        models = by_name(estimator, name, type(estimator).__name__)
        chosen = {setting: options.pop(setting, None) for setting in settings}
        options |= fill_settings(models.values(), chosen)
        outputs = {
            key: call_method(model, method, X, sensitive_features)
            for key, model in models.items()
        }
        options |= {
            "sensitive_features": sensitive_features,
            "group_probabilities": group_probabilities,
            "sample_weight": sample_weight,
        }
        return cls.from_predictions(outputs, **options)

    # The signature: the parameters of both, each once. The first two of
    # `from_predictions`, the class and the outputs, are not options.
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


def call_method(
    model: Any, method: str, X: Any, sensitive_features: ArrayLike | None
) -> Any:
    """Call a method of a fitted model; it is given the groups if it takes them.

    A model that needs the groups cannot be drawn by their probabilities.
    """
    check_is_fitted(model)
    bound = getattr(model, method, None)
    if bound is None:
        raise ValueError(
            f"{type(model).__name__} has no {method}. Compute what it would return and "
            "use from_predictions."
        )
    parameter = inspect.signature(bound).parameters.get("sensitive_features")
    if parameter is None or sensitive_features is None:
        if parameter is not None and parameter.default is parameter.empty:
            raise ValueError(
                f"{method} of {type(model).__name__} takes the group of each row; "
                "group_probabilities do not say which. Compute what it would return "
                "and use from_predictions."
            )
        return bound(X)
    return bound(X, sensitive_features=sensitive_features)


def fill_settings(models: Iterable[Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings; for None that of the models that have it, if all agree.

    A setting that has no value then is left out: the display has its default.
    """
    filled = {}
    for name, setting in settings.items():
        if setting is None:
            values = [getattr(model, name) for model in models if hasattr(model, name)]
            if values and all(np.array_equal(value, values[0]) for value in values):
                setting = values[0]
        if setting is not None:
            filled[name] = setting
    return filled


def compared_rows(
    condition: str | None, y_true: ArrayLike | None, n_rows: int
) -> dict[str, NDArray[np.bool_]]:
    """Return the sets of rows that are compared, by the suffix of their names."""
    if condition is None:
        return {"": np.ones(n_rows, dtype=bool)}
    rows_by_kind = samples_by_label(y_true, n_rows, condition)
    negative, positive = np.unique(np.asarray(y_true)).tolist()
    labels = {"positive": positive, "negative": negative}
    return {f", labelled {labels[kind]}": x for kind, x in rows_by_kind.items()}


def check_outputs(
    outputs: Mapping[str, ArrayLike],
    sensitive_features: ArrayLike | None,
    group_probabilities: ArrayLike | None,
    quantity: str,
    attributes: str = "joint",
    sample_weight: ArrayLike | None = None,
) -> tuple[list[NDArray[np.float64]], Membership]:
    """Return the outputs of each model as arrays, and which rows count for groups.

    `quantity` names the outputs in messages: scores, y_pred.
    """
    arrays = []
    for name, output in outputs.items():
        array = np.asarray(output, dtype=np.float64)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]  # as some regressors return a single output
        subject = f"{quantity} of {name!r}" if name else quantity
        arrays.append(as_array(array, subject, ("n_samples",)))
    sizes = {len(array) for array in arrays}
    if len(sizes) > 1:
        raise ValueError(
            f"All models must have {quantity} for the same rows, but some have "
            f"{min(sizes)} and some {max(sizes)}."
        )
    members = Membership.of(
        sensitive_features,
        group_probabilities,
        sizes.pop(),
        sample_weight=sample_weight,
        attributes=attributes,
        alternative="a figure of all rows",
    )
    return arrays, members


def as_arguments(
    members: Membership, group_probabilities: ArrayLike | None
) -> dict[str, Any]:
    """Return groups as arguments of metrics, which do not warn of them once more."""
    if members.rows is not None:
        return {"group_probabilities": group_probabilities}
    codes = np.column_stack([attribute.codes for attribute in members.compared])
    return {"sensitive_features": codes.view(GroupCodes), "attributes": "each"}


def values_of_group(
    members: Membership,
    attribute: Attribute,
    k: int,
    values: NDArray[np.float64],
    rows: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], Weights]:
    """Return values of selected rows in group `k` of an attribute, and their weights.

    Rows that may be of the group are there, with the weights of their entries in
    `members`; rows without weight are left out.
    """
    is_member = members.take(rows) & (attribute.codes == k)
    values, weights = members.take(values), members.weights
    if weights is None:
        return values[is_member], None
    is_member &= weights > 0
    return values[is_member], weights[is_member]


def as_array(
    values: Any, name: str, *shapes: tuple[int | str, ...]
) -> NDArray[np.float64]:
    """Return an array of finite numbers that has one of the shapes.

    A name in a shape stands for any length but zero.
    """
    array = np.asarray(values, dtype=np.float64)
    is_fitting = any(
        len(shape) == array.ndim
        and all(
            m > 0 if isinstance(n, str) else n == m
            for n, m in zip(shape, array.shape, strict=True)
        )
        for shape in shapes
    )
    if not is_fitting:
        texts = [str(shape).replace("'", "") for shape in shapes]
        raise ValueError(
            f"{name} must have shape {' or '.join(texts)}, got {array.shape}."
        )
    is_bad = ~np.isfinite(array)
    if is_bad.any():
        first = np.argwhere(is_bad)[0].tolist()
        position = first[0] if len(first) == 1 else tuple(first)
        raise ValueError(
            f"{name} has a value that is NaN or infinite, the first at position "
            f"{position}. Replace it, or leave it out."
        )
    return array


def read_runs(
    results: Any,
    method: str,
    measures: Mapping[str, str],
    setting: str | None,
    *,
    repeat: bool,
) -> tuple[list[Measures], dict[str, list[Any]]]:
    """Return each measure of each method, and the settings of those with several.

    `measures` are columns by the parameter that names them. Where there is no setting
    all rows of a method are one point if they may `repeat` one, else a point each.
    Settings that are numbers are sorted if rows may repeat a point.
    """
    # 1. The columns that are read, by parameter.
    if not (hasattr(results, "columns") or isinstance(results, Mapping)):
        results = list(results)
        if not results:
            raise ValueError("results has no rows.")
        results = pandas.DataFrame(results)
    columns = {"method": method, **measures}
    if setting is not None:
        columns["setting"] = setting
    for parameter, column in columns.items():
        if column not in results:
            raise ValueError(
                f"results has no column {column!r}. Say with the parameter "
                f"{parameter!r} which column to take."
            )
    try:
        frame = pandas.DataFrame({key: list(results[c]) for key, c in columns.items()})
        values = frame[list(measures)].astype(float)
    except ValueError as error:
        raise ValueError(f"The measures in results are no numbers: {error}.") from error
    if frame.empty:
        raise ValueError("results has no rows.")
    if setting is None:
        frame["setting"] = 0 if repeat else range(len(frame))
    # 2. For each method arrays with a row for each setting, a column for each repeat.
    tables: list[Measures] = [{} for _ in measures]
    settings = {}
    for name, part in frame.groupby(frame["method"].map(str), sort=False):
        row_settings = part["setting"].infer_objects()
        codes, points = pandas.factorize(row_settings, use_na_sentinel=False)
        counts = np.bincount(codes)
        if counts.min() < counts.max():
            raise ValueError(
                f"The settings of {name!r} differ in the number of repeats: "
                f"{points.tolist()[counts.argmin()]!r} has {counts.min()}, another has "
                f"{counts.max()}. Run what is missing or leave the setting out."
            )
        # Rows of the same setting one after the other; then an axis of settings, and
        # one of repeats.
        runs = values.loc[part.index[codes.argsort(kind="stable")]].to_numpy()
        runs = runs.reshape(len(points), -1, len(measures))
        if repeat and pandas.api.types.is_numeric_dtype(row_settings):
            order = np.argsort(points)
            runs, points = runs[order], points[order]
        for i, table in enumerate(tables):
            table[str(name)] = runs[..., i]
        if len(points) > 1:
            settings[str(name)] = points.tolist()
    return tables, settings
