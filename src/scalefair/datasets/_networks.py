"""Loaders of networks of friends."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from scalefair.datasets._fetch import PUBLISHED, Files, Ints, fetcher
from scalefair.files import FileError, reading


@fetcher("lastfm-asia")
def fetch_lastfm_asia(files: Files) -> Bunch:
    """Load the LastFM Asia friendships, with the users' countries as groups.

    Parameters
    ----------
    %(download)s

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (5713, 5713), symmetric, ones
        - sensitive_features : ndarray of int, shape (5713,), country
        - node_ids : ndarray of int, shape (5713,), id in the original graph
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    users = files.table("lastfm_clean_countries.csv", header=0, names="user country")
    edges = files.table("lastfm_clean_edges.csv", header=0, names="source target")
    node_ids = users.integers("user")
    return Bunch(
        graph=symmetric_graph(
            edges.integers("source"), edges.integers("target"), node_ids.size
        ),
        sensitive_features=users.integers("country"),
        node_ids=node_ids,
    )


@fetcher("facebooknet")
def fetch_facebooknet(files: Files) -> Bunch:
    """Load the Facebook friendships of a high school, with gender as group.

    Parameters
    ----------
    %(download)s

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (322, 322), symmetric, ones
        - sensitive_features : ndarray of int, shape (322,), 0 female, 1 male
        - node_ids : ndarray of int, shape (322,), number of the student
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    students = files.table("group_clean.csv", header=0, names="student gender")
    pairs = files.table("friendship_clean.csv", header=0, names="source target weight")
    node_ids = students.integers("student")
    friends = pairs.integers("weight") == 1
    source, target = (
        _positions(node_ids, pairs.integers(end)[friends])
        for end in ("source", "target")
    )
    return Bunch(
        graph=symmetric_graph(source, target, node_ids.size),
        sensitive_features=students.integers("gender"),
        node_ids=node_ids,
    )


@fetcher("deezer-europe")
def fetch_deezer_europe(files: Files) -> Bunch:
    """Load the mutual followers of Deezer users in Europe, with gender as group.

    Parameters
    ----------
    %(download)s

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (28281, 28281), symmetric, ones
        - sensitive_features : ndarray of int, shape (28281,), gender, 0 or 1
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    users = files.table("deezer_gendered_target.csv")
    edges = files.table("deezer_gendered_edges.csv")
    gender = users.integers("target")
    # The ids are 0 to n - 1, but perhaps not in order: rows[i] is the row of user i.
    rows = _positions(users.integers("id"), np.arange(gender.size))
    return Bunch(
        graph=symmetric_graph(
            edges.integers("node_1"), edges.integers("node_2"), gender.size
        ),
        sensitive_features=gender[rows],
    )


@fetcher("pokec-region1")
def fetch_pokec(files: Files) -> Bunch:
    """Load friendships of one region of the network Pokec, with age as group.

    Parameters
    ----------
    %(download)s

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (67796, 67796), symmetric, ones
        - sensitive_features : ndarray of int, shape (67796,), age band, 1 to 4
        - target : ndarray of int, shape (67796,), working field, -1 for none
        - DESCR, source, licence : str

    %(raises)s

    %(notes)s

    %(examples)s
    """
    ages = files.table("Pokec_feature_reg1.csv", header=0, names="age").integers("age")
    fields = files.table("Pokec_label_reg1.csv", header=0, names="field")
    work = fields.integers("field")
    path = files.path("sparse_Pokec_graph_reg_1.npz")
    with reading(path, PUBLISHED), path.open("rb") as file:
        entries = sparse.load_npz(file).tocoo()
    if not entries.shape[0] == ages.size == work.size:
        raise FileError(
            f"{path}: {entries.shape[0]} nodes, but the files beside it have "
            f"{ages.size} ages and {work.size} working fields. Delete them to download "
            "them again."
        )
    return Bunch(
        graph=symmetric_graph(entries.row, entries.col, ages.size),
        sensitive_features=ages,
        target=work,
    )


def _positions(node_ids: Ints, queries: Ints) -> Ints:
    """Return the position in `node_ids` of each id of the queries."""
    position = {node: i for i, node in enumerate(node_ids.tolist())}
    unknown = [node for node in queries.tolist() if node not in position]
    if unknown:
        raise ValueError(f"node {unknown[0]} has no entry in the file of groups.")
    return np.array([position[node] for node in queries.tolist()], np.int64)


def symmetric_graph(
    source: NDArray[np.integer], target: NDArray[np.integer], n_nodes: int
) -> sparse.csr_array:
    """Symmetric canonical 0/1 adjacency, without loops, of edges in any direction."""
    for nodes in (source, target):
        is_unknown = (nodes < 0) | (nodes >= n_nodes)
        if is_unknown.any():
            raise ValueError(
                f"an edge names node {nodes[is_unknown][0]}, but the nodes are "
                f"numbered 0 to {n_nodes - 1}."
            )
    # Each edge in both directions, without loops.
    is_no_loop = source != target
    index_type = sparse.get_index_dtype(maxval=max(n_nodes, 2 * source.size))
    ends = [nodes[is_no_loop].astype(index_type) for nodes in (source, target)]
    entries = np.ones(2 * ends[0].size), np.hstack([ends, ends[::-1]])
    graph = sparse.coo_array(entries, shape=(n_nodes, n_nodes)).tocsr()
    graph.data.fill(1.0)  # edges that are listed twice have been added
    return graph
