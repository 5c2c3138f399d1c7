"""Assignment of rows to centres under bounds on the shares of groups."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._entries import check_array
from scalefair._groups import combinations, compared_attributes
from scalefair.cluster._assignment_dual import DualSolution, maximise_dual
from scalefair.cluster._share_bounds import (
    ShareBounds,
    cheapest_counts,
    check_tolerance,
    dearest_counts,
    round_counts,
    round_sizes,
)
from scalefair.kernels import (
    best_columns,
    largest_fair_set,
    min_cost_flow,
    share_ties,
    single_blas_thread,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Sizes of clusters are searched until the gap to the lower bound is this part of cost.
GAP = 1e-3
# Cost farther than this from the bound is worth another start, or an integer program.
MAX_START_GAP = 5 * GAP
# Fair sets of clusters of at most so many rows are found size by size.
MAX_SET_SIZE = 600
# Sizes that are tried at once are at most this far from those before.
SIZE_WINDOW = 12
# Sizes that lower the cost by less than this part are not worth another flow.
COST_RTOL = GAP / 10
# Rows x clusters x kinds up to which an integer program takes about a second at most.
MAX_MILP_SIZE = 20_000


@dataclass(frozen=True)
class FairAssignment:
    """Rows assigned to centres, and what is proved about the cost.

    Attributes
    ----------
    labels : ndarray of shape (n,), int32
        Centre of each row; every centre has at least one row.
    cost : float
        Sum of the squared distances of the rows to their centres.
    nearest_cost : float
        The same when every row goes to its nearest centre.
    lower_bound : float
        No assignment that meets the bounds costs less, up to rounding.
    max_violation : float
        Largest number of rows by which a count is beyond its bound, which is rounded
        to the next whole row. 0.0: all bounds hold; always so but with
        ``attributes="each"``.
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
        the sum of its own, and all but a few rows are where that is least.
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
def fair_assignment(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    tolerance: float = 0.1,
    min_size: int = 1,
    attributes: str = "joint",
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
    sensitive_features : array-like of shape (n,) or (n, k)
        Group of each row: numbers, strings or booleans, none missing; of k columns
        see `attributes`.
    tolerance : float, default=0.1
        Largest relative deviation of a share, at least 0: 0.1 lets a group of 30 %
        have between 27 % and 33 % of a cluster; from 1 on a group may be absent.
    min_size : int, default=1
        Fewest rows of a cluster, at most ``n // k``.
    %(attributes)s

    Returns
    -------
    FairAssignment
        Labels, cost, lower bound and the number of moved rows.

    Raises
    ------
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
    _check(rows, means, tolerance)
    compared = compared_attributes(sensitive_features, len(rows), attributes)
    codes = np.column_stack([attribute.codes for attribute in compared])
    if not (
        isinstance(min_size, Integral) and 1 <= min_size <= len(rows) // len(means)
    ):
        raise ValueError(
            f"min_size must be an integer from 1 to {len(rows) // len(means)}, the "
            f"average size of {len(means)} clusters, got {min_size!r}."
        )
    return assign_rows(rows, means, codes, float(tolerance), min_size=int(min_size))


def assign_rows(
    rows: Array,
    centers: Array,
    codes: Ints,
    tolerance: float,
    weights: Array | None = None,
    min_size: int = 1,
    *,
    ratio: float = 0.0,
    search_sizes: bool = True,
    start: FairAssignment | None = None,
) -> FairAssignment:
    """Assign checked rows, each of whose squared distances counts `weights` times.

    `codes` (n, n_attributes) are the groups; no cluster has fewer than `min_size` rows.
    `ratio` bounds the balance of each cluster from below. Without `search_sizes` the
    sizes of clusters are those of the relaxation: quick, for centres that will move.
    `start` is the assignment to centres that were near.
    """
    n, k = len(rows), len(centers)
    first, cells = combinations([*codes.T], (codes.max(axis=0) + 1).tolist())
    order = np.argsort(cells, kind="stable")
    bounds = ShareBounds.of(codes[first], np.bincount(cells), tolerance, ratio)
    weights = np.ones(n) if weights is None else weights
    rows, cells, weights = rows[order], cells[order], weights[order]
    costs = squared_distances(rows, centers) * weights[:, None]
    near = None if start is None else start._dual
    problem = _Problem(costs, cells, bounds, min_size, search_sizes, near)
    nearest = problem.C.argmin(axis=1)
    cost_of = _Cost(rows, centers, weights)
    nearest_cost = cost_of(nearest)
    labels, message = nearest, "The nearest centres meet the bounds."
    lower_bound, prices = nearest_cost, np.zeros((bounds.members.shape[0], k))
    dual = None
    smallest = np.bincount(nearest, minlength=k).min()
    if bounds.excess(problem.count(nearest)) > 0 or smallest < min_size:
        labels, prices, lower_bound, message, dual = problem.solve()
        lower_bound = max(lower_bound, nearest_cost)
    cost = cost_of(labels)
    moved = problem.C[np.arange(n), labels] > problem.C[np.arange(n), nearest]
    unsorted = np.empty(n, np.int32)
    unsorted[order] = labels
    counts = problem.count(labels)
    return FairAssignment(
        labels=unsorted,
        cost=cost,
        nearest_cost=nearest_cost,
        lower_bound=min(lower_bound, cost),
        max_violation=bounds.excess(counts),
        rounded=bounds.rounded(counts),
        n_moved=int(moved.sum()),
        prices=prices,
        message=message,
        _dual=dual,
    )


def _check(X: Array, centers: Array, tolerance: float) -> None:
    if centers.shape[1] != X.shape[1]:
        raise ValueError(
            f"centers must have the {X.shape[1]} columns of X, got {centers.shape[1]}."
        )
    if centers.shape[0] > X.shape[0]:
        raise ValueError(
            f"{centers.shape[0]} centers for {X.shape[0]} rows: every cluster needs a "
            "row, give fewer centers."
        )
    check_tolerance(tolerance)


def squared_distances(X: Array, centers: Array) -> Array:
    """Squared distances by one product; their digits depend on no number of threads."""
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        middle = centers.mean(axis=0)
        X, centers = X - middle, centers - middle
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


class _Cost(NamedTuple):
    """Weighted sum of squared distances, from differences: no cancellation."""

    rows: Array
    centers: Array
    weights: Array

    def __call__(self, labels: Ints) -> float:
        total = 0.0
        for start in range(0, len(self.rows), 4096):
            part = slice(start, start + 4096)
            difference = self.rows[part] - self.centers[labels[part]]
            squares = np.einsum("ij,ij->i", difference, difference)
            total += float(self.weights[part] @ squares)
        return total


class _Start(NamedTuple):
    """A lower bound on the cost, and what a flow may start from."""

    lower_bound: float
    prices: Array  # (c, k)
    counts: Array  # (c, k), not whole
    dual: DualSolution


class _Flow(NamedTuple):
    """The best assignment for given sizes of the clusters."""

    cost: float
    labels: Ints
    prices: Array  # (c, k), at which every row has its label
    counts: Ints  # (c, k)


@dataclass(frozen=True)
class _Problem:
    """Rows sorted by kind, which go to one of k clusters each, within the bounds."""

    C: Array  # (n, k): costs
    kinds: Ints
    bounds: ShareBounds
    min_size: int
    search_sizes: bool = True
    near: DualSolution | None = None

    @property
    def offsets(self) -> Ints:
        """First row of each kind, and the number of rows."""
        return np.append(0, np.cumsum(self.bounds.sizes))

    def count(self, labels: Ints) -> Ints:
        """Rows of each kind in each cluster."""
        c, k = len(self.bounds.sizes), self.C.shape[1]
        return np.bincount(self.kinds * k + labels, minlength=c * k).reshape(c, k)

    def solve(self) -> tuple[Ints, Array, float, str, DualSolution]:
        """Return labels, prices of the groups, the bound, how it went, and the dual."""
        bounds = self.bounds
        starts = sorted(self._starts(), key=lambda start: -start.lower_bound)
        lower_bound = starts[0].lower_bound
        flows = []
        for start in starts:  # that of the lower bound, which is usually the better one
            sizes = round_sizes(start.counts.sum(axis=0), len(self.C), self.min_size)
            flows.append(self.flow(start.prices, start.counts, sizes))
            if flows[-1].cost - lower_bound <= MAX_START_GAP * flows[-1].cost:
                break
        best, n_flows = min(flows, key=lambda flow: flow.cost), len(flows)
        # Other sizes, at which the bounds round more favourably.
        window = SIZE_WINDOW * (self.search_sizes and bounds.is_box)
        while window > 0 and best.cost - lower_bound > GAP * best.cost:
            sizes = self._favourable_sizes(best, window)
            flow, n_flows = self.flow(best.prices, best.counts, sizes), n_flows + 1
            if flow.cost < best.cost * (1 - COST_RTOL):
                best = flow
            else:
                window //= 2
        # Few rows: the relaxation says little of clusters of a handful.
        is_far = best.cost - lower_bound > MAX_START_GAP * best.cost
        is_far |= bounds.excess(best.counts) > 0
        is_few = self.C.size * len(bounds.sizes) <= MAX_MILP_SIZE
        if self.search_sizes and is_far and is_few:
            counts, bound = cheapest_counts(self.C, self.kinds, bounds, self.min_size)
            lower_bound = max(lower_bound, bound)
            if len(counts) and bounds.excess(counts) == 0:
                flow, n_flows = self._flow_to(best.prices, counts), n_flows + 1
                best = min(best, flow, key=lambda f: (bounds.excess(f.counts), f.cost))
        prices = best.prices
        if bounds.n_attributes > 1:  # those of its combinations, but for few rows
            prices = bounds.of_groups @ starts[0].dual.multipliers
        message = f"Lower bound from {len(starts)} dual(s), then {n_flows} flow(s)."
        return best.labels, prices, lower_bound, message, starts[0].dual

    def flow(self, prices: Array, counts: NDArray[Any], sizes: Ints) -> _Flow:
        """Solve the problem for given sizes, from prices and counts to be near."""
        if self.bounds.is_box:
            low, high = self.bounds.counts(sizes)
        elif self.search_sizes:
            return self._flow_to(prices, round_counts(self.bounds, counts, sizes))
        else:  # to about a row, without an integer program
            low = np.maximum(np.floor(counts).astype(np.int64) - 1, 0)
            high = np.minimum(np.ceil(counts).astype(np.int64) + 1, sizes)
        places = dearest_counts(prices, low, high, sizes, np.rint(counts))
        return self._flow_to(prices, places, low, high)

    def _flow_to(
        self,
        prices: Array,
        places: Ints,
        low: Ints | None = None,
        high: Ints | None = None,
    ) -> _Flow:
        """Cheapest labels with counts within bounds, by default just `places`."""
        n, places = len(self.C), places.copy()
        low = places.copy() if low is None else low
        high = low if high is None else high
        prices, labels, values = prices.copy(), np.empty(n, np.int64), np.empty(n)
        best_columns(self.C, self.kinds, prices, labels, values)
        rounding = 1e-14 * float(np.abs(values).max())
        share_ties(self.C, self.kinds, prices, places, labels, values, rounding)
        n_paths = min_cost_flow(self.C, self.kinds, prices, low, high, places, labels)
        if n_paths < 0:  # the counts do not add up to the rows of a kind
            raise RuntimeError("No path is left from a surplus to a deficit.")
        cost = float(self.C[np.arange(n), labels].sum())
        return _Flow(cost, labels, prices, places)

    def _starts(self) -> list[_Start]:
        """Lower bounds, with prices and counts to start the flow from.

        For any values v of the rows ``sum(v)``, less what the fair set of each cluster
        gains at most, the largest ``sum(v_i - C_il)``, is a lower bound. A large
        cluster gains at most its multipliers if a row is worth at most its priced cost;
        of a small one the best set is found exactly, where the relaxation is weak.
        """
        sizes = np.bincount(self.C.argmin(axis=1), minlength=self.C.shape[1])
        is_small = sizes <= min(MAX_SET_SIZE, 0.5 * sizes.mean())
        is_small &= self.search_sizes and self.bounds.is_box
        starts = []
        if is_small.any():
            # Rows are worth what they cost in the large clusters.
            dual = self._dual(~is_small)
            values = self._values(dual.prices)
            sets = self._fair_sets(np.flatnonzero(is_small), 3 * sizes + 30, values)
            gain = sum(fair.gain for fair in sets.values()) + dual.multipliers.sum()
            prices, counts = dual.prices.copy(), dual.counts.copy()
            for cluster, fair in sets.items():
                prices[:, cluster], counts[:, cluster] = fair.prices, fair.counts
            of_large = max(len(self.C) - counts[:, is_small].sum(), 1.0)
            counts[:, ~is_small] *= of_large / counts[:, ~is_small].sum()
            bound = float(values.sum() - gain)
            starts.append(_Start(bound, prices, counts, dual))
            rows = np.concatenate([fair.rows for fair in sets.values()])
            is_disjoint = np.unique(rows).size == rows.size
            if is_disjoint and all(fair.is_exact for fair in sets.values()):
                return starts
        # All clusters by the relaxation: small ones then compete for rows, too.
        dual = self._dual(np.ones(len(is_small), bool))
        values = self._values(dual.prices)
        sets = self._fair_sets(np.flatnonzero(is_small), 3 * sizes + 30, values)
        gain = sum(fair.gain for fair in sets.values())
        gain += float(dual.multipliers[:, ~is_small].sum())
        bound = float(values.sum()) - gain
        return [*starts, _Start(bound, dual.prices, dual.counts, dual)]

    def _dual(self, is_in: NDArray[np.bool_]) -> DualSolution:
        """Dual of the relaxation to some clusters; the others have infinite prices."""
        k, (c, h) = self.C.shape[1], self.bounds.constraints.shape
        prices, counts = np.full((c, k), np.inf), np.zeros((c, k))
        multipliers = np.zeros((h, k))
        if is_in.sum() == 1:  # it takes all rows, as they come
            prices[:, is_in], counts[:, is_in] = 0.0, self.bounds.sizes[:, None]
            return DualSolution(multipliers, prices, counts, 0)
        C = self.C if is_in.all() else self.C[:, is_in]
        near = self.near if is_in.all() else None
        dual = maximise_dual(C, self.offsets, self.bounds.constraints, near)
        prices[:, is_in], counts[:, is_in] = dual.prices, dual.counts
        multipliers[:, is_in] = dual.multipliers
        return replace(dual, multipliers=multipliers, prices=prices, counts=counts)

    def _fair_sets(
        self, clusters: Ints, sizes: Ints, values: Array
    ) -> dict[int, _FairSet]:
        """Best fair sets of clusters, of rows of given values."""
        return {int(j): _FairSet.best(self, j, values, int(sizes[j])) for j in clusters}

    def _values(self, prices: Array) -> Array:
        """Least priced cost of each row."""
        labels, low = np.empty(len(self.C), np.int64), np.empty(len(self.C))
        best_columns(self.C, self.kinds, prices, labels, low)
        return low

    def _favourable_sizes(self, flow: _Flow, window: int) -> Ints:
        """Sizes of the same sum that are worth most at the prices of a flow.

        A cluster of size z is worth ``p . N``, N the dearest counts within its bounds,
        which jump where a bound is rounded to the next person. Dynamic programming over
        clusters, each at most `window` from its size.
        """
        sizes, changes = flow.counts.sum(axis=0), np.arange(-window, window + 1)
        reach = 3 * window  # of the sum of the changes so far
        worth = np.full(2 * reach + 1, -np.inf)
        worth[reach] = 0.0
        choices = []
        for size, prices in zip(sizes, flow.prices.T, strict=True):
            tried = np.maximum(size + changes, self.min_size)
            low, high = self.bounds.counts(tried)
            columns = np.broadcast_to(prices[:, None], low.shape)
            gains = np.einsum(
                "sz,sz->z", columns, dearest_counts(columns, low, high, tried, low)
            )
            gains = np.where(
                size + changes >= self.min_size, gains - gains[window], -np.inf
            )
            # All sums of a change of this cluster and those of the others before.
            padded = np.pad(worth, window, constant_values=-np.inf)
            sums = sliding_window_view(padded, changes.size)[:, ::-1] + gains
            choices.append(sums.argmax(axis=1))
            worth = sums.max(axis=1)
        result: Ints = sizes.copy()
        at = reach
        for cluster in reversed(range(sizes.size)):
            change = changes[choices[cluster][at]]
            result[cluster] += change
            at -= change
        return result


@dataclass(frozen=True)
class _FairSet:
    """The rows of which one cluster gains most, with counts within the bounds."""

    gain: float  # an upper bound for sets of any size
    is_exact: bool  # whether this set has it
    rows: Ints
    counts: Ints  # (h,)
    prices: Array  # (h,): between the gains of the last row in and the first one out

    @classmethod
    def best(cls, problem: _Problem, cluster: int, v: Array, most: int) -> _FairSet:
        """Find the set for gains ``v - C[:, cluster]``, among those of few rows."""
        bounds, offsets, n = problem.bounds, problem.offsets, len(problem.C)
        h, most = len(offsets) - 1, max(min(most, MAX_SET_SIZE, n), problem.min_size)
        gains, rows = np.full((h, most + 1), -np.inf), []
        for s in range(h):
            part = slice(offsets[s], offsets[s + 1])
            of_rows = v[part] - problem.C[part, cluster]
            m = min(most + 1, len(of_rows))
            kept = np.argpartition(-of_rows, m - 1)[:m]
            kept = kept[np.argsort(-of_rows[kept], kind="stable")]
            gains[s, :m] = of_rows[kept]
            rows.append(offsets[s] + kept)
        low, high = bounds.counts(np.arange(1, most + 1))
        counts = np.zeros(h, np.int64)
        gain = largest_fair_set(gains, low, high, problem.min_size, counts)
        each, is_exact = np.arange(h), True
        if most < n:
            # Larger sets gain at most by a tangent of the concave sums of the gains.
            shares = (bounds.lower + bounds.upper) / 2
            at = np.minimum(np.rint(most * shares).astype(np.int64), bounds.sizes - 1)
            at = np.minimum(at, most)
            slopes = gains[each, at]
            fixed = sum(gains[s, : at[s]].sum() for s in range(h)) - at @ slopes
            of_row, of_rounding = bounds.best_mix(slopes)
            size = n if of_row > 0 else most + 1
            of_larger = float(fixed + size * of_row + of_rounding)
            gain, is_exact = max(gain, of_larger), gain >= of_larger
        first_out = gains[each, counts]
        last_in = np.where(counts > 0, gains[each, counts - 1], first_out)
        prices = np.where(np.isfinite(first_out), (first_out + last_in) / 2, last_in)
        chosen = [r[:m] for r, m in zip(rows, counts, strict=True)]
        return cls(gain, is_exact, np.concatenate(chosen), counts, prices)
