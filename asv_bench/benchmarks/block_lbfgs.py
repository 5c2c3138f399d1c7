"""L-BFGS on blocks against scipy's L-BFGS-B on the flattened variable.

Both minimise the dual function of the fair embedding from the same start, with the
same kernels for products and Gram matrices. scipy stops at the paper's tolerances
(gtol 1e-3, ftol 1e-4); ours stops where its value is no larger.
"""

import numpy as np
from scipy.optimize import minimize

from scalefair.kernels import block_gram, block_multiply, inner
from scalefair.linalg import spectral_bounds
from scalefair.linalg._dual import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.operators import NormalizedAffinity, Projected

from .problems import FairProblem, block_model


class DualProblem:
    """Dual of the fair embedding of a block model, k = 50, five groups."""

    def __init__(self, n_nodes, k=50):
        data = block_model(n_nodes, k)
        problem = FairProblem(data.graph, data.sensitive_features, k)
        affinity = NormalizedAffinity(problem.W)
        bounds = spectral_bounds(affinity, random_state=0)
        self.operator = Projected(affinity, problem.Q, constrained_value=bounds.lower)
        self.shift = bounds.lower - 0.02 * (bounds.upper - bounds.lower)
        start = np.random.default_rng(0).standard_normal((n_nodes, k))
        self.start = problem.project(start)

    def scipy(self, maxcor=10):
        """Value that scipy reaches, and its number of evaluations."""
        shape = self.start.shape
        MV, MH = np.empty(shape), np.empty(shape)

        def value_and_gradient(v):
            V = v.reshape(shape)
            self.operator.apply(V, MV, shift=self.shift)
            values, S = np.linalg.eigh(block_gram(MV, MV))
            roots = np.sqrt(np.maximum(values, 1e-300))
            block_multiply(MV, (S / roots) @ S.T, MV)
            self.operator.apply(MV, MH, shift=self.shift)
            return 0.5 * inner(V, V) - roots.sum(), (V - MH).ravel()

        solution = minimize(
            value_and_gradient,
            self.start.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"gtol": 1e-3, "ftol": 1e-4, "maxcor": maxcor},
        )
        return solution.fun, solution.nfev

    def ours(self, value=-np.inf):
        """Value that ours reaches, and its number of steps."""
        V = self.start.copy()
        objective = EnergyDual(self.operator, self.shift, V.shape[1])
        result = lbfgs(
            objective,
            V,
            ftol=1e-4 if value == -np.inf else -np.inf,
            gtol=1e-3 if value == -np.inf else 0,
            callback=lambda _, current: current <= value,
        )
        if value > -np.inf and not result.value <= value:
            raise AssertionError(f"stopped at {result.value}, scipy reached {value}")
        return result.value, result.n_iter


class BlockLBFGS:
    params = ([10_000, 100_000], ["scalefair", "scipy"])
    param_names = ("n_nodes", "solver")
    timeout = 900
    number = 1
    repeat = (1, 3, 60.0)

    def setup_cache(self):
        return {n: DualProblem(n).scipy() for n in self.params[0]}

    def setup(self, cache, n_nodes, solver):
        self.problem = DualProblem(n_nodes)
        DualProblem(1000, 5).ours()  # compiles the kernels

    def run(self, cache, n_nodes, solver):
        if solver == "scipy":
            return self.problem.scipy()
        return self.problem.ours(cache[n_nodes][0])

    time_minimize = peakmem_minimize = run

    def track_value(self, cache, n_nodes, solver):
        return self.run(cache, n_nodes, solver)[0]
