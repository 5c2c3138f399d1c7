"""Intervals of ranks as users give them."""

from __future__ import annotations

from typing import Any

__all__ = ["check_interval"]


def check_interval(interval: Any) -> tuple[float, float]:
    """Return the ends of an interval of ranks, or say what is wrong with it.

    Ranks are shares of a group, counted from the highest score: 0 is the top.
    """
    if isinstance(interval, str):
        interval = (interval,)
    try:
        low, high = (float(end) for end in interval)
    except (TypeError, ValueError):
        raise ValueError(f"interval must be two numbers, got {interval!r}.") from None
    if not 0 <= low < high <= 1:
        raise ValueError(
            "interval must satisfy 0 <= alpha < beta <= 1 (shares of a group, counted "
            f"from the highest score), got {interval!r}."
        )
    return low, high
