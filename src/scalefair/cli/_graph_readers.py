"""Choose the reader of a graph file by its extension."""

from __future__ import annotations

from pathlib import Path

from scalefair.cli._errors import Failure
from scalefair.cli._graph import Graph

__all__ = ["read_graph"]

_EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges")


def read_graph(path: Path, *, header: bool | None = None) -> Graph:
    """Read a graph in any of the formats of the command line.

    Parameters
    ----------
    path : Path
        ``.npz`` (SciPy), ``.mtx`` (Matrix Market), or an edge list in ``.csv``,
        ``.tsv``, ``.txt`` or ``.edges``; all but ``.npz`` also with ``.gz`` added.
    header : bool or None, default=None
        Whether an edge list starts with a header, see
        `_edge_list.read_edge_list`. No other format has one.

    Returns
    -------
    Graph

    Raises
    ------
    Failure
        If the extension is unknown or the file cannot be read.
    """
    name = path.name.lower()
    stem = name.removesuffix(".gz")
    if name.endswith(".npz"):
        from scalefair.cli._matrix_file import read_npz

        return read_npz(path)
    if stem.endswith(".mtx"):
        from scalefair.cli._matrix_file import read_matrix_market

        return read_matrix_market(path)
    if stem.endswith(_EDGE_LISTS):
        from scalefair.cli._edge_list import read_edge_list

        return read_edge_list(path, header=header)
    if not path.exists():
        raise Failure(f"{path}: no such file. Check the path.")
    if stem.endswith(".npy"):
        raise Failure(
            f"{path}: a dense array is read as rows of features only: choose an "
            "--affinity for them, such as nearest_neighbors. Save the matrix of a "
            "graph with scipy.sparse.save_npz."
        )
    raise Failure(
        f"{path}: unknown extension. Use .npz (scipy.sparse.save_npz), .mtx or "
        ".mtx.gz (Matrix Market), or an edge list named .csv, .tsv, .txt or .edges, "
        "with .gz if compressed."
    )
