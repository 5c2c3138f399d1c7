"""How much memory there is, what does not fit in it, and what values take of it.

Every floor above uses this module; it imports nothing of the package.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SYSTEM = Path("/proc/meminfo")
# What a container may use, and uses.
_BOUND = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")
# What a row without stored entries counts: its results take memory too.
_SPARSE_ROW_BYTES = 512


def available_memory() -> int | None:
    """Bytes that a process can have without swapping; None if it is not known."""
    try:
        found = re.search(r"MemAvailable:\s+(\d+) kB", _SYSTEM.read_text())
    except OSError:
        return None
    if found is None:
        return None
    free = int(found[1]) * 1024
    try:
        bound, used = int(_BOUND.read_text()), int(_USED.read_text())
    except (OSError, ValueError):  # no container, or one without a bound
        return free
    return min(free, max(0, bound - used))


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise a MemoryError before more is allocated than there is, where that is known.

    The message says what needs the memory, and the remedy.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} need about {n_bytes / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are "
            f"free: {remedy}"
        )


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
