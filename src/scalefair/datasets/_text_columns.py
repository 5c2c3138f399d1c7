"""Read a table with a header whose columns hold numbers or words."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_columns(
    path: Path, names: Sequence[str], *, delimiter: str
) -> dict[str, NDArray[np.str_]]:
    """Return the columns of a text file by name, as strings.

    The file may be gzip-compressed. Its header must hold exactly the names, in order.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        header = next(rows, [])
        if header != list(names):
            raise ValueError(
                f"{path} is not the expected table: its header must be "
                f"{delimiter.join(names)}, got {delimiter.join(header)[:200]!r}."
            )
        table = list(rows)
    wrong = [i for i, row in enumerate(table) if len(row) != len(names)]
    if wrong or not table:
        fault = f"line {wrong[0] + 2} has not" if wrong else "there are no rows with"
        raise ValueError(
            f"{path} is not the expected table: {fault} {len(names)} entries."
        )
    columns = zip(*table, strict=True)
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}


def as_numbers(column: NDArray[np.str_], name: str, path: Path) -> NDArray[np.float64]:
    """Return a column as finite numbers, or say which one is not."""
    try:
        numbers = column.astype(np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} is not the expected table: column {name} must hold numbers "
            f"({error})."
        ) from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"{path} has a missing or infinite value in column {name}.")
    return numbers


def check_words(
    column: NDArray[np.str_], known: Sequence[str], name: str, path: Path
) -> NDArray[np.str_]:
    """Return a column of known words, or say which one is unknown."""
    unknown = ~np.isin(column, known)
    if unknown.any():
        raise ValueError(
            f"{path} has the unknown value {str(column[unknown][0])!r} in column "
            f"{name}; expected one of {list(known)}."
        )
    return column


def standardise(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return columns of mean 0 and variance 1 (divided by n); constant ones are 0."""
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
