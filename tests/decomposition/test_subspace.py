"""Fair PCA by subspace acceleration against the direct methods."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from scalefair.decomposition import _covariances
from scalefair.decomposition._covariances import (
    FormedCovariances,
    arpack_leading,
    top_sums,
)
from scalefair.decomposition._subspace import dense_solver, solve_by_subspaces


def tied(multiplicity):
    """At equal weights `multiplicity` eigenvalues tie; the derivative jumps there."""
    n, shift = 80, np.zeros(80)
    values = np.concatenate([[5.0, 4.0], np.ones(multiplicity), np.full(n, 0.1)])[:n]
    shift[2 : 2 + multiplicity] = np.linspace(0.4, -0.4, multiplicity)
    return np.array([np.diag(values * (1 + s * shift)) for s in (1, -1)])


def generic():
    X = np.random.default_rng(1).standard_normal((2, 80, 80))
    X *= np.exp(-np.arange(80) / 40)
    return X.transpose(0, 2, 1) @ X / 80


def nearly_tied():
    """The 4th and the 5th eigenvalue of the weighted sum all but meet (1e-5)."""
    values, shift = np.linspace(1, 0.1, 80), np.zeros(80)
    values[3:5], shift[3:5] = 0.9, [0.3, -0.3]
    C = np.array([np.diag(values * (1 + s * shift)) for s in (1, -1)])
    X = np.random.default_rng(1).standard_normal((2, 80, 80))
    return C + 1e-5 * X @ X.transpose(0, 2, 1) / 80


@pytest.mark.parametrize(
    ("C", "r"),
    [
        (generic(), 4),
        (generic(), 20),
        (nearly_tied(), 4),
        *((tied(q), r) for q in (2, 3, 6) for r in range(3, 2 + q)),
    ],
)
def test_ties(C, r):
    Q = np.linalg.qr(np.random.default_rng(r).standard_normal((80, 80)))[0]
    C = Q @ C @ Q.T
    family = FormedCovariances(C, r, np.random.RandomState(0))
    solution = solve_by_subspaces(family, tol=1e-8, max_iter=30)
    U, best = solution.basis, top_sums(C, r)
    losses = best - np.trace(U.T @ C @ U, axis1=1, axis2=2)
    direct = dense_solver(2)(C, r, best=best, tol=1e-10)
    assert solution.converged
    # A rotation among eigenvalues 1e-5 apart rounds to EPS / 1e-5, below 1e-10.
    assert abs(losses[0] - losses[1]) < 1e-10
    # The bracket of the dual is a tenth of the tolerance wide.
    assert losses.max() == pytest.approx(direct.dual_value, rel=1e-9)


def test_small_losses_beside_a_large_eigenvalue():
    # `tol` is relative to the loss, which is 1e-5 of the sums of eigenvalues here.
    values = 1e-5 * np.random.default_rng(0).random((2, 80))
    values[:, 0] = 1.0
    C = np.array([np.diag(v) for v in values])
    family = FormedCovariances(C, 2, np.random.RandomState(0))
    solution = solve_by_subspaces(family, tol=1e-4, max_iter=30)
    assert solution.converged
    np.testing.assert_allclose(solution.best, top_sums(C, 2), rtol=0, atol=1e-10)


def test_uncorrelated_features():
    # Groups have common eigenvectors, and no other leading one of their sum is in the
    # span of each group's own leading ones.
    values = np.full((2, 80), 0.01)
    values[0, :20] = values[1, 20:40] = np.linspace(1, 1.2, 20)
    values[:, 40] = 0.9
    family = FormedCovariances(
        np.array([np.diag(v) for v in values]), 1, np.random.RandomState(0)
    )
    solution = solve_by_subspaces(family, tol=1e-8, max_iter=30)
    losses = solution.best - np.trace(solution.compressed, axis1=1, axis2=2)
    np.testing.assert_allclose(losses, 0.3)
    assert solution.converged


def _diagonal(values):
    return aslinearoperator(sparse.diags_array(np.asarray(values, float)).tocsr())


def test_missed_copies_are_noticed(monkeypatch):
    # A solver that returns one of two equal leading values, as ARPACK can.
    values = np.concatenate([[2.0, 2.0], 0.9 ** np.arange(300)])
    original = _covariances.eigsh

    def forgetful(A, k, **options):
        w, U = original(A, k + 1, **options)
        return np.delete(w, -2), np.delete(U, -2, axis=1)

    monkeypatch.setattr(_covariances, "eigsh", forgetful)
    rng = np.random.RandomState(0)
    assert arpack_leading(_diagonal(values), 3, 3, 1e-10, rng) is None


def test_failure_is_no_result():
    # A zero operator: ARPACK's starting vector is mapped to zero.
    rng = np.random.RandomState(0)
    assert arpack_leading(_diagonal(np.zeros(50)), 2, 2, 1e-10, rng) is None
