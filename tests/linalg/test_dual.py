"""The dual solver and its objective, with the polar factor.

What it shares with the other solvers is in test_solvers.py.
"""

import numpy as np
import pytest
from scipy.linalg import polar as scipy_polar
from scipy.optimize import minimize
from scipy.sparse.linalg import aslinearoperator

from scalefair.linalg._dual import EnergyDual, inverse_root, polar
from scalefair.linalg._lbfgs import lbfgs


def positive_definite(n=120, seed=0):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (U * np.linspace(0.1, 2, n)) @ U.T


class TestEnergyDual:
    @pytest.fixture
    def dual(self):
        A = positive_definite()
        objective = EnergyDual(aslinearoperator(A - 3 * np.eye(120)), -3.0, 4)
        rng = np.random.default_rng(1)
        objective.B = rng.standard_normal((120, 4))
        objective.curvature = 0.8
        return A, objective, rng.standard_normal((120, 4))

    @staticmethod
    def value(A, objective, V):
        distance = ((V - objective.B) ** 2).sum() / (2 * objective.curvature)
        return distance - np.linalg.svd(A @ V, compute_uv=False).sum()

    def test_value_and_gradient(self, dual):
        A, objective, V = dual
        assert objective.start(V) == pytest.approx(self.value(A, objective, V))
        gradient = np.empty_like(V)
        objective.gradient(gradient)
        D = np.random.default_rng(2).standard_normal(V.shape)
        h = 1e-6
        rise = self.value(A, objective, V + h * D) - self.value(A, objective, V - h * D)
        assert (gradient * D).sum() == pytest.approx(rise / (2 * h), rel=1e-6)

    def test_line_and_move(self, dual):
        A, objective, V = dual
        objective.start(V)
        D = np.random.default_rng(2).standard_normal(V.shape)
        along = objective.line(D)
        for t in (0.0, 0.3, -1.0):
            value, slope = along(t)
            assert value == pytest.approx(self.value(A, objective, V + t * D))
            h = 1e-6
            rise = self.value(A, objective, V + (t + h) * D) - self.value(
                A, objective, V + (t - h) * D
            )
            assert slope == pytest.approx(rise / (2 * h), rel=1e-5, abs=1e-6)
        V += 0.3 * D
        assert objective.move(D, 0.3) == pytest.approx(self.value(A, objective, V))

    def test_same_minimum_as_scipy(self, dual):
        A, objective, V = dual
        objective.B = None
        objective.curvature = 1.0

        def flat(v):
            U, s, W = np.linalg.svd(A @ v.reshape(120, 4), full_matrices=False)
            return 0.5 * v @ v - s.sum(), v - (A @ U @ W).ravel()

        peer = minimize(flat, V.ravel(), jac=True, method="L-BFGS-B", tol=1e-14)
        found = lbfgs(objective, V, ftol=-np.inf, gtol=1e-6)
        assert found.value == pytest.approx(peer.fun, rel=1e-9)
        # The known minimum: minus half the sum of the largest squared eigenvalues.
        top = np.linalg.eigvalsh(A)[-4:]
        assert found.value == pytest.approx(-(top**2).sum() / 2, rel=1e-9)


def block(singular_values, n=200, seed=0):
    rng = np.random.default_rng(seed)
    k = len(singular_values)
    U = np.linalg.qr(rng.standard_normal((n, k)))[0]
    V = np.linalg.qr(rng.standard_normal((k, k)))[0]
    return np.ascontiguousarray((U * singular_values) @ V.T)


def factor(Z):
    H = np.full_like(Z, np.nan)
    polar(Z, inverse_root(Z.T @ Z), H)
    return H


@pytest.mark.parametrize(
    "singular_values",
    [
        [3.0],
        [1.0, 1.0, 1.0],
        [5.0, 1.0, 0.3],
        [1e4, 1.0, 0.1],
        [1e-5, 1e-6, 1e-7],
        [1e7, 1e6, 1e5],
    ],
)
def test_against_scipy(singular_values):
    Z = block(np.array(singular_values))
    expected, _ = scipy_polar(Z)
    H = factor(Z)
    norm = inverse_root(Z.T @ Z).nuclear_norm
    assert norm == pytest.approx(sum(singular_values), rel=1e-6)
    np.testing.assert_allclose(H.T @ H, np.eye(len(singular_values)), atol=1e-11)
    np.testing.assert_allclose(H, expected, atol=1e-7)


def test_vanishing_directions_stay_short():
    Z = block(np.array([2.0, 1.0, 0.0]))
    H = factor(Z)
    assert np.isfinite(H).all()
    # On the rest it is an isometry.
    assert np.linalg.svd(H, compute_uv=False)[:2] == pytest.approx([1, 1])


def test_zero_block():
    np.testing.assert_array_equal(factor(np.zeros((10, 2))), 0)
    assert inverse_root(np.zeros((2, 2))).nuclear_norm == 0
