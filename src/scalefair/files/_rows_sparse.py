"""Sparse rows in files: CSR matrices of `save_npz`, lines in svmlight format."""

from __future__ import annotations

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

from scalefair._memory import sparse_bounds
from scalefair.files._matrices import (
    counts_from_zero,
    fill,
    member_header,
    parse_svmlight,
    read_member,
)
from scalefair.files._source import (
    BLOCK_BYTES,
    AnyPath,
    FileError,
    SourceFile,
    block_type,
    check_max_bytes,
)
from scalefair.streaming import RowReader

# Row pointers that are read at a time, 1 MB: a matrix may have hundreds of millions.
# Blocks do not depend on it. An eighth takes twice the time, more saves none.
POINTERS_PER_READ = 2**17
_ARRAYS = ("indptr", "indices", "data")
# Reads numbers of an array: (start, count) -> numbers.
_ReadNumbers = Callable[[int, int], NDArray[Any]]


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
        for file in self._files:
            yield from file.blocks(self.dtype)


class _CsrFile:
    """Rows in one file, in blocks of `lengths` rows."""

    def __init__(self, path: AnyPath, max_bytes: int) -> None:
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
        entry_bytes = self.dtype.itemsize + indices.dtype.itemsize
        with self._open() as arrays:
            rows, entries = self._cut(arrays["indptr"], m, entry_bytes, max_bytes)
        self.lengths = np.diff(rows)
        self._starts = np.array(rows[:-1], np.int64)
        self._entries = np.array(entries, np.int64)

    def block(self, number: int, dtype: np.dtype) -> Any:
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
        start, length = int(self._starts[number]), int(self.lengths[number])
        first, stop = self._entries[number : number + 2].tolist()
        # The first pointer was read as the last one of the block before.
        indptr = np.zeros(length + 1, np.int64)
        indptr[1:] = arrays["indptr"](start + 1, length)
        indptr[1:] -= first
        data = arrays["data"](first, stop - first).astype(dtype, copy=False)
        indices = arrays["indices"](first, stop - first)
        X = _csr(data, indices, indptr, self.n_features)
        X.sum_duplicates()
        return X

    def _cut(
        self, read_pointers: _ReadNumbers, m: int, entry_bytes: int, max_bytes: int
    ) -> tuple[list[int], list[int]]:
        """Return the first row and entry of each block and, last, the ends."""
        pointers = read_pointers(0, 1)
        rows, entries = [0], pointers.tolist()
        # Entries of a row may repeat a column, but only as many as fit into a block.
        max_row_entries = max(self.n_features, max_bytes // entry_bytes)
        for start in range(1, m + 1, POINTERS_PER_READ):
            count = min(POINTERS_PER_READ, m + 1 - start)
            # `pointers` starts with the first row that is in no block yet.
            pointers = np.concatenate([pointers, read_pointers(start, count)])
            if not (pointers[1:] >= pointers[:-1]).all():
                raise ValueError("its row pointers are wrong")
            if (pointers[1:] - pointers[:-1]).max() > max_row_entries:
                raise ValueError("a row has more entries than there are columns")
            bounds = sparse_bounds(pointers, entry_bytes, max_bytes)
            if start + count <= m:
                bounds.pop()  # the last block may continue in the next piece
            entries += pointers[bounds[1:]].tolist()
            rows += [rows[-1] + bound for bound in bounds[1:]]
            pointers = pointers[bounds[-1] :]
        if entries[0] != 0 or entries[-1] != self.nnz:
            raise ValueError("its row pointers are wrong")
        return rows, entries

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
                offset = header.offset
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
    """Return rows with indices of 32 bits if they fit, after a check of their range."""
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
    position = offset + start * dtype.itemsize
    if file.tell() != position:  # after a seek zipfile checks nothing
        file.seek(position)
    values = np.empty(count, dtype)
    fill(file, values)
    return values


def _read_shape(archive: zipfile.ZipFile, path: str) -> tuple[int, int]:
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
        # A character makes at most 8 bytes: two of them may be a row, four an entry.
        size = max(1, check_max_bytes(max_bytes) // 8)
        if zero_based not in (True, False, "auto"):
            raise ValueError(
                f'zero_based must be True, False or "auto", got {zero_based!r}.'
            )
        self._source = SourceFile(path, "in svmlight format")
        name = self._source.path
        labels, self.nnz, min_index, max_index = [], 0, 1, 0
        # Position, length and number of lines before it, of the text of each block.
        self._ranges: list[tuple[int, int, int]] = []
        with self._source.opened() as file:
            if file.read(2) == b"\x1f\x8b":
                raise FileError(
                    f"{name}: is compressed, and cannot be read in blocks. Unpack it "
                    "first."
                )
            start, n_lines = file.seek(0), 0
            while text := file.read(size):
                if not text.endswith(b"\n"):
                    text += file.readline()
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
        is_zero_based = None if zero_based == "auto" else bool(zero_based)
        self.zero_based = counts_from_zero(name, min_index, is_zero_based)
        n_present = max_index + self.zero_based
        self.n_features = n_present if n_features is None else int(n_features)
        if self.n_features < max(n_present, 1):
            limit = "" if n_features is None else f", more than n_features={n_features}"
            raise FileError(f"{name}: has {n_present} features{limit}.")

    def block(self, number: int) -> Any:
        start, size, n_lines = self._ranges[number]
        with self._source.opened() as file:
            file.seek(start)
            X, _ = parse_svmlight(self._source.path, file.read(size), n_lines)
            if X.shape[0] != self.lengths[number]:
                raise ValueError("it has other rows than when its reader was made")
            columns = X.indices - (not self.zero_based)
            return _csr(X.data, columns, X.indptr, self.n_features)

    def delayed(self) -> list[Any]:
        without_labels = copy.copy(self)
        without_labels.labels = self.labels[:0]
        return super(SvmlightReader, without_labels).delayed()
