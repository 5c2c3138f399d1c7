"""What plots of one measure against another share: points, bars, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.plotting._cluster_composition import _PALETTE
from scalefair.plotting._lines import LINES

__all__ = [
    "as_table",
    "check_labels",
    "check_tables",
    "count_of_splits",
    "draw_bars",
    "finish",
    "label_points_at",
    "style_of",
]

_MARKERS = "os^Dv<>p"


def as_table(values: ArrayLike, name: str, what: str) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{what} of {name!r} must have shape (n_points, n_repeats) or (n_points,), "
            f"got {table.shape}."
        )
    if not np.isfinite(table).all():
        raise ValueError(
            f"{what} of {name!r} is NaN or infinite somewhere. Leave the setting out, "
            "or the split."
        )
    return table


def check_tables(
    first: Mapping[str, NDArray[Any]],
    second: Mapping[str, NDArray[Any]],
    what: tuple[str, str],
) -> None:
    """Raise unless both measures of every method have the same shape."""
    for name, table in first.items():
        if table.shape != second[name].shape:
            raise ValueError(
                f"{what[0]} and {what[1]} of {name!r} differ in shape: "
                f"{table.shape} and {second[name].shape}."
            )


def check_labels(labels: Mapping[str, Any], tables: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless labels are of known methods, one for each point."""
    for name, texts in labels.items():
        if name not in tables:
            raise ValueError(f"point_labels names an unknown method, {name!r}.")
        if len(texts) != len(tables[name]):
            raise ValueError(
                f"point_labels of {name!r} must have {len(tables[name])} entries, one "
                f"for each point, got {len(texts)}."
            )


def count_of_splits(tables: Mapping[str, NDArray[Any]]) -> str:
    """Return the number of repeats, or their range; nothing without repeats."""
    repeats = sorted({table.shape[1] for table in tables.values()})
    if repeats == [1]:
        return ""
    return f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]}-{repeats[-1]}"


def draw_bars(
    ax: Any, means: NDArray[Any], widths: NDArray[Any], color: Any, alpha: float = 1.0
) -> list[Any]:
    """Draw bars in both directions; return the artists."""
    drawn = ax.errorbar(
        *means.T,
        xerr=widths[:, 0],
        yerr=widths[:, 1],
        fmt="none",
        ecolor=color,
        elinewidth=0.9,
        capsize=2.0,
        alpha=alpha,
        zorder=1.9,
    )
    return list(drawn.lines[2])


def label_points_at(ax: Any, labels: Any, means: NDArray[Any]) -> None:
    """Write the labels beside the points."""
    for label, mean in zip(labels, means, strict=False):
        ax.annotate(
            str(label),
            mean,
            xytext=(4, 4),
            textcoords="offset points",
            fontsize="small",
            color="0.25",
        )
    ax.margins(x=0.08, y=0.1)  # room for the label of the topmost point


def finish(ax: Any, legend: bool) -> None:
    """Draw the grid and, to the right of the axes, the legend."""
    ax.grid(visible=True, color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0.0,
            frameon=False,
            handlelength=3.5,
        )


def style_of(i: int) -> dict[str, Any]:
    """Return colour, marker and line of the i-th method."""
    color = _PALETTE[i % len(_PALETTE)]
    return {
        "color": color,
        "marker": _MARKERS[i % len(_MARKERS)],
        "linestyle": LINES[i % len(LINES)],
        "markersize": 6,
        "linewidth": 1.5,
        # Open and filled by turns, for grey prints.
        "markerfacecolor": "white" if i % 2 else color,
    }
