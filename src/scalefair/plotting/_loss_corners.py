"""Corners of equal largest loss in the plane of captured variances, and its axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.plotting._labels import draw_legend, label_secondary

__all__ = [
    "choose_levels",
    "draw_corner",
    "draw_legend_beside_losses",
    "draw_loss_axis",
    "losses_at",
    "spread_ticks",
    "window",
]

# What is this small beside the captured variances is rounding.
_ROUNDING = 1e-12
_MOST_LEVELS = 6
# As shares of the window.
_MARGIN = 0.06
_TICK_DISTANCE = 0.12
# Width of the numbers and label of the loss axis to the right, in points.
_LOSS_AXIS = 62


def losses_at(point: NDArray[Any], best: NDArray[Any]) -> NDArray[np.float64]:
    """Return what is missing to each group's own best, rounding taken off."""
    losses = best - point
    return np.where(losses > _ROUNDING * np.abs(best).max(), losses, 0.0)


def window(points: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Lower left and upper right corner of what is shown."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = high - low
    longest = float(size.max())
    # A single point, or a line along an axis, gets a window of some size.
    scale = float(np.abs(points).max()) or 1.0
    least = 0.05 * longest if longest > _ROUNDING * scale else 0.1 * scale
    margin = np.maximum(least - size, 0.0) / 2 + _MARGIN * np.maximum(size, least)
    return low - margin, high + margin


def choose_levels(best: NDArray[Any], low: NDArray[Any]) -> NDArray[np.float64]:
    """Round losses whose corners lie within the window."""
    from matplotlib.ticker import MaxNLocator

    reach = best - low
    middle = float(np.sqrt(reach).prod())  # between the ranges of both groups
    locator = MaxNLocator(_MOST_LEVELS, steps=[1, 2, 5, 10])
    levels = np.asarray(locator.tick_values(0.0, middle), dtype=np.float64)
    shown: NDArray[np.float64] = levels[(levels > 0) & (levels < reach.max())]
    return shown


def spread_ticks(levels: NDArray[Any], size: float) -> NDArray[np.float64]:
    """Zero and those of the levels whose numbers do not overlap."""
    ticks = np.append(0.0, levels)
    step = ticks[1] if levels.size else size
    return ticks[:: math.ceil(_TICK_DISTANCE * size / step)]


def draw_corner(ax: Any, best: NDArray[Any], level: float, **style: Any) -> Any:
    """Draw the captured variances at which the larger loss is `level`."""
    x, y = best - level
    right, top = ax.get_xlim()[1], ax.get_ylim()[1]
    (line,) = ax.plot([x, x, right], [top, y, y], zorder=2, **style)
    return line


def draw_loss_axis(
    ax: Any, place: str, *, best: float, ticks: NDArray[Any], label: str
) -> None:
    """Add an axis, at the top or to the right, that measures the loss."""

    def convert(value: Any) -> Any:  # its own inverse
        return best - value

    draw = ax.secondary_xaxis if place == "top" else ax.secondary_yaxis
    axis = draw(place, functions=(convert, convert))
    part = axis.xaxis if place == "top" else axis.yaxis
    part.set_ticks(ticks)
    label_secondary(ax, part, label)


def draw_legend_beside_losses(ax: Any) -> None:
    """Add a legend to the right, beyond the numbers and label of the loss axis."""
    from matplotlib.transforms import offset_copy

    beyond = offset_copy(ax.transAxes, ax.figure, x=_LOSS_AXIS, units="points")
    draw_legend(ax, bbox_to_anchor=(1.0, 1.0), bbox_transform=beyond, handlelength=2.0)
