"""Columns scaled to unit variance, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.cli._block_files import finite_blocks
from scalefair.cli._feature_store import RowStore

if TYPE_CHECKING:
    from scalefair.streaming import RowReader

__all__ = ["Scaled", "TooLargeError", "standardize", "standardize_blocks"]


class TooLargeError(ValueError):
    """The squares of a column, counted from 0, overflow."""

    def __init__(self, column: int) -> None:
        super().__init__(f"the numbers of column {column} are too large")
        self.column = column


@dataclass(frozen=True)
class Scaled:
    """Standardized rows, and how they came about.

    Attributes
    ----------
    matrix : {ndarray, csr_array, RowReader} of shape (m, n)
        ``(X - shift) / scale``, float64.
    shift, scale : ndarray of shape (n,)
        The shift is zero for sparse rows, which stay sparse.
    """

    matrix: Any
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]


def standardize(X: Any, folder: Path, limit: int | None = None) -> Scaled:
    """Divide each column by its sample standard deviation (divisor m - 1).

    Constant columns are only shifted. Rows that are not sparse are centred, too; if
    they are memory-mapped the result is, see `RowStore`.

    Parameters
    ----------
    X : {ndarray, csr_array} of shape (m, n)
        Finite rows.
    folder : Path
        Where a temporary file is made, if one is needed.
    limit : int or None, default=None
        Bytes above which one is, see `RowStore`.

    Raises
    ------
    TooLargeError
        If the scale of a column overflows.
    """
    from scalefair.streaming import row_blocks

    mean, scale = _measure(X.shape[0], (block for _, block in row_blocks(X)))
    if sparse.issparse(X):
        return Scaled(_scale_entries(X, scale), np.zeros_like(mean), scale)
    with RowStore(folder, limit) as store:
        for _, block in row_blocks(X):
            store.append(_scale_rows(block, mean, scale))
        return Scaled(store.matrix(), mean, scale)


def standardize_blocks(path: Path, X: RowReader) -> Scaled:
    """Do the same to rows that are read in blocks, each time they are read.

    Parameters
    ----------
    path : Path
        Where they are from, for messages.
    X : RowReader
        The rows.

    Raises
    ------
    Failure
        If the file cannot be read, or a value is not finite.
    TooLargeError
        If the scale of a column overflows.
    """
    from scalefair.cli._mapped_reader import MappedReader

    mean, scale = _measure(X.shape[0], finite_blocks(path, X))
    change = partial(_scale_rows, mean=mean, scale=scale)
    if X.is_sparse:
        change, mean = partial(_scale_entries, scale=scale), np.zeros_like(mean)
    return Scaled(MappedReader(X, change, dtype=np.dtype(np.float64)), mean, scale)


def _scale_rows(
    X: NDArray[Any], mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    return (X - mean) / scale


def _scale_entries(X: Any, scale: NDArray[np.float64]) -> sparse.csr_array:
    data = X.data / scale[X.indices]
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)


def _measure(
    m: int, blocks: Iterable[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and standard deviations of the columns of `m` rows."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=False)  # takes sparse rows as well
    with np.errstate(over="ignore", invalid="ignore"):  # which is looked at below
        for block in blocks:
            scaler.partial_fit(block)
    overflows = np.flatnonzero(~np.isfinite(scaler.var_))
    if overflows.size:
        raise TooLargeError(int(overflows[0]))
    # The scaler gives one to constant columns, and divides by m elsewhere.
    varies = scaler.scale_ == np.sqrt(scaler.var_)
    factor = np.where(varies, np.sqrt(m / max(1, m - 1)), 1.0)
    return np.asarray(scaler.mean_, float), scaler.scale_ * factor
