"""The published method: second moment, first moment, and the equations of both."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalefair.postprocessing._explainable_svd import (
    exact_first_moment,
    explainable_svd,
    shrunk_values,
    svd_first_moment,
)
from scalefair.postprocessing._layer_moments import LayerMoments
from scalefair.streaming import GroupMoments


def problem(seed, m=5, n=7, n_groups=2, rank=None, spread=0.0, scale=1.0):
    """A weight, and inputs that differ between groups in mean and covariance."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_groups, size=80)
    codes[: 2 * n_groups] = np.repeat(np.arange(n_groups), 2)
    mixing = rng.standard_normal((n_groups, n, n))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((80, n)), mixing[codes])
    X = scale * (X + rng.standard_normal((n_groups, n))[codes])
    if rank is not None:
        X = X[:, :rank] @ rng.standard_normal((rank, n))
    X *= 10.0 ** rng.uniform(-spread, spread, n)
    return rng.standard_normal((m, n)), LayerMoments(GroupMoments.from_data(X, codes))


def second(W, layer, reduction):
    values, Q = layer.covariance_eigenpairs()
    return explainable_svd(W, values, Q, Q.T @ layer.second_moment @ Q, reduction)


def exact(W, layer, c_e):
    return exact_first_moment(W, layer.differences, layer.solve, c_e)


def restricted(W, layer, reduction, epsilon=1e-5):
    return svd_first_moment(
        W, layer.differences, layer.second_moment, epsilon, reduction
    )


def explainable_values(W, layer):
    """Singular values of W S_v, its factors and their costs k, from the definition."""
    values, Q = layer.covariance_eigenpairs()
    root = Q * np.sqrt(np.abs(values))
    U, sigma, Vt = np.linalg.svd(W @ root, full_matrices=False)
    rows = Vt @ np.linalg.inv(root)
    return sigma, U, rows, ((rows @ layer.second_moment) * rows).sum(axis=1)


# Second moment


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("reduction", [1 + 1e-12, 150.0, 1e12])
@pytest.mark.parametrize(("m", "n"), [(4, 6), (6, 4), (1, 1)])
def test_singular_values_meet_their_bound(m, n, reduction, n_groups):
    W, layer = problem(0, m, n, n_groups)
    sigma, U, rows, k = explainable_values(W, layer)
    changed = second(W, layer, reduction)
    x = shrunk_values(k, sigma, reduction)
    assert (x <= sigma).all()
    assert (x**4).sum() == pytest.approx((sigma**4).sum() / reduction, rel=1e-13)
    np.testing.assert_allclose(changed, (U * x) @ rows, atol=1e-8 * np.abs(W).max())
    # The sum bounds the gap from above, however many groups there are.
    assert layer.gaps(changed)[1] <= math.sqrt((x**4).sum()) * (1 + 1e-9)
    # Equation (19): one multiplier for all.
    gamma = k * (sigma - x) / (2 * x**3)
    if reduction > 2:
        np.testing.assert_allclose(gamma, gamma[0], rtol=1e-6)


def test_ends_of_the_second_reduction():
    W, layer = problem(6)
    assert layer.gaps(second(W, layer, math.inf))[1] <= 1e-12 * layer.gaps(W)[1]
    np.testing.assert_array_equal(second(W, layer, 1.0), W)
    assert not second(0 * W, layer, 10.0).any()
    same = explainable_svd(W, np.zeros(7), np.eye(7), layer.second_moment, 10.0)
    np.testing.assert_array_equal(same, W)
    _, scaled = problem(6, scale=1e3)  # units of the inputs play no part
    np.testing.assert_allclose(second(W, scaled, 30.0), second(W, layer, 30.0))


# First moment


@given(
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(2, 4),
    st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.999]),
)
def test_stationary_and_feasible(seed, m, n, n_groups, part):
    W, layer = problem(seed, m, n, n_groups)
    S, D = layer.second_moment, layer.differences
    c_e = part * layer.gaps(W)[0] ** 2
    changed = exact(W, layer, c_e)
    size = np.linalg.norm(W) * np.linalg.norm(D)
    assert np.linalg.norm(changed @ D) == pytest.approx(
        math.sqrt(c_e), rel=1e-10, abs=1e-13 * size
    )
    if part > 0:
        # (W - W') S = lambda W' D D^T with lambda > 0: parallel, in one direction.
        # Convex, so that no weight within the bound changes the outputs less.
        gradient, normal = (W - changed) @ S, changed @ D @ D.T
        lam = (gradient * normal).sum() / (normal**2).sum()
        assert lam > 0
        np.testing.assert_allclose(
            gradient, lam * normal, atol=1e-7 * np.abs(lam * normal).max()
        )


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_equal_means(n_groups):
    W, layer = problem(1, n_groups=n_groups)
    changed = exact(W, layer, 0.0)
    assert layer.gaps(changed)[0] <= 1e-13 * layer.gaps(W)[0]
    # Least squares on the orthogonal complement of the differences.
    D, S = layer.differences, layer.second_moment
    free = np.linalg.svd(D)[0][:, np.linalg.matrix_rank(D) :]
    expected = W @ S @ free @ np.linalg.inv(free.T @ S @ free) @ free.T
    np.testing.assert_allclose(changed, expected, atol=1e-11)


def test_differences_that_are_multiples_or_zero_or_out_of_reach():
    W, layer = problem(4)
    D = np.outer(layer.differences[:, 0], [1.0, -2.0, 0.0])
    c_e = 0.1 * float(((W @ D) ** 2).sum())
    changed = exact_first_moment(W, D, layer.solve, c_e)
    np.testing.assert_allclose(changed, exact(W, layer, c_e / 5), atol=1e-12)
    for bound in (layer.gaps(W)[0] ** 2 * 1.001, math.inf):  # that holds already
        np.testing.assert_array_equal(exact(W, layer, bound), W)
    no_gap = exact_first_moment(W, np.zeros((7, 3)), layer.solve, 0.0)
    np.testing.assert_array_equal(no_gap, W)
    # The second axis has no second moment: no change of the outputs moves that gap.
    W, D, inverse = np.array([[1.0, 1.0]]), np.eye(2), np.diag([1.0, 0.0])
    for bound, first in ((1.25, 0.5), (0.25, 0.0)):
        changed = exact_first_moment(W, D, inverse.__matmul__, bound)
        np.testing.assert_allclose(changed, [[first, 1.0]], atol=1e-14)


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize(("m", "n"), [(5, 7), (7, 4)])
@pytest.mark.parametrize("reduction", [1.01, 1e6])
def test_restricted_weight_from_its_definition(reduction, m, n, n_groups):
    W, layer = problem(8, m, n, n_groups)
    D, S, epsilon = layer.differences, layer.second_moment, 1e-2
    values, Q = np.linalg.eigh(D @ D.T + epsilon * np.eye(n))
    S_e = (Q * np.sqrt(values)) @ Q.T
    U, sigma, Vt = np.linalg.svd(W @ S_e, full_matrices=False)
    rows = Vt @ np.linalg.inv(S_e)
    k = ((rows @ S) * rows).sum(axis=1)
    changed = restricted(W, layer, reduction, epsilon)
    new = ((U.T @ changed @ S_e) * Vt).sum(axis=1)
    np.testing.assert_allclose((U * new) @ rows, changed, atol=1e-9)
    assert (new**2).sum() == pytest.approx((sigma**2).sum() / reduction, rel=1e-11)
    # Theorem 4.1 with the plus sign: one gamma for all, gamma = k (sigma / new - 1).
    gamma = k * (sigma / new - 1)
    np.testing.assert_allclose(gamma, gamma[0], rtol=1e-6)
    assert gamma[0] > 0


# Equations


@pytest.mark.parametrize("spread", [1, 15])
def test_multipliers_over_many_orders(spread):
    rng = np.random.default_rng(spread)
    for _ in range(20):
        r = rng.integers(1, 40)
        sigma, k = 10.0 ** rng.uniform(-spread, spread, (2, r))
        reduction = 10.0 ** rng.choice([rng.uniform(0, 1), 1e-12, 1e-5, 3, 10, 30])
        no_means = np.zeros((r, 1))
        changed = svd_first_moment(np.diag(sigma), no_means, np.diag(k), 1.0, reduction)
        assert (changed**2).sum() <= ((1 / reduction) + 1e-13) * (sigma**2).sum()
        x = shrunk_values(k, sigma, reduction)
        share = ((x / sigma.max()) ** 4).sum() / ((sigma / sigma.max()) ** 4).sum()
        assert share == pytest.approx(1 / reduction, rel=1e-13)
    # What costs nothing goes first: the other value pays alone, if that is enough.
    k, sigma = np.array([0.0, 1.0]), np.array([2.0, 1.0])
    for left, expected in ((5, [4**0.25, 1.0]), (0.5, [0, 0.5**0.25])):
        result = shrunk_values(k, sigma, 17 / left)
        np.testing.assert_allclose(result, expected, rtol=1e-14, atol=0)
    assert not shrunk_values(0 * k, sigma, math.inf).any()
    # S vanishes on the second axis, D on both: singular values 2 and 1 times 0.1.
    W, S = np.diag([2.0, 1.0]), np.diag([0.0, 1.0])
    for reduction, diagonal in ((1.0, [2.0, 1.0]), (2.5, [1.0, 1.0]), (20.0, [0, 0.5])):
        changed = svd_first_moment(W, np.zeros((2, 1)), S, 0.01, reduction)
        np.testing.assert_allclose(changed, np.diag(diagonal), atol=1e-14)
