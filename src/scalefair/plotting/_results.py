"""Tables of runs of several methods, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_of", "setting_of", "stack_repeats"]


def rows_of(results: Any, names: Mapping[str, str]) -> Iterable[Mapping[str, Any]]:
    """Rows of a DataFrame, of a mapping of columns, or of a list of mappings.

    Parameters
    ----------
    results : DataFrame, mapping of str to columns, or iterable of mappings
        The table.
    names : mapping of str to str
        Names of the columns that are needed, by the parameter that tells each.
    """
    if hasattr(results, "columns") or isinstance(results, Mapping):
        _check_columns(results, names, "results")
        columns = {name: list(results[name]) for name in names.values()}
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"The columns of results differ in length: {lengths}.")
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))
        return
    for i, row in enumerate(results):
        _check_columns(row, names, f"row {i} of results")
        yield row


def _check_columns(table: Any, names: Mapping[str, str], what: str) -> None:
    for parameter, name in names.items():
        if name not in table:
            raise ValueError(
                f"{what} has no column {name!r}. Say with the parameter {parameter!r} "
                "which column to take."
            )


def setting_of(row: Mapping[str, Any], column: str) -> Any:
    """Return the setting of a run, None for the NaN of methods that have none."""
    setting = row[column]
    return None if isinstance(setting, Real) and setting != setting else setting


def stack_repeats(
    name: str, points: dict[Any, list[tuple[float, float]]]
) -> NDArray[Any]:
    """Return the runs of a method as an array (n_points, n_repeats, 2)."""
    counts = {point: len(runs) for point, runs in points.items()}
    if len(set(counts.values())) > 1:
        few = min(counts, key=lambda point: counts[point])
        raise ValueError(
            f"The settings of {name!r} differ in the number of repeats: {few!r} has "
            f"{counts[few]}, another has {max(counts.values())}. Run what is missing "
            "or leave the setting out."
        )
    try:
        return np.array(list(points.values()), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"The measures of {name!r} must be numbers, but {error}."
        ) from error
