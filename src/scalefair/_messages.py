"""Numbers and lists in messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

# How groups get to the steps of scikit-learn.
ROUTED = (
    "A pipeline or search hands them on after "
    "sklearn.set_config(enable_metadata_routing=True)."
)


def format_distinct(value: float, limit: float) -> str:
    """Return a number with two digits, or with as many as differ from the limit's."""
    for digits in range(2, 17):
        text = f"{value:.{digits}g}"
        if (float(text) < limit, float(text) > limit) == (value < limit, value > limit):
            return text
    return repr(float(value))


def listed(items: Iterable[Any], form: Callable[[Any], str] = str) -> str:
    """Return the first names of a list, and how many more there are.

    At most five names and 90 characters: a message with two lists has some 400.
    """
    names = [form(item) for item in items]
    lengths = accumulate(len(name) + 2 for name in names[:5])
    n_listed = max(1, sum(length <= 90 for length in lengths))
    text = ", ".join(names[:n_listed])[:90]
    n_more = len(names) - n_listed
    return f"{text} and {n_more} more" if n_more > 0 else text
