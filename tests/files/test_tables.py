"""What tables mean: headers, numbers, words, missing values, and what is refused."""

import bz2
import gzip
import io
import lzma
import sys

import numpy as np
import pandas
import pytest
from pandas.testing import assert_frame_equal

from scalefair.files import FileError, clean_table, read_graph, read_table
from scalefair.files import _tables as tables
from scalefair.files import _text as text
from scalefair.files._tables import TableFile
from scalefair.files._text import FileOptions


@pytest.fixture
def table(tmp_path):
    """A function that opens a table of these lines."""

    def opened(*lines, name="table.csv", **options):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return TableFile(path, FileOptions(**options))

    return opened


def refused(opened, *fragments, **options):
    """Check that a table is refused in one line that names it."""
    with pytest.raises(FileError) as caught:
        opened().read(**options)
    message = str(caught.value)
    assert "\n" not in message
    assert all(fragment in message for fragment in ("table.csv", *fragments))
    return message


ROWS = ["0.5,1,x", "1.5,2,y", "2.5,3,x"]
IRIS = [f"5.{i},3.1,{i % 2}" for i in range(9)]  # as scikit-learn's iris.csv has it


@pytest.mark.parametrize(
    ("lines", "names", "doubt"),
    [
        # Words above numbers.
        (["a,b,c", *ROWS], ["a", "b", "c"], False),
        (["a,b", "1,2", "3,4"], ["a", "b"], False),
        (["2018,b", "1,2", "3,4"], ["2018", "b"], True),
        # No line differs in kind from the others.
        (ROWS, None, False),
        (["5,2", "3,4", "5,6"], None, False),
        (["x,x", "y,z"], None, False),
        # Numbers that count up above fractions, or beside a new word.
        (["color,1,2,3", "red,0.1,0.2,0.3", "blue,0.5,0.1,0.9"], 4, True),
        (["color,1,2,3", "0,7,8,9", "1,7,7,7"], 4, True),
        (["2018,2019,2020", "0.1,0.2,0.3", "0.5,0.1,0.9"], 3, True),
        (["2018,2019,2020", "1,2,3", "4,5,6"], None, True),
        (["2018,2019,2021", "0.1,0.2,0.3", "0.5,0.1,0.9"], None, False),
        # Words above words: what follows does not come again.
        (["name,town", "ann,oslo", "bob,rome", "eve,oslo"], ["name", "town"], True),
        (["x,y", "y,x", "x,x"], ["x", "y"], True),
        # A blank first name, as pandas writes an index.
        ([",height", "0,1.5", "1,1.7"], ["", "height"], False),
        ([",name", "0,ann", "1,bob"], ["", "name"], False),
        # A missing number is no name.
        (["NA,red", "1,blue", "2,green"], ["NA", "red"], True),
        (["?", "1", "2"], None, False),
    ],
)
def test_headers(table, lines, names, doubt):
    table_file = table(*lines)
    if isinstance(names, int):
        names = lines[0].split(",")
    assert table_file.has_header == (names is not None)
    numbered = [str(i + 1) for i in range(len(table_file.names))]
    assert table_file.names == (names or numbered)
    # What may be wrong is said, with the option that changes it.
    assert bool(table_file.notes) == doubt
    if doubt:
        assert ("--no-header" if names else "--header") in table_file.notes[0]
        assert lines[0] in table_file.notes[0]
    assert len(table_file.read()) == len(lines) - (names is not None)


def test_headers_as_told(table):
    assert len(table("9,2,large", *IRIS, skip_lines=1).read()) == 9
    assert table("9,2,large", *IRIS, header=True).names == ["9", "2", "large"]
    table("8,2,large", *IRIS)  # not the number of rows
    above_missing = table("a,b", "-,1", "2,-", na_values="-")
    assert (above_missing.has_header, above_missing.notes) == (True, [])
    assert table("1,2", "3,4", header=True).names == ["1", "2"]
    frame = table("color,1,2", "red,0.1,0.2", "blue,0.5,0.1", header=False).read()
    assert frame["1"].tolist() == ["color", "red", "blue"]
    assert frame["2"].tolist() == [1, 0.1, 0.5]


def numbers(n=100, bad=None, row=60):
    lines = ["age,height,sex", *(f"{i},{i / 7:.3f},{'fm'[i % 2]}" for i in range(n))]
    if bad is not None:
        lines[row + 1] = f"{row},{bad},f"
    return lines


@pytest.mark.parametrize("bad", ["abc", "1_000", "0x1F", '"1,234.5"', "1.2.3", "١"])
def test_a_word_in_a_column_of_numbers(table, bad):
    """Never a column of categories: the place, and what to do."""
    shown = bad.strip('"')
    message = refused(
        lambda: table(*numbers(bad=bad)),
        f"table.csv:62: column 2 (height) is '{shown}'",
        "--drop 'height'",
        "--categorical 'height'",
    )
    assert "more)" not in message
    frame = table(*numbers(bad=bad)).read(strings=["height"])
    assert frame["height"][60] == shown
    lines = numbers(bad=bad)
    assert list(table(*lines).read(["age", "sex"]).columns) == ["age", "sex"]
    lines[80] = "79,def,f"
    refused(lambda: table(*lines), "table.csv:62:", "(and 1 more)")


def test_columns_of_numbers_and_words_are_told(table):
    mixed = table("code,x", *(f"{i if i % 2 else 'C'},{i}" for i in range(20)))
    assert mixed.read()["code"][:2].tolist() == ["C", "1"]
    assert "numbers and words were taken for words: code." in mixed.notes[0]


@pytest.mark.parametrize("kind", ["1", "-1.5e-3", "+.5", "1.", "inf", "-Infinity"])
def test_what_is_a_number(table, kind):
    frame = table("a,b", f"{kind},x", "2,y").read()
    assert frame["a"][0] == float(kind)


@pytest.mark.parametrize("blank", [*text.MISSING, " ? "])
def test_missing_values(table, blank):
    """As numbers, as words, and as words that groups or labels are."""
    lines = ["height, town,sex ", f"{blank},oslo,{blank}", f"1.5,{blank},f"]
    table_file = table(*lines, "2,rome, m")
    frame = table_file.read(strings=["sex"])
    assert frame.isna().sum().tolist() == [1, 1, 1]
    assert frame["height"].dtype == np.float64
    assert frame["height"][1:].tolist() == [1.5, 2]
    assert frame["sex"][1:].tolist() == ["f", "m"]  # stripped
    assert table_file.locate(1, "town") == f"{table_file.path}:3: column 2 (town)"
    frame = table("a,b", f"1,{blank}", f"2,{blank}").read()
    assert frame["b"].isna().all()
    assert frame["b"].dtype == np.float64


WANTED = pandas.DataFrame({"a": [1.5, 2.25], "b": ["x", "y"], "c": [3, 4]})


@pytest.mark.parametrize("mark", ["\t", ";", ",", "|", " ", "   "])
def test_delimiters(table, mark):
    lines = [mark.join(row) for row in (["a", "b", "c"], ["1.5", "x", "3"])]
    table_file = table(*lines, mark.join(["2.25", "y", "4"]), name="table.data")
    assert_frame_equal(table_file.read(), WANTED, check_dtype=False)
    assert table_file.notes == []
    for spelling in "tab", "\\t", "\t":
        assert table("a,1\tb", "2\t3", delimiter=spelling).names == ["a,1", "b"]
    for wrong in {"delimiter": "xy"}, {"decimal": "x"}:
        with pytest.raises(FileError, match="one character"):
            table("a,b", "1,2", **wrong)
    lines = ['a,"b (x; y)","c\td"', '1,"u; v",2']  # those within quotes are none
    assert table(*lines).read().values.tolist() == [[1, "u; v", 2]]


def test_semicolons_and_decimal_commas(table):
    lines = ["a;b;c", "1,5;x;3", "2,25;y;4"]
    table_file = table(*lines)
    assert_frame_equal(table_file.read(), WANTED, check_dtype=False)
    assert "decimal commas" in table_file.notes[0]
    assert "--decimal" in table_file.notes[0]
    table_file = table(*lines, delimiter=";", decimal=",")
    assert_frame_equal(table_file.read(), WANTED, check_dtype=False)
    assert table_file.notes == []
    exponents = table("a;b", "1,5e-05;x", "-2,5E+3;y").read()["a"]
    assert exponents.tolist() == [1.5e-5, -2.5e3]
    # As strings they are those of the same numbers, which groups and targets are.
    assert table(*lines).read(strings=["a"])["a"].tolist() == ["1.5", "2.25"]
    # Among words, too; and beside bars or blanks they do not separate.
    assert table("a;b", "1,5;x", "y;z").read()["a"].tolist() == ["1.5", "y"]
    for line in ("1|2,5", "1 2,5"):
        assert table(line, line).read().to_numpy().tolist() == [[1, 2.5]] * 2
    assert table("2,5", "3,5", decimal=",").read()["1"].tolist() == [2.5, 3.5]
    # Told that they are none, they are words.
    assert table(*lines, decimal=".").read()["a"].tolist() == ["1,5", "2,25"]
    # Thousands in a table of points are an error, no decimal commas.
    lines = ["a;b", *(f"{i}.5;{i}" for i in range(20)), "1,234;3"]
    refused(lambda: table(*lines), "table.csv:22: column 1 (a) is '1,234'")


def test_a_word_among_decimal_commas(table):
    rows = [f"{i},5;f" for i in range(20)]
    refused(lambda: table("a;b", *rows, "abc;f", *rows), ":22: column 1 (a)", "'abc'")
    # With blanks only, which pandas does not strip at the end, all are numbers.
    table_file = table("a;b", "1,5 ;f", "2,25;m", "?;f", "3;f").read()["a"]
    np.testing.assert_array_equal(table_file, [1.5, 2.25, np.nan, 3])


def test_lines_before_the_table_and_comments(table):
    table_file = table("made by: hand", "on monday", "", "a,b", "1,2", skip_lines=2)
    assert table_file.names == ["a", "b"]
    # Below the first record everything is one.
    table_file = table("# by hand", "% on monday", "a,b", "#x,1", "%y,2", "z,3")
    assert table_file.read()["a"].tolist() == ["#x", "%y", "z"]
    assert table_file.line_number(1) == 5
    assert table_file.locate(2) == f"{table_file.path}:6"
    lines = ["a,b", *(f"{i},x" for i in range(600)), "# the end"]
    refused(lambda: table(*lines), ":602: expected 2 fields", "# the end")


def test_quoted_cells(table):
    lines = ['a,"b, or c",d', '1,"two', 'lines",x', '2,"say ""no""",y']
    table_file = table(*lines)
    assert table_file.names == ["a", "b, or c", "d"]
    assert table_file.read()["b, or c"].tolist() == ["two\nlines", 'say "no"']
    assert table_file.line_number(1) == 4
    # A bad cell after two lines of one record is on the line that an editor shows.
    lines += [f"{i},x,y" for i in range(20)] + ["abc,x,y"]
    refused(lambda: table(*lines), "table.csv:25: column 1 (a) is 'abc'")
    refused(lambda: table("a,b", '1,"x', "2,y"), "table.csv:2: unreadable line")


LONG = ["a,b,c", *(f"{i},{i},x" for i in range(1000))]


@pytest.mark.parametrize(
    ("lines", "fragments"),
    [
        # A first line of counts is no header, and no row.
        (["9,2,small,large", *IRIS], ["--skip-lines 1,"]),
        (["9,2,large", *IRIS], ["--skip-lines 1,"]),
        (["999,2,small", *IRIS * 70], ["--skip-lines 1,"]),
        # No reader takes these.
        (["@relation d", "@attribute a string", "@data", "'x'"], ["string attributes"]),
        (
            ["HEADER RECORD*******LIBV8   HEADER RECORD!!!!!!!" + 400 * " "],
            ["version 5", "as csv"],
        ),
        # Lines of other lengths, near and far.
        *(
            (
                [*LONG[: k - 1], line, *LONG[k:]],
                [f":{k}: expected 3 fields", f"found {n}"],
            )
            for k in (2, 900)
            for line, n in (("1", 1), ("1,2", 2), ("1,2,3,4", 4), ("1,2,x,", 4))
        ),
        (["a,b, a", "1,2,3"], ["table.csv:1: ", "named 'a'", "--no-header"]),
    ],
)
def test_tables_that_are_refused(table, lines, fragments):
    refused(lambda: table(*lines), *fragments)


def test_columns_that_are_not_there(table):
    with pytest.raises(FileError, match=r"is named 'd'.*columns: a, b.*--drop"):
        table("a,b", "1,2").find("d", "--drop")
    with pytest.raises(FileError, match="1 to 2, there is no header"):
        table("1,2", "3,4").find("3", "--drop")
    for wrong in {"columns": ["a", "d"]}, {"strings": ["d"]}:
        with pytest.raises(FileError, match="no column is named 'd'"):
            read_table(table("a,b", "1,2").path, **wrong)


@pytest.mark.parametrize("read", [read_table, read_graph])
@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        ("a,b\n1,x\n".encode("utf-16-le"), "--encoding utf-16-le"),
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"# a comment\n", "is empty"),
        (b"source,target\n", "no rows below the header on line 1"),
        (b"a,b\n\xff\xfe,2\n", ":2: not UTF-8"),
        (b'a,b\n"a,c\n', ":2: unreadable"),
        (b"a,b\r1,2\r", "carriage returns"),
        (b"\x1f\x8b\x08\x00 neither this nor that", "damaged"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "damaged"),
    ],
)
def test_files_that_are_no_tables(tmp_path, read, content, fragments):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=rf"table\.csv.*{fragments}"):
        read(path, header=True if content == b"source,target\n" else None)


@pytest.mark.parametrize("read", [read_table, read_graph])
@pytest.mark.parametrize("name", ["absent.csv", "absent.npz", "absent"])
def test_files_that_cannot_be_opened(tmp_path, read, name):
    with pytest.raises(FileError, match=f"{name}: no such file"):
        read(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read(tmp_path / name)


CSV = b"\xef\xbb\xbfa,b,c\r\n1.5,x,3\r\n2.25,y,4\r\n"  # as spreadsheets write it


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["t.csv", "table", "t.csv.gz", "t.txt.bz2"])
def test_any_name_and_packing(tmp_path, pack, name):
    path = tmp_path / name
    path.write_bytes(pack(CSV))
    assert_frame_equal(read_table(path), WANTED, check_dtype=False)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input(monkeypatch, pack):
    text._stdin.cache_clear()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(CSV))))
    table_file = TableFile(tables.Path("-"))
    # Which reads it again.
    assert_frame_equal(table_file.read(), WANTED, check_dtype=False)
    assert table_file.line_number(1) == 3
    text._stdin.cache_clear()


def test_parquet(tmp_path):
    path = tmp_path / "table.csv"  # by its content
    frame = WANTED.assign(
        d=pandas.Series(["?", " x "], dtype="category"), e=[True, False], f=[None, 7]
    )
    frame.to_parquet(path)
    table_file = TableFile(path)
    assert table_file.names == [*"abcdef"]
    read = table_file.read()
    assert_frame_equal(read[["a", "b", "c"]], WANTED, check_dtype=False)
    assert read["d"].isna().tolist() == [True, False]
    assert read["d"][1] == "x"
    assert read["e"].tolist() == ["True", "False"]
    assert read["f"][1] == 7
    as_words = table_file.read(strings=["f"])["f"].tolist()
    assert as_words == [None, "7"]  # as without gaps
    assert list(table_file.read(["c", "a"]).columns) == ["c", "a"]
    assert table_file.locate(1, "b") == f"{path}: row 1 (counted from 0): column 2 (b)"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FileError, match=r"table\.csv: .*damaged"):
        TableFile(path).read()
    indexed = tmp_path / "indexed.parquet"
    WANTED.set_index("b").to_parquet(indexed)  # the index is no column
    assert TableFile(indexed).names == ["a", "c"]


def test_parquet_of_types_of_pandas(tmp_path):
    """Numbers are NumPy's, whatever the frame was, and names of columns are strings."""
    path = tmp_path / "table.parquet"
    frame = pandas.DataFrame(
        {
            0: pandas.array([1, None, 3], dtype="Int64"),
            1: pandas.array([1.5, None, 3], dtype="Float64"),
            2: pandas.array([1, None, 3], dtype="int64[pyarrow]"),
            3: pandas.array(["f", None, "m"], dtype="string[pyarrow]"),
            4: pandas.array([True, None, False], dtype="boolean"),
            5: [[1], [2, 3], None],  # words, as in a text
        }
    )
    frame.to_parquet(path)
    table_file = TableFile(path)
    assert table_file.names == [*"012345"]
    read, stored = table_file.read(), table_file.store(table_file.names, (), tmp_path)
    for values in (read, stored):
        assert [dtype == np.float64 for dtype in values.dtypes] == [True] * 3 + [0] * 3
        numbers = values[["0", "1", "2"]].to_numpy()
        np.testing.assert_array_equal(numbers, [[1, 1.5, 1], [np.nan] * 3, [3] * 3])
    words = [["f", "True", "[1]"], [None, None, "[2 3]"], ["m", "False", None]]
    assert read[["3", "4", "5"]].values.tolist() == words
    edges = pandas.DataFrame({"source": [1, 2, 3], "target": [2, 3, 1]}).astype("Int64")
    edges.assign(weight=pandas.array([1, 2, 4], "int64[pyarrow]")).to_parquet(path)
    graph = read_graph(path)
    assert (graph.ids.tolist(), graph.matrix[0, 2]) == ([1, 2, 3], 4)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_store_equals_read(tmp_path, monkeypatch, kind):
    """Pieces that are written to a file without a name, which goes with the process."""
    monkeypatch.setattr(tables, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(tables, "PIECE_NUMBERS", 150)  # numbers: pieces of 50 rows
    path = tmp_path / f"table.{kind}"
    n, rng = 1000, np.random.default_rng(0)
    towns = rng.choice(["oslo", "rome", "town, large"], n)
    columns = {"height": rng.normal(size=n).round(3), "town": towns}
    frame = pandas.DataFrame(columns | {"age": 1, "code": rng.integers(0, 3, n)})
    frame.loc[::7, "height"] = frame.loc[::11, "town"] = None
    frame.loc[200:300, "town"] = None  # all values of a piece
    getattr(frame, f"to_{kind}")(path, index=False)
    columns_read, strings = ["town", "height", "code"], {"code"}
    stored = TableFile(path).store(columns_read, strings, tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    read = TableFile(path).read(columns_read, strings)
    assert_frame_equal(stored[["height"]], read[["height"]])
    for column in ("town", "code"):
        values = stored[column].astype(object).where(stored[column].notna(), None)
        assert values.tolist() == read[column].tolist()
    only = TableFile(path).store(["town"], (), tmp_path)
    assert only["town"].isna().sum() == frame["town"].isna().sum()


def test_pieces_behind_the_sample(table, monkeypatch, tmp_path):
    """Bad cells are placed, and rows that look like comments are rows."""
    monkeypatch.setattr(tables, "SAMPLE_ROWS", 20)
    monkeypatch.setattr(tables, "PIECE_NUMBERS", 60)  # numbers: pieces of 20 rows
    marked = ["sex,age", *("#f,1" if i % 2 else "%m,2" for i in range(100))]
    stored = table(*marked).store(["age", "sex"], (), tmp_path)
    assert stored["age"].tolist() == [2, 1] * 50
    assert stored["sex"].tolist() == ["%m", "#f"] * 50
    short = numbers()
    short[80] = "1,2"
    monkeypatch.setattr(text, "LAYOUT_RECORDS", 20)
    for lines, message in [
        (numbers(bad="abc"), r":62: column 2 \(height\) is 'abc'"),
        (short, ":81: expected 3 fields"),
    ]:
        table_file = table(*lines)
        with pytest.raises(FileError, match=rf"table\.csv{message}"):
            table_file.store(table_file.names, (), tmp_path)


SPELLINGS = [("TRUE", "FALSE"), ("True", "False"), ("true", "false")]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("spelling", [*SPELLINGS, (True, False)])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_truth_values_have_one_reading(tmp_path, monkeypatch, kind, spelling, missing):
    """However they are spelled, and by whatever of a table's readers they are read."""
    monkeypatch.setattr(tables, "PIECE_NUMBERS", 6)  # numbers: pieces of 3 rows
    monkeypatch.setattr(tables, "SAMPLE_ROWS", 4)
    holds = pandas.Series([True, False, True, True, None if missing else False] * 3)
    frame = pandas.DataFrame({"x": range(15)})
    frame["holds"] = holds.map(dict(zip((True, False), spelling, strict=True)))
    path = tmp_path / f"table.{kind}"
    getattr(frame, f"to_{kind}")(path, index=False)
    expected = [None if pandas.isna(value) else str(value) for value in holds]
    table_file = TableFile(path)
    assert table_file.names == ["x", "holds"]
    read = [
        table_file.read()["holds"],
        table_file.read(strings=["holds"])["holds"],
        table_file.store(table_file.names, (), tmp_path)["holds"],
        table_file.store(table_file.names, ["holds"], tmp_path)["holds"],
        table_file.convert(table_file.read_raw(table_file.names))["holds"],
        clean_table(frame, ["holds"], ["holds"])["holds"],
    ]
    for column in read:
        values = column.astype(object)
        assert values.where(values.notna(), None).tolist() == expected


LATIN = "town,n\nKöln,1\nZürich,2\n"


@pytest.mark.parametrize(
    ("encoding", "noted"),
    [("cp1252", None), ("utf-16", "utf-16"), ("utf-32", "utf-32"), ("utf-8-sig", "")],
)
def test_encodings(tmp_path, encoding, noted):
    """A mark is obeyed, and told unless it is of UTF-8; others are to be stated."""
    path = tmp_path / "table.csv"
    path.write_bytes(LATIN.encode(encoding))
    table_file = TableFile(
        path, FileOptions(encoding="cp1252" if noted is None else None)
    )
    assert table_file.read()["town"].tolist() == ["Köln", "Zürich"]
    assert [noted in note for note in table_file.notes] == [True] * bool(noted)
    assert read_table(path, encoding=encoding)["n"].tolist() == [1, 2]
    assert table_file.line_number(1) == 3


@pytest.mark.parametrize("n", [2, 700, 60_000])
def test_what_the_encoding_may_be(tmp_path, n):
    path = tmp_path / "table.csv"
    path.write_bytes(b"town,n\n" + b"x,1\n" * (n - 2) + b"K\xf6ln,1\n")
    with pytest.raises(FileError, match=rf":{n}: not UTF-8.*'Köln,1'.*g cp1252"):
        read_table(path)
    with pytest.raises(FileError, match=rf":{n}: not ASCII"):
        read_table(path, encoding="ascii")
    for wrong in "foo", "hex":
        with pytest.raises(FileError, match=rf"{wrong}.*another --encoding"):
            read_table(path, encoding=wrong)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_else_means_missing(tmp_path, kind):
    frame = pandas.DataFrame({"age": [31, -200, 7], "rate": [0.5, 1.5, -200.0]})
    frame["town"], frame["code"] = ["-", "oslo", "Unknown"], ["-200", "1", "2"]
    path = tmp_path / f"table.{kind}"
    getattr(frame, f"to_{kind}")(path, index=False)
    table_file = TableFile(path, FileOptions(na_values=["-", "Unknown", "-200"]))
    for read in (
        table_file.read(strings=["code"]),
        table_file.store([*frame], ["code"], tmp_path),
    ):
        assert read.isna().to_numpy().T.tolist() == [
            [False, True, False],
            [False, False, True],
            [True, False, True],
            [True, False, False],
        ]
    assert read_table(path, na_values="Unknown")["town"].isna().sum() == 1


def test_what_a_saved_model_does_first():
    """Rows of a frame that plain pandas read are those that the table has."""
    frame = pandas.DataFrame({"sex": [" f", "?", None], "age": ["31", 2, None], "x": 0})
    table_file = clean_table(frame, ["age", "sex"], ["sex"])
    assert list(table_file.columns) == ["age", "sex"]
    assert table_file["sex"][0] == "f"
    assert table_file["sex"].isna().tolist() == [False, True, True]
    np.testing.assert_array_equal(table_file["age"], [31, 2, np.nan])
    array = frame[["age", "sex"]].to_numpy()
    assert_frame_equal(clean_table(array, ["age", "sex"], ["sex"]), table_file)


def test_tables_of_other_programs(tmp_path):
    """By their first bytes: pandas and SciPy read some, others are named."""
    frame = pandas.DataFrame({"age": [31.5, 40], "sex": ["f", "m"]})
    path = tmp_path / "people"
    frame.to_stata(path, write_index=False)
    pandas.testing.assert_frame_equal(read_table(path), frame, check_dtype=False)
    lines = ["% from UCI", "@relation people", "@attribute age numeric"]
    lines += ["@attribute sex {f,m}", "@data", "31.5,f", "?,m"]
    path.write_text("\n".join(lines))
    table = read_table(path)
    assert table["sex"].tolist() == ["f", "m"]
    assert table["age"].isna().tolist() == [False, True]
    for content, message in {
        b"<!DOCTYPE html>\n<html>404</html>": "is a web page",
        b"\x80\x04\x95abc": "is a pickle",
        b'graph [ node [ id 1 label "a" ] ]': "is a graph",
        b"\xd0\xcf\x11\xe0 xls": "Excel",
        b"$FL2@(#) SPSS": "SPSS",
        b"r\1\1\0": "Stata .* or damaged",
        b"@relation cut\n": "ARFF .* or damaged",
    }.items():
        path.write_bytes(content)
        with pytest.raises(FileError, match=message):
            read_table(path)
