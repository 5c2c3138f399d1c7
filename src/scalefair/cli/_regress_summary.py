"""What ``scalefair regress`` shows on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalefair.cli._summary_tables import part_rows, print_tables

__all__ = ["group_rows", "print_summary", "summary_rows"]

_COLUMNS = {
    "rows": ("n_rows", ",d"),
    "mean before": ("mean_before", ".4g"),
    "mean after": ("mean_after", ".4g"),
}

# Titles of the gaps, and where in the report they are.
_GAPS = (
    ("mean gap", "mean_gap"),
    ("covariance gap", "covariance_gap"),
)


def print_summary(report: dict[str, Any], written: Mapping[str, Path]) -> None:
    """Print a table of the groups, what was changed, and where it was written."""
    print_tables(*group_rows(report), summary_rows(report), written)


def group_rows(report: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of the table of groups."""
    return part_rows(report, _COLUMNS)


def summary_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of each line below the table of groups."""
    parts = {name: report[name] for name in ("train", "test") if name in report}

    def values(key: str) -> str:
        return ", ".join(
            f"{part[f'{key}_before']:.4f} -> {part[f'{key}_after']:.4f} ({name})"
            for name, part in parts.items()
        )

    seconds, (m, n) = report["seconds"], report["layer_shape"]
    return [
        ("features", f"{report['input']['n_features']:,}"),
        ("layer", f"{report['layer_name']}, {n} inputs, {m} outputs"),
        *_gap_rows(report, ""),
        *_gap_rows(report["last_layer"] or {}, ", refit"),
        ("output change", f"{report['output_change']:.2%}"),
        ("mean squared error", values("mse")),
        ("KS distance", values("ks")),
        ("time", f"{seconds['fit']:.1f} s, reading {seconds['read']:.1f} s"),
    ]


def _gap_rows(found: dict[str, Any], where: str) -> list[tuple[str, str]]:
    return [
        (
            f"{title}{where}",
            f"{found[f'{key}_before']:.3g} -> {found[f'{key}_after']:.3g}",
        )
        for title, key in _GAPS
        if f"{key}_before" in found
    ]
