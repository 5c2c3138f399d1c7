"""Tables of groups, and the lines below them, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalefair.cli._errors import printable

__all__ = ["iterations", "on_terminal", "part_rows", "print_tables", "shorten"]

# Groups that are listed.
_MAX_GROUPS = 20


def on_terminal() -> bool:
    """Whether stdout is a terminal; it may also be closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def part_rows(
    report: Mapping[str, Any], columns: Mapping[str, tuple[str, str]]
) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of a table of the groups in the train and the test rows.

    Parameters
    ----------
    report : mapping
        Has ``"groups"``, a list of mappings, below ``"train"`` and perhaps below
        ``"test"``.
    columns : mapping of str to (str, str)
        For the title of a column its key and its format.
    """
    parts = [name for name in ("train", "test") if name in report]
    titles = ["group", *(f"{title},\n{part}" for part in parts for title in columns)]
    found = [{g["group"]: g for g in report[part]["groups"]} for part in parts]
    absent = ["0", *[""] * (len(columns) - 1)]  # the first column counts the rows
    rows = []
    for name in dict.fromkeys(name for groups in found for name in groups):
        row = [name]
        for groups in found:
            entry = groups.get(name)
            if entry is None:
                row += absent
            else:
                row += [format(entry[key], spec) for key, spec in columns.values()]
        rows.append(row)
    return titles, shorten(rows)


def iterations(n_iter: int) -> str:
    """Return how many iterations there were."""
    return "1 iteration" if n_iter == 1 else f"{n_iter} iterations"


def shorten(rows: list[list[str]]) -> list[list[str]]:
    """Return the first rows, and how many more there are."""
    kept = rows[:_MAX_GROUPS]
    if len(rows) > _MAX_GROUPS:
        more = f"... {len(rows) - _MAX_GROUPS} more"
        kept.append([more] + [""] * (len(rows[0]) - 1))
    return kept


def print_tables(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    lines: Iterable[tuple[str, str]],
    written: Mapping[str, Path],
) -> None:
    """Print the groups, names with their values, and the files written."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    groups = Table()
    groups.add_column(titles[0])
    for title in titles[1:]:
        groups.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        groups.add_row(Text(printable(row[0])), *row[1:])
    console.print(groups)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in lines:
        table.add_row(name, Text(printable(value)))
    for name, path in written.items():
        table.add_row(name, Text(printable(str(path))))
    console.print(table)
