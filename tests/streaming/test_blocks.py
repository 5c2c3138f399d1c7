"""Blocks of rows put together again."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.streaming import row_blocks

from ..conftest import with_long_indices


def matrix(m=100, n=7):
    X = np.random.default_rng(0).standard_normal((m, n))
    X[np.abs(X) < 1] = 0
    X[40:60] = 0
    X[70] = 5.0
    return X


FORMS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int8),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "csr matrix": sparse.csr_matrix,
    "long indices": with_long_indices,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("max_bytes", [1, 60, 500, 3000, 2**25, 2**40])
def test_blocks_are_the_rows_in_order(form, max_bytes):
    X = FORMS[form](matrix())
    stop = 0
    parts = []
    for rows, block in row_blocks(X, max_bytes):
        assert rows.start == stop
        assert block.shape == (rows.stop - rows.start, 7)
        assert block.shape[0] >= 1
        assert block.dtype == X.dtype
        stop = rows.stop
        if sparse.issparse(X):
            assert block.format == "csr"
            held = block.nnz * (block.data.itemsize + block.indices.itemsize)
            block = block.toarray()
        else:
            held = 8 * block.size
            assert np.shares_memory(block, X)
        assert held <= max_bytes or len(block) == 1
        parts.append(block)
    assert stop == 100
    dense = X.toarray() if sparse.issparse(X) else X
    assert np.array_equal(np.concatenate(parts), dense)


def test_few_blocks():
    X = np.ones((1000, 10))
    assert len(list(row_blocks(X, 8000))) == 10
    assert len(list(row_blocks(X))) == 1
    assert list(row_blocks(np.empty((0, 3)))) == []
    assert list(row_blocks(sparse.csr_array((0, 3)))) == []
    # Rows without entries count too: what is computed from them takes memory.
    assert len(list(row_blocks(sparse.csr_array((1000, 10)), 51_200))) == 10


def test_what_is_no_matrix_is_refused():
    for vector in np.ones(3), sparse.coo_array(np.ones(3)).tocsr():
        with pytest.raises(ValueError, match=r"two dimensions, got shape \(3,\)"):
            row_blocks(vector)
    with pytest.raises(ValueError, match=r"'coo'.*tocsr"):
        row_blocks(sparse.coo_array(np.eye(3)))
