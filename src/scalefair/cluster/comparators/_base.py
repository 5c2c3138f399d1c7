"""What the comparators share: their words, their input, and what they measure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._groups import encode_groups
from scalefair.cluster import _base
from scalefair.cluster._solvers import FairProblem

Array = NDArray[np.float64]

TEXTS = {
    **_base.TEXTS,
    "affinity": """\
affinity : {"precomputed", "nearest_neighbors"}, default="precomputed"
    ``"precomputed"``: `fit` takes the affinity matrix itself.
    ``"nearest_neighbors"``: `fit` takes rows of features and builds their
    symmetric k-NN graph.""",
    "measures": """\
fairness_violation_ : float
    :math:`|F^T H|_F` of `embedding_`, F as in :class:`FairSpectralClustering`.
orthogonality_violation_ : float
    :math:`|H^T H - I|_F`, zero up to rounding.""",
    "affinity_matrix_": """\
affinity_matrix_ : csr_array of shape (n, n)
    The affinity given; for ``"nearest_neighbors"``, the graph built.""",
    "fit": """\
Parameters
----------
W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
    Symmetric affinity with entries >= 0, in any SciPy sparse format or
    dense; with ``affinity="nearest_neighbors"`` rows of features.
y : None
    Ignored; there for the scikit-learn interface.
"""
    + _base.TEXTS["sensitive_features"]
    + """

Returns
-------
self : object
    The fitted estimator.

Raises
------
"""
    + _base.TEXTS["bad_graph"],
    "tonin": """\
.. [2] Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
   under Fairness Constraints", ICML.""",
}


@dataclass(frozen=True)
class ClusteredGraph:
    """The nodes to cluster, their graph and their groups."""

    given: sparse.csr_array  # (n, n): affinity of all nodes
    kept: NDArray[np.bool_]  # (n,): nodes to cluster, m of them
    W: sparse.csr_array  # (m, m): their affinity
    codes: NDArray[np.int64]  # (m,): their groups, as indices
    groups: NDArray[Any]

    @cached_property
    def degrees(self) -> Array:
        """Row sums of `W`, all positive."""
        return np.asarray(self.W @ np.ones(self.W.shape[0]))

    @cached_property
    def inv_sqrt_degrees(self) -> Array:
        """What F needs of an affinity (:class:`FairProblem`)."""
        return np.asarray(1.0 / np.sqrt(self.degrees))


class GraphComparator(_base.GraphClustering):
    """Methods that see the entries of the graph they cluster."""

    def _read_graph(
        self, W: Any, sensitive_features: ArrayLike, *, loops: bool
    ) -> ClusteredGraph:
        W = self._validate(W)
        names, all_codes = encode_groups(sensitive_features, W.shape[0])
        given = W = self._graph(W).astype(np.float64, copy=False)
        if not loops and W.diagonal().any():
            W = sparse.csr_array(W - sparse.diags_array(W.diagonal()))
            W.eliminate_zeros()
        kept = self._kept_nodes(W)
        W = _base.kept_part(W, kept)
        groups, codes = _base.kept_groups(names, all_codes, kept)
        if self.n_clusters > W.shape[0]:
            raise ValueError(
                f"n_clusters={self.n_clusters} must not exceed the number of "
                f"clustered nodes, n_samples={W.shape[0]}."
            )
        return ClusteredGraph(given, kept, W, codes, groups)

    def _set_results(
        self,
        graph: ClusteredGraph,
        labels: NDArray[np.integer],
        H: Array,
        history: list[float],
        converged: bool,
    ) -> None:
        self._set_clusters(graph.kept, labels, H)
        self.affinity_matrix_ = graph.given
        self.groups_ = graph.groups
        self.history_ = np.array(history)
        self.converged_ = converged
        problem = FairProblem(graph, graph.codes, self.n_clusters)
        self.fairness_violation_ = problem.violation(H)
        self.orthogonality_violation_ = float(
            np.linalg.norm(H.T @ H - np.eye(H.shape[1]))
        )
