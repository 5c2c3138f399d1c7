"""What stands before the numbers of an array in NumPy's format."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from typing import IO, Any, NamedTuple

import numpy as np

__all__ = ["DAMAGE", "Header", "read_header"]

# What NumPy and zipfile raise for damaged files, beside errors of the system.
DAMAGE = (
    EOFError,
    KeyError,
    RuntimeError,  # encrypted, or compressed in an unknown way
    ValueError,
    tokenize.TokenError,  # in the header of an array
    zipfile.BadZipFile,
    zlib.error,
)


class Header(NamedTuple):
    """Shape and type of an array in a file, and where its numbers start."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype
    offset: int


def read_header(file: IO[bytes]) -> Header:
    """Read the header of an array that starts where the file does.

    Raises
    ------
    ValueError
        If there is none, or one of another version.
    """
    version = np.lib.format.read_magic(file)
    read: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format, which is for records")
    shape, fortran_order, dtype = read(file)
    return Header(shape, fortran_order, dtype, file.tell())
