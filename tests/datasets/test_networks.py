"""Networks: small files in the form of the published ones, and the real graphs."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scalefair.datasets import (
    fetch_deezer_europe,
    fetch_facebooknet,
    fetch_lastfm_asia,
    fetch_pokec,
)
from scalefair.datasets._networks import symmetric_graph


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
    packed = tmp_path / "deezer-europe/deezer_gendered_edges.csv.gz"
    packed.write_bytes(gzip.compress(b"node_1,node_2\n0,2\n"))
    graph = sparse.csc_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], np.int32))
    sparse.save_npz(tmp_path / "pokec-region1/sparse_Pokec_graph_reg_1.npz", graph)
    return tmp_path


def assert_joins(graph, edges, n):
    """The graph is canonical and has these edges, but for loops."""
    expected = np.zeros((n, n))
    for i, j in edges:
        expected[i, j] = expected[j, i] = i != j
    assert isinstance(graph, sparse.csr_array)
    np.testing.assert_array_equal(graph.toarray(), expected)
    assert graph.nnz == np.count_nonzero(expected)  # nothing stored twice
    assert graph.dtype == np.float64
    assert graph.indices.dtype == graph.indptr.dtype == np.int32
    rebuilt = graph.copy()
    rebuilt.has_canonical_format = False
    rebuilt.sum_duplicates()
    np.testing.assert_array_equal(rebuilt.indices, graph.indices)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.data())
def test_edges_in_any_direction_with_loops(n, data):
    node = st.integers(0, n - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=20))
    nodes = np.array(edges, dtype=np.int32).reshape(-1, 2)
    assert_joins(symmetric_graph(nodes[:, 0], nodes[:, 1], n), edges, n)


ALL = [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("load", "edges", "entries"),
    [
        (
            fetch_lastfm_asia,
            ALL,
            {"sensitive_features": [17, 3, 17], "node_ids": [10, 30, 20]},
        ),
        (  # known to be no friends: the others
            fetch_facebooknet,
            [(0, 1)],
            {"sensitive_features": [0, 1, 0], "node_ids": [50, 7, 9]},
        ),
        (fetch_deezer_europe, [(0, 2)], {"sensitive_features": [0, 1, 1]}),  # by id
        (fetch_pokec, ALL, {"sensitive_features": [3, 1, 4], "target": [-1, 0, 2]}),
    ],
)
def test_small_files(home, load, edges, entries, monkeypatch):
    monkeypatch.setenv("SCALEFAIR_DATA", str(home))
    data = load(download_if_missing=False)
    assert_joins(data.graph, edges, 3)
    for name, values in entries.items():
        np.testing.assert_array_equal(data[name], values)


@pytest.mark.parametrize(
    ("load", "name", "content", "message"),
    [
        (fetch_facebooknet, "friendship_clean.csv", "7,51,1\n", "node 51 has no entry"),
        (fetch_lastfm_asia, "lastfm_clean_edges.csv", "0,1,1\n", "2 column.* has 3"),
        (fetch_lastfm_asia, "lastfm_clean_edges.csv", "0,3\n", "node 3.*0 to 2"),
        (fetch_lastfm_asia, "lastfm_clean_edges.csv", "0,-1\n", "names node -1"),
        # A user is listed twice; some other user then has no gender.
        (
            fetch_deezer_europe,
            "deezer_gendered_target.csv",
            "id,target\n1,1\n0,0\n1,1\n",
            "node 2 has no entry",
        ),
        (fetch_pokec, "Pokec_label_reg1.csv", "1\n2\n", "3 nodes.*2 working fields"),
    ],
)
def test_files_that_do_not_fit(home, load, name, content, message):
    (path,) = home.rglob(name)
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load(data_home=home)


@pytest.mark.parametrize("damage", [lambda b: b[:99], lambda _: b"page", lambda _: b""])
def test_damaged_graph(home, damage):
    path = home / "pokec-region1/sparse_Pokec_graph_reg_1.npz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"reg_1\.npz.*published file"):
        fetch_pokec(data_home=home)
