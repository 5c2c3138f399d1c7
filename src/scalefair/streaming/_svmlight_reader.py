"""Sparse rows and their labels in a text file in svmlight format."""

from __future__ import annotations

import copy
import os
from io import BytesIO
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.streaming._source_file import (
    BLOCK_BYTES,
    FileReader,
    SourceFile,
    check_max_bytes,
    one_line,
)

__all__ = ["SvmlightReader"]

# A character of text makes this many bytes at most: two are a row, of a label and a
# row pointer, and four an entry of a value and a column index.
_BYTES_PER_CHARACTER = 8


class SvmlightReader(FileReader):
    """Sparse rows in a file of lines ``label index:value ...``, parsed block by block.

    All lines are read once to make the reader: for the labels, the number of features
    and where blocks start. Parsing text takes long: for many passes
    ``scipy.sparse.save_npz`` is the better format.

    Parameters
    ----------
    path : str or path-like
        The file; not compressed. It must stay as it is.
    n_features : int or None, default=None
        Number of features, if there are more than occur in the file.
    zero_based : bool or "auto", default="auto"
        Whether the first feature has the index 0, else 1. By default it has if a
        feature 0 occurs.
    max_bytes : int, default=2**26
        Size of a block, 64 MiB by default. Blocks are cut by their text, from which
        arrays are made that are smaller, mostly by far: a block is an eighth of this
        size in text. A block has one row at least.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,), float64
        The first number of each line.
    lengths : ndarray of shape (n_blocks,), int64
        Rows of each block.
    n_features : int
        Number of columns.
    zero_based : bool
        Whether the first feature has the index 0 in the file.
    dtype : dtype
        float64.
    nnz : int
        Stored entries.

    Raises
    ------
    ValueError
        If the file is missing, is compressed, or holds something else, or has more
        features than `n_features`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sklearn.datasets import dump_svmlight_file
    >>> from scalefair.streaming import GroupMoments, SvmlightReader
    >>> X, y = np.diag([1.0, 2.0, 3.0]), np.array([1, -1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.svm")
    ...     dump_svmlight_file(X, y, path, zero_based=False)
    ...     reader = SvmlightReader(path, max_bytes=100)
    ...     moments = GroupMoments.from_data(reader, reader.labels)
    >>> reader.shape, reader.lengths, reader.labels
    ((3, 3), array([2, 1]), array([ 1., -1.,  1.]))
    >>> moments.means
    array([[0. , 2. , 0. ],
           [0.5, 0. , 1.5]])
    """

    is_sparse = True
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        n_features: int | None = None,
        zero_based: bool | Literal["auto"] = "auto",
        max_bytes: int = BLOCK_BYTES,
    ) -> None:
        max_bytes = check_max_bytes(max_bytes)
        if zero_based not in (True, False, "auto"):
            raise ValueError(
                f'zero_based must be True, False or "auto", got {zero_based!r}.'
            )
        self._source = SourceFile(path)
        pieces = self._look_through(max(1, max_bytes // _BYTES_PER_CHARACTER))
        if not pieces:
            raise self._source.fault("has no rows")
        self.labels = np.concatenate([piece.labels for piece in pieces])
        self.lengths = np.array([len(piece.labels) for piece in pieces], np.int64)
        self.nnz = sum(piece.n_entries for piece in pieces)
        self._ranges = [(piece.start, piece.size) for piece in pieces]
        low = min(piece.low for piece in pieces)
        if zero_based == "auto":
            zero_based = low == 0
        elif low == 0 and not zero_based:
            raise self._source.fault(
                "has a feature 0, but zero_based=False says that they count from 1"
            )
        self.zero_based = bool(zero_based)
        found = max(piece.high for piece in pieces) + self.zero_based
        self.n_features = found if n_features is None else int(n_features)
        if self.n_features < max(found, 1):
            raise self._source.fault(
                f"has {found} features"
                + ("" if n_features is None else f", more than n_features={n_features}")
            )

    def block(self, number: int) -> Any:
        """Return the rows of a block.

        Parameters
        ----------
        number : int
            Which block, from 0.

        Returns
        -------
        csr_array of shape (lengths[number], n_features)
            With sorted column indices.

        Raises
        ------
        ValueError
            If the file is no longer what it was.
        """
        start, size = self._ranges[number]
        with self._source.opened() as file:
            file.seek(start)
            text = file.read(size)
        X = self._parse(text, start)[0]
        if X.shape[0] != self.lengths[number] or X.shape[1] > self._n_indices:
            raise self._source.fault(
                "has changed since its reader was made. Make a new reader"
            )
        indices = X.indices if self.zero_based else X.indices - 1
        small = sparse.get_index_dtype(maxval=max(X.nnz, self.n_features))
        return sparse.csr_array(
            (X.data, indices.astype(small), X.indptr.astype(small)),
            shape=(X.shape[0], self.n_features),
        )

    def delayed(self) -> list[Any]:
        """Return the blocks as Dask's delayed values, read where they are computed.

        All workers must see the file under its name; labels are not sent to them.

        Returns
        -------
        list of dask.delayed.Delayed
            One for each block.

        Raises
        ------
        ImportError
            If Dask is not installed.
        """
        without_labels = copy.copy(self)
        without_labels.labels = self.labels[:0]
        return super(SvmlightReader, without_labels).delayed()

    @property
    def _n_indices(self) -> int:
        return self.n_features + (not self.zero_based)

    def _look_through(self, size: int) -> list[_Piece]:
        """Read all lines; return what there is in each piece of them."""
        pieces, start = [], 0
        with self._source.opened() as file:
            if file.read(2) == b"\x1f\x8b":
                raise self._source.fault(
                    "is compressed, and cannot be read in blocks. Unpack it first"
                )
            file.seek(0)
            while text := _read_lines(file, size):
                X, labels = self._parse(text, start)
                if len(labels):
                    # Without entries nothing tells where indices start.
                    low = int(X.indices.min()) if X.nnz else 1
                    high = int(X.indices.max()) if X.nnz else 0
                    pieces.append(_Piece(start, len(text), labels, X.nnz, low, high))
                start += len(text)
        return pieces

    def _parse(self, text: bytes, start: int) -> tuple[Any, NDArray[np.float64]]:
        from sklearn.datasets import load_svmlight_file

        try:
            X, labels = load_svmlight_file(BytesIO(text), zero_based=True)
        except (ValueError, OverflowError) as error:
            raise self._source.fault(
                f"not in svmlight format between bytes {start} and "
                f"{start + len(text)} ({one_line(error)}). A line is `label "
                "index:value ...` with rising indices"
            ) from error
        return X, labels


class _Piece(NamedTuple):
    """Some lines: where they are, and what the rows are like."""

    start: int
    size: int
    labels: NDArray[np.float64]
    n_entries: int
    low: int
    high: int


def _read_lines(file: BinaryIO, size: int) -> bytes:
    """Return the lines that start within the next bytes."""
    text = file.read(size)
    return text if text.endswith(b"\n") else text + file.readline()
