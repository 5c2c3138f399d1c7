"""Fair PCA of two groups from their covariances."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from scalefair.decomposition._two_groups import solve_two_groups, subspace_of_trace


def _best(C, r):
    return np.linalg.eigvalsh(C)[:, C.shape[1] - r :].sum(axis=1)


def _solve(C, r, **options):
    return solve_two_groups(C, r, best=_best(C, r), **options)


def _dual(C, r, t):
    w = np.array([t, 1 - t])
    return w @ _best(C, r) - _best(np.tensordot(w, C, axes=1)[None], r)[0]


def _covariance(rng, n):
    M = rng.standard_normal((n, n + 2))
    return M @ M.T / n


def _rotation(rng, n):
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def _pair(kind, rng, n):
    if kind == "generic":
        return np.stack([_covariance(rng, n), _covariance(rng, n)])
    if kind == "commuting":  # every crossing of eigenvalues is a tie
        Q = _rotation(rng, n)
        return np.stack([Q @ np.diag(rng.random(n)) @ Q.T for _ in range(2)])
    if kind == "multiple":  # ties of any multiplicity
        Q = _rotation(rng, n)
        return np.stack(
            [Q @ np.diag(rng.integers(0, 3, n).astype(float)) @ Q.T for _ in range(2)]
        )
    if kind == "near tie":
        C = _pair("multiple", rng, n)
        size = 10.0 ** -rng.integers(3, 14)
        return C + size * _pair("generic", rng, n)
    if kind == "identical":
        return np.stack([_covariance(rng, n)] * 2)
    if kind == "constant group":
        return np.stack([_covariance(rng, n), np.zeros((n, n))])
    assert kind == "low rank"
    vectors = rng.standard_normal((2, n, 1))
    return vectors @ vectors.transpose(0, 2, 1)


KINDS = [
    "generic",
    "commuting",
    "multiple",
    "near tie",
    "identical",
    "constant group",
    "low rank",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e7])
def test_equal_losses_and_no_gap(kind, scale):
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(40):
        n = int(rng.integers(1, 8))
        r = int(rng.integers(1, n + 1))
        C = scale * _pair(kind, rng, n)
        solution = _solve(C, r)
        size = _best(C, r).max()
        np.testing.assert_allclose(
            solution.basis.T @ solution.basis, np.eye(r), atol=1e-12
        )
        captured = [np.trace(solution.basis.T @ C_g @ solution.basis) for C_g in C]
        np.testing.assert_allclose(
            solution.losses, _best(C, r) - captured, atol=1e-13 * size
        )
        assert solution.converged
        assert (
            -1e-13 * size <= solution.gap <= 1e-8 * solution.losses.max() + 1e-13 * size
        )
        # Equal at the optimum, whatever the multiplicity of the tie.
        difference = abs(solution.losses[0] - solution.losses[1])
        assert difference <= 1e-8 * solution.losses.max() + 1e-13 * size
        assert solution.dual_value == pytest.approx(
            _dual(C, r, solution.weights[0]), abs=1e-13 * size
        )


@pytest.mark.parametrize("r", [1, 2, 4])
def test_dual_maximum_by_another_method(r):
    rng = np.random.default_rng(r)
    C = _pair("generic", rng, 6)
    solution = _solve(C, r)
    peer = minimize_scalar(
        lambda t: -_dual(C, r, t),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert solution.dual_value == pytest.approx(-peer.fun, rel=1e-12)
    assert solution.weights[0] == pytest.approx(peer.x, abs=1e-5)
    assert solution.n_iter <= 12
    short = _solve(C, r, max_iter=1)
    assert not short.converged
    assert short.gap > 0


def test_known_answer_with_a_kink():
    # Diagonal (3, 1, 0) and (0, 1, 2): the loss max(3 - 3a - b, 2 - b - 2c) over
    # squares a + b + c = 1 is least, 6/5, on the edge b = 0 with 3c = 2a: a = 3/5.
    C = np.stack([np.diag([3.0, 1.0, 0.0]), np.diag([0.0, 1.0, 2.0])])
    solution = _solve(C, 1)
    np.testing.assert_allclose(solution.losses, [1.2, 1.2], atol=1e-13)
    assert solution.weights[0] == pytest.approx(0.4, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_squares_of_covariances_may_leave_the_range(scale):
    C = _pair("generic", np.random.default_rng(4), 6)
    solution, scaled = _solve(C, 2), _solve(scale * C, 2)
    assert scaled.converged
    assert scaled.n_iter == solution.n_iter
    np.testing.assert_allclose(scaled.weights, solution.weights, rtol=1e-9)


def test_upper_bounds_of_a_larger_problem():
    # The best sums of a reduced problem are those of the original: the losses are
    # too, and may not be equalised within the subspace.
    C = np.stack([np.diag([1.0, 0.9]), np.diag([1.0, 0.9])])
    solution = solve_two_groups(C, 1, best=np.array([5.0, 1.0]))
    np.testing.assert_allclose(solution.losses, [4.0, 0.0], atol=1e-12)
    assert solution.weights[0] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["generic", "multiple"])
@pytest.mark.parametrize("q", range(1, 8))
def test_every_trace_within_the_bounds_is_met(kind, q):
    C = np.subtract(*_pair(kind, np.random.default_rng(q), q))
    for k in range(q + 1):
        values = np.linalg.eigvalsh(C)
        lowest, highest = values[:k].sum(), values[q - k :].sum()
        for trace in lowest + (highest - lowest) * np.array([0, 0.23, 0.5, 0.9, 1]):
            V = subspace_of_trace(C, k, trace)
            assert V.shape == (q, k)
            np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-13)
            assert np.trace(V.T @ C @ V) == pytest.approx(trace, abs=1e-12)
        assert subspace_of_trace(C, k, highest + 0.1) is None
        assert subspace_of_trace(C, k, lowest - 0.1) is None
