"""Rows in files: dense ones, and which reader takes a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair.files._errors import FileError
from scalefair.files._npy import Header, read_header, read_rows
from scalefair.files._rows_sparse import NpzReader, SvmlightReader
from scalefair.files._source import (
    BLOCK_BYTES,
    FileReader,
    SourceFile,
    block_type,
    check_max_bytes,
    cut_evenly,
)
from scalefair.streaming import RowReader


def open_rows(
    path: str | os.PathLike[str], *, max_bytes: int = BLOCK_BYTES
) -> RowReader:
    """Return a reader of the rows in a file, which may be larger than the memory.

    Parameters
    ----------
    path : str or path-like
        ``.npy`` (`NpyReader`), ``.npz`` (`NpzReader`), ``.parquet``
        (`ParquetReader`) or ``.svm``, ``.svmlight``, ``.libsvm``
        (`SvmlightReader`). It must stay as it is: a change is an error.
    max_bytes : int, default=2**26
        Size of the blocks that are read, 64 MiB by default.

    Returns
    -------
    RowReader
        To be given to an estimator where it takes a matrix.

    Raises
    ------
    ImportError
        If pyarrow is not installed and the file is a parquet file.
    FileError
        If the extension is none of these, or the reader refuses the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scalefair.files import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.ones((4, 2)))
    ...     reader = open_rows(path)
    ...     [block.shape for block in reader.blocks()]
    [(4, 2)]
    """
    readers = {
        ".npy": NpyReader,
        ".npz": NpzReader,
        ".parquet": ParquetReader,
        ".svm": SvmlightReader,
        ".svmlight": SvmlightReader,
        ".libsvm": SvmlightReader,
    }
    name = os.fspath(path)
    extension = os.path.splitext(name)[1].lower()
    if extension in {".gz", ".bz2", ".xz"}:
        raise FileError(
            f"{name}: compressed files cannot be read in blocks. Unpack it."
        )
    if extension not in readers:
        raise FileError(
            f"{name}: no reader for the extension {extension!r}. Save the rows as one "
            f"of {', '.join(readers)}."
        )
    reader: RowReader = readers[extension](path, max_bytes=max_bytes)
    return reader


class NpyReader(FileReader):
    """Dense rows in a ``.npy`` file, read a block at a time.

    Any block is read as fast as the next one. Rows in Fortran order take longer,
    for those of a block are scattered over the whole file.

    Parameters
    ----------
    path : str or path-like
        File that ``numpy.save`` wrote: a two-dimensional array of real numbers. It
        must stay as it is.
    max_bytes : int, default=2**26
        Size of a block, 64 MiB by default. A block has one row at least.

    Attributes
    ----------
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block.
    n_features : int
        Number of columns.
    dtype : dtype
        float32 if the file's numbers are, else float64, to which they are converted.
    nnz : int
        Number of entries.

    Raises
    ------
    FileError
        If the file is missing, is truncated, or holds something else; from
        `block`, if it is no longer what it was.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scalefair.files import NpyReader
    >>> from scalefair.streaming import GroupMoments
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.arange(12.0).reshape(6, 2))
    ...     reader = NpyReader(path, max_bytes=64)
    ...     moments = GroupMoments.from_data(reader, ["a", "b"] * 3)
    >>> reader.shape, reader.lengths
    ((6, 2), array([4, 2]))
    >>> moments.means
    array([[4., 5.],
           [6., 7.]])
    """

    is_sparse = False

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = BLOCK_BYTES
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        self._source = SourceFile(path, "an array saved by numpy.save")
        with self._source.opened() as file:
            self._header = read_header(file)
        _check_rows(self._header, self._source)
        m, self.n_features = self._header.shape
        self.dtype = block_type(self._header.dtype)
        self.nnz = m * self.n_features
        self._step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        self.lengths = cut_evenly(m, self._step)

    def block(self, number: int) -> NDArray[Any]:
        length = int(self.lengths[number])
        start = range(len(self))[number] * self._step
        with self._source.opened(buffering=0) as file:
            return read_rows(file, self._header, start, length, self.dtype)


def _check_rows(header: Header, source: SourceFile) -> None:
    shape, _, dtype, _ = header
    if dtype.kind not in "fiub":
        raise FileError(
            f"{source.path}: rows must be real numbers, found the type {dtype}. Save "
            "them as such."
        )
    if len(shape) != 2 or 0 in shape:
        raise FileError(
            f"{source.path}: must hold a two-dimensional array with at least one row "
            f"and one feature, found shape {shape}. Reshape it before it is saved."
        )
    if source.size < header.stop:
        raise FileError(
            f"{source.path}: is truncated: {source.size} bytes of {header.stop}. Copy "
            "or save it again."
        )


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
    FileError
        If the file is missing, is truncated, or is none, or a column is missing or
        does not hold numbers; from `block`, if it is no longer what it was.

    Notes
    -----
    A missing value is NaN in a block, and refused by estimators. Beside a block the
    memory holds what pyarrow buffers of each column.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from scalefair.files import ParquetReader
    >>> from scalefair.streaming import GroupMoments
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
        self._source = SourceFile(path, "a parquet file")
        with self._opened() as file:
            types = _column_types(file.schema_arrow)
            groups = file.metadata
            sizes = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        self._names = list(types) if columns is None else list(columns)
        self.dtype = self._check_columns(types)
        self.feature_names = np.array(self._names, dtype=object)
        self.n_features = len(self._names)
        if not sum(sizes):
            raise FileError(f"{self._source.path}: has no rows.")
        self._step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        self._pieces = _cut(sizes, self._step)
        self.lengths = np.array([piece.length for piece in self._pieces], np.int64)
        self.nnz = sum(sizes) * self.n_features

    def block(self, number: int) -> NDArray[Any]:
        first, last, skipped, length = self._pieces[number]
        with self._opened() as file:
            batches = self._batches(file, range(first, last + 1))
            batches.skip(skipped)
            return batches.take(length)

    def blocks(self) -> Iterator[NDArray[Any]]:
        with self._opened() as file:
            batches = self._batches(file, range(file.num_row_groups))
            for piece in self._pieces:
                yield batches.take(piece.length)

    def _batches(self, file: Any, groups: range) -> _Batches:
        batches = file.iter_batches(
            batch_size=self._step,
            row_groups=list(groups),
            columns=self._names,
            use_threads=False,
        )
        return _Batches(batches, self._names, self.dtype)

    def _check_columns(self, types: dict[str, Any]) -> np.dtype:
        """Return the common type of the columns, if they are numbers."""
        from pyarrow import types as kinds

        names, path = self._names, self._source.path
        if not names:
            raise FileError(f"{path}: no columns are chosen.")
        missing = [repr(name) for name in names if name not in types]
        if missing:
            raise FileError(
                f"{path}: has no column {', '.join(missing[:5])}. It has "
                f"{', '.join(map(repr, list(types)[:20]))}."
            )
        tests = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal
        words = [
            repr(name)
            for name in names
            if not any(is_number(types[name]) for is_number in tests)
        ]
        if words:
            raise FileError(
                f"{path}: {len(words)} column(s) do not hold numbers: "
                f"{', '.join(words[:5])}. Choose others by columns=[...]."
            )
        single = all(kinds.is_float32(types[name]) for name in names)
        return np.dtype(np.float32 if single else np.float64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._source.opened() as file:
            try:
                from pyarrow import parquet
            except ImportError as error:
                raise ImportError(
                    f"{self._source.path}: parquet files need pyarrow: pip install "
                    '"scalefair[data]".'
                ) from error
            # Pages are read as they are needed, not whole row groups before.
            yield parquet.ParquetFile(file, pre_buffer=False, buffer_size=2**20)


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
        self._batches, self._names, self._dtype = batches, names, dtype
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
