"""Smooth convex minimisation under convex constraints, to a KKT residual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from scalefair.optimize import ConstrainedValue

__all__ = ["ConvexResult", "minimize_convex"]

Array = NDArray[np.float64]

# First penalty and gradient tolerance; how they change from round to round.
_PENALTY = 10.0
_GRADIENT = 1e-2
_GROWTH = 5.0
_ENOUGH = 0.25
# L-BFGS: pairs kept and most iterations of a round.
_MEMORY = 20
_INNER = 500


@dataclass(frozen=True)
class ConvexResult:
    """Solution with its certificate.

    Attributes
    ----------
    x : ndarray of shape (n,)
        The point.
    value : ConstrainedValue
        Objective and constraints there.
    multipliers : ndarray of shape (n_constraints,)
        Nonnegative.
    kkt_residual : float
        The largest of the norm of the Lagrangian's gradient, the infeasibility, and
        the products of multipliers and constraints.
    n_iter : int
        Rounds.
    """

    x: Array
    value: ConstrainedValue
    multipliers: Array
    kkt_residual: float
    n_iter: int


def minimize_convex(
    evaluate: Callable[[Array], ConstrainedValue],
    x0: Array,
    *,
    tol: float,
    max_iter: int,
) -> ConvexResult:
    r"""Augmented Lagrangian whose rounds are as exact as the residual asks for.

    Round by round :math:`f(x) + \frac{1}{2 \rho} \sum_i \max(0, \lambda_i + \rho
    c_i(x))^2` is minimised by L-BFGS to a gradient that shrinks with the violation,
    and :math:`\lambda_i` becomes :math:`\max(0, \lambda_i + \rho c_i(x))`: the
    gradient of the Lagrangian is then the one where L-BFGS stopped.

    Parameters
    ----------
    evaluate : callable
        Takes a point, returns its `ConstrainedValue`.
    x0 : ndarray of shape (n,)
        Start; it need not be feasible.
    tol : float
        KKT residual at which to stop.
    max_iter : int
        Most rounds.
    """
    x, penalty, violation = x0, _PENALTY, np.inf
    value = evaluate(x)
    multipliers = np.zeros(value.constraints.size)
    exactness, residual, n_iter = _GRADIENT, np.inf, 0
    while residual > tol and n_iter < max_iter:
        start, x = x, _round(evaluate, x, multipliers, penalty, exactness)
        value = evaluate(x)
        multipliers = np.maximum(multipliers + penalty * value.constraints, 0.0)
        gradient = value.gradient + value.pull_back(multipliers)
        # Infeasibility and complementarity fall with larger penalties,
        # the gradient with more exact rounds.
        last, violation = violation, _violation(value, multipliers)
        residual = max(float(np.linalg.norm(gradient)), violation)
        if np.array_equal(x, start):
            penalty /= _GROWTH  # no step was found: the penalty's kink is too sharp
        elif violation > max(_ENOUGH * last, tol):
            penalty *= _GROWTH
        exactness = max(0.1 * exactness, 0.1 * tol / np.sqrt(x.size))
        n_iter += 1
    return ConvexResult(x, value, multipliers, residual, n_iter)


def _violation(value: ConstrainedValue, multipliers: Array) -> float:
    return max(
        float(value.constraints.max()),
        float(np.abs(multipliers * value.constraints).max()),
    )


def _round(
    evaluate: Callable[[Array], ConstrainedValue],
    x: Array,
    multipliers: Array,
    penalty: float,
    exactness: float,
) -> Array:
    """Minimise the augmented Lagrangian until no derivative exceeds `exactness`."""

    def lagrangian(x: Array) -> tuple[float, Array]:
        value = evaluate(x)
        weights = np.maximum(multipliers + penalty * value.constraints, 0.0)
        added = float(weights @ weights) / (2.0 * penalty)
        return value.objective + added, value.gradient + value.pull_back(weights)

    options = {"maxiter": _INNER, "maxcor": _MEMORY, "gtol": exactness, "ftol": 0.0}
    found = minimize(lagrangian, x, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x)
