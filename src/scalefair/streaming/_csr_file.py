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

from scalefair.streaming._blocks import sparse_bounds
from scalefair.streaming._npy_array import DAMAGE, Header, read_header
from scalefair.streaming._source_file import SourceFile, block_type, one_line

__all__ = ["CsrFile"]

# Bytes that are copied at a time.
_PIECE = 2**20
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
            self._headers = {name: _look_up(archive, name) for name in _ARRAYS}
            data, indices = self._headers["data"], self._headers["indices"]
            indptr = _read_member(archive, "indptr")
            _check_arrays(indptr, indices, data, m)
        if data.dtype.kind not in "fiub":
            raise self.source.fault(
                f"entries must be real numbers, found the type {data.dtype}. Save "
                "them as such"
            )
        self.nnz = data.shape[0]
        self.dtype = block_type(data.dtype)
        entry_bytes = self.dtype.itemsize + indices.dtype.itemsize
        bounds = np.array(sparse_bounds(indptr, entry_bytes, max_bytes), np.int64)
        self.lengths = np.diff(bounds)
        self._starts = bounds[:-1]
        self._entries = indptr[bounds].astype(np.int64)

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
        if 0 < ahead <= _PIECE:
            self._file.read(ahead)  # after a seek zipfile compares no checksum
        else:
            self._file.seek(place)
        view = values.view(np.uint8).data
        done = 0
        while done < values.nbytes:
            read = self._file.readinto(view[done : done + _PIECE])  # type: ignore[attr-defined]
            if not read:
                raise EOFError("it ends within an array")
            done += read
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
    found = _read_member(archive, "format").item()
    name = found.decode("ascii", "replace") if isinstance(found, bytes) else found
    if name != "csr":
        raise ValueError(f"it is of format {name!r}")
    shape = _read_member(archive, "shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise ValueError("it has not two dimensions")
    m, n = shape.tolist()
    if m < 0 or n < 1:
        raise ValueError(f"it has {n} columns")
    return m, n


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _look_up(archive: zipfile.ZipFile, name: str) -> Header:
    with archive.open(f"{name}.npy") as file:
        return read_header(file)


def _check_arrays(
    indptr: NDArray[Any], indices: Header, data: Header, n_rows: int
) -> None:
    """Refuse arrays that are no CSR matrix; column indices are seen when read."""
    if indptr.shape != (n_rows + 1,) or indices.shape != data.shape:
        raise ValueError("its arrays do not fit each other")
    if len(data.shape) != 1 or {indptr.dtype.kind, indices.dtype.kind} - set("iu"):
        raise ValueError("its arrays are of the wrong kind")
    rising = bool((indptr[1:] >= indptr[:-1]).all())
    if not rising or indptr[0] != 0 or indptr[-1] != data.shape[0]:
        raise ValueError("its row pointers are wrong")
