"""L-BFGS on blocks, against functions with known minima and against SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse.linalg import aslinearoperator

from scalefair.linalg._dual_objective import EnergyDual
from scalefair.linalg._lbfgs import lbfgs


class Smooth:
    """A function of a block and its gradient, with the interface of the solver."""

    def __init__(self, value, gradient):
        self.value, self.slope = value, gradient
        self.n_lines = 0

    def start(self, V):
        self.V = V
        return self.value(V)

    def gradient(self, out):
        out[...] = self.slope(self.V)

    def line(self, D):
        self.n_lines += 1
        V = self.V.copy()

        def along(t):
            X = V + t * D
            return self.value(X), float((self.slope(X) * D).sum())

        return along

    def move(self, D, t):
        return self.value(self.V)


def quadratic(scales):
    a = np.asarray(scales, dtype=float)[:, None]
    center = np.arange(len(scales))[:, None] + np.arange(3.0)
    return (
        Smooth(
            lambda V: 0.5 * float((a * (V - center) ** 2).sum()),
            lambda V: a * (V - center),
        ),
        center,
    )


def rosenbrock():
    def value(V):
        x, y = V[:, 0], V[:, 1]
        return float((100 * (y - x**2) ** 2 + (1 - x) ** 2).sum())

    def gradient(V):
        x, y = V[:, 0], V[:, 1]
        gx = -400 * x * (y - x**2) - 2 * (1 - x)
        return np.stack([gx, 200 * (y - x**2)], axis=1)

    return Smooth(value, gradient)


@pytest.mark.parametrize("n_pairs", [1, 5, 20])
def test_quadratic(n_pairs):
    objective, center = quadratic(np.geomspace(1e-2, 1e2, 12))
    V = np.zeros((12, 3))
    found = lbfgs(objective, V, n_pairs=n_pairs, ftol=-np.inf, gtol=1e-9)
    assert found.converged
    np.testing.assert_allclose(V, center, atol=1e-6)
    assert found.value == pytest.approx(0, abs=1e-12)


def test_more_pairs_than_variables_solve_a_quadratic_at_once():
    objective, center = quadratic([1.0, 10.0, 100.0, 1000.0])
    V = np.zeros((4, 3))
    # Exact line searches and full memory: conjugate gradients, one step for each
    # different eigenvalue; a tenth of the slope is left here, so a few more.
    found = lbfgs(objective, V, n_pairs=8, ftol=-np.inf, gtol=1e-10)
    assert found.n_iter <= 16
    np.testing.assert_allclose(V, center, atol=1e-9)


def test_rosenbrock():
    V = np.tile([-1.2, 1.0], (4, 1))
    found = lbfgs(rosenbrock(), V, ftol=-np.inf, gtol=1e-8)
    assert found.converged
    np.testing.assert_allclose(V, 1, atol=1e-7)


def test_start_at_the_minimum():
    objective, center = quadratic([1.0, 2.0])
    V = center.copy()
    found = lbfgs(objective, V)
    assert (found.n_iter, found.converged) == (0, True)


def test_stops_at_ftol_and_at_max_iter():
    loose = lbfgs(quadratic(np.geomspace(1, 1e4, 30))[0], np.zeros((30, 3)), ftol=1e-2)
    tight = lbfgs(quadratic(np.geomspace(1, 1e4, 30))[0], np.zeros((30, 3)), ftol=1e-9)
    assert loose.n_iter < tight.n_iter
    short = lbfgs(quadratic(np.geomspace(1, 1e4, 30))[0], np.zeros((30, 3)), max_iter=2)
    assert (short.n_iter, short.converged) == (2, False)
    assert "raise max_iter" in short.message


def test_callback_stops():
    seen = []

    def callback(n_iter, value):
        seen.append(value)
        return n_iter == 3

    objective, _ = quadratic(np.geomspace(1, 1e4, 30))
    found = lbfgs(objective, np.zeros((30, 3)), ftol=-np.inf, callback=callback)
    assert found.n_iter == 3 == len(seen)
    assert np.all(np.diff(seen) < 0)


def test_one_line_search_a_step():
    objective, _ = quadratic(np.geomspace(1, 1e3, 20))
    found = lbfgs(objective, np.zeros((20, 3)), ftol=-np.inf, gtol=1e-8)
    assert objective.n_lines == found.n_iter


def test_unbounded_function_ends():
    objective = Smooth(lambda V: -float(V.sum()), lambda V: -np.ones_like(V))
    found = lbfgs(objective, np.zeros((2, 2)), ftol=-np.inf)
    assert not found.converged


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
