"""Bundle and switching subgradients as inner solvers, to the same residual."""

import numpy as np

from scalefair.optimize import DCProblem, direct_switching_subgradient, idca

RESIDUAL = 1e-2


class ParityOfHinges(DCProblem):
    """Logistic loss; mean ramps of two groups of rows differ by 0.02 at most."""

    n_constraints = 2

    def __init__(self, n_rows, n_variables, seed=0):
        rng = np.random.default_rng(seed)
        self.n_variables = n_variables
        self.X = rng.standard_normal((n_rows, n_variables))
        group = self.X[:, 0] + rng.standard_normal(n_rows) > 0
        score = self.X @ rng.standard_normal(n_variables) / np.sqrt(n_variables)
        self.y = np.sign(score + group + rng.standard_normal(n_rows))
        self.shares = np.where([group, ~group], 1.0, 0.0)
        self.shares /= self.shares.sum(axis=1, keepdims=True)

    def _hinges(self, h):
        """Mean hinges of both groups at both corners, and their slopes."""
        on = h + np.array([[0.5], [-0.5]]) > 0
        hinges = np.where(on, h + np.array([[0.5], [-0.5]]), 0.0) @ self.shares.T
        weights = on[:, None, :] * self.shares
        return hinges, weights @ self.X

    def evaluate(self, v):
        h = self.X @ v
        margin = self.y * h
        loss = np.logaddexp(0, -margin).mean()
        slope = -(self.y / (1 + np.exp(margin))) @ self.X / self.y.size
        (high, low), (up, down) = self._hinges(h)
        # S_0 - S_1 - 0.02 and S_1 - S_0 - 0.02 with S = high - low
        plus = np.array([loss, high[0] + low[1], high[1] + low[0]])
        minus = np.array([0, low[0] + high[1] + 0.02, low[1] + high[0] + 0.02])
        return (
            (plus, np.array([slope, up[0] + down[1], up[1] + down[0]])),
            (minus, np.array([0 * slope, down[0] + up[1], down[1] + up[0]])),
        )

    def plus(self, v):
        return self.evaluate(v)[0]

    def minus(self, v):
        return self.evaluate(v)[1]


def solve(problem, method):
    x0 = np.zeros(problem.n_variables)
    if method == "direct":
        return direct_switching_subgradient(
            problem, x0, eps=1e-3, tol=RESIDUAL, max_iter=5000
        )
    return idca(problem, x0, inner=method, tol=RESIDUAL, max_calls=5000)


class Inner:
    params = ([20, 200], ["bundle", "switching_subgradient", "direct"])
    param_names = ("variables", "method")
    timeout = 600

    def setup(self, n, method):
        self.problem = ParityOfHinges(2000, n)
        self.solution = solve(self.problem, method)
        # The bundle proves the residual, of which the violation is a part. Switching
        # subgradients may end infeasible: track_violation says by how much.
        if method == "bundle" and not self.solution.converged:
            raise RuntimeError(self.solution.message)

    def time_solve(self, n, method):
        solve(self.problem, method)

    def track_calls(self, n, method):
        return self.solution.n_calls

    def track_residual(self, n, method):
        return self.solution.kkt_residual

    def track_violation(self, n, method):
        return self.solution.infeasibility

    def track_objective(self, n, method):
        return self.solution.objective


Inner.track_calls.unit = "oracle calls"
