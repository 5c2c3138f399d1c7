"""What the page of ``scalefair cluster`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scalefair.cli._cluster_summary import summary_rows
from scalefair.cli._html_figures import Drawing, drawable_names
from scalefair.cli._html_page import Table
from scalefair.cli._html_tables import group_table, record_table, summary_table

__all__ = [
    "SHOWN",
    "caption",
    "cluster_table",
    "draw_composition",
    "drawings",
    "finding",
    "tables",
    "too_many_groups",
]

SHOWN = {"clusters"}

# Colours, with and without hatching, of the figure.
_MAX_GROUPS = 28
# More bars take longer to draw than they can be told apart.
_MAX_CLUSTERS = 200


def finding(report: dict[str, Any]) -> str:
    """Return the result in a few words."""
    k = len(report["clusters"])
    return (
        f"{k:,} cluster{'' if k == 1 else 's'}, average balance "
        f"{report['balance_mean']:.2f}, lowest {report['balance_min']:.2f}"
    )


def tables(report: dict[str, Any]) -> list[Table]:
    """Return the tables, the summary first."""
    read = report["input"]
    unit = "nodes" if "n_nodes" in read else "rows"
    return [
        summary_table(summary_rows(report)),
        group_table(read["groups"], unit),
        cluster_table("Clusters", report["clusters"], unit),
    ]


def cluster_table(caption: str, clusters: Sequence[dict[str, Any]], unit: str) -> Table:
    """Size and balance of each cluster, and how many of each group it holds."""
    groups = list(clusters[0]["groups"])
    # Names of groups may be those of the other columns: their places tell.
    records = [
        {
            "label": entry["label"],
            "size": entry["size"],
            "balance": entry["balance"],
            **{f"group {name}": entry["groups"][name] for name in groups},
        }
        for entry in clusters
    ]
    columns = {
        "label": ("cluster", "d"),
        "size": (unit, ",d"),
        "balance": ("balance", ".3f"),
        **{f"group {name}": (f"group {name}", ",d") for name in groups},
    }
    return record_table(caption, records, columns)


def drawings(
    report: dict[str, Any], evidence: None = None
) -> tuple[list[Drawing], list[str]]:
    """Return figures, and what is to be said about those there are not."""
    clusters = report["clusters"]
    if remark := too_many_groups(clusters):
        return [], [remark]
    return [
        Drawing(
            lambda figure: draw_composition(figure.subplots(), clusters),
            (9, 4.2),
            f"Stacked bars of the share of each group in each of {len(clusters):,} "
            f"clusters. Average balance {report['balance_mean']:.3f}, lowest "
            f"{report['balance_min']:.3f}.",
            caption(clusters),
        )
    ], []


def caption(clusters: Sequence[dict[str, Any]]) -> str:
    """Return the line below the figure."""
    found = (
        "Share of each group in each cluster. A cluster mirrors the population where "
        "its bars meet the dashed lines."
    )
    if len(clusters) <= _MAX_CLUSTERS:
        return found
    return f"{found} The {_MAX_CLUSTERS} least balanced of {len(clusters):,} are shown."


def too_many_groups(clusters: Sequence[dict[str, Any]]) -> str | None:
    """Say why there is no figure, if there is none."""
    n_groups = len(clusters[0]["groups"])
    if n_groups <= _MAX_GROUPS:
        return None
    return f"There is no figure of more than {_MAX_GROUPS} groups, here {n_groups:,}."


def draw_composition(
    ax: Any,
    clusters: Sequence[dict[str, Any]],
    name: str | None = None,
    *,
    legend: bool = True,
) -> None:
    """Draw the share of each group in each cluster."""
    import numpy as np

    from scalefair.plotting import ClusterCompositionDisplay

    counts = np.array([list(entry["groups"].values()) for entry in clusters])
    totals = counts.sum(axis=0)
    balances = np.array([entry["balance"] for entry in clusters])
    shown = np.argsort(balances, kind="stable")[:_MAX_CLUSTERS]
    counts = counts[shown]
    display = ClusterCompositionDisplay(
        counts / counts.sum(axis=1, keepdims=True),
        population=totals / totals.sum(),
        clusters=np.array([clusters[i]["label"] for i in shown]),
        groups=np.array(drawable_names(clusters[0]["groups"])),
        average_balance=float(balances.mean()),
        name=name,
    )
    display.plot(ax=ax, legend=legend)
