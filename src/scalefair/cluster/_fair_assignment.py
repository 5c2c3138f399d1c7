"""Assignment of rows to centres under bounds on the shares of groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import check_array
from scalefair.cluster._assignment_dual import (
    DualSolution,
    maximise_dual,
    priced_costs,
)
from scalefair.cluster._base import (
    groups_and_weights,
    relative_weights,
    stacked_groups,
    sums_of_groups,
)
from scalefair.cluster._fair_sets import MAX_SET_SIZE, FairSet
from scalefair.cluster._share_bounds import (
    ShareBounds,
    cheapest_counts,
    check_number,
    is_mixed,
    max_cost_counts,
    round_counts,
    round_sizes,
)
from scalefair.cluster._weighted_rows import round_weighted
from scalefair.kernels import (
    best_columns,
    min_cost_flow,
    share_ties,
    single_blas_thread,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Sizes of clusters are searched until the gap to the lower bound is this part of the
# cost; more than five times that is worth another start.
GAP = 1e-3
# Rows by which the size of a cluster changes at most in one step of the search.
SIZE_WINDOW = 12
# Rows x clusters x kinds up to which an integer program takes a few seconds at most.
MAX_MILP_SIZE = 20_000


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
        Where the share itself is beyond the tolerance, by less than one row: clusters
        in which no whole number, or none near, has a share within it.
    n_moved : int
        Rows that are not at a nearest centre.
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
    much one is missed. Memory: 8 n k bytes of squared distances, about 100 n and a
    sorted copy of `X`.

    Of rows with different weights no flow moves one for another. They get the shares
    of the clusters that the smoothed dual gives them, for half a row beyond the bounds,
    and those of several clusters go to one each, the heaviest first: errors of the sums
    are carried from row to row. So costs are within the gap of the lower bound, and the
    weights a few light rows from what the relaxation gives. Probabilities are treated
    in the same way: a row counts for each group by its probability. Memory: 24 n k
    bytes.

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
    if weights is None:
        return assign_rows(rows, means, groups, tolerance, min_size=int(min_size))
    # Weights in units of their mean; rows without weight go where they cost least.
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
    labels = np.empty(len(rows), np.int32)
    labels[counted] = result.labels
    costs = squared_distances(rows[~counted], means)
    stacked = stacked_groups(membership, len(rows))
    costs += sums_of_groups(result.prices, stacked[~counted])
    labels[~counted] = costs.argmin(axis=1)
    unit = float(weights[counted].mean())
    return replace(
        result,
        labels=labels,
        cost=unit * result.cost,
        nearest_cost=unit * result.nearest_cost,
        lower_bound=unit * result.lower_bound,
    )


def assign_rows(
    rows: Array,
    centers: Array,
    groups: NDArray[Any],
    tolerance: float,
    weights: Array | None = None,
    min_size: int = 1,
    *,
    ratio: float = 0.0,
    search_sizes: bool = True,
    start: FairAssignment | None = None,
    row_weights: Array | None = None,
    max_gap: float = 5 * GAP,
) -> FairAssignment:
    """Assign checked rows, each of whose squared distances counts `weights` times.

    `groups` are codes (n, n_attributes) or probabilities (n, h); in their shares rows
    count `row_weights` times, in units of their mean. No cluster has fewer than
    `min_size` rows. `ratio` bounds the balance of each cluster from below. Without
    `search_sizes` the sizes of clusters are those of the relaxation: quick, for centres
    that will move. `start` is the assignment to centres that were near. A gap to the
    lower bound of more than `max_gap` is worth an integer program, if rows are few.
    """
    n, k = len(rows), len(centers)
    # Step 1: rows sorted by kind, and their costs.
    bounds, kinds = ShareBounds.of(groups, tolerance, ratio, row_weights)
    P = groups if is_mixed(groups) else None
    if P is not None and row_weights is None:
        row_weights = np.ones(n)
    order = np.argsort(kinds, kind="stable")
    weights = np.ones(n) if weights is None else weights
    rows, kinds, weights = rows[order], kinds[order], weights[order]
    costs = squared_distances(rows, centers) * weights[:, None]
    options = min_size, search_sizes, start._dual if start else None
    if row_weights is not None:
        row_weights = row_weights[order]
        costs /= row_weights[:, None]
    problem = AssignmentProblem(costs, kinds, bounds, *options, row_weights, P, max_gap)
    # Step 2: the nearest centres, if they meet the bounds; else the problem is solved.
    nearest = costs.argmin(axis=1)
    nearest_cost = _total_cost(rows, centers, weights, nearest)
    labels, message = nearest, "The nearest centres meet the bounds."
    lower_bound, prices = nearest_cost, np.zeros((bounds.members.shape[0], k))
    dual = None
    counts = problem.count(nearest)
    if bounds.excess(counts) > 0 or problem.sizes(nearest).min() < min_size:
        labels, prices, lower_bound, message, dual = problem.solve()
        lower_bound = max(lower_bound, nearest_cost)
    # Step 3: what was reached.
    cost = _total_cost(rows, centers, weights, labels)
    is_moved = costs[np.arange(n), labels] > costs[np.arange(n), nearest]
    counts = problem.count(labels)
    unsorted_labels = np.empty(n, np.int32)
    unsorted_labels[order] = labels
    return FairAssignment(
        labels=unsorted_labels,
        cost=cost,
        nearest_cost=nearest_cost,
        lower_bound=min(lower_bound, cost),
        max_violation=bounds.excess(counts),
        rounded=bounds.rounded(counts),
        n_moved=int(is_moved.sum()),
        prices=prices,
        message=message,
        _dual=dual,
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


def _total_cost(rows: Array, centers: Array, weights: Array, labels: Ints) -> float:
    """Weighted sum of squared distances, from differences: no cancellation."""
    total = 0.0
    for start in range(0, len(rows), 4096):  # blocks that stay in the cache
        block = slice(start, start + 4096)
        difference = rows[block] - centers[labels[block]]
        squares = np.einsum("ij,ij->i", difference, difference)
        total += float(weights[block] @ squares)
    return total


class Relaxation(NamedTuple):
    """A lower bound on the cost, and where a flow may start."""

    lower_bound: float
    prices: Array  # (c, k)
    counts: Array  # (c, k), not whole
    dual: DualSolution
    is_tight: bool  # whether the sets of small clusters are exact and disjoint


class FlowSolution(NamedTuple):
    """The best assignment for fixed sizes of the clusters."""

    cost: float
    labels: Ints
    prices: Array  # (c, k), at which every row has its label
    counts: Ints  # (c, k)


@dataclass(frozen=True)
class AssignmentProblem:
    """Rows sorted by kind, which go to one of k clusters each, within the bounds."""

    C: Array  # (n, k): costs; with weights, those of a unit
    kinds: Ints
    bounds: ShareBounds
    min_size: int
    search_sizes: bool = True
    start: DualSolution | None = None
    row_weights: Array | None = None  # (n,), of mean 1
    P: Array | None = None  # (n, h): rows are mixes of the kinds; with row_weights
    max_gap: float = 5 * GAP  # a larger one is worth an integer program

    @property
    def offsets(self) -> Ints:
        """First row of each kind, and the number of rows."""
        return np.searchsorted(self.kinds, np.arange(self.kinds[-1] + 2))

    def count(self, labels: Ints) -> NDArray[Any]:
        """Rows of each kind in each cluster, or their weight."""
        c, k = len(self.bounds.sizes), self.C.shape[1]
        if self.P is not None and self.row_weights is not None:
            weights = self.P.T * self.row_weights
            return np.array([np.bincount(labels, w, k) for w in weights])
        cells = self.kinds * k + labels
        return np.bincount(cells, self.row_weights, c * k).reshape(c, k)

    def sizes(self, labels: Ints) -> NDArray[Any]:
        """Rows of each cluster, or their weight if more than one row is asked for."""
        weights = self.row_weights if self.min_size > 1 else None
        return np.bincount(labels, weights, self.C.shape[1])

    def solve(self) -> tuple[Ints, Array, float, str, DualSolution]:
        """Return labels, prices of groups, lower bound, a message, and the dual."""
        if self.row_weights is not None:
            with single_blas_thread():  # the digits depend on no number of threads
                return round_weighted(self)
        bounds, is_simple = self.bounds, self.search_sizes and self.bounds.is_box
        # Step 1: lower bounds, and a flow from the best one, or from both.
        relaxations = self._relaxations()
        lower_bound, dual = relaxations[0].lower_bound, relaxations[0].dual
        flows: list[FlowSolution] = []
        for relaxation in relaxations:
            sizes = relaxation.counts.sum(axis=0)
            sizes = round_sizes(sizes, len(self.C), self.min_size)
            flows.append(self.flow(relaxation.prices, relaxation.counts, sizes))
            if flows[-1].cost - lower_bound <= 5 * GAP * flows[-1].cost:
                break
        best, n_flows = min(flows, key=lambda flow: flow.cost), len(flows)
        # Step 2: other sizes, at which the bounds round more favourably.
        window = SIZE_WINDOW if is_simple else 0
        while window > 0 and best.cost - lower_bound > GAP * best.cost:
            sizes = self._favourable_sizes(best, window)
            flow, n_flows = self.flow(best.prices, best.counts, sizes), n_flows + 1
            if flow.cost < best.cost * (1 - 0.1 * GAP):
                best = flow
            else:
                window //= 2
        # Step 3: an integer program for few rows. The relaxation says little of
        # clusters of a handful.
        is_far = best.cost - lower_bound > self.max_gap * best.cost
        is_far |= bounds.excess(best.counts) > 0
        is_small = self.C.size * len(bounds.sizes) <= MAX_MILP_SIZE
        if self.search_sizes and is_far and is_small:
            counts, bound = cheapest_counts(self.C, self.kinds, bounds, self.min_size)
            lower_bound = max(lower_bound, bound)
            if len(counts) and bounds.excess(counts) == 0:
                flow, n_flows = self._flow_to(best.prices, counts), n_flows + 1
                best = min(best, flow, key=lambda f: (bounds.excess(f.counts), f.cost))
        prices = best.prices
        if bounds.n_attributes > 1:  # those of the groups; kinds pay their sum
            prices = bounds.group_constraints @ dual.multipliers
        message = (
            f"Lower bound from {len(relaxations)} dual(s), then {n_flows} flow(s)."
        )
        return best.labels, prices, lower_bound, message, dual

    def flow(self, prices: Array, counts: NDArray[Any], sizes: Ints) -> FlowSolution:
        """Solve the problem for fixed sizes; prices and counts are the start."""
        if self.bounds.is_box:
            low, high = self.bounds.counts(sizes)
        elif self.search_sizes:
            return self._flow_to(prices, round_counts(self.bounds, counts, sizes))
        else:  # to about a row, without an integer program
            low = np.maximum(np.floor(counts).astype(np.int64) - 1, 0)
            high = np.minimum(np.ceil(counts).astype(np.int64) + 1, sizes)
        preferred = np.rint(counts).astype(np.int64)
        target = max_cost_counts(prices, low, high, sizes, preferred)
        return self._flow_to(prices, target, low, high)

    def _flow_to(
        self,
        prices: Array,
        target: Ints,
        low: Ints | None = None,
        high: Ints | None = None,
    ) -> FlowSolution:
        """Cheapest labels with counts within bounds, by default just the target."""
        target, prices = target.copy(), prices.copy()
        low, high = (target.copy() if x is None else x for x in (low, high))
        labels, values = self.best_columns(prices)
        rounding = 1e-14 * float(np.abs(values).max())
        share_ties(self.C, self.kinds, prices, target, labels, values, rounding)
        n_paths = min_cost_flow(self.C, self.kinds, prices, low, high, target, labels)
        if n_paths < 0:  # the counts do not add up to the rows of a kind
            raise RuntimeError("No path is left from a surplus to a deficit.")
        cost = float(self.C[np.arange(len(labels)), labels].sum())
        return FlowSolution(cost, labels, prices, target)

    def _relaxations(self) -> list[Relaxation]:
        """Lower bounds, the best one first, with starts of a flow.

        The relaxation is weak for small clusters. So it is solved for the large ones
        alone; and for all, unless the first one is tight: small clusters then compete
        for rows, too.
        """
        sizes = np.bincount(self.C.argmin(axis=1), minlength=self.C.shape[1])
        is_small = sizes <= min(MAX_SET_SIZE, 0.5 * sizes.mean())
        is_small &= self.search_sizes and self.bounds.is_box
        max_sizes = 3 * sizes + 30
        relaxations = []
        if is_small.any():
            relaxations.append(self._relax(~is_small, is_small, max_sizes))
            if relaxations[0].is_tight:
                return relaxations
        relaxations.append(self._relax(np.ones_like(is_small), is_small, max_sizes))
        return sorted(relaxations, key=lambda relaxation: -relaxation.lower_bound)

    def _relax(
        self, is_in: NDArray[np.bool_], is_small: NDArray[np.bool_], max_sizes: Ints
    ) -> Relaxation:
        """Relaxation for the clusters `is_in`; small ones are bounded by their sets.

        For any values v of the rows ``sum(v)``, less what the fair set of each cluster
        gains at most, the largest ``sum(v_i - C_il)``, is a lower bound. A large
        cluster gains at most its multipliers if v_i is the smallest priced cost of a
        row; of a small one the best set is searched.
        """
        dual = self._dual(is_in)
        values = self.best_columns(dual.prices)[1]
        sets = {
            j: FairSet.best(self, j, values, max_sizes[j])
            for j in np.flatnonzero(is_small).tolist()
        }
        gain = sum(fair_set.gain for fair_set in sets.values())
        lower_bound = float(values.sum() - gain - dual.multipliers[:, ~is_small].sum())
        prices, counts = dual.prices.copy(), dual.counts.copy()
        is_tight = True
        if sets and not is_in.all():
            # The flow starts from the sets; large clusters hold all other rows.
            for j, fair_set in sets.items():
                prices[:, j], counts[:, j] = fair_set.prices, fair_set.counts
            n_large = max(len(self.C) - counts[:, is_small].sum(), 1.0)
            counts[:, ~is_small] *= n_large / counts[:, ~is_small].sum()
            rows = np.concatenate([fair_set.rows for fair_set in sets.values()])
            is_exact = all(fair_set.is_exact for fair_set in sets.values())
            is_tight = is_exact and np.unique(rows).size == rows.size
        return Relaxation(lower_bound, prices, counts, dual, is_tight)

    def _dual(self, is_in: NDArray[np.bool_]) -> DualSolution:
        """Dual of the relaxation to some clusters; the others have infinite prices."""
        k, (c, h) = self.C.shape[1], self.bounds.constraints.shape
        prices, counts = np.full((c, k), np.inf), np.zeros((c, k))
        multipliers = np.zeros((h, k))
        if is_in.sum() == 1:  # it takes all rows
            prices[:, is_in], counts[:, is_in] = 0.0, self.bounds.sizes[:, None]
            return DualSolution(multipliers, prices, counts, multipliers, 0.0, 0.0)
        C, start = (self.C, self.start) if is_in.all() else (self.C[:, is_in], None)
        dual = maximise_dual(C, self.offsets, self.bounds.constraints, start)
        prices[:, is_in], counts[:, is_in] = dual.prices, dual.counts
        multipliers[:, is_in] = dual.multipliers
        return replace(dual, multipliers=multipliers, prices=prices, counts=counts)

    def best_columns(self, prices: Array) -> tuple[Ints, Array]:
        """Cluster of each row by its priced costs, and the smallest of these."""
        if self.P is not None:
            costs = priced_costs(self.C, self.P, prices)
            return costs.argmin(axis=1), costs.min(axis=1)
        labels, minima = np.empty(len(self.C), np.int64), np.empty(len(self.C))
        best_columns(self.C, self.kinds, prices, labels, minima)
        return labels, minima

    def _favourable_sizes(self, flow: FlowSolution, window: int) -> Ints:
        """Sizes of the same sum that gain most at the prices of a flow.

        A cluster of size z gains ``p . N``, N the counts within its bounds for which
        that is largest; it jumps where a bound is rounded to the next row. Dynamic
        programming over clusters, each at most `window` from its size.
        """
        sizes, changes = flow.counts.sum(axis=0), np.arange(-window, window + 1)
        # Largest total gain of the clusters so far by the sum of their changes.
        max_sum = 3 * window
        totals = np.full(2 * max_sum + 1, -np.inf)
        totals[max_sum] = 0.0
        choices = []
        for size, prices in zip(sizes, flow.prices.T, strict=True):
            new_sizes = np.maximum(size + changes, self.min_size)
            low, high = self.bounds.counts(new_sizes)
            columns = np.broadcast_to(prices[:, None], low.shape)
            counts = max_cost_counts(columns, low, high, new_sizes, low)
            gains = np.einsum("sz,sz->z", columns, counts)
            is_allowed = size + changes >= self.min_size
            gains = np.where(is_allowed, gains - gains[window], -np.inf)
            # All pairs of a change of this cluster and a sum of those before.
            padded = np.pad(totals, window, constant_values=-np.inf)
            sums = sliding_window_view(padded, changes.size)[:, ::-1] + gains
            choices.append(sums.argmax(axis=1))
            totals = sums.max(axis=1)
        # Back from a sum of zero to the changes that led there.
        best_sizes: Ints = sizes.copy()
        position = max_sum
        for cluster in reversed(range(sizes.size)):
            change = changes[choices[cluster][position]]
            best_sizes[cluster] += change
            position -= change
        return best_sizes
