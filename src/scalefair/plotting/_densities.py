"""Densities of the scores of groups, and the scores in an interval of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["histograms", "kernel_densities", "outline", "score_range"]

# Points at which a kernel density is drawn, and how far beyond the scores, in
# standard deviations of the kernel.
_GRID = 400
_BEYOND = 3.0
# Ranks are products of floats: this much of a row is rounding.
_ROUNDING = 1e-9


def histograms(
    parts: list[NDArray[Any]], values: NDArray[Any], bins: int | ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return edges common to all groups, and the density of each group."""
    edges = np.histogram_bin_edges(values, bins)
    counts = np.array([np.histogram(part, edges)[0] for part in parts])
    sizes = np.array([part.size for part in parts])
    # A share of all rows of the group: edges that the user gives may leave some out.
    return edges, counts / (sizes[:, None] * np.diff(edges))


def kernel_densities(
    parts: list[NDArray[Any]], groups: NDArray[Any], what: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid that covers all groups, and the density of each group."""
    from scipy.stats import gaussian_kde

    for group, part in zip(groups.tolist(), parts, strict=True):
        # The square of what is next to nothing is nothing.
        if not part.var() > 0:
            raise ValueError(
                f"Group {group!r} has no kernel density: its {what} are all the same, "
                "or nearly so. Use kind='histogram'."
            )
    kernels = [gaussian_kde(part) for part in parts]
    reach = [_BEYOND * np.sqrt(kernel.covariance[0, 0]) for kernel in kernels]
    low = min(part.min() - r for part, r in zip(parts, reach, strict=True))
    high = max(part.max() + r for part, r in zip(parts, reach, strict=True))
    grid = np.linspace(low, high, _GRID)
    return grid, np.array([kernel(grid) for kernel in kernels])


def outline(
    grid: NDArray[Any], density: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the curve of a density, or the outline of a histogram's bars."""
    if density.size == grid.size:
        return grid, density
    return np.repeat(grid, 2), np.pad(np.repeat(density, 2), 1)


def score_range(part: NDArray[Any], alpha: float, beta: float) -> tuple[float, float]:
    """Lowest and highest score of the rows with ranks in [alpha, beta), 0 the top."""
    n = part.size
    first = min(int(np.floor(alpha * n + _ROUNDING)), n - 1)
    last = max(int(np.ceil(beta * n - _ROUNDING)) - 1, first)
    descending = np.sort(part)[::-1]
    return descending[last], descending[first]
