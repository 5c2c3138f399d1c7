"""Compilation of kernels, whose results are kept for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_njit(**options: Any) -> Callable[[_Function], _Function]:
    """Return `numba.njit` with a cache where there is a folder for it, else without.

    A folder of ours among the temporary ones would be no better than none: others could
    put code there for us to run.
    """

    def decorate(function: _Function) -> _Function:
        try:
            compiled: _Function = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package, nor HOME, nor NUMBA_CACHE_DIR
            compiled = numba.njit(**options)(function)
        return compiled

    return decorate
