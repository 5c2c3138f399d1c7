"""Sparse matrix times dense block: scipy.sparse against the package's kernel."""

import numpy as np

from scalefair.operators import NormalizedAffinity

from .problems import block_model


class BlockProduct:
    params = ([10_000, 100_000], [1, 8, 50], ["float32", "float64"])
    param_names = ("n_nodes", "n_columns", "dtype")

    def setup(self, n_nodes, n_columns, dtype):
        W = block_model(n_nodes, 50).graph
        self.affinity = NormalizedAffinity(W, dtype=np.dtype(dtype).type)
        self.matrix = self.affinity.matrix
        rng = np.random.default_rng(0)
        self.X = rng.standard_normal((n_nodes, n_columns)).astype(dtype)
        self.out = np.empty_like(self.X)
        self.affinity.apply(self.X, self.out)
        atol = 1e-4 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(self.out, self.matrix @ self.X, atol=atol)

    def time_scalefair(self, n_nodes, n_columns, dtype):
        self.affinity.apply(self.X, self.out)

    def time_scipy(self, n_nodes, n_columns, dtype):
        self.matrix @ self.X
