"""One pass over rows: counts, means and scatter matrices of each label.

Rows are shifted before they are multiplied, those of a label by a rough mean of
it, so that a mean far from zero does not cancel (Chan, Golub & LeVeque 1983). The
shift is taken out again at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import judged_later, refuse_entries
from scalefair.kernels import (
    add_gram,
    first_means,
    gather_shifted,
    label_scatter,
    mirror_lower,
)
from scalefair.streaming._blocks import row_blocks
from scalefair.streaming._sparse import accumulate_sparse, is_cheaper_sparse
from scalefair.streaming._sums import ShiftedSums

__all__ = ["accumulate"]

# Up to this width register tiles take 0.55 to 0.85 of the time of BLAS, which shares
# small matrices among its threads where tiles share rows. For more columns, those
# of 256 rows no longer fit the second-level cache.
_THIN = 192
# Many labels of many columns: partial sums would not fit a cache or a thread.
_THIN_BYTES = 2**23
_BLOCK_BYTES = 2**26
# A dense block that is not converted takes no memory: longer ones, fewer barriers.
_VIEW_BLOCKS = 4
# Rows behind the shift of a label; any typical value would do.
_SHIFT_ROWS = 1024

# Adds a block of rows with codes.
_Add = Callable[[NDArray[np.floating], NDArray[np.integer], ShiftedSums], None]


def accumulate(X: Any, codes: NDArray[np.integer], n_labels: int) -> ShiftedSums:
    """Return the sums of checked rows.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (m, n)
        Rows as `check_rows` returns them.
    codes : ndarray of shape (m,), int64
        Label of each row; every label has one at least.
    n_labels : int
        Number of labels.
    """
    sums = ShiftedSums(n_labels, X.shape[1])
    with judged_later():  # in `_add_block`, and when the sums are made moments
        if sparse.issparse(X) and is_cheaper_sparse(X):
            accumulate_sparse(X, codes, sums)
        else:
            _accumulate_dense(X, codes, sums)
    return sums


def _accumulate_dense(X: Any, codes: NDArray[np.integer], sums: ShiftedSums) -> None:
    """Add the rows of a dense or sparse matrix, blocks of the latter made dense."""
    n_labels, n = sums.shifts.shape
    thin = n <= _THIN and 8 * n_labels * n**2 <= _THIN_BYTES
    add = _add_thin if thin else _add_wide
    is_view = isinstance(X, np.ndarray) and X.dtype in (np.float32, np.float64)
    max_bytes = _BLOCK_BYTES * (_VIEW_BLOCKS if is_view else 1)
    for rows, block in row_blocks(X, max_bytes):
        if isinstance(block, np.ndarray):
            _add_block(_as_real(block), codes[rows], rows.start, sums, add)
            continue
        step = max(1, _BLOCK_BYTES // (8 * max(1, n)))
        for start in range(0, block.shape[0], step):
            part = _as_real(block[start : start + step].toarray())
            first = rows.start + start
            _add_block(part, codes[first : first + len(part)], first, sums, add)
    if not thin:
        for scatter in sums.scatters:
            mirror_lower(scatter)


def _add_block(
    block: NDArray[np.floating],
    codes: NDArray[np.integer],
    first: int,
    sums: ShiftedSums,
    add: _Add,
) -> None:
    if not sums.has_shift.all():
        means, counts = first_means(block, codes, len(sums.counts), _SHIFT_ROWS)
        sums.set_shifts(means, counts > 0)
    add(block, codes, sums)
    if not np.isfinite(sums.sums).all():
        refuse_entries(block, first)


def _add_thin(
    block: NDArray[np.floating], codes: NDArray[np.integer], sums: ShiftedSums
) -> None:
    counts, totals, scatters = label_scatter(block, codes, sums.shifts)
    sums.counts += counts
    sums.sums += totals
    sums.scatters += scatters


def _add_wide(
    block: NDArray[np.floating], codes: NDArray[np.integer], sums: ShiftedSums
) -> None:
    """Rows of one label after the other, by BLAS, on all its threads.

    OpenBLAS shares the entries of the result among its threads, not the rows:
    each is computed in the same order whatever their number.
    """
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


def _as_real(block: NDArray[Any]) -> NDArray[np.floating]:
    """Block in a type that the kernels know: float32, otherwise float64."""
    if block.dtype == np.float32 and block.dtype.isnative:
        return block
    return block.astype(np.float64, copy=False)
