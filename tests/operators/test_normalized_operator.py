"""NormalizedOperator: values, attributes, probes, bad input."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from scalefair.linalg import chebyshev
from scalefair.operators import (
    NormalizedAffinity,
    NormalizedOperator,
    Projected,
    RBFKernel,
)

TYPES = [np.float64, np.float32]


def features(n=300, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def kernel(X, gamma=1 / 3):
    differences = X[:, None, :] - X[None, :, :]
    return np.exp(-gamma * (differences**2).sum(axis=-1))


def normalized(W):
    d = W.sum(axis=1)
    return W / np.sqrt(d[:, None] * d)


def matrix(A):
    return A @ np.eye(A.shape[0])


@pytest.mark.parametrize("wrap", [sparse.csr_array, aslinearoperator])
def test_equals_the_normalised_affinity_of_a_graph(graph, wrap):
    stored = NormalizedAffinity(graph, shift=0.25)
    M = NormalizedOperator(wrap(graph), shift=0.25)
    np.testing.assert_allclose(matrix(M), matrix(stored), atol=1e-14)
    np.testing.assert_allclose(M.degrees, stored.degrees, rtol=1e-14)
    np.testing.assert_allclose(M.inv_sqrt_degrees, stored.inv_sqrt_degrees, rtol=1e-14)
    assert M.shift == stored.shift


@pytest.mark.parametrize("dtype", TYPES)
def test_of_a_kernel(dtype):
    X = features()
    M = NormalizedOperator(RBFKernel(X), dtype=dtype)
    dense = normalized(kernel(X))
    assert M.dtype == M.W.dtype == dtype
    assert M.degrees.dtype == M.inv_sqrt_degrees.dtype == np.float64
    np.testing.assert_allclose(M.degrees, kernel(X).sum(axis=1), rtol=1e-12)
    tolerance = 10 * np.finfo(dtype).eps
    np.testing.assert_allclose(matrix(M), dense, rtol=1e-5, atol=tolerance)


def test_takes_the_type_of_the_affinity():
    X = features()
    assert NormalizedOperator(RBFKernel(X, dtype=np.float32)).dtype == np.float32
    assert NormalizedOperator(RBFKernel(X)).dtype == np.float64
    assert NormalizedOperator(np.ones((4, 4), dtype=np.int8)).dtype == np.float64
    assert NormalizedOperator(np.ones((4, 4), dtype=np.float32)).dtype == np.float32


@pytest.mark.parametrize("dtype", TYPES)
def test_blocks_are_cast_for_an_affinity_of_another_type(dtype):
    W = kernel(features())
    for other in TYPES:
        M = NormalizedOperator(W.astype(other), dtype=dtype)
        X = features(d=4, seed=1).astype(dtype)
        product = M @ X
        assert product.dtype == dtype
        np.testing.assert_allclose(product, normalized(W) @ X, atol=1e-5)


@pytest.mark.parametrize("W", [RBFKernel(features()), kernel(features())])
def test_astype_keeps_the_degrees(W):
    M = NormalizedOperator(W, shift=1.5)
    low = M.astype(np.float32)
    assert low.dtype == np.float32
    assert M.dtype == M.W.dtype == np.float64
    assert low.shift == 1.5
    assert np.array_equal(low.degrees, M.degrees)
    assert low.degrees.dtype == np.float64
    V = features(d=4, seed=1)
    np.testing.assert_allclose(low @ V, M @ V, atol=2e-5)
    assert not np.array_equal(low @ V, M @ V)
    assert np.array_equal(low.astype(np.float64) @ V, M @ V)
    if isinstance(W, RBFKernel):
        assert low.W.dtype == np.float32
    with pytest.raises(TypeError, match="float32 or float64"):
        M.astype(int)


def test_the_start_is_not_read_for_beta_zero():
    M = NormalizedOperator(RBFKernel(features()))
    V, out = features(d=2, seed=1), np.full((300, 2), np.nan)
    M.apply(V, out, alpha=-2.0, shift=0.5)
    np.testing.assert_allclose(out, -2 * (matrix(M) @ V - 0.5 * V), atol=1e-12)


def test_two_solvers_agree_on_a_projected_kernel(graphs):
    X = features(400)
    M = NormalizedOperator(RBFKernel(X))
    Q = graphs.fairness_basis(M.degrees, graphs.random_groups(400, 3))
    found = chebyshev(
        Projected(M, Q, constrained_value=0.0), 5, tol=1e-9, random_state=0
    )
    P = np.eye(400) - Q @ Q.T
    values = np.linalg.eigvalsh(P @ normalized(kernel(X)) @ P)[::-1][:5]
    np.testing.assert_allclose(found.values, values, atol=1e-12)


def test_refuses_what_is_not_symmetric():
    W = kernel(features())
    W[3, 5] += 1e-3
    with pytest.raises(ValueError, match="not symmetric"):
        NormalizedOperator(W)
    with pytest.raises(ValueError, match="not symmetric"):
        NormalizedOperator(np.triu(kernel(features())).astype(np.float32))


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_is_not_taken_for_asymmetry(dtype):
    rng = np.random.default_rng(0)
    W = rng.random((1000, 1000)) ** 8  # entries of very different size
    W = (W + W.T).astype(dtype)
    W += np.triu(W, 1) * np.finfo(dtype).eps / 2
    NormalizedOperator(W)


def test_names_a_node_without_positive_degree():
    W = np.ones((5, 5))
    W[3] = W[:, 3] = 0
    W[1, 1] = -9
    with pytest.raises(ValueError, match=r"2 node.*first: 1"):
        NormalizedOperator(W)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_entries_that_are_not_finite(bad):
    W = np.ones((4, 4))
    W[2, 1] = bad
    with pytest.raises(ValueError, match="not finite"):
        NormalizedOperator(W)


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_refuses_degrees_out_of_the_range_of_single_precision(unit):
    W = unit * np.ones((3, 3))
    M = NormalizedOperator(W)
    np.testing.assert_allclose(matrix(M), 1 / 3, rtol=1e-14)
    for make in (M.astype, lambda dtype: NormalizedOperator(W, dtype=dtype)):
        with pytest.raises(ValueError, match="out of the range of float32: scale"):
            make(np.float32)


def test_refuses_what_is_not_square():
    with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
        NormalizedOperator(np.ones((3, 4)))


def test_refuses_complex_entries():
    with pytest.raises(TypeError, match="real"):
        NormalizedOperator(np.ones((3, 3)) * 1j)
