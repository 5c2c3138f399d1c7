"""Files that readers open again in each pass, and the errors of reading them."""

import csv
import lzma
import math
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, BinaryIO

import numpy as np

AnyPath = str | os.PathLike[str]
# Default size of a block of rows. Much smaller ones lose time in Python code, larger
# ones only take memory.
BLOCK_BYTES = 2**26
# What the readers raise for damaged files; NumPy parses headers of arrays as Python.
_DAMAGE_ERRORS: tuple[type[Exception], ...]
_DAMAGE_ERRORS = (EOFError, LookupError, RuntimeError, ValueError, TypeError)
_DAMAGE_ERRORS += (OverflowError, SyntaxError, tokenize.TokenError, csv.Error, OSError)
_DAMAGE_ERRORS += (lzma.LZMAError, zlib.error, zipfile.BadZipFile)
_DAMAGE_ERRORS += (StopIteration, struct.error)
_ACCESS_ERRORS = {
    FileNotFoundError: "no such file. Check the path.",
    IsADirectoryError: "is a folder, not a file.",
    PermissionError: "no permission to read it. Check its access rights.",
}


class FileError(ValueError):
    """A file that cannot be used: which, where in it, why, and what to do."""


@contextmanager
def reading(path: AnyPath, content: str) -> Iterator[None]:
    """Turn any error of reading `path` into a `FileError`.

    Parameters
    ----------
    path : str or path-like
        The file that the message names.
    content : str
        What the file should be, such as ``"an array saved by numpy.save"``.

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
    # 1. Errors that need no other words: ours, and lack of memory.
    name = os.fspath(path)
    try:
        yield
    except (FileError, MemoryError):
        raise
    # 2. No file, a folder, or no permission. These are OSErrors, too: they come first.
    except tuple(_ACCESS_ERRORS) as error:
        refuse_store(name)
        raise FileError(f"{name}: {_ACCESS_ERRORS[type(error)]}") from error
    # 3. Damage, or another format than expected; Python's errors of many libraries.
    except _DAMAGE_ERRORS as error:
        # Errors of the system have a number; others are about the content.
        if isinstance(error, OSError) and error.errno is not None:
            reason = error.strerror or one_line(error)
            raise FileError(f"{name}: cannot be read ({reason}).") from error
        raise FileError(
            f"{name}: not {content}, or damaged ({one_line(error)}). Save it again."
        ) from error


def refuse_store(path: AnyPath) -> None:
    """Raise a FileError for the address of an object store, which Dask reads."""
    # pathlib.Path leaves one slash of two; a drive has one letter.
    store = re.match(r"(\w{2,}):/", os.fspath(path))
    if store:
        raise FileError(
            f"{os.fspath(path)}: {store[1]}:// is an object store, and only files are "
            "read here. Pass what Dask reads from it: dask.array.from_zarr(...), or "
            "dask.dataframe.read_parquet(...); or copy it to a file."
        )


def one_line(error: BaseException) -> str:
    """Return the message of an error, cut so that it fits into another message."""
    text = " ".join(str(error).split()).rstrip(".")
    return text[:120] or type(error).__name__


def open_parquet(path: AnyPath, file: Any) -> Any:
    """Return pyarrow's reader of an open file."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"{os.fspath(path)}: parquet files need pyarrow: pip install "
            f'"scalefair[data]" ({error}). Or save the table in another format.'
        ) from error
    # Pages are read when they are needed, in pieces; else whole row groups at once.
    return parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)


def parquet_columns(schema: Any) -> dict[str, Any]:
    """Return the types of the columns by name; the index of a data frame is none."""
    # pandas stores an index as a column, and names it in the metadata.
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return {field.name: field.type for field in schema if field.name not in index}


class SourceFile:
    """A file that must not change between passes; `content` is what it should be."""

    def __init__(self, path: AnyPath, content: str) -> None:
        """Remember what identifies the file, so that a change of it is seen."""
        self.path, self._content = os.fspath(path), content
        self._identity: tuple[int, ...] = ()
        with self.opened() as file:
            self._identity = _identity(file)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the identity as far as workers on other machines can check it."""
        # Size and time hold on other machines, too; inode and device do not.
        return {**self.__dict__, "_identity": self._identity[:2]}

    @contextmanager
    def opened(self, buffering: int = -1) -> Iterator[BinaryIO]:
        """Open the file; a change of it is the first error that is raised."""
        with (
            reading(self.path, self._content),
            open(self.path, "rb", buffering) as file,
        ):
            # A change during a pass gives errors of parsing, too. It is their cause, so
            # that it is looked for before they are passed on.
            self._check(file)
            try:
                yield file
            except Exception:
                self._check(file)
                raise
            self._check(file)

    def _check(self, file: BinaryIO) -> None:
        """Raise if the file is not the one that its reader was made for."""
        identity = self._identity
        if identity != _identity(file)[: len(identity)]:
            raise FileError(
                f"{self.path}: has changed since its reader was made, or is a copy of "
                "another time. Make a new reader."
            )


def _identity(file: BinaryIO) -> tuple[int, ...]:
    """Return size, time, inode and device: any change of the file changes one."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


def check_max_bytes(max_bytes: int) -> int:
    """Return the largest size of a block, or raise if it is no size."""
    is_number = isinstance(max_bytes, Real) and not isinstance(max_bytes, bool)
    if not is_number or not 1 <= max_bytes < math.inf:
        raise ValueError(
            f"max_bytes must be a number of bytes, at least 1, got {max_bytes!r}."
        )
    return int(max_bytes)


def block_type(stored: np.dtype) -> np.dtype:
    """Return the type of blocks: float32 if the file has it, else float64."""
    single = stored.kind == "f" and stored.itemsize == 4
    return np.dtype(np.float32 if single else np.float64)
