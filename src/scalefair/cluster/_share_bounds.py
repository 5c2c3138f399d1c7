"""Bounds on shares, and tables (groups x clusters) of whole counts that meet them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import LinearConstraint, milp

from scalefair._groups import combinations

Array = NDArray[np.float64]

# A bound that is missed by less than this part of a row is met.
_ROUNDING = 1e-9
# Nodes of a search for a table: counted, not timed, for repeatability.
_NODES = 2000
# Sizes of a cluster that are tried together.
_SIZES = 4096
# HiGHS may miss a bound by 1e-6: what to ask for, first and then.
MARGINS = (0.0, 2e-6)


def joint_cells(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], Any]:
    """Find the combinations of attributes that occur, c x a, and each row's."""
    row, cells = combinations([*codes.T], (codes.max(axis=0) + 1).tolist())
    return codes[row], cells


@dataclass(frozen=True)
class ShareBounds:
    """``(1 - t) z_s <= n_sl / n_l <= (1 + t) z_s``: tolerance t, shares z.

    A table counts the rows of each kind in each cluster. Kinds are the groups; with
    several attributes combinations, and the bounds are on sums of their rows.
    """

    sizes: NDArray[np.int64]  # (c,): rows of each kind
    k: int  # clusters
    tolerance: float
    members: NDArray[np.int64] | None = None  # (c, a): groups of each kind

    @cached_property
    def of_groups(self) -> sparse.csr_array:
        """Kinds in each group, h x c, one attribute after the other."""
        if self.members is None:
            return sparse.eye_array(self.sizes.size, dtype=np.int64, format="csr")
        groups = self.members + self._starts
        c, a = groups.shape
        pairs = groups.ravel(), np.repeat(np.arange(c), a)
        return sparse.csr_array((np.ones(c * a, np.int64), pairs))

    @cached_property
    def group_sizes(self) -> NDArray[np.int64]:
        """Rows of each group."""
        return np.asarray(self.of_groups @ self.sizes)

    @property
    def _starts(self) -> NDArray[np.int64]:
        """First group of each attribute."""
        if self.members is None:
            return np.zeros(1, np.int64)
        n_groups = self.members.max(axis=0) + 1
        starts: NDArray[np.int64] = np.cumsum(n_groups) - n_groups
        return starts

    @property
    def lower(self) -> Array:
        """Least share of each group in a cluster."""
        shares: Array = self.group_sizes / self.sizes.sum()
        return max(1 - self.tolerance, 0.0) * shares

    @property
    def upper(self) -> Array:
        """Largest share of each group in a cluster."""
        shares = self.group_sizes / self.sizes.sum()
        return np.asarray(np.minimum((1 + self.tolerance) * shares, 1.0))

    @cached_property
    def smallest(self) -> int:
        """Fewest rows of a cluster, at most n // k, that meet the bounds; 0: none."""
        most = int(self.sizes.sum()) // self.k
        for start in range(1, most + 1, _SIZES):
            size = np.arange(start, min(start + _SIZES, most + 1))
            possible = self.whole(size)[2]
            if possible.any():
                return int(size[possible.argmax()])
        return 0

    def whole(self, size: NDArray[np.int64]) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Fewest and most rows of each group in clusters by size; which can be."""
        expected = self.group_sizes[:, None] * (size / self.sizes.sum())
        low = np.ceil(np.maximum(1 - self.tolerance, 0) * expected - _ROUNDING)
        high = np.minimum(np.floor((1 + self.tolerance) * expected + _ROUNDING), size)
        possible = (low <= high).all(axis=0)
        for start, stop in pairwise([*self._starts.tolist(), len(low)]):
            least, most = low[start:stop].sum(axis=0), high[start:stop].sum(axis=0)
            possible &= (least <= size) & (size <= most)
        return low, high, possible

    def violation(self, table: NDArray[np.int64]) -> float:
        """Largest relative excess over a bound; 0.0 when all bounds hold."""
        expected = self.group_sizes[:, None] * (table.sum(axis=0) / self.sizes.sum())
        excess = np.abs(self.of_groups @ table - expected) - self.tolerance * expected
        excess[excess <= _ROUNDING] = 0.0
        return float(np.max(excess / np.maximum(expected, np.finfo(float).tiny)))

    def met_by(self, table: NDArray[np.int64]) -> bool:
        """Whether a table meets the bounds and leaves no cluster empty."""
        return bool((table.sum(axis=0) > 0).all()) and self.violation(table) == 0

    def rounded(self, x: Array | None) -> NDArray[np.int64] | None:
        """Table of the leading variables, rounded; None if it does not meet a bound."""
        if x is None:
            return None
        table = np.rint(x[: self.sizes.size * self.k]).astype(np.int64)
        table = table.reshape(-1, self.k)
        sound = (table >= 0).all() and (table.sum(axis=1) == self.sizes).all()
        return table if sound and self.met_by(table) else None

    def constraints(
        self, n_more: int = 0, margin: float = 0.0
    ) -> tuple[LinearConstraint, LinearConstraint]:
        """Return ``A N <= b`` of shares and sizes, then sums of kinds, N by rows."""
        # `n_more` variables follow the table in the program.
        (h, c), k = self.of_groups.shape, self.k
        columns = sparse.hstack([sparse.eye_array(k)] * c)
        sums = sparse.vstack([columns] * h)
        table = sparse.kron(self.of_groups, sparse.eye_array(k))
        high = sparse.diags_array(np.repeat(self.upper, k)) @ sums
        low = sparse.diags_array(np.repeat(self.lower, k)) @ sums
        A = sparse.vstack([table - high, low - table, -columns])
        b = np.concatenate([np.zeros(2 * h * k), np.full(k, -float(self.smallest))])
        of_kind = sparse.kron(sparse.eye_array(c), np.ones((1, k)))
        A, of_kind = (
            sparse.hstack([B, sparse.csr_array((B.shape[0], n_more))], format="csr")
            for B in (A, of_kind)
        )
        return (
            LinearConstraint(A, -np.inf, b - margin),
            LinearConstraint(of_kind, self.sizes, self.sizes),
        )

    def any_table(self) -> NDArray[np.int64] | None:
        """Table that meets the bounds; None: none found."""
        if self.smallest == 0:
            return None
        hk = self.sizes.size * self.k
        if self.members is not None:
            # One after the other, as cards are dealt.
            dealt = np.arange(self.sizes.sum()) % self.k
            kinds = np.repeat(np.arange(self.sizes.size), self.sizes)
            dealt = np.bincount(kinds * self.k + dealt, minlength=hk)
            if (found := self.rounded(dealt.astype(float))) is not None:
                return found
        for margin in MARGINS:
            shares, groups = self.constraints(margin=margin)
            columns = -shares.A[-self.k :]
            # The clusters are alike: largest first.
            A = sparse.vstack([shares.A, columns[1:] - columns[:-1]], format="csr")
            b = np.concatenate([shares.ub, np.full(self.k - 1, -margin)])
            result = milp(
                np.zeros(hk),
                integrality=np.ones(hk),
                constraints=[LinearConstraint(A, -np.inf, b), groups],
                options={"node_limit": _NODES},
            )
            table = self.rounded(result.x)
            if table is not None:
                return table
        return None

    def nearest_feasible_tolerance(self) -> float:
        """Tolerance of four digits, above this one, at which a table is found."""

        def found(t: float) -> bool:
            return replace(self, tolerance=t).any_table() is not None

        low = self.tolerance
        # At this one a cluster may hold a single group.
        single = float(self.sizes.sum() / self.group_sizes.min()) - 1
        high = max(1.0, math.ceil(1e4 * single) / 1e4)
        for guess in (0.1, 0.2, 0.5, 1.0):
            if low < guess < high:
                low, high = (low, guess) if found(guess) else (guess, high)
        while high - low > 1.5e-4:
            middle = math.ceil(1e4 * (low + high) / 2) / 1e4
            if middle >= high:
                break
            low, high = (low, middle) if found(middle) else (middle, high)
        return high


def dearest_counts(
    prices: Array, low: Array, high: Array, total: Array | float
) -> Array:
    """Find the counts of groups (first axis) that cost most, of given totals."""
    counts = low.copy()
    left = total - counts.sum(axis=0)
    for s in np.argsort(-prices, kind="stable"):
        more = np.minimum(high[s] - low[s], left)
        counts[s] += more
        left = left - more
    return counts
