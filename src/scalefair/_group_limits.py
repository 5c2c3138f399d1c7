"""Limits on how many groups there are, and on how few rows they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# In a group of fewer a share has a standard error of up to 0.09.
FEW_ROWS = 30
# Groups that a message names.
_NAMED = 5


def check_group_count(
    n_groups: int, max_groups: int, of: str = "sensitive_features"
) -> None:
    """Raise a ValueError for so many groups that they are a number, no category."""
    if n_groups > max_groups:
        raise ValueError(
            f"{of} has {n_groups:,} different values, more than "
            f"max_groups={max_groups}: is it a number or an identifier, not a "
            "category? Every group takes constraints and weights of its own. "
            "Put the values into a few ranges or kinds, or pass max_groups="
            f"{n_groups} if all of them are meant."
        )


def check_group_sizes(
    names: Sequence[Any], sizes: NDArray[Any], least: int, within: str = ""
) -> None:
    """Raise a ValueError for groups of fewer rows than `min_group_size`."""
    small = sizes < least
    if small.any():
        raise ValueError(
            f"{small.sum()} of the {sizes.size} groups of sensitive_features have"
            f"{within} fewer rows than min_group_size={least}: "
            f"{smallest(names, sizes, small)}. Shares of so few rows cannot be "
            "compared: join them with others or leave them out. "
            f"min_group_size={sizes.min()} takes them as they are."
        )


def smallest(names: Sequence[Any], sizes: NDArray[Any], small: NDArray[Any]) -> str:
    """Name those of some groups that have the fewest rows, with their sizes."""
    order = np.argsort(sizes, kind="stable")
    order = order[small[order]]
    named = [f"{names[k]} ({sizes[k]})" for k in order[:_NAMED]]
    rest = order.size - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest > 0 else "")
