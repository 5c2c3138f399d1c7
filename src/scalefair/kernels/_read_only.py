"""Views of one type, so that a kernel is not compiled for read-only arrays again."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

__all__ = ["read_only"]

_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])


def read_only(array: _Array) -> _Array:
    """Return a view of an array that is only read, which cannot be written.

    Kernels are compiled for arrays that can be written and again, in seconds, for
    those that cannot: what a kernel only reads is always passed as the latter.
    """
    view = array.view()
    view.flags.writeable = False
    return view
