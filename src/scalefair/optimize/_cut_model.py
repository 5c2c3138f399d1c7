"""Cutting planes of convex functions and the dual of their proximal subproblem."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair.optimize._dc_problem import Point
from scalefair.optimize._metric import Metric
from scalefair.optimize._simplex_quadratic import maximize_quadratic_on_simplex

__all__ = ["CutModel", "Cuts"]

_NEWTON_STEPS = 30
_HALVINGS = 30


class Cuts:
    """Affine minorants of the plus parts, which hold wherever the centre is.

    Parameters
    ----------
    n : int
        Number of variables.

    Attributes
    ----------
    slopes : ndarray of shape (n_cuts, n)
    offsets : ndarray of shape (n_cuts,)
        Heights of the cuts at `centre`.
    owners : ndarray of shape (n_cuts,)
        Index of the function below which the cut lies.
    weights : ndarray of shape (n_cuts,)
        Multipliers that the last subproblem gave.
    centre : ndarray of shape (n,)
    """

    def __init__(self, n: int) -> None:
        self.slopes = np.empty((0, n))
        self.offsets = np.empty(0)
        self.owners = np.empty(0, dtype=np.intp)
        self.weights = np.empty(0)
        self.centre = np.zeros(n)

    def move(self, centre: NDArray[np.float64]) -> None:
        self.offsets = self.offsets + self.slopes @ (centre - self.centre)
        self.centre = centre

    def add(self, point: Point, functions: NDArray[np.intp]) -> None:
        """Tangents of the given functions at a point."""
        slopes = point.plus_jacobian[functions]
        heights = point.plus[functions] - slopes @ (point.x - self.centre)
        self.slopes = np.concatenate([self.slopes, slopes])
        self.offsets = np.concatenate([self.offsets, heights])
        self.owners = np.concatenate([self.owners, functions])
        self.weights = np.concatenate([self.weights, np.zeros(functions.size)])

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        self.slopes, self.offsets = self.slopes[chosen], self.offsets[chosen]
        self.owners, self.weights = self.owners[chosen], self.weights[chosen]

    def prune(self, newest: int) -> None:
        """Drop the cuts without multiplier, but for the newest ones."""
        chosen = self.weights > 0
        chosen[max(chosen.size - newest, 0) :] = True
        if not (self.owners[chosen] == 0).any():
            chosen |= self.owners == 0
        self.keep(chosen)


class CutModel:
    r"""Proximal subproblem with all plus parts replaced by their cuts.

    With the minus parts linearised at the centre c, d = v - c and a common weight,

        minimise   max_j (b_j + G_j d) + mu/2 |d|^2    over the objective's cuts
        subject to b_j + G_j d + mu/2 |d|^2 <= 0       for the constraints' cuts.

    Its dual, for weights l >= 0 that sum to 1 over the objective's cuts, is

        maximise   b l - |G^T l|^2 / (2 mu (1 + sum of the constraints' weights))

    and every l bounds the true subproblem from below. Norms are those of the metric,
    in the dual of its inverse.

    Parameters
    ----------
    cuts : Cuts
        Shared with the next models.
    centre : Point
        Point of linearisation.
    mu : float
        Proximal weight.
    metric : Metric
        Of the proximal term.
    relax : float
        What the constraints may exceed 0 by.
    shift : ndarray of shape (n,)
        Slope taken from the objective: pulls the minimiser that way.
    """

    def __init__(
        self,
        cuts: Cuts,
        centre: Point,
        *,
        mu: float,
        metric: Metric,
        relax: float,
        shift: NDArray[np.float64],
    ) -> None:
        cuts.move(centre.x)
        self.cuts, self.centre, self.mu, self.relax = cuts, centre, mu, relax
        self.metric, self.shift = metric, shift
        self.minus_jacobian = centre.minus_jacobian.copy()
        self.minus_jacobian[0] += shift
        self.rows = np.empty((0, centre.x.size))
        self.heights = np.empty(0)
        self.gram = np.empty((0, 0))
        self.lower_bound = -np.inf
        self._take_new()

    def add(self, point: Point, functions: NDArray[np.intp]) -> None:
        """Put the tangents of some functions at a point into model and cuts."""
        self.cuts.add(point, functions)
        self._take_new()

    def _take_new(self) -> None:
        """Rows, heights and inner products of the cuts not yet in the model."""
        cuts, known = self.cuts, self.heights.size
        owners = cuts.owners[known:]
        heights = cuts.offsets[known:] - self.centre.minus[owners]
        heights -= self.relax * (owners > 0)
        self.heights = np.concatenate([self.heights, heights])
        rows = cuts.slopes[known:] - self.minus_jacobian[owners]
        self.rows = np.concatenate([self.rows, rows])
        self.gram = _grown(self.gram, self.rows @ self.metric.inverse(rows).T)

    def values(self, point: Point) -> NDArray[np.float64]:
        """Functions of the subproblem at a point, without proximal term."""
        d = point.x - self.centre.x
        values = point.plus - self.centre.minus - self.minus_jacobian @ d
        values[1:] -= self.relax
        return values

    @property
    def aggregate(self) -> NDArray[np.float64]:
        """Weighted sum of the rows: slope of the model's Lagrangian at its end."""
        slope: NDArray[np.float64] = self.cuts.weights @ self.rows
        return slope

    @property
    def step(self) -> NDArray[np.float64]:
        """Minimiser of the model, relative to the centre."""
        slope = self.metric.inverse(self.aggregate)
        return -slope / (self.mu * self._sigma(self.cuts.weights))

    @property
    def multipliers(self) -> NDArray[np.float64]:
        """Sums of the weights over each constraint's cuts."""
        sums = np.zeros(self.centre.plus.size)
        np.add.at(sums, self.cuts.owners, self.cuts.weights)
        return sums[1:]

    def bounds(self, d: NDArray[np.float64]) -> NDArray[np.float64]:
        """Largest cut of every function at centre + d; -inf without any."""
        bounds = np.full(self.centre.plus.size, -np.inf)
        np.maximum.at(bounds, self.cuts.owners, self.heights + self.rows @ d)
        return bounds

    def error(self, point: Point) -> float:
        """Weighted height of the plus parts above the cuts at a point."""
        cuts = self.cuts
        heights = cuts.offsets + cuts.slopes @ (point.x - cuts.centre)
        return float(cuts.weights @ (point.plus[cuts.owners] - heights))

    def _sigma(self, weights: NDArray[np.float64]) -> float:
        return 1.0 + float(weights[self.cuts.owners > 0].sum())

    def dual(self, weights: NDArray[np.float64]) -> float:
        square = float(weights @ self.gram @ weights)
        curve = max(square, 0.0) / (2 * self.mu * self._sigma(weights))
        return float(self.heights @ weights) - curve

    def solve(self, share: float = 1e-3) -> None:
        """Maximise the dual by Newton's method; every step is a quadratic program.

        Stops when the step promises less than a share of the proximal term.
        """
        weights = self._start()
        value = self.dual(weights)
        for _ in range(_NEWTON_STEPS):
            target, promised = self._newton_target(weights)
            size = 1.0
            for _ in range(_HALVINGS):
                trial = weights + size * (target - weights)
                gain = self.dual(trial) - value
                if gain >= 0.1 * size * promised:
                    break
                size /= 2
            else:
                break  # rounding
            weights, value = trial, value + gain
            prox = float(self.heights @ weights) - value
            if promised <= share * prox or promised <= 1e-15 * abs(value):
                break
        self.cuts.weights = weights
        self.lower_bound = max(self.lower_bound, self.dual(weights))

    def _start(self) -> NDArray[np.float64]:
        weights, objective = self.cuts.weights.copy(), self.cuts.owners == 0
        total = weights[objective].sum()
        if total > 0:
            weights[objective] /= total
        else:
            weights[np.flatnonzero(objective)[-1]] = 1.0
        return weights

    def _newton_target(
        self, weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
        """Maximiser of the second-order model of the dual and what it promises."""
        mu, sigma = self.mu, self._sigma(weights)
        constrained = (self.cuts.owners > 0).astype(np.float64)
        product = self.gram @ weights / (mu * sigma)  # - G e, e the current step
        square = float(weights @ product) / (mu * sigma)  # |e|^2
        gradient = self.heights - product + mu / 2 * square * constrained
        cross = np.outer(product, constrained)
        hessian = self.gram / mu - (cross + cross.T)
        hessian += mu * square * np.outer(constrained, constrained)
        hessian /= sigma
        target = maximize_quadratic_on_simplex(
            gradient + hessian @ weights,
            hessian,
            x0=weights,
            subset=self.cuts.owners == 0,
        )
        change = target - weights
        promised = float(change @ gradient - change @ hessian @ change / 2)
        return target, promised


def _grown(
    gram: NDArray[np.float64], cross: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gram matrix with the columns of new vectors; `cross` ends with their own."""
    known = gram.shape[0]
    grown = np.empty((cross.shape[0], cross.shape[0]))
    grown[:known, :known] = gram
    grown[:, known:] = cross
    grown[known:, :] = cross.T
    return grown
