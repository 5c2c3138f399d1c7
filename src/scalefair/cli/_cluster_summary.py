"""What ``scalefair cluster`` shows on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scalefair.cli._errors import printable
from scalefair.cli._summary_tables import iterations

__all__ = ["print_summary", "summary_rows"]


def print_summary(
    report: dict[str, Any], output: Path, report_file: Path | None
) -> None:
    """Print a table of what was found and where it was written."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = [*summary_rows(report), ("labels", str(output))]
    if report_file is not None:
        rows.append(("report", str(report_file)))
    for name, value in rows:
        table.add_row(name, Text(printable(value)))
    Console().print(table)


def summary_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line of the table."""
    return [
        *_describe_input(report["input"]),
        *_describe_affinity(report),
        ("clusters", f"{len(report['clusters'])}"),
        ("average balance", f"{report['balance_mean']:.3f}"),
        ("minimum balance", f"{report['balance_min']:.3f}"),
        ("normalized cut", f"{report['normalized_cut']:.4f}"),
        *_describe_assignment(report.get("assignment")),
        ("solver", f"{report['solver']}, {iterations(report['n_iter'])}"),
        ("time", f"{report['seconds']['fit']:.1f} s"),
    ]


def _describe_input(read: dict[str, Any]) -> list[tuple[str, str]]:
    labels = {
        "n_nodes": "nodes",
        "n_edges": "edges",
        "n_rows": "rows",
        "n_features": "features",
    }
    rows = [(labels[key], f"{read[key]:,}") for key in labels if key in read]
    for unit in ("nodes", "rows"):
        if n_left_out := read.get(f"n_{unit}_left_out"):
            rows.append((f"{unit} left out", f"{n_left_out:,}"))
    return rows


def _describe_affinity(report: dict[str, Any]) -> list[tuple[str, str]]:
    if report["affinity"] == "precomputed":
        return []
    rows = [("affinity", report["affinity"])]
    if "affinity_error" in report:
        rows.append(("affinity error", f"about {report['affinity_error']:.1e}"))
    return rows


def _describe_assignment(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    return [
        ("moved for balance", f"{found['n_moved']:,}"),
        ("cost above the bound", f"at most {found['gap']:.2%}"),
    ]
