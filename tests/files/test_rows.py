"""Dense rows: arrays of NumPy, of which nothing is believed, and parquet files."""

import zipfile
from decimal import Decimal

import numpy as np
import pandas
import pytest
from pyarrow import parquet

from scalefair.files import (
    FileError,
    NpyReader,
    ParquetReader,
    read_graph,
    read_table,
    reading,
)
from scalefair.files._matrices import read_array, rows_format


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"found shape \(3,\) "),
        (np.ones((0, 3)), r"found shape \(0, 3\)"),
        (np.ones((3, 0)), r"found shape \(3, 0\)"),
        (np.ones((3, 2), complex), "real numbers, found .* type complex128"),
        (np.array([["a", "b"]]), "real numbers, found .* type <U1"),
        (np.array([[None]]), r"not an array .*Python objects"),
    ],
)
def test_dense_arrays_that_are_no_rows(array, message, tmp_path):
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(FileError, match=rf"rows\.npy: .*{message}"):
        NpyReader(tmp_path / "rows.npy")


def read_whole(path):
    with reading(path, "an array"), open(path, "rb") as file:
        return read_array(file)


@pytest.mark.parametrize(
    "shape",
    [(-4, 2), (-1, 2), (4, -2), (-4, -2), (10**30, 2), (2**32, 2**32), (2**60, 1)],
)
def test_shapes_that_no_array_has(shape, tmp_path, saying):
    path = tmp_path / "rows.npy"
    path.write_bytes(saying(shape, content=bytes(64)))
    with pytest.raises(FileError, match=r"not an array .*no array has the shape"):
        NpyReader(path)
    with pytest.raises(FileError, match=r"no array has the shape"):
        read_whole(path)
    path.write_bytes(saying((10**12, 2), content=bytes(64)))
    for read in (NpyReader, read_whole):
        with pytest.raises(FileError, match="it is truncated"):
            read(path)


@pytest.fixture
def save(tmp_path):
    pytest.importorskip("pyarrow")

    def save(columns, index=None, **options):
        path = tmp_path / "rows.parquet"
        pandas.DataFrame(columns, index=index).to_parquet(path, **options)
        return path

    return save


def test_types_of_columns(save):
    columns = {
        "real": np.array([0.5, 1.5, 2.5, 3.5]),
        "single": np.array([1, 2, 3, 4], np.float32),
        "integer": np.array([1, 2, 3, 2**60 + 1]),
        "boolean": np.array([True, False, True, False]),
        "decimal": [Decimal("1.25")] * 4,
        "missing": pandas.array([1, None, 3, 4], dtype="Int64"),
    }
    reader = ParquetReader(save(columns, row_group_size=3))
    assert reader.feature_names.tolist() == list(columns)
    assert reader.dtype == np.float64
    columns["missing"] = [1, np.nan, 3, 4]
    expected = np.array([[float(x) for x in column] for column in columns.values()]).T
    np.testing.assert_array_equal(np.concatenate(list(reader.blocks())), expected)
    single = ParquetReader(save(columns), columns=["single"])
    assert single.dtype == single.block(0).dtype == np.float32


def test_columns_in_their_order(save):
    path = save({"a": [1, 2], "b": [3, 4], "c": ["x", "y"]}, index=[7, 8])
    reader = ParquetReader(path, columns=["b", "a"])
    assert reader.feature_names.tolist() == ["b", "a"]
    assert reader.block(0).tolist() == [[3, 1], [4, 2]]
    with pytest.raises(FileError, match=r"1 column\(s\) do not hold numbers: 'c'"):
        ParquetReader(path)
    with pytest.raises(FileError, match=r"has no column 'd'\. It has 'a', 'b', 'c'"):
        ParquetReader(path, columns=["a", "d"])
    with pytest.raises(ValueError, match="columns must be a list of names, got 'a'"):
        ParquetReader(path, columns="a")
    with pytest.raises(FileError, match="no columns are chosen"):
        ParquetReader(path, columns=[])
    with pytest.raises(FileError, match=r"rows\.parquet: has no rows"):
        ParquetReader(save({"a": np.empty(0)}))
    for name in None, "who":  # an index is no feature
        path = save({"a": [1, 2]}, index=pandas.Index([7, 8], name=name))
        assert ParquetReader(path).feature_names.tolist() == ["a"]


@pytest.mark.parametrize("damage", [b"{", b"\xff", b'{"index_columns": 3}'])
def test_damaged_descriptions_of_a_frame(save, damage):
    path = save({"a": [1.0, 2.0]})
    table = parquet.read_table(path)
    parquet.write_table(table.replace_schema_metadata({"pandas": damage}), path)
    with pytest.raises(FileError, match=r"rows\.parquet: not a parquet file"):
        ParquetReader(path)


@pytest.mark.parametrize("max_bytes", [1, 16 * 3, 16 * 10, 16 * 25, 16 * 26, 2**20])
def test_row_groups_are_put_together_and_cut(save, max_bytes):
    X = np.arange(200.0).reshape(100, 2)
    path = save({"a": X[:, 0], "b": X[:, 1]}, row_group_size=13)
    reader = ParquetReader(path, max_bytes=max_bytes)
    blocks = list(reader.blocks())
    assert np.array_equal(np.concatenate(blocks), X)
    for number, block in enumerate(blocks):
        assert np.array_equal(reader.block(number), block)
    step = {1: 1, 48: 3, 160: 10, 400: 13, 416: 26}.get(max_bytes, 100)
    assert [len(block) for block in blocks[:-1]] == [step] * (len(blocks) - 1)


@pytest.mark.parametrize("read", [read_graph, read_table, rows_format])
def test_archives_of_tables_are_to_be_unpacked(read, tmp_path):
    path = tmp_path / "people.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("people.csv", "a,b\n1,2\n")
    with pytest.raises(FileError, match=r"people\.zip: .*people\.csv.* unpack it"):
        read(path)
    np.savez(path.with_suffix(".npz"), x=np.ones(2))
    assert rows_format(path.with_suffix(".npz")) == "npz"
