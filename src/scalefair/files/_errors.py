"""What is wrong with a file, said once for all formats."""

from __future__ import annotations

import csv
import gzip
import lzma
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

# What readers raise for files of another format, or damaged ones.
DAMAGE = (
    EOFError,
    KeyError,
    IndexError,
    RuntimeError,  # encrypted, or compressed in an unknown way
    ValueError,
    # NumPy parses the header of an array as Python.
    OverflowError,
    SyntaxError,
    TypeError,
    tokenize.TokenError,
    csv.Error,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    except gzip.BadGzipFile as error:  # an OSError as well
        raise FileError(f"{name}: damaged gzip file ({one_line(error)}).") from error
    except FileNotFoundError as error:
        raise FileError(f"{name}: no such file. Check the path.") from error
    except IsADirectoryError as error:
        raise FileError(f"{name}: is a folder, not a file.") from error
    except PermissionError as error:
        raise FileError(
            f"{name}: no permission to read it. Check its access rights."
        ) from error
    except (OSError, *DAMAGE) as error:
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
