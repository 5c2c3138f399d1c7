"""Which solver suits a problem."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from scalefair.cluster._fairness import FairProblem
from scalefair.operators import NormalizedAffinity, coarse_degree

__all__ = ["DENSE_LIMIT", "choose_solver"]

# Most nodes of the dense solver: three matrices of their order take 16 GiB.
DENSE_LIMIT = 26_754

# Up to this order the dense decomposition is exact and takes milliseconds; beyond it
# the iterations are faster (docs/performance.md).
_DENSE_ORDER = 100
# Nodes whose neighbours' neighbours are counted, and what speaks against a mesh:
# two hops reach this many times as many nodes as one, or an aggregate touches this
# many others. In the plane they are 3 and 6, in space 4 and 11 to 14, on social
# networks 12 to 36 and 14 to 100.
_SAMPLE = 200
_TWO_HOPS = 8.0
_COARSE_DEGREE = 8.0


def choose_solver(problem: FairProblem) -> str:
    """Pick the solver of ``solver="auto"``.

    Dense for small graphs and, as far as the memory goes, for more clusters than a
    quarter of the nodes. LOBPCG with multigrid on meshes of up to two dimensions
    (grids, road networks, k-NN graphs of points near a surface), where gaps are
    tiny. Chebyshev iteration for all others: it was the fastest on each of them
    (docs/performance.md).
    """
    n, affinity = problem.n, problem.affinity
    many_clusters = problem.k > n // 4
    if n <= _DENSE_ORDER or (many_clusters and n <= DENSE_LIMIT):
        return "nullspace"
    stored = isinstance(affinity, NormalizedAffinity)
    if stored and not many_clusters and _is_mesh(affinity.matrix):
        return "lobpcg"
    return "chebyshev"


def _is_mesh(M: sparse.csr_array) -> bool:
    """Whether neighbourhoods grow as slowly as on a line or in a plane."""
    return _two_hop_growth(M) < _TWO_HOPS and coarse_degree(M) < _COARSE_DEGREE


def _two_hop_growth(M: sparse.csr_array) -> float:
    """Nodes within two hops for each node within one, for a sample of nodes.

    Costs milliseconds, and settles most graphs that are no mesh.
    """
    n = M.shape[0]
    nodes = np.linspace(0, n - 1, min(n, _SAMPLE)).astype(int)
    near = _pattern(M[nodes])
    if near.nnz > n:
        return np.inf
    between = np.unique(near.indices)
    reached = near[:, between] @ _pattern(M[between])
    return float(reached.nnz / max(near.nnz, 1))


def _pattern(A: sparse.csr_array) -> sparse.csr_array:
    ones = np.ones(A.nnz, dtype=np.float32)
    return sparse.csr_array((ones, A.indices, A.indptr), shape=A.shape)
