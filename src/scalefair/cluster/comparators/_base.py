"""What the comparators share: documentation, `fit` and measures."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._entries import check_random_state, graph_as_matrix
from scalefair._membership import Membership
from scalefair._messages import warn_user
from scalefair.cluster import _base
from scalefair.cluster._neighbors import neighbors_graph
from scalefair.cluster._solvers import FairProblem
from scalefair.operators import NormalizedAffinity

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Labels, embedding and the text of a warning.
Clustering = tuple[NDArray[np.integer], Array, str | None]

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
    "tonin": """\
.. [2] Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
   under Fairness Constraints", ICML.""",
}


@documented(**TEXTS)
class GraphComparator(_base.GraphClustering):
    """Methods that see the entries of the graph they cluster."""

    _uses_loops: ClassVar[bool]
    n_init: int
    random_state: Any

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, W: Any, y: Any = None, *, sensitive_features: ArrayLike) -> Self:
        """Cluster the nodes of a graph, or rows of features.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
            Symmetric affinity with entries >= 0, in any SciPy sparse format or
            dense, or a graph of NetworkX or igraph; with
            ``affinity="nearest_neighbors"`` rows of features.
        %(y_ignored)s
        %(sensitive_features)s

        Returns
        -------
        object
            The fitted estimator.

        Raises
        ------
        %(bad_graph)s

        Warns
        -----
        ConvergenceWarning
            If the method stops before it has converged.
        """
        # Step 1: the graph, without loops for methods that know none.
        if self.affinity == "precomputed":
            W, sensitive_features = graph_as_matrix(W, sensitive_features)
        W = self._validate(W)
        membership = Membership.of(sensitive_features, None, W.shape[0])
        if self.affinity == "precomputed":
            W = _base.checked_affinity(W)
        else:
            W = neighbors_graph(W, self.n_neighbors).affinity
        W = self.affinity_matrix_ = W.astype(np.float64, copy=False)
        if not self._uses_loops and W.diagonal().any():
            W = sparse.csr_array(W - sparse.diags_array(W.diagonal()))
            W.eliminate_zeros()
        # Step 2: the nodes to cluster, and their groups.
        kept = self._kept_nodes(W)
        W = _base.submatrix(W, kept)
        membership = _base.clustered_groups(membership, kept)
        _, self.groups_, codes = membership.compared[0]
        if self.n_clusters > W.shape[0]:
            raise ValueError(
                f"n_clusters={self.n_clusters} must not exceed the number of "
                f"clustered nodes, n_samples={W.shape[0]}."
            )
        # Step 3: the method, and how far its embedding is from the constraints.
        problem = FairProblem(NormalizedAffinity(W), codes[:, None], self.n_clusters)
        rng = check_random_state(self.random_state)
        labels, H, warning = self._cluster(W, problem, kept, rng)
        if warning:
            warn_user(warning, ConvergenceWarning)
        self.converged_ = not warning
        self._set_clusters(kept, labels, H)
        self.fairness_violation_ = problem.violation(H)
        self.orthogonality_violation_ = float(
            np.linalg.norm(H.T @ H - np.eye(H.shape[1]))
        )
        return self

    @abstractmethod
    def _cluster(
        self, W: sparse.csr_array, problem: FairProblem, kept: Mask, rng: RandomState
    ) -> Clustering:
        """Cluster the kept nodes, W their graph; set all other fitted attributes."""
