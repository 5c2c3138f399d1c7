"""Prices of the fair assignment: smoothed dual first, then exact linear programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, minimize

from scalefair.cluster._assignment_problem import AssignmentProblem
from scalefair.kernels import (
    best_columns,
    box_widths,
    count_open,
    list_open,
)

__all__ = ["OptimalPrices", "optimal_prices"]

# Row-column pairs of a problem that is given to the linear program whole, and the
# most pairs of one linear program otherwise.
_WHOLE = 20_000
_MOST_PAIRS = 60_000
# Rows that may change column within the box of one price; more where it was hit.
_RANK = 30
_MAX_ROUNDS = 16
# Rows of the sample on which the smoothed dual starts.
_SAMPLE_ROWS = 20_000
# Costs that differ by less than this part of the largest one are ties. Rows are merged
# if fewer than this part of a sample of rows are distinct.
_TIE = 1e-9
_TIE_SAMPLE = 2000
_DISTINCT = 0.9


@dataclass(frozen=True)
class OptimalPrices:
    """Solution of the linear relaxation, or the best that was reached."""

    prices: NDArray[np.float64]  # (h, k)
    counts: NDArray[np.float64]  # (h, k): rows of each group in each column
    steepness: NDArray[np.float64]  # (h, k): cost of one row more, roughly
    lower_bound: float
    optimal: bool
    n_rounds: int


def optimal_prices(
    problem: AssignmentProblem,
    rtol: float = 1e-9,
    enough: Callable[[OptimalPrices], bool] = lambda _: False,
) -> OptimalPrices:
    """Solve the linear relaxation by linear programs in boxes around the prices.

    Only rows whose cheapest column can change while every price stays in its box
    enter a linear program; leaving the box costs what its side says. When no price
    is at a side, the solution is optimal, which the bound over all pairs confirms.
    Rows of equal costs enter as one: no small box would hold some of them only.
    After rounds 1, 2, 4 and so on `enough` may find that what was reached will do.
    """
    h, k = problem.shape
    prices, bound = problem.certify(_start(problem), np.zeros(k))
    _, counts = problem.choices(prices)
    merged, times = _merge_ties(problem)
    ranks = np.full((h, k), _RANK)
    best = bound, prices
    optimal, n_rounds = False, 0
    while not optimal and n_rounds < _MAX_ROUNDS:
        n_rounds += 1
        box = _Box(merged, times, prices, ranks)
        widths = box.widths / ranks
        found = box.solve()
        if found is None:
            break
        counts = found.counts
        prices, bound = problem.certify(prices + found.step, found.credits)
        if bound > best[0]:
            best = bound, prices
        inside = bool(found.outside.max() < 1e-6)
        optimal = inside and found.value - bound <= rtol * abs(found.value)
        ranks = np.where(found.outside > 1e-6, ranks * 4, np.maximum(ranks // 2, _RANK))
        reached = OptimalPrices(best[1], counts, widths, best[0], optimal, n_rounds)
        if n_rounds & (n_rounds - 1) == 0 and not optimal and enough(reached):
            break
    return OptimalPrices(best[1], counts, widths, best[0], optimal, n_rounds)


def _merge_ties(
    problem: AssignmentProblem,
) -> tuple[AssignmentProblem, NDArray[np.float64]]:
    """Distinct rows at their mean costs, and how many rows each stands for.

    Only where a sample shows that there are many ties.
    """
    costs, groups = problem.costs, problem.groups
    n, k = costs.shape
    unit = _TIE * float(costs.max()) or 1.0
    sample = np.rint(costs[:: -(-n // _TIE_SAMPLE)] / unit)
    most_differ = len(np.unique(sample, axis=0)) >= _DISTINCT * len(sample)
    if most_differ or n * k <= _WHOLE:
        return problem, np.ones(n)
    keys = np.column_stack([groups, np.rint(costs / unit)])
    distinct, inverse, times = np.unique(
        keys, axis=0, return_inverse=True, return_counts=True
    )
    inverse = inverse.ravel()
    sums = [np.bincount(inverse, column) for column in costs.T]
    sizes = np.bincount(distinct[:, 0].astype(np.int64))
    merged = replace(
        problem,
        costs=np.ascontiguousarray(np.stack(sums, axis=1) / times[:, None]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
    )
    return merged, times.astype(np.float64)


def _start(problem: AssignmentProblem) -> NDArray[np.float64]:
    """Prices near the optimal ones, from the smoothed dual at falling temperature."""
    h, k = problem.shape
    n = problem.costs.shape[0]
    if n * k <= _WHOLE:
        return np.zeros((h, k))
    two = np.partition(problem.costs, 1, axis=1)[:, :2]
    unit = float(np.median(two[:, 1] - two[:, 0])) or float(problem.costs.mean()) or 1.0
    sample = _sample(problem)
    x = np.zeros(2 * h * k + k)
    for part, temperature, steps in [
        *((sample, t, 30) for t in (1.0, 0.3, 0.1, 0.03)),
        (problem, 0.02, 10),
    ]:
        dual = _SmoothedDual(part, unit, temperature)
        x = minimize(
            dual,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * x.size,
            options={"maxiter": steps, "maxcor": 10, "ftol": 1e-7, "gtol": 1e-7},
        ).x
    return dual.prices(x) * unit


def _sample(problem: AssignmentProblem) -> AssignmentProblem:
    """Every m-th row of each group, standing for the others."""
    step = -(-problem.costs.shape[0] // _SAMPLE_ROWS)
    ends = problem.offsets
    rows = [np.arange(a, b, step) for a, b in pairwise(ends)]
    sizes = np.array([r.size for r in rows])
    return replace(
        problem,
        costs=np.ascontiguousarray(problem.costs[np.concatenate(rows)]),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        weights=np.diff(ends) / sizes,
    )


class _SmoothedDual:
    """Negative smoothed dual per row and its gradient, for a minimiser.

    The variables are the multipliers, >= 0, of the upper share bounds, the lower
    ones and the smallest size, in units of a typical margin between columns.
    """

    def __init__(
        self, problem: AssignmentProblem, unit: float, temperature: float
    ) -> None:
        self.problem, self.unit = problem, unit
        self.temperature = temperature * unit
        self.n = float(np.diff(problem.offsets) @ problem.weights)

    def _split(
        self, x: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        h, k = self.problem.shape
        shape = (h, k)
        return x[: h * k].reshape(shape), x[h * k : -k].reshape(shape), x[-k:]

    def prices(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        above, below, credits = self._split(x)
        shared = self.problem.upper @ above - self.problem.lower @ below
        prices: NDArray[np.float64] = above - below - shared - credits
        return prices

    def __call__(self, x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        problem = self.problem
        value, counts = problem.choices(self.prices(x) * self.unit, self.temperature)
        sizes = counts.sum(axis=0)
        credits = self._split(x)[2]
        value += problem.smallest * credits.sum() * self.unit
        gradient = np.concatenate(
            [
                (counts - problem.upper[:, None] * sizes).ravel(),
                (problem.lower[:, None] * sizes - counts).ravel(),
                problem.smallest - sizes,
            ]
        )
        return -value / (self.n * self.unit), -gradient / self.n


class _BoxSolution(NamedTuple):
    """Of the linear program in a box: the change of the prices, and what it means."""

    step: NDArray[np.float64]  # (h, k)
    credits: NDArray[np.float64]  # (k,)
    counts: NDArray[np.float64]  # (h, k)
    outside: NDArray[np.float64]  # (h, k): rows bought at the sides of the box
    value: float


class _Box:
    """Linear program over the rows that can change column inside a box of prices."""

    def __init__(
        self,
        problem: AssignmentProblem,
        times: NDArray[np.float64],
        prices: NDArray[np.float64],
        ranks: NDArray[np.int64],
    ) -> None:
        self.problem, self.prices = problem, prices
        self.times = times  # rows that each one stands for
        costs, self.groups = problem.costs, problem.groups
        n, k = costs.shape
        self.best = np.empty(n, np.int64)
        self.low, second = np.empty(n), np.empty(n)
        best_columns(costs, self.groups, prices, self.best, self.low, second)
        if n * k <= _WHOLE:
            self.widths = np.full(prices.shape, 4 * (np.ptp(costs) or 1.0))
            self._open()
            return
        self.widths = np.empty(prices.shape)
        while True:
            box_widths(
                costs,
                problem.offsets,
                prices,
                self.best,
                self.low,
                second,
                ranks,
                self.widths,
            )
            # Ties: no width at all would leave the prices where they are.
            np.maximum(self.widths, 1e-12 * costs.max() + 1e-300, out=self.widths)
            self._open()
            if self.rows.size <= _MOST_PAIRS or ranks.max() <= 1:
                break
            ranks = np.maximum(ranks // 2, 1)

    def _open(self) -> None:
        """List the pairs of the linear program besides each row's best column."""
        state = (self.problem.costs, self.groups, self.prices, self.best, self.low)
        n_open = np.empty(self.best.size, np.int64)
        count_open(*state, self.widths, n_open)
        total = int(n_open.sum())
        self.rows = np.empty(total, np.int64)
        self.columns = np.empty(total, np.int64)
        self.excesses = np.empty(total)
        list_open(*state, self.widths, self.rows, self.columns, self.excesses)

    def solve(self) -> _BoxSolution | None:
        """Solve the linear program; None if HiGHS cannot."""
        problem = self.problem
        h, k = problem.shape
        hk = h * k
        inside, position = np.unique(self.rows, return_inverse=True)
        m, n_pairs = inside.size, self.rows.size + inside.size
        of_pair = np.concatenate([position, np.arange(m)])
        column = np.concatenate([self.columns, self.best[inside]])
        group = self.groups[inside][of_pair]
        weight = problem.weights[group]

        fixed = np.ones(self.best.size, dtype=bool)
        fixed[inside] = False
        base = np.zeros((h, k))
        np.add.at(base, (self.groups[fixed], self.best[fixed]), self.times[fixed])
        base *= problem.weights[:, None]

        # Variables: pairs, counts, rows added and removed at the sides of the box.
        pairs = np.arange(n_pairs)
        once = sparse.csr_array((np.ones(n_pairs), (of_pair, pairs)), (m, n_pairs))
        into = sparse.csr_array((weight, (group * k + column, pairs)), (hk, n_pairs))
        eye = sparse.eye_array(hk)
        equal = sparse.block_array(
            [[once, None, None, None], [-into, eye, -eye, eye]], format="csr"
        )
        shares, least = share_constraints(problem, k)
        shares = sparse.hstack(
            [
                sparse.csr_array((shares.shape[0], n_pairs)),
                shares,
                sparse.csr_array((shares.shape[0], 2 * hk)),
            ],
            format="csr",
        )
        unit = float(np.median(self.widths))
        excess = np.concatenate([self.excesses, np.zeros(m)]) * weight
        sides = self.widths.ravel()
        result = linprog(
            np.concatenate([excess, -self.prices.ravel(), sides, sides]) / unit,
            A_ub=shares,
            b_ub=least,
            A_eq=equal,
            b_eq=np.concatenate([self.times[inside], base.ravel()]),
            bounds=(0, None),
            method="highs-ds",
        )
        if result.status != 0:  # there is a solution, but rounding can hide it
            return None
        step = result.eqlin.marginals[m:].reshape(h, k) * unit
        credits = np.maximum(-result.ineqlin.marginals[-k:] * unit, 0)
        counts, added, removed = result.x[n_pairs:].reshape(3, h, k)
        lows = float((self.low * self.times) @ problem.weights[self.groups])
        value = lows + float(result.fun) * unit
        return _BoxSolution(step, credits, counts, added + removed, value)


def share_constraints(
    problem: AssignmentProblem, k: int
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """Rows of ``A N <= b`` for the share bounds and the smallest size, in this order.

    N is the table of counts, groups by columns, row by row.
    """
    h = problem.lower.size
    eye = sparse.eye_array(k)
    sizes = sparse.hstack([eye] * h)
    repeated = sparse.vstack([sizes] * h)
    counts = sparse.eye_array(h * k)
    above = counts - sparse.diags_array(np.repeat(problem.upper, k)) @ repeated
    below = sparse.diags_array(np.repeat(problem.lower, k)) @ repeated - counts
    A = sparse.vstack([above, below, -sizes], format="csr")
    b = np.concatenate([np.zeros(2 * h * k), np.full(k, -float(problem.smallest))])
    return sparse.csr_array(A), b
