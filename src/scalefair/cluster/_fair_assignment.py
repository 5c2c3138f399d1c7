"""Assignment of rows to centres under bounds on the shares of groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import check_array, check_number
from scalefair.cluster._assignment_dual import DualSolution
from scalefair.cluster._assignment_problem import (
    MAX_GAP,
    AssignmentProblem,
    AssignmentSolution,
    WeightedAssignment,
)
from scalefair.cluster._base import (
    groups_and_weights,
    relative_weights,
    stacked_groups,
    sums_of_groups,
)
from scalefair.cluster._share_bounds import ShareBounds, is_mixed
from scalefair.kernels import single_blas_thread

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FairAssignment:
    """Rows assigned to centres, and what is proved about the cost.

    Attributes
    ----------
    labels : ndarray of shape (n,), int32
        Centre of each row; every centre has at least one row.
    cost : float
        Sum of the squared distances of the rows to their centres, by their weights.
    nearest_cost : float
        The same when every row goes to its nearest centre.
    lower_bound : float
        No assignment that meets the bounds costs less, up to rounding.
    max_violation : float
        Largest number of rows by which a count is beyond its bound, which is rounded
        to the next whole row. 0.0: all bounds hold; always so but with
        ``attributes="each"`` and for rows of different weights, of which it is the
        largest weight, in rows of average weight; so it is of expected rows.
    rounded : ndarray of shape (n_groups, n_centers), bool
        Where the share itself is beyond the tolerance, by less than one row unless
        `max_violation` says more: clusters in which no whole number, or none near, has
        a share within it.
    n_moved : int
        Rows with weight that are not at a nearest centre.
    prices : ndarray of shape (n_groups, n_centers)
        Dual variables, of a row of each group, in sorted order, at each centre: every
        row is where its squared distance plus the price is least, ties as they come,
        and so may further rows be. Zero where the nearest centres meet the bounds. With
        ``attributes="each"`` those of all attributes, one after the other; a row pays
        the sum of its own, and all but a few rows are where that is least, as with
        different weights. By probabilities a row pays the expected price.
    message : str
        How the assignment was found.
    """

    labels: NDArray[np.int32]
    cost: float
    nearest_cost: float
    lower_bound: float
    max_violation: float
    rounded: NDArray[np.bool_]
    n_moved: int
    prices: Array
    message: str
    _dual: DualSolution | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """Part of the cost that is not proved to be necessary, between 0 and 1."""
        return 1 - self.lower_bound / self.cost if self.cost > 0 else 0.0

    def _of_all_rows(self, labels: NDArray[np.int32], unit: float) -> FairAssignment:
        """Add rows without weight to those with weights of mean 1; `unit` was it."""
        return replace(
            self,
            labels=labels,
            cost=unit * self.cost,
            nearest_cost=unit * self.nearest_cost,
            lower_bound=unit * self.lower_bound,
        )


@documented()
@checked_call
def fair_assignment(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
    group_probabilities: ArrayLike | None = None,
    tolerance: float = 0.1,
    min_size: int = 1,
    attributes: str = "joint",
    sample_weight: ArrayLike | None = None,
) -> FairAssignment:
    r"""Assign rows to centres so that every cluster mirrors the population.

    Minimises the sum of squared distances to the given centres subject to

    .. math::

        \lfloor (1 - t) z_s n_l \rfloor \le n_{sl} \le \lceil (1 + t) z_s n_l \rceil

    for every group s and cluster l, where :math:`n_{sl}` of the :math:`n_l` rows of
    the cluster belong to the group, :math:`z_s` is the share of the group in the
    population and :math:`t` the tolerance: shares are within the tolerance, up to one
    row. Such counts exist for all sizes of clusters, rare groups and ``t = 0``
    included.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Rows, such as those of a spectral embedding.
    centers : array-like of shape (k, d)
        Centres, ``k <= n``; usually means of the clusters of k-means.
    sensitive_features : array-like of shape (n,) or (n, k), default=None
        Group of each row: numbers, strings or booleans, none missing; of k columns
        see `attributes`.
    %(group_probabilities)s
        Bounds are on expected shares among the rows of known groups, as with weights.
    tolerance : float, default=0.1
        Largest relative deviation of a share, at least 0: 0.1 lets a group of 30 %
        have between 27 % and 33 % of a cluster; from 1 on a group may be absent.
    min_size : int, default=1
        Fewest rows of a cluster, at most ``n // k``; of different weights so many of
        average weight, where rows can be had.
    %(attributes)s
    sample_weight : array-like of shape (n,), default=None
        How many rows each one stands for, >= 0, not all 0 in a group: costs and shares
        are weighted. Where weights differ bounds are not rounded, and a row of average
        weight beyond them is allowed; since rows are not divided, more can be needed
        (`FairAssignment.max_violation`). Rows of weight 0 go where they cost least.

    Returns
    -------
    FairAssignment
        Labels, cost, lower bound and the number of moved rows.

    Raises
    ------
    TypeError
        Unless there are either groups or probabilities.
    ValueError
        If an argument does not fit, or the distances overflow.

    Notes
    -----
    Dual variables of the linear relaxation give the lower bound, and sizes of the
    clusters. Clusters of few rows are bounded by the best fair sets of whole rows. For
    given sizes the problem is a min-cost flow between pairs of a group and a cluster,
    which is solved exactly by successive shortest paths [1]_; while the gap to the
    bound is more than a thousandth of the cost, dynamic programming finds sizes at
    which the bounds round more favourably. Of few rows, 20,000 by clusters and groups,
    an integer program finds the counts where that is not enough. With
    ``attributes="each"`` counts are those of combinations, the bounds hold for sums of
    them, and counts are rounded by an integer program before the flow; counts for which
    all bounds hold need not exist then, and `FairAssignment.max_violation` says by how
    much one is missed. Memory: about 24 n k bytes, 8 of them of squared distances,
    100 n and a sorted copy of `X`.

    Of rows with different weights no flow moves one for another. They get the shares
    of the clusters that the smoothed dual gives them, for half a row beyond the bounds,
    and those of several clusters go to one each, the heaviest first: errors of the sums
    are carried from row to row. So costs are within the gap of the lower bound, and the
    weights a few light rows from what the relaxation gives. Probabilities are treated
    in the same way: a row counts for each group by its probability.

    References
    ----------
    .. [1] Ahuja, Magnanti, Orlin (1993), "Network Flows", section 9.7.

    Examples
    --------
    >>> from scalefair.cluster import fair_assignment
    >>> X, centers = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]], [[0.0], [1.0]]
    >>> groups = ["a", "a", "b", "b", "b", "b"]
    >>> loose = fair_assignment(X, centers, sensitive_features=groups, tolerance=1.0)
    >>> loose.labels
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    >>> tight = fair_assignment(X, centers, sensitive_features=groups, tolerance=0.0)
    >>> tight.labels, tight.n_moved, tight.max_violation
    (array([0, 1, 0, 1, 1, 1], dtype=int32), 1, 0.0)
    """
    rows: Any = check_array(X, dtype=np.float64, input_name="X")
    means: Any = check_array(centers, dtype=np.float64, input_name="centers")
    if means.shape[1] != rows.shape[1]:
        raise ValueError(
            f"centers must have the {rows.shape[1]} columns of X, got {means.shape[1]}."
        )
    tolerance = check_number(tolerance, "tolerance")
    membership, weights = groups_and_weights(
        sensitive_features, group_probabilities, len(rows), attributes, sample_weight
    )
    groups = membership.columns(len(rows))
    counted = slice(None) if weights is None else weights > 0
    n = len(rows[counted])
    if len(means) > n:
        raise ValueError(
            f"{len(means)} centers for {n} rows: every cluster needs a row, "
            "give fewer centers."
        )
    if not (isinstance(min_size, Integral) and 1 <= min_size <= n // len(means)):
        raise ValueError(
            f"min_size must be an integer from 1 to {n // len(means)}, the "
            f"average size of {len(means)} clusters, got {min_size!r}."
        )
    relative = relative_weights(weights, counted)
    result = assign_rows(
        rows[counted],
        means,
        groups[counted],
        tolerance,
        relative,
        int(min_size),
        row_weights=relative,
    )
    if weights is None:
        return result
    # Rows without weight go where they cost least.
    labels = np.empty(len(rows), np.int32)
    labels[counted] = result.labels
    costs = squared_distances(rows[~counted], means)
    stacked = stacked_groups(membership, len(rows))
    costs += sums_of_groups(result.prices, stacked[~counted])
    labels[~counted] = costs.argmin(axis=1)
    return result._of_all_rows(labels, float(weights[counted].mean()))


def assign_rows(
    rows: Array,
    centers: Array,
    groups: NDArray[Any],
    tolerance: float,
    cost_weights: Array | None = None,
    min_size: int = 1,
    *,
    ratio: float = 0.0,
    search_sizes: bool = True,
    start: FairAssignment | None = None,
    row_weights: Array | None = None,
    max_gap: float = MAX_GAP,
) -> FairAssignment:
    """Assign checked rows, whose squared distances count `cost_weights` times.

    `groups` are codes (n, n_attributes) or probabilities (n, h); in their shares rows
    count `row_weights` times, in units of their mean. No cluster has fewer than
    `min_size` rows. `ratio` bounds the balance of each cluster from below. Without
    `search_sizes` the sizes of clusters are those of the relaxation: quick, for centres
    that will move. `start` is the assignment to centres that were near. A gap to the
    lower bound of more than `max_gap` is worth an integer program, if rows are few.
    """
    n, k = len(rows), len(centers)
    # Step 1: rows sorted by kind, and their costs; those of a unit of weight where rows
    # have weights in the shares. Mixed rows need such weights: 1 by default. All are of
    # one kind, and keep their order.
    bounds, kinds = ShareBounds.of(groups, tolerance, ratio, row_weights)
    P = groups if is_mixed(groups) else None
    if P is not None and row_weights is None:
        row_weights = np.ones(n)
    order = np.argsort(kinds, kind="stable")
    cost_weights = np.ones(n) if cost_weights is None else cost_weights
    rows, kinds, cost_weights = rows[order], kinds[order], cost_weights[order]
    costs = squared_distances(rows, centers)
    costs *= cost_weights[:, None]
    dual = start._dual if start else None
    options = bounds, min_size, search_sizes, dual, max_gap
    problem = AssignmentProblem(costs, kinds, *options)
    if row_weights is not None:
        row_weights = row_weights[order]
        costs /= row_weights[:, None]
        problem = WeightedAssignment(costs, kinds, *options, row_weights, P)
    # Step 2: the nearest centres, if they meet the bounds; else the problem is solved.
    nearest = costs.argmin(axis=1)
    nearest_cost = total_cost(rows, centers, cost_weights, nearest)
    no_prices = np.zeros((bounds.members.shape[0], k))
    message = "The nearest centres meet the bounds."
    solution = AssignmentSolution(nearest, no_prices, nearest_cost, message, None)
    counts = problem.count(nearest)
    # A single centre gets all rows, whatever the sum of their weights is rounded to.
    if k > 1 and (bounds.excess(counts) > 0 or problem.sizes(nearest).min() < min_size):
        solution = problem.solve()
    # Step 3: what was reached.
    labels = solution.labels
    cost = total_cost(rows, centers, cost_weights, labels)
    is_moved = costs[np.arange(n), labels] > costs[np.arange(n), nearest]
    counts = problem.count(labels)
    unsorted_labels = np.empty(n, np.int32)
    unsorted_labels[order] = labels
    return FairAssignment(
        labels=unsorted_labels,
        cost=cost,
        nearest_cost=nearest_cost,
        lower_bound=min(max(solution.lower_bound, nearest_cost), cost),
        max_violation=bounds.excess(counts),
        rounded=bounds.rounded(counts),
        n_moved=int(is_moved.sum()),
        prices=solution.prices,
        message=solution.message,
        _dual=solution.dual,
    )


def squared_distances(X: Array, centers: Array) -> Array:
    """Squared distances by one product; their digits depend on no number of threads."""
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        # |x|^2 - 2 x'c + |c|^2, from the mean of the centres: less cancellation.
        origin = centers.mean(axis=0)
        X, centers = X - origin, centers - origin
        costs: Array = X @ centers.T
        costs *= -2
        costs += np.einsum("ij,ij->i", X, X)[:, None]
        costs += np.einsum("ij,ij->i", centers, centers)
        total = costs.sum()
    if not np.isfinite(total):
        raise ValueError(
            "The squared distances of X to centers overflow: rescale both."
        )
    return np.maximum(costs, 0, out=costs)


def total_cost(
    rows: Array, centers: Array, weights: Array, labels: NDArray[np.integer]
) -> float:
    """Weighted sum of squared distances, from differences: no cancellation."""
    total = 0.0
    for start in range(0, len(rows), 4096):  # blocks that stay in the cache
        block = slice(start, start + 4096)
        difference = rows[block] - centers[labels[block]]
        squares = np.einsum("ij,ij->i", difference, difference)
        total += float(weights[block] @ squares)
    return total
