"""Assignment of rows to centres under bounds on the shares of groups."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._entries import check_array
from scalefair._groups import encode_groups
from scalefair.cluster._assignment_counts import CountSearch
from scalefair.cluster._assignment_prices import OptimalPrices, optimal_prices
from scalefair.cluster._assignment_problem import AssignmentProblem, squared_distances
from scalefair.cluster._assignment_table import (
    any_table,
    count_violation,
    nearest_feasible_tolerance,
    smallest_cluster,
)

__all__ = ["FairAssignment", "fair_assignment"]


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
        No assignment that meets the bounds costs less: value of a feasible dual
        solution, up to the rounding of sums over all rows.
    max_violation : float
        Largest amount by which the share of a group in a cluster misses its bound,
        relative to the share of the group in the population. 0.0: all bounds hold.
    n_moved : int
        Rows that are not at a nearest centre.
    message : str
        How the assignment was found.
    """

    labels: NDArray[np.int32]
    cost: float
    nearest_cost: float
    lower_bound: float
    max_violation: float
    n_moved: int
    message: str

    @property
    def gap(self) -> float:
        """Part of the cost that is not proved to be necessary, between 0 and 1."""
        return 1 - self.lower_bound / self.cost if self.cost > 0 else 0.0


def fair_assignment(
    X: ArrayLike,
    centers: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    tolerance: float = 0.1,
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
        Centres of the clusters, ``k <= n``; usually means of the clusters of
        k-means.
    sensitive_features : array-like of shape (n,)
        Group of each row: numbers, strings or booleans, none missing.
    tolerance : float, default=0.1
        Largest relative deviation of a share, at least 0. Relative, so that one
        number suits small and large groups: 0.1 lets a group of 30 % have between
        27 % and 33 % of a cluster. 0 asks for equal shares, which needs cluster
        sizes that divide; from 1 on a group may be absent.

    Returns
    -------
    FairAssignment
        Labels, cost, lower bound, violation and the number of moved rows.

    Raises
    ------
    ValueError
        If an argument does not fit, or the distances overflow; or if counts, being
        whole, cannot meet the bounds. The message then names a tolerance at which
        they can.

    Notes
    -----
    *Lower bound.* With prices :math:`p_{sl}` each row takes the centre that
    minimises distance plus price. If no fair mix of rows has a positive price in any
    cluster, the priced distances sum to a lower bound. Optimal prices solve a linear
    program; it is solved by HiGHS for the rows near a change of centre only (rows of
    equal distances count as one), and confirmed over all n k pairs.

    *Whole rows.* Each cluster gets the size near the relaxed one at which whole counts
    that meet all bounds cost least by themselves, the largest cluster what is left;
    with sizes given, the counts are a transport problem. So is each group, given its
    counts: constraints are the incidence matrix of a bipartite graph, which is totally
    unimodular, so that some optimal solution is whole. Shortest augmenting paths find
    it: they move one row at a time, and keep prices at which every row is at a cheapest
    centre, which proves it optimal for these counts. Only the choice of the counts is
    not proved optimal. At given prices the whole counts of a cluster that cost most can
    be listed, and with them in place of fair mixes the lower bound knows that rows are
    whole; cutting planes raise it (Dantzig and Wolfe 1960). While the cost may exceed
    it by more than a thousandth, integer programs look for other counts.

    *Memory.* The squared distances are kept once: 8 n k bytes, 400 MB for a
    million rows and 50 centres; about 100 n bytes and a sorted copy of `X` besides.

    Examples
    --------
    >>> from scalefair.cluster import fair_assignment
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> groups = ["a", "a", "b", "b", "b", "a"]
    >>> result = fair_assignment(
    ...     X, [[0.0], [1.0]], sensitive_features=groups, tolerance=0.4
    ... )
    >>> result.labels
    array([0, 0, 0, 1, 1, 1], dtype=int32)
    >>> result = fair_assignment(
    ...     X, [[0.0], [1.0]], sensitive_features=groups, tolerance=0.2
    ... )
    >>> result.n_moved, result.max_violation
    (1, 0.0)
    """
    rows: Any = check_array(X, dtype=np.float64, input_name="X")
    means: Any = check_array(centers, dtype=np.float64, input_name="centers")
    n, k = rows.shape[0], means.shape[0]
    _check(rows, means, tolerance)
    tolerance = min(float(tolerance), float(n))  # from there on no share is bounded
    _, codes = encode_groups(sensitive_features, n)
    sizes = np.bincount(codes)
    order = np.argsort(codes, kind="stable")
    rows, codes = rows[order], codes[order]
    costs = squared_distances(rows, means)

    nearest = costs.argmin(axis=1)
    nearest_cost = _cost(rows, means, nearest)
    table = _count(nearest, codes, sizes.size, k)
    if (table.sum(axis=0) > 0).all() and count_violation(table, sizes, tolerance) == 0:
        lower_bound = nearest_cost
        labels = nearest
        message = "The nearest centres meet the bounds."
    else:
        smallest = smallest_cluster(sizes, k, tolerance)
        fallback = None if smallest is None else any_table(sizes, k, tolerance)
        if smallest is None or fallback is None:
            raise ValueError(_infeasible(sizes, k, tolerance))
        problem = _problem(costs, sizes, tolerance, smallest)
        search = CountSearch(problem, sizes, tolerance, nearest_cost)
        relaxed = optimal_prices(problem, enough=search.near)
        search.run(relaxed, fallback)
        assert search.labels is not None  # the fallback at least
        labels, lower_bound = search.labels, search.lower_bound
        table = _count(labels, codes, sizes.size, k)
        message = _message(relaxed)
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
        max_violation=count_violation(table, sizes, tolerance),
        n_moved=int(moved.sum()),
        message=message,
    )


def _check(
    X: NDArray[np.float64], centers: NDArray[np.float64], tolerance: float
) -> None:
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


def _problem(
    costs: NDArray[np.float64],
    sizes: NDArray[np.int64],
    tolerance: float,
    smallest: int,
) -> AssignmentProblem:
    shares = sizes / sizes.sum()
    return AssignmentProblem(
        costs=costs,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        weights=np.ones(sizes.size),
        lower=max(1 - tolerance, 0.0) * shares,
        upper=np.minimum((1 + tolerance) * shares, 1.0),
        smallest=smallest,
    )


def _count(
    labels: NDArray[np.int64], codes: NDArray[np.int64], h: int, k: int
) -> NDArray[np.int64]:
    return np.bincount(codes * k + labels, minlength=h * k).reshape(h, k)


def _cost(
    X: NDArray[np.float64], centers: NDArray[np.float64], labels: NDArray[np.int64]
) -> float:
    """Sum of squared distances, from differences: no cancellation."""
    total = 0.0
    for start in range(0, X.shape[0], 4096):
        rows = slice(start, start + 4096)
        difference = X[rows] - centers[labels[rows]]
        total += float(np.einsum("ij,ij->", difference, difference))
    return total


def _infeasible(sizes: NDArray[np.int64], k: int, tolerance: float) -> str:
    smallest = int(sizes.min())
    feasible = nearest_feasible_tolerance(sizes, k, tolerance)
    return (
        f"No whole counts of {sizes.size} groups in {k} clusters were found with all "
        f"shares within tolerance={tolerance:g} of the population's (the smallest "
        f"group has {smallest} rows, {smallest / k:.3g} per cluster). Use fewer "
        f"clusters or tolerance={feasible:.10g}, the nearest found to be possible."
    )


def _message(relaxed: OptimalPrices) -> str:
    if relaxed.optimal:
        return f"Linear program solved in {relaxed.n_rounds} rounds."
    return (
        f"Linear program not solved to the end in {relaxed.n_rounds} rounds: `gap` "
        "says how far the cost may be from the least."
    )
