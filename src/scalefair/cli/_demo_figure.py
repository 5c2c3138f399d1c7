"""The demo's figure: the groups in each cluster, without and with fairness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from numpy.typing import NDArray

__all__ = ["write_figure"]


def write_figure(
    file: BinaryIO, panels: Mapping[str, NDArray[Any]], groups: NDArray[Any]
) -> None:
    """Draw one panel per clustering and write a PNG; needs no display.

    Parameters
    ----------
    file : binary file
        Open for writing.
    panels : mapping of str to ndarray of shape (n,)
        Labels of each clustering, by name.
    groups : ndarray of shape (n,)
        Group of each node.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from scalefair.plotting import ClusterCompositionDisplay

    figure = Figure(figsize=(12, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    last = len(panels) - 1
    for i, (name, labels) in enumerate(panels.items()):
        ClusterCompositionDisplay.from_predictions(
            labels,
            sensitive_features=groups,
            ax=axes[i],
            name=name,
            legend=i == last,
        )
    figure.savefig(file, format="png", dpi=150)
