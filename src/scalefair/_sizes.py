"""Bytes of values: for those who decide where they are kept, or cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a row without stored entries counts: its results take memory too.
_SPARSE_ROW_BYTES = 512


def array_bytes(value: Any) -> int:
    """Return the bytes of all arrays in a value, in its attributes and entries."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(array_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(array_bytes, value))
    return array_bytes(vars(value)) if hasattr(value, "__dict__") else 0


def sparse_bounds(
    indptr: NDArray[np.integer], entry_bytes: int, max_bytes: int
) -> list[int]:
    """Return the first row of each block of a CSR matrix and, last, the end."""
    n_entries = max(1, int(max_bytes) // entry_bytes)
    n_rows = max(1, int(max_bytes) // _SPARSE_ROW_BYTES)
    m, bounds = len(indptr) - 1, [0]
    while bounds[-1] < m:
        start = bounds[-1]
        # The last row whose entries still fit. The limit is of the pointers' type:
        # all of them would be converted to another in each search.
        limit = min(int(indptr[start]) + n_entries, int(indptr[-1]))
        at = np.searchsorted(indptr, indptr.dtype.type(limit), side="right")
        bounds.append(min(m, start + n_rows, max(start + 1, int(at) - 1)))
    return bounds
