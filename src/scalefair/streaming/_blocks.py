"""Matrices of rows: their checks, and how they are read a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import canonical
from scalefair._memory import sparse_bounds


def row_blocks(X: Any, max_bytes: int = 2**25) -> Iterator[tuple[slice, Any]]:
    """Iterate over blocks of consecutive rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (m, n)
        Dense, memory-mapped, CSR or CSC, which is turned into CSR once.
    max_bytes : int, default=2**25
        Size of a block, of one row at least; a dense entry counts 8 bytes at least.

    Returns
    -------
    iterator of (slice, {ndarray, sparse matrix})
        The rows of a block, and ``X[rows]``: a view, or a CSR matrix.

    Raises
    ------
    ValueError
        If `X` is not a matrix, or sparse of another format.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.streaming import row_blocks
    >>> X = np.ones((1000, 50))
    >>> [len(block) for rows, block in row_blocks(X, max_bytes=160_000)]
    [400, 400, 200]
    """
    is_sparse = sparse.issparse(X)
    X = X if is_sparse else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}.")
    if not is_sparse:
        m, n = X.shape
        step = max(1, int(max_bytes) // max(1, n * max(8, X.itemsize)))
        return _cut(X, [*range(0, m, step), m])
    if X.format not in {"csr", "csc"}:
        raise ValueError(
            f"X is sparse of format {X.format!r}: convert it by X.tocsr()."
        )
    X = X.tocsr()
    entry_bytes = X.data.itemsize + X.indices.itemsize
    return _cut(X, sparse_bounds(X.indptr, entry_bytes, max_bytes))


def _cut(X: Any, bounds: list[int]) -> Iterator[tuple[slice, Any]]:
    for start, stop in pairwise(bounds):
        rows = slice(start, stop)
        yield rows, X if stop - start == X.shape[0] else X[rows]


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
    """Return objects as float64; raise and name the first that is no number."""
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        for (row, column), value in np.ndenumerate(X):
            try:
                float(value)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"X must hold real numbers, got {value!r} in row {row}, column "
                    f"{column} (counted from 0). Encode the column, or drop it."
                ) from error
        raise
