"""Eigen-solvers on the fair clustering problem; scipy's eigsh is the peer."""

import numpy as np

from scalefair.linalg import chebyshev, lanczos

from .problems import FairProblem, block_model

TOL = 1e-3


class Embedding:
    params = ([10_000, 100_000], ["chebyshev", "chebyshev-float32", "lanczos", "eigsh"])
    param_names = ("n_nodes", "solver")
    timeout = 600

    def setup(self, n_nodes, solver):
        data = block_model(n_nodes, 50)
        self.problem = FairProblem(data.graph, data.sensitive_features, 50)
        self.run(solver)  # compiles the kernels

    def run(self, solver):
        problem = self.problem
        if solver == "eigsh":
            values, vectors = problem.eigsh(TOL)
            products = np.nan
        else:
            dtype = np.float32 if solver.endswith("float32") else np.float64
            solve = lanczos if solver == "lanczos" else chebyshev
            result = solve(
                problem.projected(dtype),
                problem.k,
                tol=TOL,
                orthogonal_to=problem.Q,
                random_state=0,
            )
            values, vectors = result.values, result.vectors
            products = result.n_columns
        return values, vectors, products

    def time_solve(self, n_nodes, solver):
        self.run(solver)

    def peakmem_solve(self, n_nodes, solver):
        self.run(solver)

    def track_residual(self, n_nodes, solver):
        values, vectors, _ = self.run(solver)
        return self.problem.check(values, vectors, 1.01 * TOL)

    def track_vectors_multiplied(self, n_nodes, solver):
        return self.run(solver)[2]
