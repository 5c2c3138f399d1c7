"""Files that readers open anew in each pass, and what is wrong with them."""

from __future__ import annotations

import csv
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

AnyPath = str | os.PathLike[str]
# Large enough that the cost of a block's Python code does not count.
BLOCK_BYTES = 2**26
# Numbers of a file's identity that hold on other machines, too.
_ANYWHERE = 2
# What readers raise for damaged files; NumPy parses headers of arrays as Python.
_DAMAGE: tuple[type[Exception], ...]
_DAMAGE = (EOFError, LookupError, RuntimeError, ValueError, TypeError, OverflowError)
_DAMAGE += (SyntaxError, tokenize.TokenError, csv.Error, lzma.LZMAError, zlib.error)
_DAMAGE += (zipfile.BadZipFile, OSError)
_REFUSED = {
    FileNotFoundError: "no such file. Check the path.",
    IsADirectoryError: "is a folder, not a file.",
    PermissionError: "no permission to read it. Check its access rights.",
}


class FileError(ValueError):
    """A file that cannot be used: which, where in it, why, and what to do."""


@contextmanager
def reading(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn whatever goes wrong while `path` is read into a `FileError`.

    Parameters
    ----------
    path : str or path-like
        The file that the message names.
    what : str
        What it should be, such as ``"an array saved by numpy.save"``.

    Raises
    ------
    FileError
        If the file cannot be opened or is damaged.

    Examples
    --------
    >>> from scalefair.files import reading
    >>> with reading("rows.npy", "an array saved by numpy.save"):
    ...     raise EOFError("no more bytes")
    Traceback (most recent call last):
    scalefair.files._source.FileError: rows.npy: not an array saved by numpy.save, \
or damaged (no more bytes). Save it again.
    """
    name = os.fspath(path)
    try:
        yield
    except (FileError, MemoryError):
        raise
    except tuple(_REFUSED) as error:
        raise FileError(f"{name}: {_REFUSED[type(error)]}") from error
    except _DAMAGE as error:
        # An error of the system has a number; others are libraries' of the content.
        if isinstance(error, OSError) and error.errno is not None:
            reason = error.strerror or one_line(error)
            raise FileError(f"{name}: cannot be read ({reason}).") from error
        raise FileError(
            f"{name}: not {what}, or damaged ({one_line(error)}). Save it again."
        ) from error


def one_line(error: BaseException) -> str:
    """Return what an error says, short enough to go into another message."""
    text = " ".join(str(error).split()).rstrip(".")
    return text[:120] or type(error).__name__


def open_parquet(path: AnyPath, file: Any, **options: Any) -> Any:
    """Return the reader that pyarrow has for an open file."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{os.fspath(path)}: parquet files need pyarrow: pip install "
            f'"scalefair[data]" ({error}). Or save the table in another format.'
        ) from error
    return parquet.ParquetFile(file, **options)


class SourceFile:
    """A file that keeps its size, time and place; the last not in other processes."""

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
