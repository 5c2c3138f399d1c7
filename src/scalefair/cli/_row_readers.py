"""Choose the reader of a file of rows by its extension; read arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from scalefair.cli._block_files import refuse_not_finite
from scalefair.cli._errors import Failure
from scalefair.cli._matrix_file import read_sparse
from scalefair.cli._npy_file import open_array
from scalefair.cli._rows import Rows

__all__ = ["as_rows", "open_npy", "read_rows"]

_TABLES = (".csv", ".tsv", ".txt")
_GRAPHS = (".mtx", ".edges")


def read_rows(
    path: Path,
    *,
    affinity: str,
    header: bool | None = None,
    id_column: str | None = None,
) -> Rows:
    """Read rows of features in any of the formats of the command line.

    Parameters
    ----------
    path : Path
        ``.npy`` (two-dimensional), ``.npz`` (SciPy, sparse), or a table in
        ``.csv``, ``.tsv`` or ``.txt``, also with ``.gz`` added.
    affinity : str
        Affinity to be computed from the rows: only ``"nearest_neighbors"`` takes
        sparse ones.
    header, id_column
        See `_row_table.read_row_table`; no other format has them.

    Returns
    -------
    Rows

    Raises
    ------
    Failure
        If the extension is unknown, the file cannot be read, or it does not hold
        rows of finite numbers.
    click.UsageError
        If `id_column` is given for an array.
    """
    name = path.name.lower()
    stem = name.removesuffix(".gz")
    if stem.endswith(_TABLES):
        from scalefair.cli._row_table import read_row_table

        return read_row_table(path, header=header, id_column=id_column)
    if id_column is not None and name.endswith((".npy", ".npz")):
        raise click.UsageError(
            "--id-column applies to tables of text only; rows of an array are numbered "
            "from 0."
        )
    if name.endswith(".npy"):
        X = open_npy(path)
        refuse_not_finite(path, X)
        return as_rows(path, X)
    if name.endswith(".npz"):
        if affinity != "nearest_neighbors":
            raise Failure(
                f"{path}: --affinity {affinity} takes dense rows, a .npy file or a "
                "table of text. Sparse rows (.npz) go with --affinity "
                "nearest_neighbors, the matrix of a graph with --affinity precomputed."
            )
        return as_rows(path, read_sparse(path, "value"))
    if not path.exists():
        raise Failure(f"{path}: no such file. Check the path.")
    if stem.endswith(_GRAPHS):
        raise Failure(
            f"{path}: holds a graph, but --affinity {affinity} takes rows of features. "
            "For a graph leave --affinity out."
        )
    raise Failure(
        f"{path}: unknown extension for rows of features. Use .npy (numpy.save), .npz "
        "(scipy.sparse.save_npz), or a table named .csv, .tsv or .txt, with .gz if "
        "compressed."
    )


def open_npy(path: Path) -> np.ndarray:
    """Read a two-dimensional array of real numbers.

    Raises
    ------
    Failure
        If the file cannot be read or holds another kind of array.
    """
    X = open_array(path)
    if X.ndim != 2:
        remedy = " Reshape it to (-1, 1) for a single feature." if X.ndim == 1 else ""
        raise Failure(
            f"{path}: rows of features are a two-dimensional array, found shape "
            f"{X.shape}.{remedy}"
        )
    if X.dtype.kind not in "buif":
        raise Failure(f"{path}: features must be real numbers, found dtype {X.dtype}.")
    return X


def as_rows(path: Path, X: Any) -> Rows:
    """Rows of an array, numbered from 0; an empty one is refused."""
    if 0 in X.shape:
        raise Failure(f"{path}: is empty: {X.shape[0]} rows and {X.shape[1]} features.")
    return Rows(path, X, np.arange(X.shape[0], dtype=np.int64), named=False)
