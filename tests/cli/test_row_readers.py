"""Rows of features in arrays, and the choice of a reader."""

import click
import numpy as np
import pytest
from scipy import sparse

from scalefair.cli import _block_files
from scalefair.cli._errors import Failure
from scalefair.cli._row_readers import read_rows

X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.5]])


def save(tmp_path, array, name="rows.npy"):
    path = tmp_path / name
    np.save(path, array)
    return path


@pytest.mark.parametrize("dtype", [float, np.float32, ">f8", np.int8, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path, dtype, order):
    expected = np.array(X, dtype=dtype, order=order)
    rows = read_rows(save(tmp_path, expected), affinity="rbf")
    np.testing.assert_array_equal(rows.matrix, expected)
    assert rows.node_ids.tolist() == [0, 1]
    assert (rows.n_features, rows.named, rows.ordered) == (3, False, True)


def test_sparse_rows(tmp_path):
    path = tmp_path / "rows.npz"
    sparse.save_npz(path, sparse.coo_array(-X))
    rows = read_rows(path, affinity="nearest_neighbors")
    np.testing.assert_array_equal(rows.matrix.toarray(), -X)
    assert rows.n_features == 3
    for affinity in ("rbf", "rbf_nystroem"):
        with pytest.raises(Failure, match=f"--affinity {affinity} takes dense rows"):
            read_rows(path, affinity=affinity)


def test_sparse_rows_that_are_not_finite(tmp_path):
    path = tmp_path / "rows.npz"
    sparse.save_npz(path, sparse.csr_array([[0.0, 1.0], [0.0, np.nan]]))
    with pytest.raises(Failure, match=r"1 value\(s\) are NaN .*row 1, column 1"):
        read_rows(path, affinity="nearest_neighbors")


@pytest.mark.parametrize("name", ["rows.csv", "rows.TSV", "rows.txt"])
def test_tables(tmp_path, name):
    path = tmp_path / name
    path.write_text("who,a,b\n1,2,3\n")
    rows = read_rows(path, affinity="rbf", id_column="who")
    np.testing.assert_array_equal(rows.matrix, [[2, 3]])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(5.0), r"found shape \(5,\)\. Reshape it to \(-1, 1\)"),
        (np.ones((2, 2, 2)), r"found shape \(2, 2, 2\)\.$"),
        (np.array(3.0), r"found shape \(\)"),
        (X * 1j, "real numbers, found dtype complex128"),
        (np.array([["a", "b"]]), "real numbers, found dtype <U1"),
        (np.array([[{}, {}]]), "not an array of numbers or strings saved"),
        (np.zeros(3, dtype=[("a", float)]), "two-dimensional"),
        (np.ones((0, 3)), "is empty: 0 rows and 3 features"),
        (np.ones((3, 0)), "is empty: 3 rows and 0 features"),
    ],
)
def test_bad_npy(tmp_path, array, message):
    with pytest.raises(Failure, match=message):
        read_rows(save(tmp_path, array), affinity="rbf")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("chunk", [1, 4, 2**22])
def test_values_that_are_not_finite_are_located(tmp_path, monkeypatch, value, chunk):
    monkeypatch.setattr(_block_files, "_CHUNK", chunk)
    array = np.ones((7, 2))
    array[4, 1] = array[6, 0] = value
    with pytest.raises(Failure, match="NaN or infinite, at row 4, column 1"):
        read_rows(save(tmp_path, array), affinity="rbf")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUM",
        b"neither",
        b"PK\x03\x04 damaged",
        b"\x93NUMPY\x01\x00\x08\x00{'a': ((",  # Python that does not end
        b"\x93NUMPY\x01\x00\x0e\x00{b'a':1,'b':2}\n",
    ],
)
def test_damaged_npy(tmp_path, content):
    path = tmp_path / "rows.npy"
    path.write_bytes(content)
    with pytest.raises(Failure, match="not an array of numbers"):
        read_rows(path, affinity="rbf")


def test_truncated_npy(tmp_path):
    path = save(tmp_path, np.ones((100, 100)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Failure, match="damaged"):
        read_rows(path, affinity="rbf")


def test_archive_under_the_name_of_an_array(tmp_path):
    with open(tmp_path / "rows.npy", "wb") as file:
        np.savez(file, a=X)
    with pytest.raises(Failure, match="not an array of numbers"):
        read_rows(tmp_path / "rows.npy", affinity="rbf")


@pytest.mark.parametrize("name", ["g.mtx", "g.mtx.gz", "g.edges"])
def test_formats_of_graphs(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(Failure, match="holds a graph, but --affinity rbf takes rows"):
        read_rows(tmp_path / name, affinity="rbf")


def test_unknown_extension(tmp_path):
    path = tmp_path / "rows.parquet"
    path.touch()
    with pytest.raises(Failure, match=r"unknown extension .* Use \.npy"):
        read_rows(path, affinity="rbf")


@pytest.mark.parametrize("name", ["r.npy", "r.npz", "r.csv", "r.mtx", "r.xyz"])
def test_missing_file(tmp_path, name):
    with pytest.raises(Failure, match="no such file"):
        read_rows(tmp_path / name, affinity="nearest_neighbors")


@pytest.mark.parametrize("name", ["r.npy", "r.npz", "r.csv"])
def test_folder_instead_of_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(Failure, match="is a folder"):
        read_rows(tmp_path / name, affinity="nearest_neighbors")


@pytest.mark.parametrize("name", ["rows.npy", "rows.npz"])
def test_arrays_have_no_column_of_ids(tmp_path, name):
    with pytest.raises(click.UsageError, match="--id-column"):
        read_rows(tmp_path / name, affinity="rbf", id_column="a")
