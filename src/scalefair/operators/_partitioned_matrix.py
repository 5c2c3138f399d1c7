"""A symmetric sparse matrix in blocks of rows, kept in parts."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._docs import documented
from scalefair._entries import ignore_fp_warnings
from scalefair.kernels import csr_matmat
from scalefair.operators._base import (
    TEXTS,
    SymmetricBlockOperator,
    check_stored,
    put_product,
)
from scalefair.streaming import PartitionedRows


@documented(**TEXTS)
class PartitionedMatrix(SymmetricBlockOperator):
    """Symmetric sparse matrix in blocks of rows, each where Dask or a file keeps it.

    A product sends its block to the parts. `NormalizedOperator` checks the symmetry.

    Parameters
    ----------
    W : Dask collection, reader or PartitionedRows of shape (n, n)
        Blocks of consecutive rows with all n columns, as CSR matrices: a list of
        delayed blocks, a Dask array of sparse chunks, a reader of a file.
    %(dtype)s
        The stored entries have it, too.
    exchange : {"all", "needed"}, default="all"
        Whether each part is sent all rows of X, as a rule the faster way, or those that
        its entries need, few if neighbours have near numbers, as after
        :func:`scipy.sparse.csgraph.reverse_cuthill_mckee`.

    Attributes
    ----------
    nnz : int
        Stored entries.

    Raises
    ------
    ValueError
        If `W` is not square, not sparse or, in the first product, not finite.

    Examples
    --------
    >>> import dask
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.operators import PartitionedMatrix
    >>> ring = sparse.eye_array(6, k=1) + sparse.eye_array(6, k=-5)
    >>> W = sparse.csr_array(ring + ring.T)
    >>> A = PartitionedMatrix([dask.delayed(W[:4]), dask.delayed(W[4:])])
    >>> A @ np.arange(6.0)
    array([6., 2., 4., 6., 8., 4.])
    """

    def __init__(
        self, W: Any, *, dtype: Any = np.float64, exchange: str = "all"
    ) -> None:
        if exchange not in {"all", "needed"}:
            raise ValueError(f'exchange must be "all" or "needed", got {exchange!r}.')
        rows = PartitionedRows.of(W)
        if rows.shape[0] != rows.shape[1]:
            raise ValueError(f"A matrix must be square here, got shape {rows.shape}.")
        if not rows.is_sparse:
            raise ValueError(
                "The blocks of rows must be CSR matrices, these are dense: convert "
                "them by scipy.sparse.csr_array, each by itself."
            )
        super().__init__(dtype, rows.shape[0])
        self.nnz = rows.nnz
        is_compressed = exchange == "needed"
        self._parts = rows.map(_part, self.dtype, is_compressed).persist()
        self._columns = self._parts.map(itemgetter(0)).gather() if is_compressed else []

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        if self._columns:
            rows = self._parts.like(X[columns] for columns in self._columns)
            blocks = self._parts.map(_multiply, aligned=[rows])
        else:
            blocks = self._parts.map(_multiply, X)
        product = np.concatenate(blocks.gather())
        put_product(product, X, out, alpha, shift, beta)


# The numbers of the columns that a block of rows keeps, None for all, and the block.
_Part = tuple[NDArray[np.int64] | None, sparse.csr_array]


def _part(W: sparse.csr_array, dtype: np.dtype, is_compressed: bool) -> _Part:
    """Convert a block: finite entries of a type, int32 indices where these suffice.

    Compressed, it keeps only the columns that have entries.
    """
    with ignore_fp_warnings():
        data = W.data.astype(dtype, copy=False)
    check_stored(W, data)
    columns, indices, shape = None, W.indices, W.shape
    if is_compressed:
        columns, indices = np.unique(indices, return_inverse=True)
        shape = W.shape[0], len(columns)
    index = np.int32 if max(len(data), *shape) < 2**31 else np.int64
    arrays = (a.astype(index, copy=False) for a in (indices, W.indptr))
    return columns, sparse.csr_array((data, *arrays), shape=shape)


def _multiply(part: _Part, X: np.ndarray) -> np.ndarray:
    W = part[1]
    out = np.empty((W.shape[0], X.shape[1]), X.dtype)
    one, zero = X.dtype.type(1), X.dtype.type(0)
    X = np.ascontiguousarray(X)  # other processes may send another memory order
    csr_matmat(W.indptr, W.indices, W.data, X, out, one, zero, zero)
    return out
