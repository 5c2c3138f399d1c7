"""Assignment of rows to centres under bounds on the shares of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from scalefair._docs import documented
from scalefair._entries import check_array
from scalefair._groups import compared_attributes
from scalefair.cluster._assignment_prices import (
    GAP,
    AssignmentProblem,
    ColumnBound,
    OptimalPrices,
    optimal_prices,
)
from scalefair.cluster._share_bounds import MARGINS, ShareBounds, joint_cells
from scalefair.kernels import move_along_paths, single_blas_thread

Array = NDArray[np.float64]

# Rounds of integer programs over counts; of the relaxation before one of them.
_MAX_ROUNDS = 3
_PATIENCE = 4
# Sizes of a cluster that are tried around the one of the relaxation.
_AROUND = 24
# Most row-cluster pairs of an integer program over rows.
_FEW_PAIRS = 4000
# Most counts of one over several attributes.
_FEW_COUNTS = 100
# Nodes of one integer program over rows, counts near given ones, counts with cuts.
_NODES = 300
_NEAR_NODES = 20
_CUT_NODES = 30


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
        Largest amount by which a share misses its bound, relative to the group's
        share in the population. 0.0: all bounds hold.
    n_moved : int
        Rows that are not at a nearest centre.
    prices : ndarray of shape (n_groups, n_centers)
        Of a row of each group, in sorted order, at each centre: every row is where its
        squared distance plus the price is least, ties as they come, and so may further
        rows be. Zero where the nearest centres meet the bounds. With
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
    n_moved: int
    prices: Array
    message: str

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
    attributes: str = "joint",
) -> FairAssignment:
    r"""Assign rows to centres so that every cluster mirrors the population.

    Minimises the sum of squared distances to the given centres subject to

    .. math:: (1 - t) z_s \le n_{sl} / n_l \le (1 + t) z_s

    for every group s and cluster l, where :math:`n_{sl}` of the :math:`n_l` rows of
    the cluster belong to the group, :math:`z_s` is the share of the group in the
    population and :math:`t` the tolerance. No cluster is left empty. The bounds are
    met exactly, and a lower bound on the cost of every such assignment is returned.

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
    %(attributes)s

    Returns
    -------
    FairAssignment
        Labels, cost, lower bound, violation and the number of moved rows.

    Raises
    ------
    ValueError
        If an argument does not fit, the distances overflow, or whole counts cannot
        meet the bounds: the message then names a tolerance at which they can.

    Notes
    -----
    Prices of a linear program give the lower bound. With whole counts given, the best
    assignment is a transport problem; only the choice of the counts is not proved
    optimal. While the gap is more than a thousandth, cutting planes raise the bound
    (Dantzig and Wolfe 1960) and integer programs look for other counts. With
    ``attributes="each"`` the counts are those of combinations, the bounds hold for sums
    of them, and the linear program is rounded within bounds that are tighter by a few
    rows; the integer programs are for few combinations. Memory: 8 n k
    bytes of squared distances, about 100 n and a sorted copy of `X`.

    Examples
    --------
    >>> from scalefair.cluster import fair_assignment
    >>> X, centers = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]], [[0.0], [1.0]]
    >>> groups = ["a", "a", "b", "b", "b", "a"]
    >>> loose = fair_assignment(X, centers, sensitive_features=groups, tolerance=0.4)
    >>> loose.labels
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    >>> tight = fair_assignment(X, centers, sensitive_features=groups, tolerance=0.2)
    >>> tight.n_moved, tight.max_violation
    (1, 0.0)
    """
    rows: Any = check_array(X, dtype=np.float64, input_name="X")
    means: Any = check_array(centers, dtype=np.float64, input_name="centers")
    n, k = rows.shape[0], means.shape[0]
    _check(rows, means, tolerance)
    tolerance = min(float(tolerance), float(n))  # from there on no share is bounded
    compared = compared_attributes(sensitive_features, n, attributes)
    codes, members = compared[0].codes, None
    if len(compared) > 1:
        members, codes = joint_cells(np.column_stack([a.codes for a in compared]))
    bounds = ShareBounds(np.bincount(codes), k, tolerance, members)
    order = np.argsort(codes, kind="stable")
    rows, codes = rows[order], codes[order]
    costs = squared_distances(rows, means)

    def count(labels: NDArray[np.int64]) -> NDArray[np.int64]:
        h = bounds.sizes.size
        return np.bincount(codes * k + labels, minlength=h * k).reshape(h, k)

    nearest = costs.argmin(axis=1)
    prices = np.zeros((bounds.group_sizes.size, k))
    nearest_cost = _cost(rows, means, nearest)
    if bounds.met_by(count(nearest)):
        lower_bound, labels = nearest_cost, nearest
        message = "The nearest centres meet the bounds."
    else:
        fallback = bounds.any_table()
        if fallback is None:
            raise ValueError(_infeasible(bounds))
        offsets = np.append(0, np.cumsum(bounds.sizes))
        weights = np.ones(bounds.sizes.size)
        problem = AssignmentProblem(costs, offsets, weights, bounds)
        search = CountSearch(problem, nearest_cost)
        relaxed = optimal_prices(problem, enough=search.near)
        search.run(relaxed, fallback)
        assert search.labels is not None  # the fallback at least
        assert search.prices is not None
        labels, lower_bound = search.labels, search.lower_bound
        prices = search.prices
        if members is not None:  # at these rows are, but for a few, where they belong
            added = bounds.of_groups.T.toarray().astype(np.float64)
            prices = np.linalg.lstsq(added, relaxed.prices, rcond=None)[0]
        message = f"Linear program solved in {relaxed.n_rounds} rounds."
        if not relaxed.optimal:
            message = (
                f"Linear program not solved to the end in {relaxed.n_rounds} rounds: "
                "`gap` says how far the cost may be from the least."
            )
    cost = _cost(rows, means, labels)
    each = np.arange(n)
    moved = costs[each, labels] > costs[each, nearest]
    unsorted = np.empty(n, np.int32)
    unsorted[order] = labels
    return FairAssignment(
        labels=unsorted,
        cost=cost,
        nearest_cost=nearest_cost,
        lower_bound=min(lower_bound, cost),
        max_violation=bounds.violation(count(labels)),
        n_moved=int(moved.sum()),
        prices=prices,
        message=message,
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
    number = isinstance(tolerance, Real) and bool(np.isfinite(tolerance))
    if not (number and tolerance >= 0):
        raise ValueError(f"tolerance must be a finite number >= 0, got {tolerance!r}.")


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


def _cost(X: Array, centers: Array, labels: NDArray[np.int64]) -> float:
    """Sum of squared distances, from differences: no cancellation."""
    total = 0.0
    for start in range(0, X.shape[0], 4096):
        rows = slice(start, start + 4096)
        difference = X[rows] - centers[labels[rows]]
        total += float(np.einsum("ij,ij->", difference, difference))
    return total


def _infeasible(bounds: ShareBounds) -> str:
    smallest = int(bounds.group_sizes.min())
    return (
        f"No whole counts of {bounds.group_sizes.size} groups in {bounds.k} clusters "
        f"were found with all shares within tolerance={bounds.tolerance:g} of the "
        f"population's (the smallest group has {smallest} rows, "
        f"{smallest / bounds.k:.3g} per cluster). Use fewer clusters or "
        f"tolerance={bounds.nearest_feasible_tolerance():.10g}, the nearest found to "
        "be possible."
    )


@dataclass
class CountSearch:
    """Best assignment and lower bound so far; every table tried adds a cut.

    Of each group, ``cost(N) >= value(p) - p . N`` at any prices p. The least sum of the
    cuts over whole tables N is a lower bound, too, and suggests the next table.
    """

    problem: AssignmentProblem
    lower_bound: float
    cost: float = np.inf
    labels: NDArray[np.int64] | None = None
    prices: Array | None = None  # at which every row has its label
    cuts: list[tuple[Array, Array]] = field(default_factory=list)

    def run(self, relaxed: OptimalPrices, fallback: NDArray[np.int64]) -> None:
        """Try tables near the relaxation, then others; the fallback is a fair one."""
        overlapping = self.problem.bounds.members is not None
        self._cut(relaxed.prices)
        if not self._done():
            self.near(relaxed)
        if self.labels is None:
            self.evaluate(fallback, relaxed.prices)
        # Of combinations there may be too many for integer programs over their counts.
        if self._done() or (overlapping and relaxed.prices.size > _FEW_COUNTS):
            return
        if self._try_searched(relaxed):
            return
        table = self._table_of_rows(relaxed)
        if table is not None:
            self.evaluate(table, relaxed.prices)
        if table is not None:
            return
        for _ in range(_MAX_ROUNDS):
            table = self._table_of_cuts()
            if table is None or self._try(table, relaxed):
                return

    def near(self, relaxed: OptimalPrices) -> bool:
        """Try tables near a relaxation; return whether they are good enough."""
        self.lower_bound = max(self.lower_bound, relaxed.lower_bound)
        if self.problem.bounds.members is not None:
            return self._try(self._overlapping_table(relaxed), relaxed)
        done = self._try(self._nearest_table(relaxed, relaxed.prices), relaxed)
        if self.labels is None or done:
            return done
        prices, value = ColumnBound(self.problem).maximise(relaxed, self.cost)
        self.lower_bound = max(self.lower_bound, min(value, self.cost))
        done = self._done() or self._try(self._nearest_table(relaxed, prices), relaxed)
        if not done and relaxed.n_rounds >= _PATIENCE:
            done = self._try_searched(relaxed)
        return done

    def evaluate(self, table: NDArray[np.int64], prices: Array) -> None:
        """Find the cheapest assignment with these counts, group by group."""
        problem = self.problem
        prices = prices.copy()
        labels = np.empty(problem.costs.shape[0], np.int64)
        for s, counts in enumerate(table):
            rows = slice(problem.offsets[s], problem.offsets[s + 1])
            failed = move_along_paths(
                problem.costs[rows], prices[s], counts, labels[rows]
            )
            if failed:  # counts that do not add up to the rows of the group
                raise RuntimeError(f"No path left in the transport of group {s}.")
        cost = float(problem.costs[np.arange(labels.size), labels].sum())
        if cost < self.cost:
            self.cost, self.labels, self.prices = cost, labels, prices
        self._cut(prices)

    def _try(self, table: NDArray[np.int64] | None, relaxed: OptimalPrices) -> bool:
        if table is not None:
            self.evaluate(table, relaxed.prices)
        return self._done()

    def _try_searched(self, relaxed: OptimalPrices) -> bool:
        radii = (1.0, 4.0, np.inf)
        return any(self._try(self._searched_table(relaxed, r), relaxed) for r in radii)

    def _done(self) -> bool:
        found = self.labels is not None
        return found and self.cost - self.lower_bound <= GAP * self.cost

    def _cut(self, prices: Array) -> None:
        self.cuts.append((self.problem.choices(prices)[1], prices))

    def _raise_bound(self, result: Any, base: float, unit: float) -> None:
        """Take over the bound that an integer program has proved."""
        proved = getattr(result, "mip_dual_bound", None)
        if proved is not None and np.isfinite(proved):
            # Less what HiGHS may miss its constraints by.
            proved = base + (proved - 1e-3) * unit
            self.lower_bound = max(self.lower_bound, min(proved, self.cost))

    def _nearest_table(
        self, relaxed: OptimalPrices, prices: Array
    ) -> NDArray[np.int64] | None:
        """Whole counts near the relaxed ones, at small cost; None: none found.

        Each cluster gets the size that costs least by itself, the largest what is left;
        then the counts are a transport problem, whose vertices are whole.
        """
        bounds, counts, steep = self.problem.bounds, relaxed.counts, relaxed.steepness
        (h, k), sizes = counts.shape, bounds.sizes
        columns = np.array(
            [
                _cheapest_size(bounds, *column)
                for column in zip(counts.T, prices.T, steep.T, strict=True)
            ]
        )
        largest = columns.argmax()
        columns[largest] += sizes.sum() - columns.sum()
        low, high, possible = bounds.whole(columns)
        if not possible.all() or columns[largest] < bounds.smallest:
            return None
        # Convex costs with their bends at whole numbers: a variable for each piece.
        floor, ceil = (np.clip(f(counts), low, high) for f in (np.floor, np.ceil))
        lengths = np.stack([floor - low, ceil - floor, high - ceil]).ravel()
        slopes = np.stack([-prices - steep, -prices, steep - prices]).ravel()
        of_group = sparse.kron(sparse.eye_array(h), np.ones((1, k)))
        of_column = sparse.kron(np.ones((1, h)), sparse.eye_array(k))
        result = linprog(
            slopes / (np.abs(slopes).max() or 1.0),
            A_eq=sparse.vstack(
                [sparse.hstack([part] * 3) for part in (of_group, of_column)],
                format="csr",
            ),
            b_eq=np.concatenate([sizes - low.sum(axis=1), columns - low.sum(axis=0)]),
            bounds=np.column_stack([np.zeros(lengths.size), lengths]),
            method="highs-ds",
        )
        if result.x is None:
            return None
        whole = low + result.x.reshape(3, h, k).sum(axis=0)
        return bounds.rounded(whole.ravel())

    def _overlapping_table(self, relaxed: OptimalPrices) -> NDArray[np.int64] | None:
        """`_nearest_table` of several attributes, whose vertices are not whole.

        But few of their entries are not. They are rounded, kind by kind, within bounds
        that are tighter by some rows.
        """
        bounds, counts, steep = self.problem.bounds, relaxed.counts, relaxed.steepness
        floor, ceil = np.floor(counts), np.ceil(counts)
        lengths = np.stack([floor, ceil - floor, bounds.sizes[:, None] - ceil])
        slopes = np.stack(
            [-relaxed.prices - steep, -relaxed.prices, steep - relaxed.prices]
        )
        for margin in (0.0, *2.0 ** np.arange(-1, 6)):
            shares, of_kind = bounds.constraints(margin=margin)
            result = linprog(
                (slopes / (np.abs(slopes).max() or 1.0)).ravel(),
                A_ub=sparse.hstack([shares.A] * 3, format="csr"),
                b_ub=shares.ub,
                A_eq=sparse.hstack([of_kind.A] * 3, format="csr"),
                b_eq=of_kind.ub,
                bounds=np.column_stack([np.zeros(lengths.size), lengths.ravel()]),
                method="highs-ds",
            )
            if result.x is None:
                return None
            found = result.x.reshape(lengths.shape).sum(axis=0)
            whole = np.floor(found + 1e-6)
            # The largest remainders of each kind are rounded up.
            rank = np.argsort(np.argsort(whole - found, axis=1), axis=1)
            whole += rank < (bounds.sizes - whole.sum(axis=1))[:, None]
            if (table := bounds.rounded(whole.ravel())) is not None:
                return table
        return None

    def _searched_table(
        self, relaxed: OptimalPrices, radius: float
    ) -> NDArray[np.int64] | None:
        """`_nearest_table` by an integer program: seconds; within a radius."""
        bounds, counts = self.problem.bounds, relaxed.counts.ravel()
        hk = counts.size
        # Deviations up and down are two more variables per count.
        table = sparse.eye_array(hk)
        link = sparse.hstack([table, -table, table], format="csr")
        steep = relaxed.steepness
        steep = np.maximum(steep, 1e-6 * steep.max() + 1e-300).ravel()
        lower, upper = np.zeros(3 * hk), np.full(3 * hk, np.inf)
        lower[:hk] = np.maximum(np.floor(counts) - radius, 0)
        upper[:hk] = np.ceil(counts) + radius
        for margin in MARGINS:
            result = milp(
                np.concatenate([-relaxed.prices.ravel(), steep, steep])
                / np.median(steep),
                integrality=np.arange(3 * hk) < hk,
                bounds=Bounds(lower, upper),
                constraints=[
                    *bounds.constraints(2 * hk, margin),
                    LinearConstraint(link, counts, counts),
                ],
                options={"node_limit": _NEAR_NODES, "mip_rel_gap": 1e-2},
            )
            found = bounds.rounded(result.x)
            if found is not None:
                return found
        return None

    def _table_of_rows(self, relaxed: OptimalPrices) -> NDArray[np.int64] | None:
        """Solve the problem with whole counts; None when it has too many pairs.

        Pairs whose priced cost exceeds the least of the row by more than the gap are in
        no better assignment. Only the counts are integer variables, the rows follow.
        """
        problem, prices = self.problem, relaxed.prices
        groups, n = problem.groups, problem.costs.shape[0]
        if n > _FEW_PAIRS:
            return None
        reduced = problem.costs + prices[groups]
        reduced -= reduced.min(axis=1, keepdims=True)
        gap = (self.cost - relaxed.lower_bound) * (1 + 1e-6)
        rows, columns = np.nonzero(reduced <= gap)
        if rows.size > _FEW_PAIRS:
            return None
        k, hk, m = prices.shape[1], prices.size, rows.size
        pairs, ones = np.arange(m), np.ones(m)
        once = sparse.csr_array((ones, (rows, hk + pairs)), (n, hk + m))
        into = sparse.csr_array((ones, (groups[rows] * k + columns, pairs)), (hk, m))
        into = sparse.hstack([-sparse.eye_array(hk), into], format="csr")
        result = milp(
            np.concatenate([np.zeros(hk), problem.costs[rows, columns] * (100 / gap)]),
            integrality=np.arange(hk + m) < hk,
            bounds=Bounds(0, np.inf),
            constraints=[
                problem.bounds.constraints(m)[0],
                LinearConstraint(once, 1, 1),
                LinearConstraint(into, 0, 0),
            ],
            options={"node_limit": _NODES, "mip_rel_gap": GAP / 2},
        )
        self._raise_bound(result, 0.0, gap / 100)
        return problem.bounds.rounded(result.x)

    def _table_of_cuts(self) -> NDArray[np.int64] | None:
        """Table that the cuts hold cheapest, None if none is; raises the bound."""
        bounds = self.problem.bounds
        h, hk = bounds.sizes.size, bounds.sizes.size * bounds.k
        # One variable per group for its cost above the first cut's value.
        unit = (self.cost - self.lower_bound) / 100
        base = self.cuts[0][0]
        slopes = [[sparse.coo_array([q / unit]) for q in p] for _, p in self.cuts]
        cuts = [
            sparse.hstack([sparse.block_diag(s), sparse.eye_array(h)]) for s in slopes
        ]
        sides = [(v - base) / unit for v, _ in self.cuts]
        whole = np.arange(hk + h) < hk
        result = milp(
            np.concatenate([np.zeros(hk), np.ones(h)]),
            integrality=whole,
            bounds=Bounds(np.where(whole, 0, -np.inf), np.inf),
            constraints=[
                *bounds.constraints(h),
                LinearConstraint(
                    sparse.vstack(cuts, format="csr"), np.concatenate(sides), np.inf
                ),
            ],
            options={"node_limit": _CUT_NODES, "mip_rel_gap": 1e-2},
        )
        self._raise_bound(result, float(base.sum()), unit)
        return bounds.rounded(result.x)


def _cheapest_size(
    bounds: ShareBounds, counts: Array, prices: Array, steepness: Array
) -> int:
    """Size of a cluster, near the sum of the counts, whose whole counts cost least."""
    smallest = bounds.smallest
    centre = round(float(counts.sum()))
    size = np.arange(max(smallest, centre - _AROUND), max(smallest, centre) + _AROUND)
    low, high, possible = bounds.whole(size)
    if not possible.any():
        return max(smallest, centre)
    size, low, high = size[possible], low[:, possible], high[:, possible]
    x = np.clip(np.rint(counts)[:, None], low, high)
    each = np.arange(size.size)
    # One row at a time, the cheapest, until they add up: exact for convex costs.
    while (missing := np.sign(size - x.sum(axis=0))).any():
        after = np.abs(x + missing - counts[:, None]) - np.abs(x - counts[:, None])
        cost = after * steepness[:, None] - missing * prices[:, None]
        cost[(x + missing < low) | (x + missing > high)] = np.inf
        x[cost.argmin(axis=0), each] += missing
    away = x - counts[:, None]
    total = steepness @ np.abs(away) - prices @ away
    return int(size[total.argmin()])
