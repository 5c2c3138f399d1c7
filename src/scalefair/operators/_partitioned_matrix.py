"""A symmetric sparse matrix in blocks of rows, kept in parts."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

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
        self._columns: list[NDArray[np.int64]] | None = None
        if exchange == "needed":
            self._parts = rows.map(_compress, self.dtype).persist()
            self._columns = self._parts.map(attrgetter("columns")).gather()
        else:
            self._parts = rows.map(_checked, self.dtype).persist()

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        if self._columns is None:
            blocks = self._parts.map(_multiply, X)
        else:
            rows = self._parts.like(X[columns] for columns in self._columns)
            blocks = self._parts.map(_multiply_compressed, each=[rows])
        product = np.concatenate(blocks.gather())
        put_product(product, X, out, alpha, shift, beta)


class _CompressedRows(NamedTuple):
    """A block of rows without its empty columns, and the numbers of the others."""

    columns: NDArray[np.int64]
    matrix: sparse.csr_array


def _checked(W: sparse.csr_array, dtype: np.dtype) -> sparse.csr_array:
    """Block with finite entries of a type, and int32 indices if they suffice."""
    with ignore_fp_warnings():
        data = W.data.astype(dtype, copy=False)
    check_stored(W, data)
    return _csr(data, W.indices, W.indptr, W.shape)


def _compress(W: sparse.csr_array, dtype: np.dtype) -> _CompressedRows:
    W = _checked(W, dtype)
    occurs = np.zeros(W.shape[1], bool)
    occurs[W.indices] = True
    columns = np.flatnonzero(occurs)
    position = np.cumsum(occurs) - 1  # of each column among those that occur
    shape = W.shape[0], len(columns)
    return _CompressedRows(columns, _csr(W.data, position[W.indices], W.indptr, shape))


def _csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
) -> sparse.csr_array:
    index = np.int32 if max(len(data), *shape) < 2**31 else np.int64
    parts = data, indices.astype(index, copy=False), indptr.astype(index, copy=False)
    return sparse.csr_array(parts, shape=shape)


def _multiply_compressed(block: _CompressedRows, X: np.ndarray) -> np.ndarray:
    return _multiply(block.matrix, X)


def _multiply(W: sparse.csr_array, X: np.ndarray) -> np.ndarray:
    out = np.empty((W.shape[0], X.shape[1]), X.dtype)
    one, zero = X.dtype.type(1), X.dtype.type(0)
    X = np.ascontiguousarray(X)  # other processes may send another memory order
    csr_matmat(W.indptr, W.indices, W.data, X, out, one, zero, zero)
    return out
