"""What the options of a command say about the files that it reads."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import click

from scalefair._memory import array_limit
from scalefair._messages import listed
from scalefair.cli._errors import Failure, note
from scalefair.files._graphs import EdgePolicy
from scalefair.files._text import TextOptions
from scalefair.files._values import find_source, read_values

ROLES = ("target", "groups")


@dataclass(frozen=True)
class ReadOptions:
    """The options about files of rows, by their names; saved models keep them."""

    groups: str | None = None
    attributes: str = "joint"
    target: str | None = None
    id_column: str | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    keep_groups: bool = False
    missing: str = "error"
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    skip_lines: int = 0
    encoding: str | None = None
    na_values: Sequence[str] = ()
    svmlight: bool = False
    target_header: bool | None = None
    groups_header: bool | None = None
    directed: str = "error"
    weights: bool | None = None
    test_file: Path | None = None
    test_target: str | None = None
    test_groups: str | None = None
    memory_limit: int | None = None
    folder: Path = Path()  # of temporary files

    @classmethod
    def take(
        cls,
        options: dict[str, Any],
        *,
        memory_limit: int | None = None,
        folder: Path = Path(),
    ) -> Self:
        """Take the options that are about files out of all options of a command."""
        if column := options.pop("group_column", None):
            options["groups"] = f"{options['groups']}:{column}"
        names = {entry.name for entry in fields(cls)} & options.keys()
        values: dict[str, Any] = {"memory_limit": memory_limit, "folder": folder}
        return cls(**values | {name: options.pop(name) for name in names})

    @property
    def text(self) -> TextOptions:
        """Options about text."""
        names = [entry.name for entry in fields(TextOptions)]
        return TextOptions(**{name: getattr(self, name) for name in names})

    @property
    def edge_policy(self) -> EdgePolicy:
        """Options about weights of edges."""
        return EdgePolicy(self.directed, self.weights)

    def exceeds_memory(self, path: Path, *, is_text: bool) -> bool:
        """Return whether to read a file in blocks; the standard input never."""
        size = 0 if str(path) == "-" else path.stat().st_size
        # A byte of text becomes about two bytes of numbers.
        return (2 * size if is_text else size) > array_limit(self.memory_limit)

    def read_values(self, role: str, units: Any) -> Any:
        """Read the file that has the values of a role, for rows or nodes."""
        return read_values(
            getattr(self, role),
            units,
            role.removesuffix("s"),
            header=getattr(self, f"{role}_header"),
            encoding=self.encoding,
            na_values=self.na_values,
            by_row=self.id_column == "row",  # a column that predict writes
            joint=self.attributes == "joint",
            say=note,
        )


def split_names(value: str, names: Sequence[str]) -> list[str]:
    """Return the columns that an option names: one, or several between commas."""
    if value in names:
        return [value]
    # As in a file, a name that has a comma is quoted.
    cells = next(csv.reader([value], skipinitialspace=True), [])
    return list(dict.fromkeys(cell.strip() for cell in cells))


def find_role_columns(
    source: Any, names: Sequence[str], options: ReadOptions
) -> dict[str, list[str]]:
    """Return which columns of a source hold target and groups.

    An option that names no column must name a file.
    """
    columns = {}
    for role in ROLES:
        if (value := getattr(options, role)) is None:
            continue
        chosen = [value] if role == "target" else split_names(value, names)
        missing = [name for name in chosen if name not in names]
        if not missing:
            columns[role] = chosen
        elif not find_source(value)[0].exists():
            raise Failure(
                f"{listed(missing)}: neither a column of {source} (columns: "
                f"{listed(names)}) nor a file. Check --{role}, or pass FILE:COLUMN."
            )
    if {*columns.get("target", ())} & {*columns.get("groups", ())}:
        raise click.UsageError("--target and --groups name the same column.")
    return columns
