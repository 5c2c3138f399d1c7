"""A value for each node or row, in a file of its own."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from scalefair.files import FileError, Graph
from scalefair.files._values import parse_ids, parse_values, read_values


def units(ids, *, named=True):
    matrix = sparse.csr_array((len(ids), len(ids)))
    return Graph(Path("graph"), matrix, np.array(ids), named=named, notes=[])


INTEGERS = units([5, 3, 4])
STRINGS = units(["5", "c", "id"])
ROWS = units([0, 1, 2], named=False)
TEN = units(list(range(10)))


def values_of(source, nodes, **options):
    values, _ = read_values(source, nodes, "group", **options)
    return values.agg(", ".join, axis=1).to_numpy()


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a text, or an array: its values, and notes."""

    def read_content(content, nodes, **options):
        path = tmp_path / "groups.any"
        if isinstance(content, np.ndarray):
            with open(path, "wb") as file:
                np.save(file, content)
        else:
            path.write_bytes(
                content if isinstance(content, bytes) else content.encode()
            )
        values, notes = read_values(path, nodes, "group", **options)
        return np.ravel(values).tolist(), notes

    return read_content


ZXY, ABA = ["z", "x", "y y"], ["a", "b", "a"]


@pytest.mark.parametrize(
    ("content", "nodes", "expected", "noted"),
    [
        # Lines with ids, in any order and spelling.
        ("id,group\n3,x\n4,y y\n5,z\n", INTEGERS, ZXY, ""),
        ("3,x\n4,y y\n5,z\n", INTEGERS, ZXY, ""),
        ("# comment\nnode_id\tsex\n3\tx\n4\ty y\n5\tz\n", INTEGERS, ZXY, ""),
        ('3,x\n"4","y y"\n5,z\n3,x\n', INTEGERS, ZXY, ""),
        ("\ufeffID,group\n05,z\n3 , x\n4,y y\n", INTEGERS, ZXY, ""),
        (gzip.compress(b"3;x\n4;y y\n5;z\n", mtime=0), INTEGERS, ZXY, ""),
        # A header without a word above the ids, as pandas writes it.
        (",group\n3,x\n4,y y\n5,z\n", INTEGERS, ZXY, "was taken for a header"),
        ("id,group\n5,a\nc,b\n", STRINGS, ["a", "b", "group"], ""),
        # Words that are ids are taken as they are spelled.
        ("id,group\n1.1,a\n1.10,b\n", units(["1.1", "1.10"]), ["a", "b"], ""),
        ("id,group\ntrue,a\nTRUE,b\n", units(["true", "TRUE"]), ["a", "b"], ""),
        ("id,group\nNA,a\n?,b\n", units(["NA", "?"]), ["a", "b"], ""),
        # Values in the order of the rows, one of which may look like a header.
        ("a\nb\na\n", ROWS, ABA, ""),
        ("group\na\nb\na\n", ROWS, ABA, ""),
        ("# c\na\n\nb\na\n", ROWS, ABA, ""),
        ("sex\na\nb\na\n", ROWS, ABA, "'sex', was taken for a header"),
        ("y\nn\ny\n", ROWS, ["y", "n", "y"], ""),
        (np.array([1, 0, 1]), ROWS, [1, 0, 1], ""),
        (np.array(ABA), ROWS, ABA, ""),
        (np.array([True, False, True]), ROWS, ["True", "False", "True"], ""),
    ],
)
def test_values_and_what_is_noted(read, content, nodes, expected, noted):
    values, notes = read(content, nodes)
    assert values == expected
    assert [noted in note for note in notes] == [True] * bool(noted)


def test_headers_of_two_columns(read):
    with pytest.raises(FileError, match="1 of the 3 nodes"):
        read("id,group\n5,a\nc,b\n", STRINGS, header=True)
    text = "person,sex\n0,f\n1,m\n2,f\n"
    with pytest.raises(FileError, match=r":1: 'person' is no row.*--groups-header"):
        read(text, ROWS)
    assert read(text, ROWS, header=True)[0] == ["f", "m", "f"]
    with pytest.raises(FileError, match="has 2 groups for the 3"):
        read("group\na\n\nb\n", ROWS)  # an empty line is none
    with pytest.raises(FileError, match="has 4 groups for the 3"):
        read("sex\na\nb\na\n", ROWS, header=False)
    with pytest.raises(FileError, match=":2: node 3 has group '' here and 'x' on line"):
        read("3,x\n3,\n4,y\n5,z\n", INTEGERS, keep_missing=True)


@pytest.mark.parametrize(
    ("strings", "kind", "id_kind"),
    [
        (["1", "+02", "-3"], "i", "i"),
        (["1", "01"], "i", "U"),  # different ids of one number
        (["1.50", "2"], "f", "U"),
        (["--5", "3"], "U", "U"),
        (["9" * 19, "3"], "U", "U"),  # the float would be that of 10 ** 19
    ],
)
def test_types_of_strings(strings, kind, id_kind):
    ids = parse_ids(strings)
    assert [parse_values(strings).dtype.kind, ids.dtype.kind] == [kind, id_kind]
    assert id_kind == "i" or ids.tolist() == strings


PEOPLE = "age,sex,town\n1,f,oslo\n2,m,rome\n3,f,rome\n4,m,oslo\n"


def test_columns_of_a_table_with_more(read, tmp_path):
    """By ids, if both have them, else by the number or the order of the rows."""
    path = tmp_path / "people.csv"

    def column(content, name, nodes, **options):
        path.write_text(content)
        return values_of(f"{path}:{name}", nodes, **options)

    rows = units(range(4), named=False)
    assert column(PEOPLE, "sex", rows).tolist() == ["f", "m", "f", "m"]
    assert column(PEOPLE, "sex,town", rows)[1] == "m, rome"
    with pytest.raises(FileError, match="no column is named 'job'"):
        column(PEOPLE, "job", rows)
    with pytest.raises(FileError, match="has 4 groups for the 3"):
        column(PEOPLE, "sex", ROWS)
    # A part of the rows, as they are numbered by predict.
    part = units([3, 0])
    assert column(PEOPLE, "sex", part, by_row=True).tolist() == ["m", "f"]
    with pytest.raises(FileError, match="has no ids to be matched"):
        column(PEOPLE, "sex", part)
    assert column(PEOPLE, "sex", units([3, 2, 1, 0])).tolist() == ["m", "f", "m", "f"]
    _, [note] = read_values(f"{path}:sex", units([3, 2, 1, 0]), "group")
    assert "were matched by number to the ids of graph" in note
    assert read_values(f"{path}:sex", units(range(4)), "group")[1] == []
    ranks = "rank,age\n2,5\n0,7\n1,9\n"  # a column of values holds no ids
    assert column(ranks, "rank", units(range(3))).tolist() == ["2", "0", "1"]
    named = PEOPLE.replace("age", "id")
    assert column(named, "town", units([4, 1])).tolist() == ["oslo", "oslo"]
    path.with_name("a:b").write_text("f\nm\nf\n")  # a file's own name comes first
    assert values_of(path.with_name("a:b"), ROWS)[1] == "m"


def test_tables_of_nodes_with_more_columns(read, tmp_path):
    """Ids may have another name; many combinations are not what was meant."""
    path = tmp_path / "nodes.csv"
    lines = [f"{i},{'mf'[i % 2]},{1449 - 7 * i}\n" for i in reversed(range(10))]
    path.write_text("new_id,sex,days\n" + "".join(lines))
    actual = values_of(f"{path}:sex", TEN)
    assert actual.tolist() == ["m", "f"] * 5
    with pytest.raises(FileError, match=r"10 combinations of sex, days.*:COLUMN"):
        values_of(path, TEN, header=True)
    frame, _ = read_values(path, TEN, "group", header=True, joint=False)
    assert frame["sex"].tolist() == actual.tolist()


def test_ids_outside_an_edge_list_are_counted(read):
    _, [note] = read("3,x\n4,y\n5,z\n8,x\n9,y\nbob,x\n", INTEGERS)
    assert "3 id(s) are not in graph" in note
    assert "without an edge" in note


@pytest.mark.parametrize(
    ("text", "nodes", "message"),
    [
        ("3,x\n4,?\n5,x\n", INTEGERS, ":2: 1 group.* missing"),
        ("a\nNA\nb\n", ROWS, ":2: 1 group.* missing"),
        ("?\na\nb\n", ROWS, ":1: 1 group.* missing"),
        ("3,x\n,y\n5,x\n4,y\n", INTEGERS, ":2: the id is missing"),
        ("0,x\n1,y\n,x\n", ROWS, ":3: the id is missing"),
        ("3,x\n4,y\n3,y\n", INTEGERS, ":3: .*'y' here and 'x' on line 1"),
        ("3,x\n4\n", INTEGERS, ":2: expected 2 fields .* found 1"),
        ("3,x,1\n", INTEGERS, r"2 of the 3 nodes .*: 5, 4\. Add a line"),
        ("3,x\n", INTEGERS, r"2 of the 3 nodes .*: 5, 4\. Add a line"),
        ("9,x\n", TEN, "9 of the 10 .*: 0, 1, 2, 3, 4 and 4 more"),
        ("a\nb\na\n", INTEGERS, "edge list have no order"),
        ("0,x\n1,y\n3,x\n", ROWS, ":3: '3' is no row .* 0 to 2"),
        ("0,x\n1,y\nbob,x\n", ROWS, ":3: 'bob' is no row"),
        ("a\nb\n", ROWS, "has 2 groups for the 3 nodes"),
        ("a\nb c\na\n", ROWS, ":2: expected 1 field"),
        ("a\na\nb\na\n", ROWS, "has 4 groups for the 3"),  # the first is like others
        (np.array([1.0, np.nan, 2.0]), ROWS, "position 1: 1 group.* missing"),
        (np.ones((3, 2, 1)), ROWS, r"one group per node.* found shape \(3, 2, 1\)"),
        (np.ones(3, dtype=[("a", int)]), ROWS, "numbers or strings, found"),
        (np.ones(3) * 1j, ROWS, "numbers or strings, found .*complex128"),
        (np.array([{}, {}, {}]), ROWS, "not an array of numbers or strings"),
        (b"\x93NUMPY\x01\x00\x0a\x00 \n  x\n y\n ", ROWS, "not an array"),
    ],
)
def test_errors_name_file_and_place(read, tmp_path, text, nodes, message):
    with pytest.raises(FileError, match=message) as caught:
        read(text, nodes)
    assert str(caught.value).startswith(str(tmp_path / "groups.any"))
