"""Problems with differences of convex functions, and when a point solves one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from scalefair._docs import documented
from scalefair.optimize._simplex import Array, maximize_quadratic_on_simplex

Part = tuple[Array, Array]

# Texts that the docstrings of problems and of their solvers share.
TEXTS = {
    "part": """\
Parameters
----------
v : ndarray of shape (n,)
    Point.

Returns
-------
values, jacobian : ndarray of shape (m + 1,) and (m + 1, n)
    The objective's part first, then the constraints'; one subgradient of each.""",
    "problem": """\
problem : DCProblem
    Objective and constraints; for a convex problem the minus parts are zero.""",
    "center": """\
center : array-like of shape (n,)
    Where the minus parts are linearised, and the first point.
mu : float, default=1.0
    Proximal weight: the larger, the shorter the step and the fewer the calls.""",
    "metric": """\
metric : array-like of shape (n,) or (n, n), or None, default=None
    Positive diagonal or positive definite matrix M of the proximal terms, where
    :math:`|d|^2 = d^T M d`; None is the identity.""",
    "point": """\
x, multipliers : ndarray of shape (n,) and (m,)
    The point, and nonnegative multipliers of the constraints.
objective, infeasibility : float
    :math:`f_0` there, and the largest constraint value, 0 if none is positive.""",
    "subproblem_raises": """\
ValueError
    If `center` is not a finite vector of the right length, `mu`, `eps` or
    `max_calls` is not positive, or `metric` not positive definite.
FloatingPointError
    If the oracle returns numbers that are not finite.""",
    "not_finite": """\
FloatingPointError
    If the oracle returns numbers that are not finite.""",
    "paper": """\
References
----------
.. [1] He, Huang, Yao, Lin, "Enforcing fairness where it matters: an approach
   based on difference-of-convex constraints", section 6.""",
    "example": """\
Examples
--------
The point nearest to 2 with an absolute value of 3 at least:

>>> import numpy as np
>>> from scalefair import optimize
>>> class Outside(optimize.DCProblem):  # (x - 2)^2 subject to 9 - x^2 <= 0
...     n_variables, n_constraints = 1, 1
...
...     def plus(self, v):
...         values = np.array([(v[0] - 2) ** 2, 9.0])
...         return values, np.array([2 * (v - 2), [0.0]])
...
...     def minus(self, v):
...         return np.array([0.0, v[0] ** 2]), np.array([[0.0], 2 * v])""",
}


@documented(**TEXTS)
class DCProblem(ABC):
    r"""Minimise :math:`f_0(v)` subject to :math:`f_i(v) \le 0`, ``i = 1, ..., m``.

    Every function is the difference of two finite convex functions,
    :math:`f_i = f_i^+ - f_i^-`. A subclass sets the two sizes and gives the values
    of the parts and one subgradient of each; nothing need be smooth.

    Attributes
    ----------
    n_variables, n_constraints : int
        Length n of `v`, and number m of constraints: 0 or more, also more than n.

    %(example)s
    >>> result = optimize.idca(Outside(), [4.0], tol=1e-5)
    >>> result.converged, result.x.round(3)
    (True, array([3.]))
    """

    n_variables: int
    n_constraints: int

    @abstractmethod
    def plus(self, v: Array) -> Part:
        """Convex parts that are added.

        %(part)s
        """

    @abstractmethod
    def minus(self, v: Array) -> Part:
        """Convex parts that are subtracted.

        %(part)s
        """

    def evaluate(self, v: Array) -> tuple[Part, Part]:
        """Both parts at one point; override it where one pass gives all.

        Parameters
        ----------
        v : ndarray of shape (n,)
            Point.

        Returns
        -------
        tuple of tuple of ndarray
            What `plus` and `minus` return.
        """
        return self.plus(v), self.minus(v)


@dataclass(frozen=True)
class DCRecord:
    """State of a solver after one of its iterations.

    Attributes
    ----------
    objective, infeasibility, kkt_residual, n_calls : float and int
        As in `DCResult`, at the iterate and so far.
    """

    objective: float
    infeasibility: float
    kkt_residual: float
    n_calls: int


@documented(**TEXTS)
@dataclass(frozen=True)
class DCResult:
    """Solution of a problem with differences of convex functions.

    Attributes
    ----------
    %(point)s
    kkt_residual : float
        Upper bound of `nearly_kkt_residual` that is proved; nan if there is none.
    n_iter, n_calls, history : int, int and list of DCRecord
        Outer iterations, calls of the oracle (one per point), a record per iteration.
    converged : bool
        Whether `kkt_residual` met the tolerance.
    message : str
        How the search ended and, if it failed, what to change.
    """

    x: Array
    objective: float
    infeasibility: float
    kkt_residual: float
    multipliers: Array
    n_iter: int
    n_calls: int
    history: list[DCRecord] = field(repr=False)
    converged: bool
    message: str


@dataclass(frozen=True)
class OraclePoint:
    """Values and subgradients of both parts at one point."""

    x: Array
    plus: Array
    plus_jacobian: Array
    minus: Array
    minus_jacobian: Array

    @property
    def values(self) -> Array:
        """The functions themselves, the objective first."""
        values: Array = self.plus - self.minus
        return values

    @property
    def objective(self) -> float:
        """Value of f_0, the difference of its parts."""
        return float(self.plus[0] - self.minus[0])

    @property
    def infeasibility(self) -> float:
        """Largest constraint value, 0 if none is positive."""
        return float(np.max(self.values[1:], initial=0.0))


class CountingOracle:
    """Evaluates a problem, counts the calls and checks the results."""

    def __init__(self, problem: DCProblem) -> None:
        """Oracle of a problem with n variables and m constraints."""
        self.problem = problem
        self.n, self.m = int(problem.n_variables), int(problem.n_constraints)
        self.n_calls = 0

    def __call__(self, v: Array) -> OraclePoint:
        """Evaluate both parts at a point of shape (n,): one call."""
        self.n_calls += 1
        parts = []
        for name, (values, jacobian) in zip(
            ("plus", "minus"), self.problem.evaluate(v), strict=True
        ):
            # Copies: points are kept, and a problem may write to its arrays again.
            values = np.array(values, dtype=np.float64)
            jacobian = np.array(jacobian, dtype=np.float64)
            if values.shape != (self.m + 1,) or jacobian.shape != (self.m + 1, self.n):
                raise ValueError(
                    f"{name} must return {self.m + 1} values (objective and "
                    f"{self.m} constraints) and a jacobian of shape "
                    f"{(self.m + 1, self.n)}, got shapes {values.shape} and "
                    f"{jacobian.shape}."
                )
            finite = np.isfinite(values) & np.isfinite(jacobian).all(axis=1)
            if not finite.all():
                i = int(np.argmin(finite))
                raise FloatingPointError(
                    f"{name} returned a value or subgradient that is not finite, for "
                    f"{f'constraint {i}' if i else 'the objective'}, at call "
                    f"{self.n_calls}: check the data, or start nearer to the solution."
                )
            parts += [values, jacobian]
        return OraclePoint(v, *parts)

    def start(self, x0: ArrayLike, name: str) -> Array:
        """Return a copy of a point after checking it."""
        x = np.array(x0, dtype=np.float64)
        requirement = f"{name} must hold {self.n} finite numbers, one per variable"
        if x.shape != (self.n,):
            raise ValueError(f"{requirement}, got shape {x.shape}.")
        if not np.isfinite(x).all():
            i = int(np.argmin(np.isfinite(x)))
            raise ValueError(f"{requirement}, got {x[i]} at entry {i}.")
        return x


def check_positive(**numbers: float | None) -> None:
    """Refuse numbers that are not positive and finite; None is passed over."""
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise ValueError(f"{name} must be a positive number, got {number}.")


@dataclass(frozen=True)
class KKTResidual:
    """The four parts of the nearly-KKT residual; `value` is the largest.

    Attributes
    ----------
    distance, stationarity, violation, complementarity : float
        Left sides of the inequalities of `nearly_kkt_residual`, in that order; the
        violation is 0 if no constraint is positive.
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


@documented(**TEXTS)
def nearly_kkt_residual(
    problem: DCProblem, x: ArrayLike, multipliers: ArrayLike, x_hat: ArrayLike
) -> KKTResidual:
    r"""Nearly-KKT residual of a point for given multipliers.

    In definition 6.2 of [1]_ `x` is a nearly :math:`\epsilon`-KKT point if some
    :math:`\hat x` and multipliers :math:`\lambda \ge 0` have, with subgradients
    :math:`f_i^{+\prime}` at :math:`\hat x` and :math:`f_i^{-\prime}` at `x`,

    .. math::

        |\hat x - x| \le \epsilon, \quad
        |f_0^{+\prime} - f_0^{-\prime}
          + \sum_i \lambda_i (f_i^{+\prime} - f_i^{-\prime})| \le \epsilon, \quad
        f_i(x) \le \epsilon, \quad |\lambda_i f_i(x)| \le \epsilon .

    The subgradients are those that the problem returns.

    Parameters
    ----------
    %(problem)s
    x, multipliers : array-like of shape (n,) and (m,)
        Point judged, and nonnegative multipliers of the constraints.
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
    %(not_finite)s

    %(paper)s

    %(example)s
    >>> round(optimize.nearly_kkt_residual(Outside(), [3.0], [1 / 3], [3.0]).value, 9)
    0.0
    """
    oracle = CountingOracle(problem)
    at_x, at_hat = oracle(oracle.start(x, "x")), oracle(oracle.start(x_hat, "x_hat"))
    return residual_at(at_x, as_multipliers(multipliers, oracle.m), at_hat)


def as_multipliers(multipliers: ArrayLike, m: int) -> Array:
    """Return a copy of multipliers after checking their number and signs."""
    checked = np.array(multipliers, dtype=np.float64)
    if checked.shape != (m,) or not (np.isfinite(checked) & (checked >= 0)).all():
        raise ValueError(
            f"multipliers must be {m} nonnegative numbers, one per constraint, got "
            f"{checked}."
        )
    return checked


def residual_at(x: OraclePoint, multipliers: Array, x_hat: OraclePoint) -> KKTResidual:
    """Residual of definition 6.2 with one subgradient per function and point.

    The numbers (22) to (24) are those of its inequalities in the paper.
    """
    # (m + 1,) weights times (m + 1, n) subgradients.
    weights = np.append(1.0, multipliers)
    combination = weights @ (x_hat.plus_jacobian - x.minus_jacobian)  # (22)
    norm = float(np.linalg.norm(combination))
    return residual_of_aggregate(x, multipliers, x_hat, norm, 0.0)


def residual_of_aggregate(
    x: OraclePoint, multipliers: Array, x_hat: OraclePoint, norm: float, error: float
) -> KKTResidual:
    """Residual of `x` by a combination of cuts in place of subgradients at `x_hat`.

    The combination's slope is an `error`-subgradient of the weighted plus parts at
    `x_hat`. Less the weighted minus-subgradients at `x` it has the length `norm`.
    """
    distance = float(np.linalg.norm(x_hat.x - x.x))
    error = max(error, 0.0)  # rounding may make it negative
    # Brondsted and Rockafellar (1965): for every t > 0 a point within t of x_hat has a
    # true subgradient within error / t of the slope. This point is the witness. The
    # larger of distance + t and norm + error / t is least where both are equal: a
    # quadratic equation, t^2 + (distance - norm) t - error = 0.
    larger = (distance + norm + math.hypot(norm - distance, 2 * math.sqrt(error))) / 2
    return KKTResidual(
        distance if error == 0.0 else larger,
        norm if error == 0.0 else larger,
        x.infeasibility,  # (23)
        float(np.max(np.abs(multipliers * x.values[1:]), initial=0.0)),  # (24)
    )


def least_residual(x: OraclePoint, x_hat: OraclePoint) -> tuple[KKTResidual, Array]:
    """Residual of a point and a witness, and multipliers fitted to them.

    A quadratic program minimises half the squared stationarity, plus a penalty on the
    products with the constraints. Of five penalties, and zero multipliers, the best one
    is taken.
    """
    values, n = x.values[1:], x.x.size
    # No more than n multipliers need be positive (Caratheodory). The constraints of
    # largest value are tried, some more than n of them; number 0 is the objective.
    candidates = np.sort(np.argsort(-values, kind="stable")[: 2 * n + 10]) + 1
    slopes = (x_hat.plus_jacobian - x.minus_jacobian)[np.append(0, candidates)]
    # Variables l >= 0 of the program, with l_0 = 1 for the objective. The squared
    # stationarity is l^T gram l, and the products |lambda_i f_i| are linear in l.
    is_objective = np.arange(slopes.shape[0]) == 0
    gram, sizes = slopes @ slopes.T, np.append(0.0, np.abs(values[candidates - 1]))
    multipliers = np.zeros(values.size)
    best = residual_at(x, multipliers, x_hat)
    # A program starts from the solution of the one before: penalties fall tenfold only.
    weights = is_objective.astype(np.float64)
    for penalty in (1.0, 0.1, 1e-2, 1e-3, 1e-4):
        weights = maximize_quadratic_on_simplex(
            -penalty * sizes, gram, x0=weights, subset=is_objective
        )
        trial = np.zeros(values.size)
        trial[candidates - 1] = weights[1:]
        residual = residual_at(x, trial, x_hat)
        if residual.value < best.value:
            best, multipliers = residual, trial
    return best, multipliers
