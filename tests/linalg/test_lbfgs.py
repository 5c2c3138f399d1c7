"""L-BFGS on blocks, on functions with known minima."""

import numpy as np
import pytest

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


def test_quadratic():
    objective, center = quadratic(np.geomspace(1e-2, 1e2, 12))
    V = np.zeros((12, 3))
    result = lbfgs(objective, V, ftol=-np.inf, gtol=1e-9)
    assert result.converged
    np.testing.assert_allclose(V, center, atol=1e-6)
    assert result.value == pytest.approx(0, abs=1e-12)


def test_unbounded_function_ends():
    objective = Smooth(lambda V: -float(V.sum()), lambda V: -np.ones_like(V))
    result = lbfgs(objective, np.zeros((2, 2)), ftol=-np.inf)
    assert not result.converged
