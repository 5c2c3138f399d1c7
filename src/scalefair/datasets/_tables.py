"""Read the small text tables of the graph data sets."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scalefair.datasets._fetch import local_file
from scalefair.datasets._sources import SourceFile

DataHome = str | os.PathLike[str] | None


def read_integers(
    name: str,
    files: dict[str, SourceFile],
    data_home: DataHome,
    download: bool,
    *,
    columns: int,
    header: int = 0,
) -> NDArray[np.int64]:
    """Read a comma-separated file of integers, plain or gzip-compressed."""
    path: Path = local_file(files[name], data_home, download)
    try:
        values = np.loadtxt(
            path, dtype=np.int64, delimiter=",", skiprows=header, ndmin=2
        )
    except ValueError as error:
        raise ValueError(f"{path} is not the expected table: {error}") from error
    if values.shape[1] != columns:
        raise ValueError(
            f"{path} must have {columns} column(s), but has {values.shape[1]}."
        )
    return values


def positions(
    node_ids: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position in `node_ids` of each wanted id."""
    order = np.argsort(node_ids)
    slot = np.searchsorted(node_ids, wanted, sorter=order)
    positions = order[np.minimum(slot, node_ids.shape[0] - 1)]
    unknown = node_ids[positions] != wanted
    if unknown.any():
        raise ValueError(
            f"node {int(wanted[unknown][0])} has no entry in the file of groups."
        )
    return positions
