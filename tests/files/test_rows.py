"""Rows in files: dense and sparse arrays, of which nothing is believed, and others."""

import io
import os
import pickle
import zipfile
from decimal import Decimal

import numpy as np
import pandas
import pytest
from pyarrow import parquet
from scipy import sparse

from scalefair.files import (
    FileError,
    NpyReader,
    NpzReader,
    ParquetReader,
    SvmlightReader,
    read_graph,
    read_table,
)
from scalefair.files._matrices import read_dense, rows_format


def saying(shape, dtype="<f8", content=b""):
    """Bytes of a file of an array that claims a shape."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


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


@pytest.mark.parametrize(
    "shape",
    [(-4, 2), (-1, 2), (4, -2), (-4, -2), (10**30, 2), (2**32, 2**32), (2**60, 1)],
)
def test_shapes_that_no_array_has(shape, tmp_path):
    path = tmp_path / "rows.npy"
    path.write_bytes(saying(shape, content=bytes(64)))
    with pytest.raises(FileError, match=r"not an array .*no array has the shape"):
        NpyReader(path)
    with pytest.raises(FileError, match=r"no array has the shape"):
        read_dense(path)
    path.write_bytes(saying((10**12, 2), content=bytes(64)))
    for read in (NpyReader, read_dense):
        with pytest.raises(FileError, match="it is truncated"):
            read(path)


@pytest.fixture
def save(tmp_path):
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


def rows(dtype="f8"):
    return 3 * np.random.default_rng(0).integers(0, 2, (40, 5)).astype(dtype)


def save_arrays(path, X, **other):
    """As save_npz does, but with whatever arrays are given."""
    arrays = {"indices": X.indices, "indptr": X.indptr, "data": X.data}
    np.savez(path, **{**arrays, "format": b"csr", "shape": X.shape, **other})


def test_column_indices_of_blocks(tmp_path):
    columns, indptr = np.array([2**40, 5, 2**33]), np.array([0, 1, 3])
    X = sparse.csr_array((np.ones(3), columns, indptr), shape=(2, 2**40 + 1))
    sparse.save_npz(tmp_path / "wide.npz", X)
    block = NpzReader(tmp_path / "wide.npz").block(0)
    assert block.indices.dtype == np.int64
    assert block.indices.tolist() == [2**40, 5, 2**33]
    # Entries are put in order, those at the same place added up.
    X = sparse.csr_array(([1.0, 2.0, 4.0, 8.0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    sparse.save_npz(tmp_path / "rows.npz", X)
    block = NpzReader(tmp_path / "rows.npz").block(0)
    assert block.has_canonical_format
    assert block.indices.tolist() == [0, 2, 1]
    assert block.data.tolist() == [2.0, 5.0, 8.0]


def test_a_pass_reads_each_file_once(tmp_path, monkeypatch):
    X = sparse.random_array((5000, 20), density=0.3, rng=0, format="csr")
    sparse.save_npz(tmp_path / "rows.npz", X, compressed=False)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=20_000)
    n_read = []
    read = zipfile.ZipExtFile.read

    def counted(self, n=-1):
        content = read(self, n)
        n_read.append(len(content))
        return content

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    assert sum(block.nnz for block in reader.blocks()) == X.nnz
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert size <= sum(n_read) <= size + 3000
    # A block for itself is found at once if nothing is compressed.
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # would read from the start
    last = X[-reader.lengths[-1] :].toarray()
    assert np.array_equal(reader.block(-1).toarray(), last)


def test_several_files(tmp_path):
    first, second = tmp_path / "0.npz", tmp_path / "1.npz"
    sparse.save_npz(first, sparse.csr_array(rows("f4")))
    sparse.save_npz(second, sparse.csr_array(rows("f8")))
    reader = NpzReader([first, second])
    assert reader.dtype == np.float64
    assert reader.block(0).dtype == np.float64
    assert np.array_equal(reader.block(1).toarray(), rows())
    assert NpzReader([first, first]).dtype == np.float32
    sparse.save_npz(second, sparse.csr_array(rows()[:, 1:]))
    with pytest.raises(FileError, match=r"1\.npz: has 4 columns, .*0\.npz has 5"):
        NpzReader([first, second])
    with pytest.raises(ValueError, match="got no file"):
        NpzReader([])
    sparse.save_npz(second, sparse.csr_array((0, 5)))
    assert NpzReader([second, first]).shape == (40, 5)
    with pytest.raises(FileError, match=r"1\.npz: has no rows"):
        NpzReader([second])


def csr():
    return sparse.csr_array(rows())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"format": b"csc"}, r"it is of format 'csc'\. Save X\.tocsr\(\)"),
        ({"shape": np.array([40])}, "two dimensions"),
        ({"shape": np.array([40, 0])}, "it has 0 columns"),
        ({"indices": csr().indices[:-1]}, "do not fit each other"),
        ({"indptr": np.arange(41)}, "row pointers are wrong"),
        ({"indptr": csr().indptr[::-1]}, "row pointers are wrong"),
        ({"indices": csr().indices * 1.0}, "indices are of the type float64"),
        ({"data": csr().data * 1j}, "data are of the type complex"),
    ],
)
def test_sparse_arrays_that_are_no_rows(other, message, tmp_path):
    save_arrays(tmp_path / "rows.npz", csr(), **other)
    with pytest.raises(FileError, match=rf"rows\.npz: .*{message}.* again\."):
        NpzReader(tmp_path / "rows.npz")
    np.savez(tmp_path / "rows.npz", x=np.ones(3))
    with pytest.raises(FileError, match=r"rows\.npz: not a CSR matrix .*format\.npy"):
        NpzReader(tmp_path / "rows.npz")


@pytest.mark.parametrize("column", [-1, 5, 2**31])
def test_column_indices_are_checked_when_read(column, tmp_path):
    # Before they are used by compiled code.
    indices = csr().indices.astype(np.int64)
    indices[-1] = column
    save_arrays(tmp_path / "rows.npz", csr(), indices=indices)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=2**11)
    reader.block(0)
    with pytest.raises(FileError, match="column indices beyond the number of columns"):
        reader.block(-1)


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_is_found_by_its_checksum(compressed, tmp_path):
    path = tmp_path / "rows.npz"
    X = sparse.random_array((2000, 20), density=0.5, rng=0, format="csr")
    sparse.save_npz(path, X, compressed=compressed)
    reader = NpzReader(path, max_bytes=2**16)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.getinfo("data.npy")
    content[member.header_offset + member.compress_size // 2] ^= 1
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # a disk's fault
    with pytest.raises(FileError, match=r"rows\.npz: not a CSR .* or damaged"):
        list(reader.blocks())


def rewrite(path, **members):
    """Change members of an archive, each by a function of its bytes."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            change = members.get(name.removesuffix(".npy"), bytes)
            archive.writestr(name, change(content))


@pytest.mark.parametrize("name", ["indptr", "indices", "data", "shape", "format"])
def test_arrays_of_another_length_than_they_say(name, tmp_path):
    path = tmp_path / "rows.npz"
    save_arrays(path, csr())
    rewrite(path, **{name: lambda content: content[:-1]})
    with pytest.raises(FileError, match=rf"damaged \({name} is of \d+ bytes, but says"):
        NpzReader(path)


def test_a_bomb_of_row_pointers(tmp_path, monkeypatch):
    """2 million rows without entries: 16 MB of zeros in 16 kB."""
    path, m = tmp_path / "rows.npz", 2_000_000
    save_arrays(path, csr())
    rewrite(
        path,
        indptr=lambda _: saying((m + 1,), "<i8", bytes(8 * (m + 1))),
        shape=lambda _: saying((2,), "<i8", np.array([m, 5]).tobytes()),
        data=lambda _: saying((0,)),
        indices=lambda _: saying((0,), "<i4"),
    )
    assert path.stat().st_size < 20_000
    assert NpzReader(path).shape == (m, 5)
    monkeypatch.setattr("scalefair._memory.available_memory", lambda: 10**6)
    with pytest.raises(MemoryError, match=r"the row pointers of .*rows\.npz need"):
        NpzReader(path)


def test_rows_of_more_entries_than_columns(tmp_path):
    path, n = tmp_path / "rows.npz", 100_000
    zeros = {"indices": np.zeros(n, np.int32), "data": np.zeros(n)}
    save_arrays(path, csr(), shape=(2, 5), indptr=np.array([0, 0, n]), **zeros)
    assert NpzReader(path).block(0).nnz <= 5
    with pytest.raises(FileError, match="a row has more entries than there are"):
        NpzReader(path, max_bytes=2**16)


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
    reader = SvmlightReader(write(LINES + "\n1 0:1"), max_bytes=100)
    assert reader.zero_based  # a feature 0 anywhere tells it
    assert np.array_equal(reader.block(0).toarray()[0], [0, 2.5, 0, 4])
    with pytest.raises(FileError, match=r"rows\.svm: has a feature 0, but features"):
        SvmlightReader(write("1 0:1\n"), zero_based=False)
    with pytest.raises(ValueError, match='zero_based must be True, False or "auto"'):
        SvmlightReader(write(LINES), zero_based="maybe")


def test_more_features_than_occur(write):
    reader = SvmlightReader(write(LINES), n_features=6)
    assert reader.block(0).shape == (4, 6)
    with pytest.raises(FileError, match="has 3 features, more than n_features=2"):
        SvmlightReader(write(LINES), n_features=2)
    with pytest.raises(FileError, match=r"rows\.svm: has 0 features"):
        SvmlightReader(write("1\n-1\n"))
    reader = SvmlightReader(write("1\n-1\n"), n_features=2)
    assert np.array_equal(reader.block(0).toarray(), np.zeros((2, 2)))


@pytest.mark.parametrize(
    "line", ["word 1:2", "1 1:2 1:3", "1 3:1 2:1", "1 1:word", "1 2", "1 -1:2"]
)
def test_lines_that_are_none(write, line):
    path = write(f"1 1:2\n1 1:3\n{line}\n")
    with pytest.raises(FileError, match=r"rows\.svm:3: .* wrong.* rising numbers"):
        SvmlightReader(path, max_bytes=50)


def test_empty_and_compressed_files(write):
    with pytest.raises(FileError, match=r"rows\.svm: has no rows"):
        SvmlightReader(write("\n# 1 1:2\n"))
    path = write("")
    for start in (b"\x1f\x8b\x08\x00", b"BZh9", b"\xfd7zXZ\x00"):
        path.write_bytes(start)
        with pytest.raises(FileError, match=r"is compressed.* Unpack it first"):
            SvmlightReader(path)


def test_labels_are_not_sent_to_workers(write):
    pytest.importorskip("dask")
    reader = SvmlightReader(write("1 1:1\n" * 2000), max_bytes=20_000)
    values = reader.delayed()
    assert len(reader.labels) == 2000
    assert len(pickle.dumps(values[0])) < 8 * 2000
