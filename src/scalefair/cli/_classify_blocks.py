"""Rows in svmlight format that are too large to be read at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scalefair.cli._block_files import block_bytes, finite_blocks, is_reader
from scalefair.cli._errors import blame_file

if TYPE_CHECKING:
    from scalefair.files import SvmlightReader

__all__ = ["count_beyond", "open_svmlight", "read_feature", "resize", "select"]

# Bytes of arrays that a byte of text makes, more or less.
_GROWTH = 2
_COMPRESSED = (".gz", ".bz2")


def open_svmlight(
    path: Path, limit: int | None, zero_based: bool | None
) -> SvmlightReader | None:
    """Return a reader of a file that is too large, after a first pass over it.

    Parameters
    ----------
    path : Path
        The file.
    limit : int or None
        Bytes above which its arrays are; None reads any file at once.
    zero_based : bool or None
        Whether features count from 0; None finds out.

    Returns
    -------
    SvmlightReader or None
        None if the file is small enough, or compressed.

    Raises
    ------
    ValueError
        If it is not in this format.
    """
    if limit is None or path.name.lower().endswith(_COMPRESSED):
        return None
    with blame_file(path):
        if _GROWTH * path.stat().st_size <= limit:
            return None
    from scalefair.files import SvmlightReader

    # A feature 0 is refused later if features count from 1.
    return SvmlightReader(
        path, zero_based=zero_based or "auto", max_bytes=block_bytes(limit)
    )


def read_feature(path: Path, X: Any, column: int) -> NDArray[np.float64]:
    """Return a column of rows, zero if it is beyond the last one."""
    if column >= X.shape[1]:
        return np.zeros(X.shape[0])
    blocks = finite_blocks(path, X) if is_reader(X) else [X]
    return np.concatenate([block[:, [column]].toarray().ravel() for block in blocks])


def count_beyond(path: Path, X: Any, n_columns: int) -> int:
    """Count the entries in columns after the first ones."""
    if X.shape[1] <= n_columns:
        return 0
    blocks = finite_blocks(path, X) if is_reader(X) else [X]
    return sum(int((block.indices >= n_columns).sum()) for block in blocks)


def select(X: Any, positions: list[int]) -> Any:
    """Return some of the columns."""
    return _change(X, partial(_select, positions=positions), len(positions))


def resize(X: Any, n_columns: int) -> Any:
    """Return as many columns as are wanted: the first ones, or with more of zeros."""
    return _change(X, partial(_resize, n_columns=n_columns), n_columns)


def _change(X: Any, function: Any, n_columns: int) -> Any:
    from scalefair.cli._mapped_reader import map_rows

    return map_rows(X, function, n_columns)


def _select(block: Any, positions: list[int]) -> Any:
    return block[:, positions]


def _resize(block: Any, n_columns: int) -> Any:
    block.resize((block.shape[0], n_columns))
    return block
