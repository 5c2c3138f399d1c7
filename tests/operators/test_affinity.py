"""NormalizedAffinity: values, attributes, bad input."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.operators import NormalizedAffinity


def test_on_every_graph(graph, graphs):
    M = NormalizedAffinity(graph)
    dense = graphs.normalized(graph)
    np.testing.assert_allclose(M @ np.eye(M.shape[0]), dense, atol=1e-14)
    # D^{1/2} 1 has the eigenvalue 1, and none is larger in modulus.
    top = np.sqrt(M.degrees)
    np.testing.assert_allclose(M @ top, top, rtol=1e-12)
    assert np.abs(np.linalg.eigvalsh(dense)).max() <= 1 + 1e-12


def test_attributes(graphs):
    W = graphs.nearest_neighbors(50)
    M = NormalizedAffinity(W)
    degrees = W.toarray().sum(axis=1)
    np.testing.assert_allclose(M.degrees, degrees, rtol=1e-14)
    np.testing.assert_allclose(M.inv_sqrt_degrees, degrees**-0.5, rtol=1e-14)
    assert M.degrees.dtype == M.inv_sqrt_degrees.dtype == np.float64
    np.testing.assert_allclose(M.matrix.toarray(), graphs.normalized(W), atol=1e-15)


def test_shares_the_indices_and_leaves_the_graph_alone(graphs):
    W = graphs.nearest_neighbors(50)
    before = W.copy()
    M = NormalizedAffinity(W)
    assert np.shares_memory(M.matrix.indices, W.indices)
    assert np.array_equal(W.data, before.data)
    assert np.array_equal(W.indices, before.indices)


def test_shift_moves_the_spectrum(graphs):
    W = graphs.cycle(30)
    expected = graphs.cycle_eigenvalues(30) + 1.25
    shifted = NormalizedAffinity(W, shift=1.25) @ np.eye(30)
    np.testing.assert_allclose(np.linalg.eigvalsh(shifted)[::-1], expected, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool, np.float32])
def test_entries_of_any_type(graphs, dtype):
    W = graphs.block_model(200)  # degrees around 20
    M = NormalizedAffinity(W.astype(dtype))
    np.testing.assert_allclose(M.matrix.toarray(), graphs.normalized(W), atol=1e-15)


def test_degrees_are_summed_in_float64():
    W = np.ones((3, 3), np.float32)
    W[0, 1] = W[1, 0] = 2.0**25
    M = NormalizedAffinity(sparse.csr_array(W))
    assert M.degrees[0] == 2.0**25 + 2  # in float32, 2**25


@pytest.mark.parametrize("unit", [1e-100, 1e-50, 1e50, 1e100])
def test_weights_out_of_the_range_of_single_precision(unit):
    W = np.array([[0.0, 1, 1], [1, 0, 0], [1, 0, 0]])
    expected = W / np.sqrt(np.outer(W.sum(axis=1), W.sum(axis=1)))
    M = NormalizedAffinity(sparse.csr_array(unit * W), dtype=np.float32)
    assert M.matrix.dtype == np.float32
    np.testing.assert_allclose(M.matrix.toarray(), expected, rtol=1e-6)


def test_duplicate_entries_are_added(graphs):
    W = graphs.cycle(20)
    twice = sparse.coo_array(
        (np.tile(W.data / 2, 2), (np.tile(W.tocoo().row, 2), np.tile(W.indices, 2))),
        shape=W.shape,
    )
    np.testing.assert_allclose(
        NormalizedAffinity(twice) @ np.eye(20), graphs.normalized(W), atol=1e-15
    )


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_serial_and_parallel_products_agree(graphs, index_dtype, dtype):
    W = graphs.block_model(300)
    W.indices, W.indptr = W.indices.astype(index_dtype), W.indptr.astype(index_dtype)
    M = NormalizedAffinity(W, shift=0.5, dtype=dtype)
    # SciPy's constructor takes int64 back to int32 where that suffices.
    M.matrix.indices = M.matrix.indices.astype(index_dtype)
    M.matrix.indptr = M.matrix.indptr.astype(index_dtype)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)).astype(dtype)
    start = rng.standard_normal((300, 6)).astype(dtype)
    tolerance = 100 * np.finfo(dtype).eps
    dense = graphs.normalized(W) + 0.5 * np.eye(300)
    for beta in (0.0, 0.7):
        options = {"alpha": 2.0, "shift": 0.3, "beta": beta}
        parallel = M.apply(X, start.copy(), **options)
        expected = 2.0 * (dense @ X - 0.3 * X) + beta * start
        np.testing.assert_allclose(parallel, expected, rtol=0, atol=tolerance)
        for c in range(6):  # a single column goes through SciPy
            out = start[:, c : c + 1].copy()
            serial = M.apply(X[:, c : c + 1].copy(), out, **options)
            np.testing.assert_allclose(
                serial, expected[:, c : c + 1], rtol=0, atol=tolerance
            )


def test_refuses_what_is_not_square():
    with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
        NormalizedAffinity(sparse.csr_array(np.ones((3, 4))))


def test_names_a_node_without_neighbors():
    W = np.ones((5, 5))
    W[3] = W[:, 3] = 0
    W[1] = W[:, 1] = 0
    with pytest.raises(ValueError, match=r"2 node.*first: 1"):
        NormalizedAffinity(sparse.csr_array(W))


def test_names_a_negative_degree():
    W = np.ones((4, 4))
    W[2, 2] = -9
    with pytest.raises(ValueError, match=r"1 node.*first: 2"):
        NormalizedAffinity(sparse.csr_array(W))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_entries_that_are_not_finite(bad):
    W = np.ones((4, 4))
    W[2, 1] = bad
    with pytest.raises(ValueError, match=r"1 row\(s\).*not finite.*first: 2"):
        NormalizedAffinity(sparse.csr_array(W))


def test_refuses_complex_entries():
    with pytest.raises(TypeError, match="real"):
        NormalizedAffinity(sparse.csr_array(np.ones((3, 3)) * 1j))
