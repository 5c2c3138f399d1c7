"""Bounds on shares up to one person, and whole counts of rows that meet them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import Bounds, LinearConstraint, milp

from scalefair._membership import Cells
from scalefair._rounding import ROUNDING

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# An integer program meets its constraints to 1e-6 rows: "less than one row" is 1 row
# less this margin.
MILP_MARGIN = 1e-5


def smallest_size(n: int, k: int) -> int:
    """Size below which a cluster of n nodes in k is tiny: a tenth of the average."""
    return max(1, math.ceil(0.1 * n / k))


def is_mixed(groups: NDArray[Any]) -> bool:
    """Whether groups of rows are probabilities (n, h), not codes (n, n_attributes)."""
    return groups.dtype.kind == "f"


def count_kinds(
    kinds: NDArray[Any],
    labels: NDArray[np.integer],
    n_clusters: int,
    weights: Array | None = None,
) -> NDArray[Any]:
    """Rows of each kind in each cluster, (c, n_clusters), or their weights.

    `kinds` are codes (n,), or say how much of each kind a row is, (n, c).
    """
    if is_mixed(kinds):
        parts = kinds.T if weights is None else kinds.T * weights
        return np.array([np.bincount(labels, part, n_clusters) for part in parts])
    cells, n_kinds = kinds * n_clusters + labels, int(kinds.max()) + 1
    counts = np.bincount(cells, weights, n_kinds * n_clusters)
    return counts.reshape(n_kinds, n_clusters)


@dataclass(frozen=True)
class ShareBounds:
    """``floor((1 - t) z_s n_l) <= N_sl <= ceil((1 + t) z_s n_l)``: the bounds.

    Kinds of rows are the groups; with several attributes they are the combinations of
    groups, and the bounds are on sums of their counts. With a ratio there are bounds
    ``ratio * N_sl <= N_tl`` as well, for any two groups of an attribute; of two groups
    in all that is a bound on shares. Weighted rows are not rounded: the weight of a
    group may be one row of average weight beyond its share. So it is for rows that are
    of groups with probabilities: they are mixes of kinds, which are the groups.
    """

    sizes: NDArray[Any]  # (c,): rows of each kind, whole, or their weights
    members: Ints  # (h, c), 0 or 1: kinds in each group, attributes stacked
    tolerance: float
    ratio: float
    pairs: Array  # (p, h): ``pairs @ N_l <= 0``, the ratios of more than two groups

    @classmethod
    def of(
        cls,
        groups: NDArray[Any],
        tolerance: float,
        ratio: float = 0.0,
        row_weights: Array | None = None,
    ) -> tuple[ShareBounds, Ints]:
        """Bounds for rows with `groups`, and their kinds; 0 for mixes of kinds.

        The groups are codes (n, n_attributes), or probabilities (n, h). `row_weights`
        have a mean of 1.
        """
        if is_mixed(groups):
            n_groups, kinds = [groups.shape[1]], np.zeros(len(groups), np.int64)
            members = np.eye(groups.shape[1], dtype=np.int64)
            sizes = groups.sum(axis=0) if row_weights is None else row_weights @ groups
        else:
            n_groups = (groups.max(axis=0) + 1).tolist()
            kinds, cells = Cells.number([*groups.T], n_groups)
            members = cells.members.toarray()
            sizes = np.bincount(kinds, row_weights)
        # A row (s, t) of `pairs` says ratio * N_s - N_t <= 0, for groups of the same
        # attribute; of two groups in all this is a bound on their shares.
        pairs = np.zeros((0, len(members)))
        if ratio > 0 and len(members) > 2:
            blocks = []
            for h in n_groups:
                s, t = np.nonzero(~np.eye(h, dtype=bool))
                blocks.append(ratio * np.eye(h)[s] - np.eye(h)[t])
            pairs = block_diag(*blocks)
        return cls(sizes, members, tolerance, ratio, pairs), kinds

    @property
    def is_box(self) -> bool:
        """Whether there are bounds on the count of each kind, and no others."""
        return self.n_attributes == 1 and len(self.pairs) == 0

    @property
    def n_attributes(self) -> int:
        """Number of attributes, each of whose groups holds every row once."""
        return int(self.members[:, 0].sum())

    @cached_property
    def lower(self) -> Array:
        """Smallest share of each group in a cluster."""
        return np.maximum(max(1 - self.tolerance, 0.0) * self._shares, self._min_share)

    @cached_property
    def upper(self) -> Array:
        """Largest share of each group in a cluster."""
        return np.minimum((1 + self.tolerance) * self._shares, 1.0 - self._min_share)

    @property
    def _min_share(self) -> float:
        """Share that the ratio guarantees to one of two groups, 0 for more groups."""
        is_of_two = self.members.shape[0] == 2
        return self.ratio / (1 + self.ratio) if is_of_two else 0.0

    @property
    def _shares(self) -> Array:
        shares: Array = (self.members @ self.sizes) / self.sizes.sum()
        return shares

    def counts(self, sizes: Ints) -> tuple[Ints, Ints]:
        """Fewest and most rows of each group, (h, k), in k clusters by their sizes."""
        low = np.floor(np.outer(self.lower, sizes) * (1 + ROUNDING))
        high = np.ceil(np.outer(self.upper, sizes) * (1 - ROUNDING))
        if self._min_share > 0:
            # The ratio is rounded inwards where the expected count allows it.
            minimum = self._min_share * sizes
            inwards = np.ceil(minimum * (1 - ROUNDING))
            expected = np.outer(self._shares, sizes) * (1 + ROUNDING)
            minimum = np.where(inwards <= expected, inwards, np.floor(minimum))
            low = np.maximum(low, minimum)
            high = np.minimum(high, sizes - minimum[::-1])
        return low.astype(np.int64), np.minimum(high.astype(np.int64), sizes)

    def excess(self, counts: NDArray[Any]) -> float:
        """Largest number of rows by which counts (c, k) of kinds are beyond a bound."""
        if counts.dtype.kind == "f":  # weights: beyond a row more than the shares
            excess = float((self.constraints.T @ counts).max()) - 1
            return excess if excess > ROUNDING * counts.sum() else 0.0
        low, high = self.counts(counts.sum(axis=0))
        group_counts = self.members @ counts
        pair_excess = np.ceil(self.pairs @ group_counts - MILP_MARGIN).max(initial=0)
        share_excess = max((low - group_counts).max(), (group_counts - high).max())
        return float(max(0, pair_excess, share_excess))

    def rounded(self, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Where the share of a group is beyond its limits, whatever the count."""
        group_counts, sizes = self.members @ counts, counts.sum(axis=0)
        low, high = self.lower[:, None] - ROUNDING, self.upper[:, None] + ROUNDING
        result: NDArray[np.bool_] = group_counts < low * sizes
        result |= group_counts > high * sizes
        return result

    @property
    def group_constraints(self) -> Array:
        """Columns b, (h, 2 h + p), of the relaxation for groups: ``b . n_l <= 1``."""
        # Of n_s <= upper_s n + 1 with n rows in the cluster, and n_s >= lower_s n - 1.
        # The counts of all groups sum to n for each of the m attributes.
        unit, m = np.eye(len(self.lower)), self.n_attributes
        shares = np.hstack([unit - self.upper / m, self.lower / m - unit])
        # Next to ratios, limits of 0 and 1 are left out: they bound nothing.
        is_bound = np.append(self.upper < 1, self.lower > 0) | (len(self.pairs) == 0)
        # A slack of 1 is one row of the larger group, `ratio` rows of the smaller one.
        pairs = self.pairs.T / (self.ratio or 1.0)
        return np.hstack([shares[:, is_bound], pairs])

    @property
    def constraints(self) -> Array:
        """Columns a, (c, 2 h + p), of the same for the kinds: ``a . N_l <= 1``."""
        columns: Array = self.members.T @ self.group_constraints
        return columns

    def best_mix(self, gains: Array) -> tuple[float, float]:
        """Largest mean gain of a mix within the shares, and what rounding may add."""
        # A linear program with bounds and a sum of 1: the largest gains first. Rounding
        # a count up or down adds at most |gain - theta|, theta the multiplier of the
        # sum: the gain at which the mix is full.
        mix, theta = self.lower.copy(), 0.0
        for s in np.argsort(-gains, kind="stable"):
            mix[s] += min(self.upper[s] - mix[s], 1.0 - mix.sum())
            theta = float(gains[s])
            if mix.sum() >= 1.0 - ROUNDING:
                break
        return float(mix @ gains), float(np.abs(gains - theta).sum())


def round_sizes(sizes: Array, n: int, min_size: int) -> Ints:
    """Whole numbers of sum n, none below `min_size`, near `sizes`."""
    rounded = np.maximum(np.floor(sizes + ROUNDING).astype(np.int64), min_size)
    # The largest remainders are rounded up ...
    by_remainder = np.argsort(rounded - sizes, kind="stable")
    n_rounds, n_more = divmod(max(n - int(rounded.sum()), 0), len(sizes))
    rounded += n_rounds
    rounded[by_remainder[:n_more]] += 1
    # ... and an excess is taken from the largest clusters.
    while (excess := int(rounded.sum()) - n) > 0:
        largest = rounded.argmax()
        rounded[largest] -= min(excess, rounded[largest] - min_size)
    return rounded


def max_cost_counts(
    prices: Array, low: Ints, high: Ints, sizes: Ints, preferred: Ints
) -> Ints:
    """Maximise ``prices * N`` over counts N (h, k) within bounds, of sums `sizes`.

    Among equal prices the counts are near the preferred ones.
    """
    # Step 1: the lower bounds, then up to the upper ones from the dearest group on.
    counts, n_remaining = low.copy(), sizes - low.sum(axis=0)
    order, columns = np.argsort(-prices, axis=0, kind="stable"), np.arange(len(sizes))
    for s in order:
        more = np.minimum(high[s, columns] - low[s, columns], n_remaining)
        counts[s, columns] += more
        n_remaining = n_remaining - more
    # Step 2: groups at the marginal price, that of the last row, may share its rows.
    marginal = np.where(counts > low, prices, np.inf).min(axis=0)
    tied = prices == marginal
    if (tied.sum(axis=0) > 1).any():
        total = np.where(tied, counts, 0).sum(axis=0)
        preferred = np.clip(preferred, low, high)
        n_remaining = total - np.where(tied, preferred, 0).sum(axis=0)
        counts = np.where(tied, preferred, counts)
        for s in range(len(prices)):
            more = np.clip(n_remaining, low[s] - counts[s], high[s] - counts[s])
            counts[s] += more * tied[s]
            n_remaining = n_remaining - more * tied[s]
    return counts


def round_counts(bounds: ShareBounds, counts: Array, sizes: Ints) -> Ints:
    """Round counts (c, k) to fixed sums, with several attributes or ratios.

    An integer program; where no counts meet the bounds, those that miss them by the
    fewest rows. Its variables are the counts, by how much they are above and below
    `counts`, and the largest number of rows by which a bound is missed.
    """
    # The blocks of variables have m, m, m and 1 columns. The costs are the sum of the
    # changes, and the miss.
    (c, k), m = counts.shape, counts.size
    clusters, unit = sparse.eye_array(k), sparse.eye_array(m)
    group_sums = sparse.kron(bounds.members, clusters)
    pair_sums = sparse.kron(bounds.pairs @ bounds.members, clusters)
    kind_sums = sparse.kron(sparse.eye_array(c), np.ones((1, k)))
    cluster_sums = sparse.kron(np.ones((1, c)), clusters)
    slack = np.ones((group_sums.shape[0], 1))
    low, high = (bound.ravel() for bound in bounds.counts(sizes))
    # A row of the smaller group counts as much as 1 / ratio of the larger one.
    slack_cost = 4.0 * m / (bounds.ratio or 1.0)
    result = _solve_milp(
        np.concatenate([np.zeros(m), np.ones(2 * m), [slack_cost]]),
        np.concatenate([np.ones(m), np.zeros(2 * m), [1]]),
        [
            # Counts of groups are within their bounds, and ratios hold, but for the
            # miss.
            ([group_sums, None, None, -1 * slack], -np.inf, high),
            ([group_sums, None, None, slack], low, np.inf),
            ([pair_sums, None, None, -np.ones((pair_sums.shape[0], 1))], -np.inf, 0),
            # All rows of each kind are somewhere; clusters have their sizes.
            ([kind_sums], bounds.sizes, bounds.sizes),
            ([cluster_sums], sizes, sizes),
            # The counts, less what is above, plus what is below, are those to round.
            ([unit, -1 * unit, unit], counts.ravel(), counts.ravel()),
        ],
        gap=0.1,
    )
    if result.x is None:
        raise RuntimeError(f"The counts were not rounded: {result.message}")
    rounded: Ints = np.rint(result.x[:m]).astype(np.int64).reshape(c, k)
    return rounded


def cheapest_counts(
    C: Array, kinds: Ints, bounds: ShareBounds, min_size: int, is_met: bool
) -> tuple[Ints, float]:
    """Return counts (c, k) of the cheapest labels of few rows, and a lower bound.

    An integer program over counts only: for given counts the rows are a transport
    problem, whose vertices are whole. Of no counts, and -infinity, if none were found.
    `is_met` says whether labels that meet the bounds are known: the search is then
    short, as a longer one took three times as long for 0.2 % of the cost.
    """
    (n, k), A, c = C.shape, bounds.constraints, len(bounds.sizes)
    clusters = sparse.eye_array(k)
    row_sums = sparse.kron(sparse.eye_array(n), np.ones((1, k)))
    is_kind = sparse.csr_array((np.ones(n), (kinds, np.arange(n))), shape=(c, n))
    cluster_sums = sparse.kron(np.ones((1, c)), clusters)
    pair_sums = sparse.kron(bounds.pairs @ bounds.members, clusters)
    unit = float(C.mean()) or 1.0  # the solver's tolerances are absolute
    result = _solve_milp(
        np.append(C / unit, np.zeros((c, k))),
        np.append(np.zeros(n * k), np.ones(c * k)),
        [
            # Every row is in one cluster, and counted there.
            ([row_sums, None], 1, 1),
            ([sparse.kron(is_kind, clusters), -1 * sparse.eye_array(c * k)], 0, 0),
            # Less than one row beyond the shares is what rounding allows.
            ([None, sparse.kron(A.T, clusters)], -np.inf, 1 - MILP_MARGIN),
            ([None, cluster_sums], min_size, n),
            ([None, pair_sums], -np.inf, 0),
        ],
        gap=1e-3,
        node_limit=10 if is_met else 100,
    )
    if result.x is None:
        return np.empty((0, k), np.int64), -np.inf
    counts: Ints = np.rint(result.x[n * k :]).astype(np.int64).reshape(c, k)
    return counts, unit * float(result.mip_dual_bound)


def _solve_milp(
    costs: Array,
    integrality: Array,
    constraints: list[Any],
    gap: float,
    node_limit: int = 100,
) -> Any:
    """Minimise costs of variables >= 0 to a relative gap.

    Branch and bound of 100 nodes takes some seconds at most.

    A constraint is a list of blocks of columns, of which None, or one that is missing,
    is zero, with a lower and an upper bound.
    """
    n_blocks = max(len(blocks) for blocks, _, _ in constraints)
    rows, low, high = [], [], []
    for blocks, lower, upper in constraints:
        rows.append([*blocks, *[None] * (n_blocks - len(blocks))])
        height = next(block.shape[0] for block in blocks if block is not None)
        low.append(np.broadcast_to(lower, height))
        high.append(np.broadcast_to(upper, height))
    matrix = sparse.block_array(rows, format="csc")
    return milp(
        costs,
        integrality=integrality,
        bounds=Bounds(0, np.inf),
        constraints=LinearConstraint(matrix, np.concatenate(low), np.concatenate(high)),
        options={"node_limit": node_limit, "mip_rel_gap": gap},
    )
