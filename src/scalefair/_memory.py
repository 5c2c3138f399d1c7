"""How much memory there is and was used, what does not fit, and what values take."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SYSTEM = Path("/proc/meminfo")
# What a container may use, and uses.
_BOUND = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
# Where the system does not tell how much memory there is.
_LIMIT = 2**31
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


def array_limit(given: int | None) -> int:
    """Bytes above which rows are read in blocks: as given, else half of the memory."""
    if given is not None:
        return given
    free = available_memory()
    return _LIMIT if free is None else free // 2


def reset_peak_memory() -> bool:
    """Start a new measurement where the system can (Linux); return whether it did."""
    try:
        _CLEAR.write_text("5")  # resets the resident set's high-water mark
    except OSError:
        return False
    return True


def peak_memory() -> int | None:
    """Largest resident memory of the process in bytes; None if it is not known."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def require_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise a MemoryError, with `remedy`, for more than there is, if that is known."""
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
