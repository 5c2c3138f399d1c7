"""Choose the reader of a file of rows by its name."""

from __future__ import annotations

import os

from scalefair.streaming._npy_reader import NpyReader
from scalefair.streaming._npz_reader import NpzReader
from scalefair.streaming._parquet_reader import ParquetReader
from scalefair.streaming._readers import RowReader
from scalefair.streaming._source_file import BLOCK_BYTES
from scalefair.streaming._svmlight_reader import SvmlightReader

__all__ = ["open_rows"]

_READERS = {
    ".npy": NpyReader,
    ".npz": NpzReader,
    ".parquet": ParquetReader,
    ".svm": SvmlightReader,
    ".svmlight": SvmlightReader,
    ".libsvm": SvmlightReader,
}


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
    ValueError
        If the extension is none of these, or the reader refuses the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scalefair.streaming import open_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "rows.npy")
    ...     np.save(path, np.ones((4, 2)))
    ...     reader = open_rows(path)
    ...     [block.shape for block in reader.blocks()]
    [(4, 2)]
    """
    extension = os.path.splitext(os.fspath(path))[1].lower()
    if extension == ".gz":
        raise ValueError(
            f"{os.fspath(path)}: compressed files cannot be read in blocks. Unpack it."
        )
    if extension not in _READERS:
        raise ValueError(
            f"{os.fspath(path)}: no reader for the extension {extension!r}. Save the "
            f"rows as one of {', '.join(_READERS)}."
        )
    return _READERS[extension](path, max_bytes=max_bytes)
