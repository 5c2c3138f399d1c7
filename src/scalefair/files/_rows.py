"""Dense rows in files, and the choice of a reader by the extension."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._messages import listed
from scalefair.files._matrices import checked_header, read_rows
from scalefair.files._rows_sparse import NpzReader, SvmlightReader
from scalefair.files._source import (
    BLOCK_BYTES,
    AnyPath,
    FileError,
    SourceFile,
    block_type,
    check_max_bytes,
    cut_evenly,
    open_parquet,
)
from scalefair.streaming import RowReader


def open_rows(path: AnyPath, *, max_bytes: int = BLOCK_BYTES) -> RowReader:
    """Return a reader of the rows in a file, which may be larger than the memory.

    Parameters
    ----------
    path : str or path-like
        ``.npy``, ``.npz``, ``.parquet``, or ``.svm``, ``.svmlight``, ``.libsvm``. It
        must stay as it is: a change is an error.
    max_bytes : int, default=2**26
        Size of the blocks that are read, of one row at least.

    Returns
    -------
    RowReader
        Its `dtype` is float32 if all numbers of the file are, else float64.

    Raises
    ------
    FileError
        If the extension is none of these, or the file is missing or damaged.
    ImportError
        If pyarrow is needed and not installed.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from scalefair.files import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/rows.npy", np.ones((4, 2)))
    ...     [block.shape for block in open_rows(f"{folder}/rows.npy").blocks()]
    [(4, 2)]
    """
    readers: dict[str, Any] = {
        **dict.fromkeys((".svm", ".svmlight", ".libsvm"), SvmlightReader),
        ".npy": NpyReader,
        ".npz": NpzReader,
        ".parquet": ParquetReader,
    }
    extension = os.path.splitext(path)[1].lower()
    if extension not in readers:
        raise FileError(
            f"{os.fspath(path)}: no reader for the extension {extension!r}. Unpack a "
            f"compressed file, or save the rows as one of {', '.join(readers)}."
        )
    reader: RowReader = readers[extension](path, max_bytes=max_bytes)
    return reader


class NpyReader(RowReader):
    """Dense rows in a ``.npy`` file, read a block at a time.

    Rows in Fortran order take longer: a block is scattered over the whole file.

    Parameters
    ----------
    path : str or path-like
        File that ``numpy.save`` wrote: a two-dimensional array of real numbers.
    max_bytes : int, default=2**26
        See `open_rows`.

    Examples
    --------
    >>> from scalefair.files import NpyReader
    >>> reader = NpyReader("rows.npy")  # doctest: +SKIP
    """

    is_sparse = False

    def __init__(self, path: AnyPath, *, max_bytes: int = BLOCK_BYTES) -> None:
        max_bytes = check_max_bytes(max_bytes)
        self._source = SourceFile(path, "an array saved by numpy.save")
        with self._source.opened() as file:
            self._header = checked_header(file)
        shape, stored = self._header.shape, self._header.dtype
        if stored.kind not in "fiub" or len(shape) != 2 or 0 in shape:
            raise FileError(
                f"{self._source.path}: rows of features are a two-dimensional array of "
                f"real numbers, found shape {shape} and type {stored}."
            )
        m, self.n_features = shape
        self.dtype, self.nnz = block_type(stored), m * self.n_features
        self._step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        self.lengths = cut_evenly(m, self._step)

    def block(self, number: int) -> NDArray[Any]:
        length = int(self.lengths[number])
        start = range(len(self))[number] * self._step
        with self._source.opened(buffering=0) as file:
            return read_rows(file, self._header, start, length, self.dtype)


class ParquetReader(RowReader):
    """Dense rows in a parquet file, decoded a block at a time; NaN if missing.

    Parameters
    ----------
    path : str or path-like
        The file.
    columns : sequence of str or None, default=None
        Columns that are features, in this order, of numbers or booleans; by default
        all but the index of a data frame.
    max_bytes : int, default=2**26
        See `open_rows`.

    Examples
    --------
    >>> from scalefair.files import ParquetReader
    >>> reader = ParquetReader("rows.parquet", columns=["age"])  # doctest: +SKIP
    """

    is_sparse = False

    def __init__(
        self,
        path: AnyPath,
        *,
        columns: Sequence[str] | None = None,
        max_bytes: int = BLOCK_BYTES,
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got {columns!r}.")
        self._source = SourceFile(path, "a parquet file")
        with self._opened() as file:
            schema, metadata = file.schema_arrow, file.metadata
            index = (schema.pandas_metadata or {}).get("index_columns", ())
            types = {f.name: f.type for f in schema if f.name not in index}
        groups = range(metadata.num_row_groups)
        sizes = [metadata.row_group(i).num_rows for i in groups]
        if not sum(sizes):
            raise FileError(f"{self._source.path}: has no rows.")
        self._names = list(types) if columns is None else list(columns)
        self.n_features, self.dtype = len(self._names), self._check_columns(types)
        self.feature_names = np.array(self._names, dtype=object)
        step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        # Most writers make row groups of one size: a block starts with a row group.
        self._step = step - step % max(sizes) if step > max(sizes) else step
        self._ends = np.cumsum(sizes)
        self.lengths = cut_evenly(sum(sizes), self._step)
        self.nnz = sum(sizes) * self.n_features

    def block(self, number: int) -> NDArray[Any]:
        number = range(len(self))[number]
        with self._opened() as file:
            return next(self._read(file, number))

    def blocks(self) -> Iterator[NDArray[Any]]:
        with self._opened() as file:
            yield from self._read(file, 0)

    def _read(self, file: Any, first: int) -> Iterator[NDArray[Any]]:
        """Yield the blocks from number `first` on."""
        start = first * self._step
        group = int(np.searchsorted(self._ends, start, side="right"))
        # Rows of the batch that are not read, or that are in a block already.
        n_used = start - int(self._ends[group - 1]) if group else start
        batches = file.iter_batches(
            batch_size=self._step,
            row_groups=list(range(group, file.num_row_groups)),
            columns=self._names,
            use_threads=False,
        )
        batch = next(batches)
        # Batches are of any size: a block may need several, or a part of one.
        for length in self.lengths[first:]:
            X, n_filled = np.empty((length, self.n_features), self.dtype), 0
            while n_filled < length:
                while batch.num_rows <= n_used:
                    n_used -= batch.num_rows
                    batch = next(batches, None)
                    if batch is None:
                        raise ValueError("it has fewer rows than it says")
                part = batch.slice(n_used, length - n_filled)
                stop = n_filled + len(part)
                for j, name in enumerate(self._names):
                    X[n_filled:stop, j] = _numbers(part.column(name))
                n_used, n_filled = n_used + len(part), stop
            yield X

    def _check_columns(self, types: dict[str, Any]) -> np.dtype:
        """Return the common type of the columns; raise unless all are numbers."""
        from pyarrow import types as tests

        names, path = self._names, self._source.path
        if not names:
            raise FileError(f"{path}: no columns are chosen.")
        is_numeric = [tests.is_integer, tests.is_floating, tests.is_boolean]
        is_numeric.append(tests.is_decimal)
        missing = [repr(name) for name in names if name not in types]
        not_numeric = [
            name
            for name in names
            if name in types and not any(test(types[name]) for test in is_numeric)
        ]
        if missing:
            raise FileError(
                f"{path}: has no column {listed(missing)}. It has "
                f"{listed(types, repr)}."
            )
        if not_numeric:
            raise FileError(
                f"{path}: {len(not_numeric)} column(s) do not hold numbers: "
                f"{listed(not_numeric, repr)}. Choose others by columns=[...]."
            )
        single = all(tests.is_float32(types[name]) for name in names)
        return np.dtype(np.float32 if single else np.float64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._source.opened() as file:
            yield open_parquet(self._source.path, file)


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow

    if not pyarrow.types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))
