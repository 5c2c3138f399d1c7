"""What rows must be to have moments."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from scipy import sparse

__all__ = ["check_rows", "refuse_entries"]


def check_rows(X: Any) -> Any:
    """Return `X` as a real matrix, dense or CSR, without reading its entries."""
    if sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
        if X.dtype.kind == "O":
            X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, got shape {X.shape}. "
            "Reshape a single feature by X.reshape(-1, 1)."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got the type {X.dtype}.")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"X has shape {X.shape}: at least one row and one feature are needed."
        )
    return X


def refuse_entries(block: Any, first: int) -> NoReturn:
    """Raise for a block of rows whose sums are not finite.

    Parameters
    ----------
    block : {ndarray, CSR matrix}
        Rows with the entry at fault.
    first : int
        Number of the first row.
    """
    if sparse.issparse(block):
        entries = np.flatnonzero(~np.isfinite(block.data))
        rows = np.searchsorted(block.indptr, entries, side="right") - 1
        columns = block.indices[entries]
        values = block.data[entries]
    else:
        rows, columns = np.nonzero(~np.isfinite(block))
        values = block[rows, columns]
    if rows.size == 0:
        raise ValueError(
            "The squares of the entries of X overflow: rescale its features."
        )
    at = np.lexsort((columns, rows))[0]
    raise ValueError(
        f"X has {rows.size} entries that are NaN or infinite among rows {first} to "
        f"{first + block.shape[0] - 1}, the first at row {first + rows[at]}, column "
        f"{columns[at]} ({values[at]}). Replace them or drop the rows."
    )
