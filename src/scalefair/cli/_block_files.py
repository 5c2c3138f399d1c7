"""Arrays that are too large to be read at once, as readers of blocks."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from scalefair.cli._errors import Failure, blame_file

if TYPE_CHECKING:
    from scalefair.streaming import RowReader

__all__ = [
    "block_bytes",
    "finite_blocks",
    "is_reader",
    "open_blocks",
    "refuse_not_finite",
]

_BLOCK_BYTES = 2**26
# Numbers that are checked at a time.
_CHUNK = 2**22


def open_blocks(path: Path, limit: int | None) -> RowReader | None:
    """Return a reader of an array in ``.npy`` or ``.npz`` that is too large.

    Parameters
    ----------
    path : Path
        The file.
    limit : int or None
        Bytes above which it is; None takes any array at once.

    Returns
    -------
    RowReader or None
        None if the array is small enough.

    Raises
    ------
    Failure
        If the file cannot be read, or is not what it should be.
    """
    if limit is None or _array_bytes(path) <= limit:
        return None
    from scalefair.files import open_rows

    try:
        return open_rows(path, max_bytes=block_bytes(limit))
    except ValueError as error:
        raise Failure(str(error)) from error


def block_bytes(limit: int) -> int:
    """Size of a block: there is room for what is computed from it."""
    return max(1, min(_BLOCK_BYTES, limit // 4))


def is_reader(X: Any) -> bool:
    """Whether rows are read in blocks."""
    from scalefair.streaming import RowReader

    return isinstance(X, RowReader)


def finite_blocks(path: Path, reader: RowReader) -> Iterator[Any]:
    """Yield all blocks, and tell the reader's progress.

    Raises
    ------
    Failure
        If the file cannot be read, or a value is NaN or infinite.
    """
    start, number = 0, 0
    blocks = reader.blocks()
    while True:
        try:
            block = next(blocks, None)  # at the end the file is looked at once more
        except ValueError as error:
            raise Failure(str(error)) from error
        if block is None:
            return
        _refuse_not_finite(path, block, start)
        yield block
        start, number = start + block.shape[0], number + 1
        if reader.progress is not None:
            reader.progress(number, len(reader))


def refuse_not_finite(path: Path, X: Any) -> None:
    """Raise a Failure that names the first value that is NaN or infinite.

    Parameters
    ----------
    path : Path
        Where the rows are from.
    X : {ndarray, csr_array, RowReader} of shape (m, n)
        The rows. Those of a csr_array were checked when they were read.
    """
    if is_reader(X):
        for _ in finite_blocks(path, X):
            pass
    elif isinstance(X, np.ndarray) and X.dtype.kind == "f":
        size = max(1, _CHUNK // max(X.shape[1], 1))
        for start in range(0, X.shape[0], size):
            _refuse_not_finite(path, X[start : start + size], start)


def _refuse_not_finite(path: Path, block: Any, start: int) -> None:
    is_sparse = sparse.issparse(block)
    invalid = np.argwhere(~np.isfinite(block.data if is_sparse else block))
    if not len(invalid):
        return
    if is_sparse:
        at = int(invalid[0, 0])
        row = int(np.searchsorted(block.indptr, at, side="right")) - 1
        column = int(block.indices[at])
    else:
        row, column = invalid[0].tolist()
    raise Failure(
        f"{path}: a value is NaN or infinite, at row {start + row}, column {column} "
        "(counted from 0). Give it a value or leave the row out."
    )


def _array_bytes(path: Path) -> int:
    """Size of the arrays in a file; zero if it is not known."""
    with blame_file(path), open(path, "rb") as file:
        if not path.name.lower().endswith(".npz"):
            return path.stat().st_size
        try:
            with zipfile.ZipFile(file) as archive:
                return sum(member.file_size for member in archive.infolist())
        except (zipfile.BadZipFile, NotImplementedError):
            return 0
