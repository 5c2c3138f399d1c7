"""The fair assignment as an optimisation problem: bounds, flows, and their rounding.

Rows that count once: dual variables of a relaxation give a lower bound and sizes of the
clusters, and a min-cost flow the best labels for these sizes. Rows of different
weights, or of groups known as probabilities: no flow moves one for another, and the
shares that the dual gives each row are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from scalefair._rounding import ROUNDING
from scalefair.cluster._assignment_dual import DualSolution, maximise_dual, priced_costs
from scalefair.cluster._share_bounds import (
    ShareBounds,
    cheapest_counts,
    count_kinds,
    max_cost_counts,
    round_counts,
    round_sizes,
)
from scalefair.kernels import (
    best_columns,
    largest_fair_set,
    min_cost_flow,
    round_minima,
    share_ties,
    single_blas_thread,
)

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# Sizes of clusters are searched until the gap to the lower bound is this part of the
# cost. A gap of more than MAX_GAP is worth another start, or an integer program.
GAP = 1e-3
MAX_GAP = 5 * GAP
# Rows by which the size of a cluster changes at most in one step of the search.
SIZE_WINDOW = 12
# Rows x clusters x kinds up to which an integer program takes a few seconds at most.
MAX_MILP_SIZE = 20_000
# Rows up to which the best set of rows of a small cluster is searched exactly.
MAX_SET_SIZE = 600


class AssignmentSolution(NamedTuple):
    """Labels of the rows, and what is proved about them."""

    labels: Ints
    prices: Array  # (h, k), of the groups
    lower_bound: float
    message: str
    dual: DualSolution | None  # a start for similar costs; None: none was needed


class Relaxation(NamedTuple):
    """A lower bound on the cost, and where a flow may start."""

    lower_bound: float
    dual: DualSolution  # its prices and counts are where the flow starts
    is_tight: bool  # whether the sets of small clusters are exact and disjoint


class FlowSolution(NamedTuple):
    """The best assignment for fixed sizes of the clusters."""

    cost: float
    labels: Ints
    prices: Array  # (c, k), at which every row has its label
    counts: Ints  # (c, k)


class FairSet(NamedTuple):
    """The rows of which one small cluster gains most, with counts within the bounds."""

    gain: float  # an upper bound for sets of any size
    is_exact: bool  # whether this set has it
    rows: Ints
    counts: Ints  # (h,)
    prices: Array  # (h,): between the gains of the last row in and the first one out


@dataclass(frozen=True)
class AssignmentProblem:
    """Rows sorted by kind, which go to one of k clusters each, within the bounds."""

    C: Array  # (n, k): costs
    kinds: Ints
    bounds: ShareBounds
    min_size: int
    search_sizes: bool
    start: DualSolution | None
    max_gap: float  # a larger one is worth an integer program
    # Of rows that count differently, of mean 1: `C` is then of a unit of weight.
    row_weights: Array | None = None
    P: Array | None = None  # (n, h): rows are mixes of the kinds; None: of one each

    @property
    def offsets(self) -> Ints:
        """First row of each kind, and the number of rows."""
        return np.searchsorted(self.kinds, np.arange(self.kinds[-1] + 2))

    def count(self, labels: Ints) -> NDArray[Any]:
        """Rows of each kind in each cluster, or their weights."""
        kinds = self.kinds if self.P is None else self.P
        return count_kinds(kinds, labels, self.C.shape[1], self.row_weights)

    def sizes(self, labels: Ints) -> NDArray[Any]:
        """Rows of each cluster; their weights if it needs more than one row."""
        weights = self.row_weights if self.min_size > 1 else None
        return np.bincount(labels, weights, self.C.shape[1])

    def best_columns(self, prices: Array) -> tuple[Ints, Array]:
        """Cluster of each row by its priced costs, and the smallest of these."""
        if self.P is not None:
            costs = priced_costs(self.C, self.P, prices)
            return costs.argmin(axis=1), costs.min(axis=1)
        labels, minima = np.empty(len(self.C), np.int64), np.empty(len(self.C))
        best_columns(self.C, self.kinds, prices, labels, minima)
        return labels, minima

    def solve(self) -> AssignmentSolution:
        """Find the best labels, and a lower bound on the cost of any."""
        bounds, can_search = self.bounds, self.search_sizes and self.bounds.is_box
        # Step 1: lower bounds, and a flow from the best one, or from both.
        relaxations = self._relaxations()
        lower_bound, dual = relaxations[0].lower_bound, relaxations[0].dual
        flows: list[FlowSolution] = []
        for _, relaxed, _ in relaxations:
            sizes = round_sizes(relaxed.counts.sum(axis=0), len(self.C), self.min_size)
            flows.append(self.flow(relaxed.prices, relaxed.counts, sizes))
            if flows[-1].cost - lower_bound <= MAX_GAP * flows[-1].cost:
                break
        best, n_flows = min(flows, key=lambda flow: flow.cost), len(flows)
        # Step 2: other sizes, at which the bounds round more favourably.
        window = SIZE_WINDOW if can_search else 0
        while window > 0 and best.cost - lower_bound > GAP * best.cost:
            sizes = self._favourable_sizes(best, window)
            flow, n_flows = self.flow(best.prices, best.counts, sizes), n_flows + 1
            if flow.cost < best.cost * (1 - 0.1 * GAP):
                best = flow
            else:
                window //= 2
        # Step 3: an integer program for few rows. The relaxation is weak for clusters
        # of a handful of rows.
        is_met = bounds.excess(best.counts) == 0
        is_far = best.cost - lower_bound > self.max_gap * best.cost or not is_met
        is_small = self.C.size * len(bounds.sizes) <= MAX_MILP_SIZE
        if self.search_sizes and is_far and is_small:
            counts, bound = cheapest_counts(
                self.C, self.kinds, bounds, self.min_size, is_met
            )
            lower_bound = max(lower_bound, bound)
            if len(counts) and bounds.excess(counts) == 0:
                flow = self._flow_within(best.prices, counts, counts, counts)
                n_flows += 1
                best = min(best, flow, key=lambda f: (bounds.excess(f.counts), f.cost))
        prices = best.prices
        if bounds.n_attributes > 1:  # those of the groups; kinds pay their sum
            prices = bounds.group_constraints @ dual.multipliers
        message = (
            f"Lower bound from {len(relaxations)} dual(s), then {n_flows} flow(s)."
        )
        return AssignmentSolution(best.labels, prices, lower_bound, message, dual)

    def flow(self, prices: Array, counts: NDArray[Any], sizes: Ints) -> FlowSolution:
        """Solve the problem for fixed sizes; prices and counts are the start."""
        # Step 1: bounds on the counts of kinds.
        if self.bounds.is_box:
            low, high = self.bounds.counts(sizes)
        elif self.search_sizes:
            target = round_counts(self.bounds, counts, sizes)
            return self._flow_within(prices, target, target, target)
        else:  # counts may change by about a row: no integer program is needed
            low = np.maximum(np.floor(counts).astype(np.int64) - 1, 0)
            high = np.minimum(np.ceil(counts).astype(np.int64) + 1, sizes)
        # Step 2: counts within them to start from: those that gain most at the prices,
        # as they would in an optimal solution.
        preferred = np.rint(counts).astype(np.int64)
        target = max_cost_counts(prices, low, high, sizes, preferred)
        return self._flow_within(prices, target, low, high)

    def _flow_within(
        self, prices: Array, target: Ints, low: Ints, high: Ints
    ) -> FlowSolution:
        """Cheapest labels whose counts are within bounds; start from the target."""
        prices, target = prices.copy(), target.copy()  # the flow changes them
        low, high = low.copy(), high.copy()
        # The cheapest labels at the prices need not have the target's counts. Rows that
        # cost the same elsewhere move first, the flow moves the others.
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
        # Larger sets are not searched, only bounded.
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

        For any values v of the rows a lower bound is ``sum(v)`` less the gain of each
        cluster l: the largest ``sum(v_i - C_il)`` over the rows i of a fair set. If v_i
        is the smallest priced cost of a row, a large cluster gains at most the sum of
        its multipliers; of a small one the best set is searched.
        """
        # Step 1: values of the rows from the dual, and the sets of small clusters.
        dual = self._dual(is_in)
        values = self.best_columns(dual.prices)[1]
        sets = {
            j: self._best_set(j, values, max_sizes[j])
            for j in np.flatnonzero(is_small).tolist()
        }
        # Step 2: the lower bound, and where the flow starts.
        gain = sum(fair_set.gain for fair_set in sets.values())
        lower_bound = float(values.sum() - gain - dual.multipliers[:, ~is_small].sum())
        is_tight = True
        if not is_in.all():
            # The flow starts from the sets; large clusters hold all other rows.
            prices, counts = dual.prices, dual.counts
            for j, fair_set in sets.items():
                prices[:, j], counts[:, j] = fair_set.prices, fair_set.counts
            n_large = max(len(self.C) - counts[:, is_small].sum(), 1.0)
            counts[:, ~is_small] *= n_large / counts[:, ~is_small].sum()
            rows = np.concatenate([fair_set.rows for fair_set in sets.values()])
            is_exact = all(fair_set.is_exact for fair_set in sets.values())
            is_tight = is_exact and np.unique(rows).size == rows.size
        return Relaxation(lower_bound, dual, is_tight)

    def _dual(self, is_in: NDArray[np.bool_]) -> DualSolution:
        """Dual of the relaxation to some clusters; the others have infinite prices."""
        k, (c, h) = self.C.shape[1], self.bounds.constraints.shape
        prices, counts = np.full((c, k), np.inf), np.zeros((c, k))
        multipliers = np.zeros((h, k))
        if is_in.sum() == 1:  # it takes all rows
            prices[:, is_in], counts[:, is_in] = 0.0, self.bounds.sizes[:, None]
            return DualSolution(multipliers, prices, counts, multipliers, 0.0, 0.0)
        # The solution of another problem helps only if it has the same clusters.
        C, start = (self.C, self.start) if is_in.all() else (self.C[:, is_in], None)
        dual = maximise_dual(C, self.offsets, self.bounds.constraints, start)
        prices[:, is_in], counts[:, is_in] = dual.prices, dual.counts
        multipliers[:, is_in] = dual.multipliers
        return replace(dual, multipliers=multipliers, prices=prices, counts=counts)

    def _best_set(self, cluster: int, values: Array, max_size: int) -> FairSet:
        """Find the fair set of a cluster for gains ``values - C[:, cluster]``."""
        bounds, offsets, n = self.bounds, self.offsets, len(self.C)
        h = len(offsets) - 1
        max_size = max(min(max_size, MAX_SET_SIZE, n), self.min_size)
        # Step 1: the largest gains of each group, falling.
        gains, rows = np.full((h, max_size + 1), -np.inf), []
        for s in range(h):
            part = slice(offsets[s], offsets[s + 1])
            group_gains = values[part] - self.C[part, cluster]
            m = min(max_size + 1, len(group_gains))
            top = np.argpartition(-group_gains, m - 1)[:m]
            top = top[np.argsort(-group_gains[top], kind="stable")]
            gains[s, :m] = group_gains[top]
            rows.append(offsets[s] + top)
        # Step 2: the best set of at most `max_size` rows.
        low, high = bounds.counts(np.arange(1, max_size + 1))
        counts = np.zeros(h, np.int64)
        gain = largest_fair_set(gains, low, high, self.min_size, counts)
        groups, is_exact = np.arange(h), True
        if max_size < n:
            # Step 3: a bound for larger sets. The sum of the largest gains of a group
            # is concave in their number, and below its tangent: that at `max_size` rows
            # with shares in the middle of their bounds.
            shares = (bounds.lower + bounds.upper) / 2
            touched = np.rint(max_size * shares).astype(np.int64)
            touched = np.minimum(np.minimum(touched, bounds.sizes - 1), max_size)
            slopes = gains[groups, touched]
            intercept = sum(gains[s, : touched[s]].sum() for s in range(h))
            intercept -= touched @ slopes
            row_gain, rounding_gain = bounds.best_mix(slopes)
            size = n if row_gain > 0 else max_size + 1
            larger_gain = float(intercept + size * row_gain + rounding_gain)
            gain, is_exact = max(gain, larger_gain), gain >= larger_gain
        # Step 4: the set, and prices at which its rows are in and no others.
        first_out = gains[groups, counts]
        last_in = np.where(counts > 0, gains[groups, counts - 1], first_out)
        prices = np.where(np.isfinite(first_out), (first_out + last_in) / 2, last_in)
        members = np.concatenate([r[:m] for r, m in zip(rows, counts, strict=True)])
        return FairSet(gain, is_exact, members, counts, prices)

    def _favourable_sizes(self, flow: FlowSolution, window: int) -> Ints:
        """Sizes of the same sum that gain most at the prices of a flow.

        A cluster of size z gains ``p . N`` for the prices p and those counts N within
        its bounds that gain most. The gain jumps where a bound is rounded to the next
        row. Dynamic programming over clusters, each at most `window` from its size.
        """
        sizes, changes = flow.counts.sum(axis=0), np.arange(-window, window + 1)
        # Largest total gain of the clusters so far by the sum of their changes. Sums
        # beyond three windows are not followed.
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
            # A row for each new sum, a column for each change of this cluster: the sum
            # before is their difference.
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


@dataclass(frozen=True)
class WeightedAssignment(AssignmentProblem):
    """Rows of different weights, or of mixed kinds: no flow moves one for another.

    The dual is for half a row beyond the shares: the other half is left for rounding.
    """

    row_weights: Array

    @single_blas_thread()  # the digits depend on no number of threads
    def solve(self) -> AssignmentSolution:
        """Round the shares of the dual, and take its value as the lower bound."""
        # Step 1: the dual, and labels near it.
        dual, A = self._maximise()
        lower_bound = self._lower_bound(dual)
        labels, prices = self._round(dual, A), A @ dual.multipliers
        if self.sizes(labels).min() < self.min_size > 1:
            # Step 2: sizes are bounded in the dual, too. The bound is a row more than
            # `min_size`, for rounding, but at least half a row below the average size.
            # The dual counts rows of known groups only: it gets their part of that, and
            # proves a lower bound on the cost if these are all rows.
            n, k = self.C.shape
            n_known = self.bounds.sizes.sum()
            size = min(self.min_size + 1, n / k - 0.5) * n_known / n
            sized, A = self._maximise(size)
            if n_known >= n * (1 - ROUNDING):
                lower_bound = max(lower_bound, self._lower_bound(sized))
            labels, prices = self._round(sized, A), A @ sized.multipliers
        # Step 3: clusters that are still too small.
        self._fill(labels)
        message = "Lower bound from a dual, whose shares of weighted rows are rounded."
        return AssignmentSolution(labels, prices, lower_bound, message, dual)

    def _lower_bound(self, dual: DualSolution) -> float:
        """Lower bound on the cost for a row beyond the shares, and `min_size`."""
        # The dual is for half a row beyond the shares, with the right-hand side 1. For
        # a whole row that is 2, and the same multipliers prove a bound.
        values = self.best_columns(dual.prices)[1]
        n_shares = self.bounds.group_constraints.shape[1]
        shares, sizes = dual.multipliers[:n_shares], dual.multipliers[n_shares:]
        bound = self.row_weights @ values - 2 * shares.sum()
        return float(bound + self.min_size * sizes.sum())

    def _maximise(self, min_size: float = 0.0) -> tuple[DualSolution, Array]:
        """Return the dual, and its constraints by group; with sizes if asked."""
        # Half a row to spare instead of one: b . N <= 1/2 is 2 b . N <= 1. A size n is
        # bounded by -n <= -min_size; the counts of each attribute sum to n.
        bounds, start = self.bounds, self.start if min_size == 0 else None
        A = 2 * bounds.group_constraints
        limits = np.ones((A.shape[1], 1))
        if min_size > 0:
            A = np.column_stack([A, np.full(len(A), -1 / bounds.n_attributes)])
            limits = np.append(limits, [[-min_size]], axis=0)
        A_kinds, weights = bounds.members.T @ A, self.row_weights
        dual = maximise_dual(
            self.C, self.offsets, A_kinds, start, weights, self.P, limits
        )
        return dual, A

    def _round(self, dual: DualSolution, A: Array) -> Ints:
        """Round the shares of rows in clusters."""
        bounds, P = self.bounds, self.P
        groups = np.nonzero(bounds.members.T)[1].reshape(-1, bounds.n_attributes)
        # Groups of each row. Mixed rows are of all groups, each by its probability.
        groups = groups[self.kinds] if P is None else np.tile(groups.T, (len(P), 1))
        # The heaviest rows come first, so that light ones even out the sums.
        order = np.argsort(-self.row_weights, kind="stable")
        if P is not None:  # rows of no group pay no prices
            order = order[P[order].any(axis=1)]
        labels: Ints = self.C.argmin(axis=1)
        prices, temperature = A @ dual.interior, dual.temperature
        weights = self.row_weights
        round_minima(self.C, weights, groups, prices, temperature, order, labels, P)
        return labels

    def _fill(self, labels: Ints) -> None:
        """Bring the cheapest rows to clusters that are too small."""
        if self.min_size > 1:  # first a row for each, which can always be had
            replace(self, min_size=1)._fill(labels)
        sizes, rows = self.sizes(labels), np.arange(len(labels))
        weights = self.row_weights if self.min_size > 1 else np.ones(len(rows))
        for j in np.flatnonzero(sizes < self.min_size):
            costs = self.C[:, j] - self.C[rows, labels]
            for i in np.argsort(costs, kind="stable"):
                if sizes[j] >= self.min_size:
                    break
                if sizes[labels[i]] - weights[i] >= self.min_size:
                    sizes[labels[i]] -= weights[i]
                    sizes[j] += weights[i]
                    labels[i] = j
