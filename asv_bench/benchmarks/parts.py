"""Rows and graphs in parts against those in memory; a wrong answer raises in setup."""

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from scalefair.datasets import make_fair_sbm, make_group_gaussians
from scalefair.decomposition import FairPCA
from scalefair.operators import GroupCovariance, PartitionedMatrix
from scalefair.streaming import PartitionedRows

from .problems import assert_agree


class DenseRows:
    """Dense rows on Dask's threads: one pass for the moments, and one product."""

    params = ([100_000, 1_000_000], [200], ["Dask", "memory"])
    param_names = ("rows", "features", "where")
    timeout = 300

    def setup(self, m, n, where):
        data = make_group_gaussians(m, n, random_state=0)
        X, self.groups = data.data, data.sensitive_features
        codes = np.unique(self.groups, return_inverse=True)[1]
        self.V = np.random.default_rng(0).standard_normal((n, 10))
        self.X, rows = X, X
        if where == "Dask":
            self.X = da.from_array(X, chunks=(m // 16, n))
            rows = PartitionedRows.of(self.X)
        self.covariance = GroupCovariance(rows, codes, [0.5, 0.5])
        expected = GroupCovariance(X, codes, [0.5, 0.5])
        assert_agree(self.covariance @ self.V, expected @ self.V)

    def time_fit(self, m, n, where):
        FairPCA(10, solver="gram").fit(self.X, sensitive_features=self.groups)

    peakmem_fit = time_fit

    def time_product(self, m, n, where):
        self.covariance @ self.V


class Graph:
    """A product with a graph of 100,000 nodes in blocks of rows."""

    params = (["Dask", "memory"],)
    param_names = ("where",)

    def setup(self, where):
        graph = make_fair_sbm(
            100_000, n_clusters=5, n_groups=2, average_degree=50, random_state=0
        ).graph
        W = sparse.csr_array(graph)
        self.X = np.random.default_rng(0).standard_normal((W.shape[0], 10))
        self.W = W
        if where == "Dask":
            step = W.shape[0] // 8
            blocks = [W[i : i + step] for i in range(0, W.shape[0], step)]
            self.W = PartitionedMatrix([dask.delayed(block) for block in blocks])
        assert_agree(self.W @ self.X, W @ self.X)

    def time_product(self, where):
        self.W @ self.X
