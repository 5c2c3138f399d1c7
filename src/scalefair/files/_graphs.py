"""Graphs in files: matrices in several formats, and lists of edges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair.files._matrices import (
    as_matrix,
    file_format,
    read_dense,
    read_matrix_market,
    read_sparse,
)
from scalefair.files._source import FileError
from scalefair.files._tables import TableFile, as_words
from scalefair.files._text import quote

_Array = NDArray[Any]
# First lines that are taken for a header whatever stands below.
_NAMES = "source target,src dst,from to,fromnodeid tonodeid,node_1 node_2,node1 node2"
_NAMES += ",id_1 id_2,id1 id2,u v,i j"
_HEADERS = [(first, second) for first, second in map(str.split, _NAMES.split(","))]
_MATRICES = {"npz": read_sparse, "mtx": read_matrix_market, "npy": read_dense}
# Weights of two mentions of an edge that differ by less are the same.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Graph:
    """A graph in a file `path`, as `read_graph` returns it.

    Attributes
    ----------
    matrix : csr_array of shape (n, n)
        Finite weights; of a list of edges symmetric.
    ids : ndarray of shape (n,)
        int64, or str if an id is not an integer.
    named : bool
        Whether ids are those of a list of edges; else row numbers from 0.
    notes : list of str
        What was assumed.

    Examples
    --------
    See `read_graph`.
    """

    path: Path
    matrix: sparse.csr_array
    ids: NDArray[Any]
    named: bool
    notes: list[str]
    unit: ClassVar[str] = "node"

    @property
    def ordered(self) -> bool:
        """Whether the order of the nodes means something: not in a list of edges."""
        return not self.named

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, self-loops among them."""
        n_loops = int((self.matrix.diagonal() != 0).sum())
        return (int(self.matrix.nnz) - n_loops) // 2 + n_loops


def read_graph(path: str | Path, **options: Any) -> Graph:
    r"""Read an undirected graph from a file, whatever its name.

    Parameters
    ----------
    path : str or Path
        A matrix (npz, npy, Matrix Market, or a square table), or lines ``source target
        [weight]``; text may be packed, and ``-`` is the standard input. An edge in
        both directions counts once; nodes are numbered as the list first names them.
    **options
        ``header``, ``delimiter``, ``skip_lines`` and ``encoding`` of text, found out
        by default.

    Returns
    -------
    Graph
        Its matrix and the ids of its nodes.

    Raises
    ------
    FileError
        If the file cannot be read, or weights are wrong or contradict each other.

    Examples
    --------
    >>> import tempfile
    >>> from scalefair.files import read_graph
    >>> with tempfile.NamedTemporaryFile("w+") as file:
    ...     print("ann bob\nbob ann\nann cid", file=file, flush=True)
    ...     graph = read_graph(file.name)
    >>> graph.ids.tolist(), graph.n_edges
    (['ann', 'bob', 'cid'], 2)
    """
    path = Path(path)
    kind = file_format(path)
    if kind in ("text", "parquet"):
        table = TableFile(path, known_headers=_HEADERS, of_edges=True, **options)
        if len(table.names) in (2, 3):
            return _read_edges(table)
        matrix, notes = _read_square(table), table.notes
    else:
        matrix, notes = _square(path, _MATRICES[kind](path)), []
    # Negative weights and symmetry are for the estimator to judge.
    ids = np.arange(matrix.shape[0], dtype=np.int64)
    return Graph(path, matrix, ids, named=False, notes=notes)


def read_new_nodes(path: Path, ids: _Array, named: bool, **options: Any) -> Graph:
    """Read weights of new nodes, in rows, to those of a graph that has `ids`.

    A matrix; or, if the graph was a list of edges, one in which new ids are new nodes.
    """
    kind, n = file_format(path), len(ids)
    if kind in _MATRICES:
        matrix = as_matrix(path, _MATRICES[kind](path), "weight")
        if matrix.shape[1] != n:
            raise FileError(
                f"{path}: has shape {matrix.shape}; needed are a row for each new node "
                f"and a column for each of the {n} nodes of the fit, in their order."
            )
        return Graph(path, matrix, np.arange(matrix.shape[0]), named=False, notes=[])
    table = TableFile(path, known_headers=_HEADERS, of_edges=True, **options)
    if not named or len(table.names) not in (2, 3):
        wanted = f"a matrix (npz, npy, mtx) of new nodes x {n} nodes of the fit"
        wanted += ", or lines `source target [weight]`" * named
        raise FileError(f"{path}: is text of {len(table.names)} columns, not {wanted}.")
    graph = _read_edges(table, as_spelled=ids.dtype.kind not in "iu")
    at = pandas.Index(ids.astype(np.str_)).get_indexer(graph.ids.astype(np.str_))
    new, old = np.flatnonzero(at < 0), np.flatnonzero(at >= 0)
    if not (new.size and old.size):
        raise FileError(
            f"{path}: has {new.size} new nodes and {old.size} of the {n} nodes of the "
            "fit; needed are edges between both. Check the ids."
        )
    shape = at.size, n
    place = sparse.csr_array((np.ones(old.size), (old, at[old])), shape=shape)
    matrix = sparse.csr_array(graph.matrix[new] @ place)
    if ignored := graph.n_edges - matrix.nnz:
        told = f"{ignored} edge(s) among new nodes, or among those of the fit,"
        graph.notes.append(f"{path}: {told} were ignored.")
    return replace(graph, matrix=matrix, ids=graph.ids[new])


def _square(path: Path, X: Any) -> sparse.csr_array:
    if sparse.issparse(X):
        return X  # the estimator says what is wrong with its shape
    if X.ndim != 2 or X.shape[0] != X.shape[1]:
        raise FileError(
            f"{path}: the matrix of a graph is square, found shape {X.shape}. For rows "
            "of features choose an --affinity, such as nearest_neighbors."
        )
    return as_matrix(path, X, "weight")


def _read_square(table: TableFile) -> sparse.csr_array:
    """Take a table with as many rows as columns for the matrix of a graph."""
    path, n, frame = table.path, len(table.names), table.read()
    words = [c for c in frame if not pandas.api.types.is_numeric_dtype(frame[c])]
    if len(frame) != n or words:
        found = f"column {words[0]} of words" if words else f"{len(frame)} rows"
        raise FileError(
            f"{path}: expected `source target [weight]`, or a square matrix; found {n} "
            f"columns and {found}. For rows of features choose an --affinity."
        )
    table.notes.append(f"{path}: was taken for a matrix of weights of {n} nodes.")
    return _square(path, frame.to_numpy(np.float64))


def _read_edges(table: TableFile, as_spelled: bool = False) -> Graph:
    """Read edges; ids are integers if all are, else words as they are spelled."""
    ends, weights = table.names[:2], table.names[2:]
    table.ids = ends
    frame = table.frame(table.names, ends if as_spelled else ())
    if any(frame[end].dtype.kind not in "iu" for end in ends):
        if not as_spelled:
            frame = table.frame(table.names, ends)
        for end in ends:
            frame[end] = as_words(frame[end], [""], spelled=True)
    missing = np.argwhere(frame[ends].isna())
    if missing.size:
        row, end = missing[0].tolist()
        raise FileError(f"{table.where(row, ends[end])}: a node id is empty.")
    codes, ids = pandas.factorize(frame[ends].to_numpy().ravel())
    if ids.dtype.kind not in "iu":
        ids = ids.astype(np.str_)
    source, target = codes.reshape(-1, 2).T
    weight = np.ones(len(frame))
    if weights:
        given = frame[weights[0]]
        weight = pandas.to_numeric(given, errors="coerce").to_numpy(np.float64)
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if bad.size:
            raise FileError(
                f"{table.where(int(bad[0]), weights[0])}: the weight is "
                f"{quote(str(given.iloc[bad[0]]))}; weights are finite numbers >= 0. "
                "If the line is a header, pass --header."
            )
    kept = _distinct(table, ids, source, target, weight)
    source, target, weight = source[kept], target[kept], weight[kept]
    both = source != target
    rows = np.concatenate([source, target[both]])
    columns = np.concatenate([target, source[both]])
    entries = np.concatenate([weight, weight[both]])
    matrix = sparse.csr_array((entries, (rows, columns)), shape=(len(ids), len(ids)))
    matrix.eliminate_zeros()
    return Graph(table.path, matrix, ids, named=True, notes=table.notes)


def _distinct(
    table: TableFile, ids: _Array, source: _Array, target: _Array, weight: _Array
) -> _Array:
    """Return the first mention of each edge; later ones must have its weight."""
    low, high = np.minimum(source, target), np.maximum(source, target)
    codes, edges = pandas.factorize(low.astype(np.int64) * len(ids) + high)
    kept = np.full(len(edges), len(codes), dtype=np.int64)
    np.minimum.at(kept, codes, np.arange(len(codes)))
    stated = weight[kept][codes]
    differs = np.flatnonzero(np.abs(weight - stated) > _ROUNDING * stated)
    if differs.size:
        j = int(differs[0])
        i = int(kept[codes[j]])
        raise FileError(
            f"{table.path}:{table.line(j)}: edge {ids[source[i]]} - {ids[target[i]]} "
            f"has weight {weight[j]:.10g} here and {weight[i]:.10g} on line "
            f"{table.line(i)}. An undirected edge has one weight: correct the "
            "lines, or add them up."
        )
    return kept
