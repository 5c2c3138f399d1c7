import gzip

import numpy as np
import pytest
from scipy import sparse

from scalefair.cli._errors import Failure
from scalefair.cli._graph import Graph
from scalefair.cli._group_reader import read_groups


def graph(ids, *, named=True, dtype=None):
    n = len(ids)
    matrix = sparse.csr_array((n, n))
    kind = dtype or (np.int64 if isinstance(ids[0], int) else object)
    return Graph("graph", matrix, np.array(ids, dtype=kind), named)


INTEGERS = graph([5, 3, 4])
STRINGS = graph(["5", "c", "id"])
ROWS = graph([0, 1, 2], named=False)


def write(tmp_path, text, name="groups.csv"):
    path = tmp_path / name
    path.write_bytes(
        gzip.compress(text.encode()) if name.endswith("gz") else text.encode()
    )
    return path


@pytest.mark.parametrize(
    "text",
    [
        "id,group\n3,x\n4,y y\n5,z\n",
        "3,x\n4,y y\n5,z\n",
        "# comment\nnode_id\tsex\n3\tx\n4\ty y\n5\tz\n",
        '3,x\n"4","y y"\n5,z\n3,x\n',
        "\ufeffID,group\n05,z\n3 , x\n4,y y\n",
    ],
)
def test_spellings(tmp_path, text):
    groups, n_unknown = read_groups(write(tmp_path, text), INTEGERS)
    assert groups.tolist() == ["z", "x", "y y"]
    assert n_unknown == 0


def test_compressed_white_space(tmp_path):
    path = write(tmp_path, "3 x\n4 y\n5 z\n", "groups.txt.gz")
    assert read_groups(path, INTEGERS)[0].tolist() == ["z", "x", "y"]


def test_a_node_may_be_called_id(tmp_path):
    path = write(tmp_path, "id,group\n5,a\nc,b\n")
    assert read_groups(path, STRINGS)[0].tolist() == ["a", "b", "group"]
    with pytest.raises(Failure, match="1 of the 3 nodes"):
        read_groups(path, STRINGS, header=True)


def test_other_headers_need_to_be_announced(tmp_path):
    path = write(tmp_path, "person,sex\n0,f\n1,m\n2,f\n")
    with pytest.raises(Failure, match=r":1: 'person' is no row.*--groups-header"):
        read_groups(path, ROWS)
    assert read_groups(path, ROWS, header=True)[0].tolist() == ["f", "m", "f"]


def test_ids_outside_an_edge_list_are_counted_once(tmp_path):
    path = write(tmp_path, "3,x\n4,y\n5,z\n8,x\n9,y\n9,y\nbob,x\n")
    assert read_groups(path, INTEGERS)[1] == 3


@pytest.mark.parametrize("text", ["a\nb\na\n", "group\na\nb\na\n", "# c\na\n\nb\na\n"])
def test_one_column(tmp_path, text):
    assert read_groups(write(tmp_path, text), ROWS)[0].tolist() == ["a", "b", "a"]


def test_npy(tmp_path):
    path = tmp_path / "groups.npy"
    for values in ([1, 0, 1], ["a", "b", "a"], [True, False, True]):
        np.save(path, np.array(values))
        assert read_groups(path, ROWS)[0].tolist() == values


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("3,x\n4,\n", INTEGERS, r":2: node 4 has an empty group"),
        ("3\tx\n4\t\n", INTEGERS, r":2: node 4 has an empty group"),
        ("3,x\n4,y\n3,y\n", INTEGERS, r":3: .*'y' here and 'x' on line 1"),
        ("8,x\n8,y\n", INTEGERS, r":2: .*'y' here and 'x' on line 1"),
        ("3,x\n4\n", INTEGERS, r":2: expected `id,group`, found 1"),
        ("3,x,1\n", INTEGERS, r":1: expected `id,group`, found 3"),
        ("3,x\n", INTEGERS, r"2 of the 3 nodes .*: 5, 4\. Add a line"),
        ("", INTEGERS, "has no groups"),
        ("a\nb\na\n", INTEGERS, "edge list have no order"),
        ("0,x\n1,y\n3,x\n", ROWS, r":3: '3' is no row .* 0 to 2"),
        ("0,x\n1,y\nbob,x\n", ROWS, r":3: 'bob' is no row"),
        ("a\nb\n", ROWS, "has 2 groups for the 3 nodes"),
        ("sex\na\nb\na\n", ROWS, "has 4 groups .* pass --groups-header"),
        ("a\nb,c\na\n", ROWS, ":2: expected one group as on the first line"),
    ],
)
def test_errors_name_the_line(tmp_path, text, target, message):
    with pytest.raises(Failure, match=message):
        read_groups(write(tmp_path, text), target)


def test_only_the_first_five_missing_ids_are_listed(tmp_path):
    many = graph(list(range(10)))
    with pytest.raises(Failure, match=r"9 of the 10 .*: 0, 1, 2, 3, 4 and 4 more"):
        read_groups(write(tmp_path, "9,x\n"), many)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1.0, np.nan, 2.0]), "1 group.* NaN, the first at position 1"),
        (np.ones((3, 2)), r"one group per node, found shape \(3, 2\)"),
        (np.ones(3, dtype=[("a", int)]), "numbers or strings, found dtype"),
        (np.ones(3) * 1j, "numbers or strings, found dtype complex128"),
        (np.arange(2), "has 2 groups for the 3 nodes"),
        (np.array([{}, {}, {}]), "not an array of numbers or strings"),
    ],
)
def test_bad_npy(tmp_path, values, message):
    path = tmp_path / "groups.npy"
    np.save(path, values)
    with pytest.raises(Failure, match=message):
        read_groups(path, ROWS)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUM",
        b"PK\x03\x04 damaged",
        b"\x93NUMPY\x01\x00\x08\x00{'a': ((",  # Python that does not end
        b"\x93NUMPY\x01\x00\x0a\x00 \n  x\n y\n ",
    ],
)
def test_damaged_npy(tmp_path, content):
    path = tmp_path / "groups.npy"
    path.write_bytes(content)
    with pytest.raises(Failure, match="not an array"):
        read_groups(path, ROWS)


def test_npy_has_no_ids_for_an_edge_list(tmp_path):
    path = tmp_path / "groups.npy"
    np.save(path, np.arange(3))
    with pytest.raises(Failure, match="edge list have no order"):
        read_groups(path, INTEGERS)


def test_missing_file(tmp_path):
    for name in ("groups.csv", "groups.npy"):
        with pytest.raises(Failure, match="no such file"):
            read_groups(tmp_path / name, ROWS)


def test_archive_under_the_name_of_an_array(tmp_path):
    path = tmp_path / "groups.npy"
    with open(path, "wb") as file:
        np.savez(file, a=np.arange(3))
    with pytest.raises(Failure, match="not an array"):
        read_groups(path, ROWS)
