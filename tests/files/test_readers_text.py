"""Readers of tables: columns of parquet files, lines in svmlight format."""

import pickle
from decimal import Decimal

import numpy as np
import pytest

from scalefair.files import ParquetReader, SvmlightReader


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "rows.svm"
        path.write_text(text)
        return path

    return write


LINES = "# comment\n1 1:2.5 3:4\n\n-1 qid:3 2:5 # words\n0.5\n1 1:6"
WANTED = np.array([[2.5, 0, 4], [0, 5, 0], [0, 0, 0], [6, 0, 0]])


@pytest.mark.parametrize("max_bytes", [1, 100, 250, 2**20])
def test_lines(write, max_bytes):
    reader = SvmlightReader(write(LINES), max_bytes=max_bytes)
    assert reader.labels.tolist() == [1, -1, 0.5, 1]
    assert not reader.zero_based
    assert reader.nnz == 4
    blocks = [block.toarray() for block in reader.blocks()]
    assert np.array_equal(np.concatenate(blocks), WANTED)
    assert len(pickle.loads(pickle.dumps(reader)).labels) == 4


def test_where_features_count_from(write):
    reader = SvmlightReader(write(LINES), zero_based=True)
    assert reader.shape == (4, 4)
    assert np.array_equal(reader.block(0).toarray()[:, 1:], WANTED)
    # A feature 0 anywhere tells that all count from 0.
    reader = SvmlightReader(write(LINES + "\n1 0:1"), max_bytes=100)
    assert reader.zero_based
    assert np.array_equal(reader.block(0).toarray()[0], [0, 2.5, 0, 4])
    with pytest.raises(ValueError, match=r"rows\.svm: has a feature 0, but zero_based"):
        SvmlightReader(write("1 0:1\n"), zero_based=False)
    with pytest.raises(ValueError, match='zero_based must be True, False or "auto"'):
        SvmlightReader(write(LINES), zero_based="maybe")


def test_more_features_than_occur(write):
    reader = SvmlightReader(write(LINES), n_features=6)
    assert reader.block(0).shape == (4, 6)
    with pytest.raises(ValueError, match="has 3 features, more than n_features=2"):
        SvmlightReader(write(LINES), n_features=2)
    with pytest.raises(ValueError, match=r"rows\.svm: has 0 features"):
        SvmlightReader(write("1\n-1\n"))
    reader = SvmlightReader(write("1\n-1\n"), n_features=2)
    assert np.array_equal(reader.block(0).toarray(), np.zeros((2, 2)))


@pytest.mark.parametrize(
    "line", ["word 1:2", "1 1:2 1:3", "1 3:1 2:1", "1 1:word", "1 2", "1 -1:2"]
)
def test_lines_that_are_none(write, line):
    path = write(f"1 1:2\n1 1:3\n{line}\n")
    message = (
        r"rows\.svm: not in svmlight format between bytes 12 and .* rising indices"
    )
    with pytest.raises(ValueError, match=message):
        SvmlightReader(path, max_bytes=50)


def test_empty_and_compressed_files(write):
    for text in "", "\n\n", "# 1 1:2\n":
        with pytest.raises(ValueError, match=r"rows\.svm: has no rows"):
            SvmlightReader(write(text))
    path = write("")
    path.write_bytes(b"\x1f\x8b\x08\x00")
    with pytest.raises(ValueError, match=r"is compressed.* Unpack it first"):
        SvmlightReader(path)


def test_labels_are_not_sent_to_workers(write):
    dask = pytest.importorskip("dask")
    reader = SvmlightReader(write("1 1:1\n" * 2000), max_bytes=20_000)
    assert len(reader) > 3
    values = reader.delayed()
    assert len(reader.labels) == 2000
    assert sum(block.shape[0] for block in dask.compute(*values)) == 2000
    assert len(pickle.dumps(values[0])) < 8 * 2000


@pytest.fixture
def save(tmp_path):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")

    def save(columns, index=None, **options):
        path = tmp_path / "rows.parquet"
        pd.DataFrame(columns, index=index).to_parquet(path, **options)
        return path

    return save


def test_types_of_columns(save):
    columns = {
        "real": np.array([0.5, 1.5, 2.5, 3.5]),
        "single": np.array([1, 2, 3, 4], np.float32),
        "integer": np.array([1, 2, 3, 2**60 + 1]),
        "boolean": np.array([True, False, True, False]),
        "decimal": [Decimal("1.25")] * 4,
    }
    reader = ParquetReader(save(columns, row_group_size=3))
    assert reader.feature_names.tolist() == list(columns)
    assert reader.dtype == np.float64
    wanted = np.array([[float(x) for x in column] for column in columns.values()]).T
    assert np.array_equal(np.concatenate(list(reader.blocks())), wanted)
    single = ParquetReader(save(columns), columns=["single"])
    assert single.dtype == single.block(0).dtype == np.float32


def test_missing_values_are_nan(save):
    pd = pytest.importorskip("pandas")
    columns = {
        "real": [1.0, np.nan],
        "integer": pd.array([1, None], dtype="Int64"),
        "boolean": pd.array([None, True], dtype="boolean"),
    }
    block = ParquetReader(save(columns)).block(0)
    assert np.array_equal(np.isnan(block), [[False, False, True], [True, True, False]])


def test_columns_in_their_order(save):
    path = save({"a": [1, 2], "b": [3, 4], "c": ["x", "y"]}, index=[7, 8])
    reader = ParquetReader(path, columns=["b", "a"])
    assert reader.feature_names.tolist() == ["b", "a"]
    assert reader.block(0).tolist() == [[3, 1], [4, 2]]
    with pytest.raises(ValueError, match=r"1 column\(s\) do not hold numbers: 'c'"):
        ParquetReader(path)
    with pytest.raises(ValueError, match=r"has no column 'd'\. It has 'a', 'b', 'c'"):
        ParquetReader(path, columns=["a", "d"])
    with pytest.raises(ValueError, match="columns must be a list of names, got 'a'"):
        ParquetReader(path, columns="a")
    with pytest.raises(ValueError, match="no columns are chosen"):
        ParquetReader(path, columns=[])


@pytest.mark.parametrize("name", [None, "who"])
def test_index_is_no_feature(save, name):
    pd = pytest.importorskip("pandas")
    path = save({"a": [1, 2]}, index=pd.Index([7, 8], name=name))
    assert ParquetReader(path).feature_names.tolist() == ["a"]


@pytest.mark.parametrize("max_bytes", [1, 16 * 3, 16 * 10, 16 * 25, 16 * 26, 2**20])
def test_row_groups_are_put_together_and_cut(save, max_bytes):
    X = np.arange(200.0).reshape(100, 2)
    path = save({"a": X[:, 0], "b": X[:, 1]}, row_group_size=13)
    reader = ParquetReader(path, max_bytes=max_bytes)
    blocks = list(reader.blocks())
    assert np.array_equal(np.concatenate(blocks), X)
    assert all(block.nbytes <= max_bytes or len(block) == 1 for block in blocks)
    for number, block in enumerate(blocks):
        assert np.array_equal(reader.block(number), block)
    assert len(blocks) == {48: 38, 160: 15, 400: 7, 416: 4}.get(
        max_bytes, 100 if max_bytes == 1 else 1
    )


def test_no_rows_in_a_table(save):
    with pytest.raises(ValueError, match=r"rows\.parquet: has no rows"):
        ParquetReader(save({"a": np.empty(0)}))
