"""Peak memory of this process."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scalefair._memory import available_memory
from scalefair.cli._errors import Failure

__all__ = ["peak_memory", "refuse_too_large", "reset_peak_memory"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def reset_peak_memory() -> bool:
    """Start a new measurement where the system can (Linux); return whether it did.

    Where it cannot, `peak_memory` goes on reporting the peak of the whole run.
    """
    try:
        _CLEAR.write_text("5")  # resets the resident set's high-water mark
    except OSError:
        return False
    return True


def peak_memory() -> int | None:
    """Largest resident memory of the process in bytes; None if it is not known.

    Everything counts: data, results, the interpreter and compiled code.
    """
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


def refuse_too_large(path: Path, n_bytes: int) -> None:
    """Refuse a file that cannot be in memory, before anything is allocated for it.

    Raises
    ------
    Failure
        If there is less memory than it says that it needs.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise Failure(
            f"{path}: needs {n_bytes / 1e9:.1f} GB of memory, but only "
            f"{free / 1e9:.1f} GB are available. Use a part of it, or a machine with "
            "more memory."
        )
