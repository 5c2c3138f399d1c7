"""Bounds on shares up to one person, and whole counts of rows that meet them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import Bounds, LinearConstraint, milp

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

# A count that is beyond its bound by less than this part of a row meets it.
ROUNDING = 1e-9
# Clusters are tiny below this fraction of the average size.
MIN_SIZE_FRACTION = 0.1
# Nodes of an integer program for counts; the relative gap that ends it.
MAX_MILP_NODES, MILP_GAP = 100, 1e-3
# Constraints are met to 1e-6 only: less than one row is less by more than that.
MILP_MARGIN = 1e-5


def _outer(shares: Array, sizes: Ints) -> Array:
    products: Array = shares.reshape(-1, *[1] * sizes.ndim) * sizes
    return products


def smallest_size(n: int, k: int) -> int:
    """Size below which a cluster of n nodes in k clusters is tiny."""
    return max(1, math.ceil(MIN_SIZE_FRACTION * n / k))


def check_tolerance(tolerance: Any) -> None:
    """Raise a ValueError unless a tolerance is a finite number >= 0."""
    number = isinstance(tolerance, Real) and math.isfinite(tolerance)
    if not (number and tolerance >= 0):
        raise ValueError(f"tolerance must be a finite number >= 0, got {tolerance!r}.")


@dataclass(frozen=True)
class ShareBounds:
    """``floor((1 - t) z_s n_l) <= N_sl <= ceil((1 + t) z_s n_l)``: the bounds.

    Kinds of rows are the groups; with several attributes combinations, and the bounds
    are on sums of their rows. With a ratio ``ratio * N_sl <= N_tl``, too, for any two
    groups of an attribute; of two groups in all that is a bound on shares.
    """

    sizes: Ints  # (c,): rows of each kind
    members: Any  # (h, c), sparse, 0 or 1: kinds in each group, attributes stacked
    tolerance: float
    ratio: float
    pairs: Array  # (p, h): ``pairs @ N_l <= 0``, the ratios of more than two groups

    @classmethod
    def of(
        cls, groups: Ints, sizes: Ints, tolerance: float, ratio: float = 0.0
    ) -> ShareBounds:
        """Take the groups (c, n_attributes) of each kind, and how many rows it has."""
        starts = np.append(0, np.cumsum(groups.max(axis=0) + 1))
        at = (groups + starts[:-1]).ravel()
        kinds = np.repeat(np.arange(len(groups)), groups.shape[1])
        shape = (starts[-1], len(groups))
        members = sparse.csr_array((np.ones(at.size, np.int64), (at, kinds)), shape)
        pairs = np.zeros((0, starts[-1]))
        if ratio > 0 and starts[-1] > 2:
            of_attributes = []
            for h in np.diff(starts):
                s, t = np.nonzero(~np.eye(h, dtype=bool))
                of_attributes.append(ratio * np.eye(h)[s] - np.eye(h)[t])
            pairs = block_diag(*of_attributes)
        return cls(sizes, members, tolerance, ratio, pairs)

    @property
    def is_box(self) -> bool:
        """Whether there are bounds on the count of each kind, and no others."""
        return self.n_attributes == 1 and len(self.pairs) == 0

    @property
    def n_attributes(self) -> int:
        """Number of attributes, each of whose groups holds every row once."""
        return int(self.members.nnz) // len(self.sizes)

    @cached_property
    def lower(self) -> Array:
        """Least share of each group in a cluster."""
        return np.maximum(max(1 - self.tolerance, 0.0) * self._shares, self._least)

    @cached_property
    def upper(self) -> Array:
        """Largest share of each group in a cluster."""
        return np.minimum((1 + self.tolerance) * self._shares, 1.0 - self._least)

    @property
    def _least(self) -> float:
        """Least share that the ratio leaves to one of two groups, 0 for more."""
        is_of_two = self.members.shape[0] == 2
        return self.ratio / (1 + self.ratio) if is_of_two else 0.0

    @property
    def _shares(self) -> Array:
        shares: Array = (self.members @ self.sizes) / self.sizes.sum()
        return shares

    def counts(self, size: Ints) -> tuple[Ints, Ints]:
        """Fewest and most rows of each group, (h, ...), in clusters by their sizes."""
        low = np.floor(_outer(self.lower, size) + ROUNDING)
        high = np.ceil(_outer(self.upper, size) - ROUNDING)
        if self._least > 0:  # rounded inwards where the expected count allows it
            inwards = np.ceil(self._least * size - ROUNDING)
            is_possible = inwards <= _outer(self._shares, size) + ROUNDING
            least = np.where(is_possible, inwards, np.floor(self._least * size))
            low, high = np.maximum(low, least), np.minimum(high, size - least[::-1])
        return low.astype(np.int64), np.minimum(high.astype(np.int64), size)

    def excess(self, counts: Ints) -> float:
        """Most rows by which the counts (c, k) of kinds are beyond a bound."""
        low, high = self.counts(counts.sum(axis=0))
        of_groups = self.members @ counts
        of_pairs = np.ceil(self.pairs @ of_groups - MILP_MARGIN).max(initial=0)
        beyond = max((low - of_groups).max(), (of_groups - high).max())
        return float(max(0, of_pairs, beyond))

    def rounded(self, counts: Ints) -> NDArray[np.bool_]:
        """Where counts are within the bounds, but the share beyond its limits."""
        shares = self.members @ counts / counts.sum(axis=0)
        low, high = self.lower[:, None] - ROUNDING, self.upper[:, None] + ROUNDING
        result: NDArray[np.bool_] = (shares < low) | (shares > high)
        return result

    @property
    def of_groups(self) -> Array:
        """Columns b, (h, 2 h + p), of the relaxation for groups: ``b . n_l <= 1``."""
        unit, m = np.eye(len(self.lower)), self.n_attributes
        shares = np.hstack([unit - self.upper / m, self.lower / m - unit])
        # Beside ratios those that are no bounds, shares of 0 and 1, are left out.
        is_bound = np.append(self.upper < 1, self.lower > 0) | (len(self.pairs) == 0)
        # One row of the larger group to spare: of a rare one it would be worth many.
        pairs = self.pairs.T / (self.ratio or 1.0)
        return np.hstack([shares[:, is_bound], pairs])

    @property
    def constraints(self) -> Array:
        """Columns a, (c, 2 h + p), of the same for the kinds: ``a . N_l <= 1``."""
        columns: Array = self.members.T @ self.of_groups
        return columns

    def best_mix(self, gains: Array) -> tuple[float, float]:
        """Most that a row gains in a mix within the shares; what rounding may add."""
        # Sum of |gains - theta|, theta the multiplier of the sum: a count that may be
        # one larger or smaller adds so much at most.
        mix, theta = self.lower.copy(), 0.0
        for s in np.argsort(-gains, kind="stable"):
            mix[s] += min(self.upper[s] - mix[s], 1.0 - mix.sum())
            theta = float(gains[s])
            if mix.sum() >= 1.0 - ROUNDING:
                break
        return float(mix @ gains), float(np.abs(gains - theta).sum())


def round_sizes(sizes: Array, n: int, min_size: int) -> Ints:
    """Whole numbers of sum n, none below a least one, near the given ones."""
    whole = np.maximum(np.floor(sizes + ROUNDING).astype(np.int64), min_size)
    order = np.argsort(whole - sizes, kind="stable")
    for cluster in itertools.cycle(order):
        missing = n - int(whole.sum())
        if missing == 0:
            return whole
        if missing > 0:  # the largest remainders are rounded up
            whole[cluster] += 1
        else:  # the largest has rows to spare
            largest = whole.argmax()
            whole[largest] -= min(-missing, whole[largest] - min_size)
    raise AssertionError  # there are clusters


def dearest_counts(
    prices: Array, low: Ints, high: Ints, sizes: Ints, near: NDArray[Any]
) -> Ints:
    """Maximise ``prices * N`` over counts N (h, k) within bounds, of sums `sizes`.

    Of equal prices those near given counts.
    """
    counts, left = low.copy(), sizes - low.sum(axis=0)
    order, columns = np.argsort(-prices, axis=0, kind="stable"), np.arange(len(sizes))
    for s in order:
        more = np.minimum(high[s, columns] - low[s, columns], left)
        counts[s, columns] += more
        left = left - more
    # The price at the margin: of a group that could have more, and less, or the last.
    is_taken = counts > low
    margin = np.where(is_taken, prices, np.inf).min(axis=0)
    tied = prices == margin
    if (tied.sum(axis=0) > 1).any():
        total = np.where(tied, counts, 0).sum(axis=0)
        wish = np.clip(near, low, high).astype(np.int64)
        left = total - np.where(tied, wish, 0).sum(axis=0)
        counts = np.where(tied, wish, counts)
        for s in range(len(prices)):
            more = np.clip(left, low[s] - counts[s], high[s] - counts[s]) * tied[s]
            counts[s] += more
            left = left - more
    return counts


def round_counts(bounds: ShareBounds, counts: Array, sizes: Ints) -> Ints:
    """Whole counts (c, k) near others, of given sums, for attributes or ratios.

    An integer program; where no counts meet the bounds, those that miss them by the
    fewest rows.
    """
    (c, k), m = counts.shape, counts.size
    kinds, clusters = sparse.eye_array(c), sparse.eye_array(k)
    of_groups = sparse.kron(bounds.members, clusters, format="csr")
    of_pairs = sparse.kron(bounds.pairs @ bounds.members, clusters, format="csr")
    sums = sparse.vstack(
        [sparse.kron(kinds, np.ones((1, k))), sparse.kron(np.ones((1, c)), clusters)]
    )
    totals = np.concatenate([bounds.sizes, sizes])
    least, most = (side.ravel() for side in bounds.counts(sizes))
    # Variables: counts, by how much they are above and below the given ones, and the
    # number of rows by which bounds are missed.
    # A row of the smaller group is worth 1 / ratio of the larger one.
    missed_cost = 4.0 * m / (bounds.ratio or 1.0)
    unit, none = sparse.eye_array(m), sparse.csr_array((sums.shape[0], 2 * m + 1))
    missed = sparse.csr_array(np.ones((of_groups.shape[0], 1)))
    wide = sparse.hstack([of_groups, sparse.csr_array((of_groups.shape[0], 2 * m))])
    deviation = sparse.hstack([unit, -1 * unit, unit, sparse.csr_array((m, 1))])
    p = of_pairs.shape[0]
    ratios = [of_pairs, sparse.csr_array((p, 2 * m)), -1 * np.ones((p, 1))]
    result = milp(
        np.concatenate([np.zeros(m), np.ones(2 * m), [missed_cost]]),
        integrality=np.concatenate([np.ones(m), np.zeros(2 * m), [1]]),
        bounds=Bounds(0, np.inf),
        constraints=[
            LinearConstraint(sparse.hstack([wide, -1 * missed]), -np.inf, most),
            LinearConstraint(sparse.hstack([wide, missed]), least, np.inf),
            LinearConstraint(sparse.hstack(ratios), -np.inf, 0),
            LinearConstraint(sparse.hstack([sums, none]), totals, totals),
            LinearConstraint(deviation, counts.ravel(), counts.ravel()),
        ],
        options={"node_limit": MAX_MILP_NODES, "mip_rel_gap": 0.1},
    )
    if result.x is None:
        raise RuntimeError(f"The counts were not rounded: {result.message}")
    whole: Ints = np.rint(result.x[:m]).astype(np.int64).reshape(c, k)
    return whole


def cheapest_counts(
    C: Array, kinds: Ints, bounds: ShareBounds, min_size: int
) -> tuple[Ints, float]:
    """Return counts (c, k) of the cheapest labels of few rows, and a lower bound.

    An integer program over counts only: for given counts the rows are a transport
    problem, whose vertices are whole. Of no counts, and infinite, if none were found.
    """
    (n, k), A, c = C.shape, bounds.constraints, len(bounds.sizes)
    clusters, of_counts = sparse.eye_array(k), sparse.eye_array(c * k)
    of_pairs = sparse.kron(bounds.pairs @ bounds.members, clusters)
    is_kind = sparse.csr_array((np.ones(n), (kinds, np.arange(n))), shape=(c, n))

    def constraint(of_rows: Any, of_counts: Any, low: Any, high: Any) -> Any:
        return LinearConstraint(sparse.hstack([of_rows, of_counts]), low, high)

    def none(n_constraints: int, size: int) -> Any:
        return sparse.csr_array((n_constraints, size))

    unit = float(C.mean()) or 1.0  # the solver's tolerances are absolute
    result = milp(
        np.append(C / unit, np.zeros((c, k))),
        integrality=np.append(np.zeros(n * k), np.ones(c * k)),
        bounds=Bounds(0, np.inf),
        constraints=[
            # Every row is in one cluster, and counted there.
            constraint(
                sparse.kron(sparse.eye_array(n), np.ones((1, k))), none(n, c * k), 1, 1
            ),
            constraint(sparse.kron(is_kind, clusters), -1 * of_counts, 0, 0),
            # Less than one row beyond the shares is what rounding allows.
            constraint(
                none(A.shape[1] * k, n * k),
                sparse.kron(A.T, clusters),
                -np.inf,
                1 - MILP_MARGIN,
            ),
            constraint(
                none(k, n * k), sparse.kron(np.ones((1, c)), clusters), min_size, n
            ),
            constraint(none(of_pairs.shape[0], n * k), of_pairs, -np.inf, 0),
        ],
        options={"node_limit": MAX_MILP_NODES, "mip_rel_gap": MILP_GAP},
    )
    if result.x is None:
        return np.empty((0, k), np.int64), -np.inf
    counts: Ints = np.rint(result.x[n * k :]).astype(np.int64).reshape(c, k)
    return counts, unit * float(result.mip_dual_bound)
