"""Markdown tables and the numbers in them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from _methods import Run

EMPTY = "–"


@dataclass
class Table:
    """One table of the paper, ours beside the printed values.

    Attributes
    ----------
    number : int
        Its number in the paper.
    title : str
        What it shows.
    header : str
        Names of the columns, with bars between them.
    rows : list of list of str
        The cells.
    notes : list of str
        What is to be known about them: skipped rows, values that cannot be
        reproduced and why.
    """

    number: int
    title: str
    header: str
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.header.count("|") + 1

    def add(self, *cells: object) -> None:
        """Append a row."""
        row = [str(cell) for cell in cells]
        if len(row) != self.n_columns:
            raise ValueError(f"{len(row)} cells for {self.n_columns} columns: {row}")
        self.rows.append(row)

    def markdown(self) -> str:
        """Give the table and its notes as markdown."""
        lines = [f"## Table {self.number}: {self.title}", ""]
        if self.rows:
            lines.append("| " + self.header.replace("|", " | ") + " |")
            lines.append("|" + " --- |" * self.n_columns)
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


def spread(runs: list[Run], name: str, digits: int = 4) -> str:
    """Mean of a measure over the runs, with its deviation if there are several."""
    values = [float(getattr(run, name)) for run in runs]
    mean = statistics.fmean(values)
    if len(values) == 1:
        return number(mean, digits)
    return number((mean, statistics.pstdev(values)), digits)


def seconds(runs: list[Run]) -> str:
    """Mean time; a star if a run has not reached its tolerance."""
    mean = statistics.fmean(run.seconds for run in runs)
    star = "" if all(run.converged for run in runs) else "*"
    return number(mean, 3) + star
