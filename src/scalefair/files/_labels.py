"""A value for each row or node in a file of its own: groups, labels, scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from scalefair.files._errors import FileError, reading
from scalefair.files._graphs import read_dense
from scalefair.files._tables import TableFile, as_values
from scalefair.files._text import ID_NAMES, open_bytes

_VALUE_NAMES = {"group", "groups", "sensitive_feature", "sensitive_features"}
_VALUE_NAMES |= {"label", "labels", "target", "score", "scores", "y"}


def read_values(
    path: Path,
    ids: NDArray[Any],
    *,
    named: bool,
    ordered: bool,
    what: str,
    unit: str = "row",
    origin: str = "the rows",
    header: bool | None = None,
    kind: str | None = None,
    notes: list[str],
) -> NDArray[Any]:
    """Read a value for each id: lines ``id,value``, one column, or an array.

    Parameters
    ----------
    path : Path
        Text of one or two columns, or an array of ``numpy.save``.
    ids : ndarray of shape (n,)
        Of the rows or nodes, in their order.
    named : bool
        Whether they are names; if not they are row numbers from 0.
    ordered : bool
        Whether a file without ids can be meant: rows have an order, nodes of a list
        of edges have none.
    what, unit, origin : str
        What a value, a row and all of them are called in messages.
    header : bool or None, default=None
        Whether the file has one; None takes a first line for it that is no row's.
    kind : str or None, default=None
        See `as_values`.
    notes : list of str
        What was assumed or ignored is added.

    Returns
    -------
    ndarray of shape (n,)
        Integers, numbers or strings.

    Raises
    ------
    FileError
        If the file cannot be read, a value is missing, a row has none, or two.
    """
    with reading(path, "a file"), open_bytes(path) as file:
        is_array = file.read(6) == b"\x93NUMPY"
    if is_array:
        return _of_array(path, len(ids), ordered, what, unit, origin)
    table = TableFile(path, header=bool(header))
    notes += table.notes
    if len(table.names) > 2:
        raise FileError(
            f"{path}: expected `id,{what}`, found {len(table.names)} columns. Keep the "
            f"id and the {what} only."
        )
    frame = table.read(words=table.names)
    if len(table.names) == 1:
        return _of_column(
            path, frame, len(ids), ordered, what, unit, origin, header, kind
        )
    keys, values = (frame[column] for column in table.names)
    position = {str(key): i for i, key in enumerate(ids.tolist())}
    as_id = _integer if ids.dtype.kind in "iu" else str
    first = str(keys.iloc[0])
    skip = (
        header is None
        and as_id(first) not in position
        and (first.lower() in ID_NAMES or values.iloc[0] in _VALUE_NAMES)
    )
    if skip:
        keys, values = keys.iloc[1:], values.iloc[1:]
    for row in np.flatnonzero(keys.isna() | values.isna())[:1]:
        at = int(row) + skip
        lacks = table.names[0] if pandas.isna(keys.iloc[row]) else table.names[1]
        raise FileError(
            f"{table.where(at, lacks)} is missing. Give {unit} {keys.iloc[row]} a "
            f"{what}, or leave the line out."
        )
    at = np.array([position.get(as_id(key), -1) for key in keys.map(str)])
    unknown = np.flatnonzero(at < 0)
    if unknown.size and not named:
        line = table.line(int(unknown[0]) + skip)
        raise FileError(
            f"{path}:{line}: {keys.iloc[unknown[0]]!r} is no {unit} of {origin}. The "
            f"ids are row numbers, 0 to {len(ids) - 1}. If the line is a header, pass "
            "--groups-header or --target-header."
        )
    if unknown.size:
        notes.append(
            f"{path}: {unknown.size} id(s) are not in {origin} and were ignored."
        )
    known = np.flatnonzero(at >= 0)
    found = np.full(len(ids), -1)
    codes, distinct = pandas.factorize(values)
    order = known[::-1]  # the first mention is written last
    found[at[order]] = codes[order]
    twice = known[found[at[known]] != codes[known]]
    if twice.size:
        j = int(twice[0])
        before = distinct[found[at[j]]]
        raise FileError(
            f"{path}:{table.line(j + skip)}: {unit} {keys.iloc[j]} has {what} "
            f"{values.iloc[j]!r} here and {before!r} before. Keep one of the lines."
        )
    lacking = np.flatnonzero(found < 0)
    if lacking.size:
        shown = ", ".join(str(ids[i]) for i in lacking[:5])
        more = f" and {lacking.size - 5} more" if lacking.size > 5 else ""
        raise FileError(
            f"{path}: {lacking.size} of the {len(ids)} {unit}s of {origin} have no "
            f"{what}: {shown}{more}. Add a line `id,{what}` for each."
        )
    return as_values(distinct[found], kind)


def _integer(text: str) -> str:
    """One spelling of an integer, as ids have it."""
    return str(int(text)) if text.lstrip("+-").isdecimal() else text


def _of_array(
    path: Path, n: int, ordered: bool, what: str, unit: str, origin: str
) -> NDArray[Any]:
    _refuse_unordered(path, ordered, what)
    values = read_dense(path)
    if values.ndim != 1 or values.dtype.kind not in "biufmMSU":
        raise FileError(
            f"{path}: expected one {what} per {unit}, numbers or strings, found shape "
            f"{values.shape} and dtype {values.dtype}."
        )
    _check_length(path, n, len(values), what, unit, origin)
    missing = np.flatnonzero(values != values)
    if missing.size:
        raise FileError(
            f"{path}: {missing.size} {what}(s) are NaN, the first at position "
            f"{missing[0]}. Give each {unit} a {what}."
        )
    return values


def _of_column(
    path: Path,
    frame: pandas.DataFrame,
    n: int,
    ordered: bool,
    what: str,
    unit: str,
    origin: str,
    header: bool | None,
    kind: str | None,
) -> NDArray[Any]:
    _refuse_unordered(path, ordered, what)
    values = frame.iloc[:, 0]
    if header is None and str(values.iloc[0]).lower() in _VALUE_NAMES:
        values = values.iloc[1:]
    _check_length(path, n, len(values), what, unit, origin)
    missing = np.flatnonzero(values.isna())
    if missing.size:
        raise FileError(
            f"{path}: {missing.size} {what}(s) are missing, the first of {unit} "
            f"{missing[0]} (counted from 0). Give each {unit} a {what}."
        )
    return as_values(values.tolist(), kind)


def _refuse_unordered(path: Path, ordered: bool, what: str) -> None:
    if not ordered:
        raise FileError(
            f"{path}: has {what}s without ids, but the nodes of an edge list have no "
            f"order. Write lines `id,{what}`."
        )


def _check_length(
    path: Path, n: int, found: int, what: str, unit: str, origin: str
) -> None:
    if found != n:
        hint = " If the first is a header, say so." if found == n + 1 else ""
        raise FileError(
            f"{path}: has {found} {what}s for the {n} {unit}s of {origin}; give one per "
            f"{unit}, in the order of the rows.{hint}"
        )
