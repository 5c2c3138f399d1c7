"""Tables of numbers: what is read, and what is refused where."""

import gzip

import numpy as np
import pytest

from scalefair.cli import _row_table
from scalefair.cli._errors import Failure
from scalefair.cli._row_table import read_row_table

X = [[1.0, 2.5], [-3.0, 4e2], [0.0, 7.0]]


def write(tmp_path, text, name="rows.csv"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "1,2.5\n-3,4e2\n0,7\n",
        "height,weight\n1,2.5\n-3,400\n0,7\n",
        "# comment\n\n% another\nheight\tweight\n1\t2.5\n# c\n-3\t400\n\n0\t7\n",
        "1 2.5\n -3   400\n0 7",
        '"height, in cm","weight"\r\n"1","2.5"\r\n-3, 400\r\n0 ,7\r\n',
        "\ufeff1,2.5\n-3,400\n0,7\n",
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.txt.gz"])
def test_spellings(tmp_path, text, name):
    rows = read_row_table(write(tmp_path, text, name))
    np.testing.assert_array_equal(rows.matrix, X)
    assert rows.matrix.dtype == np.float64
    assert rows.node_ids.tolist() == [0, 1, 2]
    assert (rows.n_nodes, rows.n_features) == (3, 2)
    assert (rows.named, rows.ordered) == (False, True)


@pytest.mark.parametrize(
    ("text", "id_column", "ids"),
    [
        ("id,a,b\n10,1,2.5\n007,-3,400\n8,0,7\n", None, [10, 7, 8]),
        ("User_ID,a,b\nann,1,2.5\nbob,-3,400\nc_c,0,7\n", None, ["ann", "bob", "c_c"]),
        (",a,b\n0,1,2.5\n2,-3,400\n1,0,7\n", None, [0, 2, 1]),
        ("a,who,b\n1,x,2.5\n-3,2,400\n0,z,7\n", "who", ["x", "2", "z"]),
        ("1,x,2.5\n-3,y,400\n0,z,7\n", "2", ["x", "y", "z"]),
        ("1,2.5,-1\n-3,400,-2\n0,7,-3\n", "3", [-1, -2, -3]),
    ],
)
def test_ids(tmp_path, text, id_column, ids):
    rows = read_row_table(write(tmp_path, text), id_column=id_column)
    np.testing.assert_array_equal(rows.matrix, X)
    assert rows.node_ids.tolist() == ids
    assert rows.node_ids.dtype == (np.int64 if isinstance(ids[0], int) else object)
    assert (rows.named, rows.ordered) == (True, True)


def test_headers_can_be_stated(tmp_path):
    numbers = write(tmp_path, "2019,2020\n1,2.5\n-3,400\n0,7\n")
    assert read_row_table(numbers).n_nodes == 4
    rows = read_row_table(numbers, header=True)
    np.testing.assert_array_equal(rows.matrix, X)
    words = write(tmp_path, "a,b\n1,2.5\n")
    with pytest.raises(Failure, match=r":1: column 1 is 'a', .*pass --header"):
        read_row_table(words, header=False)


def test_both_parsers_agree(tmp_path, monkeypatch):
    numbers = np.random.default_rng(0).normal(size=(50, 7)) * 1e-7
    text = "".join(",".join(map(repr, row)) + "\n" for row in numbers.tolist())
    path = write(tmp_path, text)
    np.testing.assert_array_equal(read_row_table(path).matrix, numbers)
    monkeypatch.setattr(_row_table, "_parse_numbers", lambda *_: None)
    np.testing.assert_array_equal(read_row_table(path).matrix, numbers)


def test_a_sound_table_is_parsed_in_c(tmp_path, monkeypatch):
    monkeypatch.setattr(_row_table, "_parse_lines", None)
    np.testing.assert_array_equal(
        read_row_table(write(tmp_path, "a b\n1 2.5\n-3 400\n0 7\n")).matrix, X
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: only blank lines"),
        ("# c\n\n", "is empty: only blank lines"),
        ("a,b\n", r"no rows below the header on line 1"),
        ("1,2\n3,f\n", r":2: column 2 is 'f', which is not a number\. Leave"),
        ("a,b\n1,2\n3,f\n", r":3: column 2 \(b\) is 'f'"),
        ("x,1,2\ny,3,4\n", r":1: column 1 is 'x', .*pass --id-column.*--header"),
        ("1,1_000\n", r":1: column 2 is '1_000'"),
        ("a|b\n1|2\n", r":2: column 1 \(a\|b\) is '1\|2'"),
        ("1,2\n3,\n", r":2: column 2 has no value"),
        ("1\t2\n\t3\n", r":2: column 1 has no value"),
        ("a,b\n1,2\n3,NA\n", r":3: column 2 \(b\) has no value"),
        ("1,2\nnan,3\n", r":2: column 1 has no value"),
        ("1,2\n\n3,-inf\n", r":3: column 2 is -inf; features must be finite"),
        ("id,a,b\n1,2,3\n4,5,nan\n", r":3: column 3 \(b\) has no value"),
        ("id,a,b\n1,2,3\n4,inf,5\n", r":3: column 2 \(a\) is inf"),
        ("a,id,b\n1,x,3\n", r":2: column 2 \(id\) is 'x'"),
        ("1,2\n3\n", r":2: expected 2 fields as in line 1, found 1"),
        ("1 2\n3 4 5\n", r":2: expected 2 fields as in line 1, found 3"),
        ("a,b\n1,2,3\n4,5,6\n", r":2: expected 2 fields as in the header, found 3"),
        ("id,a\n1,2\n3\n", r":3: expected 2 fields as in the header, found 1"),
        ('1,2\n"3,4\n', r":2: unreadable line"),
        ("id,a\n1,2\n,3\n", r":3: the id is empty"),
        ("id,a\n1,2\n2,3\n01,4\n", r":4: the id 1 is on line 2 as well"),
        ("id\n1\n2\n", "no column of numbers beside"),
        ("source,target\n1,2\n", r":1: `source, target` is the header of an edge list"),
        ("From,To,weight\n1,2,3\n", "is the header of an edge list"),
    ],
)
def test_errors_name_the_place(tmp_path, text, message):
    with pytest.raises(Failure, match=message):
        read_row_table(write(tmp_path, text))


def test_columns_that_edges_have_too_can_be_announced(tmp_path):
    path = write(tmp_path, "source,target\n1,2\n")
    assert read_row_table(path, header=True).n_features == 2
    assert read_row_table(write(tmp_path, "u,v\n1,2\n")).n_features == 2


@pytest.mark.parametrize(
    ("text", "id_column", "message"),
    [
        ("a,b\n1,2\n", "c", r"no column is named 'c' \(columns: a, b\)"),
        ("a,a\n1,2\n", "a", "2 columns are named 'a'"),
        ("a,b\n1,2\n", "1", "no column is named '1'"),
        ("1,2\n", "3", "number of a column, 1 to 2"),
        ("1,2\n", "0", "number of a column, 1 to 2"),
        ("1,2\n", "a", "has no header: --id-column a"),
    ],
)
def test_wrong_id_column(tmp_path, text, id_column, message):
    with pytest.raises(Failure, match=message):
        read_row_table(write(tmp_path, text), id_column=id_column)


def test_not_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"1,2\n\xff,3\n")
    with pytest.raises(Failure, match=":2: not UTF-8"):
        read_row_table(path)
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(b"1,2\n")
    with pytest.raises(Failure, match="damaged gzip"):
        read_row_table(path)
