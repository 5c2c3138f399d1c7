"""Rows in files: dense ones, and which reader takes a file."""

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

_SVMLIGHT = (".svm", ".svmlight", ".libsvm")


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
    readers: dict[str, Any] = dict.fromkeys(_SVMLIGHT, SvmlightReader)
    readers |= {".npy": NpyReader, ".npz": NpzReader, ".parquet": ParquetReader}
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
        shape, _, stored, _ = self._header
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
            schema, about = file.schema_arrow, file.metadata
            index = (schema.pandas_metadata or {}).get("index_columns", ())
            types = {f.name: f.type for f in schema if f.name not in index}
        self._names = list(types) if columns is None else list(columns)
        self.n_features, self.dtype = len(self._names), self._check_columns(types)
        self.feature_names = np.array(self._names, dtype=object)
        sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        if not sum(sizes):
            raise FileError(f"{self._source.path}: has no rows.")
        step = max(1, max_bytes // (self.n_features * self.dtype.itemsize))
        # Row groups are mostly of one size: blocks start where they do.
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
        """Read the blocks from one on; row groups come in batches of any size."""
        start = first * self._step
        group = int(np.searchsorted(self._ends, start, side="right"))
        skipped = start - int(self._ends[group - 1]) if group else start
        batches = file.iter_batches(
            batch_size=self._step,
            row_groups=list(range(group, file.num_row_groups)),
            columns=self._names,
            use_threads=False,
        )
        batch = next(batches)
        for length in self.lengths[first:]:
            X, done = np.empty((length, self.n_features), self.dtype), 0
            while done < length:
                while batch.num_rows <= skipped:
                    skipped -= batch.num_rows
                    batch = next(batches, None)
                    if batch is None:
                        raise ValueError("it has fewer rows than it says")
                part = batch.slice(skipped, length - done)
                for j, name in enumerate(self._names):
                    X[done : done + len(part), j] = _numbers(part.column(name))
                skipped, done = skipped + len(part), done + len(part)
            yield X

    def _check_columns(self, types: dict[str, Any]) -> np.dtype:
        """Return the common type of the columns, if they are numbers."""
        from pyarrow import types as kinds

        names, path = self._names, self._source.path
        if not names:
            raise FileError(f"{path}: no columns are chosen.")
        tests = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal
        missing = [repr(c) for c in names if c not in types]
        words = [c for c in names if c in types and not any(t(types[c]) for t in tests)]
        if missing:
            raise FileError(
                f"{path}: has no column {listed(missing)}. It has "
                f"{listed(types, repr)}."
            )
        if words:
            raise FileError(
                f"{path}: {len(words)} column(s) do not hold numbers: "
                f"{listed(words, repr)}. Choose others by columns=[...]."
            )
        single = all(kinds.is_float32(types[name]) for name in names)
        return np.dtype(np.float32 if single else np.float64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self._source.opened() as file:
            # Pages are read as they are needed, not whole row groups before.
            how = {"pre_buffer": False, "buffer_size": 2**20}
            yield open_parquet(self._source.path, file, **how)


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow

    if not pyarrow.types.is_floating(column.type):
        column = column.cast(pyarrow.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))
