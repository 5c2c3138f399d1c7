"""Matrices in the formats of NumPy, SciPy, Matrix Market and svmlight, all checked."""

from __future__ import annotations

import io
import math
import os
import re
import zipfile
from itertools import product
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import not_finite
from scalefair._memory import require_memory
from scalefair._messages import listed
from scalefair.files._source import FileError, reading
from scalefair.files._text import is_number, open_bytes, quote

# What a stored entry of text becomes, and a row of any format: places and pointers.
_ENTRY_BYTES, _ROW_BYTES = 24, 16
_FORMATS = {b"PK": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}
_FORMATS[b"%%MatrixMarket"] = "mtx"
_SVMLIGHT = re.compile(r"\.(svm|svmlight|libsvm)(\.gz|\.bz2)?$", re.I)
# Of Matrix Market: what stands above the values.
_MARKET_HEAD = re.compile(rb"(\s*%.*\n)*\s*\S.*\n|")
# Bytes that are copied at a time: zipfile makes a copy of its own.
_PIECE = 2**20
# Rows and columns that are turned around while they are in a cache.
_ROWS, _COLUMNS = 2**13, 2**5
# No array that says what a file holds is larger.
_SMALL = 2**12


def file_format(path: Path) -> str:
    """Return "npy", "npz", "mtx", "parquet" or "text": what the first bytes say."""
    with reading(path, "a file"), open_bytes(path) as file:
        start = file.read(14)
        if start.startswith(b"PK\x03\x04") and zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
            if not any(name.endswith(".npy") for name in names):
                raise FileError(
                    f"{path}: is a zip archive of other files ({listed(names)}):"
                    " unpack it, or save a spreadsheet as csv."
                )
    kinds = (kind for magic, kind in _FORMATS.items() if start.startswith(magic))
    return next(kinds, "parquet" if path.suffix.lower() == ".parquet" else "text")


def rows_format(path: Path, svmlight: bool = False) -> str:
    """Return "npy", "npz", "svmlight" or "table": by the first bytes, or the name."""
    kind = file_format(path)
    if svmlight or _SVMLIGHT.search(path.name):
        return "svmlight"
    return kind if kind in ("npy", "npz") else "table"


def read_sparse(path: Path, entry: str = "weight") -> sparse.csr_array:
    """Read a matrix of ``scipy.sparse.save_npz``; `entry` is what holds a number."""
    what = "a sparse matrix saved by scipy.sparse.save_npz"
    # NumPy leaves a damaged file open if it opens it itself.
    with reading(path, what), open_bytes(path) as file:
        with zipfile.ZipFile(file) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            n_bytes = sum(member_header(archive, name).stop for name in names)
            shape = read_member(archive, "shape")
        _require(path, n_bytes + _ROW_BYTES * int(shape.max()))
        file.seek(0)
        matrix = sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            # Compiled code takes indices as they are, wherever they point.
            matrix.check_format()
    return as_matrix(path, matrix, entry)


def read_dense(path: Path) -> NDArray[Any]:
    """Read an array of ``numpy.save``, of any type but objects."""
    what = "an array of numbers or strings saved by numpy.save"
    with reading(path, what), open(path, "rb") as file:
        _require(path, path.stat().st_size)
        return read_array(file)


def _require(path: Path, n_bytes: int) -> None:
    require_memory(n_bytes, str(path), "Use a part of it.")


def read_matrix_market(path: Path) -> sparse.csr_array:
    with reading(path, "a Matrix Market file"):
        # SciPy's reader ends the process where it cannot step back in the file, where
        # a number ends with the file, and at a NUL; values of arrays are not counted.
        with open_bytes(path) as file:
            content = file.read() + b"\n"
        if b"\0" in content:
            raise ValueError("it has NUL bytes")
        text = io.BytesIO(content)
        n_rows, n_columns, n_entries, form, field, symmetry = scipy.io.mminfo(text)
        _require(path, _ENTRY_BYTES * n_entries + _ROW_BYTES * max(n_rows, n_columns))
        if symmetry != "general" and n_rows != n_columns:
            raise ValueError(f"it is {symmetry}, but of shape {n_rows, n_columns}")
        if form == "array" and symmetry != "general":
            n_entries = n_rows * (n_rows + (1, -1)[symmetry == "skew-symmetric"]) // 2
        if not is_number(last := content[-100:].split()[-1].decode("ascii", "replace")):
            raise ValueError(f"its last value is {last!r}")
        if form == "array" and field != "complex":
            start = cast(re.Match[bytes], _MARKET_HEAD.match(content)).end()
            is_blank = np.frombuffer(content, np.uint8, offset=start) < 33
            n_values = np.count_nonzero(is_blank[1:] & ~is_blank[:-1])
            if n_values != n_entries:
                raise ValueError(f"it has {n_values} of {n_entries} values")
        text.seek(0)
        matrix = scipy.io.mmread(text, spmatrix=False)
    return as_matrix(path, matrix, "weight")


def as_matrix(path: Path, loaded: Any, entry: str) -> sparse.csr_array:
    """Make a matrix of finite real numbers a csr_array."""
    if loaded.ndim != 2 or 0 in loaded.shape:
        raise FileError(f"{path}: expected a matrix, found shape {loaded.shape}.")
    if loaded.dtype.kind not in "buif":
        raise FileError(
            f"{path}: {entry}s must be real numbers, found dtype {loaded.dtype}."
        )
    matrix = sparse.csr_array(loaded)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    rows, columns, _ = not_finite(matrix)
    if rows.size:
        raise FileError(
            f"{path}: {rows.size} {entry}(s) are NaN or infinite: remove them. The "
            f"first: row {rows[0]}, column {columns[0]} (counted from 0)."
        )
    matrix.eliminate_zeros()
    return matrix


def read_svmlight(
    path: Path, zero_based: bool | None = None
) -> tuple[sparse.csr_array, NDArray[np.float64], bool]:
    """Rows of ``label number:value ...``, labels, whether features count from 0."""
    with reading(path, "in svmlight format"), open_bytes(path) as file:
        X, y = parse_svmlight(path, file.read())
    if not X.nnz:
        raise FileError(f"{path}: is empty: it has no rows, or no `number:value`.")
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise FileError(f"{path}: the label of row {bad[0]} (from 0) is not finite.")
    zero_based = counts_from_zero(path, int(X.indices.min()), zero_based)
    start = 0 if zero_based else 1
    shape = X.shape[0], X.shape[1] - start
    X = sparse.csr_array((X.data, X.indices - start, X.indptr), shape=shape)
    return as_matrix(path, X, "value"), y, zero_based


def parse_svmlight(
    path: Any, text: bytes, before: int = 0
) -> tuple[Any, NDArray[np.float64]]:
    """Rows, with features as they are numbered, and labels; errors name the line."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except (ValueError, OverflowError) as error:
        raise FileError(
            f"{path}{_find_fault(text, before) or f': {error}'}."
        ) from error
    return X, labels


def counts_from_zero(path: Any, lowest: int, given: bool | None) -> bool:
    """Whether the first feature is 0: if one occurs, unless it is said."""
    if lowest == 0 and given is False:
        raise FileError(f"{path}: has a feature 0, but features should count from 1.")
    return lowest == 0 if given is None else given


def _find_fault(text: bytes, before: int) -> str:
    """Say which line cannot be read, if there is one."""
    lines = text.decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, before + 1):
        label, *cells = line.split("#")[0].split() or ["0"]
        last, fault = -1, "" if is_number(label) else f"the label {quote(label)}"
        for cell in cells:
            index, _, value = cell.partition(":")
            if index != "qid" and not (index.isdecimal() and is_number(value)):
                fault = fault or quote(cell)
            elif index != "qid" and int(index) <= last:
                fault = fault or f"feature {index} after feature {last}"
            last = int(index) if index.isdecimal() else last
        if fault:
            return (
                f":{number}: {fault} is wrong. A line is `label number:value ...` with "
                "rising numbers"
            )
    return ""


# --- Arrays in files and in archives -------------------------------------------------


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
    checked_header(file)
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


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
        return np.lib.format.read_array(file, allow_pickle=False)
