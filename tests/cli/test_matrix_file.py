import gzip
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import io, sparse

from scalefair.cli import _memory
from scalefair.cli._errors import Failure
from scalefair.cli._graph_readers import read_graph
from scalefair.cli._npy_file import open_array

TRIANGLE = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [2.0, 0.5, 0.0]])


@pytest.mark.parametrize(
    "kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
)
def test_npz(tmp_path, kind):
    path = tmp_path / "graph.npz"
    sparse.save_npz(path, kind(TRIANGLE))
    graph = read_graph(path)
    np.testing.assert_array_equal(graph.matrix.toarray(), TRIANGLE)
    assert graph.node_ids.tolist() == [0, 1, 2]
    assert (graph.n_edges, graph.named) == (3, False)


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("compressed", [False, True])
def test_matrix_market(tmp_path, symmetry, compressed):
    path = tmp_path / "graph.mtx"
    io.mmwrite(path, sparse.coo_matrix(TRIANGLE), symmetry=symmetry)
    if compressed:
        packed = tmp_path / "graph.mtx.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path = packed
    np.testing.assert_array_equal(read_graph(path).matrix.toarray(), TRIANGLE)


def test_matrix_market_pattern_and_dense(tmp_path):
    path = tmp_path / "graph.mtx"
    path.write_text("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n")
    np.testing.assert_array_equal(read_graph(path).matrix.toarray(), [[0, 1], [1, 0]])
    io.mmwrite(path, TRIANGLE)
    np.testing.assert_array_equal(read_graph(path).matrix.toarray(), TRIANGLE)


def test_integer_and_boolean_weights_become_floats(tmp_path):
    path = tmp_path / "graph.npz"
    for dtype in (bool, np.int8, np.uint64):
        sparse.save_npz(path, sparse.csr_array(TRIANGLE != 0, dtype=dtype))
        assert read_graph(path).matrix.dtype == np.float64


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_located(tmp_path, value):
    matrix = TRIANGLE.copy()
    matrix[1, 2] = value
    path = tmp_path / "graph.npz"
    sparse.save_npz(path, sparse.csr_array(matrix))
    with pytest.raises(Failure, match=r"1 weight.*NaN or infinite.*row 1, column 2"):
        read_graph(path)


def save_other_arrays(path):
    np.savez(path, a=np.arange(3))


def save_objects(path):
    np.savez(path, format=np.array({"a": 1}, dtype=object))


@pytest.mark.parametrize(
    "save",
    [
        save_other_arrays,
        save_objects,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a zip file at all"),
        lambda path: path.write_bytes(b"PK\x03\x04 damaged"),
    ],
)
def test_npz_without_a_sparse_matrix(tmp_path, save):
    path = tmp_path / "graph.npz"
    save(path)
    with pytest.raises(Failure, match="not a sparse matrix saved by"):
        read_graph(path)


def test_truncated_npz(tmp_path):
    path = tmp_path / "graph.npz"
    sparse.save_npz(path, sparse.random_array((200, 200), density=0.1))
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(Failure, match="damaged"):
        read_graph(path)


def test_npz_with_a_damaged_member(tmp_path):
    path = tmp_path / "graph.npz"
    matrix = sparse.random_array((200, 200), density=0.1, format="csr")
    sparse.save_npz(path, matrix, compressed=False)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"XXXXXXXX"
    path.write_bytes(content)
    with pytest.raises(Failure, match="damaged"):
        read_graph(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 2 3\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1.0\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 x\n",
        "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1.0\n",
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_matrix_market(tmp_path, text, compressed):
    path = tmp_path / ("graph.mtx.gz" if compressed else "graph.mtx")
    data = text.encode()
    path.write_bytes(gzip.compress(data) if compressed else data)
    with pytest.raises(Failure, match="not a Matrix Market file, or damaged"):
        read_graph(path)


def test_matrix_market_that_is_not_gzip(tmp_path):
    path = tmp_path / "graph.mtx.gz"
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\n")
    with pytest.raises(Failure, match="damaged"):
        read_graph(path)


def test_complex_weights(tmp_path):
    path = tmp_path / "graph.npz"
    sparse.save_npz(path, sparse.csr_array(TRIANGLE * 1j))
    with pytest.raises(Failure, match="real numbers, found dtype complex128"):
        read_graph(path)


@pytest.mark.parametrize("name", ["g.npz", "g.mtx", "g.mtx.gz", "g.csv", "g.xyz"])
def test_missing_file(tmp_path, name):
    with pytest.raises(Failure, match="no such file"):
        read_graph(tmp_path / name)


@pytest.mark.parametrize("name", ["g.npz", "g.mtx", "g.csv"])
def test_folder_instead_of_file(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(Failure, match="folder"):
        read_graph(tmp_path / name)


def test_unknown_extension(tmp_path):
    path = tmp_path / "graph.parquet"
    path.write_bytes(b"x")
    with pytest.raises(Failure, match=r"unknown extension. Use \.npz"):
        read_graph(path)


def test_npz_with_a_damaged_head(tmp_path):
    path = tmp_path / "graph.npz"
    arrays = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)}
    np.savez(path, format=b"csr", shape=(3, 3), **arrays)
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members["data.npy"] = members["data.npy"].replace(b"(3,)", b"(3, ")
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)
    with pytest.raises(Failure, match="or damaged"):
        read_graph(path)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize(
    ("name", "at", "value"),
    [("indices", 3, 3), ("indices", 3, -1), ("indices", 3, 10**6), ("indptr", 1, 9)],
)
def test_npz_with_indices_beyond_the_matrix(tmp_path, kind, name, at, value):
    """Compiled code would read or write there."""
    matrix = kind(TRIANGLE)
    arrays = {part: getattr(matrix, part).copy() for part in ("indices", "indptr")}
    arrays[name][at] = value
    path = tmp_path / "graph.npz"
    np.savez(
        path,
        format=matrix.format.encode(),
        data=matrix.data,
        shape=matrix.shape,
        _is_array=True,
        **arrays,
    )
    with pytest.raises(Failure, match="or damaged"):
        read_graph(path)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3)])
def test_no_nodes(tmp_path, shape):
    path = tmp_path / "graph.npz"
    sparse.save_npz(path, sparse.csr_array(shape))
    with pytest.raises(Failure, match=r"is empty: its shape is \(0, "):
        read_graph(path)


@pytest.mark.parametrize("kind", [sparse.coo_array, sparse.csc_array, sparse.dia_array])
def test_npz_of_more_rows_than_the_memory_holds(kind, tmp_path, monkeypatch):
    """A few hundred bytes whose row pointers would fill the memory."""
    path, m = tmp_path / "graph.npz", 10**8
    sparse.save_npz(path, kind(sparse.coo_array(([1.0], ([0], [0])), shape=(m, 1))))
    monkeypatch.setattr(_memory, "available_memory", lambda: 10**9)
    tracemalloc.start()
    try:
        with pytest.raises(Failure, match=r"needs 1\.6 GB of memory, but only 1\.0 GB"):
            read_graph(path)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["indptr", "indices", "data", "shape"])
def test_npz_that_says_more_than_it_has(name, tmp_path):
    path = tmp_path / "graph.npz"
    arrays = {"data": np.ones(3), "indices": np.arange(3), "indptr": np.arange(4)}
    np.savez(path, format=b"csr", shape=(3, 3), **arrays)
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**11,)}
    with zipfile.ZipFile(path, "w") as new:
        for member, content in members.items():
            with new.open(member, "w") as file:
                if member == f"{name}.npy":
                    np.lib.format.write_array_header_1_0(file, header)
                file.write(content)
    with pytest.raises(
        Failure, match=rf"or damaged \({name} is of \d+ bytes, but says"
    ):
        read_graph(path)


@pytest.mark.parametrize("size", [f"{10**13} {10**13} 1", f"3 3 {10**13}"])
def test_matrix_market_larger_than_the_memory(size, tmp_path):
    path = tmp_path / "graph.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n{size}\n1 1 1\n")
    with pytest.raises(Failure, match=r"needs .* GB of memory, but only"):
        read_graph(path)


def test_an_array_larger_than_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((1000, 2)))
    monkeypatch.setattr(_memory, "available_memory", lambda: 10**4)
    with pytest.raises(Failure, match=r"needs 0\.0 GB of memory, but only"):
        open_array(path)
    monkeypatch.setattr(_memory, "available_memory", lambda: None)  # not known
    assert open_array(path).shape == (1000, 2)
