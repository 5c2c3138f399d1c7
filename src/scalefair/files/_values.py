"""A value for each row or node, in a file of its own: groups, labels, scores."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from scalefair._groups import encode_groups, few_rows
from scalefair._messages import listed
from scalefair.files._matrices import file_format, read_dense
from scalefair.files._source import FileError
from scalefair.files._tables import TableFile
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
    kind: str | None = None,
    each: bool = False,
    by_row: bool = False,
    say: _Say,
    **text: Any,
) -> Any:
    """Read a value, called `what`, for each unit: ``id,value``, a column, or an array.

    Of groups ``id,value,value`` or columns of an array, too: their combinations, or
    for `each` a frame. ``FILE:COLUMN`` is of a table with more; `by_row` its rows go
    by number. `units` are rows or a `Graph`. `header` of None takes a first line for
    it that is of no unit; `kind` is that of `as_values`; `say` is told what was
    ignored; `text` goes to `TableFile`.
    """
    path, column = find_source(source)
    n, unit, joined = len(units.ids), units.unit, None
    if file_format(path) == "npy":
        array = read_dense(path)
        if array.ndim == 2 and what == "group" and array.shape[1] > 1:
            array, _, joined = join_values(_named(pandas.DataFrame(array)))
            names = array
        if array.ndim != 1 or array.dtype.kind not in "biufmMSU":
            raise FileError(
                f"{path}: expected one {what} per {unit}, numbers or strings, found "
                f"shape {array.shape} and dtype {array.dtype}."
            )
        table, keys, values = None, None, pandas.Series(array)
    else:
        how = {**text, "header": header, "by_row": by_row}
        table, keys, values = _read_text(path, column, units, what, how, say)
    if keys is None and not units.ordered:
        raise FileError(
            f"{path}: has {what}s without ids, but the nodes of an edge list have no "
            f"order. Write lines `id,{what}`."
        )
    missing = np.flatnonzero(pandas.DataFrame(values).isna().any(axis=1))
    if missing.size:
        at = values.index[missing[0]]
        raise FileError(
            f"{table.where(at) if table else f'{path}: position {at}'}: {missing.size} "
            f"{what}(s) are missing, the first here. Give each {unit} a {what}."
        )
    if isinstance(values, pandas.DataFrame):
        names, _, joined = join_values(values)
        values = pandas.Series(names, values.index)
    if table is not None and keys is not None:
        values = _in_order(table, keys, values, units, what, say)
    elif len(values) != n:
        hint = " If the first is a header, say so." if len(values) == n + 1 else ""
        raise FileError(
            f"{path}: has {len(values)} {what}s for the {n} {unit}s of {units.path}; "
            f"give one per {unit}, in the order of the rows.{hint}"
        )
    found = array if table is None else as_values(values, kind)
    if joined is not None and each:
        distinct, first = np.unique(names, return_index=True)
        joined = joined.iloc[first[np.searchsorted(distinct, found)]]
        return joined.reset_index(drop=True)
    if joined is not None and table is not None and not (each or column):
        spelling, columns = f"{path}:COLUMN", list(joined)
        told = f"{len(np.unique(found))} combinations of {listed(columns)}"
        if 2 * len(np.unique(found)) > len(found) > 2 * len(columns):
            raise FileError(
                f"{path}: the {n} {unit}s would have {told} for groups, most of one "
                f"{unit}. Name the column that holds the groups, as in {spelling}."
            )
        say(f"{path}: the {told} are the groups; for one column pass {spelling}.")
    if joined is not None and (few := few_rows(*np.unique(found, return_counts=True))):
        say(f"{path}: {few}")
    return found


def _read_text(
    path: Path, column: str, units: Any, what: str, how: dict[str, Any], say: _Say
) -> tuple[TableFile, pandas.Series | None, Any]:
    """Read ids, if there are any, and values: all columns, or those that are named."""
    by_row, header = how.pop("by_row"), how.pop("header")
    table = TableFile(path, header=header if column else bool(header), **how)
    ids, chosen = table.names[:1], table.names[1:]
    if column:
        chosen = [column] if column in table.names else next(csv.reader([column]))
        chosen = [table.find(name.strip(), f"{path}:{column}") for name in chosen]
        is_named = ids[0].lower() in ID_NAMES | {""}
        if units.named and not (by_row or is_named):  # ids by another name, perhaps
            first = table.frame(ids, ids)[ids[0]].str.strip()
            is_named = first.is_unique and {*map(str, units.ids.tolist())} <= {*first}
        ids = ids * (is_named and not by_row)
    elif not chosen:
        ids, chosen = [], ids
    if len(chosen) > 1 and what != "group":
        raise FileError(f"{path}: expected `id,{what}`, found {len(chosen)} values.")
    table.ids = ids
    frame = table.read(wanted := list(dict.fromkeys([*ids, *chosen])), wanted)
    values = frame[chosen] if len(chosen) > 1 else frame[chosen[0]]
    keys = frame[ids[0]] if ids else None
    if column:
        if keys is None:
            keys = pandas.Series(frame.index.astype(str))
            is_row = by_row or {*keys} == {*map(str, units.ids.tolist())}
            if units.named and not is_row:
                raise FileError(
                    f"{path}: has no ids to be matched to those of {units.path}. Call "
                    "their column id, and put it first."
                )
        return table, keys if units.named else None, values
    top = frame.iloc[0, 0]
    top = "" if pandas.isna(top) else top.lower()
    if ids:  # above which pandas writes nothing
        names, is_new = ID_NAMES - set(map(str, units.ids.tolist())), top == ""
    else:
        # One line more than there are units, whose word does not come again.
        is_new = len(values) == len(units.ids) + 1 and (values[1:] != values[0]).all()
        names = _VALUE_NAMES if len(values) != len(units.ids) else set()
    start = int(header is None and (top in names or is_new))
    if start and top not in names:
        say(f"{path}: the first line, {top!r}, was taken for a header.")
    if len(chosen) > 1:
        heads = chosen if table.has_header else ()
        values = _named(values, values.iloc[0] if start else heads)
    return table, None if keys is None else keys[start:], values[start:]


def _named(values: pandas.DataFrame, names: Sequence[Any] = ()) -> pandas.DataFrame:
    """Columns by the words of a header, or as "attribute 1" where these do not do."""
    names = [str(name).strip() for name in names]
    if len(set(names)) < values.shape[1]:
        names = [f"attribute {j + 1}" for j in range(values.shape[1])]
    return values.set_axis(names, axis=1)


def _in_order(
    table: TableFile, keys: Any, values: Any, units: Any, what: str, say: _Say
) -> pandas.Series:
    """Bring values to the order of the units."""
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
        found = f"{unknown.size} id(s) are not in {units.path}"
        say(f"{table.path}: {found} and were ignored{why}.")
    pairs = pandas.DataFrame({"key": keys, "value": values})[at >= 0].drop_duplicates()
    twice = pairs.index[pairs["key"].duplicated()]
    if len(twice):
        row, key = twice[0], keys[twice[0]]
        before = pairs.index[pairs["key"] == key][0]
        raise FileError(
            f"{table.where(row)}: {units.unit} {key} has {what} {values[row]!r} here "
            f"and {values[before]!r} on line {table.line(before)}. Keep one of them."
        )
    ordered = pairs.set_index("key")["value"].reindex(index)
    lacking = ordered.index[ordered.isna()]
    if len(lacking):
        raise FileError(
            f"{table.path}: {len(lacking)} of the {len(index)} {units.unit}s of "
            f"{units.path} have no {what}: {listed(lacking)}. Add a line "
            f"`id,{what}` for each."
        )
    return ordered


def join_values(
    frame: pandas.DataFrame, kinds: Sequence[str | None] | None = None
) -> tuple[NDArray[Any], str, pandas.DataFrame]:
    """Name the combination of words in each row; return kinds and values, too."""
    kinds = [None] * frame.shape[1] if kinds is None else kinds
    columns = zip(frame, kinds, strict=True)
    values = {name: as_values(frame[name], kind) for name, kind in columns}
    table = pandas.DataFrame(values)
    try:
        names, codes = encode_groups(table, len(frame), warn=False)
    except ValueError as error:  # a column holds no groups
        raise FileError(str(error)) from error
    found = "".join(column.dtype.kind for column in values.values())
    return names[codes], found, table


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
