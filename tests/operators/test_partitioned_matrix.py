"""A matrix in blocks of rows multiplies like one in memory."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse

from scalefair.operators import PartitionedMatrix

from ..conftest import delayed_blocks

N = 120


@pytest.fixture(name="W")
def graph():
    W = sparse.random_array((N, N), density=0.05, rng=np.random.default_rng(0)).tolil()
    W[50] = W[:, 50] = 0  # the second block has no entries
    return sparse.csr_array(W + W.T)


blocks = partial(delayed_blocks, cuts=(0, 50, 51, 90, N))


@pytest.mark.parametrize("exchange", ["all", "needed"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products(exchange, index, W):
    W.indices, W.indptr = W.indices.astype(index), W.indptr.astype(index)
    A = PartitionedMatrix(blocks(W), exchange=exchange)
    assert A.nnz == W.nnz
    kept = [part for _, part in A._parts.gather()]
    assert {part.indices.dtype for part in kept} == {np.dtype(np.int32)}
    X = np.random.default_rng(1).standard_normal((N, 3))
    np.testing.assert_allclose(A @ X, W @ X, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda W: blocks(W[:, :90]), r"square here, got shape \(120, 90\)"),
        (lambda W: blocks(W.toarray()), "must be CSR matrices, these are dense"),
    ],
)
def test_bad_matrices(make, message, W):
    with pytest.raises(ValueError, match=message):
        PartitionedMatrix(make(W))
    with pytest.raises(ValueError, match="exchange must be"):
        PartitionedMatrix(blocks(W), exchange="some")


@pytest.mark.parametrize("exchange", ["all", "needed"])
def test_bad_entry_is_named_by_its_own_column(exchange, W):
    column = W.indices[W.indptr[60]]
    W.data[W.indptr[60]] = np.inf
    message = rf"Partition 2 of X, rows 51 to 89.*at row 9, column {column} \(inf\)"
    with pytest.raises(ValueError, match=message):
        PartitionedMatrix(blocks(W), exchange=exchange) @ np.ones(N)
