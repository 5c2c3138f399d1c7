"""Smooth constrained minimisation: augmented Lagrangian with L-BFGS inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from scalefair._docs import documented
from scalefair.kernels import single_blas_thread
from scalefair.optimize._dc_problem import TEXTS, as_multipliers, check_positive
from scalefair.optimize._simplex import Array

# Factor of the penalty where the violation did not fall enough.
PENALTY_GROWTH = 4.0


@dataclass(frozen=True)
class ConstrainedValue:
    """Objective and constraints at a point.

    Attributes
    ----------
    objective, gradient : float and ndarray of shape (n,)
        Of the objective.
    constraints, pull_back : ndarray of shape (m,) and callable
        Values, feasible at or below zero, and the function of weights (m,) that returns
        the weighted sum of the constraints' gradients, (n,).
    """

    objective: float
    gradient: Array
    constraints: Array
    pull_back: Callable[[Array], Array]


@documented(**TEXTS)
@dataclass(frozen=True)
class AugmentedLagrangianResult:
    """Point, multipliers, and a record of the search.

    Attributes
    ----------
    %(point)s
    kkt_residual, penalty : float
        The largest of the norm of the Lagrangian's gradient, the infeasibility, and
        the products of multipliers and constraints; and the last penalty.
    n_iter, n_calls : int
        Rounds, each with its own multipliers, and evaluations.
    converged : bool
        Whether the violation is within `tol` and gradient or objective settled.
    history : list of tuple
        For each round the objective, the infeasibility and the calls so far.
    """

    x: Array
    objective: float
    infeasibility: float
    multipliers: Array
    kkt_residual: float
    penalty: float
    n_iter: int
    n_calls: int
    converged: bool
    history: list[tuple[float, float, int]] = field(default_factory=list)


@single_blas_thread()
def augmented_lagrangian(
    evaluate: Callable[[Array], ConstrainedValue],
    x0: ArrayLike,
    *,
    multipliers: ArrayLike | None = None,
    penalty: float = 10.0,
    tol: float = 1e-4,
    stationarity: float = 1e-3,
    settled: float = 0.0,
    max_iter: int = 50,
    max_inner: int = 500,
) -> AugmentedLagrangianResult:
    r"""Minimise a smooth function under smooth inequality constraints.

    Each round minimises, by L-BFGS,

    .. math:: f(x) + \frac{1}{2 \rho} \sum_i \max(0, \lambda_i + \rho c_i(x))^2

    and then takes :math:`\lambda_i \leftarrow \max(0, \lambda_i + \rho c_i(x))` [1]_.
    The problem need not be convex: the result is near a local minimum.

    Parameters
    ----------
    evaluate : callable
        Takes a point and returns its `ConstrainedValue`.
    x0 : array-like of shape (n,)
        Start; it need not be feasible.
    multipliers : array-like of shape (m,) or None, default=None
        First multipliers; None takes zeros.
    penalty : float, default=10.0
        First penalty :math:`\rho`.
    tol, stationarity : float, default=1e-4, 1e-3
        Violation or complementarity :math:`|\lambda_i c_i|`, and norm of the
        Lagrangian's gradient, allowed in the end.
    settled : float, default=0.0
        A round that changes the objective by no more than this share of itself also
        ends the search, if the violation is within `tol`.
    max_iter, max_inner : int, default=50, 500
        Most rounds, and most iterations of L-BFGS in one.

    Returns
    -------
    AugmentedLagrangianResult
        Point, multipliers and whether they are good enough.

    Raises
    ------
    ValueError
        If `x0` is not a finite vector, `multipliers` are not m nonnegative numbers,
        or `penalty`, `tol`, `stationarity` or a limit is not positive.
    FloatingPointError
        If `evaluate` gives numbers that are not finite at `x0` or after a round.

    References
    ----------
    .. [1] Nocedal & Wright, "Numerical Optimization" (2006), sections 17.3
       and 17.4.

    Examples
    --------
    The point of the half plane ``x + y >= 1`` next to the origin:

    >>> import numpy as np
    >>> from scalefair.optimize import ConstrainedValue, augmented_lagrangian
    >>> def evaluate(x):
    ...     return ConstrainedValue(
    ...         x @ x, 2 * x, np.array([1 - x.sum()]), lambda w: -w[0] * np.ones(2)
    ...     )
    >>> augmented_lagrangian(evaluate, np.zeros(2)).x.round(3)
    array([0.5, 0.5])
    """
    check_positive(penalty=penalty, tol=tol, stationarity=stationarity)
    check_positive(max_iter=max_iter, max_inner=max_inner)
    x = np.array(x0, dtype=np.float64)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError(f"x0 must be a vector of finite numbers, got {x}.")
    value = _check_finite(evaluate(x), "x0")
    m = value.constraints.size
    lam = np.zeros(m) if multipliers is None else as_multipliers(multipliers, m)
    last, n_calls = (x, value), 1  # the last evaluation, and their number

    # The search ends where it has evaluated: that value is not computed again.
    def value_at(v: Array) -> ConstrainedValue:
        nonlocal last, n_calls
        if not np.array_equal(v, last[0]):
            last, n_calls = (v.copy(), evaluate(v)), n_calls + 1
        return last[1]

    def lagrangian(v: Array) -> tuple[float, Array]:
        """Value and gradient of the augmented Lagrangian."""
        # Derivative of max(0, lambda + rho c)^2 / (2 rho): max(0, lambda + rho c) c'.
        # So the weights at a minimiser are the next multipliers.
        value = value_at(v)
        weights = np.maximum(lam + penalty * value.constraints, 0.0)
        square = float(weights @ weights) / (2 * penalty)
        return value.objective + square, value.gradient + value.pull_back(weights)

    violation = np.inf
    # Largest entry of the gradient that L-BFGS may leave, at first and in the end. If
    # the n entries are within a / sqrt(n), the norm is within a, here a tenth of
    # `stationarity`. Early rounds have rough multipliers, and need no accurate minimum.
    gtol, final_gtol = 1e-2, 0.1 * stationarity / np.sqrt(x.size)
    history: list[tuple[float, float, int]] = []
    converged = False
    # Invariant: `value` is that of x, and lam >= 0.
    while not converged and len(history) < max_iter:
        # Step 1: minimise the augmented Lagrangian.
        solution = minimize(
            lagrangian,
            x,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": max_inner,
                "maxcor": 20,
                "gtol": max(gtol, final_gtol),
                "ftol": 0.0,
            },
        )
        moved = not np.array_equal(solution.x, x)
        x, previous = solution.x, value.objective
        value = _check_finite(value_at(x), f"the end of round {len(history) + 1}")
        # Step 2: multipliers of the first order.
        lam = np.maximum(lam + penalty * value.constraints, 0.0)
        # Step 3: residuals: the violation is infeasibility or failing complementarity,
        # whichever is larger.
        largest = float(value.constraints.max(initial=0.0))
        products = np.abs(lam * value.constraints)
        previous_violation = violation
        violation = max(largest, float(products.max(initial=0.0)))
        # With the new multipliers, the gradient of the plain Lagrangian is that of the
        # augmented one of step 1.
        residual = float(np.linalg.norm(value.gradient + value.pull_back(lam)))
        history.append((value.objective, largest, n_calls))
        is_settled = abs(value.objective - previous) <= settled * abs(previous)
        converged = violation <= tol and (
            residual <= stationarity or (is_settled and moved)
        )
        # Step 4: a larger penalty unless the violation fell to a quarter.
        if not moved:
            penalty /= PENALTY_GROWTH  # no step was possible: the kink is too sharp
        elif violation > max(0.25 * previous_violation, tol):
            penalty *= PENALTY_GROWTH
        # The next round starts nearer to its minimum: a tenth of the derivative.
        gtol *= 0.1
    return AugmentedLagrangianResult(
        x=x,
        objective=value.objective,
        infeasibility=largest,
        multipliers=lam,
        kkt_residual=max(residual, violation),
        penalty=penalty,
        n_iter=len(history),
        n_calls=n_calls,
        converged=converged,
        history=history,
    )


def _check_finite(value: ConstrainedValue, where: str) -> ConstrainedValue:
    """Return the value if its three parts are finite; `where` names the point."""
    for name in ("objective", "gradient", "constraints"):
        if not np.isfinite(getattr(value, name)).all():
            raise FloatingPointError(
                f"evaluate returned numbers that are not finite ({name}), at {where}: "
                "check the data, or start nearer to the solution."
            )
    return value
