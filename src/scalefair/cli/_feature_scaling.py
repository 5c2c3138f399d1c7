"""Columns scaled to unit variance, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.cli._feature_store import RowStore

__all__ = ["Scaled", "standardize"]


@dataclass(frozen=True)
class Scaled:
    """Standardized rows, and how they came about.

    Attributes
    ----------
    matrix : {ndarray, csr_array} of shape (m, n)
        ``(X - shift) / scale``, float64.
    shift, scale : ndarray of shape (n,)
        The shift is zero for sparse rows, which stay sparse.
    """

    matrix: Any
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]


def standardize(X: Any, folder: Path) -> Scaled:
    """Divide each column by its sample standard deviation (divisor m - 1).

    Constant columns are only shifted. Rows that are not sparse are centred, too; if
    they are memory-mapped the result is, see `RowStore`.

    Parameters
    ----------
    X : {ndarray, csr_array} of shape (m, n)
        Finite rows.
    folder : Path
        Where a temporary file is made, if one is needed.
    """
    mean, scale = _measure(X)
    if sparse.issparse(X):
        data = X.data / scale[X.indices]
        matrix = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
        return Scaled(matrix, np.zeros_like(mean), scale)
    from scalefair.streaming import row_blocks

    with RowStore(folder) as store:
        for _, block in row_blocks(X):
            store.append((block - mean) / scale)
        return Scaled(store.matrix(), mean, scale)


def _measure(X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from sklearn.preprocessing import StandardScaler

    from scalefair.streaming import row_blocks

    scaler = StandardScaler(with_mean=False)  # takes sparse rows as well
    for _, block in row_blocks(X):
        scaler.partial_fit(block)
    m = X.shape[0]
    # The scaler gives one to constant columns, and divides by m elsewhere.
    varies = scaler.scale_ == np.sqrt(scaler.var_)
    factor = np.where(varies, np.sqrt(m / max(1, m - 1)), 1.0)
    return np.asarray(scaler.mean_, float), scaler.scale_ * factor
