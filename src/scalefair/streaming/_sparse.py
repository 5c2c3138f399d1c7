"""Scatter matrices of sparse rows from their stored entries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import refuse_entries
from scalefair.kernels import sparse_gram
from scalefair.streaming._blocks import row_blocks
from scalefair.streaming._sums import ShiftedSums

__all__ = ["accumulate_sparse", "is_cheaper_sparse"]

# Times, measured in products of a dense block: of a product of two stored entries,
# added at a scattered place; of a stored entry, to be selected and transposed; of
# an entry made dense.
_SCATTERED_COST = 25
_STORED_ENTRY_COST = 600
_DENSE_ENTRY_COST = 40
# Columns with this share of entries are shifted: they may have a large mean.
_FULL = 0.9
_BLOCK_BYTES = 2**25


def is_cheaper_sparse(X: Any) -> bool:
    """Whether products of stored entries take less time than dense blocks."""
    m, n = X.shape
    per_row = np.diff(X.indptr).astype(np.float64)
    scattered = _SCATTERED_COST * float(per_row @ per_row)
    scattered += _STORED_ENTRY_COST * X.nnz
    dense = m * (n * (n + 1) / 2 + _DENSE_ENTRY_COST * n)
    return bool(scattered < dense)


def accumulate_sparse(X: Any, codes: NDArray[np.integer], sums: ShiftedSums) -> None:
    """Add the rows of a CSR matrix without making them dense.

    Only columns that are nearly full are shifted: in the others the zeros keep the
    variance of the same order as the mean square, and nothing cancels.
    """
    for rows, block in row_blocks(X, _BLOCK_BYTES):
        block_codes = codes[rows]
        for code in np.unique(block_codes):
            part = block[np.flatnonzero(block_codes == code)]
            if not sums.has_shift[code]:
                sums.shifts[code] = _full_column_means(part)
                sums.has_shift[code] = True
            part = _shift_columns(part, sums.shifts[code])
            sums.counts[code] += part.shape[0]
            sums.sums[code] += np.bincount(
                part.indices, weights=part.data, minlength=part.shape[1]
            )
            columns = part.T.tocsr()
            sparse_gram(
                part.indptr,
                part.indices,
                part.data,
                columns.indptr,
                columns.indices,
                columns.data,
                sums.scatters[code],
            )
        if not np.isfinite(sums.sums).all():
            refuse_entries(block, rows.start)


def _full_column_means(X: Any) -> NDArray[np.float64]:
    """Means of the columns that are nearly full, zero for the others."""
    m, n = X.shape
    full = np.bincount(X.indices, minlength=n) >= _FULL * m
    totals = np.bincount(X.indices, weights=X.data, minlength=n)
    return np.where(full, totals / m, 0.0)


def _shift_columns(X: Any, shift: NDArray[np.float64]) -> Any:
    """Return ``X - shift`` in float64, stored without the zeros of the shift."""
    X = X.astype(np.float64)
    columns = np.flatnonzero(shift)
    if columns.size == 0:
        return X
    m = X.shape[0]
    shifted = X[:, columns].toarray() - shift[columns]
    kept = X.tocoo()
    others = shift[kept.col] == 0
    row = np.concatenate([kept.row[others], np.repeat(np.arange(m), columns.size)])
    column = np.concatenate([kept.col[others], np.tile(columns, m)])
    data = np.concatenate([kept.data[others], shifted.ravel()])
    return sparse.csr_array((data, (row, column)), shape=X.shape)
