"""Arrays in NumPy's formats, of which nothing is believed before it is looked at."""

from __future__ import annotations

import math
import os
import zipfile
from itertools import product
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Bytes that are copied at a time: zipfile makes a copy of its own.
_PIECE = 2**20
# Rows and columns that are turned around while they are in a cache.
_ROWS, _COLUMNS = 2**13, 2**5
# No array that says what a file holds is larger.
_SMALL = 2**12


class Header(NamedTuple):
    """Shape and type of an array in a file, and where its numbers start."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype
    offset: int

    @property
    def stop(self) -> int:
        """Where the numbers end."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes]) -> Header:
    """Read the header of an array that starts where the file does, one it can have."""
    major, minor = np.lib.format.read_magic(file)
    if (major, minor) not in {(1, 0), (2, 0)}:
        raise ValueError(f"version {major}.{minor} of the format, for records")
    read = getattr(np.lib.format, f"read_array_header_{major}_0")
    shape, fortran_order, dtype = read(file)
    header = Header(shape, fortran_order, dtype, file.tell())
    # NumPy lets pass what it cannot make an array of; -1 would be any length.
    if any(length < 0 for length in shape) or header.stop >= 2**63:
        raise ValueError(f"no array has the shape {shape}")
    return header


def checked_header(file: IO[bytes]) -> Header:
    """Read the header of an array that a whole file holds."""
    header = read_header(file)
    if header.dtype.hasobject:
        raise ValueError("Python objects, which are not read")
    size = os.fstat(file.fileno()).st_size
    if size < header.stop:
        raise ValueError(f"it is truncated: {size} bytes of {header.stop}")
    return header


def read_array(file: IO[bytes]) -> NDArray[Any]:
    """Read an array that a whole file holds; a memory map could end the process."""
    return _read(file, checked_header(file))


def read_rows(
    file: IO[bytes], header: Header, start: int, length: int, dtype: np.dtype
) -> NDArray[Any]:
    """Read some rows of a matrix, C-contiguous, in an unbuffered file."""
    (m, n), by_columns, stored, offset = header
    rows = np.empty((length, n), dtype)
    if by_columns:
        for first, column in product(range(0, length, _ROWS), range(0, n, _COLUMNS)):
            part = rows[first : first + _ROWS, column : column + _COLUMNS]
            buffer = np.empty(part.T.shape, stored)
            for j, values in enumerate(buffer, column):
                file.seek(offset + (j * m + start + first) * stored.itemsize)
                fill(file, values)
            part[...] = buffer.T
        return rows
    file.seek(offset + start * n * stored.itemsize)
    if stored == dtype:
        fill(file, rows)
        return rows
    step = max(1, _PIECE // (n * stored.itemsize))
    for first in range(0, length, step):
        part = rows[first : first + step]
        buffer = np.empty(part.shape, stored)
        fill(file, buffer)
        part[...] = buffer
    return rows


def fill(file: Any, values: NDArray[Any]) -> None:
    """Read all numbers of a contiguous array; EOFError if the file has fewer."""
    view = values.reshape(-1).view(np.uint8).data if values.nbytes else b""
    done = 0
    while done < len(view):
        read = file.readinto(view[done : done + _PIECE])
        if not read:
            raise EOFError("it ends within an array")
        done += read


def member_header(archive: zipfile.ZipFile, name: str) -> Header:
    """Header of an array in an archive, which must be as long as it says."""
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as file:
        header = read_header(file)
    if header.stop != member.file_size and not header.dtype.hasobject:
        raise ValueError(
            f"{name} is of {member.file_size} bytes, but says {header.stop}"
        )
    return header


def read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read a small array in an archive, one that says what the others are."""
    header = member_header(archive, name)
    if header.stop > _SMALL or header.dtype.hasobject:
        raise ValueError(f"{name} is not what it should be")
    with archive.open(f"{name}.npy") as file:
        file.seek(header.offset)
        return _read(file, header)


def _read(file: IO[bytes], header: Header) -> NDArray[Any]:
    """Read the numbers of an array, where they start."""
    shape = header.shape[::-1] if header.fortran_order else header.shape
    values = np.empty(shape, header.dtype)
    fill(file, values)
    return values.T if header.fortran_order else values
