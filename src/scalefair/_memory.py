"""Available and used memory, sizes of arrays, and errors for too large ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Files of Linux: memory of the system, of a container, of this process.
_SYSTEM_MEMORY = Path("/proc/meminfo")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CONTAINER_USE = Path("/sys/fs/cgroup/memory.current")
_CONTAINER_STATISTICS = Path("/sys/fs/cgroup/memory.stat")
_PROCESS_STATUS = Path("/proc/self/status")
_RESET_PEAK = Path("/proc/self/clear_refs")


def available_memory() -> int | None:
    """Bytes that a process can have without swapping; None if it is not known."""
    free = _read_kilobytes(_SYSTEM_MEMORY, "MemAvailable")
    if free is None:
        return None
    try:
        limit, use = (
            int(path.read_text()) for path in (_CONTAINER_LIMIT, _CONTAINER_USE)
        )
        statistics = _CONTAINER_STATISTICS.read_text()
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    # What was read from files stays in memory until it is needed for something else.
    cache = re.search(r"^inactive_file (\d+)", statistics, re.MULTILINE)
    use -= int(cache[1]) if cache else 0
    return min(free, max(0, limit - use))


def _read_kilobytes(path: Path, field: str) -> int | None:
    """Bytes of a field of a file of Linux that counts in kB; None if it is missing."""
    try:
        match = re.search(rf"{field}:\s+(\d+) kB", path.read_text())
    except OSError:
        return None
    return None if match is None else int(match[1]) * 1024


def array_limit(memory_limit: int | None) -> int:
    """Bytes above which rows are read in blocks; None takes half of the free memory."""
    if memory_limit is not None:
        return memory_limit
    free = available_memory()
    # 2 GiB, which most machines have, where the system does not tell.
    return 2**31 if free is None else free // 2


def reset_peak_memory() -> bool:
    """Reset the peak of `peak_memory`; return whether the system can (Linux)."""
    try:
        _RESET_PEAK.write_text("5")  # resets the resident set's high-water mark
    except OSError:
        return False
    return True


def peak_memory() -> int | None:
    """Largest resident memory of the process in bytes; None if it is not known."""
    peak = _read_kilobytes(_PROCESS_STATUS, "VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    # Bytes on macOS, kB elsewhere.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def require_memory(n_bytes: int, subject: str, remedy: str) -> None:
    """Raise MemoryError, with a remedy, for more bytes than are known to be free."""
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{subject} need about {n_bytes / 1e9:,.1f} GB, and "
            f"{free / 1e9:,.1f} GB are free: {remedy}"
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
    """Return the first row of each block of a CSR matrix and, last, the end.

    A block has `max_bytes` at most, or one row; a stored entry takes `entry_bytes`.
    """
    n_entries = max(1, int(max_bytes) // entry_bytes)
    # Rows without stored entries count, too, 512 bytes each: their results take memory.
    n_rows = max(1, int(max_bytes) // 512)
    m, bounds = len(indptr) - 1, [0]
    while bounds[-1] < m:
        start = bounds[-1]
        # The last row whose entries still fit. The limit has the type of the pointers:
        # else each search would convert all of them.
        limit = min(int(indptr[start]) + n_entries, int(indptr[-1]))
        stop = np.searchsorted(indptr, indptr.dtype.type(limit), side="right") - 1
        bounds.append(min(m, start + n_rows, max(start + 1, int(stop))))
    return bounds
