"""Problems and peers that the benchmarks share; a wrong answer raises."""

from functools import cache
from importlib import import_module

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from scalefair.datasets import make_fair_sbm
from scalefair.operators import NormalizedAffinity, Projected

N_GROUPS = 5


def prepared(owner, *parameters):
    """Instance of a suite's class (suite.Class), set up for these parameters."""
    suite, kind = owner.split(".")
    bench = getattr(import_module(f"benchmarks.{suite}"), kind)()
    bench.setup(*parameters)
    return bench


def assert_agree(actual, expected, tol=1e-8):
    """Raise unless two arrays differ by at most tol of the largest entry."""
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    if not error <= tol:
        raise AssertionError(f"results differ by {error:.1e} of the largest")


@cache
def block_model(n_nodes, n_clusters):
    """Sparse block model of average degree 30 and five groups."""
    return make_fair_sbm(
        n_nodes,
        n_clusters=n_clusters,
        n_groups=N_GROUPS,
        average_degree=30,
        random_state=0,
    )


def grid(side):
    """Graph of a square grid, side nodes wide."""
    line = sparse.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    eye = sparse.eye_array(side)
    return sparse.csr_array(sparse.kron(eye, line) + sparse.kron(line, eye))


def largest_component(graph, groups):
    """Graph of the largest connected component, and the groups of its nodes."""
    W = sparse.csr_array(graph)
    _, component = connected_components(W, directed=False)
    kept = np.flatnonzero(component == np.bincount(component).argmax())
    return sparse.csr_array(W[kept][:, kept]), np.asarray(groups)[kept]


class FairProblem:
    """Largest eigenpairs of P M P, built from the definitions with SciPy alone."""

    def __init__(self, W, groups, k):
        self.W, self.groups, self.k = sparse.csr_array(W), np.asarray(groups), k
        self.degrees = self.W.sum(axis=1)
        scale = sparse.diags_array(1 / np.sqrt(self.degrees))
        self.M = sparse.csr_array(scale @ self.W @ scale)
        G = (self.groups[:, None] == np.unique(self.groups)).astype(float)
        F = (G - G.mean(axis=0)) / np.sqrt(self.degrees)[:, None]
        self.Q, _ = np.linalg.qr(F[:, :-1])

    def project(self, X):
        return X - self.Q @ (self.Q.T @ X)

    def eigsh(self, tol):
        """Peer: ARPACK with SciPy's own matrix-vector product (s-FSC)."""
        operator = LinearOperator(
            self.M.shape, lambda x: self.project(self.M @ self.project(x)), dtype=float
        )
        rng = np.random.default_rng(0)
        v0 = self.project(rng.standard_normal(self.M.shape[0]))
        values, vectors = eigsh(operator, self.k, which="LA", tol=tol, v0=v0)
        return values[::-1], vectors[:, ::-1]

    def projected(self, dtype=np.float64):
        """Ours: the operator that the solvers of the package are given."""
        affinity = NormalizedAffinity(self.W, dtype=dtype)
        return Projected(affinity, self.Q, constrained_value=-1.0)

    def check(self, values, vectors, tol):
        """Raise unless the pairs are orthonormal, fair and accurate to tol."""
        MH = self.project(self.M @ vectors)
        residual = np.linalg.norm(MH - vectors * values, axis=0).max()
        if not residual <= tol:
            raise AssertionError(f"residual {residual:.1e} above {tol:.1e}")
        violation = np.linalg.norm(self.Q.T @ vectors)
        if not violation <= max(1e-5, tol):  # ARPACK's vectors drift by as much
            raise AssertionError(f"|Q^T H| = {violation:.1e}")
        error = np.abs(vectors.T @ vectors - np.eye(self.k)).max()
        if not error <= 1e-5:
            raise AssertionError(f"|H^T H - I| = {error:.1e}")
        return residual
