"""Tables in blocks: both parsers of text, parquet, and rows on disk."""

import csv
import gzip
import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scalefair.cli import _feature_scaling, _feature_store, _feature_table
from scalefair.cli._errors import Failure
from scalefair.cli._feature_reader import read_features
from scalefair.cli._feature_scaling import standardize
from scalefair.cli._feature_store import RowStore
from scalefair.cli._feature_table import TextTable
from scalefair.cli._feature_text import Selection


def write(tmp_path, text, name="rows.csv"):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return path


def read_blocks(path, selection, header=None):
    blocks = list(TextTable(path, header).blocks(selection))
    X = np.concatenate([block.X for block in blocks])
    columns = zip(*(block.texts for block in blocks), strict=True)
    texts = [[word for words in column for word in words] for column in columns]
    return X, texts, [number for block in blocks for number in block.numbers]


@pytest.fixture(params=["in C", "by lines"])
def parser(request, monkeypatch):
    if request.param == "by lines":
        monkeypatch.setattr(_feature_table, "_parse_in_c", lambda *_: None)
    return request.param


@pytest.mark.parametrize("size", [1, 2, 2**16])
@pytest.mark.parametrize(
    "text",
    [
        "a,who,b,note\n1,x,2.5,u\n# c\n\n-3,y z,4e2,\n0,x,7,w\n",
        '\ufeffa,who,b,note\r\n"1","x",2.5,"u"\r\n\r\n\r\n-3, y z ,400,\r\n0,x,7,w',
        "a\twho\tb\tnote\n1\tx\t2.5\tu\n%\n\n-3\ty z\t400\t\n0\tx\t7\tw\n",
    ],
)
def test_spellings(tmp_path, monkeypatch, parser, size, text):
    monkeypatch.setattr(_feature_table, "_LINES", size)
    for name in ("rows.csv", "rows.csv.gz"):
        X, texts, numbers = read_blocks(
            write(tmp_path, text, name), Selection([0, 2], [1])
        )
        np.testing.assert_array_equal(X, [[1, 2.5], [-3, 400], [0, 7]])
        assert texts == [["x", "y z", "x"]]
        assert numbers == [2, 5, 6]


def test_white_space(tmp_path, parser):
    path = write(tmp_path, "1 f 2.5\n  -3   m 400\n")
    X, texts, _ = read_blocks(path, Selection([0, 2], [1]))
    np.testing.assert_array_equal(X, [[1, 2.5], [-3, 400]])
    assert texts == [["f", "m"]]


def test_a_column_may_be_feature_and_text(tmp_path, parser):
    path = write(tmp_path, "a,b\n1,01\n2,3e0\n")
    X, texts, _ = read_blocks(path, Selection([0, 1], [1]))
    np.testing.assert_array_equal(X, [[1, 1], [2, 3]])
    assert texts == [["01", "3e0"]]


def test_a_sound_table_is_parsed_in_c(tmp_path, monkeypatch):
    monkeypatch.setattr(_feature_table, "parse_lines", None)
    path = write(tmp_path, 'a,who,b\n1,"x, y",2\n3,,4\n')
    X, texts, _ = read_blocks(path, Selection([0, 2], [1]))
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])
    assert texts == [["x, y", ""]]


@pytest.mark.parametrize(
    "line", ['4,"x ""y""",5', '4, "x ""y""",5', '"4","x ""y""", 5']
)
def test_quotes_within_quotes(tmp_path, parser, line):
    path = write(tmp_path, f"a,who,b\n1,z,2\n{line}\n")
    X, texts, _ = read_blocks(path, Selection([0, 2], [1]))
    np.testing.assert_array_equal(X, [[1, 2], [4, 5]])
    assert texts == [["z", 'x "y"']]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("4,x", ":3: expected 3 fields as in the header, found 2"),
        ("4,x,5,6", ":3: expected 3 fields as in the header, found 4"),
        ("4,x,5,", ":3: expected 3 fields as in the header, found 4"),
        ('4,"x,5', ":3: unreadable line"),
        ('4,"x\ny",5', ":3: unreadable line"),
        ("4,x,NA", r":3: column 3 \(b\) has no value"),
        ("4,x,1_0", r":3: column 3 \(b\) is '1_0'"),
        ("4,x,0x10", r":3: column 3 \(b\) is '0x10'"),
        ("4,x,-inf", r":3: column 3 \(b\) is -inf"),
        ("4 5,x,6", r":3: column 1 \(a\) is '4 5'"),
    ],
)
def test_errors_name_the_place(tmp_path, parser, line, message):
    path = write(tmp_path, f"a,who,b\n1,z,2\n{line}\n7,z,8\n")
    with pytest.raises(Failure, match=message):
        read_blocks(path, Selection([0, 2], [1], can_drop=True))


field = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=4
).filter(lambda text: not text.startswith(("#", "%")))
numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(numbers, field, numbers), min_size=1, max_size=8))
def test_what_csv_writes_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "who", "b"])
        writer.writerows(rows)
    X, [words], _ = read_blocks(path, Selection([0, 2], [1]), header=True)
    np.testing.assert_array_equal(X, [[a, b] for a, _, b in rows])
    assert words == [word for _, word, _ in rows]


def test_blocks_do_not_hold_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(_feature_table, "_BLOCK", 100)
    path = write(tmp_path, "".join(f"{i},{i}\n" for i in range(1000)))
    sizes = [len(block.X) for block in TextTable(path).blocks(Selection([0, 1]))]
    assert sizes == [50] * 20


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    return path


@pytest.mark.parametrize("limit", [0, 100, 10**9])
def test_store(folder, monkeypatch, limit):
    monkeypatch.setattr(_feature_store, "_LIMIT", limit)
    X = np.random.default_rng(0).normal(size=(40, 3))
    with RowStore(folder) as store:
        for start in range(0, 40, 7):
            store.append(X[start : start + 7])
        matrix = store.matrix()
    assert list(folder.iterdir()) == []
    np.testing.assert_array_equal(matrix, X)
    assert isinstance(matrix, np.memmap) == (limit < X.nbytes)


def test_store_of_columns_in_any_order(folder, monkeypatch):
    monkeypatch.setattr(_feature_store, "_LIMIT", 0)
    X = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    with RowStore(folder) as store:
        store.append(X[:, [2, 0]])
        store.append(X[::2, :2])
        np.testing.assert_array_equal(
            store.matrix(), np.vstack([X[:, [2, 0]], X[::2, :2]])
        )


@pytest.mark.parametrize("dtype", [float, np.float32, np.int8, bool])
def test_standardize(folder, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 4)) * 20).round().astype(dtype)
    X[:, 2] = 1
    X[::2, [0, 1, 3]] = 0
    scaled = standardize(X, folder)
    X = X.astype(float)
    std = X.std(axis=0, ddof=1)
    std[2] = 1
    np.testing.assert_allclose(scaled.scale, std, rtol=1e-6)
    np.testing.assert_allclose(scaled.shift, X.mean(axis=0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        scaled.matrix, (X - X.mean(axis=0)) / std, rtol=1e-5, atol=1e-6
    )
    assert not scaled.matrix[:, 2].any()


def test_standardize_far_from_zero(folder):
    X = np.random.default_rng(0).normal((1e8, 0), size=(5000, 2))
    scaled = standardize(X, folder)
    np.testing.assert_allclose(scaled.scale, X.std(axis=0, ddof=1), rtol=1e-7)


def test_standardize_sparse_rows(folder):
    X = sparse.random_array(
        (60, 5), density=0.3, rng=np.random.default_rng(0), format="csr"
    )
    X.data[0] = 0  # stored
    scaled = standardize(X, folder)
    std = X.toarray().std(axis=0, ddof=1)
    np.testing.assert_allclose(scaled.scale, std)
    np.testing.assert_allclose(scaled.matrix.toarray(), X.toarray() / std)
    assert not scaled.shift.any()


def test_one_row_is_not_scaled(folder):
    scaled = standardize(np.array([[3.0, 4.0]]), folder)
    np.testing.assert_array_equal(scaled.matrix, [[0, 0]])
    np.testing.assert_array_equal(scaled.scale, [1, 1])


class FrozenBatch:
    def __init__(self, frame):
        self.frame = frame

    def to_pandas(self):
        return self.frame


class PickledFrame:
    """Stands in for pyarrow.parquet.ParquetFile; the file holds a pickled frame."""

    def __init__(self, file):
        try:
            self.frame = pickle.load(file)
        except pickle.UnpicklingError as error:
            raise ArrowError(f"magic bytes\nnot found: {error}") from error
        empty = FrozenBatch(self.frame.iloc[:0])
        self.schema_arrow = SimpleNamespace(empty_table=lambda: empty)

    def iter_batches(self, batch_size, columns):
        for start in range(0, len(self.frame), batch_size):
            yield FrozenBatch(self.frame.iloc[start : start + batch_size][columns])


class ArrowError(Exception):
    pass


@pytest.fixture
def pandas(monkeypatch):
    """Pandas, and a pyarrow that reads pickled frames."""
    package = pytest.importorskip("pandas")
    pyarrow, parquet = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    pyarrow.ArrowException = ArrowError
    pyarrow.parquet = parquet
    parquet.ParquetFile = PickledFrame
    monkeypatch.setitem(sys.modules, "pyarrow", pyarrow)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)
    return package


def save_frame(tmp_path, frame):
    path = tmp_path / "rows.parquet"
    with open(path, "wb") as file:
        pickle.dump(frame, file)
    return path


def make_frame(pandas):
    return pandas.DataFrame(
        {
            "a": [1, 2, 3, 4],
            "sex": pandas.Categorical(["f", "m", "m", "f"]),
            "b": np.array([0.5, 1.5, 2.5, 3.5], dtype=np.float32),
            "new": [True, False, True, True],
            "born": pandas.to_datetime(["2001-01-01"] * 4),
        }
    )


def test_parquet(tmp_path, pandas, monkeypatch):
    from scalefair.cli import _feature_parquet

    monkeypatch.setattr(_feature_parquet, "_BLOCK", 9)
    path = save_frame(tmp_path, make_frame(pandas))
    rows = read_features(path, "sex", folder=tmp_path, drop=["born"])
    np.testing.assert_array_equal(
        rows.matrix, [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1], [4, 3.5, 1]]
    )
    assert rows.feature_names == ["a", "b", "new"]
    assert rows.groups.tolist() == ["f", "m", "m", "f"]
    rows = read_features(
        path, "a", folder=tmp_path, drop=["sex", "born"], keep_groups=True
    )
    assert rows.groups.tolist() == ["1", "2", "3", "4"]
    assert rows.feature_names == ["a", "b", "new"]


def test_parquet_with_ids(tmp_path, pandas):
    frame = make_frame(pandas)[["a", "b"]]
    frame.insert(0, "id", ["p", "q", "r", "s"])
    path = save_frame(tmp_path, frame)
    groups = write(tmp_path, "s,f\np,m\nq,m\nr,m\n", "groups.csv")
    rows = read_features(path, str(groups), folder=tmp_path)
    assert rows.groups.tolist() == ["m", "m", "m", "f"]
    frame["id"] = ["p", "q", "p", "s"]
    path = save_frame(tmp_path, frame)
    with pytest.raises(Failure, match=r"row 2 \(counted.*the id p is in row 0 as well"):
        read_features(path, str(groups), folder=tmp_path)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("b", np.nan, r"row 2 \(counted from 0\), column b has no value.*--drop b"),
        ("b", np.inf, r"row 2 \(counted from 0\), column b is inf"),
        ("sex", None, r"row 2 \(counted from 0\), column sex has no value, but holds"),
    ],
)
def test_bad_parquet_values(tmp_path, pandas, monkeypatch, column, value, message):
    from scalefair.cli import _feature_parquet

    monkeypatch.setattr(_feature_parquet, "_BLOCK", 3)  # a row at a time
    frame = make_frame(pandas)
    frame.loc[2, column] = value
    with pytest.raises(Failure, match=message):
        read_features(
            save_frame(tmp_path, frame), "sex", folder=tmp_path, drop=["born"]
        )


@pytest.mark.parametrize("error", [KeyError, TypeError])
def test_parquet_with_damaged_notes_of_pandas(tmp_path, pandas, monkeypatch, error):
    def fail(batch):
        raise error("numpy_type")

    monkeypatch.setattr(FrozenBatch, "to_pandas", fail)
    path = save_frame(tmp_path, make_frame(pandas))
    with pytest.raises(Failure, match=r"not a parquet file, or damaged .*numpy_type"):
        read_features(path, "sex", folder=tmp_path)


def test_parquet_without_columns(tmp_path, pandas):
    path = save_frame(tmp_path, pandas.DataFrame())
    groups = write(tmp_path, "f\nm\n", "groups.txt")
    with pytest.raises(Failure, match="no column is left as a feature"):
        read_features(path, str(groups), folder=tmp_path)


def test_parquet_columns_of_one_name(tmp_path, pandas):
    frame = make_frame(pandas).rename(columns={"b": "a"})
    path = save_frame(tmp_path, frame)
    with pytest.raises(Failure, match=r"several columns are named 'a'\. Rename them"):
        read_features(path, "sex", folder=tmp_path)


def test_parquet_columns_of_words(tmp_path, pandas):
    path = save_frame(tmp_path, make_frame(pandas))
    with pytest.raises(Failure, match=r"column born does not hold numbers\. Leave"):
        read_features(path, "sex", folder=tmp_path)
    with pytest.raises(Failure, match="2 columns are not numbers: sex, born"):
        read_features(path, "a", folder=tmp_path)


def test_damaged_and_empty_parquet(tmp_path, pandas):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(Failure, match=r"not a parquet file, .*magic bytes not found"):
        read_features(path, "sex", folder=tmp_path)
    path = save_frame(tmp_path, make_frame(pandas).iloc[:0])
    with pytest.raises(Failure, match="is empty: it has no rows"):
        read_features(path, "sex", folder=tmp_path, drop=["born"])


@pytest.mark.parametrize("absent", ["pandas", "pyarrow"])
def test_parquet_without_its_readers(tmp_path, monkeypatch, absent):
    names = {name for name in sys.modules if name.startswith(f"{absent}.")}
    for name in {absent, f"{absent}.api", *names}:
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "rows.parquet"
    path.touch()
    with pytest.raises(Failure, match=r'pip install "scalefair\[data\]"'):
        read_features(path, "sex", folder=tmp_path)


def test_parquet_of_pyarrow(tmp_path):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "rows.parquet"
    frame = make_frame(pandas).set_index(np.arange(4) * 10)
    frame.to_parquet(path)
    rows = read_features(path, "sex", folder=tmp_path, drop=["born"])
    np.testing.assert_array_equal(
        rows.matrix, [[1, 0.5, 1], [2, 1.5, 0], [3, 2.5, 1], [4, 3.5, 1]]
    )
    assert rows.groups.tolist() == ["f", "m", "m", "f"]
    frame.loc[20, "b"] = np.nan
    frame.to_parquet(path)
    with pytest.raises(Failure, match=r"row 2 .*column b has no value"):
        read_features(path, "sex", folder=tmp_path, drop=["born"])
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(Failure, match="not a parquet file"):
        read_features(path, "sex", folder=tmp_path)


def test_scaling_reads_blocks(folder, monkeypatch):
    """A memory-mapped array gives a memory-mapped one when it is large."""
    monkeypatch.setattr(_feature_store, "_LIMIT", 100)
    path = folder / "X.npy"
    np.save(path, np.random.default_rng(0).normal(size=(30, 2)))
    scaled = _feature_scaling.standardize(np.load(path, mmap_mode="r"), folder)
    assert isinstance(scaled.matrix, np.memmap)
    np.testing.assert_allclose(scaled.matrix.std(axis=0, ddof=1), 1)
