"""block_krylov: both ends of the spectrum, few products, restarts, failure modes."""

import functools

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from scalefair.linalg import block_krylov

N = 300


def symmetric(values, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values),) * 2))
    return (Q * values) @ Q.T


@pytest.fixture
def check(check_pairs):
    return functools.partial(check_pairs, by_modulus=True)


@pytest.mark.parametrize("k", [1, 2, 7, 20])
def test_both_ends(k, check):
    decay = 0.8 ** np.arange(N) * (-1.0) ** np.arange(N)
    A = symmetric(decay)
    result = block_krylov(A, k, tol=1e-9, random_state=0)
    check(result, A, k, 1e-9)
    np.testing.assert_allclose(result.values, decay[:k], atol=1e-9)


def test_equal_moduli_of_either_sign():
    A = symmetric(np.r_[2.0, -2.0, 2.0, -2.0, np.linspace(-0.5, 0.5, N - 4)])
    result = block_krylov(A, 4, tol=1e-10, random_state=0)
    assert result.converged
    np.testing.assert_allclose(np.sort(result.values), [-2, -2, 2, 2], atol=1e-9)


def test_all_copies_of_a_multiple_eigenvalue(check):
    A = symmetric(np.r_[np.full(9, -3.0), np.linspace(-1, 1, N - 9)])
    result = block_krylov(A, 9, tol=1e-10, random_state=0)
    np.testing.assert_allclose(result.values, -3, atol=1e-9)
    check(result, A, 9, 1e-10)


def test_few_wide_products_where_single_vectors_take_many(counting, check):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 400, 40)) @ rng.standard_normal((40, 900))
    X, Y = np.maximum(X, 0), np.maximum(1.1 * Y, 0)
    A = np.cov(Y.T) - np.cov(X.T)
    operator = counting(A)
    result = block_krylov(operator, 20, tol=1e-4, random_state=0)
    check(result, A, 20, 1e-4)
    assert (result.n_products, result.n_columns) == (
        operator.n_products,
        operator.n_columns,
    )
    assert result.n_products <= 10
    one_by_one = []

    def multiply(x):
        one_by_one.append(1)
        return A @ x

    eigsh(LinearOperator(A.shape, matvec=multiply, dtype=float), 20, tol=1e-4)
    assert len(one_by_one) > 5 * result.n_products


@pytest.mark.parametrize(("k", "block_size"), [(3, 4), (12, 13), (5, 3), (1, 1)])
def test_restarts_keep_what_was_found(k, block_size, check):
    A = symmetric(np.r_[-1.3, 1.2, -1.1, np.linspace(-1, 1, N - 3)])
    result = block_krylov(
        A, k, tol=1e-5, block_size=block_size, max_products=1000, random_state=0
    )
    assert result.n_iter > 0
    check(result, A, k, 1e-5)


def test_bounded_basis():
    widths = []
    A = symmetric(np.linspace(-1, 1, N))

    class Watched(LinearOperator):
        def _matmat(self, X):
            widths.append(X.shape[1])
            return A @ X

    result = block_krylov(
        Watched(np.dtype(float), A.shape), 4, tol=1e-6, max_products=60, random_state=0
    )
    assert set(widths) == {14}
    assert result.n_iter >= 3


@pytest.mark.parametrize("n", [1, 2, 5, 44])
def test_small_orders_take_one_product(n, counting, check):
    A = symmetric(np.linspace(-2, 1, n))
    operator = counting(A)
    k = min(n, 2)
    result = block_krylov(operator, k)
    check(result, A, k, 1e-12)
    assert operator.n_products == 1


@pytest.mark.parametrize("rank", [1, 3, 13])
def test_lower_rank_than_wanted(rank, check):
    A = symmetric(np.r_[np.arange(1.0, rank + 1) * (-1.0) ** rank, np.zeros(N - rank)])
    result = block_krylov(A, 20, tol=1e-9, random_state=0)
    check(result, A, 20, 1e-9)
    assert np.abs(result.values[rank:]).max() < 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 2, "max_products": 0}, "max_products"),
        ({"k": 9, "block_size": 2, "max_products": 4}, "at least 5"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        block_krylov(np.eye(N), **arguments)


def test_products_that_are_their_argument():
    identity = LinearOperator(
        (N, N), matvec=lambda x: x, matmat=lambda X: X[:, :], dtype=float
    )
    result = block_krylov(identity, 2, random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, 1, rtol=1e-14)
    np.testing.assert_allclose(result.vectors.T @ result.vectors, np.eye(2), atol=1e-14)
