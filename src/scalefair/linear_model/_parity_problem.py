"""Partial demographic parity as a DC-constrained problem, and how it is solved."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from scalefair._memory import require_memory
from scalefair._messages import apart
from scalefair.linear_model._oracle import OracleValue, RowOracle
from scalefair.linear_model._weights import Array
from scalefair.optimize import ConstrainedValue, DCProblem

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

    n_thresholds = 1  # ranks of each family of sets

    def __init__(
        self,
        oracle: RowOracle,
        interval: tuple[float, float],
        kappa: float,
        ridge: Array,
        constant: float,
    ) -> None:
        self.oracle = oracle
        self.constant = constant  # the best score if all rows have the same
        self.interval = interval
        self.n_families = oracle.compared.n_families
        self.n_sets = oracle.compared.n_sets
        self.ridge = ridge.ravel()
        self._set_surrogate(kappa, 1.0)

    def _set_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> None:
        self.kappa, self.width = kappa, width  # bound and width, in scores
        self.slack = kappa * (self.interval[1] - self.interval[0])

    def with_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> Self:
        """Return the problem with another bound and width, and other ranks if any."""
        other = copy(self)
        other._set_surrogate(kappa, width, n_ranks)
        return other

    def require_memory(self) -> None:
        """Raise a MemoryError if the gradients of all constraints do not fit."""
        n_bytes = _COPIES * 8 * (self.n_constraints + 1) * self.n_variables
        layout = self.oracle.layout
        if self.n_families > 1:  # gradients of combinations, of which there may be many
            n_slopes = self.n_constraints // self.n_sets * (layout.n_features + 1)
            n_bytes += _COPIES * 8 * layout.n_cells * n_slopes
        require_memory(
            n_bytes,
            f"{self.n_constraints:,} constraints of {self.oracle.n_groups} groups in "
            f"{self.n_variables:,} variables",
            "join groups, or take fewer thresholds or features, or no interactions.",
        )

    @cached_property
    def constant_objective(self) -> float:
        """Objective of constant scores, which are fair and of no use."""
        v = self.start()
        v[self.oracle.n_features] = self.constant
        return self.smoothed(v, 0.0).objective

    @property
    def gain_by_chance(self) -> float:
        """How much less than the constant's may be a loss that means nothing.

        1/m for each weight [Akaike 1974]; of many weights, of which that does not hold,
        the standard error of a mean, 1/sqrt(m).
        """
        m = float(self.oracle.cell_sizes.sum())
        return float(min(self.oracle.n_weights - 1, m**0.5) / m)

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

    def _value(self, v: Array, corner: float = 0.0) -> OracleValue:
        return self.oracle.evaluate(
            self.weights(v), self.thresholds(v), width=self.width, corner=corner
        )

    def evaluate(self, v: Array) -> tuple[Part, Part]:
        """Values and gradients of both parts, from one pass over the rows."""
        value = self._value(v)
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
        value = self._value(v, corner)
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
        """Constraints from the rates of sets, and how multipliers weigh these."""


class StrongParity(ParityProblem):
    """Problem (13): rates at free thresholds lie between ranks p and p + slack."""

    # Each family of sets has thresholds of its own, one family after the other.

    def __init__(self, *common: Any, n_thresholds: int, surrogate: str) -> None:
        self.n_thresholds = n_thresholds
        self.surrogate = surrogate
        super().__init__(*common)

    def _set_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> None:
        super()._set_surrogate(kappa, width)
        self.n_thresholds = n_ranks or self.n_thresholds
        low, end = self.interval[0], self.interval[1] - self.slack
        self.ranks = np.linspace(low, end, self.n_thresholds, endpoint=False)
        n_free = self.n_families * self.n_thresholds
        self.n_variables = self.oracle.n_weights + n_free
        self.n_constraints = 2 * self.n_sets * self.n_thresholds

    def start(self) -> Array:
        middle = self.ranks + self.slack / 2  # of [p, p + slack]
        thresholds = self.width * thresholds_of_zero(middle, self.surrogate)
        thresholds = np.tile(thresholds, self.n_families)
        return np.append(np.zeros(self.oracle.n_weights), thresholds)

    def thresholds(self, v: Array) -> Array:
        return v[self.oracle.n_weights :]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        # The highest and the lowest rate above a threshold are to be in the middle of
        # their bounds. Rates fall in the threshold: those at `theta` and at every
        # later attempt make a table that the next attempt is interpolated in.
        wanted = self.ranks + self.slack / 2
        n_own = self.n_families * wanted.size
        shape = self.n_families, theta.size if theta.size != n_own else wanted.size
        theta = np.broadcast_to(theta.reshape(-1, shape[1]), shape)
        known = [np.empty((2, 0)) for _ in theta]  # rates, thresholds
        first, step = self.oracle.compared.first, 1.0
        for _ in range(_ATTEMPTS):
            value = self.oracle.evaluate(w, theta.ravel(), width=self.width)
            rates = value.plus - value.minus
            highest = np.maximum.reduceat(rates, first)
            middle = (highest + np.minimum.reduceat(rates, first)) / 2
            is_own = theta.shape[1] == wanted.size
            if is_own and np.abs(middle - wanted).max() <= _OFF_CENTRE * self.slack:
                break
            guesses = []
            for family, own in enumerate(zip(middle, theta, strict=True)):
                table = np.hstack([known[family], own])
                known[family] = table = table[:, np.lexsort((-table[1], table[0]))]
                guess = np.interp(wanted, *table)
                guess[wanted > table[0, -1]] = table[1].min() - step
                guess[wanted < table[0, 0]] = table[1].max() + step
                guesses.append(guess)
            theta = np.array(guesses)
            step *= 2
        return np.append(w, theta)

    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        plus, minus, n = value.plus, value.minus, self.n_variables
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
            low, high = multipliers.reshape(2, *below.shape)
            weights: Array = high - low
            return weights

        return constraints, slopes


class WeakParity(ParityProblem):
    """Problem (17): rates at one fixed threshold, cut to the interval, are close."""

    def __init__(self, *common: Any, threshold: float) -> None:
        super().__init__(*common)
        self.threshold = np.full(self.n_families, threshold)
        self.n_variables = self.oracle.n_weights
        family = self.oracle.compared.family
        together = family[:, None] == family
        self.pairs = np.argwhere(together & ~np.eye(self.n_sets, dtype=bool))
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


def violation_at(problem: ParityProblem, v: Array) -> float:
    """Largest violation of a constraint."""
    (plus, _), (minus, _) = problem.evaluate(v)
    return float((plus - minus)[1:].max())


def with_room(problem: ParityProblem, v: Array, room: float) -> tuple[Any, Array]:
    """Raise the bound until no constraint is violated or tight; return the variables.

    Where there is no way into the allowed ones, multipliers may be without bound.
    """
    length = problem.interval[1] - problem.interval[0]
    while (violation := violation_at(problem, v)) >= 0 and problem.kappa < 1:
        kappa = problem.kappa + (violation + room) / length
        w, thresholds = problem.weights(v), np.array(problem.thresholds(v))
        problem = problem.with_surrogate(min(kappa, 1.0), problem.width)
        v = problem.with_thresholds(w, thresholds)
    return problem, v


def given_start(problem: ParityProblem, rows: Any, tol: float) -> Part:
    """Weights from rows of coefficients and intercept, and thresholds for them."""
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
    violation = violation_at(problem, v)
    if violation > tol:
        raise ValueError(
            f"start violates a fairness constraint by {apart(violation, tol)} "
            f"(tol={tol:g}): rates may differ by {problem.slack:.3g}. Give fairer "
            'weights, or start="auto".'
        )
    return problem.weights(v), np.array(problem.thresholds(v))
