"""Switching subgradient methods: of a convex subproblem and of the problem itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from scalefair._digits import apart
from scalefair.kernels import single_blas_thread
from scalefair.optimize._checks import check_positive
from scalefair.optimize._dc_problem import DCProblem, DCRecord, DCResult, Oracle, Point
from scalefair.optimize._kkt import least_residual
from scalefair.optimize._metric import Metric
from scalefair.optimize._proximal_bundle import Solved, SubproblemResult

__all__ = ["direct_switching_subgradient", "switching_subgradient"]


@single_blas_thread()
def switching_subgradient(
    problem: DCProblem,
    center: ArrayLike,
    *,
    mu: float = 1.0,
    eps: float = 1e-3,
    max_calls: int = 150,
    metric: ArrayLike | None = None,
) -> SubproblemResult:
    r"""Solve the convex subproblem at a centre by switching subgradients.

    The subproblem is that of `proximal_bundle`. Where the largest constraint value
    g is at most `eps` the step is :math:`\epsilon / |g_0'|^2` along
    :math:`-g_0'`, elsewhere :math:`g / |g'|^2` along :math:`-g'`, a subgradient of
    the most violated constraint (algorithm 2 of [1]_). The best nearly feasible
    point is returned. The method proves no bound: it takes all steps, unless the
    objective's subgradient is zero at a nearly feasible point, and `converged` is
    False.

    Parameters
    ----------
    problem : DCProblem
        Objective and constraints.
    center : array-like of shape (n,)
        Where the minus parts are linearised, and the first point.
    mu : float, default=1.0
        Proximal weight.
    eps : float, default=1e-3
        Tolerance of the violation and length of the steps, in units of the
        functions.
    max_calls : int, default=150
        Number of steps; each calls the oracle once.
    metric : array-like of shape (n,) or (n, n), or None, default=None
        Of the proximal terms; None is the identity.

    Returns
    -------
    SubproblemResult
        The best nearly feasible point; the lower bound is -inf. The multipliers
        are those that fit its subgradients best.

    Raises
    ------
    ValueError
        If `center` is not a finite vector of the right length, `mu`, `eps` or
        `max_calls` is not positive, or `metric` not positive definite.
    FloatingPointError
        If the oracle returns numbers that are not finite.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import DCProblem, switching_subgradient
    >>> class Line(DCProblem):  # x^2 subject to 1 - x <= 0
    ...     n_variables, n_constraints = 1, 1
    ...
    ...     def plus(self, v):
    ...         return np.array([v[0] ** 2, 1 - v[0]]), np.array([2 * v, [-1.0]])
    ...
    ...     def minus(self, v):
    ...         return np.zeros(2), np.zeros((2, 1))
    >>> found = switching_subgradient(Line(), [2.0], mu=0.01, max_calls=4000)
    >>> bool(abs(found.x[0] - 1) < 0.02), found.converged
    (True, False)
    """
    check_positive(mu=mu, eps=eps, max_calls=max_calls)
    oracle = Oracle(problem)
    centre = oracle(oracle.start(center, "center"))
    solver = SwitchingSolver(oracle, Metric(metric, oracle.n), mu=mu, eps=eps)
    return solver.solve(centre, max_calls).result


@dataclass
class SwitchingSolver:
    """Inner solver of the outer loop."""

    oracle: Oracle
    metric: Metric
    mu: float
    eps: float

    def solve(self, centre: Point, max_calls: int) -> Solved:
        oracle, relax = self.oracle, centre.infeasibility
        before = oracle.n_calls
        point, best, height, over = centre, centre, np.inf, 0.0
        message = "All steps taken; this method proves no bound."
        for t in range(max_calls + 1):
            d = point.x - centre.x
            pull = self.mu * self.metric.product(d)
            values = point.plus - centre.minus - centre.minus_jacobian @ d
            values += d @ pull / 2
            values[1:] -= relax
            worst = 1 + int(np.argmax(values[1:])) if oracle.m else 0
            violation = max(float(values[worst]), 0.0) if oracle.m else 0.0
            nearly = violation <= self.eps
            if nearly and values[0] < height:
                best, height, over = point, float(values[0]), violation
            if t == max_calls:
                break
            i = 0 if nearly else worst
            slope = point.plus_jacobian[i] - centre.minus_jacobian[i] + pull
            square = float(slope @ slope)
            if square == 0.0:  # this function is as small as it can be
                message = f"Zero subgradient after {t} steps; no step leads on."
                break
            point = oracle(
                point.x - ((self.eps if nearly else violation) / square) * slope
            )
        result = SubproblemResult(
            x=best.x,
            value=height,
            lower_bound=-np.inf,
            gap=np.inf,
            violation=over,
            multipliers=least_residual(centre, best)[1],
            n_calls=oracle.n_calls - before,
            converged=False,
            message=message,
        )
        return Solved(result, best)


@single_blas_thread()
def direct_switching_subgradient(
    problem: DCProblem,
    x0: ArrayLike,
    *,
    eps: float = 1e-3,
    decreasing: bool = False,
    tol: float = 1e-3,
    max_iter: int = 10_000,
) -> DCResult:
    r"""Switching subgradients on a nonconvex problem itself.

    The steps are those of `switching_subgradient` with the functions
    :math:`f_i = f_i^+ - f_i^-` and differences of subgradients of the parts, for
    :math:`\epsilon_t` constant or :math:`c / (t + 1)` (algorithm 3 of [1]_). A
    heuristic: it may end at an infeasible point.

    Parameters
    ----------
    problem : DCProblem
        Objective and constraints.
    x0 : array-like of shape (n,)
        First point.
    eps : float, default=1e-3
        :math:`\epsilon`, or c with `decreasing`.
    decreasing : bool, default=False
        Whether :math:`\epsilon_t` falls like 1 / (t + 1).
    tol : float, default=1e-3
        Nearly-KKT residual that counts as converged.
    max_iter : int, default=10000
        Most steps, each with a call of the oracle; fewer where a subgradient is zero.

    Returns
    -------
    DCResult
        The nearly feasible point of smallest objective, or the least infeasible one
        where none was nearly feasible. Its residual is computed once, at the end;
        the history holds about a hundred records, evenly spaced.

    Raises
    ------
    ValueError
        If `x0` is not a finite vector of the right length or a number is not
        positive.
    FloatingPointError
        If the oracle returns numbers that are not finite.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing fairness where it matters: an approach
       based on difference-of-convex constraints", algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.optimize import DCProblem, direct_switching_subgradient
    >>> class Outside(DCProblem):  # (x - 2)^2 subject to 9 - x^2 <= 0
    ...     n_variables, n_constraints = 1, 1
    ...
    ...     def plus(self, v):
    ...         values = np.array([(v[0] - 2) ** 2, 9.0])
    ...         return values, np.array([2 * (v - 2), [0.0]])
    ...
    ...     def minus(self, v):
    ...         return np.array([0.0, v[0] ** 2]), np.array([[0.0], 2 * v])
    >>> found = direct_switching_subgradient(Outside(), [4.0])
    >>> found.x.round(2)
    array([3.])
    """
    check_positive(eps=eps, tol=tol, max_iter=max_iter)
    oracle = Oracle(problem)
    point = best = oracle(oracle.start(x0, "x0"))
    nearly_best = False
    history: list[DCRecord] = []
    every = max(1, -(-max_iter // 100))
    for t in range(max_iter + 1):
        allowed = eps / (t + 1) if decreasing else eps
        nearly = point.infeasibility <= allowed
        if nearly and not (nearly_best and point.objective >= best.objective):
            best, nearly_best = point, True
        elif not nearly_best and point.infeasibility < best.infeasibility:
            best = point
        if t % every == 0 or t == max_iter:
            history.append(
                DCRecord(best.objective, best.infeasibility, np.nan, oracle.n_calls)
            )
        i = 0 if nearly else 1 + int(np.argmax(point.values[1:]))
        slope = point.plus_jacobian[i] - point.minus_jacobian[i]
        square = float(slope @ slope)
        if t == max_iter or square == 0.0:
            break
        length = (allowed if nearly else point.infeasibility) / square
        point = oracle(point.x - length * slope)
    residual, multipliers = least_residual(best, best)
    converged = residual.value <= tol
    return DCResult(
        x=best.x,
        objective=best.objective,
        infeasibility=best.infeasibility,
        kkt_residual=residual.value,
        multipliers=multipliers,
        n_iter=t,
        n_calls=oracle.n_calls,
        history=history,
        converged=converged,
        message=(
            "The nearly-KKT residual is within the tolerance."
            if converged
            else f"The nearly-KKT residual is {apart(residual.value, tol)} after {t} "
            "steps: change eps, raise max_iter or use idca."
        ),
    )
