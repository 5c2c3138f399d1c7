"""What rows must be to have moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import canonical

__all__ = ["check_rows"]


def check_rows(X: Any) -> Any:
    """Return `X` as a real matrix, dense or CSR, without reading its entries."""
    X = canonical(X.tocsr()) if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, got shape {X.shape}. "
            "Reshape a single feature by X.reshape(-1, 1)."
        )
    if X.dtype.kind == "O" and not sparse.issparse(X):
        X = _as_numbers(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got the type {X.dtype}.")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"X has shape {X.shape}: at least one row and one feature are needed."
        )
    return X


def _as_numbers(X: NDArray[np.object_]) -> NDArray[np.float64]:
    """Return objects as float64, or say which of them is no number."""
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError) as error:
        for (row, column), value in np.ndenumerate(X):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(
                    f"X must hold real numbers, got {value!r} in row {row}, column "
                    f"{column} (counted from 0). Encode the column as numbers, or "
                    "drop it."
                ) from error
        raise
