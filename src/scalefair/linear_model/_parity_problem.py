"""Partial demographic parity as a DC-constrained problem, and how it is solved."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from scalefair._digits import apart
from scalefair._memory import require_memory
from scalefair.kernels import single_blas_thread
from scalefair.linear_model._oracle import OracleValue, RowOracle
from scalefair.linear_model._weights import Array, ridge_factors
from scalefair.optimize import (
    ConstrainedValue,
    DCProblem,
    DCRecord,
    DCResult,
    augmented_lagrangian,
    direct_switching_subgradient,
    idca,
)

Part = tuple[Array, Array]
# Convex parts of the constraints with their gradients, then the subtracted ones.
ConstraintParts = tuple[Array, list[Array], Array, list[Array]]
# Thresholds are fitted to weights up to this part of the slack, in so many passes.
_OFF_CENTRE = 0.05
_ATTEMPTS = 60
# Arrays of the size of all gradients that the solver has at once, as measured.
_COPIES = 16
# Takes multipliers of the constraints, gives weights of the rates.
Slopes = Callable[[Array], Array]


def thresholds_of_zero(rates: Array, surrogate: str) -> Array:
    """Thresholds above which scores of zero have the rates."""
    if surrogate == "ramp":
        return 0.5 - rates
    return np.log1p(-rates) - np.log(rates)


class ParityProblem(DCProblem):
    """Differences of convex functions of v: the weights, then free thresholds."""

    def __init__(
        self,
        oracle: RowOracle,
        interval: tuple[float, float],
        kappa: float,
        ridge: float,
    ) -> None:
        self.oracle = oracle
        self.interval = interval
        self.slack = kappa * (interval[1] - interval[0])
        self.ridge = ridge_factors(oracle.layout, ridge).ravel()

    def require_memory(self) -> None:
        """Raise a MemoryError if the gradients of all constraints do not fit."""
        n_bytes = 8 * (self.n_constraints + 1) * self.n_variables
        require_memory(
            _COPIES * n_bytes,
            f"{self.n_constraints:,} constraints of {self.oracle.n_groups} groups in "
            f"{self.n_variables:,} variables",
            "join groups, or take fewer thresholds or features, or no interactions.",
        )

    @abstractmethod
    def start(self) -> Array:
        """Feasible variables with weights of zero."""

    @abstractmethod
    def thresholds(self, v: Array) -> Array:
        """All thresholds, free or fixed."""

    def weights(self, v: Array) -> Array:
        return v[: self.oracle.n_weights]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        """Return variables with the weights `w`, and thresholds that suit them."""
        return w

    def plus(self, v: Array) -> Part:
        return self.evaluate(v)[0]

    def minus(self, v: Array) -> Part:
        return self.evaluate(v)[1]

    def evaluate(self, v: Array) -> tuple[Part, Part]:
        """Values and gradients of both parts, from one pass over the rows."""
        value = self.oracle.evaluate(self.weights(v), self.thresholds(v))
        plus, plus_gradient, minus, minus_gradient = self._constraint_parts(value)
        objective, gradient = value.convex_objective(self.weights(v), self.ridge)
        free = np.zeros(self.n_variables - gradient.size)  # in the thresholds
        gradient, concave = (
            np.append(slope, free) for slope in (gradient, value.concave_gradient)
        )
        return (
            (np.append(objective, plus), np.vstack([gradient, *plus_gradient])),
            (
                np.append(value.concave_loss, minus),
                np.vstack([concave, *minus_gradient]),
            ),
        )

    def smoothed(self, v: Array, corner: float) -> ConstrainedValue:
        """Objective and constraints with the corners of the surrogate rounded."""
        value = self.oracle.evaluate(self.weights(v), self.thresholds(v), corner=corner)
        objective, gradient = value.convex_objective(self.weights(v), self.ridge)
        objective -= value.concave_loss
        gradient -= value.concave_gradient
        gradient = np.append(gradient, np.zeros(self.n_variables - gradient.size))
        rates = value.plus - value.minus
        constraints, slopes = self._constraints(rates)

        def pull_back(multipliers: Array) -> Array:
            weights = slopes(multipliers)
            return value.combine(weights, -weights)[: self.n_variables]

        return ConstrainedValue(objective, gradient, constraints, pull_back)

    @abstractmethod
    def _constraint_parts(self, value: OracleValue) -> ConstraintParts: ...

    @abstractmethod
    def _constraints(self, rates: Array) -> tuple[Array, Slopes]:
        """Constraints as functions of the rates, and how multipliers weigh them."""


class StrongParity(ParityProblem):
    """Problem (13): rates at free thresholds lie between ranks p and p + slack."""

    def __init__(self, *common: Any, n_thresholds: int, surrogate: str) -> None:
        super().__init__(*common)
        low, high = self.interval
        self.ranks = np.linspace(low, high - self.slack, n_thresholds, endpoint=False)
        self.surrogate = surrogate
        oracle = self.oracle
        self.n_variables = oracle.n_weights + n_thresholds
        self.n_constraints = 2 * oracle.n_groups * n_thresholds

    def start(self) -> Array:
        middle = self.ranks + self.slack / 2  # of [p, p + slack]
        thresholds = thresholds_of_zero(middle, self.surrogate)
        return np.append(np.zeros(self.oracle.n_weights), thresholds)

    def thresholds(self, v: Array) -> Array:
        return v[self.oracle.n_weights :]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        # The highest and the lowest rate above a threshold are to be in the middle of
        # their bounds. Rates fall in the threshold: those at `theta` and at every
        # later attempt make a table that the next attempt is interpolated in.
        wanted = self.ranks + self.slack / 2
        known = np.empty((2, 0))  # rates, thresholds
        step = 1.0
        for _ in range(_ATTEMPTS):
            value = self.oracle.evaluate(w, theta)
            rates = value.plus - value.minus
            middle = (rates.max(axis=0) + rates.min(axis=0)) / 2
            if theta.size == wanted.size and (
                np.abs(middle - wanted).max() <= _OFF_CENTRE * self.slack
            ):
                break
            known = np.hstack([known, [middle, theta]])
            known = known[:, np.lexsort((-known[1], known[0]))]
            theta = np.interp(wanted, *known)
            theta[wanted > known[0, -1]] = known[1].min() - step
            theta[wanted < known[0, 0]] = known[1].max() + step
            step *= 2
        return np.concatenate([w, theta])

    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        plus, minus = value.plus, value.minus
        n = self.n_variables
        plus_gradient = value.plus_gradient.reshape(-1, n)
        minus_gradient = value.minus_gradient.reshape(-1, n)
        # S_minus - (S_plus - p) <= 0, and S_plus - (S_minus + p + slack) <= 0
        return (
            np.append(minus, plus),
            [minus_gradient, plus_gradient],
            np.append(plus - self.ranks, minus + self.ranks + self.slack),
            [plus_gradient, minus_gradient],
        )

    def _constraints(self, rates: Array) -> tuple[Array, Slopes]:
        below = self.ranks - rates
        constraints = np.append(below, -below - self.slack)

        def slopes(multipliers: Array) -> Array:
            low, high = multipliers.reshape(2, *rates.shape)
            weights: Array = high - low
            return weights

        return constraints, slopes


class WeakParity(ParityProblem):
    """Problem (17): rates at one fixed threshold, cut to the interval, are close."""

    def __init__(self, *common: Any, threshold: float, constant: float) -> None:
        super().__init__(*common)
        self.constant = constant
        self.threshold = np.array([threshold])
        self.n_variables = self.oracle.n_weights
        self.pairs = np.argwhere(~np.eye(self.oracle.n_groups, dtype=bool))
        self.n_constraints = len(self.pairs)

    def start(self) -> Array:
        # Any constant score is feasible. At a score of zero every group has the rate
        # 1/2 and the DC algorithm may end where all rates are beyond the interval.
        v = np.zeros(self.n_variables)
        v[self.oracle.n_features] = self.constant
        return v

    def thresholds(self, v: Array) -> Array:
        return self.threshold

    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        n = self.n_variables
        plus, minus = value.plus[:, 0], value.minus[:, 0]
        plus_gradient = value.plus_gradient[:, 0, :n]
        minus_gradient = value.minus_gradient[:, 0, :n]

        def upper(bound: float) -> tuple[Array, Array]:
            """M_k(a) = max(S_minus + a, S_plus), so that min(S, a) = S_plus + a - M."""
            first = minus + bound > plus
            return (
                np.where(first, minus + bound, plus),
                np.where(first[:, None], minus_gradient, plus_gradient),
            )

        (low, low_gradient), (high, high_gradient) = map(upper, self.interval)
        k, other = self.pairs.T
        return (
            low[k] + high[other],
            [low_gradient[k] + high_gradient[other]],
            high[k] + low[other] + self.slack,
            [high_gradient[k] + low_gradient[other]],
        )

    def _constraints(self, rates: Array) -> tuple[Array, Slopes]:
        low, high = self.interval
        rate = rates[:, 0]
        within = np.clip(rate, low, high)  # min(S, beta) - min(S, alpha) + alpha
        k, other = self.pairs.T

        def slopes(multipliers: Array) -> Array:
            weights = np.zeros(rate.size)
            np.add.at(weights, k, multipliers)
            np.subtract.at(weights, other, multipliers)
            return np.where((rate > low) & (rate < high), weights, 0.0)[:, None]

        return within[k] - within[other] - self.slack, slopes


# Corners of the ramp are rounded over this much to both sides, to treat it as smooth.
_CORNER = 0.05
# Of the paper: subgradient steps per subproblem, and accuracy of the subproblems.
_STEPS, _EPSILON = 150, 2e-3
# Parts of the tolerance to which the smoothed problem is solved, as its corners add to
# the violation, and to which the gradient of its Lagrangian is to fall.
_MARGIN, _STATIONARY = 0.1, 0.5
# Change of the objective, as a share, after which rounds end, and steps of a round.
_SETTLED, _INNER = 1e-4, 80


@single_blas_thread()  # Matrices are small here: threads would wait for each other.
def solve(
    problem: ParityProblem,
    v0: Array | None,
    *,
    multipliers: Array | None,
    smooth: bool,
    inner_solver: str,
    tol: float,
    max_iter: int,
    n_calls: int,
) -> DCResult:
    """Solve a problem from `v0`, or from weights of zero, after `n_calls` calls."""
    # With `smooth` an augmented Lagrangian goes first, unless `v0` is feasible. The DC
    # algorithm keeps what is feasible, as weights of zero are: it starts there if what
    # it would start from violates the constraints by more than `tol`.
    v = problem.start() if v0 is None else v0
    records: list[DCRecord] = []
    if v0 is not None:
        feasible = _violation(problem, v0) <= tol
        n_calls += 1
        if not feasible and not smooth:
            v = problem.start()  # the DC algorithm keeps violations
        smooth = smooth and not feasible
    if smooth:
        found = augmented_lagrangian(
            lambda x: problem.smoothed(x, _CORNER),
            v,
            multipliers=multipliers,
            tol=_MARGIN * tol,
            stationarity=_STATIONARY * tol,
            settled=_SETTLED,
            max_iter=20,
            max_inner=_INNER,
        )
        records = [
            DCRecord(objective, infeasibility, np.nan, calls + n_calls)
            for objective, infeasibility, calls in found.history
        ]
        v = found.x if found.infeasibility <= tol else problem.start()
    if inner_solver == "direct":
        result = direct_switching_subgradient(
            problem, v, max_iter=_STEPS * max_iter, eps=_EPSILON, tol=tol
        )
    else:
        options: dict[str, Any] = {"tol": tol, "max_iter": max_iter}
        if inner_solver == "ssg":
            options |= {"inner": "switching_subgradient", "eps": _EPSILON}
        result = idca(problem, v, **options)
    before = records[-1].n_calls if records else n_calls
    records += [replace(r, n_calls=r.n_calls + before) for r in result.history]
    remedy = "Raise max_iter or tol."
    if inner_solver != "bundle":
        remedy = 'Raise max_iter or tol, or take inner_solver="bundle".'
    elif result.n_iter < max_iter:
        remedy = "No step improves it: raise tol."
    return replace(
        result,
        n_calls=result.n_calls + before,
        history=records,
        converged=result.converged and result.infeasibility <= tol,
        message=remedy,
    )


def warn_unfinished(found: DCResult, tol: float, *, stacklevel: int) -> None:
    """Warn if what was found is not certified to `tol`."""
    if not found.converged:
        warnings.warn(
            f"Training stopped after {found.n_iter} iterations with a nearly-KKT "
            f"residual of {apart(found.kkt_residual, tol)} and a violation of "
            f"{apart(max(found.infeasibility, 0.0), tol)} (tol={tol:g}). "
            f"{found.message}",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def _violation(problem: ParityProblem, v: Array) -> float:
    (plus, _), (minus, _) = problem.evaluate(v)
    return float((plus - minus)[1:].max())


def given_start(problem: ParityProblem, rows: Any, tol: float) -> Array:
    """Variables for weights given as rows of coefficients and intercept."""
    w = np.asarray(rows, dtype=np.float64)
    expected = problem.oracle.layout.shape
    if w.shape != expected or not np.isfinite(w).all():
        raise ValueError(
            f"start must hold finite rows of coefficients and intercept, of shape "
            f"{expected}, got shape {w.shape}."
        )
    w = v = problem.oracle.layout.parameters(w)
    if isinstance(problem, StrongParity):
        theta = np.quantile(problem.oracle.scores(w), 1 - problem.ranks)
        v = problem.with_thresholds(w, theta)
    violation = _violation(problem, v)
    if violation > tol:
        raise ValueError(
            f"start violates a fairness constraint by {apart(violation, tol)} "
            f"(tol={tol:g}): rates may differ by {problem.slack:.3g}. Give fairer "
            'weights, or start="auto".'
        )
    return v
