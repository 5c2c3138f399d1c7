"""What users are told: warnings at their line, lists and numbers in messages."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

# How groups get to the steps of scikit-learn.
ROUTED = (
    "A pipeline or search hands them on after "
    "sklearn.set_config(enable_metadata_routing=True)."
)
# Packages between the user's call and the warning: their frames are passed over. The
# decorator of `single_blas_thread` adds a frame of contextlib.
_INTERNAL_PACKAGES = {"scalefair", "sklearn", "contextlib"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost frame outside of the internal packages."""
    level = 1
    while _package_of_frame(level) in _INTERNAL_PACKAGES:
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


def _package_of_frame(level: int) -> str:
    """Name of the package whose code runs in a frame; 0 is the caller of this."""
    module = sys._getframe(level + 1).f_globals.get("__name__", "")
    return str(module).partition(".")[0]


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
