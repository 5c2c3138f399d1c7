"""Blocks of rows: checks, reading, and sums over the rows of each label.

Counts, means and scatter matrices are those of rows shifted by a rough mean. Of
weighted rows a count is the sum of the weights, and the scatter that of shifted rows
times the roots of their weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import (
    SQUARES_OVERFLOW,
    canonical,
    ignore_fp_warnings,
    naming_text_columns,
    refuse_entries,
    refuse_unread,
)
from scalefair._memory import sparse_bounds
from scalefair.kernels import (
    add_gram,
    first_means,
    gather_shifted,
    label_scatter,
    mirror_lower,
    sparse_gram,
)

Weights = NDArray[np.float64] | None  # of rows or entries; None: all are 1
Entries = NDArray[np.int64] | None  # row of each entry, rising; None: the rows

# Bytes of the scatter matrices of all labels up to which register tiles are faster than
# BLAS: the sums of a thread fit the second-level cache.
MAX_TILED_BYTES = 2**20
# Bytes of a block of rows in float64.
BLOCK_BYTES = 2**26


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
    """Yield rows between the bounds; all rows at once are `X` itself, not a copy."""
    for start, stop in pairwise(bounds):
        rows = slice(start, stop)
        yield rows, X if stop - start == X.shape[0] else X[rows]


def check_rows(X: Any) -> Any:
    """Return `X` as a real matrix, dense or CSR, without reading its entries.

    A memory-mapped array stays on disk.
    """
    refuse_unread(X)
    rows = canonical(X.tocsr()) if sparse.issparse(X) else np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(
            f"X must have two dimensions, rows and features, got shape {rows.shape}. "
            "Reshape a single feature by X.reshape(-1, 1)."
        )
    if rows.dtype.kind == "O" and not sparse.issparse(X):
        with naming_text_columns(X):
            rows = rows.astype(np.float64)
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers, got the type {rows.dtype}.")
    if 0 in rows.shape:
        raise ValueError(
            f"X has shape {rows.shape}: at least one row and one feature are needed."
        )
    return rows


class ShiftedSums:
    """Counts, sums and scatter matrices of shifted rows, for each label.

    Without a shift near the mean, squares of means cancel in the scatter: of values
    about 1e6 with deviation 1 four digits of sixteen would be left.
    """

    def __init__(
        self, n_labels: int, n_features: int, *, is_weighted: bool = False
    ) -> None:
        self.counts = np.zeros(n_labels, np.float64 if is_weighted else np.int64)
        self.sums = np.zeros((n_labels, n_features))
        self.scatters = np.zeros((n_labels, n_features, n_features))
        self.shifts = np.zeros((n_labels, n_features))
        self.has_shift = np.zeros(n_labels, bool)

    def to_moments(self) -> tuple[NDArray[Any], ...]:
        """Return counts, means and scatter matrices about the means, in place."""
        # A label without weight has sums of zero.
        offsets = self.sums / np.where(self.counts > 0, self.counts, 1)[:, None]
        for scatter, offset, count in zip(
            self.scatters, offsets, self.counts, strict=True
        ):
            diagonal = scatter.reshape(-1)[:: scatter.shape[0] + 1]
            if not np.isfinite(diagonal).all():
                raise ValueError(SQUARES_OVERFLOW)
            # sum (x - c)(x - c)^T - m (mean - c)(mean - c)^T, exactly symmetric
            offset = np.sqrt(count) * offset
            scatter -= np.outer(offset, offset)
            # Sums of squares: negative values are rounding errors.
            np.maximum(diagonal, 0.0, out=diagonal)
        return self.counts, self.shifts + offsets, self.scatters


def accumulate(
    X: Any,
    codes: NDArray[np.integer],
    n_labels: int,
    weights: Weights = None,
    entries: Entries = None,
) -> ShiftedSums:
    """Return the sums of rows from `check_rows`.

    Codes and weights are of the rows, or of `entries`: a row may have several.
    """
    sums = ShiftedSums(n_labels, X.shape[1], is_weighted=weights is not None)
    with ignore_fp_warnings():  # sums are checked after each block, and in `to_moments`
        if sparse.issparse(X) and is_cheaper_sparse(X):
            _accumulate_sparse(X, codes, sums, weights, entries)
        else:
            _accumulate_dense(X, codes, sums, weights, entries)
    return sums


def _entries_of_rows(
    entries: Entries, first: int, n_rows: int
) -> Iterator[tuple[slice, Any]]:
    """Yield entries of consecutive rows, as many as rows at a time, and their rows.

    The rows are counted from the first. Without entries the rows themselves.
    """
    if entries is None:
        yield slice(first, first + n_rows), slice(None)
        return
    start, stop = np.searchsorted(entries, [first, first + n_rows]).tolist()
    for begin in range(start, stop, n_rows):
        part = slice(begin, min(begin + n_rows, stop))
        yield part, entries[part] - first


def _accumulate_dense(
    X: Any,
    codes: NDArray[np.integer],
    sums: ShiftedSums,
    weights: Weights,
    entries: Entries,
) -> None:
    """Add rows block by block, by register tiles or, of large matrices, by BLAS.

    Weighted rows are shifted and scaled here; kernels then get shifts of zero.
    """
    n_labels = len(sums.counts)
    is_tiled = sums.scatters.nbytes <= MAX_TILED_BYTES
    for first, block, part, indices in _dense_blocks(X, entries):
        labels, members = codes[part], block[indices]
        block_weights = None if weights is None else weights[part]
        # 1. The shift of labels that occur for the first time.
        if not sums.has_shift.all():
            # Any typical value will do as a shift: here the mean of at most 16 rows.
            means, counts = first_means(members, labels, n_labels, 16, block_weights)
            new = (counts > 0) & ~sums.has_shift
            sums.shifts[new] = means[new]
            sums.has_shift |= new
        # 2. Scatter matrices; those of BLAS have a lower triangle only, until the end.
        if block_weights is None:
            rows, shifts = members, sums.shifts
        else:
            rows, shifts = members - sums.shifts[labels], np.zeros_like(sums.shifts)
            rows *= np.sqrt(block_weights)[:, None]
        if is_tiled:
            counts, totals, scatters = label_scatter(rows, labels, shifts)
            sums.scatters += scatters
        else:
            counts, totals = _add_by_blas(rows, labels, shifts, sums.scatters)
        # 3. Counts and sums. Rows of weight w are sqrt(w) (x - shift): their sums are
        #    those of sqrt(w) times the rows.
        if block_weights is not None:
            counts = np.bincount(labels, block_weights, minlength=n_labels)
            roots = np.sqrt(block_weights), (labels, np.arange(len(rows)))
            totals = sparse.csr_array(roots, shape=(n_labels, len(rows))) @ rows
        sums.counts += counts
        sums.sums += totals
        if not np.isfinite(sums.sums).all():
            refuse_entries(block, first)
    if not is_tiled:
        for scatter in sums.scatters:
            mirror_lower(scatter)


def _dense_blocks(
    X: Any, entries: Entries
) -> Iterator[tuple[int, NDArray[np.floating], slice, Any]]:
    """Yield first rows, dense blocks in float32 or float64, as kernels take them.

    With them the entries, and their rows within the block.
    """
    for rows, block in row_blocks(X, BLOCK_BYTES):
        m, n = block.shape
        # A sparse block has more rows than fit the memory once they are dense.
        step = max(1, BLOCK_BYTES // (8 * n)) if sparse.issparse(block) else m
        for start in range(0, m, step):
            part = block[start : start + step]
            part = part.toarray() if sparse.issparse(part) else part
            is_single = part.dtype == np.float32 and part.dtype.isnative
            part = part.astype(np.float32 if is_single else np.float64, copy=False)
            first = rows.start + start
            for chosen, indices in _entries_of_rows(entries, first, len(part)):
                yield first, part, chosen, indices


def _add_by_blas(
    block: NDArray[np.floating],
    codes: NDArray[np.integer],
    shifts: NDArray[np.float64],
    scatters: NDArray[np.float64],
) -> tuple[NDArray[np.integer], NDArray[np.float64]]:
    """Add the rows of one label after the other, by BLAS; return counts and sums.

    Only lower triangles are added to.
    """
    n_labels, n = shifts.shape
    # NumPy sorts integers of 16 bits by radix.
    short_codes = codes.astype(np.int16) if n_labels < 2**15 else codes
    order = np.argsort(short_codes, kind="stable")
    counts, sums = np.bincount(codes, minlength=n_labels), np.zeros_like(shifts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows_at_once = max(1, BLOCK_BYTES // (16 * n))
    buffer = np.empty((min(rows_at_once, int(counts.max())), n))
    for code in np.flatnonzero(counts):
        for start in range(starts[code], starts[code + 1], rows_at_once):
            rows = order[start : min(start + rows_at_once, starts[code + 1])]
            shifted = buffer[: len(rows)]
            sums[code] += gather_shifted(block, rows, shifts[code], shifted)
            add_gram(shifted, scatters[code])
    return counts, sums


def is_cheaper_sparse(X: Any) -> bool:
    """Whether products of stored entries take less time than dense blocks."""
    m, n = X.shape
    per_row = np.diff(X.indptr).astype(np.float64)
    # Measured times, in units of one product of a dense block: 25 for each pair of
    # stored entries in a row, 600 to copy, sort and transpose a stored entry, and 40 to
    # make an entry dense.
    sparse_time = 25 * float(per_row @ per_row) + 600 * X.nnz
    dense_time = m * (n * (n + 1) / 2 + 40 * n)
    return bool(sparse_time < dense_time)


def _accumulate_sparse(
    X: Any,
    codes: NDArray[np.integer],
    sums: ShiftedSums,
    weights: Weights,
    entries: Entries,
) -> None:
    """Add the rows of a CSR matrix, shifted in the columns with few zeros.

    The scatter has the products of the stored entries of each row only.
    """
    for first, block, chosen, indices in _sparse_blocks(X, entries):
        block_codes = codes[chosen]
        for code in np.unique(block_codes):
            members = np.flatnonzero(block_codes == code)
            part = block[indices[members]]
            part_weights = None if weights is None else weights[chosen][members]
            count = len(members) if part_weights is None else part_weights.sum()
            if not sums.has_shift[code] and count > 0:
                # Only a nearly full column can have a mean that is large compared with
                # its standard deviation: in the others nothing cancels.
                filled = _column_sums(part, np.ones_like(part.data), part_weights)
                means = _column_sums(part, part.data, part_weights) / count
                sums.shifts[code] = np.where(filled >= 0.9 * count, means, 0.0)
                sums.has_shift[code] = True
            part = _shift_columns(part, sums.shifts[code])
            sums.counts[code] += count
            sums.sums[code] += _column_sums(part, part.data, part_weights)
            if part_weights is not None:
                part.data *= np.repeat(np.sqrt(part_weights), np.diff(part.indptr))
            stored = [(A.indptr, A.indices, A.data) for A in (part, part.T.tocsr())]
            sparse_gram(*stored[0], *stored[1], sums.scatters[code])
        if not np.isfinite(sums.sums).all():
            refuse_entries(block, first)


def _sparse_blocks(
    X: Any, entries: Entries
) -> Iterator[tuple[int, Any, slice, NDArray[np.int64]]]:
    """Yield first rows, CSR blocks, entries, and their rows within the block."""
    # Half the bytes of a dense block: the products need copies of a sparse one.
    for rows, block in row_blocks(X, BLOCK_BYTES // 2):
        numbers = np.arange(block.shape[0])
        for part, indices in _entries_of_rows(entries, rows.start, len(numbers)):
            yield rows.start, block, part, numbers[indices]


def _column_sums(
    X: Any, data: NDArray[np.floating], weights: Weights
) -> NDArray[np.float64]:
    """Return the sums of the columns of a CSR matrix with other entries."""
    if weights is not None:
        data = data * np.repeat(weights, np.diff(X.indptr))
    return np.asarray(np.bincount(X.indices, data, minlength=X.shape[1]), np.float64)


def _shift_columns(X: Any, shift: NDArray[np.float64]) -> Any:
    """Return ``X - shift`` in float64; columns without a shift stay sparse."""
    X = X.astype(np.float64)
    columns = np.flatnonzero(shift)
    if columns.size == 0:
        return X
    m = X.shape[0]
    # Entries of the columns without a shift, and all rows of the others.
    shifted = X[:, columns].toarray() - shift[columns]
    entries = X.tocoo()
    unshifted = shift[entries.col] == 0
    row = np.concatenate(
        [entries.row[unshifted], np.repeat(np.arange(m), columns.size)]
    )
    column = np.concatenate([entries.col[unshifted], np.tile(columns, m)])
    data = np.concatenate([entries.data[unshifted], shifted.ravel()])
    return sparse.csr_array((data, (row, column)), shape=X.shape)
