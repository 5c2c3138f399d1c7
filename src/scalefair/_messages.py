"""Numbers and lists as they stand in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

# A message may have two lists, and is to stay below 400 characters.
_MAX_NAMES, _MAX_CHARACTERS = 5, 90


def apart(value: float, limit: float) -> str:
    """Return a number with two digits, or as many as tell it from the limit."""
    for digits in range(2, 17):
        text = f"{value:.{digits}g}"
        if (float(text) < limit, float(text) > limit) == (value < limit, value > limit):
            return text
    return repr(float(value))


def listed(items: Iterable[Any], form: Callable[[Any], str] = str) -> str:
    """Return the first of many names, up to five, and how many more there are."""
    names = [form(item) for item in items]
    ends = accumulate(len(name) + 2 for name in names[:_MAX_NAMES])
    n = max(1, sum(end <= _MAX_CHARACTERS for end in ends))
    shown = ", ".join(names[:n])[:_MAX_CHARACTERS]
    return shown + f" and {len(names) - n} more" * (len(names) > n)
