"""Labels beside points, where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.plotting._labels import literal

__all__ = ["draw_point_labels"]

# Places of a label, to the right and up or otherwise, the best ones first.
_PLACES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
_ALIGNED = {-1: ("right", "top"), 0: ("center", "center"), 1: ("left", "bottom")}
# In points: distance from the point to a label, and half the size of a marker.
_DISTANCE, _MARKER = 4.0, 3.5
_INCH = 72.0
# Width of a letter and height of a line, as parts of the font size.
_LETTER, _LINE = 0.62, 1.0
# A layout engine makes axes smaller, and so points come closer.
_SHRINKAGE = 0.75


def draw_point_labels(
    ax: Any, labels: Sequence[Any], points: NDArray[np.float64], others: Any
) -> None:
    """Write labels beside points, but for those that would lie on others.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw; its limits are final.
    labels : sequence of length n_labels
        What to write.
    points : ndarray of shape (n_labels, 2)
        Where, in data coordinates.
    others : ndarray of shape (n_points, 2)
        All points, which shall not be hidden.
    """
    from matplotlib.font_manager import FontProperties

    size = FontProperties(size="small").get_size_in_points()
    scale = _SHRINKAGE * _INCH / ax.figure.dpi
    taken = [
        np.array([point - _MARKER, point + _MARKER])
        for point in scale * ax.transData.transform(others)
    ]
    for label, point in zip(labels, points, strict=True):
        is_number = isinstance(label, Real) and not isinstance(label, bool)
        text = f"{label:g}" if is_number else literal(label)
        extent = size * np.array([_LETTER * len(text), _LINE])
        center = scale * ax.transData.transform(point)
        for place in _PLACES:
            box = _box(center, extent, np.array(place))
            if not any(_overlap(box, other) for other in taken):
                taken.append(box)
                _write(ax, text, point, place)
                break


def _box(
    center: NDArray[Any], extent: NDArray[Any], place: NDArray[Any]
) -> NDArray[np.float64]:
    """Lower left and upper right corner of a label beside a point."""
    middle = center + place * (_DISTANCE + extent / 2)
    return np.array([middle - extent / 2, middle + extent / 2])


def _overlap(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return bool((one[0] < other[1]).all() and (other[0] < one[1]).all())


def _write(ax: Any, text: str, point: NDArray[Any], place: tuple[int, int]) -> None:
    from matplotlib.patheffects import withStroke

    across, up = place
    ax.annotate(
        text,
        point,
        xytext=(_DISTANCE * across, _DISTANCE * up),
        textcoords="offset points",
        ha=_ALIGNED[across][0],
        va=_ALIGNED[up][1],
        fontsize="small",
        color="0.25",
        # Legible where it lies on a line.
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
    )
