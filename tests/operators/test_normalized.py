"""NormalizedAffinity and NormalizedOperator: values, attributes, bad input."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from scalefair.operators import NormalizedAffinity, NormalizedOperator

from ..conftest import normalized


def matrix(A):
    return A @ np.eye(A.shape[0])


def test_refuses_what_is_not_symmetric():
    W = np.ones((300, 300))
    W[3, 5] += 1e-3
    for asymmetric in (W, np.triu(W).astype(np.float32)):
        with pytest.raises(ValueError, match="not symmetric"):
            NormalizedOperator(asymmetric)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_refuses_degrees_out_of_the_range_of_single_precision(unit):
    W = unit * np.ones((3, 3))
    M = NormalizedOperator(W)
    np.testing.assert_allclose(matrix(M), 1 / 3, rtol=1e-14)
    path, weights = np.diag([1, 1], 1) + np.diag([1, 1], -1), [1e80, 1e-10, 1.0]
    for make in (
        M.astype,
        lambda dtype: NormalizedOperator(W, dtype=dtype),
        lambda dtype: NormalizedAffinity(path, sample_weight=weights, dtype=dtype),
    ):
        with pytest.raises(ValueError, match="out of the range of float32: scale"):
            make(np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("weight", "weights"), [(1, bool), (3.5, np.float32)])
def test_equal_weights_are_not_stored(graphs, weight, weights, dtype):
    # A node without edges; some entries are stored twice.
    A = sparse.block_diag([graphs.nearest_neighbors(80) != 0, np.zeros((1, 1))])
    rows, columns = (np.append(nodes, nodes[:50]) for nodes in A.tocoo().coords)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=81)))
    data = np.full(columns.size, weight, weights)
    indices = columns[np.argsort(rows, kind="stable")]
    W = sparse.csr_array((data, indices, indptr), shape=A.shape)
    M = NormalizedAffinity(W, regularization=0.3, shift=0.2, dtype=dtype)
    held = sum(v.nbytes for v in vars(M).values() if isinstance(v, np.ndarray))
    assert held < W.indices.nbytes + W.indptr.nbytes + 5 * 8 * 81
    dense = W.astype(np.float64).toarray()
    constant = 0.3 * dense.sum() / dense.size
    expected = normalized(dense + constant) + 0.2 * np.eye(81)
    tolerance = 50 * np.finfo(dtype).eps
    for k in (1, 4, 4):  # the block to work in is used again
        X = np.eye(81, k, dtype=dtype)
        np.testing.assert_allclose(M @ X, expected @ X, atol=tolerance)
    np.testing.assert_allclose(
        M.matrix.toarray() + constant / np.sqrt(np.outer(M.degrees, M.degrees)),
        normalized(dense + constant),
        rtol=tolerance,
    )


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_weights_out_of_the_range_of_single_precision(unit):
    W = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    M = NormalizedAffinity(sparse.csr_array(unit * W), dtype=np.float32)
    assert M.matrix.dtype == np.float32
    np.testing.assert_allclose(M.matrix.toarray(), normalized(W), rtol=1e-6)


@pytest.mark.parametrize("operator", [NormalizedAffinity, NormalizedOperator])
class TestBadInput:
    def test_not_square_or_complex(self, operator):
        with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
            operator(np.ones((3, 4)))
        with pytest.raises(ValueError, match=r"square.*3,?\)"):
            operator(np.ones(3))
        with pytest.raises(TypeError, match="real"):
            operator(np.ones((3, 3)) * 1j)

    def test_complex_products(self, operator):
        if operator is NormalizedOperator:
            A = aslinearoperator(np.ones((3, 3)))
            A.matmat = lambda X: 1j * X
            with pytest.raises(TypeError, match="real"):
                operator(A)

    def test_names_a_node_without_positive_degree(self, operator):
        W = np.ones((5, 5))
        W[3] = W[:, 3] = 0
        W[1, 1] = -9
        with pytest.raises(ValueError, match=r"2 node.*first: 1"):
            operator(W)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_names_an_entry_that_is_not_finite(self, operator, bad):
        W = np.ones((4, 4))
        W[2, 1] = bad
        with pytest.raises(ValueError, match=r"row\(s\).*not finite.*first: 2"):
            operator(W)

    def test_isolated_nodes_once_regularized(self, operator):
        W = np.ones((5, 5))
        W[3] = W[:, 3] = 0
        M = operator(W, regularization=0.5)
        assert M.tau == 1.6  # half of 16 / 5
        np.testing.assert_allclose(matrix(M), normalized(W + 0.32), rtol=1e-14)
        with pytest.raises(ValueError, match=r"5 node.*first: 0"):
            operator(0 * W, regularization=0.5)

    @pytest.mark.parametrize("bad", [-1, np.nan, np.inf, "1"])
    def test_regularization(self, operator, bad):
        with pytest.raises(ValueError, match="regularization must be a finite number"):
            operator(np.ones((3, 3)), regularization=bad)


@pytest.mark.parametrize("operator", [NormalizedAffinity, NormalizedOperator])
class TestWeights:
    def test_weights_of_one_are_none(self, operator):
        assert operator(np.ones((4, 4)), sample_weight=np.ones(4)).weights is None

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ([1, 0, 2, 0], "2 weight.* zero.* the first at position 1"),
            ([1, 2, -1, 1], r"negative, the first at position 2"),
            ([1, 2], "one weight per sample"),
        ],
    )
    def test_bad_weights(self, operator, weights, message):
        with pytest.raises(ValueError, match=message):
            operator(np.ones((4, 4)), sample_weight=weights)
