"""Shared by the displays: paragraphs of docstrings, styles, titles, legends, labels.

Groups and models are told apart by colour and by dashes or markers, so that figures can
be read without colours. Names of users are shown as they are, never as formulas.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from functools import partial
from numbers import Real
from typing import Any

from numpy.typing import NDArray

# Paragraphs of docstrings: of the axes and the legend, and what is returned.
_AX = """\
ax : matplotlib Axes or None, default=None
    Where to draw; None makes a figure."""
_LEGEND = """\
legend : bool, default=True
    Whether to show a legend, to the right of the axes."""
_DRAWN = """\
Returns
-------
display : object of this class
    The display, drawn.

Raises
------
ImportError
    If matplotlib is missing."""
_OPTIONS = f"**{{}} : dict\n    Passed to ``Axes.{{}}``.\n\n{_DRAWN}"
_DRAWING = f"{_AX}\n{_LEGEND}\n{_OPTIONS.format('line_kwargs', 'plot')}"
TEXTS = {
    # The last parameters of from_... and of `plot`, and the result.
    "drawing": _DRAWING,
    "line_options": _OPTIONS.format("line_kwargs", "plot"),
    "bar_options": _OPTIONS.format("bar_kwargs", "bar"),
    "fill_options": _OPTIONS.format("fill_kwargs", "fill"),
    "plot": f"Parameters\n----------\n{_DRAWING}",
    "ax": _AX,
    "legend": _LEGEND,
    "sensitive_features": """\
sensitive_features : array-like of shape (n_samples,) or (n_samples, k), default=None
    Group of each row, without missing values; of k columns each combination that
    occurs. Two groups or more.""",
    "sample_weight": """\
sample_weight : array-like of shape (n_samples,), default=None
    Weights of the rows, not negative; of weight 0 they are left out. None weighs all
    alike.""",
    "given": """\
y_true : array-like of shape (n_samples,), default=None
    Label of each row, the larger one of two positive; needed with `given`.
given : {"positive", "label"} or None, default=None
    Which rows are compared: all, the positive ones, or those of the same label.""",
    "attributes": """\
attributes : {"joint", "each"}, default="joint"
    Of several columns ``"joint"`` draws the combinations, ``"each"`` the groups of each
    column by itself.""",
    "X": """\
X : {array-like, sparse matrix} of shape (n_samples, n_features)
    Rows.""",
    "bad_rows": """\
ValueError
    If lengths differ, a value is missing or not finite, there is one group only, or
    one without weight, or another parameter is not as described.""",
    "as_for_predictions": """\
NotFittedError
    If an estimator is not fitted.
ValueError
    As for `from_predictions`.""",
    "groups": "groups : array-like of shape (n_groups,)\n    Names of the groups.",
    "bad_parts": """\
Raises
------
ValueError
    If parts do not fit together, or a number is not finite or out of its range.""",
    "ax_": """\
ax_ : matplotlib Axes
    The axes drawn on.
figure_ : matplotlib Figure
    Their figure.""",
}

# Okabe and Ito's palette without black; markers and dashes tell apart without colour.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
MARKERS = "os^Dv<>p"
LINES = ("-", (0, (5, 2)), ":", "-.", (0, (3, 1, 1, 1, 1, 1)))
# Alignments of the label of a point, the best first. A label that is aligned "left" has
# its left end at the point.
_ALIGNMENTS = (
    ("left", "bottom"),
    ("right", "bottom"),
    ("left", "top"),
    ("right", "top"),
    ("center", "bottom"),
    ("center", "top"),
    ("left", "center"),
    ("right", "center"),
)
# Points between a data point and its label, by the alignment of the label.
_OFFSETS = {"left": 4, "bottom": 4, "center": 0, "right": -4, "top": -4}


def make_axes(display: object, ax: Any, *grid: int, **options: Any) -> Any:
    """Return `ax`; for None the axes of a new figure of pyplot."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__} needs matplotlib. Run pip install "
            '"scalefair[plot]".'
        ) from error
    return plt.subplots(*grid, layout="constrained", **options)[1]


def color(i: int) -> str:
    """Return the i-th colour."""
    return PALETTE[i % len(PALETTE)]


def curve(i: int, label: object) -> dict[str, Any]:
    """Return colour, dashes and label of the i-th curve."""
    line = LINES[i % len(LINES)]
    return {"color": color(i), "linestyle": line, "label": literal(label)}


def key(label: object, **style: Any) -> Any:
    """Return an entry of a legend: a line of this style."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=literal(label), **style)


def literal(name: object) -> str:
    """Return a name as text that matplotlib shows as it is, in legends too."""
    # Dollar signs would enclose a formula. Legends leave out labels that begin with _.
    text = re.sub(r"(?<!\\)\$", r"\\$", " ".join(str(name).split()))
    return f" {text}" if text.startswith("_") else text


def ranks(interval: tuple[float, float]) -> str:
    """Describe an interval of ranks; an empty string for all ranks."""
    low, high = interval
    return "" if (low, high) == (0.0, 1.0) else f"ranks {low:g} to {high:g}"


def title(ax: Any, text: str) -> None:
    """Set a title, broken into lines as wide as the axes."""
    _wrap(ax.set_title(text), ax, "width")


def labels(ax: Any, x: str, y: str) -> None:
    """Label both axes; in a row that shares the vertical axis only the first one."""
    spec = ax.get_subplotspec()
    is_shared = len(ax.get_shared_y_axes().get_siblings(ax)) > 1
    is_inner = is_shared and spec is not None and not spec.is_first_col()
    label(ax.xaxis, ax, x)
    label(ax.yaxis, ax, "" if is_inner else y)


def label(axis: Any, ax: Any, text: str) -> None:
    """Label one axis, broken into lines as long as the side of `ax`."""
    axis.set_label_text(text)
    _wrap(axis.label, ax, "width" if axis.axis_name == "x" else "height")


def _wrap(text: Any, ax: Any, side: str) -> None:
    """Let matplotlib break a text to the width or height of the axes."""
    text.set_wrap(True)
    # The public way breaks texts at the edge of the figure: titles of axes side by side
    # would overlap. The size of the axes is known when the figure is drawn.
    text._get_wrap_line_width = partial(getattr, ax.bbox, side)


def legend(
    ax: Any, heading: str = "", handles: Sequence[Any] | None = None, **options: Any
) -> None:
    """Add a legend to the right, of all artists if no handles; a text is a heading.

    Long names are broken into lines.
    """
    artists = [
        key(handle, linestyle="") if type(handle) is str else handle
        for handle in handles or ax.get_legend_handles_labels()[0]
    ]
    style = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "handlelength": 3.5}
    ax.legend(
        handles=artists,
        labels=[textwrap.fill(str(a.get_label()), width=34) for a in artists],
        title=heading or None,
        alignment="left",
        frameon=False,
        borderaxespad=0.0,
        **{**style, **options},
    )


def point_labels(
    ax: Any, names: Sequence[Any], points: NDArray[Any], markers: NDArray[Any]
) -> None:
    """Write names beside points; hide those that would cover one of `markers`."""
    from matplotlib.artist import Artist
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    # 1. A text at each point, legible where it lies on a line.
    style: dict[str, Any] = {"fontsize": "small", "color": "0.25"}
    style["path_effects"] = [withStroke(linewidth=2.0, foreground="white")]
    texts = []
    for name, point in zip(names, points, strict=True):
        is_number = isinstance(name, Real) and not isinstance(name, bool)
        label = f"{name:g}" if is_number else literal(name)
        texts.append(
            ax.annotate(label, point, (0, 0), textcoords="offset points", **style)
        )

    # 2. The positions depend on the layout, which is known when the figure is drawn:
    # this artist is drawn before the texts, and arranges them. A text takes the first
    # position in which it covers no marker and no text before it, else it is hidden.
    class Arranger(Artist):
        """Draws nothing itself."""

        def draw(self, renderer: Any) -> None:
            """Place the texts, in pixels of the figure."""
            half = renderer.points_to_pixels(3.5)  # half the size of a marker
            centres = ax.transData.transform(markers)
            occupied = [Bbox([centre - half, centre + half]) for centre in centres]
            for text in texts:
                text.set_visible(True)
                for across, up in _ALIGNMENTS:
                    text.set(ha=across, va=up)
                    text.xyann = (_OFFSETS[across], _OFFSETS[up])
                    box = text.get_window_extent()
                    if not any(box.overlaps(other) for other in occupied):
                        occupied.append(box)
                        break
                else:
                    text.set_visible(False)

    ax.add_artist(Arranger())
