"""Read rows of features from a table of text."""

from __future__ import annotations

import re
import warnings
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._edge_list import is_edge_header
from scalefair.cli._errors import Failure
from scalefair.cli._rows import Rows
from scalefair.cli._text_table import (
    ID_NAMES,
    data_lines,
    sniff_delimiter,
    split_fields,
)

__all__ = ["read_row_table"]

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@dataclass(frozen=True)
class _Layout:
    delimiter: str | None
    names: list[str] | None  # of all columns, if there is a header
    n_columns: int
    first: int  # line of the first row
    id_at: int | None  # column of the ids


def read_row_table(
    path: Path, *, header: bool | None = None, id_column: str | None = None
) -> Rows:
    """Read rows of numbers, one per line.

    The delimiter (tab, comma or white space) is that of the first line. Lines that
    start with ``#`` or ``%`` are comments.

    Parameters
    ----------
    path : Path
        Text file; with a name ending in ``.gz``, compressed.
    header : bool or None, default=None
        Whether the first line is a header. None takes a line without a number for
        one.
    id_column : str or None, default=None
        Column that holds the ids of the rows: its name or, if there is no header,
        its number from 1. None takes the first column if the header calls it
        ``id``, ``node_id``, ``user_id`` or the like, or gives it no name; without
        such a column ids are row numbers from 0. Ids are integers if all are, else
        strings.

    Returns
    -------
    Rows

    Raises
    ------
    Failure
        If the file or a line cannot be read, a value is missing or not a finite
        number, lines differ in length, or two rows have the same id.
    """
    layout = _find_layout(path, header, id_column)
    X = _parse_numbers(path, layout)
    if X is not None and np.isfinite(X).all():
        return Rows(path, X, np.arange(len(X), dtype=np.int64), named=False)
    X, node_ids = _parse_lines(path, layout)
    return Rows(path, X, node_ids, named=layout.id_at is not None)


def _find_layout(path: Path, header: bool | None, id_column: str | None) -> _Layout:
    lines = data_lines(path)
    number, line = next(lines, (0, ""))
    if number == 0:
        raise Failure(f"{path}: is empty: only blank lines and comments.")
    delimiter = sniff_delimiter(line)
    fields = _split(path, number, line, delimiter)
    names = None
    if _is_header(path, number, fields, header):
        names, above = fields, number
        number, line = next(lines, (0, ""))
        if number == 0:
            raise Failure(f"{path}: has no rows below the header on line {above}.")
    lines.close()
    id_at = _find_id_column(path, fields, names, id_column)
    if len(fields) == (id_at is not None):
        raise Failure(f"{path}: has ids, but no column of numbers beside them.")
    return _Layout(delimiter, names, len(fields), number, id_at)


def _is_header(path: Path, number: int, fields: list[str], header: bool | None) -> bool:
    if header is not None:
        return header
    numeric = [_as_number(field) is not None for field in fields]
    if any(numeric):
        # Words that may be ids, or missing values, are for the parser to judge.
        return False
    if len(fields) in (2, 3) and is_edge_header(fields):
        raise Failure(
            f"{path}:{number}: `{', '.join(fields)}` is the header of an edge list, "
            "but rows of features are expected. For a graph leave --affinity out; if "
            "these are features, pass --header."
        )
    return True


def _find_id_column(
    path: Path, fields: list[str], names: list[str] | None, id_column: str | None
) -> int | None:
    if id_column is None:
        known = names is not None and names[0].lower() in ID_NAMES | {""}
        return 0 if known else None
    if names is not None:
        at = [i for i, name in enumerate(names) if name == id_column]
        if len(at) != 1:
            listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            found = f"{len(at)} columns are" if at else "no column is"
            raise Failure(f"{path}: {found} named {id_column!r} (columns: {listed}).")
        return at[0]
    if not (id_column.isdecimal() and 1 <= int(id_column) <= len(fields)):
        raise Failure(
            f"{path}: has no header: --id-column {id_column} must be the number of a "
            f"column, 1 to {len(fields)}. If the first line is a header, pass --header."
        )
    return int(id_column) - 1


def _parse_numbers(path: Path, layout: _Layout) -> NDArray[np.float64] | None:
    """Parse a table without blemish in C; None for any other."""
    if layout.id_at is not None:
        # NumPy does not mind lines of different lengths if columns are chosen.
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            X = np.loadtxt(
                path,
                comments=None,
                delimiter=layout.delimiter,
                skiprows=layout.first - 1,
                encoding="utf-8-sig",
                ndmin=2,
            )
    # Whatever is the matter, the parser by lines can tell where.
    except (ValueError, OSError, EOFError, zlib.error, Warning):
        return None
    return X if X.shape[1] == layout.n_columns else None


def _parse_lines(
    path: Path, layout: _Layout
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Parse any table line by line; numbers and ids."""
    values, numbers = array("d"), array("q")
    ids: list[str] = []
    for number, line in data_lines(path):
        if number < layout.first:
            continue
        fields = _split(path, number, line, layout.delimiter)
        if len(fields) != layout.n_columns:
            top = "the header" if layout.names is not None else f"line {layout.first}"
            raise Failure(
                f"{path}:{number}: expected {layout.n_columns} fields as in {top}, "
                f"found {len(fields)}: {_quote(line)}."
            )
        if layout.id_at is not None:
            ids.append(fields.pop(layout.id_at))
        try:
            values.extend([float(field) for field in fields])
        except ValueError:
            raise _blame_field(path, number, fields, layout) from None
        if "_" in line and any("_" in field for field in fields):  # 1_000 is a name
            raise _blame_field(path, number, fields, layout)
        numbers.append(number)
    X = np.array(values).reshape(len(numbers), -1)
    invalid = np.argwhere(~np.isfinite(X))
    if invalid.size:
        row = int(invalid[0, 0])
        words = [str(value) for value in X[row].tolist()]
        raise _blame_field(path, numbers[row], words, layout)
    if layout.id_at is None:
        return X, np.arange(len(X), dtype=np.int64)
    return X, _as_ids(path, numbers, ids)


def _as_ids(path: Path, numbers: array[int], names: list[str]) -> NDArray[Any]:
    integers = all(map(_INTEGER.fullmatch, names))
    ids: list[Any] = [int(name) for name in names] if integers else names
    stated_on: dict[Any, int] = {}
    for number, node in zip(numbers, ids, strict=True):
        if node == "":
            raise Failure(f"{path}:{number}: the id is empty. Give each row an id.")
        if node in stated_on:
            raise Failure(
                f"{path}:{number}: the id {node} is on line {stated_on[node]} as well. "
                "Each row needs an id of its own: choose another --id-column."
            )
        stated_on[node] = number
    return np.array(ids, dtype=np.int64 if integers else object)


def _blame_field(
    path: Path, number: int, fields: list[str], layout: _Layout
) -> Failure:
    """Say which of the numbers of a line is none, and what to do about it."""
    at = next(i for i, field in enumerate(fields) if not _is_finite(field))
    field = fields[at]
    column = at + (layout.id_at is not None and at >= layout.id_at)
    where = f"{path}:{number}: column {column + 1}"
    if layout.names is not None:
        where += f" ({layout.names[column]})"
    if field.lower() in _MISSING:
        return Failure(
            f"{where} has no value. Fill in missing values or leave the row out."
        )
    if _as_number(field) is not None:
        return Failure(f"{where} is {field}; features must be finite.")
    remedy = "Leave the column out or encode it as numbers"
    if layout.id_at is None and at == 0:
        remedy += "; if it holds ids, pass --id-column"
    if layout.names is None and number == layout.first:
        remedy += "; if the line is a header, pass --header"
    return Failure(f"{where} is {_quote(field)}, which is not a number. {remedy}.")


def _is_finite(field: str) -> bool:
    value = _as_number(field)
    return value is not None and bool(np.isfinite(value))


def _as_number(field: str) -> float | None:
    try:
        return None if "_" in field else float(field)
    except ValueError:
        return None


def _split(path: Path, number: int, line: str, delimiter: str | None) -> list[str]:
    try:
        return split_fields(line, delimiter)
    except ValueError as error:
        raise Failure(
            f"{path}:{number}: unreadable line ({error}): {_quote(line)}."
        ) from None


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
