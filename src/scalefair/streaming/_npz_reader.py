"""Sparse rows in files of ``scipy.sparse.save_npz``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scalefair.streaming._csr_file import CsrFile
from scalefair.streaming._source_file import BLOCK_BYTES, FileReader, check_max_bytes

__all__ = ["NpzReader"]


class NpzReader(FileReader):
    """Sparse rows in ``.npz`` files, read as streams.

    The entries of a block are taken from where those of the block before ended, so
    that a pass reads each file once. A block for itself is found at once in files
    saved with ``compressed=False``; in compressed ones all before it is read too: for
    Dask save many files, or uncompressed ones.

    Parameters
    ----------
    path : str, path-like or sequence of them
        File that ``scipy.sparse.save_npz`` wrote from a CSR matrix of real numbers,
        or several ones with consecutive rows. They must stay as they are.
    max_bytes : int, default=2**26
        Size of a block, 64 MiB by default: of its entries and their column indices;
        a row counts as 512 bytes at least, for what is computed from it takes
        memory too. A block has one row at least, and no block has rows of two files.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block.
    n_features : int
        Number of columns.
    dtype : dtype
        float32 if the entries in all files are, else float64, to which they are
        converted.
    nnz : int
        Stored entries, counted before entries at the same place are added up.

    Raises
    ------
    ValueError
        If a file is missing, is truncated, or holds something else, or files differ
        in their number of columns.

    Notes
    -----
    Nothing but one block is in memory, and as much again while its column indices are
    narrowed from int64; row pointers are read in pieces when the reader is made.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.streaming import GroupMoments, NpzReader
    >>> X = sparse.csr_array(np.diag(np.arange(1.0, 5.0)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npz")
    ...     sparse.save_npz(path, X, compressed=False)
    ...     reader = NpzReader(path, max_bytes=1024)
    ...     moments = GroupMoments.from_data(reader, ["a", "a", "b", "b"])
    >>> reader.shape, reader.lengths
    ((4, 4), array([2, 2]))
    >>> moments.means
    array([[0.5, 1. , 0. , 0. ],
           [0. , 0. , 1.5, 2. ]])
    """

    is_sparse = True

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        max_bytes: int = BLOCK_BYTES,
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        if not paths:
            raise ValueError("path must be a file or a list of files, got no file.")
        files = [CsrFile(name, max_bytes) for name in paths]
        self.n_features = files[0].n_features
        for file in files:
            if file.n_features != self.n_features:
                raise ValueError(
                    f"{file.source.path}: has {file.n_features} columns, "
                    f"{files[0].source.path} has {self.n_features}: all files must "
                    "have the same."
                )
        self._files = [file for file in files if len(file.lengths)]
        if not self._files:
            raise ValueError(f"{files[0].source.path}: has no rows.")
        self.lengths = np.concatenate([file.lengths for file in self._files])
        self.dtype = np.result_type(*(file.dtype for file in self._files))
        self.nnz = sum(file.nnz for file in self._files)

    def block(self, number: int) -> Any:
        """Return the rows of a block.

        Parameters
        ----------
        number : int
            Which block, from 0.

        Returns
        -------
        csr_array of shape (lengths[number], n_features)
            With sorted column indices, int32 where they fit.

        Raises
        ------
        ValueError
            If the file is damaged, or no longer what it was.
        """
        number = range(len(self))[number]
        for file in self._files:
            if number < len(file.lengths):
                return file.block(number, self.dtype)
            number -= len(file.lengths)
        raise AssertionError  # the range has been checked

    def blocks(self) -> Iterator[Any]:
        """Iterate over the blocks in their order; each file is read once.

        Yields
        ------
        csr_array
            The rows of a block.
        """
        for file in self._files:
            yield from file.blocks(self.dtype)
