"""How much memory there is, and what does not fit in it.

Every floor above uses this module; it imports nothing of the package.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["available_memory", "require_memory"]

_SYSTEM = Path("/proc/meminfo")
# What a container may use, and uses.
_BOUND = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")


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

    Parameters
    ----------
    n_bytes : int
        Bytes that will be needed.
    what, remedy : str
        What needs them, and what to do, for the message.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise MemoryError(
            f"{what} need about {n_bytes / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are "
            f"free: {remedy}"
        )
