"""What plots of one measure against another share: points, bars, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.plotting._labels import draw_legend, literal
from scalefair.plotting._point_labels import draw_point_labels
from scalefair.plotting._styles import LINES, MARKERS, PALETTE

__all__ = [
    "as_table",
    "check_labels",
    "check_tables",
    "count_of_splits",
    "describe_ends",
    "draw_bars",
    "finish",
    "style_of",
]


def as_table(values: ArrayLike, name: str, what: str) -> NDArray[np.float64]:
    """Return a measure of a method with a row for each point, or say what is wrong."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{what} of {name!r} must have shape (n_points, n_repeats) or (n_points,), "
            f"got {table.shape}."
        )
    if not np.isfinite(table).all():
        point, split = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{what} of {name!r} is NaN or infinite, the first at point {point} and "
            f"split {split}. Leave the point out, or the split."
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


def finish(
    ax: Any,
    means: Mapping[str, NDArray[Any]],
    labels: Mapping[str, Any],
    *,
    legend: bool,
) -> None:
    """Draw the grid, the labels of points and, to the right of the axes, the legend."""
    ax.grid(visible=True, color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.margins(x=0.08, y=0.1)  # room for the labels of the outermost points
    if labels:
        ax.autoscale_view()
        draw_point_labels(
            ax,
            [label for texts in labels.values() for label in texts],
            np.vstack([means[name] for name in labels]),
            np.vstack(list(means.values())),
        )
    if legend:
        draw_legend(ax)


def describe_ends(
    means: Mapping[str, NDArray[Any]], measures: tuple[str, str], sign: int
) -> list[str]:
    """Say which point is the fairest and which is the most accurate.

    Parameters
    ----------
    means : mapping of str to ndarray of shape (n_points, 2)
        A measure of fairness and one of accuracy for the points of each method.
    measures : tuple of str
        What the two are called.
    sign : {1, -1}
        1 if large values are good, -1 if small ones are.
    """
    ends = [_best(means, column, sign) for column in (0, 1)]
    words = ["fairest", "most accurate"]
    if (ends[0][1] == ends[1][1]).all():
        ends, words = ends[:1], [" and ".join(words)]
    owners = {names for names, _ in ends}
    parts = [f"{ends[0][0]}:"] if len(owners) == 1 < len(means) else []
    for first, (word, (names, point)) in enumerate(zip(words, ends, strict=True)):
        one, other = (f"{measures[i]} {point[i]:.3g}" for i in (first, 1 - first))
        if len(owners) == 1:
            parts += [f"{word} at {one},", f"{other};"]
        else:
            parts.append(f"{word}: {names} ({one}, {other});")
    return [*parts[:-1], parts[-1].removesuffix(";")]


def _best(
    means: Mapping[str, NDArray[Any]], column: int, sign: int
) -> tuple[str, NDArray[Any]]:
    """Return the best point in a column and who has it; the other breaks ties."""
    points = np.vstack(list(means.values()))
    best = points[np.lexsort(-sign * points[:, [1 - column, column]].T)[0]]
    names = [name for name, those in means.items() if (those == best).all(axis=1).any()]
    if len(names) > 2:
        return f"{len(names)} methods", best
    return " and ".join(literal(name) for name in names), best


def style_of(i: int) -> dict[str, Any]:
    """Return colour, marker and line of the i-th method."""
    color = PALETTE[i % len(PALETTE)]
    return {
        "color": color,
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": LINES[i % len(LINES)],
        "markersize": 6,
        "linewidth": 1.5,
        # Open and filled by turns, for grey prints.
        "markerfacecolor": "white" if i % 2 else color,
    }
