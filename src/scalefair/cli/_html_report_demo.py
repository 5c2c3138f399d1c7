"""What the page of ``scalefair demo`` shows."""

from __future__ import annotations

from typing import Any

from scalefair.cli._demo_summary import FAIR, UNFAIR
from scalefair.cli._html_figures import Drawing
from scalefair.cli._html_page import Table
from scalefair.cli._html_report_cluster import (
    caption,
    cluster_table,
    draw_composition,
    too_many_groups,
)
from scalefair.cli._html_tables import cell, fact_table

__all__ = ["SHOWN", "drawings", "finding", "tables"]

SHOWN = {"methods"}

_MEASURES = {
    "seconds": ("seconds", ".1f"),
    "peak_memory_bytes": ("peak memory, bytes", ",d"),
    "balance_mean": ("average balance", ".3f"),
    "balance_min": ("lowest balance", ".3f"),
    "normalized_cut": ("normalized cut", ".3f"),
    "agreement_with_planted": ("agreement (ARI)", ".3f"),
}


def finding(report: dict[str, Any]) -> str:
    """Return the result in a few words."""
    fair, unfair = (report["methods"][name]["balance_mean"] for name in (FAIR, UNFAIR))
    return (
        f"Average balance {fair:.2f} with fair clustering, {unfair:.2f} without "
        "fairness"
    )


def tables(report: dict[str, Any]) -> list[Table]:
    """Return the tables, the summary first."""
    methods = report["methods"]
    fit = {
        name: {k: v for k, v in found.items() if k not in {"clusters", *_MEASURES}}
        for name, found in methods.items()
    }
    rows = [
        (title, *(cell(found[key], spec) for found in methods.values()))
        for key, (title, spec) in _MEASURES.items()
    ]
    return [
        Table("Summary", ("measure", *methods), rows),
        *(
            cluster_table(f"Clusters, {name}", found["clusters"], "nodes")
            for name, found in methods.items()
        ),
        fact_table("Fit", fit),
    ]


def drawings(
    report: dict[str, Any], evidence: None = None
) -> tuple[list[Drawing], list[str]]:
    """Return figures, and what is to be said about those there are not."""
    methods = report["methods"]
    if remark := too_many_groups(methods[FAIR]["clusters"]):
        return [], [remark]

    def plot(figure: Any) -> None:
        axes = figure.subplots(1, 2, sharey=True)
        for ax, name in zip(axes, (UNFAIR, FAIR), strict=True):
            clusters = methods[name]["clusters"]
            draw_composition(ax, clusters, name, legend=name == FAIR)
        axes[1].set_ylabel("")

    return [
        Drawing(
            plot,
            (12, 4.2),
            "Stacked bars of the share of each group in each cluster, without "
            f"fairness (average balance {methods[UNFAIR]['balance_mean']:.3f}) and "
            f"with it ({methods[FAIR]['balance_mean']:.3f}).",
            caption(methods[FAIR]["clusters"]),
        )
    ], []
