"""What is wrong with a file, said once for all formats."""

from __future__ import annotations

import csv
import lzma
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

# What readers raise for files of another format, or damaged ones: RuntimeError for
# encrypted ones; NumPy parses the header of an array as Python.
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
    scalefair.files._errors.FileError: rows.npy: not an array saved by numpy.save, \
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
