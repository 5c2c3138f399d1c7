"""Graphs in files: matrices in several formats, and lists of edges."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import add_directions
from scalefair.files._matrices import (
    as_matrix,
    file_format,
    read_dense,
    read_matrix_market,
    read_sparse,
)
from scalefair.files._source import FileError, one_line, reading
from scalefair.files._tables import TableFile, as_words
from scalefair.files._text import open_bytes, quote

_Array = NDArray[Any]
_MATRICES = {"npz": read_sparse, "mtx": read_matrix_market, "npy": read_dense}
# Weights of two mentions of an edge that differ by less are the same.
_ROUNDING = 1e-8
# Names of a third column that holds no weights; and seconds since 1970 in March 1973:
# most weights are below, and times of events that are in files above.
_TIMES = {"time", "times", "timestamp", "date", "datetime", "unixtime", "ts"}
_FIRST_TIME = 1e8
# What a file in a graph's own language starts with, after comments.
_LANGUAGE = re.compile(
    rb"(\xef\xbb\xbf)?(\s*([#%]|(creator|version|comment)\b).*\n)*\s*"
    rb"(?:(?P<GML>graph\s*\[)|(?P<Pajek>\*(vertices|network)\b)|"
    rb"(?P<GraphML><(\?xml|!doctype|graphml)\b))",
    re.IGNORECASE,
)


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
    nodes : DataFrame or None
        Attributes of the nodes that a file in GML, GraphML or Pajek has, as words.

    Examples
    --------
    See `read_graph`.
    """

    path: Path
    matrix: sparse.csr_array
    ids: NDArray[Any]
    named: bool
    notes: list[str]
    nodes: pandas.DataFrame | None = None
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


def read_graph(
    path: str | Path,
    *,
    directed: str = "error",
    weights: bool | None = None,
    **options: Any,
) -> Graph:
    r"""Read an undirected graph from a file, whatever its name.

    Parameters
    ----------
    path : str or Path
        A matrix (npz, npy, Matrix Market, or a square table), or lines ``source target
        [weight]``; text may be packed, and ``-`` is the standard input. An edge in
        both directions counts once; nodes are numbered as the list first names them.
        GML, GraphML and Pajek, whose nodes go by their ids, need NetworkX.
    directed : {"error", "sum", "max"}, default="error"
        What becomes of several weights of an edge, or of its two directions: an error
        where they differ, their sum, or the largest.
    weights : bool or None, default=None
        Whether an edge has the weight in the file, or 1. None: as in the file, but a
        column that looks like times is an error.
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
        If the file cannot be read, weights are wrong or contradict each other, or
        NetworkX is needed and not installed.

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
    how: dict[str, Any] = {"directed": directed, "weights": weights}
    kind = file_format(path)
    with reading(path, "a file"), open_bytes(path) as file:
        start = _LANGUAGE.match(file.read(4096))
    if start:
        language, encoding = str(start.lastgroup), options.get("encoding")
        return _read_language(path, language, encoding or "utf-8-sig", **how)
    if kind in ("text", "parquet"):
        table = TableFile(path, of_edges=True, **options)
        if len(table.names) in (2, 3):
            return _read_edges(table, **how)
        matrix, notes = _square(path, table.read().to_numpy()), table.notes
        n_nodes = matrix.shape[0]
        notes.append(f"{path}: was taken for a matrix of weights of {n_nodes} nodes.")
    else:
        matrix, notes = _square(path, _MATRICES[kind](path)), []
    if weights is False:
        matrix = sparse.csr_array(matrix != 0).astype(np.float64)
    if directed != "error" and abs(matrix - matrix.T).max() > 0:
        largest = directed == "max"
        matrix = matrix.maximum(matrix.T) if largest else add_directions(matrix)
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
    how = {k: options.pop(k) for k in ("directed", "weights") if k in options}
    table = TableFile(path, of_edges=True, **options)
    if not named or len(table.names) not in (2, 3):
        wanted = f"a matrix (npz, npy, mtx) of new nodes x {n} nodes of the fit"
        wanted += ", or lines `source target [weight]`" * named
        raise FileError(f"{path}: is text of {len(table.names)} columns, not {wanted}.")
    graph = _read_edges(table, as_spelled=ids.dtype.kind not in "iu", **how)
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
    """Return the matrix of a graph; rows of features or words are none."""
    if sparse.issparse(X):
        return X  # the estimator says what is wrong with its shape
    if X.ndim != 2 or X.shape[0] != X.shape[1] or X.dtype == object:
        words = " with words" * (X.dtype == object)
        raise FileError(
            f"{path}: expected `source target [weight]`, or a square matrix; found "
            f"shape {X.shape}{words}. For rows of features choose an --affinity, such "
            "as nearest_neighbors."
        )
    return as_matrix(path, X, "weight")


def _read_edges(table: TableFile, as_spelled: bool = False, **how: Any) -> Graph:
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
    pairs, weight = codes.reshape(-1, 2), frame[weights[0]] if weights else None
    matrix = _adjacency(table.where, ids, pairs, weight, **how)
    return Graph(table.path, matrix, ids, named=True, notes=table.notes)


def are_times(values: pandas.Series) -> bool:
    """Whether a third column looks like times: by its name, or most of its numbers."""
    numbers = pandas.to_numeric(values, errors="coerce").dropna()
    is_whole = numbers.size > 0 and not (numbers % 1).any()
    is_late = is_whole and bool(numbers.median() > _FIRST_TIME)
    return str(values.name).lower() in _TIMES or is_late


def _adjacency(
    where: Callable[..., str],
    ids: _Array,
    pairs: _Array,
    given: pandas.Series | None,
    directed: str = "error",
    weights: bool | None = None,
) -> sparse.csr_array:
    """Symmetric matrix of pairs of nodes, which may come more than once."""
    weight = np.ones(len(pairs))
    if given is not None and weights is not False:
        weight = pandas.to_numeric(given, errors="coerce").to_numpy(np.float64)
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        fault, remedy = "is no finite number >= 0", ", or --header if it is a header"
        if weights is None and are_times(given):
            bad, fault = np.arange(1), "looks like a time, no weight"
            remedy = ", or --weights if weights they are"
        if bad.size:
            raise FileError(
                f"{where(int(bad[0]), given.name)}: {quote(str(given.iloc[bad[0]]))} "
                f"{fault}. Pass --no-weights to leave such a column out{remedy}."
            )
    codes, edges = pandas.factorize(np.sort(pairs, axis=1) @ [len(ids), 1])
    mentions = pandas.Series(weight).groupby(codes)
    stated = mentions.transform("first").to_numpy()
    differs = np.flatnonzero(np.abs(weight - stated) > _ROUNDING * stated)
    if differs.size and directed == "error":
        j = int(differs[0])
        i = int(np.argmax(codes == codes[j]))
        source, target = ids[pairs[i]]
        raise FileError(
            f"{where(j)}: edge {source} - {target} has weight {weight[j]:.10g} here "
            f"and {weight[i]:.10g} at {where(i)}. An undirected edge has one: pass "
            "--directed sum to add them up, --directed max for the largest, or correct "
            "the file."
        )
    entries = mentions.agg("first" if directed == "error" else directed)
    at, shape = np.divmod(edges, len(ids)), (len(ids), len(ids))
    matrix = add_directions(sparse.csr_array((entries, at), shape=shape))
    matrix.eliminate_zeros()
    return matrix


def _read_language(path: Path, language: str, encoding: str, **how: Any) -> Graph:
    """Read GML, GraphML or Pajek, and the attributes of nodes, with NetworkX."""
    try:
        import networkx
    except ImportError as error:
        raise FileError(
            f"{path}: {language} files need NetworkX: pip install networkx. Or convert "
            "the file to lines `source target [weight]`."
        ) from error
    with reading(path, f"a {language} file"):
        with open_bytes(path) as file:
            text = file.read().decode(encoding)
        try:
            if language == "GML":
                # Some do not say that they have edges twice; a second word on it is no
                # fault.
                text = re.sub(
                    r"(?i)\bgraph\s*\[", r"\g<0> multigraph 1 ", text, count=1
                )
                G = networkx.parse_gml(text, label=None)
            else:
                parse = getattr(networkx, f"parse_{language.lower()}")
                G = parse(text if language == "GraphML" else text.splitlines())
        except networkx.NetworkXException as error:
            raise ValueError(one_line(error)) from error
    index = {node: i for i, node in enumerate(G)}
    edges = [(index[u], index[v], w) for u, v, w in G.edges(data="weight", default=1)]
    if not edges:
        raise FileError(f"{path}: has no edges.")
    ids = np.array([str(node) for node in G])
    if all(re.fullmatch(r"[+-]?\d{1,18}", node) for node in ids):
        ids = ids.astype(np.int64)
    frame = pandas.DataFrame(edges, columns=["source", "target", "weight"])
    pairs = frame[["source", "target"]].to_numpy()

    def where(row: int, *_: Any) -> str:
        return f"{path}: edge {row + 1}"

    matrix = _adjacency(where, ids, pairs, frame["weight"], **how)
    nodes = pandas.DataFrame([G.nodes[node] for node in G], dtype=object)
    return Graph(path, matrix, ids, named=True, notes=[], nodes=nodes.apply(as_words))
