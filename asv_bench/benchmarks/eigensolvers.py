"""Eigen-solvers on the fair clustering problem; scipy's eigsh is the peer."""

import numpy as np
from scipy import sparse

from scalefair.linalg import chebyshev, dual, lanczos, lobpcg
from scalefair.operators import AMGPreconditioner

from .problems import FairProblem, block_model, grid

TOL = 1e-3


class Embedding:
    params = (
        [10_000, 100_000],
        ["chebyshev", "chebyshev-float32", "dual", "lanczos", "eigsh"],
    )
    param_names = ("n_nodes", "solver")
    timeout = 600

    def setup(self, n_nodes, solver):
        data = block_model(n_nodes, 50)
        self.problem = FairProblem(data.graph, data.sensitive_features, 50)
        self.run(solver)  # compiles the kernels

    def run(self, solver):
        problem = self.problem
        if solver == "eigsh":
            return *problem.eigsh(TOL), np.nan
        dtype = np.float32 if solver.endswith("float32") else np.float64
        solve = {"lanczos": lanczos, "dual": dual}.get(solver, chebyshev)
        options = {"tol": TOL, "orthogonal_to": problem.Q, "random_state": 0}
        result = solve(problem.projected(dtype), problem.k, **options)
        return result.values, result.vectors, result.n_columns

    def time_solve(self, n_nodes, solver):
        self.run(solver)

    peakmem_solve = time_solve

    def track_residual(self, n_nodes, solver):
        values, vectors, _ = self.run(solver)
        return self.problem.check(values, vectors, 1.01 * TOL)

    def track_vectors_multiplied(self, n_nodes, solver):
        return self.run(solver)[2]


class Mesh:
    """A 300 x 300 grid, two groups: tiny gaps, where multigrid pays."""

    params = ([1e-4, 1e-6], ["chebyshev", "lobpcg"])
    param_names = ("tol", "solver")
    timeout = 600

    def setup(self, tol, solver):
        groups = np.random.default_rng(0).integers(2, size=90_000)
        self.problem = FairProblem(grid(300), groups, 10)
        self.time_solve(1e-2, solver)  # compiles the kernels

    def time_solve(self, tol, solver):
        problem = self.problem
        options = {"tol": tol, "orthogonal_to": problem.Q, "random_state": 0}
        if solver == "chebyshev":
            return chebyshev(problem.projected(), problem.k, **options)
        laplacian = sparse.eye_array(90_000) - problem.M
        T = AMGPreconditioner(laplacian, candidate=np.sqrt(problem.degrees))
        return lobpcg(problem.projected(), problem.k, preconditioner=T, **options)

    def track_residual(self, tol, solver):
        result = self.time_solve(tol, solver)
        return self.problem.check(result.values, result.vectors, 1.01 * tol)

    def track_products(self, tol, solver):
        return self.time_solve(tol, solver).n_products
