"""Partial demographic parity as a problem with differences of convex functions.

The rate S_k(theta) of set k is the share of its scores above the threshold theta,
smoothed by a ramp or a sigmoid of some width: S_k = S_plus - S_minus, both convex.
Problems (13) and (17) of He, Huang, Yao and Lin bound the differences of rates within
the interval (alpha, beta) of ranks by the slack kappa (beta - alpha).

A problem serves two solvers. The DC algorithm takes both convex parts of the objective
and of each constraint, with all their gradients (`evaluate`). The augmented Lagrangian
takes the functions themselves, with corners rounded, and weighted sums of gradients
(`smoothed`), for which no gradient of a single constraint is formed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from scalefair._memory import require_memory
from scalefair._messages import format_distinct
from scalefair.linear_model._oracle import OracleValue, RowOracle
from scalefair.linear_model._weights import Array
from scalefair.optimize import ConstrainedValue, DCProblem

Part = tuple[Array, Array]
# Convex parts of the constraints with their gradients, then the subtracted ones.
ConstraintParts = tuple[Array, list[Array], Array, list[Array]]
# Arrays of the size of all gradients that the solver has at once, as measured.
WORKSPACE_FACTOR = 16
# Takes multipliers of the constraints, returns weights of the rates.
RateWeights = Callable[[Array], Array]


def thresholds_of_zero(rates: Array, surrogate: str) -> Array:
    """Thresholds theta of width 1 at which scores of zero have the rates.

    They solve ramp(-theta) = rate with ramp(t) = clip(t + 1/2, 0, 1), or
    1 / (1 + exp(theta)) = rate for the sigmoid.
    """
    if surrogate == "ramp":
        return 0.5 - rates
    return np.log1p(-rates) - np.log(rates)


class ParityProblem(DCProblem):
    """Differences of convex functions of v: the weights, then free thresholds.

    The objective comes first, then the constraints ``<= 0``. The sets of a family are
    compared with each other, at thresholds of the family. The objective is the mean
    loss plus half of `ridge` times the squares of the weights.
    """

    n_thresholds = 1  # of each family, one for each rank

    def __init__(
        self,
        oracle: RowOracle,
        interval: tuple[float, float],
        kappa: float,
        ridge: Array,
        constant: float,
    ) -> None:
        self.oracle = oracle
        self.constant = constant  # best score that is the same for all rows
        self.interval = interval
        self.n_families = oracle.compared.n_families
        self.n_sets = oracle.compared.n_sets
        self.ridge = ridge.ravel()
        self._set_surrogate(kappa, 1.0)

    def _set_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> None:
        """Set what depends on the surrogate, of a new problem or of a copy."""
        self.kappa, self.width = kappa, width  # the width is in units of the scores
        self.slack = kappa * (self.interval[1] - self.interval[0])  # of the rates

    def with_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> Self:
        """Return the problem with another kappa and width, and `n_ranks` if not 0.

        The weak criterion has no ranks.
        """
        other = copy(self)
        other._set_surrogate(kappa, width, n_ranks)
        return other

    def require_memory(self) -> None:
        """Raise a MemoryError if the gradients of all constraints do not fit.

        Of numbers of 8 bytes: those of the constraints and of the objective in all
        variables and, of several families, those of the rates of each cell.
        """
        n_bytes = WORKSPACE_FACTOR * 8 * (self.n_constraints + 1) * self.n_variables
        layout = self.oracle.layout
        if self.n_families > 1:  # gradients of combinations, of which there may be many
            n_slopes = self.n_constraints // self.n_sets * (layout.n_features + 1)
            n_bytes += WORKSPACE_FACTOR * 8 * layout.n_cells * n_slopes
        require_memory(
            n_bytes,
            f"{self.n_constraints:,} constraints of {layout.n_groups} groups in "
            f"{self.n_variables:,} variables",
            "join groups, or take a larger kappa, fewer thresholds or features, or no "
            "interactions.",
        )

    @cached_property
    def constant_objective(self) -> float:
        """Objective of the best constant scores."""
        v = self.start()
        v[self.oracle.n_features] = self.constant
        return self.smoothed(v, 0.0).objective

    @property
    def gain_by_chance(self) -> float:
        """Decrease of the objective that meaningless features would give.

        1/m for each weight [Akaike 1974]; of many weights, of which that does not hold,
        the standard error of a mean, 1/sqrt(m). The shared intercept is not counted:
        constant scores have it, too.
        """
        m = self.oracle.n_effective
        return float(min(self.oracle.n_weights - 1, m**0.5) / m)

    @abstractmethod
    def start(self) -> Array:
        """Feasible variables with weights of zero."""

    @abstractmethod
    def thresholds(self, v: Array) -> Array:
        """All thresholds, free or fixed."""

    def weights(self, v: Array) -> Array:
        """Parameters w of the scores, in the layout's units (a view)."""
        return v[: self.oracle.n_weights]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        """Return variables with the weights, and thresholds that fit them.

        The free thresholds are searched from `theta`; a fixed one is no variable.
        """
        return w

    def plus(self, v: Array) -> Part:
        return self.evaluate(v)[0]

    def minus(self, v: Array) -> Part:
        return self.evaluate(v)[1]

    def _value(self, v: Array, corner: float = 0.0) -> OracleValue:
        """Loss and rates at the variables: one call of the oracle."""
        return self.oracle.evaluate(
            self.weights(v), self.thresholds(v), width=self.width, corner=corner
        )

    def evaluate(self, v: Array) -> tuple[Part, Part]:
        """Values and gradients of both parts, from one pass over the rows."""
        value = self._value(v)
        plus, plus_gradient, minus, minus_gradient = self._constraint_parts(value)
        objective, gradient = value.convex_objective(self.weights(v), self.ridge)
        # The objective does not depend on the free thresholds.
        free = np.zeros(self.n_variables - gradient.size)
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
        """Objective and constraints, corners of ramps rounded over +-corner * width.

        They are smooth then, as L-BFGS needs; without rounding they are those of
        `evaluate`, the minus parts subtracted.
        """
        value = self._value(v, corner)
        # 1. The objective, less its concave part; free thresholds do not change it.
        objective, gradient = value.convex_objective(self.weights(v), self.ridge)
        objective -= value.concave_loss
        gradient -= value.concave_gradient
        gradient = np.append(gradient, np.zeros(self.n_variables - gradient.size))
        # 2. The constraints, functions of the rates: a weighted sum of their gradients
        # is one of the rates' gradients.
        rates = value.plus - value.minus
        constraints, rate_weights = self._constraints(rates)

        def pull_back(multipliers: Array) -> Array:
            # A fixed threshold, the weak criterion's, is no variable: its derivative,
            # which comes last, is cut off.
            weights = rate_weights(multipliers)
            return value.combine(weights, -weights)[: self.n_variables]

        return ConstrainedValue(objective, gradient, constraints, pull_back)

    @abstractmethod
    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        """Constraints as differences of convex parts, with their gradients.

        Gradients are lists of blocks of rows, which `evaluate` stacks.
        """

    @abstractmethod
    def _constraints(self, rates: Array) -> tuple[Array, RateWeights]:
        """Constraints from the rates (S, P) of sets, and their derivative's adjoint.

        It takes multipliers (n_constraints,) and returns weights (S, P) of the rates.
        """


class StrongParity(ParityProblem):
    """Problem (13): p <= S_k(theta_p) <= p + slack at free thresholds theta_p.

    The ranks p are equally spaced in [alpha, beta - slack). Thresholds are those of one
    family of sets after the other. Rates are (n_sets, n_thresholds). As the rate of
    each set is within [p, p + slack], those of two sets differ by the slack at most.
    """

    def __init__(self, *common: Any, n_thresholds: int, surrogate: str) -> None:
        self.n_thresholds = n_thresholds
        self.surrogate = surrogate
        super().__init__(*common)

    def _set_surrogate(self, kappa: float, width: float, n_ranks: int = 0) -> None:
        """Set kappa and the width, and the ranks, which leave room for the slack."""
        super()._set_surrogate(kappa, width)
        self.n_thresholds = n_ranks or self.n_thresholds
        alpha, end = self.interval[0], self.interval[1] - self.slack
        self.ranks = np.linspace(alpha, end, self.n_thresholds, endpoint=False)
        n_free = self.n_families * self.n_thresholds
        self.n_variables = self.oracle.n_weights + n_free
        self.n_constraints = 2 * self.n_sets * self.n_thresholds

    def start(self) -> Array:
        """Weights of zero, and the thresholds at which all rates are feasible."""
        middle = self.ranks + self.slack / 2  # of [p, p + slack]
        thresholds = self.width * thresholds_of_zero(middle, self.surrogate)
        thresholds = np.tile(thresholds, self.n_families)
        return np.append(np.zeros(self.oracle.n_weights), thresholds)

    def thresholds(self, v: Array) -> Array:
        return v[self.oracle.n_weights :]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        """Choose thresholds at which the rates are in the middle of their bounds.

        A search for the roots of decreasing functions, for all ranks at once: each step
        is a call of the oracle.
        """
        # Step 1: the targets. At the threshold of a rank the middle of the highest and
        # the lowest rate of a family is to be the middle of [p, p + slack].
        targets = self.ranks + self.slack / 2
        # Thresholds for other ranks may be those of one family, the same for all.
        n_ranks = targets.size
        if theta.size != self.n_families * n_ranks:
            n_ranks = theta.size
        theta = theta.reshape(-1, n_ranks)
        theta = np.broadcast_to(theta, (self.n_families, n_ranks))
        # Invariant: the table of a family has all its points so far, by rising rate.
        tables = [np.empty((2, 0)) for _ in theta]  # rates and thresholds of a family
        first_set, extension = self.oracle.compared.first, 1.0
        # The middle may jump over a target. Then the steps end at their limit, and the
        # thresholds may violate constraints.
        for _ in range(60):
            # Step 2: the rates at the thresholds.
            value = self.oracle.evaluate(w, theta.ravel(), width=self.width)
            rates = value.plus - value.minus
            highest = np.maximum.reduceat(rates, first_set)
            middle = (highest + np.minimum.reduceat(rates, first_set)) / 2
            # A twentieth of the slack is close enough to the middle of the bounds.
            if theta.shape[1] == targets.size and (
                np.abs(middle - targets).max() <= 0.05 * self.slack
            ):
                break
            # Step 3: interpolate. Rates fall in the threshold: a table of all that were
            # evaluated, sorted by rate, is inverted at the targets. For a target beyond
            # its ends the threshold goes beyond, by steps that double.
            guesses = []
            for family, points in enumerate(zip(middle, theta, strict=True)):
                table = np.hstack([tables[family], points])
                tables[family] = table = table[:, np.lexsort((-table[1], table[0]))]
                guess = np.interp(targets, *table)
                guess[targets > table[0, -1]] = table[1].min() - extension
                guess[targets < table[0, 0]] = table[1].max() + extension
                guesses.append(guess)
            theta = np.array(guesses)
            extension *= 2
        return np.append(w, theta)

    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        """Return the lower bounds on all rates, then the upper ones."""
        plus, minus, n = value.plus, value.minus, self.n_variables
        plus_gradient = value.plus_gradient.reshape(-1, n)
        minus_gradient = value.minus_gradient.reshape(-1, n)
        # Each constraint is a difference of convex parts:
        # S_minus - (S_plus - p) <= 0, and S_plus - (S_minus + p + slack) <= 0.
        return (
            np.append(minus, plus),
            [minus_gradient, plus_gradient],
            np.append(plus - self.ranks, minus + self.ranks + self.slack),
            [plus_gradient, minus_gradient],
        )

    def _constraints(self, rates: Array) -> tuple[Array, RateWeights]:
        """Return the same bounds; a multiplier of an upper one weighs its rate."""
        below = self.ranks - rates  # p - S <= 0, then S - p - slack <= 0
        constraints = np.append(below, -below - self.slack)

        def rate_weights(multipliers: Array) -> Array:
            low, high = multipliers.reshape(2, *below.shape)
            weights: Array = high - low
            return weights

        return constraints, rate_weights


class WeakParity(ParityProblem):
    """Problem (17): A_k - A_other <= slack for each ordered pair of a family.

    A_k = min(S_k, beta) - min(S_k, alpha) is the rate at one fixed threshold, cut to
    the interval.
    """

    def __init__(self, *common: Any, threshold: float) -> None:
        super().__init__(*common)
        self.threshold = np.full(self.n_families, threshold)
        self.n_variables = self.oracle.n_weights
        family = self.oracle.compared.family
        same_family = family[:, None] == family
        self.pairs = np.argwhere(same_family & ~np.eye(self.n_sets, dtype=bool))
        self.n_constraints = len(self.pairs)

    def start(self) -> Array:
        """Return the weights of the best constant score."""
        # Any constant score is feasible. At a score of zero every group has the rate
        # 1/2 and the DC algorithm may end where all rates are beyond the interval.
        v = np.zeros(self.n_variables)
        v[self.oracle.n_features] = self.constant
        return v

    def thresholds(self, v: Array) -> Array:
        return self.threshold

    def _constraint_parts(self, value: OracleValue) -> ConstraintParts:
        """Return a constraint for each ordered pair of sets of a family."""
        n = self.n_variables
        plus, minus = value.plus[:, 0], value.minus[:, 0]
        plus_gradient = value.plus_gradient[:, 0, :n]
        minus_gradient = value.minus_gradient[:, 0, :n]

        # With M_k(a) = max(S_minus + a, S_plus) the cut rate min(S_k, a) is
        # S_plus + a - M_k(a).
        def maximum(bound: float) -> tuple[Array, Array]:
            """M_k of each set and its gradient."""
            # A subgradient of a maximum is one of the larger function.
            is_minus = minus + bound > plus
            return (
                np.where(is_minus, minus + bound, plus),
                np.where(is_minus[:, None], minus_gradient, plus_gradient),
            )

        # A_k = beta - alpha + M_k(alpha) - M_k(beta): the constraint of a pair is
        # M_k(alpha) + M_other(beta) - (M_k(beta) + M_other(alpha) + slack) <= 0.
        (low, low_gradient), (high, high_gradient) = map(maximum, self.interval)
        k, other = self.pairs.T
        return (
            low[k] + high[other],
            [low_gradient[k] + high_gradient[other]],
            high[k] + low[other] + self.slack,
            [high_gradient[k] + low_gradient[other]],
        )

    def _constraints(self, rates: Array) -> tuple[Array, RateWeights]:
        """Return the same; a multiplier weighs the two rates of its pair.

        By 1 that of k, and by -1 that of the other set.
        """
        low, high = self.interval
        rate = rates[:, 0]
        within = np.clip(rate, low, high)  # A + alpha
        k, other = self.pairs.T

        def rate_weights(multipliers: Array) -> Array:
            weights = np.zeros(rate.size)
            np.add.at(weights, k, multipliers)
            np.subtract.at(weights, other, multipliers)
            # The clipped rate is constant outside of the interval.
            return np.where((rate > low) & (rate < high), weights, 0.0)[:, None]

        return within[k] - within[other] - self.slack, rate_weights


def violation_at(problem: ParityProblem, v: Array) -> float:
    """Largest value of a constraint, negative if all are inactive."""
    (plus, _), (minus, _) = problem.evaluate(v)
    return float((plus - minus)[1:].max())


def with_slack(problem: ParityProblem, v: Array, slack: float) -> tuple[Any, Array]:
    """Raise kappa until all constraints are below zero, by about `slack`.

    Return the problem, and variables strictly inside: at a point without feasible
    directions the multipliers may be unbounded.
    """
    length = problem.interval[1] - problem.interval[0]
    # The slack of the rates is kappa times the length. New thresholds, in the middle of
    # the wider bounds, may violate others: repeat.
    while (violation := violation_at(problem, v)) >= 0 and problem.kappa < 1:
        kappa = problem.kappa + (violation + slack) / length
        w, thresholds = problem.weights(v), np.array(problem.thresholds(v))
        problem = problem.with_surrogate(min(kappa, 1.0), problem.width)
        v = problem.with_thresholds(w, thresholds)
    return problem, v


def check_start(problem: ParityProblem, rows: Any, tol: float) -> Part:
    """Return weights from rows of coefficients and intercept, and their thresholds."""
    w = np.asarray(rows, dtype=np.float64)
    expected = problem.oracle.layout.shape
    if w.shape != expected or not np.isfinite(w).all():
        raise ValueError(
            f"start must hold finite rows of coefficients and intercept, of shape "
            f"{expected}, got shape {w.shape}."
        )
    w = v = problem.oracle.layout.parameters(w)
    if isinstance(problem, StrongParity):
        theta = problem.oracle.quantiles(w, 1 - problem.ranks)
        v = problem.with_thresholds(w, theta)
    violation = violation_at(problem, v)
    if violation > tol:
        raise ValueError(
            "start violates a fairness constraint by "
            f"{format_distinct(violation, tol)} (tol={tol:g}): rates may differ "
            f"by {problem.slack:.3g}. Give fairer "
            'weights, or start="auto".'
        )
    return problem.weights(v), np.array(problem.thresholds(v))
