"""Arrays as kernels take them, so that each kernel is compiled for few types.

Type aliases for the annotations of public kernels, read-only views, dense and sparse
rows as one kind of argument, and the chunks of rows that threads share.
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]  # float64 or float32
Float64Array = NDArray[np.float64]
IntArray = NDArray[np.integer]
Scalar = float | np.floating
# The results of `row_table` and `strided_table`.
RowTable = tuple[IntArray, IntArray, FloatArray]
StridedTable = tuple[FloatArray, int, int, int]

_Arrays = TypeVar("_Arrays")

# Entries up to which an array is converted to the type that is compiled first: the
# conversion takes microseconds, the compilation for another type seconds.
SMALL_SIZE = 2**14
# Rows of a tall block in a chunk, or entries of each long row. 2048 rows of 64 doubles
# are 1 MiB, and fit the second-level cache.
CHUNK_SIZE = 2048
# Largest number of chunks: a few for each thread, so that threads end at about the same
# time.
MAX_CHUNKS = 64
# Largest size of the partial sums of all chunks together.
MAX_PARTIAL_BYTES = 2**27


def read_only(arrays: _Arrays) -> _Arrays:
    """Return a read-only view of an array, those of a tuple of arrays, None of None.

    Numba compiles a kernel once for read-only and once for writable arguments. Inputs
    are always passed read-only, so that one compilation is enough.
    """
    if isinstance(arrays, tuple):
        return tuple(map(read_only, arrays))  # type: ignore[return-value]
    if isinstance(arrays, np.ndarray):
        arrays = arrays.view()
        arrays.flags.writeable = False
    return arrays


def row_table(X: Any) -> RowTable:
    """Return dense or CSR rows as ``(indptr, indices, data)``, as kernels read them.

    For dense rows `data` is `X` and the other arrays are empty. `indptr` has 64 bits.
    Indices are unsigned, so that kernels do not test for negative ones. Small inputs
    are converted to float64 and 32-bit indices; of large ones only `indptr` is copied.
    """
    if isinstance(X, np.ndarray):
        # Kernels tell dense rows by the two dimensions of `data`.
        data = X.astype(np.float64, copy=False) if X.size <= SMALL_SIZE else X
        indptr, indices = np.empty(0, np.int64), np.empty(0, np.uint32)
        return read_only((indptr, indices, data))
    indptr = X.indptr.astype(np.int64, copy=False)
    indices, data = X.indices.view(f"u{X.indices.dtype.itemsize}"), X.data
    if data.size <= SMALL_SIZE and X.shape[1] < 2**32:
        indices = indices.astype(np.uint32, copy=False)
        data = data.astype(np.float64, copy=False)
    return read_only((indptr, indices, data))


def strided_table(X: FloatArray) -> StridedTable:
    """Return ``(memory, offset, row_stride, column_stride)`` of dense rows.

    The entry (i, j) is ``memory[offset + i * row_stride + j * column_stride]``; the
    memory is read-only. `X` is copied only if it is small and float32, or if its
    strides are no multiples of the size of an entry.
    """
    if X.size <= SMALL_SIZE:
        X = X.astype(np.float64, copy=False)
    if any(stride % X.itemsize for stride in X.strides):
        X = X.copy()
    # 1. Strides in entries, and how far the last entry of each axis is from the first.
    strides = [stride // X.itemsize for stride in X.strides]
    extents = [step * (size - 1) for step, size in zip(strides, X.shape, strict=True)]
    # 2. All memory from the lowest to the highest entry, as one vector. It may hold
    #    entries between those of X, which are never addressed.
    # Reverse axes with negative strides: the view starts at the lowest address.
    forward = X[tuple(slice(None, None, -1 if step < 0 else 1) for step in strides)]
    memory = np.lib.stride_tricks.as_strided(
        forward,
        (1 + sum(map(abs, extents)) if X.size else 0,),
        (X.itemsize,),
        writeable=False,
    )
    # Entry (0, 0) is at the far end of the reversed axes.
    return memory, -sum(min(extent, 0) for extent in extents), *strides


def row_chunks(table: RowTable, n_rows: int, n_partial: int) -> IntArray:
    """Return the bounds of chunks of rows, which depend on the sizes alone.

    Each chunk has `n_partial` partial sums. There are fewer chunks if the sums would
    take too much memory, or more time than the entries of the rows. Chunk c has the
    rows from ``bounds[c]`` to ``bounds[c + 1]``. They do not depend on the number of
    threads, and neither do sums that are added in their order.
    """
    indptr, _, data = table
    # Of CSR rows that are a part of a larger matrix, pointers need not begin at 0.
    n_entries = data.size if data.ndim == 2 else int(indptr[-1] - indptr[0])
    memory_limit = MAX_PARTIAL_BYTES // (8 * n_partial)
    # To clear and add the partial sums should cost less than to read the entries.
    work_limit = max(2, n_entries // n_partial)
    return equal_chunks(n_rows, min(memory_limit, work_limit))


def equal_chunks(n_rows: int, limit: int = MAX_CHUNKS) -> IntArray:
    """Return the bounds of equal chunks of rows, as many as `limit` or fewer."""
    n_chunks = max(1, min(MAX_CHUNKS, limit, n_rows // CHUNK_SIZE))
    # A power of two: few different numbers of chunks, whose bounds are cached.
    return _bounds(n_rows, 2 ** (n_chunks.bit_length() - 1))


@functools.lru_cache(maxsize=64)
def _bounds(n_rows, n_chunks):
    return read_only(np.linspace(0, n_rows, n_chunks + 1).astype(np.int64))
