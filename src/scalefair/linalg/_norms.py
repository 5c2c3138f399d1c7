"""Norms of the columns of tall blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["column_norms"]


def column_norms(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean norms of the columns, without a block of their squares."""
    norms: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->j", X, X))
    return norms
