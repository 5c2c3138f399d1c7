"""Entries of matrices: stored once, and named where they are not finite.

Every floor above uses this module; it imports nothing of the package.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from scipy import sparse

__all__ = ["canonical", "refuse_entries"]


def canonical(X: Any) -> Any:
    """CSR with sorted columns, each entry stored once; dense matrices as they are.

    A copy if `X` is not like that already.
    """
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
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
        f"X has {rows.size} value(s) that are NaN or infinite in rows {first} to "
        f"{first + block.shape[0] - 1}, the first at row {first + rows[at]}, column "
        f"{columns[at]} ({values[at]}). Replace them or drop the rows."
    )
