"""Which columns of a table are features, and which hold groups or ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from scalefair.cli._errors import Failure
from scalefair.cli._feature_table import Table
from scalefair.cli._feature_text import (
    Selection,
    find_column,
    has_ids,
    list_names,
)

__all__ = ["Columns", "choose_columns", "find_column_or_file"]


@dataclass(frozen=True)
class Columns:
    """Positions of columns; None for what no column holds.

    Attributes
    ----------
    features : list of int
        Columns of numbers.
    group : int or None
        Column of the groups, None if a file holds them.
    ids : int or None
        Column of the ids of the rows.
    """

    features: list[int]
    group: int | None
    ids: int | None

    @property
    def selection(self) -> Selection:
        """What is to be read: ids only where a file of groups may name them."""
        texts = [i for i in (self._read_ids, self.group) if i is not None]
        return Selection(self.features, texts, self.ids is not None, can_drop=True)

    @property
    def _read_ids(self) -> int | None:
        return self.ids if self.group is None else None


def choose_columns(
    table: Table,
    groups: str,
    *,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    keep_groups: bool = False,
) -> Columns:
    """Find the columns that the options name; the others are features.

    Parameters
    ----------
    table : Table
        The table.
    groups : str
        Column of the groups or, if none has this name, a file of them.
    id_column : str or None, default=None
        Column of the ids. None takes the first column if it is known to hold ids.
    drop : sequence of str, default=()
        Columns to leave out.
    keep_groups : bool, default=False
        Whether the column of the groups is a feature as well.

    Raises
    ------
    Failure
        If a column is not found or no feature is left.
    click.UsageError
        If `keep_groups` is set and the groups are no column.
    """
    path, names = table.path, table.names
    group = find_column_or_file(table, groups, "--groups")
    if group is None and keep_groups:
        raise click.UsageError(
            f"--keep-groups applies to --groups COLUMN only; {groups} is a file."
        )

    def find(given: str, option: str) -> int:
        return find_column(path, names, table.n_columns, given, option)

    if id_column is not None:
        ids: int | None = find(id_column, "--id-column")
    else:
        ids = 0 if has_ids(names) and group != 0 else None
    left_out = {find(given, "--drop") for given in drop}
    left_out |= {ids} if ids is not None else set()
    left_out |= {group} if group is not None and not keep_groups else set()
    features = [i for i in range(table.n_columns) if i not in left_out]
    if not features:
        raise Failure(
            f"{path}: no column is left as a feature beside groups, ids and --drop."
        )
    return Columns(features, group, ids)


def find_column_or_file(table: Table, given: str, option: str) -> int | None:
    """Position of the column that an option names, None if it names a file.

    Raises
    ------
    Failure
        If it is neither.
    """
    names = table.names
    if names is None:
        is_column = given.isdecimal() and 1 <= int(given) <= table.n_columns
        known = f"columns: 1 to {table.n_columns}, there is no header"
    else:
        is_column = given in names
        known = f"columns: {list_names(names)}"
    if is_column:
        return find_column(table.path, names, table.n_columns, given, option)
    if not Path(given).exists():
        raise Failure(
            f"{given}: neither a column of {table.path} ({known}) nor a file. Check "
            f"the name that {option} gives."
        )
    return None
