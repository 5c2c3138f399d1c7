"""Dense rows in a file of ``numpy.save``."""

from __future__ import annotations

import os
from typing import Any

from numpy.typing import NDArray

from scalefair._npy import DAMAGE, read_header, read_rows
from scalefair.streaming._source_file import (
    BLOCK_BYTES,
    FileReader,
    SourceFile,
    block_type,
    check_max_bytes,
    cut_evenly,
    one_line,
)

__all__ = ["NpyReader"]


class NpyReader(FileReader):
    """Dense rows in a ``.npy`` file, read a block at a time.

    Any block is read as fast as the next one. Rows in Fortran order take longer,
    for those of a block are scattered over the whole file.

    Parameters
    ----------
    path : str or path-like
        File that ``numpy.save`` wrote: a two-dimensional array of real numbers. It
        must stay as it is.
    max_bytes : int, default=2**26
        Size of a block, 64 MiB by default. A block has one row at least.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block.
    n_features : int
        Number of columns.
    dtype : dtype
        float32 if the file's numbers are, else float64, to which they are converted.
    nnz : int
        Number of entries.

    Raises
    ------
    ValueError
        If the file is missing, is truncated, or holds something else.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scalefair.streaming import GroupMoments, NpyReader
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.arange(12.0).reshape(6, 2))
    ...     reader = NpyReader(path, max_bytes=64)
    ...     moments = GroupMoments.from_data(reader, ["a", "b"] * 3)
    >>> reader.shape, reader.lengths
    ((6, 2), array([4, 2]))
    >>> moments.means
    array([[4., 5.],
           [6., 7.]])
    """

    is_sparse = False

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = BLOCK_BYTES
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        self._source = source = SourceFile(path)
        with source.opened() as file:
            try:
                self._header = header = read_header(file)
            except DAMAGE as error:
                raise source.fault(
                    "not an array saved by numpy.save, or damaged "
                    f"({one_line(error)}). Save it again"
                ) from error
        self._check()
        m, self.n_features = header.shape
        self.dtype = block_type(header.dtype)
        self.nnz = m * self.n_features
        step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        self.lengths = cut_evenly(m, step)
        self._step = step

    def block(self, number: int) -> NDArray[Any]:
        """Return the rows of a block.

        Parameters
        ----------
        number : int
            Which block, from 0.

        Returns
        -------
        ndarray of shape (lengths[number], n_features)
            A copy, C-contiguous.

        Raises
        ------
        ValueError
            If the file is no longer what it was.
        """
        length = int(self.lengths[number])
        start = range(len(self))[number] * self._step
        with self._source.opened(buffering=0) as file:
            return read_rows(file, self._header, start, length, self.dtype)

    def _check(self) -> None:
        shape, _, dtype, _ = self._header
        source = self._source
        if dtype.kind not in "fiub":
            raise source.fault(
                f"rows must be real numbers, found the type {dtype}. Save them as such"
            )
        if len(shape) != 2 or 0 in shape:
            raise source.fault(
                "must hold a two-dimensional array with at least one row and one "
                f"feature, found shape {shape}. Reshape it before it is saved"
            )
        size = self._header.stop
        if source.size < size:
            raise source.fault(
                f"is truncated: {source.size} bytes of {size}. Copy or save it again"
            )
