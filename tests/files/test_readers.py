"""What all readers of files have in common, and which one is chosen."""

import errno
import os
import pathlib
import pickle
import shutil
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from scalefair.files import (
    FileError,
    NpyReader,
    NpzReader,
    ParquetReader,
    SvmlightReader,
    open_rows,
    reading,
)
from scalefair.files._source import SourceFile
from scalefair.streaming import GroupMoments, PartitionedRows, RowReader, is_partitioned

from ..conftest import assert_same_moments

M, N = 83, 7
MAX_BYTES = 2000


def matrix():
    X = np.random.default_rng(0).standard_normal((M, N)).round(6)  # exact as text
    X[np.abs(X) < 0.8] = 0
    X[30:50] = 0
    X[60] = 3.0
    X[-1, -1] = 1.0  # svmlight files end with the last feature that occurs
    return X


def save_npy(path, X):
    np.save(path, X)
    return NpyReader(path, max_bytes=MAX_BYTES)


def save_uncompressed(path, X):
    """As save_npz does, of any type, with long indices."""
    A = sparse.csr_array(X.astype(float))
    arrays = {"indices": A.indices.astype(">i8"), "data": A.data.astype(X.dtype)}
    np.savez(path, **arrays, indptr=A.indptr, format=b"csr", shape=X.shape)


def save_npz(path, X, compressed=False):
    sparse.save_npz(path, sparse.csr_array(X), compressed=compressed)
    return NpzReader(path, max_bytes=MAX_BYTES)


def save_parts(path, X):
    paths = [path.with_name(f"{i}.npz") for i in range(4)]
    for part, name in zip(np.split(X, [0, 20, 60]), paths, strict=True):
        sparse.save_npz(name, sparse.csr_array(part))
    return NpzReader(paths, max_bytes=MAX_BYTES)


def save_parquet(path, X):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("gfedcba"))
    frame.to_parquet(path, row_group_size=50)
    return ParquetReader(path, max_bytes=MAX_BYTES)


def save_svmlight(path, X):
    dump_svmlight_file(X, np.arange(M), str(path), zero_based=False)
    return SvmlightReader(path, max_bytes=MAX_BYTES)


FORMATS = {
    "npy": (save_npy, ".npy"),
    "npy, Fortran order": (lambda path, X: save_npy(path, X.copy("F")), ".npy"),
    "npz": (save_npz, ".npz"),
    "npz, compressed": (partial(save_npz, compressed=True), ".npz"),
    "npz, several": (save_parts, ".npz"),
    "parquet": (save_parquet, ".parquet"),
    "svmlight": (save_svmlight, ".svm"),
}


SINGLE = sorted(set(FORMATS) - {"npz, several"})


@pytest.fixture
def make(tmp_path):
    """Write rows in a format; returns their reader and the file."""

    def make_reader(name, X=None):
        save, extension = FORMATS[name]
        path = tmp_path / f"rows{extension}"
        return save(path, matrix() if X is None else X), path

    return make_reader


@pytest.fixture(params=FORMATS)
def reader(request, make):
    return make(request.param)[0]


def dense(block):
    return block.toarray() if sparse.issparse(block) else block


def held(block):
    if not sparse.issparse(block):
        return block.nbytes
    return block.data.nbytes + block.indices.nbytes


def same(block, other):
    return type(block) is type(other) and np.array_equal(dense(block), dense(other))


def test_blocks_are_the_rows_in_order(reader):
    blocks = list(reader.blocks())
    assert len(reader) == len(blocks) == len(reader.lengths) > 2
    assert [block.shape for block in blocks] == [(k, N) for k in reader.lengths]
    assert min(reader.lengths) >= 1
    assert reader.lengths.dtype == np.int64
    assert reader.shape == (M, N)
    assert np.array_equal(np.concatenate([dense(block) for block in blocks]), matrix())
    for block in blocks:
        assert block.dtype == reader.dtype == np.float64
        assert held(block) <= MAX_BYTES
        if reader.is_sparse:
            assert block.format == "csr"
            assert block.has_canonical_format
            assert block.indices.dtype == block.indptr.dtype == np.int32
        else:
            assert block.flags.c_contiguous
            assert type(block) is np.ndarray
    sizes = [block.nnz if reader.is_sparse else block.size for block in blocks]
    assert reader.nnz == sum(sizes)
    calls = []
    reader.progress = lambda done, n: calls.append((done, n))
    assert is_partitioned(reader)
    rows = PartitionedRows.of(reader)
    assert rows.map(held).gather() == list(map(held, blocks))
    assert calls == [(i + 1, len(reader)) for i in range(len(reader))]


def test_any_block_is_that_of_a_pass(reader):
    """And passes do not disturb each other."""
    first = reader.blocks()
    blocks = [next(first)]
    second = list(reader.blocks())
    blocks += first
    assert all(same(a, b) for a, b in zip(blocks, second, strict=True))
    for number in [*range(len(blocks)), 0, len(blocks) - 1, -1]:
        assert same(reader.block(number), blocks[number])
    with pytest.raises(IndexError):
        reader.block(len(blocks))


def test_moments_are_those_in_memory(reader):
    dask = pytest.importorskip("dask")
    groups = np.array(["a", "b", "c"])[np.arange(M) % 3]
    expected = GroupMoments.from_data(matrix(), groups)
    values = reader.delayed()
    assert len(values) == len(reader)
    for rows in (reader, values):
        with dask.config.set(scheduler="synchronous"):
            actual = GroupMoments.from_data(rows, groups)
        assert_same_moments(actual, expected, rtol=1e-13)


class Blocks(RowReader):
    """Reader of given blocks that says whatever it is told to."""

    def __init__(self, blocks, lengths, n_features=2, is_sparse=False):
        self._blocks, self.lengths = blocks, np.array(lengths)
        self.n_features, self.is_sparse = n_features, is_sparse
        self.dtype, self.nnz = np.dtype(float), 10

    def block(self, number):
        return self._blocks[number]


@pytest.mark.parametrize(
    ("blocks", "options", "message"),
    [
        ([np.ones((3, 2)), np.ones((1, 2))], {}, r"Block 1 .* \(1, 2\), .* \(2, 2\)"),
        ([np.ones((3, 3)), np.ones((2, 3))], {}, r"Block 0 .* \(3, 3\), .* \(3, 2\)"),
        ([np.ones(3), np.ones(2)], {}, r"Block 0 .* shape \(3,\)"),
        ([[[1.0, 2.0]] * 3] * 2, {}, "Block 0 of Blocks is a list: .* an ndarray"),
        ([sparse.csr_array((3, 2))] * 2, {}, "Block 0 .* a csr_array: .* an ndarray"),
        ([sparse.csc_array((3, 2))] * 2, {"is_sparse": True}, "csc_array: .* a CSR"),
    ],
)
def test_blocks_that_are_not_what_the_reader_says(blocks, options, message):
    reader = Blocks(blocks, [3, 2], **options)
    with pytest.raises(ValueError, match=message):
        GroupMoments.from_data(reader, np.arange(5) % 2)


def test_reader_of_many_rows_is_small(tmp_path):
    X = sparse.csr_array((200_000, 3))
    sparse.save_npz(tmp_path / "rows.npz", X)
    np.save(tmp_path / "rows.npy", np.zeros((200_000, 1), np.int8))
    for name in "rows.npz", "rows.npy":
        assert len(pickle.dumps(open_rows(tmp_path / name))) < 2000


@pytest.mark.parametrize("max_bytes", [1, 2**26])
@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_one_row_and_of_all(name, max_bytes, make, monkeypatch):
    monkeypatch.setitem(globals(), "MAX_BYTES", max_bytes)
    reader, _ = make(name)
    # Rows without entries are no block, and no block has rows of two files.
    lengths_of_files = [20, 40, 23] if "several" in name else [M]
    assert reader.lengths.tolist() == ([1] * M if max_bytes == 1 else lengths_of_files)
    blocks = [dense(block) for block in reader.blocks()]
    assert np.array_equal(np.concatenate(blocks), matrix())


@pytest.mark.parametrize("save", [np.save, save_uncompressed])
@pytest.mark.parametrize(
    "dtype", ["f4", "f8", ">f4", ">f8", "f2", "i1", ">i4", "?", "g"]
)
def test_types_of_numbers(dtype, save, tmp_path):
    X = np.random.default_rng(0).integers(0, 2, (40, 5))
    X = (X if dtype == "?" else 3 * X).astype(dtype)
    path = tmp_path / ("rows.npy" if save is np.save else "rows.npz")
    save(path, X)
    reader = open_rows(path, max_bytes=1600)
    expected = np.dtype(np.float32 if dtype.endswith("f4") else np.float64)
    assert reader.dtype == expected
    blocks = list(reader.blocks())
    assert {block.dtype for block in blocks} == {expected}
    assert np.array_equal(np.concatenate([dense(block) for block in blocks]), X)


@pytest.mark.parametrize(
    ("name", "extension", "kind"),
    [
        ("npy", ".npy", NpyReader),
        ("npz", ".npz", NpzReader),
        ("parquet", ".parquet", ParquetReader),
        *(("svmlight", e, SvmlightReader) for e in (".svmlight", ".libsvm", ".SVM")),
    ],
)
def test_reader_is_chosen_by_the_extension(name, extension, kind, make):
    _, path = make(name)
    path = path.rename(path.with_suffix(extension))
    assert type(open_rows(str(path), max_bytes=500)) is kind
    with pytest.raises(FileError, match=r"no reader for the extension '\.gz'. Unpack"):
        open_rows(f"{path}.gz")


@pytest.mark.parametrize("path", ["s3://X.npy", "memory://X.parquet", "gs://b/X.zarr"])
def test_addresses_of_object_stores(path):
    if path.endswith("parquet"):
        pytest.importorskip("pyarrow")
    for address in path, pathlib.Path(path):
        with pytest.raises(FileError, match=r"object store.* dask\.array\.from_zarr"):
            open_rows(address)


@pytest.mark.parametrize("extension", [".npy", ".npz", ".parquet", ".svm"])
def test_files_that_are_none(extension, tmp_path):
    if extension == ".parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"rows{extension}"
    with pytest.raises(FileError, match=rf"rows{extension}: no such file. Check the"):
        open_rows(path)
    path.mkdir()
    with pytest.raises(FileError, match=rf"rows{extension}: is a folder"):
        open_rows(path)
    path.rmdir()
    for content in b"", b"\x93words that are no numbers\n" * 100:
        path.write_bytes(content)
        with pytest.raises(FileError, match=rf"{extension}:.* (not|wrong|has no rows)"):
            open_rows(path)
    for size in 0, -1.0, np.nan, np.inf, "64MB", None, True:
        with pytest.raises(ValueError, match=f"max_bytes must be .* got '?{size}"):
            open_rows(path, max_bytes=size)


@pytest.mark.parametrize("name", ["npy", "npz", "npz, compressed", "parquet"])
def test_truncated_files(name, make):
    _, path = make(name)
    content = path.read_bytes()
    for size in len(content) * 2 // 3, len(content) - 1, 1:
        path.write_bytes(content[:size])
        with pytest.raises(FileError, match=rf"{path.name}: .*(damaged|truncated)"):
            open_rows(path)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.EIO, "disk failure"), r"cannot be read \(disk failure\)"),
        (OSError("as libraries do"), r"not rows, or damaged \(as libraries do\)"),
    ],
)
def test_errors_of_the_system_are_no_damage(error, message):
    with pytest.raises(FileError, match=f"^x: {message}"), reading("x", "rows"):
        raise error


@pytest.mark.parametrize("name", SINGLE)
def test_damage_is_an_error_that_names_the_file(name, make):
    """Whatever is wrong with the bytes, unless numbers are all that it changed."""
    _, path = make(name)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = []
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(rng.integers(1, 6)):  # near the ends, where formats say what
            place = int(rng.integers(min(200, len(content))))
            damaged[place if rng.random() < 0.5 else -1 - place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            reader = open_rows(path, max_bytes=MAX_BYTES)
            assert sum(map(len, map(dense, reader.blocks()))) == reader.shape[0]
        except FileError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert all(message.startswith(f"{path}:") for message in refused)


def grow(path):
    path.write_bytes(path.read_bytes() + b"\n")


def touch(path):
    """As writing in place does, at a moment later."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def replace(path):
    """By a file of the same size and time."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    status = path.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("change", [grow, touch, replace])
@pytest.mark.parametrize("name", SINGLE)
def test_files_that_change(name, change, make):
    reader, path = make(name)
    message = rf"{path.name}: has changed .*reader was made.* Make a new"
    if change is touch:  # during a pass
        reader.progress = lambda done, n: change(path) if done == 1 else None
        with pytest.raises(ValueError, match=message):
            GroupMoments.from_data(reader, np.arange(M) % 2)
    else:
        change(path)
    for read in (lambda: list(reader.blocks()), lambda: reader.block(0)):
        with pytest.raises(FileError, match=message):
            read()
    path.unlink()
    with pytest.raises(FileError, match="no such file"):
        reader.block(0)


@pytest.mark.parametrize("name", ["npy", "npy, Fortran order", "npz, compressed"])
def test_files_that_are_cut_while_they_are_read(name, make, monkeypatch):
    """A memory map would end the process."""
    reader, path = make(name)
    opened = SourceFile.opened

    @contextmanager
    def cut(self, *arguments, **options):
        with opened(self, *arguments, **options) as file:
            os.truncate(path, 200)
            yield file

    monkeypatch.setattr(SourceFile, "opened", cut)
    with pytest.raises(ValueError, match="has changed since its reader was made"):
        reader.block(len(reader) - 1)


def test_other_processes_may_have_copies_of_the_same_time(reader):
    reader.progress = lambda done, n: None  # stays here
    copy = pickle.loads(pickle.dumps(reader))
    assert copy.progress is None
    assert np.array_equal(copy.lengths, reader.lengths)
    assert all(same(a, b) for a, b in zip(copy.blocks(), reader.blocks(), strict=True))
    sources = [file.source for file in getattr(copy, "_files", [])]
    for source in sources or [copy._source]:
        replace(Path(source.path))
    assert all(same(a, b) for a, b in zip(copy.blocks(), copy.blocks(), strict=True))
    touch(Path(source.path))
    with pytest.raises(ValueError, match=r"has changed .*, or is a copy of another"):
        list(copy.blocks())
