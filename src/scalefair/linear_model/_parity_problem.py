"""Training under partial demographic parity as a DC-constrained problem."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalefair._memory import require_memory
from scalefair.linear_model._oracle import OracleValue
from scalefair.linear_model._partitioned_oracle import RowOracle
from scalefair.linear_model._weight_layout import ridge_factors
from scalefair.optimize import ConstrainedValue, DCProblem

__all__ = ["ParityProblem", "StrongParity", "WeakParity", "rank_grid"]

Array = NDArray[np.float64]
Part = tuple[Array, Array]
# Thresholds are fitted to weights up to this part of the slack, in so many passes.
_OFF_CENTRE = 0.05
_ATTEMPTS = 60
# Arrays of the size of all gradients that the solver has at once, of both parts at
# the centre, the best point and the last one; measured with cuts and all.
_COPIES = 16
# Takes multipliers of the constraints, gives weights of the rates.
Slopes = Callable[[Array], Array]


def rank_grid(interval: tuple[float, float], kappa: float, n: int) -> Array:
    """Ranks at which the strong criterion is enforced: n equidistant ones."""
    low, high = interval
    return np.linspace(low, high - kappa * (high - low), n, endpoint=False)


class ParityProblem(DCProblem):
    """Objective and constraints as differences of convex functions of v.

    The variables are the weights, then the thresholds if they are free. Function 0
    is the objective, the others are constraints, feasible at or below zero.

    Parameters
    ----------
    oracle : ScoreOracle or PartitionedOracle
        Losses and surrogate rates of the rows.
    interval : tuple of float
        Ranks ``(alpha, beta)`` within which parity is asked for.
    kappa : float
        Gap allowed.
    ridge : float
        Factor of half the squared norm of the coefficients, intercepts left out.
    """

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
        self.ridge = ridge_factors(oracle.n_weights, oracle.n_features, ridge).ravel()

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
        """Values and gradients of the convex parts."""
        return self.evaluate(v)[0]

    def minus(self, v: Array) -> Part:
        """Values and gradients of the convex functions that are subtracted."""
        return self.evaluate(v)[1]

    def evaluate(self, v: Array) -> tuple[Part, Part]:
        """Values and gradients of both parts, from one pass over the rows."""
        value = self.oracle.evaluate(self.weights(v), self.thresholds(v))
        plus, plus_gradient, minus, minus_gradient = self._constraint_parts(value)
        objective, gradient = self._convex_objective(v, value)
        concave = np.zeros(self.n_variables)
        if value.concave_gradient is not None:
            concave[: self.oracle.n_weights] = value.concave_gradient
        return (
            (np.append(objective, plus), _stacked(gradient, *plus_gradient)),
            (np.append(value.concave_loss, minus), _stacked(concave, *minus_gradient)),
        )

    def smoothed(self, v: Array, corner: float) -> ConstrainedValue:
        """Objective and constraints with the corners of the surrogate rounded."""
        value = self.oracle.evaluate(self.weights(v), self.thresholds(v), corner=corner)
        objective, gradient = self._convex_objective(v, value)
        if value.concave_gradient is not None:
            objective -= value.concave_loss
            gradient[: self.oracle.n_weights] -= value.concave_gradient
        rates = value.plus - value.minus
        constraints, slopes = self._constraints(rates)

        def pull_back(multipliers: Array) -> Array:
            weights = slopes(multipliers)
            return value.combine(weights, -weights)[: self.n_variables]

        return ConstrainedValue(objective, gradient, constraints, pull_back)

    def _convex_objective(self, v: Array, value: OracleValue) -> tuple[float, Array]:
        w = self.weights(v)
        gradient = np.zeros(self.n_variables)
        gradient[: w.size] = value.loss_gradient + self.ridge * w
        return value.loss + 0.5 * float(self.ridge @ (w * w)), gradient

    @abstractmethod
    def _constraint_parts(
        self, value: OracleValue
    ) -> tuple[Array, list[Array], Array, list[Array]]:
        """Convex parts of the constraints with gradients, then the subtracted.

        Gradients in pieces: there are many of them, and they are copied once.
        """

    @abstractmethod
    def _constraints(self, rates: Array) -> tuple[Array, Slopes]:
        """Constraints as functions of the rates, and how multipliers weigh them."""


def _stacked(objective: Array, *constraints: Array) -> Array:
    """Gradients below each other, the objective's first."""
    return np.concatenate([objective[None], *constraints])


class StrongParity(ParityProblem):
    """Problem (13): the rates at free thresholds lie between p and p + slack."""

    def __init__(
        self,
        oracle: RowOracle,
        interval: tuple[float, float],
        kappa: float,
        ridge: float,
        n_thresholds: int,
        surrogate: str,
    ) -> None:
        super().__init__(oracle, interval, kappa, ridge)
        self.ranks = rank_grid(interval, kappa, n_thresholds)
        self.surrogate = surrogate
        self.n_variables = oracle.n_weights + n_thresholds
        self.n_constraints = 2 * oracle.n_groups * n_thresholds

    def start(self) -> Array:
        # Thresholds at which scores of zero have the middle rate of [p, p + slack].
        rate = self.ranks + self.slack / 2
        ramp = self.surrogate == "ramp"
        thresholds = 0.5 - rate if ramp else np.log1p(-rate) - np.log(rate)
        return np.concatenate([np.zeros(self.oracle.n_weights), thresholds])

    def thresholds(self, v: Array) -> Array:
        return v[self.oracle.n_weights :]

    def with_thresholds(self, w: Array, theta: Array) -> Array:
        """Return variables with the weights `w`, and thresholds that suit them.

        The highest and the lowest rate above a threshold are to be in the middle of
        their bounds. Rates fall in the threshold: those at `theta` and at every
        later attempt make a table that the next attempt is interpolated in.
        """
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

    def _constraint_parts(
        self, value: OracleValue
    ) -> tuple[Array, list[Array], Array, list[Array]]:
        plus, minus = value.plus, value.minus
        n = self.n_variables
        plus_gradient = value.plus_gradient.reshape(-1, n)
        minus_gradient = value.minus_gradient.reshape(-1, n)
        # S_minus - (S_plus - p) <= 0, and S_plus - (S_minus + p + slack) <= 0
        return (
            np.concatenate([minus.ravel(), plus.ravel()]),
            [minus_gradient, plus_gradient],
            np.concatenate(
                [
                    (plus - self.ranks).ravel(),
                    (minus + self.ranks + self.slack).ravel(),
                ]
            ),
            [plus_gradient, minus_gradient],
        )

    def _constraints(self, rates: Array) -> tuple[Array, Slopes]:
        below = self.ranks - rates
        constraints = np.concatenate([below.ravel(), (-below - self.slack).ravel()])

        def slopes(multipliers: Array) -> Array:
            low, high = multipliers.reshape(2, *rates.shape)
            weights: Array = high - low
            return weights

        return constraints, slopes


class WeakParity(ParityProblem):
    """Problem (17): rates at one fixed threshold, cut to the interval, are close."""

    def __init__(
        self,
        oracle: RowOracle,
        interval: tuple[float, float],
        kappa: float,
        ridge: float,
        threshold: float,
        constant: float,
    ) -> None:
        super().__init__(oracle, interval, kappa, ridge)
        self.constant = constant
        self.threshold = np.array([threshold])
        self.n_variables = oracle.n_weights
        self.pairs = np.argwhere(~np.eye(oracle.n_groups, dtype=bool))
        self.n_constraints = len(self.pairs)

    def start(self) -> Array:
        # Any constant score is feasible. At a score of zero every group has the rate
        # 1/2 and the DC algorithm may end where all rates are beyond the interval.
        v = np.zeros(self.n_variables)
        v[self.oracle.n_features] = self.constant
        return v

    def thresholds(self, v: Array) -> Array:
        return self.threshold

    def _constraint_parts(
        self, value: OracleValue
    ) -> tuple[Array, list[Array], Array, list[Array]]:
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
