"""Fair PCA of any size: small problems directly, large ones by subspaces."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._random import check_random_state
from scalefair.decomposition._many_groups import solve_groups
from scalefair.decomposition._pencil import (
    CovariancePencil,
    FormedPencil,
    GroupsSolution,
    buffer_size,
    compress,
    orthonormal_span,
    top_sums,
    weighted_sum,
)
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import single_blas_thread

Array = NDArray[np.float64]

# Below this order full eigendecompositions take less time than a subspace method.
_SMALL = 300
# Eigenvectors are computed to this part of the tolerance: the weights depend on
# their errors in first order, the losses only in second.
_EIGEN_TOL = 1e-3
# The first weights are not yet the last.
_FIRST_TOL = 1e-7
# The derivative of the dual at the last weights, as a part of the tolerance.
_SLOPE_TOL = 0.1
# Bracket of the dual's maximum, as a part of the tolerance.
_BRACKET_TOL = 0.1
# Error of the weights beside the square of the one before (0.4 seen), with a margin.
_SQUARED = 10.0
# Weights this close have nearly the same eigenvectors.
_NEAR = 1e-2


@dataclass(frozen=True)
class FairBasis:
    """Solution of the whole problem, with what an estimator stores."""

    weights: Array  # of the dual, shape (G,), on the simplex
    basis: Array  # orthonormal columns, shape (n, r)
    compressed: Array  # basis.T @ C_g @ basis of every group
    best: Array  # sums of the r largest eigenvalues of the C_g
    dual_value: float  # a lower bound of the largest loss of any basis
    n_iter: int  # evaluations of the dual
    n_products: int  # of a covariance, or a weighted sum of them, with a block
    converged: bool  # whether the dual was maximised to the tolerance
    message: str  # what failed, if something did

    @property
    def rounding(self) -> float:
        """What rounding alone can make of a loss of zero."""
        eps = float(np.finfo(np.float64).eps)
        return 8 * eps * math.sqrt(self.basis.shape[0]) * float(self.best.max())


def solve(
    pencil: CovariancePencil, r: int, *, tol: float, max_iter: int, random_state: Any
) -> FairBasis:
    """Minimise the largest loss over bases of `r` columns."""
    n = pencil.n_features
    # Short products between kernels: threads of BLAS would be waited for each time.
    with single_blas_thread():
        if isinstance(pencil, FormedPencil) and (n <= _SMALL or 3 * r >= n):
            return solve_formed(pencil.covariances, r, tol, max_iter)
        return solve_by_subspaces(
            pencil, r, tol=tol, max_iter=max_iter, random_state=random_state
        )


def solve_formed(C: Array, r: int, tol: float, max_iter: int) -> FairBasis:
    """`solve_small`, with what else an estimator stores."""
    best = top_sums(C, r)
    found = solve_small(C, r, best=best, tol=tol, max_iter=max_iter)
    return FairBasis(
        weights=found.weights,
        basis=found.basis,
        compressed=compress(C, found.basis),
        best=best,
        dual_value=found.dual_value,
        n_iter=found.n_iter,
        n_products=found.n_iter + len(C),
        converged=found.converged,
        message="",
    )


def solve_small(C: Array, r: int, **options: Any) -> GroupsSolution:
    """Solve the problem of covariances of a small order, shape (G, n, n)."""
    solver = solve_two_groups if len(C) == 2 else solve_groups
    return solver(C, r, **options)


def solve_by_subspaces(
    pencil: CovariancePencil, r: int, *, tol: float, max_iter: int, random_state: Any
) -> FairBasis:
    """Maximise the dual with the large problem evaluated at a few weights only."""
    # The dual reduced to the eigenvectors found so far is its upper bound.
    search = _Search(pencil, r, tol, check_random_state(random_state))
    while len(search.visited) < max_iter:
        vectors = search.evaluate()
        if search.certified() and search.level():
            return search.result(search.secant()[0], True)
        before = search.small.weights
        search.reduce(orthonormal_span([search.V, vectors]))
        if search.certified():
            if search.level():
                return search.result(search.secant()[0], True)
            if search.settled(before):
                return search.result(search.small.weights, True)
    return search.result(search.small.weights, False)


class _Search:
    """Basis V, solution of the reduced problem, and the weights visited."""

    def __init__(
        self, pencil: CovariancePencil, r: int, tol: float, rng: np.random.RandomState
    ) -> None:
        self.pencil, self.r, self.tol, self.rng = pencil, r, tol, rng
        start = pencil.start(r, tol, rng)
        self.best, self.n_products = start.best, start.n_products
        self.message = start.message
        self.lower = -math.inf
        self.visited: list[Array] = []
        self.losses = np.empty(0)
        self.last_slope = self.curvature = math.nan
        self.reduce(start.basis)

    def reduce(self, V: Array) -> None:
        """Solve the problem restricted to the span of V."""
        self.V, self.compressed = V, self.pencil.compress(V)
        self.n_products += 1
        self.small = solve_small(
            self.compressed,
            self.r,
            best=self.best,
            tol=_SLOPE_TOL * self.tol,
            weights0=self.visited[-1] if self.visited else None,
        )

    def evaluate(self) -> Array:
        """Evaluate the dual at the reduced maximiser, and return the eigenvectors."""
        weights = self.small.weights
        self.curvature = self.small.curvature
        _, Y = np.linalg.eigh(weighted_sum(weights, self.compressed))
        size = min(self.r + buffer_size(self.r), Y.shape[1])
        found = self.pencil.leading(
            weights,
            self.r,
            self.V @ np.ascontiguousarray(Y[:, ::-1][:, :size]),
            max(_EIGEN_TOL * self.tol, 1e-13) if self.visited else _FIRST_TOL,
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
        return found.vectors

    def certified(self) -> bool:
        """Whether the bracket of the dual's maximum is narrow enough."""
        width = self.small.dual_value - self.lower
        return width <= _BRACKET_TOL * self.tol * self._scale()

    def level(self) -> bool:
        """Whether the losses of two groups (if two) are equal, or will be by secant."""
        if self.losses.size != 2:
            return True
        if len(self.visited) < 2:
            return False
        difference = abs(float(self.losses[0] - self.losses[1]))
        if difference <= _SLOPE_TOL * self.tol * self._scale():
            return True
        return self.secant()[1] <= _SLOPE_TOL * self.tol

    def secant(self) -> tuple[Array, float]:
        """Root of the line through the last two derivatives, and its likely error."""
        # Trusted as far as its slope and the reduced dual's curvature agree.
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
