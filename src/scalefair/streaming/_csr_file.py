"""A CSR matrix in a zip file, of which some rows are read at a time."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._npy import DAMAGE, Header, fill, member_header, read_member
from scalefair.streaming._blocks import sparse_bounds
from scalefair.streaming._source_file import SourceFile, block_type, one_line

__all__ = ["CsrFile"]

# Bytes that are read rather than skipped.
_NEAR = 2**20
# Row pointers that are looked at together.
_POINTERS = 2**17
_ARRAYS = ("indptr", "indices", "data")
# The header before a member of a zip file: where it says how long its two fields of
# variable length are, and where they start. The member follows.
_FIELD_LENGTHS, _FIELDS = 26, 30


class CsrFile:
    """Rows in a file of ``scipy.sparse.save_npz``, in blocks.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_bytes : int
        Size of a block.

    Attributes
    ----------
    source : SourceFile
        The file.
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block; none if there are no rows.
    n_features, nnz : int
        Number of columns and of stored entries.
    dtype : dtype
        Type of the entries when they have been read.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int) -> None:
        self.source = SourceFile(path)
        with self._archive() as (_, archive):
            m, self.n_features = _read_shape(archive)
            self._headers = {name: member_header(archive, name) for name in _ARRAYS}
            _check_arrays(self._headers, m)
        data, indices = self._headers["data"], self._headers["indices"]
        if data.dtype.kind not in "fiub":
            raise self.source.fault(
                f"entries must be real numbers, found the type {data.dtype}. Save "
                "them as such"
            )
        self.nnz = data.shape[0]
        self.dtype = block_type(data.dtype)
        entry_bytes = self.dtype.itemsize + indices.dtype.itemsize
        with self._archive() as (_, archive), ExitStack() as stack:
            pointers = _stream(archive, "indptr", self._headers["indptr"], stack)
            rows, entries = self._cut(pointers, m, entry_bytes, max_bytes)
        self.lengths = np.diff(rows)
        self._starts = np.array(rows[:-1], np.int64)
        self._entries = np.array(entries, np.int64)

    def block(self, number: int, dtype: np.dtype) -> Any:
        """Return the rows of one block, with entries of a type."""
        with self._archive() as (file, archive), ExitStack() as stack:
            streams = {
                name: _seek(file, archive, name, header, stack)
                for name, header in self._headers.items()
            }
            return self._read(number, streams, dtype)

    def blocks(self, dtype: np.dtype) -> Iterator[Any]:
        """Iterate over all blocks; zipfile compares checksums at the end."""
        with self._archive() as (_, archive), ExitStack() as stack:
            streams = {
                name: _stream(archive, name, header, stack)
                for name, header in self._headers.items()
            }
            for number in range(len(self.lengths)):
                yield self._read(number, streams, dtype)

    def _read(self, number: int, streams: dict[str, _Stream], dtype: np.dtype) -> Any:
        start, length = int(self._starts[number]), int(self.lengths[number])
        first, stop = self._entries[number : number + 2].tolist()
        n = stop - first
        # The first pointer of a block is the last one of the block before.
        indptr = np.zeros(length + 1, np.int64)
        indptr[1:] = streams["indptr"].take(start + 1, length)
        indptr[1:] -= first
        columns = streams["indices"].take(first, n)
        if n and not 0 <= columns.min() <= columns.max() < self.n_features:
            raise ValueError("column indices beyond the number of columns")
        small = sparse.get_index_dtype(maxval=max(n, self.n_features))
        X = sparse.csr_array(
            (
                streams["data"].take(first, n).astype(dtype, copy=False),
                columns.astype(small, copy=False),
                indptr.astype(small, copy=False),
            ),
            shape=(length, self.n_features),
        )
        X.sum_duplicates()
        return X

    def _cut(
        self, pointers: _Stream, m: int, entry_bytes: int, max_bytes: int
    ) -> tuple[list[int], list[int]]:
        """First row and first entry of each block and, last, the ends.

        Row pointers are read in pieces: there may be more than the memory holds.
        """
        found = pointers.take(0, 1)
        rows, entries = [0], found.tolist()
        # Entries at the same place are added up, but not more than make a block.
        longest = max(self.n_features, max_bytes // entry_bytes)
        for start in range(1, m + 1, _POINTERS):
            more = pointers.take(start, min(_POINTERS, m + 1 - start))
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
    def _archive(self) -> Iterator[tuple[BinaryIO, zipfile.ZipFile]]:
        with self.source.opened() as file:
            try:
                with zipfile.ZipFile(file) as archive:
                    yield file, archive
            except DAMAGE as error:
                raise self.source.fault(
                    "not a CSR matrix saved by scipy.sparse.save_npz, or damaged "
                    f"({one_line(error)}). Save X.tocsr() again"
                ) from error


class _Stream:
    """The numbers of a member, of which pieces are taken."""

    def __init__(self, file: IO[bytes], header: Header, start: int = 0) -> None:
        self._file = file
        self._dtype = header.dtype
        self._offset = start + header.offset

    def take(self, start: int, count: int) -> NDArray[Any]:
        """Return some numbers; in compressed files it is slow to go back."""
        values = np.empty(count, self._dtype)
        place = self._offset + start * self._dtype.itemsize
        ahead = place - self._file.tell()
        if 0 < ahead <= _NEAR:
            self._file.read(ahead)  # after a seek zipfile compares no checksum
        else:
            self._file.seek(place)
        fill(self._file, values)
        return values


def _stream(
    archive: zipfile.ZipFile, name: str, header: Header, stack: ExitStack
) -> _Stream:
    return _Stream(stack.enter_context(archive.open(f"{name}.npy")), header)


def _seek(
    file: BinaryIO,
    archive: zipfile.ZipFile,
    name: str,
    header: Header,
    stack: ExitStack,
) -> _Stream:
    """Stream that goes to any place at once, if the member is not compressed."""
    member = archive.getinfo(f"{name}.npy")
    if member.compress_type != zipfile.ZIP_STORED:
        return _stream(archive, name, header, stack)
    file.seek(member.header_offset + _FIELD_LENGTHS)
    lengths = struct.unpack("<HH", file.read(4))
    return _Stream(file, header, member.header_offset + _FIELDS + sum(lengths))


def _read_shape(archive: zipfile.ZipFile) -> tuple[int, int]:
    found = read_member(archive, "format").item()
    name = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    if name != "csr":
        raise ValueError(f"it is of format {name!r}")
    shape = read_member(archive, "shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError("it has not two dimensions")
    m, n = shape.tolist()
    if m < 0 or n < 1:
        raise ValueError(f"it has {n} columns")
    return m, n


def _check_arrays(headers: dict[str, Header], n_rows: int) -> None:
    """Refuse arrays that are no CSR matrix; what is in them is seen when read."""
    indptr, indices, data = (headers[name] for name in _ARRAYS)
    if indptr.shape != (n_rows + 1,) or indices.shape != data.shape:
        raise ValueError("its arrays do not fit each other")
    if len(data.shape) != 1 or {indptr.dtype.kind, indices.dtype.kind} - set("iu"):
        raise ValueError("its arrays are of the wrong kind")
