"""A value for each row or node, in a file of its own: groups, labels, scores.

Values go to the rows or nodes by ids, if the file has some, else by the order of the
lines. Whether a first line is a header shows in the ids: it is of no row or node.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from scalefair._messages import listed
from scalefair.files._matrices import file_format, read_dense
from scalefair.files._source import FileError
from scalefair.files._tables import TableFile, as_strings
from scalefair.files._text import FileOptions, is_number, split_cells

# Names that a header gives to a column of ids, and to one of values; a header of pandas
# leaves that of an index empty.
ID_NAMES = {"id", "ids", "node", "node_id", "nodeid", "user", "user_id", "vertex"}
_VALUE_NAMES = {"group", "groups", "sensitive_feature", "sensitive_features", "label"}
_VALUE_NAMES |= {"labels", "target", "score", "scores", "value", "weight", "y", ""}


def find_source(source: str | Path) -> tuple[Path, str]:
    """Return the file, and the column or "", of ``FILE`` or ``FILE:COLUMN``."""
    # Names of files may have colons: the longest part that is a file is its name.
    parts = str(source).split(":")
    for n in range(len(parts), 0, -1):
        if (path := Path(":".join(parts[:n]))).exists():
            return path, ":".join(parts[n:])
    return Path(source), ""


def read_values(
    source: str | Path,
    units: Any,
    role: str,
    *,
    header: bool | None = None,
    encoding: str | None = None,
    na_values: Collection[str] = (),
    by_row: bool = False,
    joint: bool = True,
    keep_missing: bool = False,
) -> tuple[Any, list[str]]:
    """Read a value for each unit: lines ``id,value``, a column, or an array.

    `units` are rows or a `Graph`; `role` names a value in messages: group, target. With
    a `header` of None a first line of no unit is a header. ``FILE:COLUMN`` is of a
    table with other columns, whose rows are matched by number if `by_row`. The result
    is a frame of strings, of groups also of several columns, or a vector as saved; and
    notes of what was assumed. Missing values are refused unless they are kept.
    """
    path, column = find_source(source)
    array, table, keys = None, None, None
    # 1. The values, and the ids, `keys`, if the file has them.
    if file_format(path) == "npy":
        array = _read_array(path, units, role)
        values = _name_columns(pandas.DataFrame(array))
    else:
        # Without a column `_read_lines` itself finds the header.
        has_header = header if column else bool(header)
        options = FileOptions(has_header, encoding=encoding, na_values=na_values)
        table = TableFile(path, options)
        if column:
            keys, values = _read_columns(table, column, units, by_row)
        else:
            keys, values = _read_lines(table, units, role, header)
    notes = [] if table is None else table.notes
    # 2. No value may be missing, unless the caller treats that.
    missing = np.flatnonzero(values.isna().any(axis=1))
    if missing.size and not keep_missing:
        row = values.index[missing[0]]
        location = table.locate(row) if table else f"{path}: position {row}"
        raise FileError(
            f"{location}: {missing.size} {role}(s) are missing, the first here. Give "
            f"each {units.unit} a {role}."
        )
    # 3. A value for each unit: by its id, or by the order of the rows. A vector of an
    #    array is returned as it was saved, all else as a frame.
    if table is not None and keys is not None:
        rows = _match_ids(table, keys, values, units, role, keep_missing)
        values = values.reindex(rows)
    else:
        _check_order(path, len(values), units, role)
    if array is not None and array.ndim == 1:
        return array, notes
    # 4. Combinations of columns are the groups.
    if values.shape[1] > 1 and table is not None and joint and not column:
        notes.append(_describe_combinations(path, values, units))
    return values, notes


def _read_array(path: Path, units: Any, role: str) -> NDArray[Any]:
    """Read a vector, or of groups a matrix of several columns.

    Numbers, dates and strings are values; objects would have to be unpickled.
    """
    array = read_dense(path)
    is_wide = array.ndim == 2 and role == "group" and array.shape[1] > 1
    if not (is_wide or array.ndim == 1) or array.dtype.kind not in "biufmMSU":
        raise FileError(
            f"{path}: expected one {role} per {units.unit}, numbers or strings, found "
            f"shape {array.shape} and dtype {array.dtype}."
        )
    # Truth values are words, as in tables.
    return array.astype(np.str_) if array.dtype.kind == "b" else array


def _check_order(path: Path, n_values: int, units: Any, role: str) -> None:
    """Raise unless values without ids are as many as the units, which have an order.

    Nodes of a list of edges have none: which comes first is by chance.
    """
    if not units.ordered:
        raise FileError(
            f"{path}: has {role}s without ids, but the nodes of an edge list have no "
            f"order. Write lines `id,{role}`."
        )
    unit, n_units = units.unit, len(units.ids)
    if n_values != n_units:
        hint = " If the first is a header, say so." if n_values == n_units + 1 else ""
        raise FileError(
            f"{path}: has {n_values} {role}s for the {n_units} {unit}s of "
            f"{units.path}; give one per {unit}, in the order of the rows.{hint}"
        )


def _describe_combinations(path: Path, values: pandas.DataFrame, units: Any) -> str:
    """Return a note of groups that are combinations; raise if most have one unit."""
    spelling, n_groups = f"{path}:COLUMN", len(values.drop_duplicates())
    combinations = f"{n_groups} combinations of {listed(values)}"
    unit, n_units = units.unit, len(units.ids)
    # More than half as many groups as units: rather columns of other things than
    # groups. Where units are few that shows nothing.
    if 2 * n_groups > n_units > 2 * values.shape[1]:
        raise FileError(
            f"{path}: the {n_units} {unit}s would have {combinations} for groups, "
            f"most of one {unit}. Name the column that holds the groups, as in "
            f"{spelling}."
        )
    return f"{path}: the {combinations} are the groups; for one pass {spelling}."


def _read_columns(
    table: TableFile, column: str, units: Any, by_row: bool
) -> tuple[pandas.Series | None, pandas.DataFrame]:
    """Read columns of a table with others; and ids, or row numbers as ids."""
    # 1. FILE:COLUMN may name several columns, with commas between them.
    names = [column] if column in table.names else split_cells(column)
    columns = [table.find(name, f"{table.path}:{column}") for name in names]
    if not units.named:
        return None, table.read(columns, columns)
    # 2. The first column has the ids if it is called so, or has all ids of the units.
    first, unit_ids = table.names[0], {*map(str, units.ids.tolist())}
    table.id_columns = [first]
    # Ids as they are spelled: "01" and "1" are different.
    keys = as_strings(table.read_raw([first], [first])[first], [""], verbatim=True)
    has_ids = first.lower() in ID_NAMES | {""}
    has_ids = has_ids or (keys.is_unique and unit_ids <= {*keys})
    # 3. Else rows go by their numbers, if that fits the ids of the units.
    if by_row or first in columns or not has_ids:
        table.id_columns, keys = [], pandas.Series(np.arange(len(keys)).astype(str))
        if not by_row and {*keys} != unit_ids:
            raise FileError(
                f"{table.path}: has no ids to be matched to those of {units.path}. "
                "Call their column id, and put it first."
            )
        if not by_row and [*keys] != [*map(str, units.ids.tolist())]:
            table.notes.append(
                f"{table.path}: its rows were matched by number to the ids of "
                f"{units.path}, which have another order. If these are no numbers of "
                "rows, call the column of ids id, and put it first."
            )
    return keys, table.read(columns, columns)


def _read_lines(
    table: TableFile, units: Any, role: str, header: bool | None
) -> tuple[pandas.Series | None, pandas.DataFrame]:
    """Read lines ``id,value`` or values alone, below a header if there is one."""
    # 1. The lines as strings, none of them a header so far.
    table.id_columns = table.names[:1] if len(table.names) > 1 else []
    columns = table.names[len(table.id_columns) :]
    if len(columns) > 1 and role != "group":
        raise FileError(
            f"{table.path}: expected `id,{role}`, found {len(columns)} values."
        )
    frame = table.read(strings=table.names)
    values, first_cell = frame[columns], str(frame.iloc[0, 0] or "").lower()
    # 2. Whether the first line is a header: by a name that is known, or because its
    #    value fits no unit.
    if table.id_columns:
        # A header starts with the name of a column of ids, which is no id itself;
        # pandas leaves that name empty.
        names = ID_NAMES - {*map(str, units.ids.tolist())}
        is_unexpected = first_cell == ""
    else:
        # One line more than there are units, whose value does not come again. A known
        # name that does not is a header in any case: an empty line may be missing. But
        # "y" is a value, too.
        is_new = bool(np.all(values[1:].ne(values.loc[0])))
        is_unexpected = is_new and len(values) == len(units.ids) + 1
        names = _VALUE_NAMES
        if len(values) == len(units.ids):
            names = names - {"", "y"} if is_new else set()
    is_header = header is None and (first_cell in names or is_unexpected)
    if is_header and first_cell not in names:
        table.notes.append(
            f"{table.path}: the first line, {first_cell!r}, was taken for a header."
        )
    # 3. Values and ids below it. Several columns keep the names of the header.
    start = int(is_header)
    if len(columns) > 1:
        header_names = columns if table.has_header else []
        values = _name_columns(values, values.iloc[0] if is_header else header_names)
    keys = frame[table.id_columns[0]][start:] if table.id_columns else None
    return keys, values[start:]


def _name_columns(
    values: pandas.DataFrame, names: Sequence[Any] = ()
) -> pandas.DataFrame:
    """Name columns as a header does, or "attribute 1" ... without distinct names."""
    names = [str(name).strip() for name in names]
    if len(set(names)) < values.shape[1]:
        names = [f"attribute {j + 1}" for j in range(values.shape[1])]
    return values.set_axis(names, axis=1)


def _match_ids(
    table: TableFile,
    keys: pandas.Series,
    values: pandas.DataFrame,
    units: Any,
    role: str,
    keep_missing: bool,
) -> pandas.Series:
    """Return for each unit the row of the table that has its id, or NaN.

    An id may be there several times, with the same values.
    """
    # 1. Positions among the units, of ids in one spelling.
    if (is_missing := keys.isna()).any():
        raise FileError(f"{table.locate(is_missing.idxmax())}: the id is missing.")
    if units.ids.dtype.kind in "iu":
        # Integers may be spelled differently: 007 is 7.
        is_integer = keys.str.fullmatch(r"[+-]?\d{1,18}")
        integers = keys.where(is_integer, "0").astype(np.int64).astype(str)
        keys = keys.where(~is_integer, integers)
    index = pandas.Index(units.ids.astype(str))
    # Entry i is the unit of row i, -1 for an id of no unit.
    positions = index.get_indexer(keys)
    # 2. Ids of no unit: of rows by number they are errors, else they are passed over.
    unknown = np.flatnonzero(positions < 0)
    if unknown.size and not units.named:
        row, option = values.index[unknown[0]], "groups" if role == "group" else role
        raise FileError(
            f"{table.locate(row)}: {keys[row]!r} is no row of {units.path}, 0 to "
            f"{len(index) - 1}. If the line is a header, pass --{option}-header."
        )
    if unknown.size:
        reason = "" if units.ordered else " (nodes without an edge cannot be clustered)"
        table.notes.append(
            f"{table.path}: {unknown.size} id(s) are not in {units.path} and were "
            f"ignored{reason}."
        )
    # 3. Lines that repeat an id with the same values are one; what then still repeats
    #    an id contradicts it.
    pairs = values.set_axis(range(values.shape[1]), axis=1).assign(key=keys)
    pairs = pairs[positions >= 0].drop_duplicates()
    duplicates = pairs.index[pairs["key"].duplicated()]
    if len(duplicates):
        row, key = duplicates[0], keys[duplicates[0]]
        earlier = pairs.index[pairs["key"] == key][0]
        texts = values.fillna("")
        value, earlier_value = (", ".join(texts.loc[i]) for i in (row, earlier))
        raise FileError(
            f"{table.locate(row)}: {units.unit} {key} has {role} {value!r} here and "
            f"{earlier_value!r} on line {table.line_number(earlier)}. Keep one of them."
        )
    # 4. The row of each unit, in the order of the units.
    rows = pandas.Series(pairs.index, pairs["key"]).reindex(index)
    without = rows.index[rows.isna()]
    if len(without) and not keep_missing:
        raise FileError(
            f"{table.path}: {len(without)} of the {len(index)} {units.unit}s of "
            f"{units.path} have no {role}: {listed(without)}. Add a line "
            f"`id,{role}` for each."
        )
    return rows


def parse_values(strings: Iterable[Any], kind: str | None = None) -> NDArray[Any]:
    """Return integers or numbers if all strings are, else strings.

    `kind` is that of the dtype of other values: "U" leaves strings as they are.
    """
    # 1. Each distinct string is parsed once.
    cells = np.array([str(cell) for cell in strings], object)
    codes, distinct = pandas.factorize(cells)
    values: NDArray[Any] = distinct.astype(np.str_)
    names = values.tolist()
    # 2. Integers, of at most 18 digits: these fit into 64 bits. Longer ones stay
    #    strings, as floats of two may be equal. Else finite numbers.
    are_integers = all(re.fullmatch(r"[+-]?\d+", name) for name in names)
    if are_integers and kind in (None, "i", "u"):
        is_long = any(len(name.lstrip("+-")) > 18 for name in names)
        values = values if is_long else values.astype(np.int64)
    elif kind in (None, "i", "u", "f") and all(map(is_number, names)):
        numbers = values.astype(np.float64)
        values = numbers if np.isfinite(numbers).all() else values
    return np.asarray(values[codes])


def parse_ids(strings: Iterable[str]) -> NDArray[Any]:
    """Return integers if all strings are, and differ as such, else the strings.

    Ids that are other numbers, as 1.50, keep their spelling.
    """
    spelled = np.array([*strings], np.str_)
    ids = parse_values(spelled)
    is_whole = ids.dtype.kind == "i" and pandas.unique(ids).size == ids.size
    return ids if is_whole else spelled
