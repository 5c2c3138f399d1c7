"""Figures of a page, drawn by matplotlib if there is one."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scalefair.cli._errors import warn
from scalefair.cli._html_page import Picture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MAX_GROUPS", "Drawing", "choose_groups", "draw", "drawable_names"]

# As many colours as the figures have.
MAX_GROUPS = 7
# Longer names leave no room for the figure.
_MAX_NAME = 24
# Bytes above which pixels are smaller than lines.
_MAX_SVG = 300_000
_DPI = 150


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn.

    Attributes
    ----------
    plot : callable
        Draws on a matplotlib Figure.
    size : tuple of float
        Width and height in inches.
    alt : str
        What can be seen, for those who cannot.
    caption : str
        The line below it.
    """

    plot: Callable[[Any], object]
    size: tuple[float, float]
    alt: str
    caption: str


def draw(drawings: Sequence[Drawing]) -> list[Picture | str]:
    """Return the pictures, and what is to be said in place of those that fail.

    A figure that cannot be drawn does not keep the results from being written.
    """
    if not drawings:
        return []
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return ['Figures need matplotlib: pip install "scalefair[plot]".']
    return [_picture(drawing) for drawing in drawings]


def _picture(drawing: Drawing) -> Picture | str:
    try:
        content, media_type = _render(drawing)
    except Exception as error:
        message = f"a figure could not be drawn: {type(error).__name__}: {error}"
        warn(message)
        return f"{message} ({drawing.caption})"
    return Picture(content, media_type, drawing.alt, drawing.caption)


def _render(drawing: Drawing) -> tuple[bytes, str]:
    import matplotlib
    from matplotlib.figure import Figure

    # The same report gives the same bytes; and the letters of some scripts, which
    # the font has not, are in the tables.
    with (
        matplotlib.rc_context({"svg.hashsalt": "scalefair"}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        figure = Figure(figsize=drawing.size, layout="constrained")
        drawing.plot(figure)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
        if file.tell() <= _MAX_SVG:
            return file.getvalue(), "image/svg+xml"
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=_DPI)
        return file.getvalue(), "image/png"


def drawable_names(names: Iterable[str]) -> list[str]:
    """Short names, all different, that matplotlib takes as they are."""
    found: list[str] = []
    for name in names:
        short = name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 3]}..."
        # Dollars start a formula; what starts with an underscore is no label.
        plain = " ".join(short.split()).replace("$", r"\$")
        plain = f" {plain}" if plain.startswith("_") or not plain else plain
        candidate, n = plain, 1
        while candidate in found:
            n += 1
            candidate = f"{plain} ({n})"
        found.append(candidate)
    return found


def choose_groups(
    groups: NDArray[Any],
) -> tuple[NDArray[np.intp], NDArray[np.bool_], list[str], str]:
    """Choose the largest groups, at most `MAX_GROUPS`.

    Returns
    -------
    codes : ndarray of shape (m,)
        Group of each row, a number.
    shown : ndarray of shape (m,)
        Whether it is shown.
    names : list of str
        Names of the groups that are, in the order of their codes.
    remark : str
        What is to be said of those that are not, if there are any.
    """
    import numpy as np

    found, codes, counts = np.unique(groups, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_GROUPS])
    names = drawable_names(str(name) for name in found[kept].tolist())
    remark = ""
    if kept.size < found.size:
        remark = f" The {kept.size} largest of {found.size} groups are shown."
    return codes, np.isin(codes, kept), names, remark
