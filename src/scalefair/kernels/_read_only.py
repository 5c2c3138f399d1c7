"""Views of one type, so that a kernel is not compiled for read-only arrays again."""

from __future__ import annotations

import numpy as np

__all__ = ["read_only"]


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of an array that is only read, which cannot be written.

    Kernels are compiled for arrays that can be written and again, in seconds, for
    those that cannot: what a kernel only reads is always passed as the latter.
    """
    view = array.view()
    view.flags.writeable = False
    return view
