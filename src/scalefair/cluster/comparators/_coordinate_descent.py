"""Fair spectral clustering by coordinate descent on the cluster indicator."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from scalefair._docs import documented
from scalefair.cluster._solvers import FairProblem
from scalefair.cluster.comparators._base import TEXTS, Clustering, GraphComparator, Mask
from scalefair.kernels import degrees_and_inner_weights, indicator_sweep

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


@documented(**TEXTS)
class CoordinateDescentFairClustering(GraphComparator):
    r"""Normalised cut with a fairness penalty, minimised node by node (FFSC).

    The clusters :math:`C_1, \dots, C_k` minimise

    .. math::
        J = \sum_l \frac{\mathrm{cut}(C_l)}{\mathrm{vol}(C_l)}
        + \lambda \sum_l \left\| \frac{c_l}{|C_l|} - z \right\|^2,

    where :math:`c_l` counts the members of cluster :math:`l` by group and :math:`z`
    holds the shares of the groups in the population. One node after the other is
    given the cluster where J is least, until no node moves: a local minimum. For
    comparison: :class:`FairSpectralClustering` cuts much less with many clusters.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters. None of them is ever empty.
    fairness_weight : float, default=1.0
        :math:`\lambda`; 1 weighs cut and fairness alike, 0 takes the cut alone.
    %(affinity)s
    n_neighbors : int, default=10
        Neighbours of each row, itself not counted.
    init : "random" or array-like of shape (n,), default="random"
        Start: random clusters of equal size, or a label from 0 to
        ``n_clusters - 1`` for each node that leaves no cluster empty.
    n_init : int, default=10
        Random starts. Each goes on until a sweep lowers J by less than 1 %; the
        one with the smallest J is continued until no node moves.
    max_iter : int, default=100
        Most sweeps over the nodes for each start.
    %(connected_components)s
    %(random_state)s
        The order of the nodes is drawn anew for every sweep.

    Attributes
    ----------
    %(labels_)s
    embedding_ : ndarray of shape (n, n_clusters)
        Scaled indicator :math:`D^{1/2} Y (Y^T D Y)^{-1/2}` of the clusters; zero
        rows for nodes left out.
    history_ : ndarray of shape (n_iter_ + 1,)
        J at the start and after each sweep of the best start; it never increases.
    n_iter_ : int
        Sweeps of the best start.
    converged_ : bool
        Whether its last sweep moved no node.
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
    From the description of FFSC [1]_, without its formulas or code. Chosen here: J,
    random starts and orders, no empty clusters, an `embedding_` of unit columns (that
    of FFSC is not orthonormal [2]_). A sweep takes O(m + n k) for m stored entries.

    References
    ----------
    .. [1] Feng, Zhong, Pan (2024), "Fair Spectral Clustering Based on Coordinate
       Descent", Symmetry 17(1), 12.
    %(tonin)s

    Examples
    --------
    >>> from scalefair.cluster import CoordinateDescentFairClustering
    >>> from scalefair.datasets import make_fair_sbm
    >>> data = make_fair_sbm(1000, n_clusters=3, n_groups=2, random_state=0)
    >>> model = CoordinateDescentFairClustering(n_clusters=3, random_state=0)
    >>> model = model.fit(data.graph, sensitive_features=data.sensitive_features)
    >>> model.converged_
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GraphComparator._parameter_constraints,
        "fairness_weight": [Interval(Real, 0, None, closed="left")],
        "init": [StrOptions({"random"}), "array-like"],
    }
    _uses_loops = True

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fairness_weight: float = 1.0,
        affinity: str = "precomputed",
        n_neighbors: int = 10,
        init: Any = "random",
        n_init: int = 10,
        max_iter: int = 100,
        connected_components: str = "raise",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairness_weight = fairness_weight
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.connected_components = connected_components
        self.random_state = random_state

    def _cluster(
        self, W: sparse.csr_array, problem: FairProblem, kept: Mask, rng: RandomState
    ) -> Clustering:
        descent = IndicatorDescent(W, problem, float(self.fairness_weight))
        # Step 1: the starts, until a sweep lowers J by less than 1 %.
        runs = [
            descent.run(start, self.max_iter, 0.01, rng)
            for start in self._starts(kept, rng)
        ]
        labels, history, converged = min(runs, key=lambda run: run[1][-1])
        # Step 2: the best one, until no node moves.
        if not converged:
            n_remaining = self.max_iter - (len(history) - 1)
            labels, continued, converged = descent.run(labels, n_remaining, 0.0, rng)
            history += continued[1:]
        self.history_, self.n_iter_ = np.array(history), len(history) - 1
        warning = (
            f"Nodes still moved in sweep max_iter={self.max_iter}: the clusters are "
            "not yet a local minimum. Raise max_iter."
        )
        # D^{1/2} Y (Y^T D Y)^{-1/2}, Y the indicator of the labels.
        volumes = np.bincount(labels, descent.degrees, minlength=descent.k)
        H = np.zeros((labels.size, descent.k))
        scaled_degrees = descent.degrees / volumes[labels]
        H[np.arange(labels.size), labels] = np.sqrt(scaled_degrees)
        return labels, H, None if converged else warning

    def _starts(self, kept: Mask, rng: RandomState) -> list[Labels]:
        """Random clusters of equal size, or the labels of `init`."""
        n, k = int(kept.sum()), self.n_clusters
        if isinstance(self.init, str):
            return [rng.permutation(np.arange(n) % k) for _ in range(self.n_init)]
        labels = np.asarray(self.init)
        if labels.shape != kept.shape or labels.dtype.kind not in "iu":
            raise ValueError(
                f"init must be 'random' or {kept.size} integer labels, one per "
                f"node; got shape {labels.shape} and dtype {labels.dtype}."
            )
        labels = labels[kept].astype(np.int64)
        if labels.min() < 0 or labels.max() >= k:
            raise ValueError(
                f"init must hold labels from 0 to n_clusters - 1 = {k - 1}, got "
                f"{labels.min()} to {labels.max()} among the clustered nodes."
            )
        empty = np.flatnonzero(np.bincount(labels, minlength=k) == 0)
        if empty.size:
            raise ValueError(
                f"init leaves {empty.size} of {k} clusters empty (first: {empty[0]}): "
                "give each cluster at least one node, or lower n_clusters."
            )
        return [labels]


class IndicatorDescent:
    """The objective of one graph, and its descent from any start."""

    def __init__(
        self, W: sparse.csr_array, problem: FairProblem, fairness_weight: float
    ) -> None:
        self.graph = W.indptr, W.indices, W.data, 1
        self.k, self.fairness_weight = problem.k, fairness_weight
        self.degrees, self.codes = problem.affinity.degrees, problem.groups[:, 0]
        self.shares = problem.shares

    def totals(self, labels: Labels) -> tuple[Array, Array, Array]:
        """Weight inside, volume and group counts of each cluster."""
        k, h = self.k, self.shares.size
        inside = degrees_and_inner_weights(self.graph, labels, k)[1]
        volumes = np.bincount(labels, self.degrees, minlength=k).astype(np.float64)
        counts = np.bincount(labels * h + self.codes, minlength=k * h)
        return inside, volumes, counts.reshape(k, h).astype(np.float64)

    def objective(self, inside: Array, volumes: Array, counts: Array) -> float:
        """J of the estimator's description."""
        deviations = counts / counts.sum(axis=1, keepdims=True) - self.shares
        cut, penalty = (1.0 - inside / volumes).sum(), (deviations**2).sum()
        return float(cut + self.fairness_weight * penalty)

    def run(
        self, start: Labels, max_iter: int, min_gain: float, rng: RandomState
    ) -> tuple[Labels, list[float], bool]:
        """Sweep until no node moves, or J decreases relatively by less than `min_gain`.

        Returns labels, J before and after each sweep, and whether no node moved.
        """
        labels, totals = start.copy(), self.totals(start)
        history = [self.objective(*totals)]
        for _ in range(max_iter):
            order = rng.permutation(labels.size)
            fairness = self.codes, self.shares, self.fairness_weight
            n_moves = indicator_sweep(
                self.graph, self.degrees, *fairness, order, labels, totals
            )
            totals = self.totals(labels)  # afresh: rounding must not add up
            history.append(self.objective(*totals))
            if n_moves == 0:
                return labels, history, True
            if history[-2] - history[-1] < min_gain * history[-2]:
                break
        return labels, history, False
