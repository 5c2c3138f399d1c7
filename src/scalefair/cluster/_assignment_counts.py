"""Choice of the integer counts: a table near the relaxation, and how good it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from scalefair.cluster._assignment_prices import OptimalPrices
from scalefair.cluster._assignment_problem import AssignmentProblem
from scalefair.cluster._assignment_table import (
    checked_table,
    nearest_table,
    searched_table,
    table_constraints,
    whole_bounds,
)
from scalefair.kernels import move_along_paths

__all__ = ["CountSearch"]

# The search ends when the gap to the lower bound is this part of the cost.
_GAP = 1e-3
_MAX_ROUNDS = 3
# Rounds of the relaxation after which an integer program takes less time than more.
_PATIENCE = 4
# Cutting planes at most, the first change of a price in rows, and the largest column
# whose rows are taken to be whole.
_MAX_STEPS = 60
_RADIUS = 4.0
_MOST_SIZES = 4096
# Most row-column pairs of an integer program over rows.
_FEW_PAIRS = 4000
# Nodes of one integer program over rows, or over counts with cuts; counted, not
# timed, for repeatability.
_NODES = 300
_CUT_NODES = 30


@dataclass
class CountSearch:
    """Best assignment and lower bound so far; every table tried adds cuts.

    The cost of a group as a function of its counts is convex, and any prices p give
    the cut ``cost(N) >= value(p) - p . N``. The least sum of the cuts over integer
    tables is a lower bound, too, and suggests the next table.
    """

    problem: AssignmentProblem
    sizes: NDArray[np.int64]
    tolerance: float
    lower_bound: float
    cost: float = np.inf
    labels: NDArray[np.int64] | None = None
    cuts: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(
        default_factory=list
    )

    def run(self, relaxed: OptimalPrices, fallback: NDArray[np.int64]) -> None:
        """Try the table nearest to the relaxation; prove how good it is; try others.

        `fallback` is a table that meets the bounds: there is an assignment in the end.
        """
        self._cut(relaxed.prices)
        if self.labels is None or not self._done():
            self.near(relaxed)
        if self.labels is None:
            self.evaluate(fallback, relaxed.prices)
        if not self._done():
            self._search(relaxed)

    def near(self, relaxed: OptimalPrices) -> bool:
        """Try tables near a relaxation; return whether they are good enough."""
        self.lower_bound = max(self.lower_bound, relaxed.lower_bound)
        self._try_near(relaxed, relaxed.prices)
        if self.labels is None or self._done():
            return self._done()
        bound = ColumnBound(self.problem, self.sizes, self.tolerance)
        prices, value = bound.maximise(relaxed, self.cost)
        self.lower_bound = max(self.lower_bound, min(value, self.cost))
        if not self._done():
            self._try_near(relaxed, prices)
        if not self._done() and relaxed.n_rounds >= _PATIENCE:
            self._try_searched(relaxed)
        return self._done()

    def _search(self, relaxed: OptimalPrices) -> None:
        """Try tables that integer programs find."""
        self._try_searched(relaxed)
        if self._done():
            return
        table = self._solve_few(relaxed)
        if table is not None:
            self.evaluate(table, relaxed.prices)
            return
        for _ in range(_MAX_ROUNDS):
            table = self._suggest()
            if table is None:
                return
            self.evaluate(table, relaxed.prices)
            if self._done():
                return

    def _try_searched(self, relaxed: OptimalPrices) -> None:
        for radius in (1.0, 4.0, np.inf):
            table = searched_table(
                self.sizes,
                self.tolerance,
                radius,
                relaxed.counts,
                relaxed.prices,
                relaxed.steepness,
            )
            if table is not None:
                self.evaluate(table, relaxed.prices)
            if self._done():
                return

    def _try_near(self, relaxed: OptimalPrices, prices: NDArray[np.float64]) -> None:
        table = nearest_table(
            self.sizes, self.tolerance, relaxed.counts, prices, relaxed.steepness
        )
        if table is not None:
            self.evaluate(table, relaxed.prices)

    def _done(self) -> bool:
        found = self.labels is not None
        return found and self.cost - self.lower_bound <= _GAP * self.cost

    def evaluate(self, table: NDArray[np.int64], prices: NDArray[np.float64]) -> None:
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
            self.cost, self.labels = cost, labels
        self._cut(prices)

    def _cut(self, prices: NDArray[np.float64]) -> None:
        self.cuts.append((self.problem.group_choices(prices)[0], prices))

    def _solve_few(self, relaxed: OptimalPrices) -> NDArray[np.int64] | None:
        """Solve the problem with whole counts; None when it has too many pairs.

        A row in a column that is not its cheapest adds the excess to the relaxed
        bound: pairs whose excess is above the gap are in no better assignment.
        Only the counts are integer variables, the rows follow.
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
        h, k = problem.shape
        hk, m = h * k, rows.size
        A, b, _ = table_constraints(self.sizes, k, self.tolerance, problem.smallest)
        pairs, ones = np.arange(m), np.ones(m)
        once = sparse.csr_array((ones, (rows, pairs)), (n, m))
        into = sparse.csr_array((ones, (groups[rows] * k + columns, pairs)), (hk, m))
        result = milp(
            np.concatenate([np.zeros(hk), problem.costs[rows, columns] * (100 / gap)]),
            integrality=np.concatenate([np.ones(hk), np.zeros(m)]),
            bounds=Bounds(0, np.inf),
            constraints=[
                LinearConstraint(
                    sparse.hstack([A, sparse.csr_array((b.size, m))], format="csr"),
                    -np.inf,
                    b,
                ),
                LinearConstraint(
                    sparse.hstack([sparse.csr_array((n, hk)), once], format="csr"), 1, 1
                ),
                LinearConstraint(
                    sparse.hstack([-sparse.eye_array(hk), into], format="csr"), 0, 0
                ),
            ],
            options={"node_limit": _NODES, "mip_rel_gap": _GAP / 2},
        )
        self._raise_bound(result, 0.0, gap / 100)
        return checked_table(result.x, self.sizes, k, self.tolerance)

    def _raise_bound(self, result: Any, base: float, unit: float) -> None:
        """Take over the bound that an integer program has proved."""
        proved = getattr(result, "mip_dual_bound", None)
        if proved is not None and np.isfinite(proved):
            # Less what HiGHS may miss its constraints by.
            proved = base + (proved - 1e-3) * unit
            self.lower_bound = max(self.lower_bound, min(proved, self.cost))

    def _suggest(self) -> NDArray[np.int64] | None:
        """Table that the cuts hold cheapest; raises the lower bound.

        None when the integer program gives no new table.
        """
        h, k = self.problem.shape
        hk = h * k
        A, b, of_group = table_constraints(
            self.sizes, k, self.tolerance, self.problem.smallest
        )
        # One variable per group for its cost above the first cut's value.
        unit = (self.cost - self.lower_bound) / 100
        base = self.cuts[0][0]
        more = sparse.csr_array((A.shape[0], h))
        cut_rows = [
            sparse.hstack(
                [sparse.block_diag(list(p[:, None, :])) / unit, sparse.eye_array(h)]
            )
            for _, p in self.cuts
        ]
        cut_sides = [(v - base) / unit for v, _ in self.cuts]
        integral = np.concatenate([np.ones(hk), np.zeros(h)])
        result = milp(
            np.concatenate([np.zeros(hk), np.ones(h)]),
            integrality=integral,
            bounds=Bounds(np.where(integral == 1, 0, -np.inf), np.inf),
            constraints=[
                LinearConstraint(sparse.hstack([A, more], format="csr"), -np.inf, b),
                LinearConstraint(
                    sparse.hstack([of_group, sparse.csr_array((h, h))], format="csr"),
                    self.sizes,
                    self.sizes,
                ),
                LinearConstraint(
                    sparse.vstack(cut_rows, format="csr"),
                    np.concatenate(cut_sides),
                    np.inf,
                ),
            ],
            options={"node_limit": _CUT_NODES, "mip_rel_gap": 1e-2},
        )
        self._raise_bound(result, float(base.sum()), unit)
        return checked_table(result.x, self.sizes, k, self.tolerance)


class ColumnBound:
    """Lower bound that knows that the rows of each group in a column are whole.

    At prices p the cheapest priced costs of all rows, less what the dearest whole
    counts N of each column cost, ``max p_l . N``, are a lower bound (Lagrange, with
    the counts of rows and of columns as copies of each other; Dantzig and Wolfe 1960).
    It is concave in p, and maximised by cutting planes within a box around the best.
    """

    def __init__(
        self, problem: AssignmentProblem, sizes: NDArray[np.int64], tolerance: float
    ) -> None:
        self.problem, self.n = problem, int(sizes.sum())
        size = np.arange(problem.smallest, min(self.n, _MOST_SIZES) + 1)
        low, high, possible = whole_bounds(sizes, tolerance, size)
        self.size = size[possible]
        self.low, self.high = low[:, possible], high[:, possible]
        self.first_far = int(size[-1]) + 1

    def maximise(
        self, relaxed: OptimalPrices, cost: float
    ) -> tuple[NDArray[np.float64], float]:
        """Return the best prices found, from the relaxation's on, and their bound."""
        h, k = self.problem.shape
        best = relaxed.prices
        value, cuts = self._evaluate(best)
        sides = [np.zeros(h + k)]
        sides[0][:h] = cuts[1]
        matrices = [cuts[0]]
        radius = (
            _RADIUS
            * np.maximum(relaxed.steepness, 1e-9 * relaxed.steepness.max()).ravel()
        )
        wanted = np.concatenate([np.zeros(h * k), -np.ones(h + k)])
        free = np.full(h + k, np.inf)
        for _ in range(_MAX_STEPS):
            if cost - value <= _GAP * cost:
                break
            unit = max(cost - value, _GAP * cost) / 100
            lower = np.concatenate([best.ravel() - radius, -free])
            upper = np.concatenate([best.ravel() + radius, free])
            found = linprog(
                wanted / unit,
                A_ub=sparse.vstack(matrices, format="csr"),
                b_ub=np.concatenate(sides),
                bounds=np.column_stack([lower, upper]),
                method="highs-ds",
            )
            if found.x is None:
                break
            model = float(found.x[h * k :].sum())
            if model - value <= _GAP / 100 * cost:
                break
            tried = found.x[: h * k].reshape(h, k)
            there, (matrix, side) = self._evaluate(tried)
            matrices.append(matrix)
            sides.append(np.concatenate([side, np.zeros(k)]))
            radius *= 1.5 if there > value + 0.1 * (model - value) else 0.5
            if there > value:
                best, value = tried, there
        return best, value

    def _evaluate(
        self, prices: NDArray[np.float64]
    ) -> tuple[float, tuple[sparse.csr_array, NDArray[np.float64]]]:
        """Bound at some prices; its parts of groups and columns as cuts."""
        h, k = self.problem.shape
        values, counts = self.problem.group_choices(prices)
        whole = np.stack([self._dearest(column) for column in prices.T], axis=1)
        value = float(values.sum() - (prices * whole).sum())
        rows = sparse.block_diag([-row[None, :] for row in counts])
        columns = sparse.hstack([sparse.diags_array(row) for row in whole])
        matrix = sparse.hstack(
            [sparse.vstack([rows, columns]), sparse.eye_array(h + k)], format="csr"
        )
        return value, (sparse.csr_array(matrix), values - (prices * counts).sum(axis=1))

    def _dearest(self, prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the counts of a column that cost most; of many rows, fair shares."""
        order = np.argsort(-prices, kind="stable")
        counts = self.low.copy()
        left = self.size - counts.sum(axis=0)
        for s in order:
            more = np.minimum(self.high[s] - self.low[s], left)
            counts[s] += more
            left = left - more
        near = prices @ counts
        best = int(near.argmax())
        shares = self.problem.lower.copy()
        rest = 1.0 - shares.sum()
        for s in order:
            more = min(self.problem.upper[s] - self.problem.lower[s], rest)
            shares[s] += more
            rest -= more
        each = float(shares @ prices)
        far = self.n if each > 0 else self.first_far
        if self.first_far <= self.n and far * each > near[best]:
            return far * shares
        return counts[:, best]
