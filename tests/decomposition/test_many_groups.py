"""Fair PCA of many groups against brute force and other solvers."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from scalefair.decomposition import _many_groups
from scalefair.decomposition._many_groups import local_minimax


def solve_groups(C, r, best=None, **options):
    best = best_sums(C, r) if best is None else best
    return _many_groups.solve_groups(C, r, best=best, **options)


def covariances(seed, G, n, m=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((G, m or 3 * n, n)) * np.sqrt(np.arange(n, 0, -1.0))
    return X.transpose(0, 2, 1) @ X / X.shape[1]


def best_sums(C, r):
    return np.linalg.eigvalsh(C)[:, C.shape[1] - r :].sum(axis=1)


def losses_of(C, best, U):
    return best - np.einsum("ij,gik,kj->g", U, C, U)


def phi(C, r, weights):
    mu = np.linalg.eigvalsh(np.tensordot(weights, C, axes=1))
    return weights @ best_sums(C, r) - mu[..., C.shape[1] - r :].sum(axis=-1)


def three_lines(n):
    """Covariances 2 u u^T, the three u in a plane and 60 degrees apart."""
    angles = np.pi / 3 * np.arange(3)
    u = np.zeros((3, n))
    u[:, 0], u[:, 1] = np.cos(angles), np.sin(angles)
    return 2 * u[:, :, None] * u[:, None, :]


def assert_consistent(C, r, solution):
    """The solution is what it says, and weak duality holds."""
    size = max(best_sums(C, r).max(), np.finfo(float).tiny)
    assert solution.basis.shape == (C.shape[1], r)
    np.testing.assert_allclose(solution.basis.T @ solution.basis, np.eye(r), atol=1e-12)
    np.testing.assert_allclose(
        solution.losses,
        losses_of(C, best_sums(C, r), solution.basis),
        atol=1e-13 * size,
    )
    assert solution.weights.min() >= 0
    assert solution.weights.sum() == pytest.approx(1, abs=1e-13)
    assert solution.dual_value == pytest.approx(
        phi(C, r, solution.weights), abs=1e-13 * size
    )
    assert solution.gap >= -1e-13 * size


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_any_problem_is_certified(seed, G, n, m):
    r = 1 + seed % n
    C = covariances(seed, G, n, m)
    solution = solve_groups(C, r)
    assert_consistent(C, r, solution)
    assert solution.converged
    rng = np.random.default_rng(seed)
    error = 1e-8 * solution.losses.max() + 1e-13 * np.abs(C).max()
    for weights in rng.dirichlet(np.ones(G), 20):
        assert phi(C, r, weights) <= solution.dual_value + error


@pytest.mark.parametrize("seed", [1, 4, 5])  # others have ties
def test_smooth_optimum_against_slsqp(seed):
    C, r = covariances(seed, 4, 8), 3
    best = best_sums(C, r)

    def negative(weights):
        _, U = np.linalg.eigh(np.tensordot(weights, C, axes=1))
        losses = losses_of(C, best, U[:, 5:])
        return -weights @ losses, -losses

    reference = minimize(
        negative,
        np.full(4, 0.25),
        jac=True,
        bounds=[(0, 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    solution = solve_groups(C, r)
    assert solution.gap <= 1e-8 * solution.losses.max()  # smooth
    assert solution.dual_value == pytest.approx(-reference.fun, rel=1e-8)


@pytest.mark.parametrize("r", [1, 3])
def test_groups_that_lose_nothing(r):
    same = np.repeat(covariances(0, 1, 5), 4, axis=0)
    for C in (same, np.zeros((3, 5, 5))):
        solution = solve_groups(C, r)
        assert_consistent(C, r, solution)
        assert solution.converged
        np.testing.assert_allclose(solution.losses, 0, atol=1e-12)
    # One of them is constant: whatever the basis, its weight is zero.
    C = covariances(0, 4, 5)
    C[2] = 0.0
    solution, without = solve_groups(C, r), solve_groups(C[[0, 1, 3]], r)
    assert_consistent(C, r, solution)
    assert solution.converged
    assert solution.losses[2] == 0
    assert solution.weights[2] == pytest.approx(0, abs=1e-9)
    assert solution.dual_value == pytest.approx(without.dual_value, rel=1e-8)


@pytest.mark.parametrize("kind", ["smooth", "tied"])
def test_order_unit_and_copies_of_groups(kind):
    C = {"smooth": covariances(2, 3, 6), "tied": three_lines(3)}[kind]
    solution = solve_groups(C, 1)
    variants = [(C[list(order)], 1) for order in permutations(range(3))]
    variants += [(1e-8 * C, 1e-8), (1e6 * C, 1e6), (np.concatenate([C, C]), 1)]
    for variant, unit in variants:
        other = solve_groups(variant, 1)
        assert other.converged
        assert other.dual_value == pytest.approx(unit * solution.dual_value, rel=1e-8)
        largest = unit * solution.losses.max()
        assert other.losses.max() == pytest.approx(largest, rel=1e-7, abs=0)


@pytest.mark.parametrize("n", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-5, 1e-8, 1e-11, 0.0])
def test_near_ties(epsilon, n):
    """Three lines pulled apart: the gap goes to 1/2, the dual is known throughout."""
    C = three_lines(n) + epsilon * covariances(3, 3, n)
    solution = solve_groups(C, 1)
    assert_consistent(C, 1, solution)
    assert solution.converged
    assert solution.dual_value == pytest.approx(1, abs=20 * epsilon + 1e-8)
    assert solution.losses.max() == pytest.approx(1.5, abs=20 * epsilon + 1e-8)


@pytest.mark.parametrize(("q", "k"), [(2, 1), (3, 1), (4, 2), (5, 3)])
def test_constructed_ties(q, k):
    """The weighted sum has a block of q equal eigenvalues, k of them wanted.

    Group g prefers its own directions of the block; a leading block that all share
    stays as it is.
    """
    rng = np.random.default_rng(q)
    n, G = q + 3, 4
    B = rng.standard_normal((G, q, q))
    B = B + B.transpose(0, 2, 1)
    B -= B.mean(axis=0)  # nothing is left of them at equal weights,
    B -= np.trace(B, axis1=1, axis2=2)[:, None, None] / q * np.eye(q)
    C = np.zeros((G, n, n))
    C[:, 0, 0] = C[:, 1, 1] = 30
    C[:, 2 : 2 + q, 2 : 2 + q] = B + 10 * np.eye(q)
    r = 2 + k
    # Bounds: with them equal weights and equal shares of the block are optimal.
    best = np.full(G, 60.0 + 10 * k + 1.0)
    solution = solve_groups(C, r, best=best)
    assert solution.converged
    assert solution.dual_value == pytest.approx(1, abs=1e-8)
    assert solution.gap >= -1e-12
    assert solution.losses.max() < 1 + np.abs(B).max()


def test_start_at_the_solution_and_steps_that_run_out():
    C = covariances(4, 4, 8)
    solution = solve_groups(C, 3)
    again = solve_groups(C, 3, weights0=solution.weights)
    assert again.n_iter <= 2 < solution.n_iter
    assert again.dual_value == pytest.approx(solution.dual_value, rel=1e-10)
    C = three_lines(3) + 1e-2 * covariances(3, 3, 3)
    solution = solve_groups(C, 1, max_iter=1)
    assert not solution.converged
    assert_consistent(C, 1, solution)


@pytest.mark.parametrize("seed", range(6))
def test_local_search_never_goes_up_and_levels_the_active_losses(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4, 20, 8))
    A = X.transpose(0, 2, 1) @ X / 20
    b = np.linalg.eigvalsh(A)[:, 5:].sum(axis=1)
    U = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    last = losses_of(A, b, U).max()
    for max_iter in (1, 2, 3, 4, 5, 7, 9, 12, 300):
        V = local_minimax(A, b, U, np.full(4, 0.25), atol=1e-14, max_iter=max_iter)
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-13)
        value = losses_of(A, b, V).max()
        assert value <= last + 1e-14
        last = value
    losses = np.sort(losses_of(A, b, V))
    assert losses[-1] == pytest.approx(losses[-2], rel=1e-8)
