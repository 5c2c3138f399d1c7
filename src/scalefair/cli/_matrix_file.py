"""Read a matrix from a file: of a graph, or of sparse rows."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import io, sparse

from scalefair.cli._errors import Failure, blame_file
from scalefair.cli._graph import Graph
from scalefair.cli._memory import refuse_too_large
from scalefair.files._errors import DAMAGE
from scalefair.files._npy import member_header, read_member

__all__ = ["read_matrix_market", "read_npz", "read_sparse"]

# Compressed text may be damaged, too.
_DAMAGE = (*DAMAGE, IndexError, gzip.BadGzipFile)
# What a stored entry of text becomes, and a row of any format: places and pointers.
_ENTRY_BYTES, _ROW_BYTES = 24, 16


def read_npz(path: Path) -> Graph:
    """Read the matrix of a graph saved by :func:`scipy.sparse.save_npz`.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold a sparse matrix of finite real
        numbers.
    """
    return _as_graph(path, read_sparse(path, "weight"))


def read_sparse(path: Path, entry: str) -> sparse.csr_array:
    """Read a matrix saved by :func:`scipy.sparse.save_npz`.

    Parameters
    ----------
    path : Path
        The file.
    entry : str
        What an entry is called in messages.

    Raises
    ------
    Failure
        As `read_npz`.
    """
    # NumPy leaves a damaged file open if it opens it itself.
    with blame_file(path), open(path, "rb") as file:
        try:
            refuse_too_large(path, _bytes_of(file))
            matrix = sparse.load_npz(file)
            if hasattr(matrix, "check_format"):
                # Compiled code takes indices as they are, wherever they point.
                matrix.check_format()
        except _DAMAGE as error:
            raise Failure(
                f"{path}: not a sparse matrix saved by scipy.sparse.save_npz, or "
                f"damaged ({_first_line(error)}). Save it again."
            ) from error
    return _check(path, matrix, entry)


def read_matrix_market(path: Path) -> Graph:
    """Read a Matrix Market file, plain or gzip-compressed.

    Raises
    ------
    Failure
        If the file cannot be read or does not hold a matrix of finite real numbers.
    """
    with blame_file(path), open(path, "rb"):
        pass  # SciPy's own errors do not tell a missing file from a damaged one
    with blame_file(path):
        try:
            n_rows, n_columns, n_entries, *_ = io.mminfo(path)
            n_bytes = _ENTRY_BYTES * n_entries + _ROW_BYTES * max(n_rows, n_columns)
            refuse_too_large(path, n_bytes)
            matrix = io.mmread(path)
        except _DAMAGE as error:
            raise Failure(
                f"{path}: not a Matrix Market file, or damaged "
                f"({_first_line(error)}). Save the graph again with scipy.io.mmwrite."
            ) from error
    return _as_graph(path, _check(path, matrix, "weight"))


def _check(path: Path, loaded: Any, entry: str) -> sparse.csr_array:
    if loaded.ndim != 2:
        raise Failure(f"{path}: expected a matrix, found shape {loaded.shape}.")
    if loaded.dtype.kind not in "buif":
        raise Failure(
            f"{path}: {entry}s must be real numbers, found dtype {loaded.dtype}."
        )
    matrix = sparse.csr_array(loaded)
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    invalid = np.flatnonzero(~np.isfinite(matrix.data))
    if invalid.size:
        at = int(invalid[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise Failure(
            f"{path}: {invalid.size} {entry}(s) are NaN or infinite, the first at row "
            f"{row}, column {matrix.indices[at]} (counted from 0). Remove them or "
            "give them a value."
        )
    matrix.eliminate_zeros()
    return matrix


def _bytes_of(file: IO[bytes]) -> int:
    """Return what a sparse matrix will take, as its archive and its arrays say."""
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        n_bytes = sum(member_header(archive, name).stop for name in names)
        shape = read_member(archive, "shape")
    file.seek(0)
    return n_bytes + _ROW_BYTES * int(shape.max())


def _as_graph(path: Path, matrix: sparse.csr_array) -> Graph:
    if 0 in matrix.shape:
        raise Failure(f"{path}: is empty: its shape is {matrix.shape}.")
    # Negative weights, shape and symmetry are for the estimator to judge.
    node_ids = np.arange(matrix.shape[0], dtype=np.int64)
    return Graph(path, matrix, node_ids, named=False)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
