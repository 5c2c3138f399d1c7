"""Prices of the fair assignment, and the lower bounds on its cost that they prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, minimize

from scalefair.cluster._share_bounds import ShareBounds, dearest_counts
from scalefair.kernels import (
    best_columns,
    box_widths,
    count_open,
    list_open,
    soft_columns,
)

Array = NDArray[np.float64]

# Rows per chunk: sums are formed per chunk and added in a fixed order.
_CHUNK = 2048
# The bound is raised until the gap to it is this part of the cost.
GAP = 1e-3
# Cutting planes, first change of a price in rows, largest cluster of whole rows.
_MAX_STEPS = 60
_RADIUS = 4.0
_MOST_SIZES = 4096
# Pairs of a problem given to the linear program whole; most pairs otherwise.
_WHOLE = 20_000
_MOST_PAIRS = 60_000
# Rows that may change column within the box of one price; more where it was hit.
_RANK = 30
_MAX_ROUNDS = 16
# Rows of the sample on which the smoothed dual starts.
_SAMPLE_ROWS = 20_000
# Part of the largest cost that makes ties; rows of a sample, and part of them that is
# distinct, below which rows are merged.
_TIE = 1e-9
_TIE_SAMPLE = 2000
_DISTINCT = 0.9


@dataclass(frozen=True)
class AssignmentProblem:
    """Rows sorted by group, k clusters; every row goes to one within the bounds."""

    costs: Array  # (n, k)
    offsets: NDArray[np.int64]  # (h + 1,): rows of group s
    weights: Array  # (h,): what a row of the group stands for
    bounds: ShareBounds

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of groups and of clusters, as of the prices."""
        return self.offsets.size - 1, self.costs.shape[1]

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group of each row."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.offsets))

    def choices(
        self, prices: Array, temperature: float = 0.0
    ) -> tuple[float, Array, Array]:
        """Sum of the (smoothed) least priced costs of the rows; by group; counts."""
        ends = self.offsets[1:].tolist()
        runs = [
            (start, min(start + _CHUNK, stop), s)
            for s, stop in enumerate(ends)
            for start in range(int(self.offsets[s]), stop, _CHUNK)
        ]
        chunks = np.array(runs, dtype=np.int64)
        counts = np.empty((chunks.shape[0], self.shape[1]))
        values = np.empty(chunks.shape[0])
        soft_columns(self.costs, chunks, prices, temperature, counts, values)
        groups = chunks[:, 2]
        table = np.zeros(self.shape)
        np.add.at(table, groups, counts)
        sums = np.bincount(groups, values, minlength=self.shape[0])
        total = float(np.sum(values * self.weights[groups]))
        return total, sums * self.weights, table * self.weights[:, None]

    def certify(self, prices: Array, multipliers: Array) -> tuple[Array, float]:
        """Prices less the dearest fair mix of rows, and the lower bound they prove."""
        # The last, >= 0, are the multipliers of the smallest size of clusters.
        credits = multipliers[-self.shape[1] :]
        extra = self.bounds.smallest * float(credits.sum())
        if self.bounds.members is not None:  # groups overlap: no mix is at hand
            if multipliers.size > credits.size:
                prices = self.prices_of(multipliers)
            return prices, self.choices(prices)[0] + extra
        prices = prices + credits
        low, high = self.bounds.lower, self.bounds.upper
        left = np.full(self.shape[1], 1.0 - low.sum())
        dearest = low @ prices
        for s in np.argsort(-prices, axis=0, kind="stable"):
            more = np.minimum((high - low)[s], left)
            dearest += more * np.take_along_axis(prices, s[None, :], axis=0)[0]
            left -= more
        prices = prices - dearest - credits
        return prices, self.choices(prices)[0] + extra

    def prices_of(self, x: Array) -> Array:
        """Prices from multipliers, >= 0, of upper bounds, lower ones, smallest size."""
        k, bounds = self.shape[1], self.bounds
        above, below = x[:-k].reshape(2, -1, k)
        shared = bounds.upper @ above - bounds.lower @ below
        prices: Array = bounds.of_groups.T @ (above - below) - shared - x[-k:]
        return prices


@dataclass(frozen=True)
class OptimalPrices:
    """Solution of the linear relaxation, or the best that was reached."""

    prices: Array  # (h, k)
    counts: Array  # (h, k): rows of each group in each cluster
    steepness: Array  # (h, k): cost of one row more, roughly
    lower_bound: float
    optimal: bool
    n_rounds: int


def optimal_prices(
    problem: AssignmentProblem,
    rtol: float = 1e-9,
    enough: Callable[[OptimalPrices], bool] = lambda _: False,
) -> OptimalPrices:
    """Solve the linear relaxation by linear programs in boxes around the prices.

    Only rows whose cheapest cluster can change inside the box enter; with no price at
    a side the solution is optimal. After rounds 1, 2, 4, ... `enough` may end it.
    """
    h, k = problem.shape
    prices, bound = problem.certify(_start(problem), np.zeros(k))
    *_, counts = problem.choices(prices)
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
        prices, bound = problem.certify(prices + found.step, found.multipliers)
        if bound > best[0]:
            best = bound, prices
        inside = bool(found.outside.max() < 1e-6)
        optimal = inside and found.value - bound <= rtol * abs(found.value)
        ranks = np.where(found.outside > 1e-6, ranks * 4, np.maximum(ranks // 2, _RANK))
        reached = OptimalPrices(best[1], counts, widths, best[0], optimal, n_rounds)
        if n_rounds & (n_rounds - 1) == 0 and not optimal and enough(reached):
            break
    return OptimalPrices(best[1], counts, widths, best[0], optimal, n_rounds)


def _merge_ties(problem: AssignmentProblem) -> tuple[AssignmentProblem, Array]:
    """Distinct rows, and how many each stands for: no box holds some of many."""
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


def _start(problem: AssignmentProblem) -> Array:
    """Prices near the optimal ones, from the smoothed dual at falling temperature."""
    h, k = problem.shape
    n = problem.costs.shape[0]
    if n * k <= _WHOLE:
        return np.zeros((h, k))
    two = np.partition(problem.costs, 1, axis=1)[:, :2]
    unit = float(np.median(two[:, 1] - two[:, 0])) or float(problem.costs.mean()) or 1.0
    sample = _sample(problem)
    x = np.zeros(2 * problem.bounds.group_sizes.size * k + k)
    for part, temperature, steps in [
        *((sample, t, 30) for t in (1.0, 0.3, 0.1, 0.03)),
        (problem, 0.02, 10),
    ]:
        x = minimize(
            _smoothed_dual,
            x,
            (part, unit, temperature),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * x.size,
            options={"maxiter": steps, "maxcor": 10, "ftol": 1e-7, "gtol": 1e-7},
        ).x
    return problem.prices_of(x) * unit


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


def _smoothed_dual(
    x: Array, problem: AssignmentProblem, unit: float, temperature: float
) -> tuple[float, Array]:
    """Negative smoothed dual per row, in units, and its gradient, for a minimiser."""
    bounds, credits = problem.bounds, x[-problem.shape[1] :]
    value, _, counts = problem.choices(problem.prices_of(x) * unit, temperature * unit)
    value += bounds.smallest * credits.sum() * unit
    sizes = counts.sum(axis=0)
    counts = bounds.of_groups @ counts
    gradient = np.concatenate(
        [
            (counts - bounds.upper[:, None] * sizes).ravel(),
            (bounds.lower[:, None] * sizes - counts).ravel(),
            bounds.smallest - sizes,
        ]
    )
    n = float(np.diff(problem.offsets) @ problem.weights)
    return -value / (n * unit), -gradient / n


class _BoxSolution(NamedTuple):
    """Of the linear program in a box: the change of the prices, and what it means."""

    step: Array  # (h, k)
    multipliers: Array  # (2 h k + k,): of the bounds
    counts: Array  # (h, k)
    outside: Array  # (h, k): rows bought at the sides of the box
    value: float


class _Box:
    """Linear program over the rows that can change column inside a box of prices."""

    def __init__(
        self,
        problem: AssignmentProblem,
        times: Array,
        prices: Array,
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
            state = prices, self.best, self.low, second, ranks
            box_widths(costs, problem.offsets, *state, self.widths)
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
        shares, _ = problem.bounds.constraints(2 * hk)
        before = sparse.csr_array((shares.ub.size, n_pairs))
        unit = float(np.median(self.widths))
        excess = np.concatenate([self.excesses, np.zeros(m)]) * weight
        sides = self.widths.ravel()
        result = linprog(
            np.concatenate([excess, -self.prices.ravel(), sides, sides]) / unit,
            A_ub=sparse.hstack([before, shares.A], format="csr"),
            b_ub=shares.ub,
            A_eq=equal,
            b_eq=np.concatenate([self.times[inside], base.ravel()]),
            bounds=(0, None),
            method="highs-ds",
        )
        if result.status != 0:  # there is a solution, but rounding can hide it
            return None
        step = result.eqlin.marginals[m:].reshape(h, k) * unit
        multipliers = np.maximum(-result.ineqlin.marginals * unit, 0)
        counts, added, removed = result.x[n_pairs:].reshape(3, h, k)
        lows = float((self.low * self.times) @ problem.weights[self.groups])
        value = lows + float(result.fun) * unit
        return _BoxSolution(step, multipliers, counts, added + removed, value)


class ColumnBound:
    """Lower bound by whole counts N of each cluster (Dantzig and Wolfe 1960).

    At prices p: the least priced costs of all rows, less the largest ``p_l . N``. It is
    concave in p, and maximised by cutting planes within a box around the best.
    """

    def __init__(self, problem: AssignmentProblem) -> None:
        self.problem, self.n = problem, problem.costs.shape[0]
        bounds = problem.bounds
        size = np.arange(bounds.smallest, min(self.n, _MOST_SIZES) + 1)
        low, high, possible = bounds.whole(size)
        self.size = size[possible]
        self.low, self.high = low[:, possible], high[:, possible]
        self.first_far = int(size[-1]) + 1

    def maximise(self, relaxed: OptimalPrices, cost: float) -> tuple[Array, float]:
        """Return the best prices found, from the relaxation's on, and their bound."""
        h, k = self.problem.shape
        best = relaxed.prices
        value, matrix, side = self._evaluate(best)
        matrices, sides = [matrix], [side]
        steep = np.maximum(relaxed.steepness, 1e-9 * relaxed.steepness.max())
        radius = _RADIUS * steep.ravel()
        wanted = np.concatenate([np.zeros(h * k), -np.ones(h + k)])
        free = np.full(h + k, np.inf)
        for _ in range(_MAX_STEPS):
            if cost - value <= GAP * cost:
                break
            unit = max(cost - value, GAP * cost) / 100
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
            if model - value <= GAP / 100 * cost:
                break
            tried = found.x[: h * k].reshape(h, k)
            there, matrix, side = self._evaluate(tried)
            matrices.append(matrix)
            sides.append(side)
            radius *= 1.5 if there > value + 0.1 * (model - value) else 0.5
            if there > value:
                best, value = tried, there
        return best, value

    def _evaluate(self, prices: Array) -> tuple[float, sparse.csr_array, Array]:
        """Bound at some prices; its parts of groups and clusters as cuts A, b."""
        h, k = self.problem.shape
        _, values, counts = self.problem.choices(prices)
        whole = np.stack([self._dearest(column) for column in prices.T], axis=1)
        value = float(values.sum() - (prices * whole).sum())
        rows = sparse.block_diag([sparse.coo_array(-row[None, :]) for row in counts])
        columns = sparse.hstack([sparse.diags_array(row) for row in whole])
        matrix = sparse.hstack(
            [sparse.vstack([rows, columns]), sparse.eye_array(h + k)], format="csr"
        )
        side = np.append(values - (prices * counts).sum(axis=1), np.zeros(k))
        return value, sparse.csr_array(matrix), side

    def _dearest(self, prices: Array) -> Array:
        """Find the counts of a cluster that cost most; of many rows, fair shares."""
        counts = dearest_counts(prices, self.low, self.high, self.size)
        near = prices @ counts
        best = int(near.argmax())
        bounds = self.problem.bounds
        shares = dearest_counts(prices, bounds.lower, bounds.upper, 1.0)
        each = float(shares @ prices)
        far = self.n if each > 0 else self.first_far
        if self.first_far <= self.n and far * each > near[best]:
            return far * shares
        return np.asarray(counts[:, best])
