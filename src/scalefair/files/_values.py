"""A value for each row or node, in a file of its own: groups, labels, scores."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from scalefair._messages import listed
from scalefair.files._matrices import file_format, read_dense
from scalefair.files._source import FileError
from scalefair.files._tables import TableFile, as_words
from scalefair.files._text import is_number

_Say = Callable[[str], None]
# Names of a column that holds ids, or values, in a header.
ID_NAMES = {"id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}
_VALUE_NAMES = {"group", "groups", "sensitive_feature", "sensitive_features", "label"}
_VALUE_NAMES |= {"labels", "target", "score", "scores", "value", "y", ""}


def find_source(source: str | Path) -> tuple[Path, str]:
    """Return the file, and the column or "", of ``FILE`` or ``FILE:COLUMN``."""
    parts = str(source).split(":")
    for n in range(len(parts), 0, -1):
        if (path := Path(":".join(parts[:n]))).exists():
            return path, ":".join(parts[n:])
    return Path(source), ""


def read_values(
    source: str | Path,
    units: Any,
    what: str,
    *,
    header: bool | None = None,
    by_row: bool = False,
    joint: bool = True,
    say: _Say,
    **text: Any,
) -> Any:
    """Read a value, called `what`, for each unit: ``id,value``, a column, or an array.

    Words are a frame, of groups also of several columns, whose combinations are told if
    they are `joint` groups. ``FILE:COLUMN`` is of a table with more; `by_row`
    its rows go by number. `units` are rows or a `Graph`. `header` of None takes a first
    line for it that is of no unit; `text` goes to `TableFile`.
    """
    path, column = find_source(source)
    n, unit, table, keys = len(units.ids), units.unit, None, None
    if file_format(path) == "npy":
        array = read_dense(path)
        is_wide = array.ndim == 2 and what == "group" and array.shape[1] > 1
        if not (is_wide or array.ndim == 1) or array.dtype.kind not in "biufmMSU":
            raise FileError(
                f"{path}: expected one {what} per {unit}, numbers or strings, found "
                f"shape {array.shape} and dtype {array.dtype}."
            )
        values = _named(pandas.DataFrame(array))
    else:
        table = TableFile(path, header=header if column else bool(header), **text)
        if column:
            keys, values = _read_columns(table, column, units, by_row)
        else:
            keys, values = _read_all(table, units, what, header, say)
    if keys is None and not units.ordered:
        raise FileError(
            f"{path}: has {what}s without ids, but the nodes of an edge list have no "
            f"order. Write lines `id,{what}`."
        )
    missing = np.flatnonzero(values.isna().any(axis=1))
    if missing.size:
        at = values.index[missing[0]]
        raise FileError(
            f"{table.where(at) if table else f'{path}: position {at}'}: {missing.size} "
            f"{what}(s) are missing, the first here. Give each {unit} a {what}."
        )
    if table is not None and keys is not None:
        values = values.loc[_rows_of_units(table, keys, values, units, what, say)]
    elif len(values) != n:
        hint = " If the first is a header, say so." if len(values) == n + 1 else ""
        raise FileError(
            f"{path}: has {len(values)} {what}s for the {n} {unit}s of {units.path}; "
            f"give one per {unit}, in the order of the rows.{hint}"
        )
    if table is None and array.ndim == 1:
        return array
    if values.shape[1] > 1 and table and joint and not column:
        spelling, n_groups = f"{path}:COLUMN", len(values.drop_duplicates())
        combinations = f"{n_groups} combinations of {listed(values)}"
        if 2 * n_groups > n > 2 * values.shape[1]:
            raise FileError(
                f"{path}: the {n} {unit}s would have {combinations} for groups, most "
                f"of one {unit}. Name the column that holds the groups, as in "
                f"{spelling}."
            )
        say(f"{path}: the {combinations} are the groups; for one pass {spelling}.")
    return values


def _read_columns(
    table: TableFile, column: str, units: Any, by_row: bool
) -> tuple[pandas.Series | None, pandas.DataFrame]:
    """Read columns of a table with more, and ids or row numbers if units have names."""
    names = next(csv.reader([column], skipinitialspace=True))
    names = [column] if column in table.names else names
    chosen = [table.find(name.strip(), f"{table.path}:{column}") for name in names]
    if not units.named:
        return None, table.read(chosen, chosen)
    first, unit_ids = table.names[0], {*map(str, units.ids.tolist())}
    table.ids = [first]
    keys = as_words(table.frame([first], [first])[first], [""], spelled=True)
    is_named = first.lower() in ID_NAMES | {""}  # or ids by another name, perhaps
    if by_row or not (is_named or (keys.is_unique and unit_ids <= {*keys})):
        table.ids, keys = [], pandas.Series(np.arange(len(keys)).astype(str))
        if not by_row and {*keys} != unit_ids:
            raise FileError(
                f"{table.path}: has no ids to be matched to those of {units.path}. "
                "Call their column id, and put it first."
            )
    return keys, table.read(chosen, chosen)


def _read_all(
    table: TableFile, units: Any, what: str, header: bool | None, say: _Say
) -> tuple[pandas.Series | None, pandas.DataFrame]:
    """Read lines ``id,value`` or values alone, above which may stand a header."""
    table.ids = table.names[:1] if len(table.names) > 1 else []
    chosen = table.names[len(table.ids) :]
    if len(chosen) > 1 and what != "group":
        raise FileError(
            f"{table.path}: expected `id,{what}`, found {len(chosen)} values."
        )
    frame = table.read(words=table.names)
    values, top = frame[chosen], str(frame.iloc[0, 0] or "").lower()
    if table.ids:  # above which pandas writes nothing
        names, is_new = ID_NAMES - {*map(str, units.ids.tolist())}, top == ""
    else:
        # One line more than there are units, whose word does not come again.
        is_new = len(values) == len(units.ids) + 1 and values[1:].ne(values.loc[0])
        is_new = bool(np.all(is_new))
        names = _VALUE_NAMES if len(values) != len(units.ids) else set()
    start = int(header is None and (top in names or is_new))
    if start and top not in names:
        say(f"{table.path}: the first line, {top!r}, was taken for a header.")
    if len(chosen) > 1:
        heads = chosen if table.has_header else ()
        values = _named(values, values.iloc[0] if start else heads)
    return frame[table.ids[0]][start:] if table.ids else None, values[start:]


def _named(values: pandas.DataFrame, names: Sequence[Any] = ()) -> pandas.DataFrame:
    """Columns by the words of a header, or as "attribute 1" where these do not do."""
    names = [str(name).strip() for name in names]
    if len(set(names)) < values.shape[1]:
        names = [f"attribute {j + 1}" for j in range(values.shape[1])]
    return values.set_axis(names, axis=1)


def _rows_of_units(
    table: TableFile,
    keys: pandas.Series,
    values: pandas.DataFrame,
    units: Any,
    what: str,
    say: _Say,
) -> pandas.Series:
    """Return for each unit the row that has its id."""
    if (lacking := keys.isna()).any():
        raise FileError(f"{table.where(lacking.idxmax())}: the id is missing.")
    if units.ids.dtype.kind in "iu":  # 007 is 7
        whole = keys.str.fullmatch(r"[+-]?\d{1,18}")
        keys = keys.where(~whole, keys.where(whole, "0").astype(np.int64).astype(str))
    index = pandas.Index(units.ids.astype(str))
    at = index.get_indexer(keys)
    unknown = np.flatnonzero(at < 0)
    if unknown.size and not units.named:
        row = values.index[unknown[0]]
        raise FileError(
            f"{table.where(row)}: {keys[row]!r} is no row of {units.path}, 0 to "
            f"{len(index) - 1}. If the line is a header, pass --{what}s-header."
        )
    if unknown.size:
        why = "" if units.ordered else " (nodes without an edge cannot be clustered)"
        say(
            f"{table.path}: {unknown.size} id(s) are not in {units.path} and were "
            f"ignored{why}."
        )
    pairs = values.set_axis(range(values.shape[1]), axis=1).assign(key=keys)
    pairs = pairs[at >= 0].drop_duplicates()
    twice = pairs.index[pairs["key"].duplicated()]
    if len(twice):
        row, key = twice[0], keys[twice[0]]
        before = pairs.index[pairs["key"] == key][0]
        here, there = (", ".join(values.loc[i]) for i in (row, before))
        raise FileError(
            f"{table.where(row)}: {units.unit} {key} has {what} {here!r} here and "
            f"{there!r} on line {table.line(before)}. Keep one of them."
        )
    rows = pandas.Series(pairs.index, pairs["key"]).reindex(index)
    lacking = rows.index[rows.isna()]
    if len(lacking):
        raise FileError(
            f"{table.path}: {len(lacking)} of the {len(index)} {units.unit}s of "
            f"{units.path} have no {what}: {listed(lacking)}. Add a line "
            f"`id,{what}` for each."
        )
    return rows


def as_values(words: Iterable[Any], kind: str | None = None) -> NDArray[Any]:
    """Words as integers or numbers if all are, else strings; of a kind if told."""
    codes, distinct = pandas.factorize(np.array([str(word) for word in words], object))
    names = [str(word) for word in distinct]
    values: NDArray[Any] = np.array(names, dtype=np.str_)
    if kind in (None, "i", "u", "f") and all(map(is_number, names)):
        numbers = values.astype(np.float64)
        if np.isfinite(numbers).all():
            values = numbers
    whole = all(name.lstrip("+-").isdecimal() and len(name) < 19 for name in names)
    if whole and kind in (None, "i", "u"):
        values = np.array(names).astype(np.int64)
    return np.asarray(values[codes])
