"""Loaders of networks of people: LastFM Asia, FacebookNet, Deezer Europe and Pokec."""

import zipfile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Bunch

from scalefair.datasets._common import fetcher, symmetric_graph
from scalefair.datasets._fetch import PUBLISHED, Files, Home
from scalefair.datasets._sources import DEEZER, FACEBOOKNET, LASTFM, POKEC
from scalefair.files import FileError, reading


@fetcher(LASTFM)
def fetch_lastfm_asia(
    *, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load the LastFM Asia friendships, with the users' countries as groups.

    The cleaned graph of the fair spectral clustering literature: 5713 users from the
    six countries with at least 500 users, 39214 stored entries (each friendship in
    both directions), 118 components, of which 102 are isolated nodes.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (5713, 5713), symmetric, ones
        - sensitive_features : ndarray of int, shape (5713,), country
        - node_ids : ndarray of int, shape (5713,), id in the original graph

    References
    ----------
    .. [1] J. Wang, D. Lu, I. Davidson, Z. Bai, "Scalable Spectral Clustering with
       Group Fairness Constraints", AISTATS 2023.
    """
    files = Files(LASTFM, data_home, download_if_missing)
    users = files.table("lastfm_clean_countries.csv", "user,country", header=0)
    edges = files.table("lastfm_clean_edges.csv", "source,target", header=0)
    node_ids = users.integers("user")
    return files.bunch(
        graph=symmetric_graph(
            edges.integers("source"), edges.integers("target"), node_ids.size
        ),
        sensitive_features=users.integers("country"),
        node_ids=node_ids,
    )


@fetcher(FACEBOOKNET)
def fetch_facebooknet(
    *, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load the Facebook friendships of a high school, with gender as group.

    Students in Marseilles in December 2013. All 322 students whose gender is known are
    nodes; 167 of them do not occur in the Facebook data and are isolated. There are
    2824 stored entries (each friendship in both directions). Pairs known not to be
    friends (weight 0 in the file) are not edges.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (322, 322), symmetric, ones
        - sensitive_features : ndarray of int, shape (322,), 0 female, 1 male
        - node_ids : ndarray of int, shape (322,), number of the student
    """
    files = Files(FACEBOOKNET, data_home, download_if_missing)
    students = files.table("group_clean.csv", "student,gender", header=0)
    pairs = files.table("friendship_clean.csv", "source,target,weight", header=0)
    node_ids = students.integers("student")
    friends = pairs.integers("weight") == 1
    source, target = (
        _positions(node_ids, pairs.integers(end)[friends])
        for end in ("source", "target")
    )
    return files.bunch(
        graph=symmetric_graph(source, target, node_ids.size),
        sensitive_features=students.integers("gender"),
        node_ids=node_ids,
    )


@fetcher(DEEZER)
def fetch_deezer_europe(
    *, data_home: Home = None, download_if_missing: bool = True
) -> Bunch:
    """Load the mutual followers of Deezer users in Europe, with gender as group.

    The graph of 28281 users is connected and has 185504 stored entries (each friendship
    in both directions). The source does not say which gender is 0 and which is 1.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (28281, 28281), symmetric, ones
        - sensitive_features : ndarray of int, shape (28281,), gender, 0 or 1
    """
    files = Files(DEEZER, data_home, download_if_missing)
    users = files.table("deezer_gendered_target.csv", "id,target")
    edges = files.table("deezer_gendered_edges.csv", "node_1,node_2")
    gender = users.integers("target")
    # The ids are 0 to n - 1, but nothing promises that the rows are in order.
    rows = _positions(users.integers("id"), np.arange(gender.size))
    return files.bunch(
        graph=symmetric_graph(
            edges.integers("node_1"), edges.integers("node_2"), gender.size
        ),
        sensitive_features=gender[rows],
    )


@fetcher(POKEC)
def fetch_pokec(*, data_home: Home = None, download_if_missing: bool = True) -> Bunch:
    """Load friendships of one region of the network Pokec, with age as group.

    A regional sample of the Slovak social network: 67796 users and 1235916 stored
    entries (each friendship in both directions), 1235530 of them in the largest of 170
    components. Groups are four age bands: 1 up to 18, 2 19 to 25, 3 26 to 35, 4 from
    36.

    Returns
    -------
    data : Bunch
        - graph : csr_array of float64, shape (67796, 67796), symmetric, ones
        - sensitive_features : ndarray of int, shape (67796,), age band, 1 to 4
        - target : ndarray of int, shape (67796,), working field, -1 for none
    """
    files = Files(POKEC, data_home, download_if_missing)
    ages = files.table("Pokec_feature_reg1.csv", "age", header=0).integers("age")
    work = files.table("Pokec_label_reg1.csv", "field", header=0).integers("field")
    path = files.path("sparse_Pokec_graph_reg_1.npz")
    with reading(path, PUBLISHED), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no zip archive")
        file.seek(0)
        entries = sparse.load_npz(file).tocoo()
    if not entries.shape[0] == ages.size == work.size:
        raise FileError(
            f"{path}: {entries.shape[0]} nodes, but the files beside it have "
            f"{ages.size} ages and {work.size} working fields. Delete them to download "
            "them again."
        )
    return files.bunch(
        graph=symmetric_graph(entries.row, entries.col, ages.size),
        sensitive_features=ages,
        target=work,
    )


def _positions(
    node_ids: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the position in `node_ids` of each wanted id."""
    order = np.argsort(node_ids)
    slot = np.searchsorted(node_ids, wanted, sorter=order)
    found: NDArray[np.int64] = order[np.minimum(slot, node_ids.size - 1)]
    unknown = node_ids[found] != wanted
    if unknown.any():
        raise ValueError(
            f"node {int(wanted[unknown][0])} has no entry in the file of groups."
        )
    return found
