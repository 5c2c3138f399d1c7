"""Fair PCA by subspace acceleration: few large eigenproblems, many small ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._pencil import (
    CovariancePencil,
    buffer_size,
    orthonormal_span,
    weighted_sum,
)
from scalefair.decomposition._solution import FairBasis, GroupsSolution

__all__ = ["solve_by_subspaces"]

Array = NDArray[np.float64]

SmallSolver = Callable[..., GroupsSolution]

# Eigenvectors are computed to this part of the tolerance: the weights depend on
# their errors in first order, the losses only in second.
_EIGEN_TOL = 1e-3
# The first weights are not yet the last.
_FIRST_TOL = 1e-7
# The derivative of the dual at the last weights, as a part of the tolerance.
_SLOPE_TOL = 0.1
# Bracket of the dual's maximum, as a part of the tolerance.
_BRACKET_TOL = 0.1
# Largest error of the weights beside the square of the one before that was seen
# (0.4), with a margin.
_SQUARED = 10.0
# Weights this close have nearly the same eigenvectors.
_NEAR = 1e-2


def solve_by_subspaces(
    pencil: CovariancePencil,
    r: int,
    solve_small: SmallSolver,
    *,
    tol: float,
    max_iter: int,
    rng: np.random.RandomState,
) -> FairBasis:
    r"""Maximise the dual with the large problem evaluated at a few weights only.

    A basis V of leading eigenvectors found so far turns the covariances into small
    matrices :math:`V^T C_g V`, for which `solve_small` maximises the dual exactly.
    The reduced dual :math:`\phi_V` is nowhere below :math:`\phi`, and :math:`\phi`
    at any weights is a lower bound of its maximum: together a bracket.
    :math:`\phi` is evaluated at the maximiser of :math:`\phi_V`, starting from the
    reduced eigenvectors, and the eigenvectors found are added to V. The error of the
    weights is about squared each time. The basis returned is that of a reduced
    problem: for two groups its losses are equal to rounding, whatever the error of
    the weights.

    Parameters
    ----------
    pencil : CovariancePencil
        The large problem.
    r : int
        Number of components.
    solve_small : callable
        ``solve_small(C, r, best=, tol=, weights0=)`` returns a GroupsSolution.
    tol : float
        Width of the bracket, relative to the loss. With two groups the iteration
        also goes on until the weights no longer change by more than a tenth of it,
        or the losses at the eigenvectors of the large problem differ by no more.
    max_iter : int
        Most evaluations of the large dual.
    rng : RandomState
        For starting vectors.

    Returns
    -------
    FairBasis
    """
    search = _Search(pencil, r, solve_small, tol, rng)
    while len(search.visited) < max_iter:
        search.evaluate()
        if search.certified() and search.level():
            return search.result(search.corrected_weights(), True)
        before = search.small.weights
        search.reduce()
        if search.certified():
            if search.level():
                return search.result(search.corrected_weights(), True)
            if search.settled(before):
                return search.result(search.small.weights, True)
    return search.result(search.small.weights, False)


class _Search:
    """Basis V, solution of the reduced problem, and the weights visited."""

    def __init__(
        self,
        pencil: CovariancePencil,
        r: int,
        solve_small: SmallSolver,
        tol: float,
        rng: np.random.RandomState,
    ) -> None:
        self.pencil, self.r, self.tol, self.rng = pencil, r, tol, rng
        self.solve_small = solve_small
        start = pencil.start(r, tol, rng)
        self.best, self.V = start.best, start.basis
        self.n_products = start.n_products
        self.message = start.message
        self.lower = -math.inf
        self.visited: list[Array] = []
        self.losses = np.empty(0)
        self.last_slope = self.curvature = math.nan
        self.added = np.empty((pencil.n_features, 0))
        self.reduce()

    def reduce(self) -> None:
        """Solve the problem restricted to V, with the last eigenvectors added."""
        weights0 = self.visited[-1] if self.visited else None
        if self.visited:
            self.V = orthonormal_span([self.V, self.added])
        self.compressed = self.pencil.compress(self.V)
        self.n_products += 1
        self.small = self.solve_small(
            self.compressed,
            self.r,
            best=self.best,
            tol=_SLOPE_TOL * self.tol,
            weights0=weights0,
        )

    def evaluate(self) -> None:
        """Evaluate the dual at the reduced maximiser, and keep the eigenvectors."""
        weights = self.small.weights
        self.curvature = self.small.curvature
        _, Y = np.linalg.eigh(weighted_sum(weights, self.compressed))
        size = min(self.r + buffer_size(self.r), Y.shape[1])
        found = self.pencil.leading(
            weights,
            self.r,
            self.V @ np.ascontiguousarray(Y[:, ::-1][:, :size]),
            self._eigen_tol(),
            self.rng,
            near=any(np.abs(weights - w).max() < _NEAR for w in self.visited),
        )
        self.message = found.message or self.message
        self.lower = max(self.lower, float(weights @ self.best) - found.total)
        compressed = self.pencil.compress(found.vectors)
        if self.visited:
            self.last_slope = float(self.losses[0] - self.losses[1])
        self.losses = self.best - np.trace(compressed, axis1=1, axis2=2)
        self.n_products += found.n_products + 1
        self.visited.append(weights)
        self.added = found.vectors

    def _eigen_tol(self) -> float:
        return max(_EIGEN_TOL * self.tol, 1e-13) if self.visited else _FIRST_TOL

    def certified(self) -> bool:
        """Whether the bracket of the dual's maximum is narrow enough."""
        width = self.small.dual_value - self.lower
        return width <= _BRACKET_TOL * self.tol * self._scale()

    def level(self) -> bool:
        """Whether equal losses at the large problem's own eigenvectors are in reach.

        Always so unless there are two groups: then the derivative of the dual is to
        vanish, or the secant step to its root to end within the tolerance.
        """
        if self.losses.size != 2:
            return True
        if len(self.visited) < 2:
            return False
        difference = abs(float(self.losses[0] - self.losses[1]))
        if difference <= _SLOPE_TOL * self.tol * self._scale():
            return True
        _, error = self._secant()
        return error <= _SLOPE_TOL * self.tol

    def corrected_weights(self) -> Array:
        """Weights after a secant step, where the last derivatives allow one."""
        weights, _ = self._secant()
        return weights

    def _secant(self) -> tuple[Array, float]:
        """Root of the line through the last two derivatives, and its likely error.

        The line's slope and the second derivative of the reduced dual err in ways of
        their own: as far as they agree the step can be trusted.
        """
        weights = self.visited[-1]
        if weights.size != 2 or len(self.visited) < 2:
            return weights, math.inf
        change = float(weights[0] - self.visited[-2][0])
        slope = float(self.losses[0] - self.losses[1])
        bend = slope - self.last_slope
        if not bend * change < 0 or abs(slope) > 0.1 * abs(bend):
            return weights, math.inf  # rounding, or the two sides of a kink
        step = -slope * change / bend
        t = min(1.0, max(0.0, float(weights[0]) + step))
        doubt = abs(1 - self.curvature * change / bend)
        error = abs(step) * doubt if math.isfinite(doubt) else math.inf
        return np.array([t, 1 - t]), error

    def settled(self, before: Array) -> bool:
        """Whether the last evaluation left the two weights where they were."""
        if before.size != 2:
            return True
        # With the eigenvectors at the last weights in V the error is squared.
        step = float(abs(self.small.weights[0] - before[0]))
        return min(step, _SQUARED * step**2) <= _SLOPE_TOL * self.tol

    def _scale(self) -> float:
        rounding = 1e-13 * float(self.best.max(initial=0.0)) / self.tol
        return max(float(self.small.losses.max()), rounding)

    def result(self, weights: Array, converged: bool) -> FairBasis:
        Y = self.small.basis
        return FairBasis(
            weights=weights,
            basis=self.V @ Y,
            compressed=Y.T @ self.compressed @ Y,
            best=self.best,
            dual_value=self.lower,
            n_iter=len(self.visited),
            n_products=self.n_products,
            converged=converged and not self.message and self.small.converged,
            message=self.message,
        )
