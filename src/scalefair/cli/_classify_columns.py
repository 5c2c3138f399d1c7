"""Which columns of a table hold labels, groups, ids, numbers and words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import click

from scalefair.cli._classify_rows import Request, Schema, require_target
from scalefair.cli._errors import Failure
from scalefair.cli._feature_columns import find_column_or_file
from scalefair.cli._feature_table import Table, TextTable
from scalefair.cli._feature_text import (
    Selection,
    find_column,
    has_ids,
    list_names,
    nonnumeric_columns,
    row_lines,
)
from scalefair.cli._text_table import split_line

__all__ = [
    "Roles",
    "column_name",
    "find_roles",
    "known_columns",
    "learn_columns",
    "word_columns",
]

# Rows of a text that are looked at to tell words from numbers.
_PEEK = 1000


@dataclass(frozen=True)
class Roles:
    """Positions of the columns with labels, groups and ids; None for a file's."""

    target: int | None
    group: int | None
    ids: int | None


def find_roles(table: Table, request: Request) -> Roles:
    """Find the columns that the options name."""
    target = find_column_or_file(table, require_target(request, table.path), "--target")
    group = find_column_or_file(table, request.groups, "--groups")
    if target is not None and target == group:
        raise click.UsageError("--target and --groups name the same column.")
    if group is None and request.keep_groups:
        raise click.UsageError(
            f"--keep-groups applies to --groups COLUMN only; {request.groups} is a "
            "file."
        )
    ids = None
    if request.id_column is not None:
        ids = find_column(
            table.path, table.names, table.n_columns, request.id_column, "--id-column"
        )
    elif has_ids(table.names) and 0 not in (target, group):
        ids = 0
    return Roles(target, group, ids)


def learn_columns(
    table: Table, roles: Roles, request: Request
) -> tuple[list[int], list[int]]:
    """Features that are numbers, and features that are words."""

    def find(given: str, option: str) -> int:
        return find_column(table.path, table.names, table.n_columns, given, option)

    left_out = {find(given, "--drop") for given in request.drop}
    left_out |= {i for i in (roles.target, roles.ids) if i is not None}
    if roles.group is not None and not request.keep_groups:
        left_out.add(roles.group)
    categorical = {find(given, "--categorical") for given in request.categorical}
    features = [i for i in range(table.n_columns) if i not in left_out]
    if not features:
        raise Failure(
            f"{table.path}: no column is left as a feature beside labels, groups, ids "
            "and --drop."
        )
    words = set(word_columns(table, features)) | categorical
    return (
        [i for i in features if i not in words],
        [i for i in features if i in words],
    )


def word_columns(table: Table, features: list[int]) -> list[int]:
    """Features in which a word stands, among the first rows."""
    if not isinstance(table, TextTable):
        return [i for i in features if _is_refused(table, i)]
    found: set[int] = set()
    lines = row_lines(table.layout)
    for number, line in islice(lines, _PEEK):
        fields = split_line(table.path, number, line, table.layout.delimiter)
        if len(fields) == table.n_columns:  # else the parser says so
            found.update(nonnumeric_columns(fields, features))
    del lines  # closes the file
    return sorted(found)


def _is_refused(table: Table, column: int) -> bool:
    try:
        table.check(Selection([column]))
    except Failure:
        return True
    return False


def known_columns(table: Table, schema: Schema) -> tuple[list[int], list[int]]:
    """Positions of the columns of the rows for training in another table."""
    if schema.named != (table.names is not None):
        has, lacks = ("TRAIN", "TEST") if schema.named else ("TEST", "TRAIN")
        raise Failure(
            f"{table.path}: {has} has a header and {lacks} has none. Both need the "
            "same columns."
        )
    if table.names is None:
        if table.n_columns != schema.n_columns:
            raise Failure(
                f"{table.path}: has {table.n_columns} columns and TRAIN has "
                f"{schema.n_columns}. Without a header they must be the same."
            )
        positions = schema.positions
    else:
        missing = [name for name in schema.columns if name not in table.names]
        if missing:
            raise Failure(
                f"{table.path}: has no column {list_names(missing)}, which is a "
                "feature in TRAIN. Add it, or leave it out of both with --drop."
            )
        positions = [
            find_column(table.path, table.names, table.n_columns, name, "TRAIN")
            for name in schema.columns
        ]
    return positions[: schema.n_numbers], positions[schema.n_numbers :]


def column_name(table: Table, column: int) -> str:
    """Name of a column, its number from 1 if there is no header."""
    return table.names[column] if table.names is not None else str(column + 1)
