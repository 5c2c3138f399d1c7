"""Choice of the integer counts: tables near the relaxation, then cuts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from scalefair.cluster._assignment_prices import OptimalPrices
from scalefair.cluster._assignment_problem import AssignmentProblem
from scalefair.cluster._assignment_table import (
    checked_table,
    nearest_table,
    table_constraints,
)
from scalefair.kernels import move_along_paths

__all__ = ["CountSearch"]

# The search ends when the gap to the lower bound is this part of the cost.
_GAP = 1e-3
_MAX_ROUNDS = 3
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
    tables is a lower bound that knows that rows are whole.
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
        """Try tables near the relaxed counts, then those that the cuts suggest.

        `fallback` is a table that meets the bounds: there is an assignment in the end.
        """
        self._cut(relaxed.prices)
        for radius in (1.0, 4.0, np.inf):
            table = nearest_table(
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
        if self.labels is None:
            self.evaluate(fallback, relaxed.prices)
        if not self._done():
            table = self._solve_few(relaxed)
            if table is not None:
                self.evaluate(table, relaxed.prices)
                return
        for _ in range(_MAX_ROUNDS):
            if self._done():
                return
            table = self._suggest()
            if table is None:
                return
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
        self.cuts.append((self.problem.group_values(prices), prices))

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
