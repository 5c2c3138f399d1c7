"""Bytes that a value holds in arrays, for those who decide where it is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["array_bytes"]


def array_bytes(value: Any) -> int:
    """Return the bytes of all arrays in a value, in its attributes and entries."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(array_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(array_bytes, value))
    return array_bytes(vars(value)) if hasattr(value, "__dict__") else 0
