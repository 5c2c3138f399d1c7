"""A matrix in blocks of rows multiplies like one in memory."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from scalefair.linalg import chebyshev
from scalefair.operators import PartitionedMatrix
from scalefair.streaming import RowReader

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

N = 120
CUTS = (0, 50, 51, 90, N)


def circulant(n, offsets):
    """Ring in which nodes at the given distances are neighbours; its eigenvalues."""
    offsets = np.asarray(offsets)
    W = sum(sparse.eye_array(n, k=k) + sparse.eye_array(n, k=k - n) for k in offsets)
    angles = 2 * np.pi * np.arange(n)[:, None] * offsets / n
    return sparse.csr_array(W + W.T), 2 * np.cos(angles).sum(axis=1)


class CirculantRows(RowReader):
    """Rows of a circulant, made when they are asked for."""

    is_sparse, dtype = True, np.dtype(np.float64)

    def __init__(self, n, offsets, n_blocks):
        self.offsets = np.concatenate([offsets, -np.asarray(offsets)])
        self.lengths = np.diff(np.linspace(0, n, n_blocks + 1).astype(np.int64))
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.n_features, self.nnz = n, n * len(self.offsets)

    def block(self, number):
        length = int(self.lengths[number])
        rows = np.arange(length, dtype=np.int64)[:, None] + self.starts[number]
        columns = np.sort((rows + self.offsets) % self.n_features, axis=1)
        d = len(self.offsets)
        parts = np.ones(d * length), columns.ravel(), d * np.arange(length + 1)
        return sparse.csr_array(parts, shape=(length, self.n_features))


@pytest.fixture(name="W")
def graph():
    W = sparse.random_array((N, N), density=0.05, rng=np.random.default_rng(0))
    return sparse.csr_array(W + W.T)


def blocks(W, cuts=CUTS):
    return [dask.delayed(W[i:j]) for i, j in itertools.pairwise(cuts)]


@pytest.mark.parametrize("exchange", ["all", "needed"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products(exchange, index, W):
    W.indices, W.indptr = W.indices.astype(index), W.indptr.astype(index)
    A = PartitionedMatrix(blocks(W), exchange=exchange)
    assert A.nnz == W.nnz
    kept = [getattr(part, "matrix", part) for part in A._parts.gather()]
    assert {part.indices.dtype for part in kept} == {np.dtype(np.int32)}
    X = np.random.default_rng(1).standard_normal((N, 3))
    np.testing.assert_allclose(A @ X, W @ X, atol=1e-13)
    np.testing.assert_allclose(A @ X[:, 0], W @ X[:, 0], atol=1e-13)
    np.testing.assert_allclose(A.T @ X, W @ X, atol=1e-13)
    out, expected = X.copy(), 0.5 * (W @ X - 2 * X) - X
    A.apply(X, out, alpha=0.5, shift=2.0, beta=-1.0)
    np.testing.assert_allclose(out, expected, atol=1e-13)


def test_sparse_chunks_of_an_array(W):
    chunks = da.from_array(W.toarray(), chunks=(50, 60)).map_blocks(sparse.csr_matrix)
    X = np.ones((N, 1))
    np.testing.assert_allclose(PartitionedMatrix(chunks) @ X, W @ X, atol=1e-13)


def test_known_eigenvalues():
    _, values = circulant(301, [1, 4, 9])
    A = PartitionedMatrix(CirculantRows(301, [1, 4, 9], 7))
    found = chebyshev(A, 5, tol=1e-8, random_state=0)
    np.testing.assert_allclose(found.values, np.sort(values)[::-1][:5], atol=1e-7)


def test_the_generated_rows_are_the_circulant():
    W, _ = circulant(50, [1, 4])
    reader = CirculantRows(50, [1, 4], 3)
    assert abs(sparse.vstack(list(reader.blocks())) - W).max() == 0


def test_rows_without_entries(W):
    W = W.tolil()
    W[50] = 0
    W[:, 50] = 0
    W = W.tocsr()
    X = np.random.default_rng(1).standard_normal((N, 2))
    for exchange in ("all", "needed"):
        A = PartitionedMatrix(blocks(W), exchange=exchange)
        np.testing.assert_allclose(A @ X, W @ X, atol=1e-13)


def with_entry(W, value):
    W = W.copy()
    W.data[W.indptr[60]] = value
    return W


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda W: blocks(W[:, :90]), r"square here, got shape \(120, 90\)"),
        (lambda W: blocks(W.toarray()), "must be CSR matrices, these are dense"),
        (
            lambda W: blocks(with_entry(W, np.nan)),
            r"Partition 2 of X, rows 51 to 89.*not finite, at row 9, column",
        ),
    ],
)
def test_bad_matrices(make, message, W):
    with pytest.raises(ValueError, match=message):
        PartitionedMatrix(make(W)) @ np.ones(N)
    with pytest.raises(ValueError, match="exchange must be"):
        PartitionedMatrix(blocks(W), exchange="some")


def test_bad_entry_is_named_by_its_own_column(W):
    column = W.indices[W.indptr[60]]
    message = rf"at row 9, column {column} \(inf\)"
    for exchange in ("all", "needed"):
        with pytest.raises(ValueError, match=message):
            PartitionedMatrix(
                blocks(with_entry(W, np.inf)), exchange=exchange
            ) @ np.ones(N)
