"""Sparse rows in files: CSR matrices in zip archives, lines in svmlight format."""

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

# Bytes that are read rather than skipped, and row pointers that are read together.
_NEAR, _POINTERS = 2**20, 2**17
# Reads numbers of an array: from which, and how many.
_Numbers = Callable[[int, int], NDArray[Any]]
_ARRAYS = ("indptr", "indices", "data")
# Of the header before a member of a zip file: where it says how long its two fields
# of variable length are, and where they start. The member follows.
_FIELD_LENGTHS, _FIELDS = 26, 30
# Bytes that a character of text makes at most: two are a row, four an entry.
_BYTES_PER_CHARACTER = 8


class NpzReader(RowReader):
    """Sparse rows in ``.npz`` files, read as streams.

    A pass reads each file once; a single block of a compressed file, all before it.

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
        others = [file for file in files if file.n_features != self.n_features]
        if others:
            raise FileError(
                f"{others[0].source.path}: has {others[0].n_features} columns, "
                f"{files[0].source.path} has {self.n_features}: all must have the same."
            )
        self._files = [file for file in files if len(file.lengths)]
        if not self._files:
            raise FileError(f"{files[0].source.path}: has no rows.")
        self._places = [(f, i) for f in self._files for i in range(len(f.lengths))]
        self.lengths = np.concatenate([file.lengths for file in self._files])
        self.dtype = np.result_type(*(file.dtype for file in self._files))
        self.nnz = sum(file.nnz for file in self._files)

    def block(self, number: int) -> Any:
        file, own = self._places[number]
        return file.block(own, self.dtype)

    def blocks(self) -> Iterator[Any]:
        for file in self._files:
            yield from file.blocks(self.dtype)


class _CsrFile:
    """Rows in one file, in blocks of given `lengths`."""

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
                if (found := self._headers[name].dtype).kind not in kinds:
                    raise ValueError(f"its {name} are of the type {found}")
        self.dtype = block_type(data.dtype)
        entry_bytes = self.dtype.itemsize + indices.dtype.itemsize
        with self._streams() as streams:
            rows, entries = self._cut(streams["indptr"], m, entry_bytes, max_bytes)
        self.lengths = np.diff(rows)
        self._starts = np.array(rows[:-1], np.int64)
        self._entries = np.array(entries, np.int64)

    def block(self, number: int, dtype: np.dtype) -> Any:
        with self._streams(at_once=True) as streams:
            return self._read(number, streams, dtype)

    def blocks(self, dtype: np.dtype) -> Iterator[Any]:
        """Iterate over all blocks; zipfile compares checksums at the end."""
        with self._streams() as streams:
            for number in range(len(self.lengths)):
                yield self._read(number, streams, dtype)

    def _read(self, number: int, streams: dict[str, _Numbers], dtype: np.dtype) -> Any:
        start, length = int(self._starts[number]), int(self.lengths[number])
        first, stop = self._entries[number : number + 2].tolist()
        n = stop - first
        # The first pointer of a block is the last one of the block before.
        indptr = np.zeros(length + 1, np.int64)
        indptr[1:] = streams["indptr"](start + 1, length)
        indptr[1:] -= first
        data = streams["data"](first, n).astype(dtype, copy=False)
        X = _csr(data, streams["indices"](first, n), indptr, self.n_features)
        X.sum_duplicates()
        return X

    def _cut(
        self, pointers: _Numbers, m: int, entry_bytes: int, max_bytes: int
    ) -> tuple[list[int], list[int]]:
        """First row and entry of each block, the ends last; pointers in pieces."""
        found = pointers(0, 1)
        rows, entries = [0], found.tolist()
        # Entries at the same place are added up, but not more than make a block.
        longest = max(self.n_features, max_bytes // entry_bytes)
        for start in range(1, m + 1, _POINTERS):
            more = pointers(start, min(_POINTERS, m + 1 - start))
            found = np.concatenate([found, more])
            if not (found[1:] >= found[:-1]).all():
                raise ValueError("its row pointers are wrong")
            if (found[1:] - found[:-1]).max() > longest:
                raise ValueError("a row has more entries than there are columns")
            bounds = sparse_bounds(found, entry_bytes, max_bytes)
            if start + len(more) <= m:
                bounds.pop()  # the last block may go on
            entries += found[bounds[1:]].tolist()
            rows += [rows[-1] + bound for bound in bounds[1:]]
            found = found[bounds[-1] :]
        if entries[0] != 0 or entries[-1] != self.nnz:
            raise ValueError("its row pointers are wrong")
        return rows, entries

    @contextmanager
    def _streams(self, at_once: bool = False) -> Iterator[dict[str, _Numbers]]:
        """Open the arrays; at once, to go anywhere in those not compressed."""
        streams: dict[str, _Numbers] = {}
        with (
            self.source.opened() as file,
            zipfile.ZipFile(file) as archive,
            ExitStack() as stack,
        ):
            for name, header in self._headers.items():
                member = archive.getinfo(f"{name}.npy")
                content: Any = file
                start = header.offset
                if at_once and member.compress_type == zipfile.ZIP_STORED:
                    file.seek(member.header_offset + _FIELD_LENGTHS)
                    lengths = struct.unpack("<HH", file.read(4))
                    start += member.header_offset + _FIELDS + sum(lengths)
                else:
                    content = stack.enter_context(archive.open(member))
                streams[name] = partial(_take, content, start, header.dtype)
            yield streams


def _csr(data: Any, columns: Any, indptr: Any, n_features: int) -> Any:
    """Rows with small indices, which compiled code takes wherever they point."""
    if len(columns) and not 0 <= columns.min() <= columns.max() < n_features:
        raise ValueError("column indices beyond the number of columns")
    fits = max(len(columns), n_features) <= np.iinfo(np.int32).max
    small = np.int32 if fits else np.int64
    indices = (array.astype(small, copy=False) for array in (columns, indptr))
    return sparse.csr_array((data, *indices), shape=(len(indptr) - 1, n_features))


def _take(
    file: Any, offset: int, dtype: np.dtype, start: int, count: int
) -> NDArray[Any]:
    """Read some numbers of an array; in compressed files it is slow to go back."""
    values = np.empty(count, dtype)
    place = offset + start * dtype.itemsize
    if 0 < place - file.tell() <= _NEAR:
        file.read(place - file.tell())  # after a seek zipfile compares no checksum
    else:
        file.seek(place)
    fill(file, values)
    return values


def _read_shape(archive: zipfile.ZipFile, path: str) -> tuple[int, int]:
    found = read_member(archive, "format").item()
    name = found.decode("ascii", "replace") if isinstance(found, bytes) else found
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
        size = max(1, check_max_bytes(max_bytes) // _BYTES_PER_CHARACTER)
        if zero_based not in (True, False, "auto"):
            raise ValueError(
                f'zero_based must be True, False or "auto", got {zero_based!r}.'
            )
        self._source = SourceFile(path, "in svmlight format")
        name = self._source.path
        pieces, line = [], 0
        with self._source.opened() as file:
            if file.read(2) == b"\x1f\x8b":
                raise FileError(
                    f"{name}: is compressed, and cannot be read in blocks. Unpack it "
                    "first."
                )
            start = file.seek(0)
            while text := file.read(size):
                text = text if text.endswith(b"\n") else text + file.readline()
                X, y = parse_svmlight(name, text, line)
                if len(y):
                    ends = X.indices.min(initial=1), X.indices.max(initial=0)
                    pieces.append((y, (start, len(text), line), X.nnz, *ends))
                start, line = start + len(text), line + text.count(b"\n")
        if not pieces:
            raise FileError(f"{name}: has no rows.")
        labels, self._ranges, counts, lows, highs = zip(*pieces, strict=True)
        self.labels, self.nnz = np.concatenate(labels), sum(counts)
        self.lengths = np.array([len(y) for y in labels], np.int64)
        told = None if zero_based == "auto" else bool(zero_based)
        self.zero_based = counts_from_zero(name, min(lows), told)
        found = int(max(highs)) + self.zero_based
        self.n_features = found if n_features is None else int(n_features)
        if self.n_features < max(found, 1):
            given = "" if n_features is None else f", more than n_features={n_features}"
            raise FileError(f"{name}: has {found} features{given}.")

    def block(self, number: int) -> Any:
        start, size, line = self._ranges[number]
        with self._source.opened() as file:
            file.seek(start)
            X = parse_svmlight(self._source.path, file.read(size), line)[0]
            if X.shape[0] != self.lengths[number]:
                raise ValueError("it has other rows than when its reader was made")
            columns = X.indices - (not self.zero_based)
            return _csr(X.data, columns, X.indptr, self.n_features)

    def delayed(self) -> list[Any]:
        without_labels = copy.copy(self)
        without_labels.labels = self.labels[:0]
        return super(SvmlightReader, without_labels).delayed()
