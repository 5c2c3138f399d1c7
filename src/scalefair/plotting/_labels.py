"""Titles, axis labels and legends, in lines that fit, with names as they are."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = [
    "draw_legend",
    "draw_title",
    "fit_names",
    "label_axes",
    "label_secondary",
    "listed",
    "literal",
    "percent",
    "wrap",
]

# Mean width of a letter, as a part of the font size.
_LETTER = 0.54
_POINTS = 72  # to the inch
# Letters to a line: of a legend, and at the least of anything.
_LEGEND_LINE, _LEAST_LINE = 34, 16
# Inches that the label and the numbers of the vertical axis take, and a legend that
# may come with the last of several columns.
_BESIDE_AXES, _LEGEND_TO_COME = 0.75, 1.5
_GLUE = "\u00a0"  # a space at which no line breaks


def literal(name: object) -> str:
    """Return a name as text that matplotlib shows as it is, in legends too.

    Pairs of dollars would enclose a formula, and artists whose label starts with an
    underscore are left out of legends.
    """
    text = re.sub(r"(?<!\\)\$", r"\\$", " ".join(str(name).split()))
    return f" {text}" if text.startswith("_") else text


def percent(share: float) -> str:
    """Return a share in percent, with two digits or more."""
    value = 100 * share
    return f"{value:.1f} %" if abs(value) >= 1 else f"{value:.2g} %"


def listed(texts: Sequence[str]) -> list[str]:
    """Return texts with a comma after each but the last."""
    return [*(f"{text}," for text in texts[:-1]), *texts[-1:]]


def wrap(parts: Iterable[str], letters: int) -> str:
    """Break into lines between parts, and within those that need more than a line.

    There it is best done before a parenthesis.
    """
    pieces = [
        piece
        for part in parts
        for piece in ([part] if len(part) <= letters else re.split(r" (?=\()", part))
    ]
    glued = [
        piece.replace(" ", _GLUE)
        if len(piece) <= letters
        else piece.replace(" %", f"{_GLUE}%")
        for piece in pieces
    ]
    lines = textwrap.wrap(
        " ".join(glued), letters, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace(_GLUE, " ")


def draw_title(ax: Any, parts: Sequence[str]) -> None:
    """Set a title of parts, one after the other, as wide as the axes.

    A legend must be there already, since a layout makes room for it.
    """
    ax.set_title(wrap(parts, _letters(ax, ax.title, "width")))


def label_axes(ax: Any, x: str, y: str) -> None:
    """Label both axes, once their limits are final and the legend is there.

    Of axes in a row that share the vertical one the first has its label.
    """
    _label(ax, ax.xaxis, x, _power(ax.xaxis))
    if _shares_with_left(ax):
        ax.set_ylabel("")
    else:
        _label(ax, ax.yaxis, y, _power(ax.yaxis))


def label_secondary(ax: Any, axis: Any, label: str) -> None:
    """Label a further axis of axes, at the top or to the right, in the same units."""
    primary = ax.xaxis if axis.axis_name == "x" else ax.yaxis
    _label(ax, axis, label, _power(primary))


def _label(ax: Any, axis: Any, label: str, power: int) -> None:
    """Set the label of an axis, with the power of ten that its numbers are in.

    At the end of the axis, where matplotlib writes it, it would meet the title.
    """
    import matplotlib as mpl
    from matplotlib.ticker import ScalarFormatter

    parts = [label]
    formatter = axis.get_major_formatter()
    if isinstance(formatter, ScalarFormatter):
        limits = (power, power) if power else mpl.rcParams["axes.formatter.limits"]
        formatter.set_powerlimits(limits)
        formatter.set_useOffset(not power and mpl.rcParams["axes.formatter.useoffset"])
        axis.offsetText.set_visible(not power)
        parts += [f"(in 1e{power})"] if power and label else []
    side = "width" if axis.axis_name == "x" else "height"
    axis.set_label_text(wrap(parts, _letters(ax, axis.label, side)))


def _power(axis: Any) -> int:
    """Return the power of ten of the numbers on an axis, 0 if they are handy."""
    low, high = axis.get_view_interval()
    largest = max(abs(low), abs(high))
    # Numbers that are nearly the same need more digits, or an offset.
    if 1e-4 < largest < 1e5 or high - low <= 1e-3 * largest:
        return 0
    return math.floor(math.log10(largest))


def fit_names(ax: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return how names are written below the axes, one beside the other, to fit."""
    room = _letters(ax, ax.xaxis.label, "width", least=0) / len(names)
    if max(map(len, names)) < room:
        return {}
    return {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}


def draw_legend(
    ax: Any, heading: str = "", handles: Sequence[Any] | None = None, **options: Any
) -> None:
    """Add a legend to the right of the axes.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    heading : str, default=""
        What the entries are.
    handles : sequence of artists and str, or None, default=None
        Artists with labels, and further headings above those that follow. None takes
        all artists of the axes.
    **options : dict
        Passed to ``Axes.legend``.
    """
    if handles is None:
        handles = ax.get_legend_handles_labels()[0]
    labels = [
        "" if isinstance(handle, str) else wrap([handle.get_label()], _LEGEND_LINE)
        for handle in handles
    ]
    style = {
        "loc": "upper left",
        "bbox_to_anchor": (1.01, 1.0),
        "borderaxespad": 0.0,
        "frameon": False,
        "handlelength": 3.5,
        **options,
    }
    ax.legend(
        handles=list(handles),
        labels=labels,
        title=heading or None,
        alignment="left",
        handler_map={str: _heading_handler()},
        **style,
    )


def _heading_handler() -> Any:
    """Return what draws a heading where others have their line and marker."""
    from matplotlib.legend_handler import HandlerBase
    from matplotlib.text import Text

    class Heading(HandlerBase):
        def create_artists(
            self,
            legend: Any,
            orig_handle: Any,
            xdescent: float,
            ydescent: float,
            width: float,
            height: float,
            fontsize: float,
            trans: Any,
        ) -> list[Any]:
            text = Text(-xdescent, -ydescent, orig_handle, fontsize=fontsize)
            text.set_transform(trans)
            return [text]

    return Heading()


def _letters(ax: Any, text: Any, side: str, least: int = _LEAST_LINE) -> int:
    """Return how many letters of a text the axes are wide or high, about."""
    if side == "width":
        inches = _expected_width(ax)
    else:
        inches = ax.get_window_extent().height / ax.figure.dpi
    letters = inches * _POINTS / (_LETTER * text.get_fontsize())
    return max(int(letters), least)


def _expected_width(ax: Any) -> float:
    """Return how many inches wide axes are once a layout has made room for legends.

    The columns of a grid share the width that the widest legend leaves.
    """
    own, dpi = ax.get_subplotspec(), ax.figure.dpi
    managed = ax.figure.get_layout_engine() is not None
    if not managed or own is None or own.get_topmost_subplotspec() != own:
        return float(ax.get_window_extent().width / dpi)
    grid = own.get_gridspec()
    legends = [
        _legend_width(other.get_legend())
        for other in ax.figure.axes
        if other.get_legend() is not None
        and other.get_subplotspec() is not None
        and other.get_subplotspec().get_gridspec() is grid
    ]
    to_come = _LEGEND_TO_COME if grid.ncols > 1 else 0.0
    left = ax.figure.bbox.width / dpi - max(legends, default=to_come)
    ratios = grid.get_width_ratios()
    share = sum(ratios[own.colspan.start : own.colspan.stop]) / sum(ratios)
    # Further axes, to the right, have a label and numbers too.
    return float(left * share - _BESIDE_AXES * (1 + bool(ax.child_axes)))


def _legend_width(legend: Any) -> float:
    """Return the width of a legend in inches, about."""
    widths = [
        text.get_fontsize()
        * (
            _LETTER * max(map(len, text.get_text().split("\n")))
            + legend.handlelength
            + 1
        )
        for text in legend.get_texts()
    ]
    return float(max(widths, default=0.0) / _POINTS)


def _shares_with_left(ax: Any) -> bool:
    """Whether axes to the left, in the same row, have the same vertical axis."""
    own = ax.get_subplotspec()
    if own is None:
        return False
    siblings = ax.get_shared_y_axes().get_siblings(ax)
    others = (other.get_subplotspec() for other in siblings)
    return any(
        spec is not None
        and spec.get_gridspec() is own.get_gridspec()
        and spec.rowspan == own.rowspan
        and spec.colspan.start < own.colspan.start
        for spec in others
    )
