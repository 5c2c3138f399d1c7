"""Warnings that point at the user's line, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings

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
