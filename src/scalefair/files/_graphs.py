"""Graphs in files: matrices in several formats, lists of edges, GML and its like.

An edge of a list is undirected: it may be listed once or in both directions, and then
has one weight, or the options say which.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import add_directions
from scalefair.files._matrices import (
    GRAPH_LANGUAGES,
    as_matrix,
    file_format,
    read_dense,
    read_matrix_market,
    read_metis,
    read_sparse,
)
from scalefair.files._source import FileError, one_line, reading
from scalefair.files._tables import TableFile, as_strings
from scalefair.files._text import FileOptions, find_ends, open_bytes, quote
from scalefair.files._values import ID_NAMES, parse_ids

_MATRIX_READERS: dict[str, Callable[[Path], Any]] = {
    "npz": read_sparse,
    "mtx": read_matrix_market,
    "npy": read_dense,
    "METIS": read_metis,
}
# Names of a third column that holds times, not weights.
_TIME_NAMES = {"time", "times", "timestamp", "date", "datetime", "unixtime", "ts"}


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
        Whether the ids are those of a list of edges; else they are row numbers.
    notes : list of str
        What was assumed.
    nodes : DataFrame or None
        Attributes of the nodes, as strings, of a file in GML, GraphML or Pajek.

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
        """Whether values without ids can go by the order of the nodes."""
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
        A matrix (npz, npy, Matrix Market, METIS, or a square table, which may name its
        nodes in the header and the first column), or lines ``source target [weight]``;
        text may be packed, and ``-`` is the standard input. An edge in both directions
        counts once; nodes are numbered as the list first names them.
        GML, GraphML, Pajek, and lines ``source target {'weight': 4}``, whose nodes go
        by their labels or ids, need NetworkX.
    directed : {"error", "sum", "max"}, default="error"
        What becomes of several weights of an edge, or of its two directions: an error
        where they differ, their sum, or the largest.
    weights : bool or None, default=None
        Whether an edge has the weight in the file, or 1. None: as in the file, but a
        column that looks like times is an error.
    **options
        ``weight_column``, by default the third; ``header``, ``delimiter``,
        ``skip_lines`` and ``encoding`` of text, found out by default.

    Returns
    -------
    Graph
        Its matrix and the ids of its nodes.

    Raises
    ------
    FileError
        If the file cannot be read, weights are wrong or contradict each other, or
        NetworkX is needed and not installed.
    ValueError
        If `directed` is none of these.

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
    if directed not in ("error", "sum", "max"):
        raise ValueError(f'directed must be "error", "sum" or "max", got {directed!r}.')
    file_options = FileOptions(directed=directed, weights=weights, **options)
    return load_graph(Path(path), file_options)


def load_graph(path: Path, options: FileOptions) -> Graph:
    """Read a graph: see `read_graph`."""
    # 1. Languages for graphs; else a matrix in a format of its own, edges as text, or a
    #    matrix as text, which names its nodes if its first column is its header.
    format_name = file_format(path)
    if format_name in GRAPH_LANGUAGES:
        return _read_language(path, format_name, options)
    notes: list[str] = []
    names: list[str] = []  # of the nodes of a matrix
    if format_name in _MATRIX_READERS:
        matrix = _check_square(path, _MATRIX_READERS[format_name](path))
        if format_name == "METIS":
            notes.append(
                f"{path}: was taken for a graph in METIS format: nodes are numbered "
                "from 0, and weights of nodes are not read."
            )
    else:
        table = TableFile(path, options, of_edges=True)
        if options.weight_column or len(edge_columns(table.names)) in (2, 3):
            return _read_edges(table, options)
        names = table.names[1:] if table.is_adjacency else []
        matrix = _check_square(path, table.read(names or None).to_numpy())
        notes, n_nodes = table.notes, matrix.shape[0]
        notes.append(f"{path}: was taken for a matrix of weights of {n_nodes} nodes.")
    # 2. Weights, and directions, of a matrix.
    if options.weights is False:
        matrix = sparse.csr_array(matrix != 0).astype(np.float64)
    # Without an option for directions the estimator checks the symmetry.
    if options.directed != "error" and abs(matrix - matrix.T).max() > 0:
        is_sum = options.directed == "sum"
        matrix = add_directions(matrix) if is_sum else matrix.maximum(matrix.T)
    ids = parse_ids(names) if names else np.arange(matrix.shape[0], dtype=np.int64)
    return Graph(path, matrix, ids, named=bool(names), notes=notes)


def read_new_nodes(
    path: Path, ids: NDArray[Any], named: bool, options: FileOptions
) -> Graph:
    """Read weights of new nodes, in rows, to those of a graph that has `ids`.

    The file is a matrix or, if the graph was a list of edges, another such list.
    """
    format_name, n_nodes = file_format(path), len(ids)
    if format_name in _MATRIX_READERS:
        matrix = as_matrix(path, _MATRIX_READERS[format_name](path), "weight")
        if matrix.shape[1] != n_nodes:
            raise FileError(
                f"{path}: has shape {matrix.shape}; needed are a row for each new node "
                f"and a column for each of the {n_nodes} nodes of the fit, in their "
                "order."
            )
        return Graph(path, matrix, np.arange(matrix.shape[0]), named=False, notes=[])
    table = TableFile(path, options, of_edges=True)
    is_list = options.weight_column or len(edge_columns(table.names)) in (2, 3)
    if not (named and is_list):
        formats = f"a matrix (npz, npy, mtx) of new nodes x {n_nodes} nodes of the fit"
        if named:
            formats += ", or lines `source target [weight]`"
        raise FileError(
            f"{path}: is text of {len(table.names)} columns, not {formats}."
        )
    # 1. Which nodes of the list are new, and which are those of the graph. Ids are
    #    compared as strings: those of one side may all be integers.
    verbatim = ids.dtype.kind not in "iu"
    graph = _read_edges(table, options, verbatim)
    positions = pandas.Index(ids.astype(np.str_)).get_indexer(graph.ids.astype(np.str_))
    new, old = np.flatnonzero(positions < 0), np.flatnonzero(positions >= 0)
    if not (new.size and old.size):
        raise FileError(
            f"{path}: has {new.size} new nodes and {old.size} of the {n_nodes} nodes "
            "of the fit; needed are edges between both. Check the ids."
        )
    # 2. Columns of the file's nodes become columns of the graph's nodes: `selection`
    #    has a 1 where node i of the file is node positions[i] of the graph. The product
    #    has the weights of new nodes, in rows, to nodes of the graph, in columns.
    shape = positions.size, n_nodes
    selection = sparse.csr_array((np.ones(old.size), (old, positions[old])), shape)
    matrix = sparse.csr_array(graph.matrix[new] @ selection)
    if n_ignored := graph.n_edges - matrix.nnz:
        edges = f"{n_ignored} edge(s) among new nodes, or among those of the fit,"
        graph.notes.append(f"{path}: {edges} were ignored.")
    return replace(graph, matrix=matrix, ids=graph.ids[new])


def _check_square(path: Path, X: Any) -> sparse.csr_array:
    """Return the matrix of a graph, or say what it should be.

    Rows of features, or strings, are no graph.
    """
    if X.ndim != 2 or X.shape[0] != X.shape[1] or X.dtype == object:
        with_words = " with words" if X.dtype == object else ""
        raise FileError(
            f"{path}: expected `source target [weight]`, or a square matrix; found "
            f"shape {X.shape}{with_words}. For rows of features, not of mtx but npz, "
            "choose an --affinity, such as nearest_neighbors; for edges with more "
            "columns pass --weight-column; name a list of neighbours .adjlist."
        )
    return X if sparse.issparse(X) else as_matrix(path, X, "weight")


def edge_columns(names: Sequence[str]) -> list[str]:
    """Return the columns of edges, ends first, without indices and ids before these.

    A column without a name is an index.
    """
    columns = [name for name in names if name]
    start = find_ends(columns) or 0
    before = [name for name in columns[:start] if name.lower() not in ID_NAMES]
    return [*columns[start : start + 2], *before, *columns[start + 2 :]]


def _read_edges(
    table: TableFile, options: FileOptions, verbatim: bool = False
) -> Graph:
    """Read edges; ids are integers if all are and not `verbatim`, else strings."""
    # 1. Ids: strings, as they are spelled, unless all are integers.
    names = edge_columns(table.names)
    ends, weight_column = names[:2], names[2:]
    if options.weight_column:
        weight_column = [table.find(options.weight_column, "--weight-column")]
        if weight_column[0] in ends:
            raise FileError(f"{table.path}: --weight-column names an end of the edges.")
    table.id_columns = ends
    columns = [*ends, *weight_column]
    frame = table.read_raw(columns, ends if verbatim else ())
    # Ends beyond 64 bits, or of two types of integers, are strings, too.
    if frame[ends].to_numpy().dtype.kind not in "iu":
        if not verbatim:  # read again: "01" and "1" are different names
            frame = table.read_raw(columns, ends)
        for end in ends:
            frame[end] = as_strings(frame[end], [""], verbatim=True)
    missing = np.argwhere(frame[ends].isna())
    if missing.size:
        row, end = missing[0].tolist()
        raise FileError(f"{table.locate(row, ends[end])}: a node id is empty.")
    is_chosen = options.weights is not None or options.weight_column or table.has_header
    if weight_column and not is_chosen and _are_neighbors(frame):
        raise FileError(
            f"{table.path}: its lines look like nodes with two neighbours each. Name a "
            "list of neighbours .adjlist, or pass --weights if these are weights."
        )
    # 2. Nodes are numbered as the list first names them.
    codes, ids = pandas.factorize(frame[ends].to_numpy().ravel())
    if ids.dtype.kind not in "iu":
        ids = ids.astype(np.str_)
    weights = frame[weight_column[0]] if weight_column else None
    matrix = _adjacency(table.locate, ids, codes.reshape(-1, 2), weights, options)
    return Graph(table.path, matrix, ids, named=True, notes=table.notes)


def _are_neighbors(frame: pandas.DataFrame) -> bool:
    """Return whether lines are a node and two others, in whose lines it is as well.

    A list of neighbours of a ring looks like edges with weights.
    """
    if not frame.iloc[:, 0].is_unique:
        return False
    node, first, second = (frame[name].tolist() for name in frame)
    pairs = {*zip(node, first, strict=True), *zip(node, second, strict=True)}
    is_simple = len(pairs) == 2 * len(node)
    return is_simple and all(a != b and (b, a) in pairs for a, b in pairs)


def are_times(values: pandas.Series) -> bool:
    """Return whether a third column looks like times: by its name or its numbers."""
    numbers = pandas.to_numeric(values, errors="coerce").dropna()
    is_whole = numbers.size > 0 and not (numbers % 1).any()
    # Seconds since 1970: 1e8 is March 1973. Most weights are smaller; by the median a
    # few large ones do no harm.
    is_late = is_whole and bool(numbers.median() > 1e8)
    return str(values.name).lower() in _TIME_NAMES or is_late


def _adjacency(
    locate: Callable[..., str],
    ids: NDArray[Any],
    pairs: NDArray[Any],
    weight_column: pandas.Series | None,
    options: FileOptions,
) -> sparse.csr_array:
    """Return the symmetric matrix of edges, of which some may be listed repeatedly."""
    n_nodes, weights = len(ids), np.ones(len(pairs))
    # 1. Finite weights >= 0, and no times.
    if weight_column is not None and options.weights is not False:
        numbers = pandas.to_numeric(weight_column, errors="coerce")
        weights = numbers.to_numpy(np.float64)
        invalid = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        fault, remedy = "is no finite number >= 0", ", or --header if it is a header"
        if options.weights is None and are_times(weight_column):
            invalid, fault = np.arange(1), "looks like a time, no weight"
            remedy = ", or --weights if weights they are"
        if invalid.size:
            row = int(invalid[0])
            cell = quote(str(weight_column.iloc[row]))
            raise FileError(
                f"{locate(row, weight_column.name)}: {cell} {fault}. Pass --no-weights "
                f"to leave such a column out{remedy}; name a list of neighbours "
                ".adjlist."
            )
    # 2. The weights of each edge. Both directions have the number i n + j, i <= j:
    #    `edges` are the distinct numbers in the order of the list, and `codes` say
    #    which of these each line has.
    codes, edges = pandas.factorize(np.sort(pairs, axis=1) @ [n_nodes, 1])
    by_edge = pandas.Series(weights).groupby(codes)
    first_weights = by_edge.transform("first").to_numpy()
    # Each weight against the first one of its edge: both directions may be printed with
    # different rounding.
    difference = np.abs(weights - first_weights)
    conflicts = np.flatnonzero(difference > 1e-8 * first_weights)
    if conflicts.size and options.directed == "error":
        j = int(conflicts[0])
        i = int(np.argmax(codes == codes[j]))
        source, target = ids[pairs[i]]
        raise FileError(
            f"{locate(j)}: edge {source} - {target} has weight {weights[j]:.10g} here "
            f"and {weights[i]:.10g} at {locate(i)}. An undirected edge has one: pass "
            "--directed sum to add them up, --directed max for the largest, or correct "
            "the file."
        )
    # 3. The sum or the largest of several weights, in both directions.
    merge = "first" if options.directed == "error" else options.directed
    entries, positions = by_edge.agg(merge), np.divmod(edges, n_nodes)
    matrix = sparse.csr_array((entries, positions), shape=(n_nodes, n_nodes))
    # Positions are (i, j) with i <= j, the upper triangle: add the lower one.
    matrix = add_directions(matrix)
    matrix.eliminate_zeros()
    return matrix


def _parse_language(path: Path, language: str, encoding: str | None) -> Any:
    """Return the graph of NetworkX in a file of GML and its like."""
    try:
        import networkx
    except ImportError as error:
        raise FileError(
            f"{path}: {language} files need NetworkX: pip install networkx. Or convert "
            "the file to lines `source target [weight]`."
        ) from error
    with reading(path, f"a {language} file"):
        with open_bytes(path) as file:
            text = file.read().decode(encoding or "utf-8-sig")
        try:
            if language == "GML":
                # A file may list edges twice without the word that NetworkX wants;
                # where it has the word a second one does no harm.
                graph_start = r"(?i)\bgraph\s*\["
                text = re.sub(graph_start, r"\g<0> multigraph 1 ", text, count=1)
                return networkx.parse_gml(text, label=None)
            if language == "GraphML":
                return networkx.parse_graphml(text)
            if language == "NetworkX":  # lines end in {'weight': 4}
                delimiter = text[text.index("{") - 1].strip(" ") or None
                G = networkx.MultiGraph()
                networkx.parse_edgelist(text.splitlines(), "#", delimiter, G)
                return G
            if language == "adjlist":
                kind = "multiline_adjlist" if "{" in text else "adjlist"
                parse = getattr(networkx, f"parse_{kind}")
                return parse(iter(text.splitlines()), create_using=networkx.MultiGraph)
            return networkx.parse_pajek(text.splitlines())
        except (networkx.NetworkXException, TypeError) as error:
            raise ValueError(one_line(error)) from error


def _read_language(path: Path, language: str, options: FileOptions) -> Graph:
    """Read GML and its like, and the attributes of nodes, with NetworkX."""
    # 1. Ids of the nodes, numbered in their order, and the edges between these numbers.
    G = _parse_language(path, language, options.encoding)
    index = {node: i for i, node in enumerate(G)}
    edges = [(index[u], index[v], w) for u, v, w in G.edges(data="weight", default=1)]
    if not edges:
        raise FileError(f"{path}: has no edges.")
    # 2. The attributes of the nodes, and their names.
    nodes = pandas.DataFrame([G.nodes[node] for node in G], dtype=object)
    # Some attributes, as `graphics`, are dicts.
    nodes = nodes.map(str, na_action="ignore")
    # Nodes go by their labels, as in NetworkX, if each has one of its own.
    labels = as_strings(nodes.get("label", pandas.Series([None])), [""], verbatim=True)
    has_labels = labels.is_unique and not labels.hasnans
    ids = parse_ids(labels if has_labels else map(str, G))
    nodes = nodes.apply(as_strings)
    # 3. The matrix of the edges.
    frame = pandas.DataFrame(edges, columns=["source", "target", "weight"])
    pairs = frame[["source", "target"]].to_numpy()

    def locate(row: int, *_: Any) -> str:
        """Name an edge for messages: the parser keeps no lines."""
        return f"{path}: edge {row + 1}"

    matrix = _adjacency(locate, ids, pairs, frame["weight"], options)
    return Graph(path, matrix, ids, named=True, notes=[], nodes=nodes)
