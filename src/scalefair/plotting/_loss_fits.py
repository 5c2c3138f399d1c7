"""What groups lose, and what all rows lose, by methods and numbers of components."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair.streaming import GroupMoments

__all__ = ["ROUNDING", "as_sizes", "fit_losses"]

# Errors this small beside the variance, or beside the largest, are rounding.
ROUNDING = 1e-12


def as_sizes(n_components: Iterable[int]) -> list[int]:
    """Return the numbers of components, increasing, each once."""
    try:
        sizes = sorted({operator.index(r) for r in n_components})
    except TypeError:
        raise ValueError(
            f"n_components must be whole numbers, such as range(1, 6), got "
            f"{n_components!r}."
        ) from None
    if not sizes:
        raise ValueError("n_components is empty: give at least one number.")
    return sizes


def fit_losses(
    moments: GroupMoments,
    sizes: list[int],
    centering: str,
    methods: Mapping[str, Any],
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.float64]]]:
    """Fit every method for every number of components.

    Returns
    -------
    losses : dict of str to ndarray of shape (k, n_groups)
    total_errors : dict of str to ndarray of shape (k,)
        Mean squared distance of all rows.
    """
    shares = moments.counts / moments.counts.sum()
    losses, total_errors = {}, {}
    for name, method in methods.items():
        fits = [_fit(method, moments, r, centering) for r in sizes]
        losses[name] = np.array([_clear(fit.group_losses_, fit) for fit in fits])
        total_errors[name] = np.array(
            [_clear(fit.group_reconstruction_errors_ @ shares, fit) for fit in fits]
        )
    return losses, total_errors


def _fit(method: Any, moments: GroupMoments, r: int, centering: str) -> Any:
    parameters = {**method.get_params(), "n_components": r, "centering": centering}
    return type(method).from_moments(moments, **parameters)


def _clear(values: Any, fit: Any) -> NDArray[np.float64]:
    """Return zero for what is rounding of the variance."""
    return np.where(values > ROUNDING * fit.explained_variance_.sum(), values, 0.0)
