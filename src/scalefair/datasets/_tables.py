"""Read tables of integers, and say which file cannot be read."""

import csv
import gzip
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalefair.datasets._fetch import DataHome, local_file
from scalefair.datasets._sources import SourceFile

# What readers raise for a file of another format, or one that is cut off.
_UNREADABLE = (
    ValueError,
    KeyError,
    EOFError,
    zlib.error,
    csv.Error,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in the error when its content is not what it should be."""
    try:
        yield
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is not the expected file: {str(error).rstrip('.')}. Delete it "
            "to download it again, or replace it."
        ) from error


def read_integers(
    name: str,
    files: dict[str, SourceFile],
    data_home: DataHome,
    download: bool,
    *,
    columns: int,
    header: int = 0,
) -> NDArray[np.int64]:
    """Read a comma-separated file of integers, plain or gzip-compressed.

    `columns` is the number of columns it must have, `header` the number of lines
    before the first row.
    """
    path = local_file(files[name], data_home, download)
    with naming(path), warnings.catch_warnings():
        # NumPy warns of a file without rows.
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        values: NDArray[np.int64] = np.loadtxt(
            path, dtype=np.int64, delimiter=",", skiprows=header, ndmin=2
        )
        if values.size == 0:
            raise ValueError("it has no rows")
        if values.shape[1] != columns:
            raise ValueError(
                f"it must have {columns} column(s), but has {values.shape[1]}"
            )
    return values


def positions(
    node_ids: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position in `node_ids` of each wanted id."""
    order = np.argsort(node_ids)
    slot = np.searchsorted(node_ids, wanted, sorter=order)
    found: NDArray[np.int64] = order[np.minimum(slot, node_ids.shape[0] - 1)]
    unknown = node_ids[found] != wanted
    if unknown.any():
        raise ValueError(
            f"node {int(wanted[unknown][0])} has no entry in the file of groups."
        )
    return found
