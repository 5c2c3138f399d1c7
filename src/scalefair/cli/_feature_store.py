"""Rows that come in blocks, kept in memory or, if there are many, on disk."""

from __future__ import annotations

import errno
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._errors import Failure

__all__ = ["RowStore"]

# Bytes that are kept in memory if nothing else is said.
_LIMIT = 2**28


class RowStore:
    """Grow a matrix by blocks of rows, with bounded memory, in a with statement.

    Beyond a limit the rows go to a nameless file, which vanishes with the process
    however it ends, and the matrix is memory-mapped.

    Parameters
    ----------
    folder : Path
        Where the file is made, if one is needed.
    limit : int or None, default=None
        Bytes that are kept in memory; None for 256 MiB.
    """

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        self._folder = folder
        self._limit = _LIMIT if limit is None else limit
        self._blocks: list[NDArray[np.float64]] = []
        self._n_columns = self._n_bytes = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # what does not fit on the disk is not wanted
                self._file.close()  # a memory map lives on

    def append(self, block: NDArray[np.float64]) -> None:
        """Add rows.

        Raises
        ------
        Failure
            If the disk is full.
        """
        self._blocks.append(np.ascontiguousarray(block))
        self._n_columns = block.shape[1]
        self._n_bytes += block.nbytes
        if self._file is not None or self._n_bytes > self._limit:
            self._spill()

    def matrix(self) -> NDArray[np.float64]:
        """All rows: an array, or a memory-mapped one."""
        if self._file is None:
            return np.concatenate(self._blocks)
        shape = (self._n_bytes // (8 * self._n_columns), self._n_columns)
        return np.memmap(self._file, np.float64, "r+", shape=shape)

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = _open_nameless(self._folder)
            for block in self._blocks:
                self._file.write(block.data)
            self._file.flush()
            self._blocks.clear()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Failure(
                f"{self._folder}: no space left for a temporary copy of the rows "
                f"({self._n_bytes / 1e9:.1f} GB so far). Free some, or write the "
                "output to another disk."
            ) from error


def _open_nameless(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)
