"""Rows in files of NumPy, SciPy, svmlight and parquet, read a block at a time."""

import copy
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._memory import require_memory, sparse_bounds
from scalefair._messages import listed
from scalefair.files._matrices import (
    checked_header,
    counts_from_zero,
    fill,
    member_header,
    parse_svmlight,
    read_member,
    read_rows,
)
from scalefair.files._source import (
    BLOCK_BYTES,
    AnyPath,
    FileError,
    SourceFile,
    block_type,
    check_max_bytes,
    open_parquet,
    parquet_columns,
    refuse_store,
)
from scalefair.files._text import DECOMPRESSORS
from scalefair.streaming import RowReader

_ARRAYS = ("indptr", "indices", "data")
# Reads numbers of an array: (start, count) -> numbers.
_ReadNumbers = Callable[[int, int], NDArray[Any]]


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
        refuse_store(path)
        raise FileError(
            f"{os.fspath(path)}: no reader for the extension {extension!r}. Unpack a "
            f"compressed file, or save the rows as one of {', '.join(readers)}."
        )
    reader: RowReader = readers[extension](path, max_bytes=max_bytes)
    return reader


def _cut_evenly(n_rows: int, step: int) -> NDArray[np.int64]:
    """Return the number of rows of each block: `step`, in the last one fewer."""
    return np.diff(np.append(np.arange(0, n_rows, step), n_rows))


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
        self.lengths = _cut_evenly(m, self._step)

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
            types, metadata = parquet_columns(file.schema_arrow), file.metadata
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
        self.lengths = _cut_evenly(sum(sizes), self._step)
        self.nnz = sum(sizes) * self.n_features

    def block(self, number: int) -> NDArray[Any]:
        # The row group of a block is found without reading those before it.
        number = range(len(self))[number]
        with self._opened() as file:
            return next(self._read(file, number))

    def blocks(self) -> Iterator[NDArray[Any]]:
        with self._opened() as file:
            yield from self._read(file, 0)

    def _read(self, file: Any, first: int) -> Iterator[NDArray[Any]]:
        """Yield the blocks from number `first` on."""
        import pyarrow

        start = first * self._step
        # The row group that holds the first row; `_ends` are where groups end.
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
        # Batches are of any size: a block may need several, or a part of one. Always
        # `n_used` rows of the batch are done, and `n_filled` rows of X are written.
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
                    column = part.column(name)
                    if not pyarrow.types.is_floating(column.type):
                        column = column.cast(pyarrow.float64(), safe=False)
                    X[n_filled:stop, j] = column.to_numpy(zero_copy_only=False)
                n_used, n_filled = n_used + len(part), stop
            yield X

    def _check_columns(self, types: dict[str, Any]) -> np.dtype:
        """Return the common type of the columns; raise unless all are numbers."""
        from pyarrow import types as tests

        names, path = self._names, self._source.path
        # 1. All columns are there, and pyarrow can make numbers of them.
        if not names:
            raise FileError(f"{path}: no columns are chosen.")
        if missing := [name for name in names if name not in types]:
            raise FileError(
                f"{path}: has no column {listed(missing, repr)}. It has "
                f"{listed(types, repr)}."
            )
        kinds = (
            tests.is_integer,
            tests.is_floating,
            tests.is_boolean,
            tests.is_decimal,
        )
        not_numeric = [x for x in names if not any(kind(types[x]) for kind in kinds)]
        if not_numeric:
            raise FileError(
                f"{path}: {len(not_numeric)} column(s) do not hold numbers: "
                f"{listed(not_numeric, repr)}. Choose others by columns=[...]."
            )
        # 2. float32 only if no column has more digits.
        single = all(tests.is_float32(types[name]) for name in names)
        return np.dtype(np.float32 if single else np.float64)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open pyarrow's reader of the file, and close the file with it."""
        with self._source.opened() as file:
            yield open_parquet(self._source.path, file)


# --- Sparse rows ---------------------------------------------------------------------


class NpzReader(RowReader):
    """Sparse rows in ``.npz`` files, read as streams.

    A pass reads each file once. To read a single block of a compressed file, all
    blocks before it are read.

    Parameters
    ----------
    path : str, path-like or sequence of them
        Of ``scipy.sparse.save_npz``, from a CSR matrix; several have consecutive rows.
    max_bytes : int, default=2**26
        See `open_rows`; rows count 512 bytes or more; no block spans two files.

    Examples
    --------
    >>> from scalefair.files import NpzReader
    >>> reader = NpzReader(["0.npz", "1.npz"])  # doctest: +SKIP
    """

    is_sparse = True

    def __init__(
        self, path: AnyPath | Sequence[AnyPath], *, max_bytes: int = BLOCK_BYTES
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        if not paths:
            raise ValueError("path must be a file or a list of files, got no file.")
        files = [_CsrFile(name, max_bytes) for name in paths]
        self.n_features = files[0].n_features
        different = [file for file in files if file.n_features != self.n_features]
        if different:
            raise FileError(
                f"{different[0].source.path}: has {different[0].n_features} columns, "
                f"{files[0].source.path} has {self.n_features}: all must have the same."
            )
        self._files = [file for file in files if len(file.lengths)]
        if not self._files:
            raise FileError(f"{files[0].source.path}: has no rows.")
        # File and number in this file of each block.
        self._blocks = [(f, i) for f in self._files for i in range(len(f.lengths))]
        self.lengths = np.concatenate([file.lengths for file in self._files])
        self.dtype = np.result_type(*(file.dtype for file in self._files))
        self.nnz = sum(file.nnz for file in self._files)

    def block(self, number: int) -> Any:
        file, number_in_file = self._blocks[number]
        return file.block(number_in_file, self.dtype)

    def blocks(self) -> Iterator[Any]:
        # File after file, each from start to end: compressed ones are decoded once.
        for file in self._files:
            yield from file.blocks(self.dtype)


class _CsrFile:
    """Rows in one file, in blocks of `lengths` rows."""

    def __init__(self, path: AnyPath, max_bytes: int) -> None:
        """Check headers and row pointers of a file, and cut its rows into blocks."""
        # 1. The headers of the arrays, which must fit each other.
        self.source = SourceFile(path, "a CSR matrix saved by scipy.sparse.save_npz")
        with self.source.opened() as file, zipfile.ZipFile(file) as archive:
            m, self.n_features = _read_shape(archive, self.source.path)
            self._headers = {name: member_header(archive, name) for name in _ARRAYS}
            indptr, indices, data = self._headers.values()
            (self.nnz,) = data.shape
            if indptr.shape != (m + 1,) or indices.shape != data.shape:
                raise ValueError("its arrays do not fit each other")
            for name, kinds in zip(_ARRAYS, ("iu", "iu", "fiub"), strict=True):
                if (dtype := self._headers[name].dtype).kind not in kinds:
                    raise ValueError(f"its {name} are of the type {dtype}")
        self.dtype = block_type(data.dtype)
        # 2. Row pointers take no more memory than a group for each row: they are read
        #    at once, unless an archive claims more of them than there is memory.
        n_bytes = 3 * indptr.dtype.itemsize * m
        require_memory(n_bytes, f"the row pointers of {path}", "Use a part of it.")
        with self._open() as arrays:
            pointers = arrays["indptr"](0, m + 1)
            is_rising = bool((pointers[1:] >= pointers[:-1]).all())
            if not is_rising or pointers[0] != 0 or pointers[-1] != self.nnz:
                raise ValueError("its row pointers are wrong")
            # A row may repeat a column, but only as often as fits into a block.
            entry_bytes = self.dtype.itemsize + indices.dtype.itemsize
            max_row_entries = max(self.n_features, max_bytes // entry_bytes)
            if np.diff(pointers).max(initial=0) > max_row_entries:
                raise ValueError("a row has more entries than there are columns")
        # 3. The blocks: their first rows, and first entries.
        #    Block b has the rows from bounds[b] to bounds[b + 1], and the entries from
        #    _entries[b] to _entries[b + 1].
        bounds = np.array(sparse_bounds(pointers, entry_bytes, max_bytes), np.int64)
        self.lengths, self._starts = np.diff(bounds), bounds[:-1]
        self._entries = pointers[bounds].astype(np.int64)

    def block(self, number: int, dtype: np.dtype) -> Any:
        """Read one block; only compressed arrays are read from their start."""
        with self._open(random_access=True) as arrays:
            return self._read(number, arrays, dtype)

    def blocks(self, dtype: np.dtype) -> Iterator[Any]:
        """Yield all blocks; at the end zipfile compares the checksums."""
        with self._open() as arrays:
            arrays["indptr"](0, 1)  # `_read` starts with the second pointer
            for number in range(len(self.lengths)):
                yield self._read(number, arrays, dtype)

    def _read(
        self, number: int, arrays: dict[str, _ReadNumbers], dtype: np.dtype
    ) -> Any:
        """Read a block from open arrays, with equal columns of a row added up."""
        start, length = int(self._starts[number]), int(self.lengths[number])
        first, stop = self._entries[number : number + 2].tolist()
        # The first pointer was read as the last one of the block before. Pointers of
        # the file count from its first entry, those of a block from its own.
        indptr = np.zeros(length + 1, np.int64)
        indptr[1:] = arrays["indptr"](start + 1, length)
        indptr[1:] -= first
        data = arrays["data"](first, stop - first).astype(dtype, copy=False)
        indices = arrays["indices"](first, stop - first)
        X = _csr(data, indices, indptr, self.n_features)
        X.sum_duplicates()
        return X

    @contextmanager
    def _open(self, random_access: bool = False) -> Iterator[dict[str, _ReadNumbers]]:
        """Open the arrays; for random access those not compressed in the file itself.

        Else they are read from start to end, and zipfile checks them.
        """
        arrays: dict[str, _ReadNumbers] = {}
        with (
            self.source.opened() as file,
            zipfile.ZipFile(file) as archive,
            ExitStack() as stack,
        ):
            for name, header in self._headers.items():
                member = archive.getinfo(f"{name}.npy")
                offset = header.offset  # of the numbers, in the member
                if random_access and member.compress_type == zipfile.ZIP_STORED:
                    content: Any = file
                    offset += _member_start(file, member)
                else:
                    content = stack.enter_context(archive.open(member))
                    content.read(offset)
                arrays[name] = partial(_read_numbers, content, offset, header.dtype)
            yield arrays


def _member_start(file: Any, member: zipfile.ZipInfo) -> int:
    """Return where the content of a member of a zip file starts.

    Its header has 30 bytes and two fields, whose lengths are at byte 26.
    """
    file.seek(member.header_offset + 26)
    n_name, n_extra = struct.unpack("<HH", file.read(4))
    return int(member.header_offset + 30 + n_name + n_extra)


def _csr(data: Any, columns: Any, indptr: Any, n_features: int) -> Any:
    """Return rows with indices of 32 bits if they fit, after a check of their range.

    Compiled code checks no index, and takes both arrays of one type.
    """
    if len(columns) and not 0 <= columns.min() <= columns.max() < n_features:
        raise ValueError("column indices beyond the number of columns")
    fits = max(len(columns), n_features) <= np.iinfo(np.int32).max
    dtype = np.int32 if fits else np.int64
    indices = (array.astype(dtype, copy=False) for array in (columns, indptr))
    return sparse.csr_array((data, *indices), shape=(len(indptr) - 1, n_features))


def _read_numbers(
    file: Any, offset: int, dtype: np.dtype, start: int, count: int
) -> NDArray[Any]:
    """Read some numbers of an array that starts at an offset."""
    # In a pass the file stands there already, and no seek is needed.
    position = offset + start * dtype.itemsize
    if file.tell() != position:  # after a seek zipfile checks nothing
        file.seek(position)
    values = np.empty(count, dtype)
    fill(file, values)
    return values


def _read_shape(archive: zipfile.ZipFile, path: str) -> tuple[int, int]:
    """Return rows and columns of the CSR matrix in an archive."""
    stored = read_member(archive, "format").item()
    name = stored.decode("ascii", "replace") if isinstance(stored, bytes) else stored
    if name != "csr":
        raise FileError(f"{path}: it is of format {name!r}. Save X.tocsr() again.")
    shape = read_member(archive, "shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError("it has not two dimensions")
    m, n = shape.tolist()
    if m < 0 or n < 1:
        raise ValueError(f"it has {n} columns")
    return m, n


class SvmlightReader(RowReader):
    """Sparse rows in a file of lines ``label index:value ...``, parsed block by block.

    Parameters
    ----------
    path : str or path-like
        The file; not compressed.
    n_features : int or None, default=None
        Number of features, if there are more than occur in the file.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has the index 0; by default if a feature 0 occurs.
    max_bytes : int, default=2**26
        See `open_rows`. Blocks are cut by their text, of an eighth of this size.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), float64
        The first number of each line; not sent to the workers of Dask.
    zero_based : bool
        Whether the first feature has the index 0 in the file.

    Examples
    --------
    >>> from scalefair.files import SvmlightReader
    >>> reader = SvmlightReader("rows.svm", zero_based=False)  # doctest: +SKIP
    """

    is_sparse = True
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        path: AnyPath,
        *,
        n_features: int | None = None,
        zero_based: bool | Literal["auto"] = "auto",
        max_bytes: int = BLOCK_BYTES,
    ) -> None:
        # 1. A character makes at most 8 bytes: two of them may be a row, four an entry.
        size = max(1, check_max_bytes(max_bytes) // 8)
        if zero_based not in (True, False, "auto"):
            raise ValueError(
                f'zero_based must be True, False or "auto", got {zero_based!r}.'
            )
        self._source = SourceFile(path, "in svmlight format")
        name = self._source.path
        # 2. Parse all lines: what is kept are the labels, and where blocks start.
        labels, self.nnz, min_index, max_index = [], 0, 1, 0
        # Position, length and number of lines before it, of the text of each block.
        self._ranges: list[tuple[int, int, int]] = []
        with self._source.opened() as file:
            if file.read(6).startswith(tuple(DECOMPRESSORS)):
                raise FileError(
                    f"{name}: is compressed, and cannot be read in blocks. Unpack it "
                    "first."
                )
            start, n_lines = file.seek(0), 0
            while text := file.read(size):
                # A piece of the text ends with a line.
                if not text.endswith(b"\n"):
                    text += file.readline()
                # Rows are parsed, counted and dropped: `block` parses them again.
                X, y = parse_svmlight(name, text, n_lines)
                if len(y):
                    labels.append(y)
                    self._ranges.append((start, len(text), n_lines))
                    self.nnz += X.nnz
                    min_index = min(min_index, int(X.indices.min(initial=1)))
                    max_index = max(max_index, int(X.indices.max(initial=0)))
                start, n_lines = start + len(text), n_lines + text.count(b"\n")
        if not labels:
            raise FileError(f"{name}: has no rows.")
        self.labels = np.concatenate(labels)
        self.lengths = np.array([len(y) for y in labels], np.int64)
        # 3. The features, of which the first may be 0 or 1.
        is_zero_based = None if zero_based == "auto" else bool(zero_based)
        self.zero_based = counts_from_zero(name, min_index, is_zero_based)
        n_present = max_index + self.zero_based
        self.n_features = n_present if n_features is None else int(n_features)
        if self.n_features < max(n_present, 1):
            limit = "" if n_features is None else f", more than n_features={n_features}"
            raise FileError(f"{name}: has {n_present} features{limit}.")

    def block(self, number: int) -> Any:
        # The text is parsed again: only sizes and labels were kept the first time.
        start, size, n_lines = self._ranges[number]
        with self._source.opened() as file:
            file.seek(start)
            X, _ = parse_svmlight(self._source.path, file.read(size), n_lines)
            if X.shape[0] != self.lengths[number]:
                raise ValueError("it has other rows than when its reader was made")
            columns = X.indices - (not self.zero_based)
            return _csr(X.data, columns, X.indptr, self.n_features)

    def delayed(self) -> list[Any]:
        # Workers need the rows only: the labels would be pickled with the reader.
        without_labels = copy.copy(self)
        without_labels.labels = self.labels[:0]
        return super(SvmlightReader, without_labels).delayed()
