"""Arrays of numbers in NumPy's formats: what may be in them, and what may not."""

import io
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from scalefair.cli._npy_file import open_array
from scipy import sparse

from scalefair._memory import sparse_bounds
from scalefair.cli._errors import Failure
from scalefair.files import NpyReader, NpzReader, _rows_sparse

TYPES = ["f4", "f8", ">f4", ">f8", "f2", "i1", "u8", ">i4", "?", "g"]


def rows(dtype="f8"):
    values = np.random.default_rng(0).integers(0, 2, (40, 5))
    return (values if dtype == "?" else 3 * values).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_types_of_dense_rows(dtype, tmp_path):
    np.save(tmp_path / "rows.npy", rows(dtype))
    reader = NpyReader(tmp_path / "rows.npy", max_bytes=400)
    wanted = np.dtype(np.float32 if dtype.endswith("f4") else np.float64)
    assert reader.dtype == wanted
    blocks = list(reader.blocks())
    assert {block.dtype for block in blocks} == {wanted}
    assert max(block.nbytes for block in blocks) <= 400
    assert np.array_equal(np.concatenate(blocks), rows(dtype))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_types_of_sparse_rows(dtype, compressed, tmp_path):
    X = sparse.csr_array(rows("i8"))
    X = sparse.csr_array(
        (X.data.astype(dtype), X.indices.astype(">i8"), X.indptr), shape=X.shape
    )
    save_arrays(tmp_path / "rows.npz", X, compressed=compressed)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=1600)
    wanted = np.dtype(np.float32 if dtype.endswith("f4") else np.float64)
    assert reader.dtype == wanted
    blocks = list(reader.blocks())
    assert len(blocks) > 3
    assert {block.dtype for block in blocks} == {wanted}
    assert {block.indices.dtype for block in blocks} == {np.dtype(np.int32)}
    found = np.concatenate([block.toarray() for block in blocks])
    assert np.array_equal(found, rows("i8") != 0 if dtype == "?" else rows("i8"))


def save_arrays(path, X, *, compressed=False, **other):
    """As save_npz does, but with whatever arrays are given."""
    arrays = {
        "indices": X.indices,
        "indptr": X.indptr,
        "data": X.data,
        "format": b"csr",
        "shape": X.shape,
    } | other
    (np.savez_compressed if compressed else np.savez)(path, **arrays)


def test_column_indices_that_need_int64(tmp_path):
    columns = np.array([2**40, 5, 2**33])
    X = sparse.csr_array(
        (np.ones(3), columns, np.array([0, 1, 3])), shape=(2, 2**40 + 1)
    )
    sparse.save_npz(tmp_path / "wide.npz", X)
    block = NpzReader(tmp_path / "wide.npz").block(0)
    assert block.indices.dtype == np.int64
    assert block.indices.tolist() == [2**40, 5, 2**33]


def test_entries_are_put_in_order(tmp_path):
    X = sparse.csr_array(([1.0, 2.0, 4.0, 8.0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    sparse.save_npz(tmp_path / "rows.npz", X)
    reader = NpzReader(tmp_path / "rows.npz")
    assert reader.nnz == 4
    block = reader.block(0)
    assert block.has_canonical_format
    assert block.indices.tolist() == [0, 2, 1]
    assert block.data.tolist() == [2.0, 5.0, 8.0]


def test_a_pass_reads_each_file_once(tmp_path, monkeypatch):
    X = sparse.random_array((5000, 20), density=0.3, rng=0, format="csr")
    sparse.save_npz(tmp_path / "rows.npz", X)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=20_000)
    n_read = []
    read = zipfile.ZipExtFile.read

    def counted(self, n=-1):
        found = read(self, n)
        n_read.append(len(found))
        return found

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    assert sum(block.nnz for block in reader.blocks()) == X.nnz
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert size <= sum(n_read) <= size + 3000


def test_a_block_is_found_at_once_if_not_compressed(tmp_path, monkeypatch):
    X = sparse.random_array((5000, 20), density=0.3, rng=0, format="csr")
    sparse.save_npz(tmp_path / "rows.npz", X, compressed=False)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=20_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)  # would read from the start
    assert np.array_equal(
        reader.block(-1).toarray(), X[-reader.lengths[-1] :].toarray()
    )


def test_several_files_of_several_types(tmp_path):
    first, second = tmp_path / "0.npz", tmp_path / "1.npz"
    sparse.save_npz(first, sparse.csr_array(rows("f4")))
    sparse.save_npz(second, sparse.csr_array(rows("f8")))
    reader = NpzReader([first, second])
    assert reader.dtype == np.float64
    assert {block.dtype for block in reader.blocks()} == {np.dtype(np.float64)}
    assert np.array_equal(reader.block(1).toarray(), rows())
    assert NpzReader([first, first]).dtype == np.float32


def test_several_files_that_do_not_fit(tmp_path):
    first, second = tmp_path / "0.npz", tmp_path / "1.npz"
    sparse.save_npz(first, sparse.csr_array(rows()))
    sparse.save_npz(second, sparse.csr_array(rows()[:, 1:]))
    with pytest.raises(ValueError, match=r"1\.npz: has 4 columns, .*0\.npz has 5"):
        NpzReader([first, second])
    with pytest.raises(ValueError, match="got no file"):
        NpzReader([])
    sparse.save_npz(second, sparse.csr_array((0, 5)))
    assert NpzReader([second, first]).shape == (40, 5)
    with pytest.raises(ValueError, match=r"1\.npz: has no rows"):
        NpzReader([second])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"found shape \(3,\). Reshape"),
        (np.ones((0, 3)), r"at least one row .* found shape \(0, 3\)"),
        (np.ones((3, 0)), r"found shape \(3, 0\)"),
        (np.ones((3, 2), complex), "real numbers, found the type complex128"),
        (np.array([["a", "b"]]), "real numbers, found the type <U1"),
        (np.array([[None]]), "real numbers, found the type object"),
    ],
)
def test_dense_arrays_that_are_no_rows(array, message, tmp_path):
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(ValueError, match=rf"rows\.npy: .*{message}"):
        NpyReader(tmp_path / "rows.npy")


def test_damaged_header_of_an_array(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, rows())
    path.write_bytes(path.read_bytes().replace(b"(40, 5)", b"(40, 5|"))
    with pytest.raises(ValueError, match=r"rows\.npy: not an array .* or damaged"):
        NpyReader(path)
    path = tmp_path / "rows.npz"
    sparse.save_npz(path, csr(), compressed=False)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data.npy"] = members["data.npy"].replace(b",)", b",|")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=r"rows\.npz: not a CSR .* or damaged"):
        NpzReader(path)


def csr():
    return sparse.csr_array(rows())


WRONG = {
    "format": ({"format": b"csc"}, "it is of format 'csc'"),
    "shape": ({"shape": np.array([40])}, "two dimensions"),
    "pointers": ({"indptr": csr().indptr[:-1]}, "do not fit each other"),
    "indices": ({"indices": csr().indices[:-1]}, "do not fit each other"),
    "last pointer": ({"indptr": np.arange(41)}, "row pointers are wrong"),
    "falling": ({"indptr": csr().indptr[::-1]}, "row pointers are wrong"),
    "real indices": ({"indices": csr().indices * 1.0}, "of the wrong kind"),
    "complex": ({"data": csr().data * 1j}, "real numbers, found the type complex"),
    "objects": ({"data": csr().data.astype(object)}, "found the type object"),
    "no columns": ({"shape": np.array([40, 0])}, "it has 0 columns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_sparse_arrays_that_are_no_rows(case, tmp_path):
    other, message = WRONG[case]
    save_arrays(tmp_path / "rows.npz", csr(), **other)
    with pytest.raises(ValueError, match=rf"rows\.npz: .*{message}.*\. Save"):
        NpzReader(tmp_path / "rows.npz")


def test_archives_of_other_things(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.ones(3))
    with pytest.raises(ValueError, match=r"rows\.npz: not a CSR matrix .*format\.npy"):
        NpzReader(tmp_path / "rows.npz")
    sparse.save_npz(tmp_path / "rows.npz", sparse.csc_array(rows()))
    with pytest.raises(ValueError, match=r"format 'csc': save X\.tocsr\(\)"):
        NpzReader(tmp_path / "rows.npz")


@pytest.mark.parametrize("column", [-1, 5, 2**31])
def test_column_indices_are_checked_when_read(column, tmp_path):
    # Before they are used by compiled code.
    indices = csr().indices.astype(np.int64)
    indices[-1] = column
    save_arrays(tmp_path / "rows.npz", csr(), indices=indices)
    reader = NpzReader(tmp_path / "rows.npz", max_bytes=2**11)
    reader.block(0)
    with pytest.raises(ValueError, match="column indices beyond the number of columns"):
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
    with pytest.raises(ValueError, match=r"rows\.npz: not a CSR .* or damaged"):
        list(reader.blocks())


def test_members_are_read_without_seeking(tmp_path, monkeypatch):
    # After a seek forward, zipfile compares no checksum of members as they are.
    path = tmp_path / "rows.npz"
    X = sparse.random_array((2000, 20), density=0.5, rng=0, format="csr")
    sparse.save_npz(path, X, compressed=False)
    reader = NpzReader(path, max_bytes=2**16)
    seek = zipfile.ZipExtFile.seek

    def checked(self, offset, whence=0):
        assert offset == self.tell()
        return seek(self, offset, whence)

    monkeypatch.setattr(zipfile.ZipExtFile, "seek", checked)
    assert sum(block.nnz for block in reader.blocks()) == X.nnz


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
    with pytest.raises(
        ValueError, match=rf"damaged \({name} is of \d+ bytes, but says"
    ):
        NpzReader(path)


def saying(shape, dtype="<f8", content=b""):
    """A file of an array that claims a shape."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


@pytest.mark.parametrize(
    "shape",
    [(-4, 2), (-1, 2), (4, -2), (-4, -2), (10**30, 2), (2**32, 2**32), (2**60, 1)],
)
def test_shapes_that_no_array_has(shape, tmp_path):
    path = tmp_path / "rows.npy"
    path.write_bytes(saying(shape, content=bytes(64)))
    with pytest.raises(ValueError, match=r"not an array .*no array has the shape"):
        NpyReader(path)
    with pytest.raises(Failure, match=r"not an array .*no array has the shape"):
        open_array(path)


def test_an_array_larger_than_its_file(tmp_path):
    path = tmp_path / "rows.npy"
    path.write_bytes(saying((10**12, 2), content=bytes(64)))
    with pytest.raises(ValueError, match="is truncated"):
        NpyReader(path)
    with pytest.raises(Failure, match="it is truncated"):
        open_array(path)


@pytest.mark.parametrize("name", ["indptr", "shape", "format"])
def test_an_archive_that_says_more_than_it_has(name, tmp_path):
    """A few kB that claim 10^11 rows, or a shape of 10^11 numbers."""
    path = tmp_path / "rows.npz"
    save_arrays(path, csr(), shape=(10**11, 5))
    rewrite(path, **{name: lambda _: saying((10**11 + 1,), "<i8", bytes(2**20))})
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=rf"damaged \({name} is of"):
        NpzReader(path)


def test_a_bomb_of_row_pointers_is_read_in_pieces(tmp_path):
    """20 million rows without entries: 160 MB of zeros in 160 kB."""
    path, m = tmp_path / "rows.npz", 20_000_000
    save_arrays(path, csr())
    rewrite(
        path,
        indptr=lambda _: saying((m + 1,), "<i8", bytes(8 * (m + 1))),
        shape=lambda _: saying((2,), "<i8", np.array([m, 5]).tobytes()),
        data=lambda _: saying((0,)),
        indices=lambda _: saying((0,), "<i4"),
    )
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    try:
        reader = NpzReader(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert reader.shape == (m, 5)
    assert peak < 20e6


def test_a_row_of_more_entries_than_columns(tmp_path):
    path, n = tmp_path / "rows.npz", 100_000
    save_arrays(
        path,
        csr(),
        shape=(2, 5),
        indptr=np.array([0, 0, n]),
        indices=np.zeros(n, np.int32),
        data=np.zeros(n),
    )
    assert NpzReader(path).block(0).nnz <= 5
    with pytest.raises(ValueError, match="a row has more entries than there are"):
        NpzReader(path, max_bytes=2**16)


@pytest.mark.parametrize("max_bytes", [1, 600, 5000, 40_000, 2**26])
def test_blocks_do_not_depend_on_the_pieces(max_bytes, tmp_path, monkeypatch):
    """Row pointers are read in pieces, however long rows are."""
    lengths = np.random.default_rng(0).integers(0, 60, 700)
    lengths[100:300] = 0
    X = csr_of(lengths)
    sparse.save_npz(tmp_path / "rows.npz", X)
    wanted = NpzReader(tmp_path / "rows.npz", max_bytes=max_bytes).lengths
    bounds = sparse_bounds(X.indptr, 12, max_bytes)
    assert wanted.tolist() == np.diff(bounds).tolist()
    for pointers in 1, 7, 64:
        monkeypatch.setattr(_rows_sparse, "_POINTERS", pointers)
        reader = NpzReader(tmp_path / "rows.npz", max_bytes=max_bytes)
        assert np.array_equal(reader.lengths, wanted)
        found = sparse.vstack(list(reader.blocks()), format="csr")
        assert (found != X).nnz == 0


def csr_of(lengths):
    """Rows of given numbers of entries."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate([np.arange(k) for k in lengths]).astype(np.int32)
    data = np.arange(1.0, len(indices) + 1)
    return sparse.csr_array((data, indices, indptr), shape=(len(lengths), 60))
