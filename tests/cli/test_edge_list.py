import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefair.cli._edge_list import read_edge_list
from scalefair.cli._errors import Failure


def write(tmp_path, text, name="graph.csv"):
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def weights(graph):
    """Nonzero entries by the ids of their ends."""
    entries = graph.matrix.tocoo()
    ids = graph.node_ids.tolist()
    rows, columns = (c.tolist() for c in entries.coords)
    values = entries.data.tolist()
    return {(ids[i], ids[j]): w for i, j, w in zip(rows, columns, values, strict=True)}


PATH_OF_THREE = {(7, 3): 1.0, (3, 7): 1.0, (3, 9): 1.0, (9, 3): 1.0}


@pytest.mark.parametrize(
    "text",
    [
        "7,3\n3,9\n",
        "7, 3\n3, 9\n",
        "7\t3\n3\t9\n",
        "7 3\n3   9\n",
        "  7 3\n\n3 9",
        "7 3\r\n3 9\r\n",
        "# a comment\n% another\n7 3\n3 9\n",
        "7 3\n# in between\n3 9\n",
        "node_1,node_2\n7,3\n3,9\n",
        "Source\tTarget\n# below\n7\t3\n3\t9\n",
        "\ufeffu,v\n7,3\n3,9\n",
        "\ufeff7,3\n3,9\n",
        '"7","3"\n"3","9"\n',
        "7,3\n3,9\n3,7\n9,3\n",
        "7,3\n7,3\n3,9\n",
        "007,3\n3,9\n",
        "007,3\n# comment, so read line by line\n7,3\n3,9\n",
        "7,3,1\n3,9,1.0\n",
        "i j weight\n7 3 1\n3 9 1e0\n",
    ],
)
def test_one_graph_in_many_spellings(tmp_path, text):
    graph = read_edge_list(write(tmp_path, text))
    assert weights(graph) == PATH_OF_THREE
    assert graph.node_ids.tolist() == [7, 3, 9]  # in order of appearance
    assert (graph.n_nodes, graph.n_edges) == (3, 2)


@pytest.mark.parametrize("name", ["g.csv.gz", "g.tsv", "g.txt.gz", "g.edges"])
def test_compressed_or_not(tmp_path, name):
    assert weights(read_edge_list(write(tmp_path, "7 3\n3 9\n", name))) == PATH_OF_THREE


def test_string_ids(tmp_path):
    text = 'name_a,b\n"Smith, J",b\nb,007\n7,b\n'
    graph = read_edge_list(write(tmp_path, text), header=True)
    assert graph.node_ids.tolist() == ["Smith, J", "b", "007", "7"]
    assert graph.n_edges == 3


def test_ids_beyond_int64_are_strings(tmp_path):
    graph = read_edge_list(write(tmp_path, "99999999999999999999 1\n1 2\n"))
    assert graph.node_ids.tolist() == ["99999999999999999999", "1", "2"]


@pytest.mark.parametrize("comment", ["", "# by lines\n"])
def test_ids_of_19_digits_are_integers(tmp_path, comment):
    """The other ids stay what they are, whatever parser reads them."""
    text = f"1234567890123456789 007\n{comment}7 {2**63 - 1}\n"
    graph = read_edge_list(write(tmp_path, text))
    assert graph.node_ids.tolist() == [1234567890123456789, 7, 2**63 - 1]


def test_lines_of_old_macs(tmp_path):
    with pytest.raises(Failure, match=r"carriage returns alone.*line feeds"):
        read_edge_list(write(tmp_path, "1,2\r3,4"))


def test_weights_loops_and_zeros(tmp_path):
    text = "1 2 0.5\n2 1 0.5\n2 2 3\n1 3 0\n3 2 2e-3\n"
    graph = read_edge_list(write(tmp_path, text))
    assert weights(graph) == {
        (1, 2): 0.5,
        (2, 1): 0.5,
        (2, 2): 3.0,
        (3, 2): 0.002,
        (2, 3): 0.002,
    }
    assert graph.n_edges == 3


def test_header_can_be_forced_and_forbidden(tmp_path):
    path = write(tmp_path, "u,v\nv,w\n")
    assert read_edge_list(path).node_ids.tolist() == ["v", "w"]
    assert read_edge_list(path, header=False).node_ids.tolist() == ["u", "v", "w"]
    path = write(tmp_path, "1,2\n2,3\n")
    assert read_edge_list(path, header=True).node_ids.tolist() == [2, 3]


def test_known_header_with_a_weight_is_an_edge(tmp_path):
    assert read_edge_list(write(tmp_path, "u v 2\nv w 1\n")).n_edges == 2


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("1,2\n2,3\n3\n", 3, "found 1"),
        ("1,2\n\n# x\n3,4,5\n", 4, "found 3"),
        ("1,2,3,4\n", 1, "found 4"),
        ("one\n", 1, "source target"),
        ("1,2\n,3\n", 2, "empty"),
        ("1\t2\n3\t\n", 2, "empty"),
        ("1,2,1\n2,3,x\n", 2, "'x' is not a number"),
        ("1,2,1\n2,3,\n", 2, "'' is not a number"),
        ("1,2,1\n2,3,1_0\n", 2, "not a number"),
        ("1,2,1\n2,3,nan\n", 2, "finite"),
        ("1,2,1\n2,3,inf\n", 2, "finite"),
        ("1,2,1\n2,3,-0.5\n", 2, "negative"),
        ("a,b,1\nb,c,-0.5\n", 2, "negative"),
        ("1,2,1\n2,3,1\n2,1,2\n", 3, "weight 2 here and 1 on line 1"),
        ("1,2,1\n1,2,1.5\n", 2, "weight 1.5 here and 1 on line 1"),
        ("1,2\n1,\xff\n".encode("latin-1"), 2, "UTF-8"),
        ('a,b\n"a,c\n', 2, "unreadable"),
        ("from_id,to_id\n1,2\n2,3\n", 1, "--no-header"),
        ("ego,alter,tie\n1,2,1\n", 1, "--header"),
    ],
)
def test_the_line_at_fault_is_named(tmp_path, text, line, words):
    path = write(tmp_path, text)
    with pytest.raises(Failure) as caught:
        read_edge_list(path)
    assert f"{path}:{line}: " in caught.value.message
    assert words in caught.value.message


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_no_edges(tmp_path, text):
    with pytest.raises(Failure, match="no edges"):
        read_edge_list(write(tmp_path, text))


def test_no_edges_below_a_header(tmp_path):
    with pytest.raises(Failure, match="no edges below the header on line 1"):
        read_edge_list(write(tmp_path, "source,target\n"))


@pytest.mark.parametrize("damage", [slice(0, 40), slice(40, None)])
def test_damaged_gzip(tmp_path, damage):
    text = "".join(f"{i},{i * i}\n" for i in range(1000))
    path = tmp_path / "graph.csv.gz"
    path.write_bytes(gzip.compress(text.encode())[damage])
    with pytest.raises(Failure, match="damaged gzip"):
        read_edge_list(path)


def test_first_of_several_contradictions_is_named(tmp_path):
    path = write(tmp_path, "9,8,1\n1,2,1\n8,9,2\n2,1,2\n")
    with pytest.raises(Failure, match=r":3: edge 9 - 8 has weight 2 here and 1 on"):
        read_edge_list(path)


@given(
    edges=st.lists(
        st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=1, max_size=30
    ),
    repeats=st.data(),
)
def test_parsers_agree_with_a_dictionary(tmp_path_factory, edges, repeats):
    """Integers in C, strings by lines, and a plain dictionary: one graph."""
    weight = {}
    for i, j in edges:
        weight.setdefault((min(i, j), max(i, j)), 1.0 + abs(i * j))
    mentions = edges + repeats.draw(st.lists(st.sampled_from(edges), max_size=10))
    mentions = [repeats.draw(st.sampled_from([(i, j), (j, i)])) for i, j in mentions]
    expected = {}
    for (i, j), w in weight.items():
        expected[i, j] = expected[j, i] = w
    lines = [f"{i} {j} {weight[min(i, j), max(i, j)]}" for i, j in mentions]
    folder = tmp_path_factory.mktemp("edges")
    fast = read_edge_list(write(folder, "\n".join(lines)))
    # A comment below the first edge is beyond the parser in C.
    slow = read_edge_list(write(folder, "\n# c\n".join([*lines, ""])))
    assert weights(fast) == weights(slow) == expected
    appearance = list(dict.fromkeys(end for pair in mentions for end in pair))
    assert fast.node_ids.tolist() == slow.node_ids.tolist() == appearance
    named = [f"n{i} n{j} {weight[min(i, j), max(i, j)]}" for i, j in mentions]
    strings = read_edge_list(write(folder, "\n".join(named)))
    assert strings.node_ids.tolist() == [f"n{i}" for i in appearance]
    np.testing.assert_array_equal(strings.matrix.toarray(), fast.matrix.toarray())
