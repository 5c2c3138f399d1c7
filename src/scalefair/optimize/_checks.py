"""Checks that the optimisers share."""

from __future__ import annotations

import math

__all__ = ["check_positive"]


def check_positive(**numbers: float | None) -> None:
    """Refuse numbers that are not positive and finite; None is not given."""
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive number, got {number}.")
