"""Fair spectral clustering on a graph that is learned along with it."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._decorators import fit_context
from scalefair._random import check_random_state
from scalefair.cluster._comparators import (
    ClusteredGraph,
    GraphInputMixin,
    orthogonality_violation,
)
from scalefair.cluster._fair_spectral import FairSpectralClustering
from scalefair.cluster._fairness import FairProblem
from scalefair.cluster._learned_graph import (
    candidate_pairs,
    learn_weights,
    sparsity_weight,
)
from scalefair.cluster._unified_embedding import descend_embedding, nearest_rotation

__all__ = ["UnifiedFairSpectralClustering"]


class UnifiedFairSpectralClustering(GraphInputMixin, ClusterMixin, BaseEstimator):
    r"""Graph, fair embedding and clusters learned together (UFSC).

    From a given affinity with degrees D the method learns a graph S, a fair
    embedding H, a rotation R and a cluster indicator Y that minimise

    .. math::
        J = \theta \sum_{ij} s_{ij} \left(p_{ij} + \tfrac{\mu}{2} |v_i - v_j|^2\right)
        - \sum_i \log \sum_j s_{ij} + \tfrac12 |S|_F^2
        + \gamma \sum_i \frac{d_i}{\bar d} |y_i - v_i R|^2

    subject to :math:`H^T H = I`, :math:`F^T H = 0` and :math:`R^T R = I`, where
    :math:`p_{ij}` is a distance in the given graph and :math:`v_i` is row i of
    :math:`\sqrt{\mathrm{vol} / k}\, D^{-1/2} H`, which for perfect clusters is a
    rotated indicator. Edges between nodes far apart in the fair embedding fade, and
    the embedding follows the learned graph. S, H, R and Y are updated in turn, and
    none of the updates raises J.

    It is here for comparison. :class:`FairSpectralClustering`, which gives the
    start, works on the graph as it is.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters and of columns of the embedding.
    n_neighbors : int, default=10
        Neighbours a node of the learned graph shall have, on average and roughly;
        :math:`\theta` follows from it. With ``affinity="nearest_neighbors"`` also
        those of the graph that is given.
    embedding_weight : float, default=0.5
        :math:`\mu`, how much distances in the fair embedding count for the graph.
        Nodes of two clusters are about :math:`\mu` farther from each other than
        :math:`p_{ij}`, which lies between 0 and 1.
    label_weight : float, default=0.1
        :math:`\gamma`, how much the clusters count for the embedding; results were
        alike from 0.01 to 1. With 0 they do not count, and a learned graph of more
        pieces than clusters leaves the embedding undetermined.
    affinity : {"precomputed", "nearest_neighbors"}, default="precomputed"
        ``"precomputed"``: `fit` takes the affinity matrix itself.
        ``"nearest_neighbors"``: `fit` takes rows of features and builds their
        symmetric k-NN graph.
    tol : float, default=1e-3
        The iteration stops when the weights of the learned graph change by less
        than this, in the Frobenius norm relative to their own.
    max_iter : int, default=50
        Most rounds of the four updates.
    n_init : int, default=10
        Starts of k-means for the clusters to begin with.
    connected_components : {"raise", "largest", "all"}, default="raise"
        What to do when the given graph has several components: an error; cluster
        the largest one (all other nodes get the label -1); or cluster every node
        that has an edge to another. Isolated nodes always get the label -1, unless
        they are an error. The shares of the groups are those among the clustered
        nodes.
    random_state : int, RandomState instance or None, default=None
        For the start. With the same value the result is the same.

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int
        Cluster of each node, -1 for nodes left out.
    embedding_ : ndarray of shape (n, n_clusters)
        H: orthonormal columns with :math:`F^T H = 0`; zero rows for nodes left
        out.
    learned_affinity_ : csr_array of shape (n, n)
        S.
    history_ : ndarray of shape (n_iter_,)
        J after each round; it never increases.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the learned graph settled to `tol`.
    fairness_violation_ : float
        :math:`|F^T H|_F`, zero up to rounding.
    orthogonality_violation_ : float
        :math:`|H^T H - I|_F`, zero up to rounding.
    groups_ : ndarray
        Sorted groups among the clustered nodes.
    affinity_matrix_ : csr_array of shape (n, n)
        The affinity given; for ``"nearest_neighbors"``, the graph built.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, when the input has names that are strings.

    See Also
    --------
    scalefair.metrics.balance_score : How balanced the clusters are.
    scalefair.metrics.normalized_cut_score : What the clustering costs.

    Notes
    -----
    An implementation in own words of the model of UFSC [1]_, as its preprint's
    abstract and the authors' published MATLAB code (github.com/kalman36912/UFSC)
    show it; the text of the article was not available, and what the second
    Laplacian of its title adds to that model is not known here. What differs:

    - The code learns the graph from signals X with :math:`\mathrm{Tr}(X L X^T)`,
      and smooths X by the learned graph. Here an affinity is given, so
      :math:`p_{ij}` is 1 less the cosine of two of its rows (scaled to a largest
      weight of 1, with loops of 1), and there is no smoothing step.
    - The code weighs all pairs; here each node may be joined to the
      ``5 * n_neighbors`` most similar ones, so that nothing of the size of n x n
      is formed.
    - The code takes the unnormalised Laplacian and :math:`H^T H = I`; here the
      Laplacian of S is scaled by the degrees of the given graph,
      :math:`D^{-1/2} L_S D^{-1/2}`, so that F and the start are those of
      :class:`FairSpectralClustering` and costs can be compared. Self-loops of the
      given affinity are ignored.
    - :math:`\theta` follows from `n_neighbors` [2]_ in place of two parameters; the
      weights are found by Newton's method on the dual, the embedding by gradient
      steps on the orthonormal blocks.

    The learned graph often falls into pieces, such as the members of one group in
    one cluster; start and label term hold them together. A cluster can end empty: Y
    takes for each node the largest entry of :math:`v_i R`.

    A fit takes time and memory for ``5 * n * n_neighbors`` pairs at most, beyond
    what the affinity itself needs.

    References
    ----------
    .. [1] Zhang, Wang (2024), "A Dual Laplacian Framework with Effective Graph
       Learning for Unified Fair Spectral Clustering", Neurocomputing 601, 128210.
    .. [2] Kalofolias, Perraudin (2019), "Large Scale Graph Learning from Smooth
       Signals", ICLR.
    .. [3] Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
       under Fairness Constraints", ICML.

    Examples
    --------
    >>> from scalefair.cluster import UnifiedFairSpectralClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> from scalefair.metrics import balance_score
    >>> data = make_fair_sbm(
    ...     1000, n_clusters=3, n_groups=2, average_degree=40, random_state=0
    ... )
    >>> model = UnifiedFairSpectralClustering(n_clusters=3, random_state=0)
    >>> model = model.fit(data.graph, sensitive_features=data.sensitive_features)
    >>> balance_score(
    ...     model.labels_, sensitive_features=data.sensitive_features
    ... ) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "embedding_weight": [Interval(Real, 0, None, closed="neither")],
        "label_weight": [Interval(Real, 0, None, closed="left")],
        "affinity": [StrOptions({"precomputed", "nearest_neighbors"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "connected_components": [StrOptions({"raise", "largest", "all"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 10,
        embedding_weight: float = 0.5,
        label_weight: float = 0.1,
        affinity: str = "precomputed",
        tol: float = 1e-3,
        max_iter: int = 50,
        n_init: int = 10,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.embedding_weight = embedding_weight
        self.label_weight = label_weight
        self.affinity = affinity
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.connected_components = connected_components
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, W: Any, y: Any = None, *, sensitive_features: ArrayLike
    ) -> UnifiedFairSpectralClustering:
        """Cluster the nodes of a graph, or rows of features.

        Parameters
        ----------
        W : {array-like, sparse matrix or array} of shape (n, n) or (n, n_features)
            Symmetric affinity with entries >= 0, in any SciPy sparse format or
            dense; with ``affinity="nearest_neighbors"`` rows of features.
        y : None
            Ignored; there for the scikit-learn interface.
        sensitive_features : array-like of shape (n,)
            Group of each node: numbers, strings or booleans, none missing, at
            least two different ones.

        Returns
        -------
        UnifiedFairSpectralClustering
            The fitted estimator.

        Raises
        ------
        ValueError
            If `W` is not square, not symmetric, or has negative or non-finite
            entries; if there are fewer than two groups among the clustered nodes
            or too few nodes for ``n_clusters``; if the graph has several components
            and ``connected_components="raise"``.

        Warns
        -----
        ConvergenceWarning
            If the learned graph still changes by more than `tol` at the end, or the
            start did not converge.
        """
        graph = self._read_graph(W, sensitive_features, loops=False)
        rng = check_random_state(self.random_state)
        start = FairSpectralClustering(
            self.n_clusters,
            n_init=self.n_init,
            connected_components="all",
            random_state=rng,
        ).fit(graph.W, sensitive_features=graph.codes)
        state = _Alternation(
            graph,
            self.n_neighbors,
            float(self.embedding_weight),
            float(self.label_weight),
            start.embedding_,
            start.labels_,
        )
        history: list[float] = []
        converged = False
        while not converged and len(history) < self.max_iter:
            before = state.weights
            state.advance()
            history.append(state.objective())
            change = np.linalg.norm(state.weights - before)
            converged = bool(change <= self.tol * np.linalg.norm(state.weights))
        H = state.H
        self.fairness_violation_ = state.problem.violation(H)
        self.orthogonality_violation_ = orthogonality_violation(H)
        if not converged:
            warnings.warn(
                f"The learned graph still changes by more than tol={self.tol:g} after "
                f"max_iter={self.max_iter} rounds. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.affinity_matrix_ = graph.given
        self.learned_affinity_ = state.learned_graph(graph.kept)
        self.groups_ = graph.groups
        self.labels_ = graph.spread(state.labels.astype(np.int32), -1)
        self.embedding_ = graph.spread(H, 0.0)
        self.history_ = np.array(history)
        self.n_iter_ = len(history)
        self.converged_ = converged
        return self


class _Alternation:
    """Graph, embedding, rotation and clusters, each updated in turn."""

    def __init__(
        self,
        graph: ClusteredGraph,
        n_neighbors: int,
        embedding_weight: float,
        label_weight: float,
        H: NDArray[np.float64],
        labels: NDArray[np.integer],
    ) -> None:
        n, k = H.shape
        self.degrees = graph.degrees
        self.inv_sqrt_degrees = graph.inv_sqrt_degrees
        self.problem = FairProblem(graph, graph.codes, k)
        self.pairs = candidate_pairs(graph.W, n_neighbors)
        self.theta = sparsity_weight(self.pairs, n_neighbors)
        self.mu = embedding_weight
        self.node_weights = label_weight * self.degrees / self.degrees.mean()
        # v_i = scale * row i of D^{-1/2} H
        self.scale = float(np.sqrt(self.degrees.sum() / k))
        self.H = H
        self.labels: NDArray[np.integer] = labels
        self.weights = np.zeros(self.pairs.rows.size)
        self.multipliers = np.ones(n)
        self._rotate()

    def advance(self) -> None:
        """Update graph, embedding, rotation and clusters, in this order."""
        self.weights, self.multipliers = learn_weights(
            self.pairs, self._costs(), self.multipliers
        )
        self.H = descend_embedding(self.H, *self.embedding_terms(), self.problem.Q)
        self._rotate()
        self.labels = (self._rows() @ self.R).argmax(axis=1)

    def embedding_terms(self) -> tuple[sparse.csr_array, NDArray[np.float64]]:
        """Return A and B of J = Tr(H' A H) - 2 Tr(B' H) + a constant."""
        S = self.pairs.matrix(self.weights)
        laplacian = sparse.diags_array(self.pairs.sums(self.weights)) - S
        scaling = sparse.diags_array(self.scale * self.inv_sqrt_degrees)
        # Sum over ordered pairs of s_ij |v_i - v_j|^2 / 2 is Tr(V^T L_S V).
        A = sparse.csr_array(self.theta * self.mu * (scaling @ laplacian @ scaling))
        linear = self.scale * self.inv_sqrt_degrees * self.node_weights
        return A, linear[:, None] * self.R.T[self.labels]

    def objective(self) -> float:
        """J of the class's description."""
        s = self.weights
        sums = self.pairs.sums(s)
        if not sums.min() > 0:
            raise ValueError(
                "All learned weights of a node have vanished: the weights of the "
                "affinity are too far apart. Remove or lower the largest."
            )
        misfit = -self._rows() @ self.R
        misfit[np.arange(misfit.shape[0]), self.labels] += 1.0
        return float(
            2.0 * (s @ self._costs())
            - np.log(sums).sum()
            + s @ s
            + self.node_weights @ (misfit**2).sum(axis=1)
        )

    def learned_graph(self, kept: NDArray[np.bool_]) -> sparse.csr_array:
        """S among all nodes, those left out isolated."""
        S = self.pairs.matrix(self.weights).tocoo()
        nodes = np.flatnonzero(kept)
        return sparse.csr_array(
            (S.data, (nodes[S.coords[0]], nodes[S.coords[1]])),
            shape=(kept.size, kept.size),
        )

    def _rows(self) -> NDArray[np.float64]:
        return self.H * (self.scale * self.inv_sqrt_degrees)[:, None]

    def _rotate(self) -> None:
        V = self._rows() * self.degrees[:, None]
        k = V.shape[1]
        by_cluster = [V[self.labels == c].sum(axis=0) for c in range(k)]
        self.R = nearest_rotation(np.stack(by_cluster, axis=1))

    def _costs(self) -> NDArray[np.float64]:
        """Cost of each pair: theta times its distances in graph and embedding."""
        V = self._rows()
        between = V[self.pairs.rows] - V[self.pairs.columns]
        squares = np.einsum("pc,pc->p", between, between)
        costs: NDArray[np.float64] = self.pairs.distances + 0.5 * self.mu * squares
        return self.theta * costs
