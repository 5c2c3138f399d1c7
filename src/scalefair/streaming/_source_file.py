"""Files that readers open anew in each pass, and what may be wrong with them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from scalefair.streaming._readers import RowReader

__all__ = [
    "BLOCK_BYTES",
    "FileReader",
    "SourceFile",
    "block_type",
    "check_max_bytes",
    "cut_evenly",
    "one_line",
]

# Large enough that the cost of a block's Python code does not count.
BLOCK_BYTES = 2**26
# Numbers of a file's identity that hold on other machines, too.
_ANYWHERE = 2


class FileReader(RowReader):
    """Reader that goes to other processes without what watches its progress."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None}


class SourceFile:
    """A file that stays as it is while it is read again and again.

    It is another one if its size, its time or its place on the disk has changed. In
    another process only size and time are compared: the file may be a copy there, or
    on a file system that numbers its files otherwise.

    Parameters
    ----------
    path : str or path-like
        Name of the file.

    Attributes
    ----------
    path : str
        Name of the file.

    Raises
    ------
    ValueError
        If there is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._identity: tuple[int, ...] = ()
        with self.opened() as file:
            self._identity = _identity(file.fileno())

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_identity": self._identity[:_ANYWHERE]}

    @property
    def size(self) -> int:
        """Bytes."""
        return self._identity[0]

    @contextmanager
    def opened(self, buffering: int = -1) -> Iterator[BinaryIO]:
        """Open the file; a file that cannot be read is a ValueError that names it.

        One that changes meanwhile is, too, whatever else may seem wrong with it then.
        """
        try:
            with open(self.path, "rb", buffering) as file:
                self._check(file)
                try:
                    yield file
                except Exception:
                    self._check(file)
                    raise
                self._check(file)
        except FileNotFoundError as error:
            raise self.fault("no such file. Check the path") from error
        except IsADirectoryError as error:
            raise self.fault("is a folder, not a file") from error
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise self.fault(f"cannot be read ({reason})") from error

    def fault(self, what: str) -> ValueError:
        """Return the error that says what is wrong with the file."""
        return ValueError(f"{self.path}: {what}.")

    def _check(self, file: BinaryIO) -> None:
        known = self._identity
        if known != _identity(file.fileno())[: len(known)]:
            copied = ", or is a copy of another time" if len(known) == _ANYWHERE else ""
            raise self.fault(
                f"has changed since its reader was made{copied}. Make a new reader"
            )


def _identity(descriptor: int) -> tuple[int, ...]:
    """Return what tells a file from what it was; first what it has anywhere."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


def check_max_bytes(max_bytes: int) -> int:
    """Return the largest size of a block, or say that it is none."""
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, Real):
        raise ValueError(f"max_bytes must be a number of bytes, got {max_bytes!r}.")
    if not 1 <= max_bytes < math.inf:
        raise ValueError(f"max_bytes must be at least 1, got {max_bytes!r}.")
    return int(max_bytes)


def block_type(stored: np.dtype) -> np.dtype:
    """Type of the entries of blocks: float32 as it is, other numbers as float64."""
    single = stored.kind == "f" and stored.itemsize == 4
    return np.dtype(np.float32 if single else np.float64)


def cut_evenly(n_rows: int, step: int) -> NDArray[np.int64]:
    """Rows of each block: `step` of them, in the last one what is left."""
    lengths = np.full(-(-n_rows // step), step, dtype=np.int64)
    lengths[-1:] = n_rows - step * (len(lengths) - 1)
    return lengths


def one_line(error: BaseException) -> str:
    """Return what an error says, short enough to go into another message."""
    text = " ".join(str(error).split()).rstrip(".")
    return text[:120] or type(error).__name__
