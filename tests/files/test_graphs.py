"""Graphs in files: lists of edges in many spellings, and matrices."""

import gzip
import sys
import zipfile
from itertools import pairwise

import numpy as np
import pytest
from scipy import io, sparse

from scalefair.files import FileError, read_graph, read_table
from scalefair.files._graphs import read_new_nodes
from scalefair.files._matrices import read_matrix_market
from scalefair.files._text import FileOptions

TRIANGLE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [2.0, 0.5, 0.0]])
PATH_OF_THREE = {(7, 3): 1.0, (3, 7): 1.0, (3, 9): 1.0, (9, 3): 1.0}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file and returns its path."""

    def write_file(content, name="graph.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def weights(graph):
    """Nonzero entries by the ids of their ends."""
    entries = graph.matrix.tocoo()
    ids = graph.ids.tolist()
    rows, columns = (c.tolist() for c in entries.coords)
    values = entries.data.tolist()
    return {(ids[i], ids[j]): w for i, j, w in zip(rows, columns, values, strict=True)}


def refuses(path, *fragments, **options):
    with pytest.raises(FileError) as caught:
        read_graph(path, **options)
    assert all(fragment in str(caught.value) for fragment in (str(path), *fragments))


@pytest.mark.parametrize(
    "text",
    [
        "7,3\n3,9\n",
        "7\t3\n3\t9\n",
        "7 3\n3   9\n",
        "7 3\n3 \t9\n",
        "  7 3\n\n3 9",
        "# a comment\n% another\n7 3\n3 9\n",
        "node_1,node_2\n7,3\n3,9\n",
        "Source\tTarget\n7\t3\n3\t9\n",
        "\ufeffu,v\n7,3\n3,9\n",
        '"7","3"\n"3","9"\n',
        "7,3\n3,9\n3,7\n9,3\n",
        "007,3\n7,+3\n3,9\n",
        "7,3,1\n3,9,1.0\n",
        "i j weight\n7 3 1\n3 9 1e0\n",
    ],
)
def test_one_graph_in_many_spellings(write, text):
    graph = read_graph(write(text))
    assert weights(graph) == PATH_OF_THREE
    assert graph.ids.tolist() == [7, 3, 9]  # in order of appearance
    assert (graph.n_edges, graph.named, graph.notes) == (2, True, [])


def test_ids_that_are_no_integers(write):
    text = 'name_a,b\n"Smith, J",b\nb,007\n7,b\n'
    graph = read_graph(write(text), header=True)
    assert graph.ids.tolist() == ["Smith, J", "b", "007", "7"]
    assert graph.n_edges == 3
    assert read_graph(write("NA ?\nnan NA\n")).ids.tolist() == ["NA", "?", "nan"]
    big = "9" * 20
    assert read_graph(write(f"{big} 1\n1 2\n")).ids.tolist() == [big, "1", "2"]
    large = [2**64 - 1, 1, 2**64 - 2, 2]  # one column of them does not fit int64
    text = "{} {}\n{} {}\n".format(*large)
    assert read_graph(write(text)).ids.tolist() == [*map(str, large)]
    text = f"{2**60} 007\n# 19 digits are integers\n7 {2**63 - 1}\n"
    assert read_graph(write(text)).ids.tolist() == [2**60, 7, 2**63 - 1]


def test_ids_are_words_as_they_are_spelled(write):
    """Unless all are integers; whatever numbers, or truth values, they look like."""
    for ids in (
        ["1.1", "1.10", "1.100"],
        ["1e5", "100000.0", "100000"],
        ["true", "TRUE", "True"],
        ["007", "7", "+7", "7.0"],
        ["-", "?", "null"],
    ):
        graph = read_graph(write("".join(f"hub {name}\n" for name in ids)))
        assert graph.ids.tolist() == ["hub", *ids]
        graph = read_graph(write("".join(f"{a} {b} 1\n" for a, b in pairwise(ids))))
        assert graph.ids.tolist() == ids
    assert read_graph(write("007 7\n+7 3\n")).ids.tolist() == [7, 3]


def test_ids_of_new_nodes_are_spelled_like_those_of_the_graph(write):
    graph = read_graph(write("a 1\n1 01\n"))
    new = read_new_nodes(write("2 01\n02 1\n"), graph.ids, True, FileOptions())
    assert new.ids.tolist() == ["2", "02"]
    assert new.matrix.toarray().tolist() == [[0, 0, 1], [0, 1, 0]]
    graph = read_graph(write("1 2\n2 3\n"))
    new = read_new_nodes(write("4 01\n"), graph.ids, True, FileOptions())
    assert new.matrix.toarray().tolist() == [[1, 0, 0]]


def test_comments_between_edges_are_counted(write):
    text = '# above\nsource target\n# "one\n7 3\n  % two\n3 9\n#'
    graph = read_graph(write(text))
    assert weights(graph) == PATH_OF_THREE
    [note] = graph.notes
    assert "3 line(s) between the edges" in note
    refuses(write("1 2\n# x\n2 3\n3\n"), ":4: expected 2 fields")
    refuses(write(" # x\n"), "is empty")
    many = "".join(f"{i} {i + 1}\n" for i in range(60_000))
    graph = read_graph(write(many + "# a comment\n" * 60_000 + "0 2\n"))
    assert graph.n_edges == 60_001
    assert "60000 line(s)" in graph.notes[0]


def test_weights_loops_and_zeros(write):
    graph = read_graph(write("1 2 0.5\n2 1 0.5\n2 2 3\n1 3 0\n3 2 2e-3\n"))
    assert graph.ids.tolist() == [1, 2, 3]
    expected = [[0, 0.5, 0], [0.5, 3, 0.002], [0, 0.002, 0]]
    np.testing.assert_array_equal(graph.matrix.toarray(), expected)
    assert graph.n_edges == 3


def test_headers_are_recognised_stated_or_told(write):
    path = write("u,v\nv,w\n")  # a known header, whatever stands below
    assert read_graph(path).ids.tolist() == ["v", "w"]
    assert read_graph(path, header=False).ids.tolist() == ["u", "v", "w"]
    assert read_graph(write("1,2\n2,3\n"), header=True).ids.tolist() == [2, 3]
    graph = read_graph(write("ego,alter\nann,bob\nbob,cid\n"))  # nobody can tell
    assert graph.n_edges == 3
    assert ["--header" in note for note in graph.notes] == [True]
    assert read_graph(write("ego,alter,tie\n1,2,1\n")).ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "line", "fragments"),
    [
        ("1,2\n2,3\n3\n", 3, "found 1"),
        ("1,2\n\n# x\n3,4,5\n", 4, "found 3"),
        ("1,2\n,3\n", 2, "empty"),
        ("1,2,1\n2,3,x\n", 2, "'x' is no finite number"),
        ("1,2,1\n2,3,\n", 2, "weight"),
        ("1,2,1\n2,3,nan\n", 2, "finite"),
        ("1,2,1\n2,3,-0.5\n", 2, ">= 0"),
        ("9,8,1\n1,2,1\n8,9,2\n2,1,2\n", 3, "has weight 2 here and 1 at "),
    ],
)
def test_the_line_at_fault_is_named(write, text, line, fragments):
    path = write(text)
    refuses(path, f"{path}:{line}", fragments)


@pytest.mark.parametrize(
    ("first", "second"),
    [("0.1", "0.10000002"), ("123456", "123456.01"), ("1", "1.004")],
)
def test_weights_that_differ_by_more_than_rounding(write, first, second):
    """And are shown with the digits in which they do."""
    path = write(f"1,2,{first}\n2,1,{second}\n")
    conflict = f"weight {second} here and {first} at {path}:1"
    refuses(path, f"{path}:2", conflict, "--directed sum")
    same = f"{float(first) * (1 + 1e-9)!r}"
    assert read_graph(write(f"1,2,{first}\n2,1,{same}\n")).n_edges == 1


def test_several_weights_are_added_up_or_the_largest_is_taken(write, tmp_path):
    lines = "1,2,1\n2,1,3\n1,2,1\n3,3,2\n3,3,5\n2,3,4\n"
    path = write(lines)
    refuses(path, ":2", "--directed sum", "--directed max")
    for directed, weight, loop in (("sum", 5, 7), ("max", 3, 5)):
        actual = weights(read_graph(path, directed=directed))
        assert actual[1, 2] == actual[2, 1] == weight
        assert (actual[3, 3], actual[2, 3]) == (loop, 4)
    matrix = sparse.csr_array(np.array([[2.0, 1, 0], [3, 0, 0], [0, 4, 0]]))
    sparse.save_npz(tmp_path / "directed.npz", matrix)
    for directed, weight in (("sum", 4), ("max", 3)):
        graph = read_graph(tmp_path / "directed.npz", directed=directed)
        expected = [[2, weight, 0], [weight, 0, 4], [0, 4, 0]]
        assert graph.matrix.toarray().tolist() == expected
    with pytest.raises(ValueError, match='"sum" or "max", got \'mean\''):
        read_graph(tmp_path / "directed.npz", directed="mean")


@pytest.mark.parametrize(
    "text",
    [
        "1,2,1082040961\n2,3,1082155839\n3,2,1082414391\n",
        "source target time\n1 2 5\n2 3 6\n3 2 7\n",
        "src,dst,Date\n1,2,2004-04-15\n2,3,2004-04-16\n",
    ],
)
def test_times_are_no_weights(write, text):
    path = write(text)
    refuses(path, "looks like a time", "--no-weights", "--weights")
    graph = read_graph(path, weights=False)
    assert weights(graph) == {(1, 2): 1, (2, 1): 1, (2, 3): 1, (3, 2): 1}
    if "Date" not in text:
        assert read_graph(path, weights=True, directed="max").matrix.max() > 1
    large = "1,2,1082040961\n2,3,3\n3,1,4\n"  # as weights may be
    assert read_graph(write(large)).matrix.max() == 1082040961


LANGUAGES = {
    "GML": 'Creator "x"\ngraph\n[\n directed 1\n'
    + "".join(f' node [ id {i} party "{p}" ]\n' for i, p in ((7, "l"), (3, "r")))
    + ' node [ id 9 party "l" graphics [ x 1.0 ] ]\n node [ id 5 party "r" ]\n'
    + "".join(f" edge [ source {i} target {j} ]\n" for i, j in ((7, 3), (7, 3), (3, 9)))
    + " edge [ source 3 target 7 ]\n]\n",
    "Pajek": '*Vertices 4\n1 "7"\n2 "3"\n3 "9"\n4 "5"\n*Arcs\n1 2 1\n1 2 1\n2 3 1\n'
    "2 1 1\n",
    "GraphML": '<?xml version="1.0"?>\n<graphml xmlns="http://graphml.graphdrawing.org/'
    'xmlns"><key id="p" for="node" attr.name="party" attr.type="string"/>'
    '<graph edgedefault="directed">'
    + "".join(f'<node id="{i}"><data key="p">l</data></node>' for i in (7, 3, 9, 5))
    + '<edge source="7" target="3"/><edge source="7" target="3"/>'
    '<edge source="3" target="9"/><edge source="3" target="7"/></graph></graphml>',
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_of_networkx(write, language):
    """Directed graphs, with an edge twice and a node without any."""
    pytest.importorskip("networkx")
    for content in (LANGUAGES[language], gzip.compress(LANGUAGES[language].encode())):
        graph = read_graph(write(content, "graph.any"))
        assert graph.ids.tolist() == [7, 3, 9, 5]
        assert weights(graph) == PATH_OF_THREE
        if language != "Pajek":
            assert graph.nodes["party"].iloc[0] == "l"
    assert weights(read_graph(write(content), directed="sum"))[7, 3] == 3
    cut = LANGUAGES[language][: 24 if language == "Pajek" else -30]
    refuses(write(cut), f"not a {language} file")


def test_labels_of_nodes_are_as_they_are_spelled(write):
    networkx = pytest.importorskip("networkx")
    G = networkx.path_graph(["true", "TRUE", "NA", "?", "a b"])
    graph = read_graph(write("\n".join(networkx.generate_gml(G))))
    assert graph.ids.tolist() == [*G]


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_without_networkx(write, monkeypatch, language):
    monkeypatch.setitem(sys.modules, "networkx", None)
    refuses(write(LANGUAGES[language]), f"{language} files", "pip install networkx")


def test_column_of_weights(write):
    """More columns than three, of which one holds the weights."""
    path = write("source,target,kind,w\n1,2,a,3\n2,3,b,1\n")
    graph = read_graph(path, weight_column="w")
    assert weights(graph) == {(1, 2): 3, (2, 1): 3, (2, 3): 1, (3, 2): 1}
    index = write(",source,target,w\n0,1,2,3\n1,2,3,1\n", "index.csv")
    assert weights(read_graph(index, weight_column="w")) == weights(graph)
    ids = write("id,source,target\n7,1,2\n9,2,3\n", "ids.csv")
    assert set(weights(read_graph(ids)).values()) == {1}  # these are no weights
    refuses(path, "--weight-column")
    refuses(path, "no column is named 'v'", "--weight-column", weight_column="v")
    refuses(path, "an end of the edges", weight_column="target")
    refuses(path, "is no finite number", weight_column="kind")


@pytest.mark.parametrize("delimiter", [" ", "\t", ","])
def test_edges_with_attributes(write, delimiter):
    """Lines of networkx.write_edgelist, such as ``a b {'weight': 4}``."""
    pytest.importorskip("networkx")
    ends = ("An A", "b") if delimiter != " " else ("A", "b")
    lines = [[*ends, "{'weight': 4, 'x': 'y'}"], ["b", "c", "{}"]]
    text = "# now\n" + "".join(delimiter.join(line) + "\n" for line in lines)
    graph = read_graph(write(text))
    assert graph.ids.tolist() == [*ends, "c"]
    assert graph.matrix.toarray().tolist() == [[0, 4, 0], [4, 0, 1], [0, 1, 0]]
    refuses(write(text + delimiter.join("bA") + delimiter + "{'w\n"), "NetworkX")
    conflict = delimiter.join((ends[1], ends[0], "{'weight': 3}\n"))
    refuses(write(text + conflict), "--directed sum")


def test_lists_of_neighbours(write, tmp_path):
    """A .adjlist of NetworkX, with one line a node or with several."""
    networkx = pytest.importorskip("networkx")
    G = networkx.Graph([("a", "b"), ("a", "c"), ("c", "d")])
    path = tmp_path / "names.adjlist"
    for kind in ("adjlist", "multiline_adjlist"):
        getattr(networkx, f"write_{kind}")(G, path)
        graph = read_graph(path)
        assert graph.ids.tolist() == [*G]
        assert (graph.matrix.toarray() == networkx.to_numpy_array(G)).all()
    for text in (
        "a b c d\nb\n",
        "a\tb\tc\nb\n",
        "a b c\nb a d\n",
        "a b c d\nb c d e\n",
    ):
        refuses(write(text), "neighbours", ".adjlist")
    cycle = write("1 2 4\n2 1 3\n3 2 4\n4 1 3\n")
    refuses(cycle, "neighbours", ".adjlist", "--weights")
    refuses(cycle, "has weight", weights=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 2\n2\n1 3\n2\n", [[0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        ("% a\n\n3 1 0\n3\n\n% b\n1\n\n", [[0, 0, 1], [0, 0, 0], [1, 0, 0]]),
        ("3 2 1\n2 7\n1 7 3 5\n2 5\n", [[0, 7, 0], [7, 0, 5], [0, 5, 0]]),
        ("2 1 011 2\n8 9 2 7\n8 9 1 7\n", [[0, 7], [7, 0]]),
        ("2 1 110\n4 9 2\n4 9 1\n", [[0, 1], [1, 0]]),
    ],
)
def test_metis(write, text, expected):
    """Nodes and edges are counted, then line i has the neighbours of node i."""
    graph = read_graph(write(text, "graph.graph"))
    assert graph.matrix.toarray().tolist() == expected
    assert "METIS" in graph.notes[0]
    with pytest.raises(FileError, match="METIS"):
        read_table(write(text))


def test_edges_are_not_taken_for_metis(write):
    """Though the first line may count the others."""
    texts = {"2 2\n1 2\n2 3\n": 3, "3 1\n1 2\n2 1\n2 3\n": 3, "2 1\na b\n1 a\n": 3}
    for text, n_edges in texts.items():
        graph = read_graph(write(text))
        assert (graph.n_edges, graph.notes) == (n_edges, [])
    refuses(write("3 2\n2 3\n1\n1 2\n", "graph.metis"), "is no METIS file")
    refuses(write("3 2\n2 3\n1\n2\n"), ":3: expected 2 fields")  # 3 does not name 1


def test_rows_of_features_are_no_graph(write, tmp_path):
    refuses(write("one\n"), "source target")
    refuses(write("1,2,3,4\n5,6,7,8\n"), "shape (2, 4)", "--affinity")
    refuses(write("a,b,c,d\n1,2,3,x\n4,5,6,y\n"), "--affinity")
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    refuses(tmp_path / "rows.npy", "square", "(3, 2)", "--affinity")
    sparse.save_npz(tmp_path / "rows.npz", sparse.csr_array(np.ones((3, 2))))
    for directed in ("error", "sum"):
        refuses(tmp_path / "rows.npz", "square", "(3, 2)", directed=directed)


@pytest.mark.parametrize("save", [sparse.save_npz, io.mmwrite, np.save])
@pytest.mark.parametrize("name", ["graph.npz", "graph"])
def test_matrices(tmp_path, save, name):
    path = tmp_path / name
    with open(path, "wb") as file:
        other_order = TRIANGLE.astype(">f8")  # of the bytes, as other machines have it
        save(file, other_order if save is np.save else sparse.csc_array(TRIANGLE))
    graph = read_graph(path)
    np.testing.assert_array_equal(graph.matrix.toarray(), TRIANGLE)
    assert graph.ids.tolist() == [0, 1, 2]
    assert (graph.n_edges, graph.named) == (3, False)
    for dtype in bool, np.int8, np.uint64:  # become floats
        sparse.save_npz(tmp_path / "g", sparse.csr_array(TRIANGLE != 0, dtype=dtype))
        assert read_graph(tmp_path / "g.npz").matrix.dtype == np.float64


def test_a_square_matrix_as_text(write):
    """With three columns it is a list of edges; with more there is no doubt."""
    W = np.kron(TRIANGLE, np.ones((2, 2)))
    graph = read_graph(write("\n".join(",".join(map(str, row)) for row in W.tolist())))
    np.testing.assert_array_equal(graph.matrix.toarray(), W)
    assert not graph.named
    assert "matrix of weights of 6 nodes" in graph.notes[0]


@pytest.mark.parametrize("names", ["abcd", "7539", ["1", "01", "2", "3"]])
def test_a_square_matrix_with_names(write, names):
    """As `to_pandas_adjacency(G).to_csv` writes it; also where names are numbers.

    Those are not equal because their numbers are.
    """
    header = ",".join(["", *names])
    rows = [[name, *(abs(i - j) for j in range(4))] for i, name in enumerate(names)]
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    graph = read_graph(write("\n".join(lines)))
    assert list(map(str, graph.ids)) == list(names)
    assert graph.matrix.toarray().tolist() == [row[1:] for row in rows]


def test_a_symmetric_matrix_is_no_header(write):
    """Its first row comes again as its first column, too."""
    path = write("\n".join(["0,1,2,3", "1,0,4,5", "2,4,0,6", "3,5,6,0"]))
    assert len(read_graph(path).ids) == 4
    gaps = write("\n".join([",1,2,3", "1,,4,5", "2,4,,6", "3,5,6,"]))
    refuses(gaps, ":2: column 2", "empty")


def test_matrix_market_beyond_a_buffer(tmp_path):
    """SciPy's reader steps back after the head, and aborted where it could not."""
    W = sparse.coo_array(np.arange(10_000.0).reshape(100, 100) + 1)
    io.mmwrite(tmp_path / "graph.mtx", W)
    actual = read_graph(tmp_path / "graph.mtx").matrix
    np.testing.assert_array_equal(actual.toarray(), W.toarray())
    text = b"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"
    (tmp_path / "packed").write_bytes(gzip.compress(text))
    graph = read_graph(tmp_path / "packed")
    np.testing.assert_array_equal(graph.matrix.toarray(), [[0, 1], [1, 0]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_located(tmp_path, value):
    matrix = TRIANGLE.copy()
    matrix[1, 2] = value
    sparse.save_npz(tmp_path / "g.npz", sparse.csr_array(matrix))
    np.save(tmp_path / "g.npy", np.asfortranarray(matrix))
    for name in ("g.npz", "g.npy"):
        refuses(tmp_path / name, "NaN or infinite", "row 1, column 2")
    sparse.save_npz(tmp_path / "g.npz", sparse.csr_array(TRIANGLE * 1j))
    refuses(tmp_path / "g.npz", "real numbers", "complex128")


HEAD = "%%MatrixMarket matrix "


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}coordinate real general\n2 2 1\n1 2 x\n",
        f"{HEAD}coordinate real general\n2 2 1\n3 1 1.0\n",
        b"PK\x03\x04 damaged",
        b"\x93NUMPY\x01\x00\x08\x00{'a': ((",  # Python that does not end
    ],
)
def test_damaged_matrices(write, text):
    refuses(write(text), "damaged")


MARKETS = {
    "coordinate real symmetric\n% a comment\n3 3 2\n2 1 2.5e-1\n3 2 12": 4,
    "coordinate pattern general\n3 3 2\n2 1\n3 2": 2,
    "coordinate integer skew-symmetric\n3 3 1\n2 1 12": 2,
    "array real general\n2 2\n1.5\n2e-3\n3\n2.5e-1": 4,
    "array integer symmetric\n3 3\n1\n2\n3\n4\n5\n6": 9,
    "array real skew-symmetric\n3 3\n1.5\n2e-3\n2.5e-1": 6,
    "array real symmetric\n3 2\n1\n2\n3\n4\n5\n6": None,
}


@pytest.mark.parametrize("text", MARKETS)
def test_matrices_that_are_cut_off(tmp_path, text):
    """SciPy's reader ended the process, or read what was there."""
    path, content = tmp_path / "graph.mtx", (HEAD + text).encode()
    last = len(content.split()[-1])  # a number that is cut may be another one
    wrong = [content[:stop] for stop in range(1, len(content) - last + 1)]
    right = [content, content + b"\n"]
    if MARKETS[text] is None:
        wrong, right = wrong + right, []
    for damaged in (*wrong, content + b"e-", content[:-1] + b"\0\n"):
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            read_matrix_market(path)
    for complete in right:
        path.write_bytes(complete)
        assert read_matrix_market(path).nnz == MARKETS[text]


@pytest.mark.parametrize(
    ("name", "position", "value"),
    [("indices", 3, 3), ("indices", 3, -1), ("indices", 3, 10**6), ("indptr", 1, 9)],
)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_indices_beyond_the_matrix(tmp_path, kind, name, position, value):
    """Compiled code would read or write there."""
    matrix = kind(TRIANGLE)
    arrays = {part: getattr(matrix, part).copy() for part in ("indices", "indptr")}
    arrays[name][position] = value
    head = {"format": matrix.format.encode(), "shape": matrix.shape, "_is_array": True}
    np.savez(tmp_path / "g.npz", data=matrix.data, **head, **arrays)
    refuses(tmp_path / "g.npz", "damaged")


def test_archives_that_hold_no_matrix(tmp_path):
    path = tmp_path / "g.npz"
    np.savez(path, a=np.arange(3))
    refuses(path, "scipy.sparse.save_npz")
    np.savez(path, format=np.array({"a": 1}, dtype=object))
    refuses(path, "scipy.sparse.save_npz")
    sparse.save_npz(path, sparse.random_array((200, 200), density=0.1))
    content = path.read_bytes()
    path.write_bytes(content[:-300])
    refuses(path, "damaged")
    middle = len(content) // 2
    path.write_bytes(content[:middle] + b"XXXXXXXX" + content[middle + 8 :])
    refuses(path, "damaged")


def test_an_archive_that_unpacks_to_more_than_the_memory(tmp_path, monkeypatch):
    sparse.save_npz(tmp_path / "small.npz", sparse.csr_array(TRIANGLE))
    with (
        zipfile.ZipFile(tmp_path / "small.npz") as old,
        zipfile.ZipFile(tmp_path / "g.npz", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "data.npy":
                content = content.replace(b"(6,)", b"(600000000000,)").ljust(10**6)
            new.writestr(name, content)
    with pytest.raises((FileError, MemoryError), match=r"g\.npz"):
        read_graph(tmp_path / "g.npz")
