"""Fair PCA of small covariances: certificates, known answers, ties, other solvers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalefair.decomposition import _dense

from .conftest import best_sums


def solve(C, r, best=None, **options):
    best = best_sums(C, r) if best is None else best
    solver = _dense.solve_two_groups if len(C) == 2 else _dense.solve_groups
    return solver(C, r, best=best, **options)


def covariances(seed, G, n, m=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((G, m or 3 * n, n)) * np.sqrt(np.arange(n, 0, -1.0))
    return X.transpose(0, 2, 1) @ X / X.shape[1]


def phi(C, r, weights):
    return weights @ best_sums(C, r) - best_sums(np.tensordot([weights], C, 1), r)[0]


def assert_consistent(C, r, solution):
    """The solution is what it says, converged, and weak duality holds."""
    size = max(best_sums(C, r).max(), np.finfo(float).tiny)
    U, weights = solution.basis, solution.weights
    assert U.shape == (C.shape[1], r)
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-12)
    losses = best_sums(C, r) - np.einsum("ij,gik,kj->g", U, C, U)
    np.testing.assert_allclose(solution.losses, losses, atol=1e-13 * size)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    dual = phi(C, r, weights)
    assert solution.dual_value == pytest.approx(dual, abs=1e-13 * size)
    assert solution.gap >= -1e-13 * size
    assert solution.converged


def turned(diagonals, rng):
    """Matrices that commute: every crossing of eigenvalues is a tie."""
    Q = np.linalg.qr(rng.standard_normal((len(diagonals[0]),) * 2))[0]
    return np.stack([Q @ np.diag(d) @ Q.T for d in diagonals])


PAIRS = {
    "generic": lambda rng, n: covariances(rng, 2, n, n + 2),
    "commuting": lambda rng, n: turned(rng.random((2, n)), rng),
    "multiple": lambda rng, n: turned(rng.integers(0, 3, (2, n)).astype(float), rng),
    "near tie": lambda rng, n: (
        PAIRS["multiple"](rng, n)
        + 10.0 ** -rng.integers(3, 14) * PAIRS["generic"](rng, n)
    ),
    "identical": lambda rng, n: np.repeat(covariances(rng, 1, n), 2, axis=0),
    "constant group": lambda rng, n: covariances(rng, 2, n) * [[[1.0]], [[0.0]]],
    "low rank": lambda rng, n: covariances(rng, 2, n, 1),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_two_groups_have_equal_losses_and_no_gap(kind, scale):
    rng = np.random.default_rng(list(PAIRS).index(kind))
    for _ in range(12):
        n = int(rng.integers(1, 8))
        r = int(rng.integers(1, n + 1))
        C = scale * PAIRS[kind](rng, n)
        solution = solve(C, r)
        assert_consistent(C, r, solution)
        # Equal at the optimum, whatever the multiplicity of the tie.
        allowed = 1e-8 * solution.losses.max() + 1e-13 * best_sums(C, r).max()
        assert solution.gap <= allowed
        assert np.ptp(solution.losses) <= allowed


def test_two_groups_of_a_reduced_problem():
    # Its best sums are those of the original: the losses are too, and may not be
    # equalised within the subspace.
    C = np.stack([np.diag([1.0, 0.9])] * 2)
    solution = solve(C, 1, best=np.array([5.0, 1.0]))
    np.testing.assert_allclose(solution.losses, [4.0, 0.0], atol=1e-12)
    assert solution.weights[0] == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6), st.integers(1, 8))
def test_any_problem_is_certified(seed, G, n, m):
    r = 1 + seed % n
    C = covariances(seed, G, n, m)
    solution = solve(C, r)
    assert_consistent(C, r, solution)
    error = 1e-8 * solution.losses.max() + 1e-13 * np.abs(C).max()
    for weights in np.random.default_rng(seed).dirichlet(np.ones(G), 20):
        assert phi(C, r, weights) <= solution.dual_value + error


@pytest.mark.parametrize("r", [1, 3])
def test_groups_that_lose_nothing(r):
    same = np.repeat(covariances(0, 1, 5), 4, axis=0)
    for C in (same, np.zeros((3, 5, 5))):
        solution = solve(C, r)
        assert_consistent(C, r, solution)
        np.testing.assert_allclose(solution.losses, 0, atol=1e-12)
    # One of them is constant: whatever the basis, its weight is zero.
    C = covariances(0, 4, 5)
    C[2] = 0.0
    solution, without = solve(C, r), solve(C[[0, 1, 3]], r)
    assert_consistent(C, r, solution)
    assert solution.losses[2] == 0
    assert solution.weights[2] == pytest.approx(0, abs=1e-9)
    assert solution.dual_value == pytest.approx(without.dual_value, rel=1e-8)


def test_start_at_the_solution_and_steps_that_run_out():
    C = covariances(4, 4, 8)
    solution = solve(C, 3)
    again = solve(C, 3, weights0=solution.weights)
    assert again.n_iter <= 2 < solution.n_iter
    assert again.dual_value == pytest.approx(solution.dual_value, rel=1e-10)
    for C in (covariances(3, 3, 3), covariances(2, 2, 6)):
        solution = solve(C, 1, max_iter=1)
        assert not solution.converged
        assert solution.gap > 0
