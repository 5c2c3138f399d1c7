"""Integer tables of counts that meet the share bounds exactly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

__all__ = [
    "any_table",
    "checked_table",
    "count_violation",
    "nearest_feasible_tolerance",
    "nearest_table",
    "searched_table",
    "smallest_cluster",
    "table_constraints",
    "whole_bounds",
]

# Counts are whole; the bounds on them are products in floating point. A bound that
# is missed by less than this part of a row is met.
_ROUNDING = 1e-9
# Nodes of a search for a table. Counted, not timed, so that results do not depend
# on the speed of the machine.
_NODES = 2000
_NEAR_NODES = 20
# Sizes of a cluster that are tried together, and around the one of the relaxation.
_SIZES = 4096
_AROUND = 24


def count_violation(
    table: NDArray[np.int64], sizes: NDArray[np.int64], tolerance: float
) -> float:
    """Largest relative excess over a share bound; 0.0 when all bounds hold."""
    expected = sizes[:, None] * (table.sum(axis=0) / sizes.sum())
    excess = np.abs(table - expected) - tolerance * expected
    excess[excess <= _ROUNDING] = 0.0
    return float(np.max(excess / np.maximum(expected, np.finfo(float).tiny)))


def smallest_cluster(
    sizes: NDArray[np.int64], n_clusters: int, tolerance: float
) -> int | None:
    """Fewest rows of a cluster that can meet the bounds; None: none is possible.

    With `n_clusters` clusters the smallest has at most ``n // n_clusters`` rows.
    """
    most = int(sizes.sum()) // n_clusters
    for start in range(1, most + 1, _SIZES):
        size = np.arange(start, min(start + _SIZES, most + 1))
        possible = whole_bounds(sizes, tolerance, size)[2]
        if possible.any():
            return int(size[possible.argmax()])
    return None


def whole_bounds(
    sizes: NDArray[np.int64], tolerance: float, size: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Fewest and most rows of each group in clusters of some sizes; which can be."""
    expected = sizes[:, None] * (size / sizes.sum())
    low = np.ceil(np.maximum(1 - tolerance, 0) * expected - _ROUNDING)
    high = np.minimum(np.floor((1 + tolerance) * expected + _ROUNDING), size)
    possible = (low <= high).all(axis=0)
    possible &= (low.sum(axis=0) <= size) & (size <= high.sum(axis=0))
    return low, high, possible


def table_constraints(
    sizes: NDArray[np.int64], n_clusters: int, tolerance: float, smallest: int
) -> tuple[sparse.csr_array, NDArray[np.float64], sparse.csr_array]:
    """Return A, b, G: ``A N <= b`` for shares and sizes, ``G N`` sums each group.

    N is the table of counts, groups by clusters, row by row.
    """
    h, k = sizes.size, n_clusters
    shares = sizes / sizes.sum()
    columns = sparse.hstack([sparse.eye_array(k)] * h)
    sums = sparse.vstack([columns] * h)
    table = sparse.eye_array(h * k)
    upper = np.minimum((1 + tolerance) * shares, 1.0)
    high = sparse.diags_array(np.repeat(upper, k)) @ sums
    low = sparse.diags_array(np.repeat(max(1 - tolerance, 0.0) * shares, k)) @ sums
    A = sparse.vstack([table - high, low - table, -columns], format="csr")
    b = np.concatenate([np.zeros(2 * h * k), np.full(k, -float(smallest))])
    of_group = sparse.kron(sparse.eye_array(h), np.ones((1, k)))
    return sparse.csr_array(A), b, sparse.csr_array(of_group)


def any_table(
    sizes: NDArray[np.int64], n_clusters: int, tolerance: float
) -> NDArray[np.int64] | None:
    """Integer counts, groups by clusters, that meet the bounds; None: none found."""
    smallest = smallest_cluster(sizes, n_clusters, tolerance)
    if smallest is None:
        return None
    k, hk = n_clusters, sizes.size * n_clusters
    A, b, of_group = table_constraints(sizes, k, tolerance, smallest)
    if k > 1:  # the clusters are alike: largest first
        columns = -A[2 * hk :]
        A = sparse.vstack([A, columns[1:] - columns[:-1]], format="csr")
        b = np.concatenate([b, np.zeros(k - 1)])
    for margin in (0.0, 2e-6):  # HiGHS may miss a bound by 1e-6
        result = milp(
            np.zeros(hk),
            integrality=np.ones(hk),
            constraints=[
                LinearConstraint(A, -np.inf, b - margin),
                LinearConstraint(of_group, sizes, sizes),
            ],
            options={"node_limit": _NODES},
        )
        table = checked_table(result.x, sizes, k, tolerance)
        if table is not None:
            return table
    return None


def nearest_table(
    sizes: NDArray[np.int64],
    tolerance: float,
    counts: NDArray[np.float64],
    prices: NDArray[np.float64],
    steepness: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """Integer counts near given ones, at small cost; None: none found.

    The cost is taken to first order: the prices say what it changes with a row more,
    `steepness` how much that itself changes. Each cluster gets the size that costs
    least by itself, and the largest what is left; with sizes given, the counts are a
    transport problem, whose vertices are whole.
    """
    h, k = counts.shape
    smallest = smallest_cluster(sizes, k, tolerance)
    if smallest is None:
        return None
    columns = np.array(
        [
            _cheapest_size(sizes, tolerance, smallest, *column)
            for column in zip(counts.T, prices.T, steepness.T, strict=True)
        ]
    )
    largest = columns.argmax()
    columns[largest] += sizes.sum() - columns.sum()
    low, high, possible = whole_bounds(sizes, tolerance, columns)
    if not possible.all() or columns[largest] < smallest:
        return None
    # Convex costs with their bends at whole numbers: a variable for each piece.
    floor, ceil = (np.clip(f(counts), low, high) for f in (np.floor, np.ceil))
    lengths = np.stack([floor - low, ceil - floor, high - ceil]).ravel()
    slopes = np.stack([-prices - steepness, -prices, steepness - prices]).ravel()
    of_group = sparse.kron(sparse.eye_array(h), np.ones((1, k)))
    of_column = sparse.kron(np.ones((1, h)), sparse.eye_array(k))
    result = linprog(
        slopes / (np.abs(slopes).max() or 1.0),
        A_eq=sparse.vstack(
            [sparse.hstack([part] * 3) for part in (of_group, of_column)], format="csr"
        ),
        b_eq=np.concatenate([sizes - low.sum(axis=1), columns - low.sum(axis=0)]),
        bounds=np.column_stack([np.zeros(lengths.size), lengths]),
        method="highs-ds",
    )
    if result.x is None:
        return None
    whole = low + result.x.reshape(3, h, k).sum(axis=0)
    return checked_table(whole.ravel(), sizes, k, tolerance)


def _cheapest_size(
    sizes: NDArray[np.int64],
    tolerance: float,
    smallest: int,
    counts: NDArray[np.float64],
    prices: NDArray[np.float64],
    steepness: NDArray[np.float64],
) -> int:
    """Size of a cluster, near the sum of the counts, whose whole counts cost least."""
    centre = round(float(counts.sum()))
    size = np.arange(max(smallest, centre - _AROUND), max(smallest, centre) + _AROUND)
    low, high, possible = whole_bounds(sizes, tolerance, size)
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


def searched_table(
    sizes: NDArray[np.int64],
    tolerance: float,
    radius: float,
    counts: NDArray[np.float64],
    prices: NDArray[np.float64],
    steepness: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """`nearest_table` by an integer program, which takes seconds, not milliseconds.

    No count is farther than `radius` from the given one.
    """
    h, k = counts.shape
    hk = h * k
    smallest = smallest_cluster(sizes, k, tolerance)
    if smallest is None:
        return None
    A, b, of_group = table_constraints(sizes, k, tolerance, smallest)
    # Deviations up and down are two more variables per count.
    A = sparse.hstack([A, sparse.csr_array((A.shape[0], 2 * hk))], format="csr")
    of_group = sparse.hstack([of_group, sparse.csr_array((h, 2 * hk))], format="csr")
    table = sparse.eye_array(hk)
    link = sparse.hstack([table, -table, table], format="csr")
    steep = np.maximum(steepness, 1e-6 * steepness.max() + 1e-300).ravel()
    integral = np.zeros(3 * hk)
    integral[:hk] = 1
    lower, upper = np.zeros(3 * hk), np.full(3 * hk, np.inf)
    lower[:hk] = np.maximum(np.floor(counts.ravel()) - radius, 0)
    upper[:hk] = np.ceil(counts.ravel()) + radius
    for margin in (0.0, 2e-6):
        result = milp(
            np.concatenate([-prices.ravel(), steep, steep]) / np.median(steep),
            integrality=integral,
            bounds=Bounds(lower, upper),
            constraints=[
                LinearConstraint(A, -np.inf, b - margin),
                LinearConstraint(of_group, sizes, sizes),
                LinearConstraint(link, counts.ravel(), counts.ravel()),
            ],
            options={"node_limit": _NEAR_NODES, "mip_rel_gap": 1e-2},
        )
        found = checked_table(result.x, sizes, k, tolerance)
        if found is not None:
            return found
    return None


def checked_table(
    x: NDArray[np.float64] | None,
    sizes: NDArray[np.int64],
    k: int,
    tolerance: float,
) -> NDArray[np.int64] | None:
    """Round the leading variables to a table; None if that does not meet a bound."""
    if x is None:
        return None
    table = np.rint(x[: sizes.size * k]).astype(np.int64).reshape(-1, k)
    sound = (table >= 0).all() and (table.sum(axis=0) >= 1).all()
    sound = sound and (table.sum(axis=1) == sizes).all()
    return table if sound and count_violation(table, sizes, tolerance) == 0 else None


def nearest_feasible_tolerance(
    sizes: NDArray[np.int64], n_clusters: int, tolerance: float
) -> float:
    """Tolerance of four digits, above the given one, at which a table is found.

    Bisection; tables are searched within a limit, so that a smaller one may exist.
    """

    def found(t: float) -> bool:
        return any_table(sizes, n_clusters, t) is not None

    low = tolerance
    # At this one a cluster may hold a single group.
    high = max(1.0, math.ceil(1e4 * (float(sizes.sum() / sizes.min()) - 1)) / 1e4)
    for guess in (0.1, 0.2, 0.5, 1.0):
        if low < guess < high:
            if found(guess):
                high = guess
            else:
                low = guess
    while high - low > 1.5e-4:
        middle = math.ceil(1e4 * (low + high) / 2) / 1e4
        if middle >= high:
            break
        if found(middle):
            high = middle
        else:
            low = middle
    return high
