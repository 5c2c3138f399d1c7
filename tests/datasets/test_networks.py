import gzip

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from scalefair.datasets import (
    fetch_deezer_europe,
    fetch_facebooknet,
    fetch_lastfm_asia,
    fetch_pokec,
)

LOADERS = [fetch_deezer_europe, fetch_facebooknet, fetch_lastfm_asia, fetch_pokec]


@pytest.fixture
def home(tmp_path):
    """A small data folder with the layout and the formats of the real one."""
    files = {
        "lastfm-asia/lastfm_clean_countries.csv": "10,17\n30,3\n20,17\n",
        "lastfm-asia/lastfm_clean_edges.csv": "0,1\n2,1\n",
        "facebooknet/group_clean.csv": "50,0\n7,1\n9,0\n",
        "facebooknet/friendship_clean.csv": "7,50,1\n50,9,0\n",
        "deezer-europe/deezer_gendered_target.csv": "id,target\n1,1\n0,0\n2,1\n",
        "pokec-region1/Pokec_feature_reg1.csv": "3\n1\n4\n",
        "pokec-region1/Pokec_label_reg1.csv": "-1\n0\n2\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    with gzip.open(
        tmp_path / "deezer-europe/deezer_gendered_edges.csv.gz", "wt"
    ) as file:
        file.write("node_1,node_2\n0,2\n")
    graph = sparse.csc_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.int32))
    sparse.save_npz(tmp_path / "pokec-region1/sparse_Pokec_graph_reg_1.npz", graph)
    return tmp_path


def check_graph(data, entries):
    W = data.graph
    assert isinstance(W, sparse.csr_array)
    assert W.dtype == np.float64
    assert W.indices.dtype == np.int32
    expected = np.zeros(W.shape)
    for i, j in entries:
        expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(W.toarray(), expected)


def test_lastfm(home):
    data = fetch_lastfm_asia(data_home=home)
    check_graph(data, [(0, 1), (1, 2)])
    np.testing.assert_array_equal(data.sensitive_features, [17, 3, 17])
    np.testing.assert_array_equal(data.node_ids, [10, 30, 20])


def test_facebooknet_keeps_known_non_friends_apart(home):
    data = fetch_facebooknet(data_home=home)
    check_graph(data, [(0, 1)])
    np.testing.assert_array_equal(data.sensitive_features, [0, 1, 0])
    np.testing.assert_array_equal(data.node_ids, [50, 7, 9])


def test_deezer_orders_users_by_id(home):
    data = fetch_deezer_europe(data_home=home)
    check_graph(data, [(0, 2)])
    np.testing.assert_array_equal(data.sensitive_features, [0, 1, 1])


def test_pokec(home):
    data = fetch_pokec(data_home=home)
    check_graph(data, [(0, 1), (1, 2)])
    np.testing.assert_array_equal(data.sensitive_features, [3, 1, 4])
    np.testing.assert_array_equal(data.target, [-1, 0, 2])


@pytest.mark.parametrize("load", LOADERS)
def test_folder_from_the_environment(home, load, monkeypatch):
    monkeypatch.setenv("SCALEFAIR_DATA", str(home))
    assert load(download_if_missing=False).graph.shape == (3, 3)


def test_friend_without_gender(home):
    (home / "facebooknet/friendship_clean.csv").write_text("7,51,1\n")
    with pytest.raises(ValueError, match="node 51 has no entry"):
        fetch_facebooknet(data_home=home)


def test_wrong_number_of_columns(home):
    (home / "lastfm-asia/lastfm_clean_edges.csv").write_text("0,1,1\n")
    with pytest.raises(
        ValueError, match=r"edges\.csv.*must have 2 column\(s\), but has 3"
    ):
        fetch_lastfm_asia(data_home=home)


@pytest.mark.parametrize("damage", [lambda b: b[:99], lambda _: b"page", lambda _: b""])
def test_damaged_graph(home, damage):
    path = home / "pokec-region1/sparse_Pokec_graph_reg_1.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"reg_1\.npz.*published file"):
        fetch_pokec(data_home=home)


def test_user_listed_twice(home):
    # Some other user then has no gender.
    path = home / "deezer-europe/deezer_gendered_target.csv"
    path.write_text("id,target\n1,1\n0,0\n1,1\n")
    with pytest.raises(ValueError, match="node 2 has no entry"):
        fetch_deezer_europe(data_home=home)


def test_unknown_user_in_an_edge(home):
    (home / "lastfm-asia/lastfm_clean_edges.csv").write_text("0,3\n")
    with pytest.raises(ValueError, match="names node 3"):
        fetch_lastfm_asia(data_home=home)


def test_files_of_different_length(home):
    (home / "pokec-region1/Pokec_label_reg1.csv").write_text("1\n2\n")
    with pytest.raises(ValueError, match=r"3 nodes.*2 working fields"):
        fetch_pokec(data_home=home)


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("load", "nodes", "entries", "components", "groups", "largest"),
    [
        (
            fetch_lastfm_asia,
            5713,
            39214,
            118,
            None,
            (5576, 39174, [1073, 505, 645, 1266, 558, 1529]),
        ),
        (fetch_facebooknet, 322, 2824, 168, None, (155, 2824, [70, 85])),
        (
            fetch_deezer_europe,
            28281,
            185504,
            1,
            [15743, 12538],
            (28281, 185504, [15743, 12538]),
        ),
        (
            fetch_pokec,
            67796,
            1235916,
            170,
            [31961, 17862, 12311, 5662],
            (67435, 1235530, [31771, 17799, 12257, 5608]),
        ),
    ],
)
def test_real_graphs(real_data, load, nodes, entries, components, groups, largest):
    data = load(data_home=real_data, download_if_missing=False)
    W = data.graph
    assert W.shape == (nodes, nodes)
    assert W.nnz == entries
    assert abs(W - W.T).nnz == 0
    assert W.diagonal().sum() == 0
    count, component = connected_components(W)
    assert count == components
    if groups is not None:
        _, sizes = np.unique(data.sensitive_features, return_counts=True)
        np.testing.assert_array_equal(sizes, groups)
    inside = component == np.bincount(component).argmax()
    _, sizes = np.unique(data.sensitive_features[inside], return_counts=True)
    assert (inside.sum(), W[inside][:, inside].nnz) == largest[:2]
    np.testing.assert_array_equal(sizes, largest[2])
