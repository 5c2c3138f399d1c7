"""What ``scalefair classify`` shows on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalefair._digits import apart
from scalefair.cli._summary_tables import iterations, part_rows, print_tables

__all__ = ["group_rows", "print_summary", "summary_rows"]

_COLUMNS = {
    "rows": ("n_rows", ",d"),
    "positive": ("positive_rate", ".1%"),
    "selected": ("selection_rate", ".1%"),
}


def print_summary(report: dict[str, Any], written: Mapping[str, Path]) -> None:
    """Print a table of the groups, what was found, and where it was written."""
    print_tables(*group_rows(report), summary_rows(report), written)


def group_rows(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the table of groups."""
    return part_rows(report, _COLUMNS)


def summary_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line below the table of groups."""
    parts = [report[name] for name in ("train", "test") if name in report]

    def values(key: str) -> str:
        return ", ".join(
            f"{part[key]:.4f} ({name})"
            for name, part in zip(("train", "test"), parts, strict=False)
        )

    seconds = report["seconds"]
    return [
        ("features", f"{report['input']['n_features']:,}"),
        ("positive label", report["positive_label"]),
        ("accuracy", values("accuracy")),
        ("partial parity gap", values("partial_parity_gap")),
        ("weak gap", values("weak_partial_parity_gap")),
        ("KKT residual", apart(report["kkt_residual"], report["parameters"]["tol"])),
        (
            "oracle calls",
            f"{report['n_oracle_calls']:,} in {iterations(report['n_iter'])}",
        ),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]
