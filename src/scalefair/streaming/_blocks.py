"""Matrices read a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._memory import sparse_bounds


def row_blocks(X: Any, max_bytes: int = 2**25) -> Iterator[tuple[slice, Any]]:
    """Iterate over blocks of consecutive rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (m, n)
        Dense, memory-mapped, CSR or CSC. A CSC matrix is turned into CSR once;
        nothing is made dense.
    max_bytes : int, default=2**25
        Size of a block, 32 MiB by default: entries of a dense block are counted
        as 8 bytes at least, for they are mostly computed with in float64; those of
        a sparse block with their column index. A block has one row at least.

    Returns
    -------
    iterator of (slice, {ndarray, sparse matrix})
        The rows of a block, and ``X[rows]``: a view if `X` is dense, so that a
        memory-mapped array is read where the block is; a CSR matrix if `X` is sparse.

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
    if not sparse.issparse(X):
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}.")
    if not sparse.issparse(X):
        return _dense_blocks(X, max_bytes)
    if X.format not in {"csr", "csc"}:
        raise ValueError(
            f"X is sparse of format {X.format!r}: convert it by X.tocsr()."
        )
    return _sparse_blocks(X.tocsr(), max_bytes)


def _dense_blocks(
    X: NDArray[Any], max_bytes: int
) -> Iterator[tuple[slice, NDArray[Any]]]:
    m, n = X.shape
    step = max(1, int(max_bytes) // max(1, n * max(8, X.itemsize)))
    for start in range(0, m, step):
        rows = slice(start, min(m, start + step))
        yield rows, X[rows]


def _sparse_blocks(X: Any, max_bytes: int) -> Iterator[tuple[slice, Any]]:
    entry_bytes = X.data.itemsize + X.indices.itemsize
    for start, stop in pairwise(sparse_bounds(X.indptr, entry_bytes, max_bytes)):
        rows = slice(start, stop)
        yield rows, X if stop - start == X.shape[0] else X[rows]
