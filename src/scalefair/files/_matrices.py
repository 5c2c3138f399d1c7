"""Matrices in the formats of NumPy, SciPy, Matrix Market and svmlight."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from numpy.typing import NDArray
from scipy import sparse

from scalefair._memory import require_memory
from scalefair.files._errors import FileError, reading
from scalefair.files._npy import member_header, read_array, read_member
from scalefair.files._text import is_number, open_bytes, quote

# What a stored entry of text becomes, and a row of any format: places and pointers.
_ENTRY_BYTES, _ROW_BYTES = 24, 16


def rows_format(path: Path, svmlight: bool = False) -> str:
    """Return "npy", "npz", "svmlight" or "table": by the first bytes, or the name."""
    with reading(path, "a file"), open_bytes(path) as file:
        start = file.read(6)
    names = (".svm", ".svmlight", ".libsvm")
    if svmlight or path.name.lower().removesuffix(".gz").removesuffix(".bz2").endswith(
        names
    ):
        return "svmlight"
    if start == b"\x93NUMPY":
        return "npy"
    return "npz" if start.startswith(b"PK") else "table"


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
        # SciPy steps back in the file, which aborts the process where that fails.
        with open_bytes(path) as file:
            text = io.BytesIO(file.read())
        n_rows, n_columns, n_entries, *_ = scipy.io.mminfo(text)
        _require(path, _ENTRY_BYTES * n_entries + _ROW_BYTES * max(n_rows, n_columns))
        text.seek(0)
        matrix = scipy.io.mmread(text)
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
    invalid = np.flatnonzero(~np.isfinite(matrix.data))
    if invalid.size:
        row = int(np.searchsorted(matrix.indptr, invalid[0], side="right")) - 1
        raise FileError(
            f"{path}: {invalid.size} {entry}(s) are NaN or infinite, the first at row "
            f"{row}, column {matrix.indices[invalid[0]]} (counted from 0). Remove them "
            "or give them a value."
        )
    matrix.eliminate_zeros()
    return matrix


def read_svmlight(
    path: Path, zero_based: bool | None = None
) -> tuple[sparse.csr_array, NDArray[np.float64], bool]:
    """Read all lines ``label number:value ...``, packed or not.

    Returns the rows, their labels, and whether features count from 0, which None
    finds out: they do if a feature 0 occurs.
    """
    from sklearn.datasets import load_svmlight_file

    with reading(path, "in svmlight format"), open_bytes(path) as file:
        text = file.read()
        try:
            loaded, y = load_svmlight_file(io.BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as error:
            raise FileError(_find_fault(path, text) or f"{path}: {error}.") from error
    X = sparse.csr_array(loaded)
    if not X.shape[0] or not X.nnz:
        raise FileError(f"{path}: is empty: it has no rows, or no `number:value`.")
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise FileError(f"{path}: the label of row {bad[0]} (from 0) is not finite.")
    has_zero = int(X.indices.min()) == 0
    if has_zero and zero_based is False:
        raise FileError(
            f"{path}: has a feature 0, but the features of TRAIN count from 1."
        )
    if not (has_zero if zero_based is None else zero_based):
        X = sparse.csr_array(
            (X.data, X.indices - 1, X.indptr), shape=(X.shape[0], X.shape[1] - 1)
        )
        return as_matrix(path, X, "value"), y, False
    return as_matrix(path, X, "value"), y, True


def _find_fault(path: Path, text: bytes) -> str:
    """Say which line cannot be read, if there is one."""
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
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
                f"{path}:{number}: {fault} is wrong. A line is `label number:value "
                "...` with rising numbers."
            )
    return ""
