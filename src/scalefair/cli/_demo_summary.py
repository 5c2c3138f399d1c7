"""The demo's table: one row per method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalefair.cli._errors import printable

__all__ = ["FAIR", "UNFAIR", "print_summary", "remarks"]

FAIR, UNFAIR = "fair", "without fairness"
# A gain in average balance below this does not show.
_SMALL_GAIN = 0.05


def print_summary(
    console: Any,
    report: dict[str, Any],
    written: list[Path],
    has_figure: bool,
) -> None:
    """Print the table, what it says, and where the files are."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("")
    for title in (
        "time",
        "peak\nmemory",
        "average\nbalance",
        "minimum\nbalance",
        "cut\n(Ncut)",
        "agreement\n(ARI)",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for name in (FAIR, UNFAIR):
        row = report["methods"][name]
        memory = row["peak_memory_bytes"]
        table.add_row(
            name,
            f"{row['seconds']:.1f} s",
            "?" if memory is None else f"{memory / 1e6:,.0f} MB",
            f"{row['balance_mean']:.3f}",
            f"{row['balance_min']:.3f}",
            f"{row['normalized_cut']:.2f}",
            f"{row['agreement_with_planted']:.3f}",
        )
    console.print(table)
    for line in remarks(report):
        console.print(line)
    for path in written:
        console.print(Text(printable(f"wrote {path}")))
    if not has_figure:
        console.print(
            Text('For a figure as well: pip install "scalefair[plot]" (matplotlib).')
        )


def remarks(report: dict[str, Any]) -> list[str]:
    """Say what the columns mean, and what the rows say where it is not plain."""
    fair, unfair = report["methods"][FAIR], report["methods"][UNFAIR]
    span = (
        "while the method ran"
        if fair["peak_memory_is_of_this_run"] and unfair["peak_memory_is_of_this_run"]
        else "since its start"
    )
    lines = [
        f"Memory: the whole process, graph and compiled code included, {span}.",
        "Cut: normalized, lower is better. Agreement: with the planted clusters, at "
        "most 1.",
    ]
    if left_out := report["input"]["n_nodes_left_out"]:
        lines.append(
            f"{left_out:,} nodes outside the largest component were left out (label "
            "-1)."
        )
    n_groups = report["parameters"]["n_groups"]
    if fair["balance_mean"] - unfair["balance_mean"] < _SMALL_GAIN:
        # h groups take h - 1 of the k directions: few, if k is large.
        lines.append(
            "At these sizes the groups hardly mislead clustering without fairness. "
            f"Try `-k {n_groups}`: it then finds the groups."
        )
    return lines
