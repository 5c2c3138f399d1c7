"""Dense rows in the columns of a parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair.streaming._source_file import (
    BLOCK_BYTES,
    FileReader,
    SourceFile,
    check_max_bytes,
    one_line,
)

__all__ = ["ParquetReader"]


class ParquetReader(FileReader):
    """Dense rows in a parquet file, decoded a block at a time.

    A block is one or several row groups, or a part of one that is too large; for
    such a part by itself the part of the group before it is decoded too.

    Parameters
    ----------
    path : str or path-like
        The file. It must stay as it is.
    columns : sequence of str or None, default=None
        Columns that are features, in this order, of numbers or booleans. All by
        default, without the index of a data frame.
    max_bytes : int, default=2**26
        Size of a block, 64 MiB by default. A block has one row at least.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block.
    n_features : int
        Number of columns.
    feature_names : ndarray of str
        Names of the columns.
    dtype : dtype
        float32 if all columns are, else float64, to which they are converted.
    nnz : int
        Number of entries.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If the file is missing, is truncated, or is none, or a column is missing or
        does not hold numbers.

    Notes
    -----
    A missing value is NaN in a block, and refused by estimators. Beside a block the
    memory holds what pyarrow buffers of each column.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from scalefair.streaming import GroupMoments, ParquetReader
    >>> frame = pd.DataFrame({"age": [30, 40, 50], "income": [1.0, 2.0, 6.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.parquet")
    ...     frame.to_parquet(path)
    ...     reader = ParquetReader(path, max_bytes=32)
    ...     moments = GroupMoments.from_data(reader, ["a", "a", "b"])
    >>> reader.shape, reader.lengths, reader.feature_names.tolist()
    ((3, 2), array([2, 1]), ['age', 'income'])
    >>> moments.means
    array([[35. ,  1.5],
           [50. ,  6. ]])
    """

    is_sparse = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        max_bytes: int = BLOCK_BYTES,
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got {columns!r}.")
        self._source = SourceFile(path)
        with self._opened() as file:
            types = _column_types(file.schema_arrow)
            groups = file.metadata
            sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        self._names = list(types) if columns is None else list(columns)
        self.dtype = self._check_columns(types)
        self.feature_names = np.array(self._names, dtype=object)
        self.n_features = len(self._names)
        if not sum(sizes):
            raise self._source.fault("has no rows")
        step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        self._pieces = _cut(sizes, step)
        self.lengths = np.array([piece.length for piece in self._pieces], np.int64)
        self.nnz = sum(sizes) * self.n_features
        self._step = step

    def block(self, number: int) -> NDArray[Any]:
        """Return the rows of a block.

        Parameters
        ----------
        number : int
            Which block, from 0.

        Returns
        -------
        ndarray of shape (lengths[number], n_features)
            C-contiguous; missing values are NaN.

        Raises
        ------
        ValueError
            If the file is damaged, or no longer what it was.
        """
        piece = self._pieces[number]
        groups = list(range(piece.first, piece.last + 1))
        with self._opened() as file:
            batches = self._batches(file, groups)
            batches.skip(piece.skipped)
            return batches.take(piece.length)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Iterate over the blocks in their order; the file is read once.

        Yields
        ------
        ndarray
            The rows of a block.
        """
        with self._opened() as file:
            batches = self._batches(file, list(range(file.num_row_groups)))
            for piece in self._pieces:
                yield batches.take(piece.length)

    def _batches(self, file: Any, groups: list[int]) -> _Batches:
        batches = file.iter_batches(
            batch_size=self._step,
            row_groups=groups,
            columns=self._names,
            use_threads=False,
        )
        return _Batches(batches, self._names, self.dtype)

    def _check_columns(self, types: dict[str, Any]) -> np.dtype:
        """Return the common type of the columns, if they are numbers."""
        from pyarrow import types as kinds

        if not self._names:
            raise self._source.fault("no columns are chosen")
        missing = [name for name in self._names if name not in types]
        if missing:
            raise self._source.fault(
                f"has no column {', '.join(map(repr, missing[:5]))}. It has "
                f"{', '.join(map(repr, list(types)[:20]))}"
            )
        tests = (
            kinds.is_integer,
            kinds.is_floating,
            kinds.is_boolean,
            kinds.is_decimal,
        )
        words = [
            name
            for name in self._names
            if not any(is_number(types[name]) for is_number in tests)
        ]
        if words:
            raise self._source.fault(
                f"{len(words)} column(s) do not hold numbers: "
                f"{', '.join(map(repr, words[:5]))}. Choose others by columns=[...]"
            )
        single = all(kinds.is_float32(types[name]) for name in self._names)
        return np.dtype(np.float32 if single else np.float64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._source.opened() as file:
            try:
                import pyarrow
                from pyarrow import parquet
            except ImportError as error:
                raise ImportError(
                    f"{self._source.path}: parquet files need pyarrow: pip install "
                    '"scalefair[data]".'
                ) from error
            try:
                # Pages are read as they are needed, not whole row groups before.
                yield parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)
            except (pyarrow.ArrowException, ValueError, OSError) as error:
                raise self._source.fault(
                    f"not a parquet file, or damaged ({one_line(error)}). Save it again"
                ) from error


class _Piece(NamedTuple):
    """Rows of some row groups, or of one without the first rows."""

    first: int
    last: int
    skipped: int
    length: int


class _Batches:
    """Rows that come in batches of any size, taken in blocks of given sizes."""

    def __init__(
        self, batches: Iterator[Any], names: list[str], dtype: np.dtype
    ) -> None:
        self._batches = batches
        self._names = names
        self._dtype = dtype
        self._rest: Any = None

    def skip(self, length: int) -> None:
        """Leave rows out."""
        while length:
            length -= self._next(length).num_rows

    def take(self, length: int) -> NDArray[Any]:
        """Return the next rows."""
        X = np.empty((length, len(self._names)), self._dtype)
        start = 0
        while start < length:
            batch = self._next(length - start)
            stop = start + batch.num_rows
            for j, name in enumerate(self._names):
                X[start:stop, j] = _numbers(batch.column(name))
            start = stop
        return X

    def _next(self, length: int) -> Any:
        """Return some of the next rows, at least one and at most `length`."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                raise ValueError("it has fewer rows than it says")
        batch = self._rest.slice(0, length)
        self._rest = self._rest.slice(length)
        return batch


def _cut(sizes: list[int], step: int) -> list[_Piece]:
    """Row groups put together while they fit, and parts of those that do not."""
    pieces: list[_Piece] = []
    whole = False  # whether the last piece can take another group
    for group, size in enumerate(sizes):
        if size == 0:
            continue
        if whole and pieces[-1].length + size <= step:
            first, _, _, length = pieces[-1]
            pieces[-1] = _Piece(first, group, 0, length + size)
            continue
        pieces += [
            _Piece(group, group, start, min(step, size - start))
            for start in range(0, size, step)
        ]
        whole = size < step
    return pieces


def _column_types(schema: Any) -> dict[str, Any]:
    """Types of the columns, without the index that a data frame was saved with."""
    described = schema.pandas_metadata or {}
    index = [name for name in described.get("index_columns", ()) if name is not None]
    return {field.name: field.type for field in schema if field.name not in index}


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow

    if not pyarrow.types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers
