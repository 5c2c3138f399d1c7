"""block_cg: semi-definite systems, dependent right-hand sides, failure modes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import cg

from scalefair.linalg import block_cg

N = 120


def definite(seed=0, n=N, condition=1e3):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(1, condition, n)) @ Q.T


def semidefinite(rank=30, seed=0):
    A = np.random.default_rng(seed).standard_normal((rank, N))
    return A.T @ A


def sides(s, seed=1):
    return np.random.default_rng(seed).standard_normal((N, s))


@pytest.mark.parametrize("s", [1, 2, 7, 40])
def test_definite(s):
    S, B = definite(), sides(s)
    result = block_cg(S, B, tol=1e-11, max_products=400)
    assert result.converged
    assert result.column_converged.all()
    np.testing.assert_allclose(result.X, np.linalg.solve(S, B), atol=1e-9)
    true = np.linalg.norm(B - S @ result.X, axis=0) / np.linalg.norm(B, axis=0)
    np.testing.assert_allclose(result.residual_norms, true, atol=1e-12)
    np.testing.assert_allclose(result.residuals, B - S @ result.X, atol=1e-11)


@pytest.mark.parametrize("s", [1, 3, 30, 45])
def test_least_norm_of_a_singular_system(s):
    S = semidefinite()
    B = S @ sides(s)
    result = block_cg(S, B, tol=1e-12)
    assert result.converged
    np.testing.assert_allclose(result.X, np.linalg.pinv(S, 1e-10) @ B, atol=1e-8)


def test_dependent_and_zero_columns_do_no_harm():
    S, B = definite(), sides(3)
    B = np.c_[B, B[:, 0] + 2 * B[:, 1], np.zeros(N), 1e-9 * B[:, 2], B]
    result = block_cg(S, B, tol=1e-10, max_products=400)
    assert result.converged
    exact = np.linalg.solve(S, B)
    scale = np.maximum(np.linalg.norm(exact, axis=0), 1e-300)
    assert (np.linalg.norm(result.X - exact, axis=0) <= 1e-8 * scale).all()
    assert (result.X[:, 4] == 0).all()
    assert result.residual_norms[4] == 0


def test_as_many_products_as_distinct_eigenvalues():
    Q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((N, N)))
    S = (Q * np.repeat([1.0, 5.0, 20.0], N // 3)) @ Q.T
    result = block_cg(S, sides(4), tol=1e-10)
    assert result.converged
    assert result.n_products == 3


def test_a_block_saves_products(counting):
    S, B = definite(), sides(20)
    operator = counting(S)
    block = block_cg(operator, B, tol=1e-8, max_products=1000)
    single = block_cg(S, B[:, :1], tol=1e-8, max_products=1000)
    assert block.converged
    assert single.converged
    assert (block.n_products, block.n_columns) == (
        operator.n_products,
        operator.n_columns,
    )
    assert 4 * block.n_products < single.n_products


def test_one_side_is_the_ordinary_method():
    S, b = definite(condition=50), sides(1)
    iterates = []
    cg(S, b[:, 0], rtol=1e-8, callback=lambda x: iterates.append(x.copy()))
    for steps in (1, 3, 8):
        X = block_cg(S, b, tol=1e-12, max_products=steps).X
        np.testing.assert_allclose(X[:, 0], iterates[steps - 1], atol=1e-10)


def test_residuals_that_rise_for_long_are_no_reason_to_stop():
    S, B = definite(condition=1e4), sides(1)
    residuals = []
    result = block_cg(
        S,
        B,
        tol=1e-8,
        max_products=2000,
        callback=lambda X, R: residuals.append(np.linalg.norm(R)),
    )
    assert min(residuals[:20]) > np.linalg.norm(B)
    assert result.converged


def test_callback_ends_it():
    calls = []

    def stop(X, R):
        calls.append(np.linalg.norm(R))
        return len(calls) == 3

    result = block_cg(definite(), sides(2), tol=1e-12, callback=stop)
    assert result.n_products == 3
    assert not result.converged
    assert "callback" in result.message


def test_preconditioner():
    scale = np.geomspace(1, 1e4, N)
    S = definite(condition=10) * np.outer(scale, scale)
    B = sides(2) * scale[:, None]
    T = sparse.diags_array(1 / np.diag(S))
    plain = block_cg(S, B, tol=1e-8, max_products=60)
    fast = block_cg(S, B, tol=1e-8, max_products=60, preconditioner=T)
    assert fast.converged
    assert not plain.converged
    np.testing.assert_allclose(
        fast.X * scale[:, None],
        np.linalg.solve(S, B) * scale[:, None],
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("factor", [1e-150, 1e100, 1e300])
def test_operators_of_any_size(factor):
    S, B = definite(), sides(3)
    one, other = block_cg(S, B, tol=1e-8), block_cg(factor * S, B, tol=1e-8)
    assert other.converged
    np.testing.assert_allclose(other.X * factor, one.X, rtol=1e-6, atol=1e-9)
    with pytest.raises(FloatingPointError, match=r"too large .*scale the right-hand"):
        block_cg(1e-20 * np.eye(3), np.full((3, 1), 1e300))


@pytest.mark.parametrize("factor", [1e-310, 1e-200, 1e160, 1e300])
def test_right_hand_sides_of_any_size(factor):
    # Their squares are out of range: a residual of zero would mean nothing.
    S = definite(condition=50)
    B = sides(3)
    one = block_cg(S, B, tol=1e-8)
    seen = []
    other = block_cg(
        S, B * [factor, 1.0, 0.0], tol=1e-8, callback=lambda X, R: seen.append((X, R))
    )
    assert other.converged
    np.testing.assert_allclose(other.X[:, 0] / factor, one.X[:, 0], rtol=1e-5)
    np.testing.assert_allclose(other.X[:, 1], one.X[:, 1], rtol=1e-5)
    assert (other.X[:, 2] == 0).all()
    np.testing.assert_array_equal(seen[-1][0], other.X)
    np.testing.assert_array_equal(seen[-1][1], other.residuals)


def test_norms_are_those_of_the_residuals_however_it_ends():
    S, B = semidefinite(), sides(2)
    for options in ({"max_products": 3}, {}, {"callback": lambda X, R: True}):
        result = block_cg(S, B, tol=1e-9, **options)
        assert not result.converged
        sizes = np.linalg.norm(result.residuals, axis=0) / np.linalg.norm(B, axis=0)
        np.testing.assert_allclose(result.residual_norms, sizes, rtol=1e-12)


def test_right_hand_sides_outside_the_range():
    S = semidefinite()
    B = np.c_[S @ sides(1), sides(1, seed=4)]
    result = block_cg(S, B, tol=1e-8, max_products=1000)
    assert not result.converged
    assert result.column_converged.tolist() == [True, False]
    assert np.isfinite(result.X).all()
    assert "range" in result.message
    assert result.n_products < 200


def test_zero_operator():
    result = block_cg(np.zeros((N, N)), sides(2))
    assert not result.converged
    np.testing.assert_array_equal(result.X, 0)


@pytest.mark.parametrize(
    ("B", "options", "message"),
    [
        (np.ones(N), {}, "B must have shape"),
        (np.ones((N - 1, 2)), {}, "B must have shape"),
        (np.full((N, 1), np.nan), {}, r"B has .* not finite \(first: nan at row 0"),
        (np.ones((N, 1)), {"max_products": 0}, "max_products must be an integer"),
    ],
)
def test_refuses(B, options, message):
    with pytest.raises(ValueError, match=message):
        block_cg(np.eye(N), B, **options)


def test_refuses_an_indefinite_operator():
    S = np.diag(np.r_[-np.ones(N // 2), np.ones(N // 2)])
    with pytest.raises(ValueError, match="semi-definite"):
        block_cg(S, np.eye(N)[:, :1])
