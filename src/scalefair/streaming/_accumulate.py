"""Counts, means and scatter matrices by label, of rows shifted by a rough mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import SQUARES_OVERFLOW, judged_later, refuse_entries
from scalefair.kernels import (
    add_gram,
    first_means,
    gather_shifted,
    label_scatter,
    mirror_lower,
    sparse_gram,
)
from scalefair.streaming._blocks import row_blocks

# Up to this width register tiles are quicker than BLAS: 256 rows fit the cache.
_THIN = 192
# Many labels of many columns: partial sums would not fit a cache or a thread.
_THIN_BYTES = 2**23
_BLOCK_BYTES, _SPARSE_BYTES = 2**26, 2**25
_VIEW_BLOCKS = 4  # a dense block that is not converted takes no memory
_SHIFT_ROWS = 16  # behind the shift of a label; any typical value would do
# In products of a dense block: two stored entries, a stored one, one made dense.
_SCATTERED_COST, _STORED_ENTRY_COST, _DENSE_ENTRY_COST = 25, 600, 40
# Columns with this share of entries are shifted: they may have a large mean.
_FULL = 0.9


class ShiftedSums:
    """Counts, sums and scatter matrices of shifted rows, for each label."""

    def __init__(self, n_labels: int, n_features: int) -> None:
        self.counts = np.zeros(n_labels, np.int64)
        self.sums = np.zeros((n_labels, n_features))
        self.scatters = np.zeros((n_labels, n_features, n_features))
        self.shifts = np.zeros((n_labels, n_features))
        self.has_shift = np.zeros(n_labels, bool)

    def to_moments(self) -> tuple[NDArray[Any], ...]:
        """Return counts, means and scatter matrices about the means, in place."""
        offsets = self.sums / self.counts[:, None]
        for scatter, offset, count in zip(
            self.scatters, offsets, self.counts, strict=True
        ):
            diagonal = scatter.reshape(-1)[:: scatter.shape[0] + 1]
            if not np.isfinite(diagonal).all():
                raise ValueError(SQUARES_OVERFLOW)
            # sum (x - c)(x - c)^T - m (mean - c)(mean - c)^T, exactly symmetric
            offset = np.sqrt(count) * offset
            scatter -= np.outer(offset, offset)
            # Sums of squares: what is below zero is rounding.
            np.maximum(diagonal, 0.0, out=diagonal)
        return self.counts, self.shifts + offsets, self.scatters


def accumulate(X: Any, codes: NDArray[np.integer], n_labels: int) -> ShiftedSums:
    """Return the sums of rows as `check_rows` returns them; no label is without."""
    sums = ShiftedSums(n_labels, X.shape[1])
    with judged_later():  # where a block is added, and when the sums are made moments
        if sparse.issparse(X) and is_cheaper_sparse(X):
            _accumulate_sparse(X, codes, sums)
        else:
            _accumulate_dense(X, codes, sums)
    return sums


def _accumulate_dense(X: Any, codes: NDArray[np.integer], sums: ShiftedSums) -> None:
    n_labels, n = sums.shifts.shape
    thin = n <= _THIN and 8 * n_labels * n**2 <= _THIN_BYTES
    for first, block in _dense_blocks(X):
        labels = codes[first : first + len(block)]
        if not sums.has_shift.all():  # some labels are seen for the first time
            means, counts = first_means(block, labels, n_labels, _SHIFT_ROWS)
            new = (counts > 0) & ~sums.has_shift
            sums.shifts[new] = means[new]
            sums.has_shift |= new
        if thin:
            counts, totals, scatters = label_scatter(block, labels, sums.shifts)
            sums.counts += counts
            sums.sums += totals
            sums.scatters += scatters
        else:
            _add_wide(block, labels, sums)
        if not np.isfinite(sums.sums).all():
            refuse_entries(block, first)
    if not thin:
        for scatter in sums.scatters:
            mirror_lower(scatter)


def _dense_blocks(X: Any) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield first rows and blocks in types that the kernels know: float32, float64."""
    is_view = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    for rows, block in row_blocks(X, _BLOCK_BYTES * (_VIEW_BLOCKS if is_view else 1)):
        m, n = block.shape
        step = max(1, _BLOCK_BYTES // (8 * n)) if sparse.issparse(block) else m
        for start in range(0, m, step):
            part = block[start : start + step]
            part = part.toarray() if sparse.issparse(part) else part
            single = part.dtype == np.float32 and part.dtype.isnative
            kind = np.float32 if single else np.float64
            yield rows.start + start, part.astype(kind, copy=False)


def _add_wide(
    block: NDArray[np.floating], codes: NDArray[np.integer], sums: ShiftedSums
) -> None:
    """Rows of one label after the other, by BLAS, on all its threads."""
    n = block.shape[1]
    small = codes.astype(np.int16) if len(sums.counts) < 2**15 else codes
    order = np.argsort(small, kind="stable")  # a radix sort for 16 bits
    counts = np.bincount(codes, minlength=len(sums.counts))
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows_at_once = max(1, _BLOCK_BYTES // (16 * n))
    buffer = np.empty((min(rows_at_once, int(counts.max())), n))
    for code in np.flatnonzero(counts):
        for start in range(starts[code], starts[code + 1], rows_at_once):
            rows = order[start : min(start + rows_at_once, starts[code + 1])]
            shifted = buffer[: len(rows)]
            sums.sums[code] += gather_shifted(block, rows, sums.shifts[code], shifted)
            add_gram(shifted, sums.scatters[code])
    sums.counts += counts


def is_cheaper_sparse(X: Any) -> bool:
    """Whether products of stored entries take less time than dense blocks."""
    m, n = X.shape
    per_row = np.diff(X.indptr).astype(np.float64)
    scattered = _SCATTERED_COST * float(per_row @ per_row)
    scattered += _STORED_ENTRY_COST * X.nnz
    dense = m * (n * (n + 1) / 2 + _DENSE_ENTRY_COST * n)
    return bool(scattered < dense)


def _accumulate_sparse(X: Any, codes: NDArray[np.integer], sums: ShiftedSums) -> None:
    """Add the rows of a CSR matrix; in columns not nearly full nothing cancels."""
    for rows, block in row_blocks(X, _SPARSE_BYTES):
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
            stored = [(A.indptr, A.indices, A.data) for A in (part, part.T.tocsr())]
            sparse_gram(*stored[0], *stored[1], sums.scatters[code])
        if not np.isfinite(sums.sums).all():
            refuse_entries(block, rows.start)


def _full_column_means(X: Any) -> NDArray[np.float64]:
    """Means of the columns that are nearly full, zero for the others."""
    m, n = X.shape
    full = np.bincount(X.indices, minlength=n) >= _FULL * m
    return np.where(full, np.bincount(X.indices, X.data, minlength=n) / m, 0.0)


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
