"""Markdown tables and the numbers in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

EMPTY = "–"


@dataclass
class Table:
    """Rows of cells, and notes: what is skipped or cannot be reproduced, and why.

    The header has the names of the columns with bars between them.
    """

    title: str
    header: str
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a row."""
        n_columns = self.header.count("|") + 1
        if len(cells) != n_columns:
            raise ValueError(f"{len(cells)} cells for {n_columns} columns: {cells}")
        self.rows.append([str(cell) for cell in cells])

    def markdown(self) -> str:
        """Give the table and its notes as markdown."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            lines.append("| " + self.header.replace("|", " | ") + " |")
            lines.append("|" + " --- |" * (self.header.count("|") + 1))
            lines += ["| " + " | ".join(row) + " |" for row in self.rows]
            lines.append("")
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"


def number(value: object, digits: int = 4) -> str:
    """Format a number, a pair of mean and deviation, or nothing."""
    if value is None:
        return EMPTY
    if isinstance(value, tuple):
        return f"{number(value[0], digits)} ± {number(value[1], 2)}"
    x = float(value)  # type: ignore[arg-type]
    if x == 0 or not math.isfinite(x):
        return f"{x:g}"
    if abs(x) < 1e-4 or abs(x) >= 1e6:
        return f"{x:.1e}"
    return f"{x:.{digits}g}" if abs(x) < 10**digits else f"{x:.0f}"


def spread(
    runs: Sequence[object],
    name: str,
    digits: int = 4,
    deviation: Callable[[list[float]], float] = statistics.pstdev,
) -> str:
    """Mean of a measure over the runs, with its deviation if there are several."""
    values = [float(getattr(run, name)) for run in runs]
    if not values or any(math.isnan(value) for value in values):
        return EMPTY
    mean = statistics.fmean(values)
    if len(values) == 1:
        return number(mean, digits)
    return number((mean, deviation(values)), digits)


def numbered(tables: Sequence[Table]) -> list[Table]:
    """Give the tables their numbers, in this order."""
    for i, table in enumerate(tables, start=1):
        table.title = f"Table {i}: {table.title}"
    return list(tables)
