"""Files that readers open anew in each pass, and how their rows are cut."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scalefair.files._errors import FileError, reading

AnyPath = str | os.PathLike[str]
# Large enough that the cost of a block's Python code does not count.
BLOCK_BYTES = 2**26
# Numbers of a file's identity that hold on other machines, too.
_ANYWHERE = 2


class SourceFile:
    """A file that stays as it is, in size, time and place on the disk, or is refused.

    In another process only size and time are compared: it may be a copy there.
    """

    def __init__(self, path: AnyPath, what: str) -> None:
        self.path, self._what = os.fspath(path), what
        self._identity: tuple[int, ...] = ()
        with self.opened() as file:
            self._identity = _identity(file)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_identity": self._identity[:_ANYWHERE]}

    @contextmanager
    def opened(self, buffering: int = -1) -> Iterator[BinaryIO]:
        """Open the file; that it has changed is said before anything else is."""
        with reading(self.path, self._what), open(self.path, "rb", buffering) as file:
            self._check(file)
            try:
                yield file
            except Exception:
                self._check(file)
                raise
            self._check(file)

    def _check(self, file: BinaryIO) -> None:
        known = self._identity
        if known != _identity(file)[: len(known)]:
            raise FileError(
                f"{self.path}: has changed since its reader was made, or is a copy of "
                "another time. Make a new reader."
            )


def _identity(file: BinaryIO) -> tuple[int, ...]:
    """Return what tells a file from what it was; first what it has anywhere."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


def check_max_bytes(max_bytes: int) -> int:
    """Return the largest size of a block, or say that it is none."""
    is_number = isinstance(max_bytes, Real) and not isinstance(max_bytes, bool)
    if not is_number or not 1 <= max_bytes < math.inf:
        raise ValueError(
            f"max_bytes must be a number of bytes, at least 1, got {max_bytes!r}."
        )
    return int(max_bytes)


def cut_evenly(n_rows: int, step: int) -> NDArray[np.int64]:
    """Rows of each block: `step` of them, in the last one what is left."""
    return np.diff(np.append(np.arange(0, n_rows, step), n_rows))


def block_type(stored: np.dtype) -> np.dtype:
    """Type of the entries of blocks: float32 as it is, other numbers as float64."""
    single = stored.kind == "f" and stored.itemsize == 4
    return np.dtype(np.float32 if single else np.float64)
