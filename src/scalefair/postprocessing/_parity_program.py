"""The linear program that moves several histograms to nearly equal ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

__all__ = ["ParityPlan", "monotone_coupling", "solve_parity_program"]

# Mass that the solver leaves where there should be none.
_NO_MASS = 1e-9


class ParityPlan(NamedTuple):
    """A solution of the program.

    Attributes
    ----------
    moved : ndarray of shape (G, k)
        The distributions after the move.
    barycenter : ndarray of shape (k,)
        The distribution in their middle.
    cost : float
        Weighted mean of the squared distances, in squares of bins.
    """

    moved: NDArray[np.float64]
    barycenter: NDArray[np.float64]
    cost: float


def solve_parity_program(
    distributions: NDArray[np.float64],
    shares: NDArray[np.float64],
    tolerance: float = 0.0,
) -> ParityPlan:
    r"""Move distributions on equidistant bins so that they differ little, at low cost.

    .. math:: \min \sum_g p_g \sum_{ij} \gamma_{gij} (i-j)^2 \quad\text{with}\quad
              \gamma_g 1 = r_g, \;
              |\mathrm{cum}(\gamma_g^T 1 - q)| \le \alpha/2

    over couplings :math:`\gamma_g \ge 0` and the distribution q, the barycentre.

    Parameters
    ----------
    distributions : ndarray of shape (G, k)
        The r_g: nonnegative rows that add up to one.
    shares : ndarray of shape (G,)
        The weights p_g; they add up to one.
    tolerance : float, default=0.0
        Largest Kolmogorov-Smirnov distance between two of the moved distributions,
        alpha, 0 to 1. With 0 all are equal to the barycentre.

    Returns
    -------
    ParityPlan
        Moved distributions, barycentre and cost.

    Raises
    ------
    RuntimeError
        If HiGHS finds no optimum, although there is one.
    """
    n_groups, n_bins = distributions.shape
    n_couplings = n_groups * n_bins**2
    # In bins: the least is one, far above the solver's absolute tolerance.
    steps = np.arange(n_bins, dtype=np.float64)
    costs = (steps[:, None] - steps) ** 2
    rows, right = _constraints(distributions)
    objective = np.zeros(rows.shape[1])
    objective[:n_couplings] = np.kron(shares, costs.ravel())
    bounds = np.tile([0.0, np.inf], (len(objective), 1))
    # The deviations from the barycentre; none is left in the last bin.
    deviations = bounds[n_couplings + n_bins :].reshape(n_groups, n_bins, 2)
    deviations[:, :-1] = [-tolerance / 2, tolerance / 2]
    deviations[:, -1] = 0.0
    found = linprog(objective, A_eq=rows, b_eq=right, bounds=bounds, method="highs")
    if found.status != 0:
        raise RuntimeError(
            f"HiGHS did not solve the transport program with {n_bins} bins: "
            f"{found.message} Try fewer bins."
        )
    barycenter = found.x[n_couplings : n_couplings + n_bins]
    deviation = found.x[n_couplings + n_bins :].reshape(n_groups, n_bins)
    moved = barycenter + np.diff(deviation, prepend=0.0, axis=1)
    return ParityPlan(_clean(moved), _clean(barycenter), float(found.fun))


def monotone_coupling(
    source: NDArray[np.float64], target: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the coupling of two distributions that keeps the order.

    It is the one of least cost for every convex function of the distance.

    Parameters
    ----------
    source, target : ndarray of shape (k,)
        Cumulated distributions; the last entry is one.

    Returns
    -------
    ndarray of shape (k, k)
        Mass moved from bin i (row) to bin j (column).
    """
    upper = np.minimum(source[:, None], target)
    below = np.concatenate([[0.0], source[:-1]])[:, None]
    lower = np.maximum(below, np.concatenate([[0.0], target[:-1]]))
    mass: NDArray[np.float64] = np.maximum(upper - lower, 0.0)
    return mass


def _constraints(
    distributions: NDArray[np.float64],
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """Equalities in the couplings, the barycentre and the cumulated deviations."""
    n_groups, n_bins = distributions.shape
    ones = np.ones((1, n_bins))
    unit = sparse.eye_array(n_bins)
    groups = sparse.eye_array(n_groups)
    difference = sparse.diags_array(
        [np.ones(n_bins), -np.ones(n_bins - 1)], offsets=[0, -1]
    )
    # gamma_g 1 = r_g
    sources = sparse.kron(groups, sparse.kron(unit, ones))
    # gamma_g^T 1 = q + the differences of the cumulated deviations
    targets = sparse.kron(groups, sparse.kron(ones, unit))
    barycenter = sparse.kron(np.ones((n_groups, 1)), -unit)
    deviations = sparse.kron(groups, -difference)
    rows = sparse.block_array(
        [[sources, None, None], [targets, barycenter, deviations]], format="csr"
    )
    return rows, np.concatenate([distributions.ravel(), np.zeros(n_groups * n_bins)])


def _clean(distributions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Without the traces of the solver's tolerance; rows add up to one."""
    kept = np.where(distributions > _NO_MASS, distributions, 0.0)
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True))
