"""k-means whose clusters mirror the population."""

from __future__ import annotations

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import kmeans_plusplus
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import GroupRequests, fit_context
from scalefair._docs import documented
from scalefair._entries import check_random_state, validate_data
from scalefair._groups import check_compared, combinations, fitted_groups
from scalefair._rounding import ROUNDING
from scalefair.cluster._base import (
    cluster_balances,
    groups_and_weights,
    relative_weights,
)
from scalefair.cluster._fair_assignment import (
    FairAssignment,
    assign_rows,
    squared_distances,
    total_cost,
)
from scalefair.cluster._kmeans import cluster_means, embedding_kmeans
from scalefair.cluster._share_bounds import is_mixed

Array = NDArray[np.float64]

# Rows of the sample on which starts are compared, for up to 25 clusters; for more it
# grows in proportion. Its means are as good to start from, and take less time.
START_SAMPLE_ROWS = 5_000


class KMeansRows(NamedTuple):
    """Rows, the codes of their groups, and their weights in units of the mean."""

    X: Array
    groups: NDArray[Any]  # codes (n, n_attributes) or probabilities (n, h)
    weights: Array | None  # None: all equal

    def select(self, rows: NDArray[Any], weights: Array | None) -> KMeansRows:
        """Select rows of weight > 0; the `weights` are those of all rows."""
        weights = relative_weights(weights, rows)
        return KMeansRows(self.X[rows], self.groups[rows], weights)

    def means(self, labels: NDArray[np.integer]) -> Array:
        """Means of the clusters."""
        return cluster_means(
            self.X, labels, 1.0 if self.weights is None else self.weights
        )

    def balances(self, labels: NDArray[np.integer] | None = None) -> Array:
        """Balances (n_attributes, n_clusters) of the clusters, or of all rows."""
        return cluster_balances(self.groups, labels, self.weights)

    def inertia(self, labels: NDArray[np.integer]) -> float:
        """Cost of the clusters."""
        weights = np.ones(len(self.X)) if self.weights is None else self.weights
        return total_cost(self.X, self.means(labels), weights, labels)


@documented()
class FairKMeans(GroupRequests, ClusterMixin, BaseEstimator):
    """Fair k-means: every cluster mirrors the population.

    Lloyd's iterations with `fair_assignment` in place of the nearest centre: every row
    goes to a centre such that each cluster holds each group in its share of the
    population, to `balance_tolerance` and one row, and centres become means, until the
    cost settles. Of several starts the best on a sample of the rows is followed:
    ordinary k-means, and k-means++ among the largest group, as in [1]_.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters; none is empty.
    balance_tolerance : float, default=0.1
        Largest relative deviation of a group's share in a cluster from that in the
        population, up to one row.
    min_balance : float, default=None
        Least balance of a cluster as well, members of its smallest group for each one
        of its largest; at most that of the population. It holds but for a row in
        clusters too small for it. A large `balance_tolerance` leaves it alone.
    n_init : int, default=4
        Number of starts.
    max_iter : int, default=100
        Most iterations from a start, and again on all rows.
    tol : float, default=1e-4
        Relative decrease of the cost below which the iterations end.
    %(attributes)s
    %(random_state)s

    Attributes
    ----------
    labels_ : ndarray of shape (n,), int32
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means of the clusters.
    inertia_ : float
        Sum of the squared distances of the rows to these, by their weights.
    n_iter_ : int
        Iterations on all rows.
    balance_ : ndarray of shape (n_clusters,)
        Balance of each cluster (:func:`scalefair.metrics.balance_score`), between 0
        and 1, of the weights of groups where rows have some; the smallest over
        attributes with ``attributes="each"``.
    minimum_balance_ : float
        The smallest of these.
    assignment_ : FairAssignment
        The last assignment: its lower bound is for the centres before.
    %(groups_each_)s
    %(n_features_in_)s
    %(feature_names_in_)s

    See Also
    --------
    fair_assignment : The assignment to given centres.
    FairSpectralClustering : Clusters of a graph.

    References
    ----------
    .. [1] Mantuano, Kammermann, Baumann (2026), "Fast and effective algorithms for fair
       clustering at scale", arXiv:2605.13759.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.cluster import FairKMeans
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.integers(0, 2, 1000)
    >>> X = rng.normal(size=(1000, 2)) + groups[:, None]
    >>> model = FairKMeans(3, min_balance=0.8, random_state=0)
    >>> labels = model.fit_predict(X, sensitive_features=groups)
    >>> model.minimum_balance_ >= 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "balance_tolerance": [Interval(Real, 0, None, closed="left")],
        "min_balance": [Interval(Real, 0, 1, closed="right"), None],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "attributes": [StrOptions({"joint", "each"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        balance_tolerance: float = 0.1,
        min_balance: float | None = None,
        n_init: int = 4,
        max_iter: int = 100,
        tol: float = 1e-4,
        attributes: str = "joint",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.balance_tolerance = balance_tolerance
        self.min_balance = min_balance
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.attributes = attributes
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: ArrayLike,
        y: Any = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> FairKMeans:
        """Cluster rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        %(y_ignored)s
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            Group of each row, at least two; of k columns see `attributes`.
        %(group_probabilities)s
            Bounds and balances are those of expected counts.
        sample_weight : array-like of shape (n,), default=None
            How many rows each one stands for, >= 0, not all 0 in a group. Means, cost
            and shares are weighted, and bounds hold as in `fair_assignment`, up to a
            row of average weight; `assignment_` says what is beyond. Rows of weight 0
            count nowhere, and go to the nearest centre.

        Returns
        -------
        FairKMeans
            The fitted estimator.

        Raises
        ------
        TypeError
            Unless there are either groups or probabilities.
        ValueError
            If an argument does not fit, there are fewer rows with weight than
            clusters, or `min_balance` is above the balance of the population.
        """
        # Step 1: rows with weight, and their groups.
        checked: Any = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        n, k = len(checked), self.n_clusters
        membership, weights = groups_and_weights(
            sensitive_features, group_probabilities, n, self.attributes, sample_weight
        )
        check_compared(membership.compared, "sklearn.cluster.KMeans")
        self.groups_ = fitted_groups(membership.compared)
        counted: Any = slice(None) if weights is None else weights > 0
        rows = KMeansRows(checked, membership.columns(n), None).select(counted, weights)
        n = len(rows.X)
        if k > n:
            kind = "" if weights is None else " with weight"
            raise ValueError(f"n_clusters={k} must be at most n_samples={n}{kind}.")
        ratio = self.min_balance or 0.0
        population_balance = rows.balances().min()
        if ratio > population_balance * (1 + ROUNDING):
            raise ValueError(
                f"min_balance={ratio:g} is above the balance of the population, "
                f"{population_balance:.4g}: no clustering has it."
            )
        ratio = min(ratio, population_balance)
        # Step 2: the best of several starts, and Lloyd's iterations on all rows.
        rng = check_random_state(self.random_state)
        centres, start = self._start(rows, ratio, rng)
        settled, self.n_iter_ = self._iterate(rows, ratio, centres, start)
        # Step 3: the last assignment searches for sizes of the clusters, too. Those
        # before are quick, and may be a row beyond ratios, or bounds of attributes. The
        # last but one is kept if it violates less, or as little at a lower cost.
        searched = assign_rows(
            rows.X,
            rows.means(settled.labels),
            rows.groups,
            self.balance_tolerance,
            rows.weights,
            ratio=ratio,
            start=settled,
            row_weights=rows.weights,
        )
        self.assignment_ = min(
            (settled, searched), key=lambda a: (a.max_violation, rows.inertia(a.labels))
        )
        # Step 4: what was reached; rows without weight go to the nearest centre.
        self.labels_ = self.assignment_.labels
        self.cluster_centers_ = rows.means(self.labels_)
        self.inertia_ = rows.inertia(self.labels_)
        self.balance_ = rows.balances(self.labels_).min(axis=0)
        self.minimum_balance_ = float(self.balance_.min())
        if weights is not None:
            unit = float(weights[counted].mean())
            self.inertia_ *= unit
            labels = np.empty(len(weights), np.int32)
            labels[counted] = self.labels_
            labels[~counted] = self._nearest(checked[~counted])
            self.labels_ = labels
            self.assignment_ = self.assignment_._of_all_rows(labels, unit)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int32]:
        """Nearest centres of rows; shares of groups among new rows are not bounded.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (m,), int32
            Clusters: those of rows of the fit may differ from `labels_`.
        """
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return self._nearest(rows)

    def _nearest(self, rows: Array) -> NDArray[np.int32]:
        distances = squared_distances(rows, self.cluster_centers_)
        labels: NDArray[np.int32] = distances.argmin(axis=1).astype(np.int32)
        return labels

    def _start(
        self, rows: KMeansRows, ratio: float, rng: np.random.RandomState
    ) -> tuple[Array, FairAssignment]:
        """Return centres and assignment of the best start, on a sample of the rows."""
        n, k, groups = len(rows.X), self.n_clusters, rows.groups
        # Step 1: a sample with a row of every combination of groups; of probabilities
        # with the likeliest row of every group.
        size = START_SAMPLE_ROWS * max(k, 25) // 25
        if n > size:
            if is_mixed(groups):
                picks = groups.argmax(axis=0)
            else:
                picks, _ = combinations([*groups.T], (groups.max(axis=0) + 1).tolist())
            sample = np.union1d(picks, rng.choice(n, size, replace=False))
            # Groups may be a little rarer in the sample: its ratio is then lower, too.
            sampled = rows.select(sample, rows.weights)
            relative = sampled.balances() / rows.balances()
            ratio *= min(1.0, relative.min())
            rows = sampled
        # Step 2: k-means of these rows, and k-means++ among the largest group of the
        # first attribute, or again of all if that has too few rows.
        X, groups, weights = rows.X, rows.groups, rows.weights
        first_codes = groups.argmax(axis=1) if is_mixed(groups) else groups[:, 0]
        largest = first_codes == np.bincount(first_codes, weights).argmax()
        if largest.sum() < k:
            largest[:] = True
        labels = embedding_kmeans(X, k, weights=weights, n_init=2, random_state=rng)
        means = rows.means(labels)  # fewer than k if many rows are equal
        extra = rng.choice(len(X), k - len(means), replace=False)
        starts = [np.vstack([means, X[extra]])]
        of_largest = None if weights is None else weights[largest]
        for _ in range(self.n_init - 1):
            centres, _ = kmeans_plusplus(
                X[largest], k, sample_weight=of_largest, random_state=rng
            )
            starts.append(centres)
        # Step 3: after three iterations the best one goes on alone.
        runs = [
            self._iterate(rows, ratio, centres, max_iter=3)[0] for centres in starts
        ]
        best = min(runs, key=lambda run: run.cost)
        best, _ = self._iterate(rows, ratio, rows.means(best.labels), best)
        return rows.means(best.labels), best

    def _iterate(
        self,
        rows: KMeansRows,
        ratio: float,
        centres: Array,
        start: FairAssignment | None = None,
        max_iter: int | None = None,
    ) -> tuple[FairAssignment, int]:
        """Return the cheapest assignment of Lloyd's iterations, and their number."""
        assign = partial(
            assign_rows,
            rows.X,
            groups=rows.groups,
            tolerance=self.balance_tolerance,
            cost_weights=rows.weights,
            ratio=ratio,
            search_sizes=False,
            row_weights=rows.weights,
        )
        # In turn rows go to centres, within the bounds, and centres to their means.
        # A quick assignment may cost more than the last one: the cheapest so far goes
        # on, and costs never rise.
        best, max_iter = assign(centres, start=start), max_iter or self.max_iter
        for n_iter in range(2, max_iter + 1):
            previous = best
            new = assign(rows.means(best.labels), start=best)
            best = min(new, best, key=lambda assignment: assignment.cost)
            if previous.cost - best.cost <= self.tol * previous.cost:
                return best, n_iter
        return best, max_iter
