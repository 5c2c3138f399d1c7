"""Warnings that point at the user's line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

# Packages between the user's call and the warning: their frames are passed over.
_INTERNAL_PACKAGES = {"scalefair", "sklearn"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the innermost frame outside of scalefair and scikit-learn."""
    level = 1  # the caller; frame 0 is this function, which is stacklevel 1
    while _package(sys._getframe(level).f_globals) in _INTERNAL_PACKAGES:
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)


def _package(namespace: dict[str, object]) -> str:
    return str(namespace.get("__name__", "")).partition(".")[0]
