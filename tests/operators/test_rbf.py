"""RBFKernel: values, accuracy in both types, bad input."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from scalefair.operators import RBFKernel

TYPES = [np.float64, np.float32]


def features(n=300, d=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def dense(X, gamma):
    differences = X[:, None, :] - X[None, :, :]
    return np.exp(-gamma * (differences**2).sum(axis=-1))


def matrix(kernel):
    return kernel @ np.eye(kernel.shape[0])


@pytest.mark.parametrize("gamma", [None, 1e-3, 0.7, 30.0])
@pytest.mark.parametrize("d", [1, 5, 120])
def test_equals_scikit_learn(d, gamma):
    X = features(d=d)
    K = RBFKernel(X, gamma=gamma)
    np.testing.assert_allclose(matrix(K), rbf_kernel(X, gamma=gamma), atol=1e-12)
    assert K.gamma == (1 / d if gamma is None else gamma)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("gamma", [1e-3, 0.2, 10.0, 1e3])
def test_accuracy(gamma, dtype):
    X = features(600)
    K = matrix(RBFKernel(X, gamma=gamma, dtype=dtype))
    tolerance = 10 * np.finfo(dtype).eps * max(1, np.sqrt(gamma))
    np.testing.assert_allclose(K, dense(X, gamma), rtol=0, atol=tolerance)


def test_an_offset_of_the_data_costs_no_digits_in_float32():
    X = features()
    moved = X + np.array([1e6, -1e5, 0, 1e4, 3e5])
    K = matrix(RBFKernel(moved, dtype=np.float32))
    np.testing.assert_allclose(K, dense(X, 0.2), rtol=0, atol=1e-6)


def test_duplicates_have_affinity_one():
    X = np.repeat(features(40), 10, axis=0) + 1e3
    for dtype in TYPES:
        K = matrix(RBFKernel(X, gamma=50.0, dtype=dtype))
        blocks = K.reshape(40, 10, 40, 10)[np.arange(40), :, np.arange(40), :]
        assert np.array_equal(blocks, np.ones((40, 10, 10)))


@pytest.mark.parametrize("dtype", TYPES)
def test_extreme_gamma(dtype):
    X = features()
    ones, eye = np.ones((300, 300)), np.eye(300)
    assert np.array_equal(matrix(RBFKernel(X, gamma=1e-30, dtype=dtype)), ones)
    assert np.array_equal(matrix(RBFKernel(X, gamma=1e30, dtype=dtype)), eye)


def test_invariances():
    X, V = features(), features(d=2, seed=1)
    order = np.random.default_rng(2).permutation(300)
    turn = np.linalg.qr(features(5, 5))[0]
    expected = RBFKernel(X, gamma=0.3) @ V
    for X2, gamma in [(X @ turn, 0.3), (X + 7, 0.3), (10 * X, 0.003)]:
        np.testing.assert_allclose(RBFKernel(X2, gamma=gamma) @ V, expected, rtol=1e-10)
    permuted = RBFKernel(X[order], gamma=0.3) @ V[order]
    np.testing.assert_allclose(permuted, expected[order], rtol=1e-12)


def test_positive_semidefinite():
    values = np.linalg.eigvalsh(matrix(RBFKernel(features(), gamma=0.01)))
    assert values.min() > -1e-12


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
def test_astype(first, second):
    X, V = features(), features(d=3, seed=1)
    K = RBFKernel(X, gamma=0.3, dtype=first)
    other = K.astype(second)
    assert other.dtype == second
    assert K.dtype == first
    same = RBFKernel(X, gamma=0.3, dtype=second)
    assert np.array_equal(other @ V, same @ V)
    copy = pickle.loads(pickle.dumps(other))
    assert np.array_equal(copy @ V, other @ V)
    with pytest.raises(TypeError, match="float32 or float64"):
        K.astype(int)


def test_input_of_any_kind():
    X = np.arange(12).reshape(6, 2) % 5
    expected = dense(X.astype(float), 0.5)
    for given in (X, X.tolist(), X.astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_allclose(matrix(RBFKernel(given)), expected, rtol=1e-14)
    before = X.astype(float)
    RBFKernel(before)
    assert np.array_equal(before, X)


def test_one_point():
    assert RBFKernel([[3.0, 4.0]]) @ [2.0] == [2.0]


def test_refuses_sparse_features():
    with pytest.raises(TypeError, match="nearest-neighbour graph"):
        RBFKernel(sparse.csr_array(features()))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_features_that_are_not_finite(bad):
    X = features()
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        RBFKernel(X)


@pytest.mark.parametrize("gamma", [0, -1.0, np.nan, np.inf])
def test_refuses_gamma(gamma):
    with pytest.raises(ValueError, match="gamma must be positive and finite"):
        RBFKernel(features(), gamma=gamma)


@pytest.mark.parametrize("bad", [np.ones(5), np.ones((2, 2, 2)), np.ones((0, 3))])
def test_refuses_other_shapes(bad):
    with pytest.raises(ValueError, match="array"):
        RBFKernel(bad)


def test_refuses_complex_features():
    with pytest.raises(ValueError, match="Complex"):
        RBFKernel(features() * 1j)


def test_refuses_what_overflows():
    X = 1e30 * features()
    with pytest.raises(ValueError, match="overflow float32"):
        RBFKernel(X, gamma=1e20, dtype=np.float32)
    with pytest.raises(ValueError, match="overflow float32"):
        RBFKernel(X, gamma=1e20).astype(np.float32)
