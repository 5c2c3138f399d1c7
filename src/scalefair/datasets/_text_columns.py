"""Read a table with a header whose columns hold numbers or words."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalefair.datasets._tables import naming

# Lines before the first row, the header, and lines count from 1.
_FIRST_LINE = 2


def read_columns(
    path: Path, names: Sequence[str], *, delimiter: str
) -> dict[str, NDArray[np.str_]]:
    """Return the columns of a text file by name, as strings.

    The file may be gzip-compressed. Its header must hold exactly the names, in order.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with naming(path), opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        header = next(rows, [])
        if header != list(names):
            raise ValueError(
                f"its header must be {delimiter.join(names)}, got "
                f"{delimiter.join(header)[:200]!r}"
            )
        table = list(rows)
        if not table:
            raise ValueError("it has no rows")
        wrong = [i for i, row in enumerate(table) if len(row) != len(names)]
        if wrong:
            raise ValueError(
                f"line {wrong[0] + _FIRST_LINE} has {len(table[wrong[0]])} entries "
                f"instead of {len(names)}"
            )
    columns = zip(*table, strict=True)
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}


def as_numbers(column: NDArray[np.str_], name: str, path: Path) -> NDArray[np.float64]:
    """Return a column as finite numbers, or say which entry is not."""
    try:
        numbers = column.astype(np.float64)
    except ValueError:
        numbers = np.array([_number(entry) for entry in column])
    _refuse(~np.isfinite(numbers), column, f"{name} must hold finite numbers", path)
    return numbers


def as_labels(column: NDArray[np.str_], name: str, path: Path) -> NDArray[np.int64]:
    """Return a column as labels 0 and 1, or say which entry is none."""
    numbers = as_numbers(column, name, path)
    _refuse(~np.isin(numbers, (0, 1)), column, f"{name} must hold 0 or 1", path)
    return numbers.astype(np.int64)


def check_words(
    column: NDArray[np.str_], known: Sequence[str], name: str, path: Path
) -> NDArray[np.str_]:
    """Return a column of known words, or say which one is unknown."""
    unknown = ~np.isin(column, known)
    _refuse(unknown, column, f"{name} must hold one of {list(known)}", path)
    return column


def _number(entry: np.str_) -> float:
    try:
        return float(entry)
    except ValueError:
        return np.nan


def _refuse(
    wrong: NDArray[np.bool_], column: NDArray[np.str_], rule: str, path: Path
) -> None:
    """Raise for the first wrong entry of a column, if there is one."""
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{path} is not the expected file: column {rule}, got "
            f"{str(column[row])!r} in line {row + _FIRST_LINE}."
        )
