"""What ``scalefair pca`` shows on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalefair.cli._summary_tables import iterations, print_tables, shorten

__all__ = ["group_rows", "print_summary", "summary_rows"]


def print_summary(report: dict[str, Any], written: Mapping[str, Path]) -> None:
    """Print a table of the groups, what was found, and where it was written."""
    print_tables(*group_rows(report["groups"]), summary_rows(report), written)


def group_rows(groups: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the table of groups."""
    columns = {
        "rows": ("n_rows", ",d"),
        "loss,\nPCA": ("pca_loss", ".4g"),
        "loss,\nfair PCA": ("loss", ".4g"),
        "error,\nPCA": ("pca_reconstruction_error", ".4g"),
        "error,\nfair PCA": ("reconstruction_error", ".4g"),
    }
    known = {title: c for title, c in columns.items() if c[0] in groups[0]}
    rows = [
        [entry["group"], *(format(entry[key], spec) for key, spec in known.values())]
        for entry in groups
    ]
    return ["group", *known], shorten(rows)


def summary_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line below the table of groups."""
    read = report["input"]
    seconds = report["seconds"]
    rows = [
        ("rows", f"{read['n_rows']:,}"),
        ("features", f"{read['n_features']:,}"),
        ("components", f"{len(report['explained_variance'])}"),
        ("error per row", f"{report['reconstruction_error']:.4g}"),
    ]
    if report.get("error_increase") is not None:
        rows.append(("above PCA's error", f"{report['error_increase']:.3%}"))
    if "n_blocks" in read:
        rows.append(("read", f"{read['n_passes']} times, {read['n_blocks']:,} blocks"))
    return [
        *rows,
        ("duality gap", _describe_gap(report)),
        ("solver", f"{report['solver']}, {iterations(report['n_iter'])}"),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]


def _describe_gap(report: dict[str, Any]) -> str:
    gap, largest = report["duality_gap"], max(g["loss"] for g in report["groups"])
    share = f" ({gap / largest:.1e} of the largest loss)" if largest > 0 else ""
    return f"{gap:.1e}{share}"
