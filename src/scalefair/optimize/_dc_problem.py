"""Problems whose objective and constraints are differences of convex functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["DCProblem", "DCRecord", "DCResult"]

Part = tuple[NDArray[np.float64], NDArray[np.float64]]


class DCProblem(ABC):
    r"""Minimise :math:`f_0(v)` subject to :math:`f_i(v) \le 0`, ``i = 1, ..., m``.

    Every function is the difference of two finite convex functions,
    :math:`f_i = f_i^+ - f_i^-`. A subclass sets the two sizes and gives the values
    of the parts and one subgradient of each; nothing need be smooth.

    Attributes
    ----------
    n_variables : int
        Length n of `v`.
    n_constraints : int
        Number m of constraints; may be 0 and may be larger than n.

    Examples
    --------
    The point nearest to (2, 0) outside of the ball of radius 3:

    >>> import numpy as np
    >>> from scalefair.optimize import DCProblem, idca
    >>> class OutsideOfBall(DCProblem):
    ...     n_variables, n_constraints = 2, 1
    ...
    ...     def plus(self, v):
    ...         d = v - np.array([2.0, 0.0])
    ...         return np.array([d @ d, 9.0]), np.array([2 * d, 0 * d])
    ...
    ...     def minus(self, v):
    ...         return np.array([0.0, v @ v]), np.array([0 * v, 2 * v])
    >>> found = idca(OutsideOfBall(), [0.0, 4.0], tol=1e-5, max_iter=1000)
    >>> found.converged, found.x.round(3)
    (True, array([3., 0.]))
    """

    n_variables: int
    n_constraints: int

    @abstractmethod
    def plus(self, v: NDArray[np.float64]) -> Part:
        """Convex parts that are added.

        Parameters
        ----------
        v : ndarray of shape (n,)
            Point.

        Returns
        -------
        values : ndarray of shape (m + 1,)
            The objective's part first, then those of the constraints.
        jacobian : ndarray of shape (m + 1, n)
            One subgradient of each.
        """

    @abstractmethod
    def minus(self, v: NDArray[np.float64]) -> Part:
        """Convex parts that are subtracted.

        Parameters
        ----------
        v : ndarray of shape (n,)
            Point.

        Returns
        -------
        values : ndarray of shape (m + 1,)
            The objective's part first, then those of the constraints.
        jacobian : ndarray of shape (m + 1, n)
            One subgradient of each.
        """

    def evaluate(self, v: NDArray[np.float64]) -> tuple[Part, Part]:
        """Both parts at one point; override it where one pass gives all.

        Parameters
        ----------
        v : ndarray of shape (n,)
            Point.

        Returns
        -------
        plus, minus : tuple of ndarray
            What `plus` and `minus` return.
        """
        return self.plus(v), self.minus(v)


@dataclass(frozen=True)
class DCRecord:
    """State of a solver after one of its iterations.

    Attributes
    ----------
    objective : float
        :math:`f_0` at the iterate.
    infeasibility : float
        Largest constraint value, 0 if none is positive.
    kkt_residual : float
        Residual of the iterate that was proved; nan where the solver proves none.
    n_calls : int
        Calls of the oracle so far.
    """

    objective: float
    infeasibility: float
    kkt_residual: float
    n_calls: int


@dataclass(frozen=True)
class DCResult:
    """Solution of a problem with differences of convex functions.

    Attributes
    ----------
    x : ndarray of shape (n,)
        Point returned.
    objective : float
        :math:`f_0` at `x`.
    infeasibility : float
        Largest constraint value at `x`, 0 if none is positive.
    kkt_residual : float
        Nearly-KKT residual of `x` with `multipliers`, an upper bound that is proved
        (see `nearly_kkt_residual`); nan if the method proves none.
    multipliers : ndarray of shape (m,)
        Nonnegative multipliers of the constraints.
    n_iter : int
        Iterations of the outer loop.
    n_calls : int
        Calls of the oracle, one per point where the functions were evaluated.
    history : list of DCRecord
        One record per iteration.
    converged : bool
        Whether `kkt_residual` met the tolerance.
    message : str
        How the search ended and, if it failed, what to change.
    """

    x: NDArray[np.float64]
    objective: float
    infeasibility: float
    kkt_residual: float
    multipliers: NDArray[np.float64]
    n_iter: int
    n_calls: int
    history: list[DCRecord] = field(repr=False)
    converged: bool
    message: str


@dataclass(frozen=True)
class Point:
    """Everything the oracle says about one point."""

    x: NDArray[np.float64]
    plus: NDArray[np.float64]
    plus_jacobian: NDArray[np.float64]
    minus: NDArray[np.float64]
    minus_jacobian: NDArray[np.float64]

    @property
    def values(self) -> NDArray[np.float64]:
        """The functions themselves, the objective first."""
        values: NDArray[np.float64] = self.plus - self.minus
        return values

    @property
    def objective(self) -> float:
        return float(self.plus[0] - self.minus[0])

    @property
    def infeasibility(self) -> float:
        return float(np.max(self.values[1:], initial=0.0))


class Oracle:
    """Evaluates a problem, counts the calls and checks what comes back."""

    def __init__(self, problem: DCProblem) -> None:
        self.problem = problem
        self.n, self.m = int(problem.n_variables), int(problem.n_constraints)
        self.n_calls = 0

    def __call__(self, v: NDArray[np.float64]) -> Point:
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
        return Point(v, *parts)

    def start(self, x0: ArrayLike, name: str) -> NDArray[np.float64]:
        """Return a copy of a point after checking it."""
        x = np.array(x0, dtype=np.float64)
        what = f"{name} must hold {self.n} finite numbers, one per variable"
        if x.shape != (self.n,):
            raise ValueError(f"{what}, got shape {x.shape}.")
        if not np.isfinite(x).all():
            i = int(np.argmin(np.isfinite(x)))
            raise ValueError(f"{what}, got {x[i]} at entry {i}.")
        return x
