"""Passes over rows, in memory or in parts."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from scalefair.postprocessing import _partitioned_passes, _passes
from scalefair.streaming import PartitionedRows

__all__ = ["passes_over"]


def passes_over(X: Any) -> ModuleType:
    """Return the module whose functions go over such rows.

    Both have the functions of `_partitioned_passes`, which take the same arguments.

    Parameters
    ----------
    X : {ndarray, CSR matrix, DataFrame, Tensor, PartitionedRows}
        Raw rows.

    Returns
    -------
    module
        `_partitioned_passes` or `_passes`.
    """
    return _partitioned_passes if isinstance(X, PartitionedRows) else _passes
