"""L-BFGS on blocks, on functions with known minima."""

import numpy as np
import pytest

from scalefair.linalg._lbfgs import lbfgs


class Smooth:
    """A function of a block and its gradient, with the interface of the solver."""

    def __init__(self, value, gradient):
        self.value, self.slope = value, gradient

    def start(self, V):
        self.V = V
        return self.value(V)

    def gradient(self, out):
        out[...] = self.slope(self.V)

    def line(self, D):
        points = self.V.copy()
        return lambda t: (
            self.value(points + t * D),
            float((self.slope(points + t * D) * D).sum()),
        )

    def move(self, D, t):
        return self.value(self.V)


@pytest.mark.parametrize("n_pairs", [1, 5])
def test_quadratic(n_pairs):
    scales = np.geomspace(1e-2, 1e2, 12)[:, None]
    center = np.arange(12)[:, None] + np.arange(3.0)
    objective = Smooth(
        lambda V: 0.5 * float((scales * (V - center) ** 2).sum()),
        lambda V: scales * (V - center),
    )
    V = np.zeros((12, 3))
    # With one pair it is a conjugate gradient method, which takes more steps.
    result = lbfgs(objective, V, n_pairs=n_pairs, ftol=-np.inf, gtol=1e-9)
    np.testing.assert_allclose(V, center, atol=1e-6)
    assert result.value == pytest.approx(0, abs=1e-12)
    assert 10 < result.n_iter < (200 if n_pairs == 5 else 2000)


def test_unbounded_function_ends():
    objective = Smooth(lambda V: -float(V.sum()), lambda V: -np.ones_like(V))
    assert lbfgs(objective, np.zeros((2, 2)), ftol=-np.inf).n_iter == 0
