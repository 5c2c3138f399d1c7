"""Tables of runs of several methods, row by row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["rows_of", "stack_repeats"]


def rows_of(results: Any, names: list[str]) -> Iterable[Mapping[str, Any]]:
    """Rows of a DataFrame, of a mapping of columns, or of a list of mappings."""
    if hasattr(results, "columns") or isinstance(results, Mapping):
        missing = [name for name in names if name not in results]
        if missing:
            raise _no_column(missing[0])
        columns = [list(results[name]) for name in names]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("The columns of results differ in length.")
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))
        return
    for row in results:
        missing = [name for name in names if name not in row]
        if missing:
            raise _no_column(missing[0])
        yield row


def _no_column(name: str) -> ValueError:
    return ValueError(
        f"results has no column {name!r}. Name the columns with method, setting, "
        "accuracy and fairness."
    )


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
    return np.array(list(points.values()), dtype=np.float64)
