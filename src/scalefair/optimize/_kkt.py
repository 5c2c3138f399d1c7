"""Nearly-KKT residual of a problem with differences of convex functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.optimize._dc_problem import DCProblem, Oracle, Point
from scalefair.optimize._simplex_quadratic import maximize_quadratic_on_simplex

__all__ = ["KKTResidual", "nearly_kkt_residual"]

# Prices of complementarity, from dear to cheap.
_PRICES = (1.0, 0.1, 1e-2, 1e-3, 1e-4)


@dataclass(frozen=True)
class KKTResidual:
    r"""The four parts of the nearly-KKT residual; `value` is the largest.

    Attributes
    ----------
    distance : float
        :math:`|\hat x - x|`.
    stationarity : float
        Norm of the sum of plus-subgradients at :math:`\hat x` less the
        minus-subgradients at `x`, weighted by 1 and the multipliers.
    violation : float
        Largest constraint value at `x`, 0 if none is positive.
    complementarity : float
        Largest :math:`|\lambda_i f_i(x)|`.
    """

    distance: float
    stationarity: float
    violation: float
    complementarity: float

    @property
    def value(self) -> float:
        """The residual: the largest of the four parts."""
        return max(
            self.distance, self.stationarity, self.violation, self.complementarity
        )


def nearly_kkt_residual(
    problem: DCProblem, x: ArrayLike, multipliers: ArrayLike, x_hat: ArrayLike
) -> KKTResidual:
    r"""Nearly-KKT residual of a point for given multipliers.

    `x` is a nearly :math:`\epsilon`-KKT point if some :math:`\hat x` and
    multipliers :math:`\lambda \ge 0` have, with subgradients :math:`f_i^{+\prime}`
    at :math:`\hat x` and :math:`f_i^{-\prime}` at `x`,

    .. math::

        |\hat x - x| \le \epsilon, \quad
        |f_0^{+\prime} - f_0^{-\prime}
          + \sum_i \lambda_i (f_i^{+\prime} - f_i^{-\prime})| \le \epsilon, \quad
        f_i(x) \le \epsilon, \quad |\lambda_i f_i(x)| \le \epsilon .

    The subgradients are those that the problem returns: the smallest such
    :math:`\epsilon` is at most the residual. Points that have several subgradients
    may deserve a smaller one than this function finds.

    Parameters
    ----------
    problem : DCProblem
        Objective and constraints.
    x : array-like of shape (n,)
        Point judged.
    multipliers : array-like of shape (m,)
        Multipliers of the constraints, nonnegative.
    x_hat : array-like of shape (n,)
        Witness near `x`; `x` itself is allowed.

    Returns
    -------
    KKTResidual
        The four parts and, as `value`, the largest of them.

    Raises
    ------
    ValueError
        If a shape is wrong or a multiplier is negative or not finite.
    FloatingPointError
        If the problem returns numbers that are not finite.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", definition 6.2.

    Examples
    --------
    Minimise x^2 subject to 1 - x <= 0: the multiplier of the solution is 2.

    >>> import numpy as np
    >>> from scalefair.optimize import DCProblem, nearly_kkt_residual
    >>> class Line(DCProblem):
    ...     n_variables, n_constraints = 1, 1
    ...
    ...     def plus(self, v):
    ...         return np.array([v[0] ** 2, 1 - v[0]]), np.array([2 * v, [-1.0]])
    ...
    ...     def minus(self, v):
    ...         return np.zeros(2), np.zeros((2, 1))
    >>> nearly_kkt_residual(Line(), [1.0], [2.0], [1.0]).value
    0.0
    >>> nearly_kkt_residual(Line(), [1.5], [2.0], [1.0]).value  # not complementary
    1.0
    """
    oracle = Oracle(problem)
    at_x, at_hat = oracle(oracle.start(x, "x")), oracle(oracle.start(x_hat, "x_hat"))
    return residual_at(at_x, as_multipliers(multipliers, oracle.m), at_hat)


def as_multipliers(multipliers: ArrayLike, m: int) -> NDArray[np.float64]:
    """Return a copy of multipliers after checking their number and signs."""
    checked = np.array(multipliers, dtype=np.float64)
    if checked.shape != (m,) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ValueError(
            f"multipliers must be {m} nonnegative numbers, one per constraint, got "
            f"{checked}."
        )
    return checked


def residual_at(
    x: Point, multipliers: NDArray[np.float64], x_hat: Point
) -> KKTResidual:
    """Residual of definition 6.2 with one subgradient per function and point."""
    weights = np.append(1.0, multipliers)
    stationarity = weights @ (x_hat.plus_jacobian - x.minus_jacobian)  # (22)
    return _residual(
        x,
        multipliers,
        float(np.linalg.norm(x_hat.x - x.x)),
        float(np.linalg.norm(stationarity)),
    )


def residual_of_aggregate(
    x: Point, multipliers: NDArray[np.float64], x_hat: Point, norm: float, error: float
) -> KKTResidual:
    r"""Residual proved by a combination of cuts rather than by subgradients.

    The combination is an `error`-subgradient of :math:`f_0^+ + \sum \lambda_i f_i^+`
    at `x_hat`; less the minus-subgradients at `x` it has the given `norm`. By
    Brondsted and Rockafellar there is, for every t > 0, a point within t of `x_hat`
    with a true subgradient within error/t of it. The residual returned is that of
    the best t: the larger of ``distance + t`` and ``norm + error / t`` is least
    where both are equal.
    """
    distance = float(np.linalg.norm(x_hat.x - x.x))
    error = max(error, 0.0)
    larger = (distance + norm + math.hypot(norm - distance, 2 * math.sqrt(error))) / 2
    if error == 0.0:
        return _residual(x, multipliers, distance, norm)
    return _residual(x, multipliers, larger, larger)


def least_residual(x: Point, x_hat: Point) -> tuple[KKTResidual, NDArray[np.float64]]:
    """Residual of a point and a witness with multipliers made for them.

    The multipliers minimise the squared stationarity norm plus a price of
    complementarity; of a few prices the best is taken.
    """
    values, n = x.values[1:], x.x.size
    near = np.sort(np.argsort(-values, kind="stable")[: 2 * n + 10]) + 1
    rows = (x_hat.plus_jacobian - x.minus_jacobian)[np.append(0, near)]
    first = np.arange(rows.shape[0]) == 0
    gram, slack = rows @ rows.T, np.append(0.0, np.abs(values[near - 1]))
    multipliers = np.zeros(values.size)
    best = residual_at(x, multipliers, x_hat)
    weights = first.astype(np.float64)
    for price in _PRICES:
        weights = maximize_quadratic_on_simplex(
            -price * slack, gram, x0=weights, subset=first
        )
        trial = np.zeros(values.size)
        trial[near - 1] = weights[1:]
        residual = residual_at(x, trial, x_hat)
        if residual.value < best.value:
            best, multipliers = residual, trial
    return best, multipliers


def _residual(
    x: Point, multipliers: NDArray[np.float64], distance: float, stationarity: float
) -> KKTResidual:
    values = x.values[1:]
    return KKTResidual(
        distance,
        stationarity,
        x.infeasibility,  # (23)
        float(np.max(np.abs(multipliers * values), initial=0.0)),  # (24)
    )
