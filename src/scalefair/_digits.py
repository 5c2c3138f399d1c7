"""Numbers in messages: with digits enough to tell them from a limit."""

from __future__ import annotations


def apart(value: float, limit: float) -> str:
    """Return a number with two digits, or as many as tell it from the limit."""
    for digits in range(2, 17):
        text = f"{value:.{digits}g}"
        if (float(text) < limit, float(text) > limit) == (value < limit, value > limit):
            return text
    return repr(float(value))
