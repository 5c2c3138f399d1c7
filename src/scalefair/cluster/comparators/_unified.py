"""Fair spectral clustering on a graph that is learned along with it."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from scalefair._decorators import fit_context
from scalefair._docs import documented
from scalefair._random import check_random_state
from scalefair.cluster._fair_spectral import FairSpectralClustering
from scalefair.cluster._solvers import FairProblem
from scalefair.cluster.comparators._base import TEXTS, ClusteredGraph, GraphComparator
from scalefair.cluster.comparators._learned_graph import (
    candidate_pairs,
    learn_weights,
    sparsity_weight,
)

Array = NDArray[np.float64]

_MAX_STEPS = 50
# Norm of the projected gradient, relative to that of its two terms.
_GRADIENT_TOL = 1e-6
# Frobenius norm of a step: the Gram matrix before the return to the orthonormal
# blocks then has a condition number of at most 101.
_LONGEST_STEP = 10.0


@documented(**TEXTS)
class UnifiedFairSpectralClustering(GraphComparator):
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
    the embedding follows the learned graph. S, H, R and Y are updated in turn; none
    of the updates raises J.

    For comparison: :class:`FairSpectralClustering`, which gives the start, works on
    the graph as it is.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters and of columns of the embedding.
    n_neighbors : int, default=10
        Neighbours a node of the learned graph shall have, on average and roughly;
        :math:`\theta` follows from it. With ``affinity="nearest_neighbors"`` also
        those of the graph that is given.
    embedding_weight : float, default=0.5
        :math:`\mu`: nodes of two clusters are about that much farther from each
        other than :math:`p_{ij}`, which lies between 0 and 1.
    label_weight : float, default=0.1
        :math:`\gamma`, how much the clusters count for the embedding; results were
        alike from 0.01 to 1. With 0 they do not count, and a learned graph of more
        pieces than clusters leaves the embedding undetermined.
    %(affinity)s
    tol : float, default=1e-3
        The iteration stops when the weights of the learned graph change by less
        than this, in the Frobenius norm relative to their own.
    max_iter : int, default=50
        Most rounds of the four updates.
    n_init : int, default=10
        Starts of k-means for the clusters to begin with.
    %(connected_components)s
    %(random_state)s

    Attributes
    ----------
    %(labels_)s
    %(embedding_)s
    learned_affinity_ : csr_array of shape (n, n)
        S.
    history_ : ndarray of shape (n_iter_,)
        J after each round; it never increases.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the learned graph settled to `tol`.
    %(measures)s
    %(groups_)s
    %(affinity_matrix_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    %(scores)s

    Notes
    -----
    Written from the abstract of the preprint of UFSC [1]_ and the authors' published
    MATLAB code (github.com/kalman36912/UFSC), without the article's text. The code
    learns the graph of all pairs from signals, which it smooths. Here an affinity is
    given: :math:`p_{ij}` is 1 less the cosine of two of its rows (scaled to a largest
    weight of 1, loops of 1), for the ``5 * n_neighbors`` most similar nodes of each,
    which bounds time and memory. The Laplacian of S is scaled by the degrees of the
    given graph, so that F, start and costs are those of
    :class:`FairSpectralClustering`; :math:`\theta` follows from `n_neighbors` [3]_ in
    place of two parameters. Self-loops are ignored.

    The learned graph often falls into pieces, such as the members of one group in
    one cluster; start and label term hold them together. A cluster can end empty: Y
    takes for each node the largest entry of :math:`v_i R`.

    References
    ----------
    .. [1] Zhang, Wang (2024), "A Dual Laplacian Framework with Effective Graph
       Learning for Unified Fair Spectral Clustering", Neurocomputing 601, 128210.
    %(tonin)s
    .. [3] Kalofolias, Perraudin (2019), "Large Scale Graph Learning from Smooth
       Signals", ICLR.

    Examples
    --------
    >>> from scalefair.cluster import UnifiedFairSpectralClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> from scalefair.metrics import balance_score
    >>> data = make_fair_sbm(1000, n_clusters=3, n_groups=2, random_state=0)
    >>> groups = data.sensitive_features
    >>> model = UnifiedFairSpectralClustering(n_clusters=3, random_state=0)
    >>> model = model.fit(data.graph, sensitive_features=groups)
    >>> balance_score(model.labels_, sensitive_features=groups) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphComparator._parameter_constraints,
        "embedding_weight": [Interval(Real, 0, None, closed="neither")],
        "label_weight": [Interval(Real, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
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

        %(fit)s

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
        if not converged:
            warnings.warn(
                f"The learned graph still changes by more than tol={self.tol:g} after "
                f"max_iter={self.max_iter} rounds. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.learned_affinity_ = state.learned_graph(graph.kept)
        self.n_iter_ = len(history)
        self._set_results(graph, state.labels, state.H, history, converged)
        return self


class _Alternation:
    """Graph, embedding, rotation and clusters, each updated in turn."""

    def __init__(
        self,
        graph: ClusteredGraph,
        n_neighbors: int,
        embedding_weight: float,
        label_weight: float,
        H: Array,
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
        # v_i is this times row i of D^{-1/2} H.
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
        self.labels = (self._scaled_embedding() @ self.R).argmax(axis=1)

    def embedding_terms(self) -> tuple[sparse.csr_array, Array]:
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
        misfit = -self._scaled_embedding() @ self.R
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

    def _scaled_embedding(self) -> Array:
        """Return V, whose rows are v_i of the class's description."""
        return self.H * (self.scale * self.inv_sqrt_degrees)[:, None]

    def _rotate(self) -> None:
        V = self._scaled_embedding() * self.degrees[:, None]
        k = V.shape[1]
        by_cluster = [V[self.labels == c].sum(axis=0) for c in range(k)]
        self.R = nearest_rotation(np.stack(by_cluster, axis=1))

    def _costs(self) -> Array:
        """Cost of each pair: theta times its distances in graph and embedding."""
        V = self._scaled_embedding()
        between = V[self.pairs.rows] - V[self.pairs.columns]
        squares = np.einsum("pc,pc->p", between, between)
        costs: Array = self.pairs.distances + 0.5 * self.mu * squares
        return self.theta * costs


def descend_embedding(H: Array, A: sparse.csr_array, B: Array, Q: Array) -> Array:
    """Lower Tr(H' A H) - 2 Tr(B' H) within H'H = I, Q'H = 0; Q orthonormal.

    Gradient steps of the lengths of Barzilai and Borwein, halved until the value
    falls, each followed by a return to the orthonormal blocks by the polar factor
    (Wen, Yin 2013, "A feasible method for optimization with orthogonality
    constraints", Mathematical Programming 142, 397-434).
    """
    B = B - Q @ (Q.T @ B)
    AH = A @ H
    value = _value(H, AH, B)
    gradient = _gradient(H, AH, B, Q)
    # Along the gradient a quadratic is least here.
    curvature = float(np.vdot(gradient, A @ gradient))
    size = float(np.vdot(gradient, gradient))
    length = size / (2.0 * curvature) if curvature > 0 else 1.0
    for step in range(_MAX_STEPS):
        scale = np.linalg.norm(AH) + np.linalg.norm(B)
        if np.sqrt(size) <= _GRADIENT_TOL * scale:
            break
        length = min(length, _LONGEST_STEP / float(np.sqrt(size)))
        for _ in range(40):
            X = H - length * gradient
            trial = _polar(X - Q @ (Q.T @ X))  # fair, whatever was rounded
            A_trial = A @ trial
            trial_value = _value(trial, A_trial, B)
            if trial_value <= value - 1e-4 * length * size:
                break
            length /= 2.0
        else:  # no progress beyond rounding
            break
        trial_gradient = _gradient(trial, A_trial, B, Q)
        moved, turned = trial - H, trial_gradient - gradient
        product = abs(float(np.vdot(moved, turned)))
        if product == 0.0:
            return trial
        length = (
            product / float(np.vdot(turned, turned))
            if step % 2
            else float(np.vdot(moved, moved)) / product
        )
        H, AH, value, gradient = trial, A_trial, trial_value, trial_gradient
        size = float(np.vdot(gradient, gradient))
    return H


def nearest_rotation(C: Array) -> Array:
    """Orthogonal matrix R for which ``Tr(R.T @ C)`` is largest."""
    U, _, Vt = np.linalg.svd(C)
    R: Array = U @ Vt
    return R


def _value(H: Array, AH: Array, B: Array) -> float:
    return float(np.vdot(H, AH)) - 2.0 * float(np.vdot(B, H))


def _gradient(H: Array, AH: Array, B: Array, Q: Array) -> Array:
    """Gradient within the tangent space of the fair orthonormal blocks."""
    G = 2.0 * (AH - B)
    G -= Q @ (Q.T @ G)
    inner = H.T @ G
    return G - H @ ((inner + inner.T) / 2.0)


def _polar(X: Array) -> Array:
    """Closest block with orthonormal columns; the span stays."""
    values, V = np.linalg.eigh(X.T @ X)
    H: Array = X @ ((V / np.sqrt(values)) @ V.T)
    return H
