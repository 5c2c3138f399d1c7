"""Tables of numbers in text: their layout, and their lines parsed one by one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure
from scalefair.cli._text_table import (
    ID_NAMES,
    data_lines,
    is_integer,
    is_number,
    quote,
    sniff_delimiter,
    split_line,
)

__all__ = [
    "Layout",
    "Selection",
    "as_ids",
    "find_column",
    "find_layout",
    "has_ids",
    "list_names",
    "nonnumeric_columns",
    "parse_lines",
    "row_lines",
]

_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@dataclass(frozen=True)
class Layout:
    """What the first lines of a table tell about the others."""

    path: Path
    delimiter: str | None
    names: list[str] | None  # of all columns, if there is a header
    n_columns: int
    header_at: int  # line of the header, 0 if there is none
    first: int  # line of the first row

    def where(self, number: int, column: int) -> str:
        """Line and column, both counted from 1, for a message."""
        name = f" ({self.names[column]})" if self.names is not None else ""
        return f"{self.path}:{number}: column {column + 1}{name}"


@dataclass(frozen=True)
class Selection:
    """Columns that are read, by position from 0; all others are skipped."""

    features: Sequence[int]
    texts: Sequence[int] = ()
    ids_known: bool = False
    can_drop: bool = False  # whether the command has an option --drop


def find_layout(path: Path, header: bool | None = None) -> Layout:
    """Look at the first lines; None takes a line without a number for a header.

    Raises
    ------
    Failure
        If the file cannot be read or has no rows.
    """
    lines = data_lines(path)
    number, line = next(lines, (0, ""))
    if number == 0:
        raise Failure(f"{path}: is empty: only blank lines and comments.")
    delimiter = sniff_delimiter(line)
    fields = split_line(path, number, line, delimiter)
    names, header_at = None, 0
    # Words beside numbers may be ids, or missing values: for the parser to judge.
    if header or (header is None and not any(map(is_number, fields))):
        names, header_at = fields, number
        number, line = next(lines, (0, ""))
        if number == 0:
            raise Failure(f"{path}: has no rows below the header on line {header_at}.")
    lines.close()
    return Layout(path, delimiter, names, len(fields), header_at, number)


def has_ids(names: Sequence[str] | None) -> bool:
    """Whether the first column is known to hold ids: by its name, or its lack."""
    if not names:  # a parquet file may have no columns
        return False
    return names[0].lower() in ID_NAMES | {""}


def list_names(names: Sequence[str], most: int = 8) -> str:
    """Return the first names, for a message."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def find_column(
    path: Path, names: Sequence[str] | None, n_columns: int, given: str, option: str
) -> int:
    """Position of the column with a given name or, without names, number from 1."""
    if names is not None:
        at = [i for i, name in enumerate(names) if name == given]
        if len(at) != 1:
            found = f"{len(at)} columns are" if at else "no column is"
            raise Failure(
                f"{path}: {found} named {given!r} (columns: {list_names(names)}). "
                f"Check {option}."
            )
        return at[0]
    if not (given.isdecimal() and 1 <= int(given) <= n_columns):
        raise Failure(
            f"{path}: has no header: {option} {given} must be the number of a "
            f"column, 1 to {n_columns}. If the first line is a header, pass --header."
        )
    return int(given) - 1


def nonnumeric_columns(fields: Sequence[str], features: Iterable[int]) -> list[int]:
    """Features whose field in a line is a word, neither a number nor missing."""
    return [
        i
        for i in features
        if not is_number(fields[i]) and fields[i].lower() not in _MISSING
    ]


def parse_lines(
    layout: Layout, lines: Iterable[tuple[int, str]], selection: Selection
) -> tuple[NDArray[np.float64], list[list[str]], array[int]]:
    """Parse lines of any spelling; say of a bad one what is the matter.

    Returns
    -------
    X : ndarray of shape (n_lines, n_features)
        Finite numbers.
    texts : list of list of str
        The fields of each column of `selection.texts`.
    numbers : array of int
        Line numbers of the rows.

    Raises
    ------
    Failure
        If a line has too few or too many fields, or a feature is not a number.
    """
    path, features = layout.path, list(selection.features)
    everything = features == list(range(layout.n_columns))
    values, numbers = array("d"), array("q")
    texts: list[list[str]] = [[] for _ in selection.texts]
    for number, line in lines:
        fields = split_line(path, number, line, layout.delimiter)
        if len(fields) != layout.n_columns:
            top = "the header" if layout.names is not None else f"line {layout.first}"
            raise Failure(
                f"{path}:{number}: expected {layout.n_columns} fields as in {top}, "
                f"found {len(fields)}: {quote(line)}."
            )
        for column, at in zip(texts, selection.texts, strict=True):
            column.append(fields[at])
        wanted = fields if everything else [fields[i] for i in features]
        try:
            values.extend([float(field) for field in wanted])
        except ValueError:
            raise _blame_field(layout, number, wanted, selection) from None
        if "_" in line and any("_" in field for field in wanted):  # 1_000 is a name
            raise _blame_field(layout, number, wanted, selection)
        numbers.append(number)
    X = np.array(values).reshape(len(numbers), len(features))
    invalid = np.argwhere(~np.isfinite(X))
    if invalid.size:
        row = int(invalid[0, 0])
        words = [str(value) for value in X[row].tolist()]
        raise _blame_field(layout, numbers[row], words, selection)
    return X, texts, numbers


def row_lines(layout: Layout) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are rows."""
    return (
        (number, line)
        for number, line in data_lines(layout.path)
        if number >= layout.first
    )


def as_ids(
    names: Sequence[str], numbers: Sequence[int], where: Callable[[int], str], unit: str
) -> NDArray[Any]:
    """Ids as integers if all are, else strings; no two may be the same.

    Parameters
    ----------
    names : sequence of str
        The ids.
    numbers : sequence of int
        Where each was read.
    where : callable
        Place of a number, for messages.
    unit : str
        What is numbered, such as ``"on line"``.
    """
    integers = all(map(is_integer, names))
    ids: list[Any] = [int(name) for name in names] if integers else list(names)
    stated_at: dict[Any, int] = {}
    for number, node in zip(numbers, ids, strict=True):
        if node == "":
            raise Failure(f"{where(number)}: the id is empty. Give each row an id.")
        if node in stated_at:
            raise Failure(
                f"{where(number)}: the id {node} is {unit} {stated_at[node]} as well. "
                "Each row needs an id of its own: choose another --id-column."
            )
        stated_at[node] = number
    return np.array(ids, dtype=np.int64 if integers else object)


def _blame_field(
    layout: Layout, number: int, fields: Sequence[str], selection: Selection
) -> Failure:
    """Say which of the features of a line is no number, and what to do about it."""
    at = next(i for i, field in enumerate(fields) if not _is_finite(field))
    field, column = fields[at], selection.features[at]
    where = layout.where(number, column)
    name = layout.names[column] if layout.names is not None else str(column + 1)
    drop = f"--drop {name}" if selection.can_drop else ""
    if field.lower() in _MISSING:
        remedy = "Fill in missing values or leave the row out"
        remedy += f", or the column with {drop}" if drop else ""
        return Failure(f"{where} has no value. {remedy}.")
    if is_number(field):
        return Failure(f"{where} is {field}; features must be finite.")
    remedy = f"Leave the column out{drop and f' with {drop}'} or encode it as numbers"
    if not selection.ids_known and column == 0:
        remedy += "; if it holds ids, pass --id-column"
    if layout.names is None and number == layout.first:
        remedy += "; if the line is a header, pass --header"
    return Failure(f"{where} is {quote(field)}, which is not a number. {remedy}.")


def _is_finite(field: str) -> bool:
    return is_number(field) and bool(np.isfinite(float(field)))
