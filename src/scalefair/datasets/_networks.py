"""Loaders of networks of people: LastFM Asia, FacebookNet, Deezer Europe and Pokec."""

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from scalefair.datasets._common import Ints, symmetric_graph
from scalefair.datasets._fetch import PUBLISHED, Files, fetcher
from scalefair.datasets._sources import DEEZER, FACEBOOKNET, LASTFM, POKEC
from scalefair.files import FileError, reading


@fetcher(LASTFM)
def fetch_lastfm_asia(files: Files) -> Bunch:
    """Load the LastFM Asia friendships, with the users' countries as groups.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (5713, 5713), symmetric, ones
        - sensitive_features : ndarray of int, shape (5713,), country
        - node_ids : ndarray of int, shape (5713,), id in the original graph
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


@fetcher(FACEBOOKNET)
def fetch_facebooknet(files: Files) -> Bunch:
    """Load the Facebook friendships of a high school, with gender as group.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (322, 322), symmetric, ones
        - sensitive_features : ndarray of int, shape (322,), 0 female, 1 male
        - node_ids : ndarray of int, shape (322,), number of the student
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


@fetcher(DEEZER)
def fetch_deezer_europe(files: Files) -> Bunch:
    """Load the mutual followers of Deezer users in Europe, with gender as group.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (28281, 28281), symmetric, ones
        - sensitive_features : ndarray of int, shape (28281,), gender, 0 or 1
    """
    users = files.table("deezer_gendered_target.csv")
    edges = files.table("deezer_gendered_edges.csv")
    gender = users.integers("target")
    # The ids are 0 to n - 1, but perhaps not in order.
    rows = _positions(users.integers("id"), np.arange(gender.size))
    return Bunch(
        graph=symmetric_graph(
            edges.integers("node_1"), edges.integers("node_2"), gender.size
        ),
        sensitive_features=gender[rows],
    )


@fetcher(POKEC)
def fetch_pokec(files: Files) -> Bunch:
    """Load friendships of one region of the network Pokec, with age as group.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (67796, 67796), symmetric, ones
        - sensitive_features : ndarray of int, shape (67796,), age band, 1 to 4
        - target : ndarray of int, shape (67796,), working field, -1 for none
    """
    ages = files.table("Pokec_feature_reg1.csv", header=0, names="age").integers("age")
    work = files.table("Pokec_label_reg1.csv", header=0, names="field").integers(
        "field"
    )
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
    order = np.argsort(node_ids)
    slots = np.searchsorted(node_ids, queries, sorter=order)
    positions: Ints = order[np.minimum(slots, node_ids.size - 1)]
    is_unknown = node_ids[positions] != queries
    if is_unknown.any():
        raise ValueError(
            f"node {int(queries[is_unknown][0])} has no entry in the file of groups."
        )
    return positions
