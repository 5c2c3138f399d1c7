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


ISOLATED = np.ones((5, 5))
ISOLATED[3] = ISOLATED[:, 3] = 0
every = pytest.mark.parametrize("operator", [NormalizedAffinity, NormalizedOperator])


@every
@pytest.mark.parametrize(
    ("W", "options", "message"),
    [
        (np.ones((3, 4)), {}, r"square.*\(3, 4\)"),
        (np.ones(3), {}, r"square.*3,?\)"),
        (ISOLATED - np.diag([0, 10, 0, 0, 0]), {}, r"2 node.*first: 1"),
        (np.array([[1, 1], [np.nan, 1]]), {}, r"row\(s\).*not finite.*first: 1"),
        (0 * ISOLATED, {"regularization": 0.5}, r"5 node.*first: 0"),
        *(
            (ISOLATED, {"regularization": bad}, "regularization must be a finite")
            for bad in (-1, np.nan, np.inf, "1")
        ),
        (ISOLATED, {"sample_weight": [1, 0, 2, 0, 1]}, "2 weight.* zero.* position 1"),
        (ISOLATED, {"sample_weight": [1, 2, -1, 1, 1]}, "negative, the first at .* 2"),
        (ISOLATED, {"sample_weight": [1, 2]}, "one weight per sample"),
    ],
)
def test_bad_input(operator, W, options, message):
    with pytest.raises(ValueError, match=message):
        operator(W, **options)
    with pytest.raises(TypeError, match="real"):
        operator(np.ones((3, 3)) * 1j)


def test_complex_products():
    A = aslinearoperator(np.ones((3, 3)))
    A.matmat = lambda X: 1j * X
    with pytest.raises(TypeError, match="real"):
        NormalizedOperator(A)


@every
def test_isolated_nodes_once_regularized(operator):
    M = operator(ISOLATED, regularization=0.5)
    assert M.tau == 1.6  # half of 16 / 5
    np.testing.assert_allclose(matrix(M), normalized(ISOLATED + 0.32), rtol=1e-14)


@every
def test_weights_of_one_are_none(operator):
    assert operator(np.ones((4, 4)), sample_weight=np.ones(4)).weights is None
