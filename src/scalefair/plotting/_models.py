"""What models give to rows of groups: read, checked, and its densities."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._docs import documented
from scalefair._groups import encode_groups
from scalefair.plotting._draw import TEXTS

# Points at which a kernel density is drawn, and how far beyond the values, in
# standard deviations of the kernel.
_GRID, _BEYOND = 400, 3.0


@documented(**TEXTS)
class ModelDisplay:
    """Base of displays of what models give to rows of groups."""

    # What scores rows, and parameters of models that `from_predictions` has, too.
    _method: str
    _settings: tuple[str, ...] = ()

    from_predictions: Any

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw what fitted models give to rows.

        Parameters
        ----------
        estimator : estimator, or mapping of str to estimators
            Fitted classifier with `decision_function`, or regressor; or several, by
            their names, if the display is of several. Each is given the groups if it
            takes them.
        %(X)s
        %(sensitive_features)s
        name : str or None, default=None
            Name of a single model; None takes its class.
        **options : dict
            Further parameters of `from_predictions`, such as `ax`. Where it has an
            `interval` and a `kappa`, None takes those of the models if all that have
            one agree.

        %(drawn)s
        %(as_for_predictions)s
        """
        models = by_name(estimator, name, type(estimator).__name__)
        for setting in cls._settings:
            if options.get(setting) is None:
                options[setting] = _common(models, setting)
                if options[setting] is None:
                    del options[setting]
        found = {
            key: apply(model, cls._method, X, sensitive_features)
            for key, model in models.items()
        }
        groups = {"sensitive_features": sensitive_features}
        display: Self = cls.from_predictions(found, **groups, **options)
        return display


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


def _common(models: Mapping[str, Any], name: str) -> Any:
    """Return the value of a parameter if all models that have it agree, else None."""
    values = [getattr(model, name) for model in models.values() if hasattr(model, name)]
    agree = all(np.array_equal(value, values[0]) for value in values)
    return values[0] if values and agree else None


def check_rows(
    given: Mapping[str, ArrayLike], sensitive_features: ArrayLike, what: str
) -> tuple[list[NDArray[np.float64]], NDArray[Any], NDArray[np.int64]]:
    """Return each model's numbers for the rows, the groups, and each row's group."""
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
    groups, codes = encode_groups(sensitive_features, sizes.pop())
    if groups.size < 2:
        raise ValueError(
            f"sensitive_features has only one group, {groups[0]!r}; two or more are "
            "compared."
        )
    return found, groups, codes


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


def densities(
    outputs: list[NDArray[Any]],
    groups: NDArray[Any],
    codes: NDArray[np.int64],
    kind: str,
    bins: int | ArrayLike,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid, or edges, for all; the density of each model for each group."""
    parts = [values[codes == g] for values in outputs for g in range(groups.size)]
    if kind == "histogram":
        grid = np.histogram_bin_edges(np.concatenate(outputs), bins)
        counts = np.array([np.histogram(part, grid)[0] for part in parts])
        # A share of all rows of the group: the edges given may leave some out.
        sizes = np.array([[part.size] for part in parts])
        found = counts / (sizes * np.diff(grid))
    elif kind == "kde":
        grid, found = _kernel_densities(parts, groups.tolist() * len(outputs))
    else:
        raise ValueError(f"kind must be 'histogram' or 'kde', got {kind!r}.")
    return grid, found.reshape(len(outputs), groups.size, -1)


def _kernel_densities(
    parts: list[NDArray[Any]], groups: list[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid that covers all parts, and their densities."""
    from scipy.stats import gaussian_kde

    for group, part in zip(groups, parts, strict=True):
        # The square of what is next to nothing is nothing.
        if not part.var() > 0:
            raise ValueError(
                f"Group {group!r} has no kernel density: its values are all the same, "
                "or nearly so. Use kind='histogram'."
            )
    kernels = [gaussian_kde(part) for part in parts]
    reach = [_BEYOND * np.sqrt(kernel.covariance[0, 0]) for kernel in kernels]
    low = min(part.min() - r for part, r in zip(parts, reach, strict=True))
    high = max(part.max() + r for part, r in zip(parts, reach, strict=True))
    grid = np.linspace(low, high, _GRID)
    return grid, np.array([kernel(grid) for kernel in kernels])


def check_densities(
    given: ArrayLike, grid: NDArray[Any], *shape: int
) -> NDArray[np.float64]:
    """Return densities of this shape, and as many values as the grid or its bins."""
    array = np.asarray(given, dtype=np.float64)
    fitting = (*shape, grid.size), (*shape, grid.size - 1)
    if array.shape not in fitting:
        raise ValueError(
            f"With {shape[-1]} groups and {grid.size} points of the grid, densities "
            f"must have shape {fitting[0]} or, for histograms, {fitting[1]}, got "
            f"{array.shape}."
        )
    return array


def outline(
    grid: NDArray[Any], density: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the curve of a density, or the outline of a histogram's bars."""
    if density.size == grid.size:
        return grid, density
    return np.repeat(grid, 2), np.pad(np.repeat(density, 2), 1)
