"""Dense and sparse rows as one kind of argument, and how they are cut for threads."""

from __future__ import annotations

import functools

import numpy as np

__all__ = ["row_chunks", "row_table"]

# Fewest rows of a chunk, most chunks, and most bytes of their partial sums.
_ROWS = 2048
_CHUNKS = 64
_PARTIAL_BYTES = 2**27


def row_table(X):
    """Return the arrays of dense or CSR rows, as the kernels of this file read them.

    Parameters
    ----------
    X : ndarray or sparse array of shape (m, n)
        C-contiguous or CSR, float64 or float32.

    Returns
    -------
    tuple of ndarray
        ``(indptr, indices, data)``; for dense rows `data` is `X` and the others
        are empty. Kernels are compiled for read-only arrays and for 64-bit `indptr`
        alone; indices are unsigned, so that no kernel asks if one is negative.
        Only `indptr` may be a copy.
    """
    if isinstance(X, np.ndarray):
        none = np.empty(0, np.int64), np.empty(0, np.uint32)
        return *map(_read_only, none), _read_only(X)
    unsigned = X.indices.view(f"u{X.indices.dtype.itemsize}")
    indptr = X.indptr.astype(np.int64, copy=False)
    return _read_only(indptr), _read_only(unsigned), _read_only(X.data)


def _read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


def row_chunks(table, n_rows, n_partial):
    """Return bounds of chunks of rows with `n_partial` partial sums each.

    They depend on the sizes alone. There are few if the sums of the chunks would
    take more time than their rows, or too much memory.
    """
    indptr, _, data = table
    n_entries = data.size if data.ndim == 2 else int(indptr[-1] - indptr[0])
    room = _PARTIAL_BYTES // (8 * n_partial)
    # To clear and add the partial sums should cost less than to read the entries.
    work = max(2, n_entries // n_partial)
    most = max(1, min(_CHUNKS, room, work, n_rows // _ROWS))
    return _bounds(n_rows, 2 ** (most.bit_length() - 1))


@functools.lru_cache(maxsize=64)
def _bounds(n_rows, n_chunks):
    return np.linspace(0, n_rows, n_chunks + 1).astype(np.int64)
