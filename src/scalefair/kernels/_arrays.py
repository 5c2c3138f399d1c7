"""Arrays as kernels take them, so that each is compiled for few types.

Their names for readers and type checkers (Numba infers types of its own), views that
are only read, dense and sparse rows as one kind of argument, and their chunks.
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
Index = int | np.integer
# What `row_table` and `strided_table` return.
RowTable = tuple[IntArray, IntArray, FloatArray]
StridedTable = tuple[FloatArray, int, int, int]

_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])


def read_only(array: _Array) -> _Array:
    """Return a view of an array that cannot be written.

    Kernels are compiled, in seconds, for each: what is only read is always passed so.
    """
    view = array.view()
    view.flags.writeable = False
    return view


# Entries up to which rows are converted to the one type that is compiled first: to
# compile for another takes seconds, to convert them microseconds.
_FEW = 2**14
# Fewest rows of a chunk, most chunks, and most bytes of their partial sums.
_ROWS = 2048
_CHUNKS = 64
_PARTIAL_BYTES = 2**27


def row_table(X: Any) -> RowTable:
    """Return dense or CSR rows as ``(indptr, indices, data)``, as kernels read them.

    For dense rows `data` is `X` and the others are empty. `indptr` has 64 bits and the
    indices are unsigned, so that no kernel asks if one is negative. Of many rows only
    `indptr` may be a copy; few are made float64 with 32-bit indices.
    """
    if isinstance(X, np.ndarray):
        data = X.astype(np.float64, copy=False) if X.size <= _FEW else X
        indptr, indices = np.empty(0, np.int64), np.empty(0, np.uint32)
        return read_only(indptr), read_only(indices), read_only(data)
    indptr = X.indptr.astype(np.int64, copy=False)
    indices, data = X.indices.view(f"u{X.indices.dtype.itemsize}"), X.data
    if data.size <= _FEW and X.shape[1] < 2**32:
        indices = indices.astype(np.uint32, copy=False)
        data = data.astype(np.float64, copy=False)
    return read_only(indptr), read_only(indices), read_only(data)


def strided_table(X: FloatArray) -> StridedTable:
    """Return the memory of dense rows of any layout, and how to go through it.

    The memory, read-only, then the place of the first entry and the steps to the next
    row and column. A copy only if entries lie at no multiple of their size, or if few
    in float32 are made float64.
    """
    if X.size <= _FEW:
        X = X.astype(np.float64, copy=False)
    if any(stride % X.itemsize for stride in X.strides):
        X = X.copy()
    steps = [stride // X.itemsize for stride in X.strides]
    ends = [step * (size - 1) for step, size in zip(steps, X.shape, strict=True)]
    forward = X[tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)]
    memory = np.lib.stride_tricks.as_strided(
        forward,
        (1 + sum(map(abs, ends)) if X.size else 0,),
        (X.itemsize,),
        writeable=False,
    )
    return memory, -sum(min(end, 0) for end in ends), *steps


def row_chunks(table: RowTable, n_rows: int, n_partial: int) -> IntArray:
    """Return bounds of chunks of rows, by the sizes alone.

    There are few if their `n_partial` sums each would take more time than their rows,
    or too much memory.
    """
    indptr, _, data = table
    n_entries = data.size if data.ndim == 2 else int(indptr[-1] - indptr[0])
    room = _PARTIAL_BYTES // (8 * n_partial)
    # To clear and add the partial sums should cost less than to read the entries.
    work = max(2, n_entries // n_partial)
    most = max(1, min(_CHUNKS, room, work, n_rows // _ROWS))
    return _bounds(n_rows, 2 ** (most.bit_length() - 1))


@functools.lru_cache(maxsize=64)
def _bounds(n_rows: int, n_chunks: int) -> IntArray:
    return read_only(np.linspace(0, n_rows, n_chunks + 1).astype(np.int64))
