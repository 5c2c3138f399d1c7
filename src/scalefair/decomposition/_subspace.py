"""Fair PCA of any size: small problems directly, large ones by subspaces."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._random_state import check_random_state
from scalefair.decomposition._many_groups import solve_groups
from scalefair.decomposition._pencil import (
    CovariancePencil,
    FormedPencil,
    GroupsSolution,
    buffer_size,
    compress,
    inner,
    multiply,
    orthonormal_span,
    symmetric,
    top_sums,
    weighted_sum,
)
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import matmul, single_blas_thread
from scalefair.linalg import orthonormalize

Array = NDArray[np.float64]

# Below this order full eigendecompositions take less time than a subspace method.
_SMALL = 300
# Eigenvectors are computed to this part of the tolerance: the weights depend on
# their errors in first order, the losses only in second.
_EIGEN_TOL = 1e-3
# The first weights are not yet the last.
_FIRST_TOL = 1e-7
# Problems in a subspace are solved to this part of the tolerance.
_REDUCED_TOL = 0.1
# Bracket of the dual's maximum, as a part of the tolerance.
_BRACKET_TOL = 0.1
# A relative fall of the largest loss: the weights are then right to the tolerance.
_FALL = 1e-4
_TINY = float(np.finfo(np.float64).tiny)


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
    # The dual reduced to a subspace is its upper bound.
    search = _Search(pencil, r, tol, check_random_state(random_state))
    while not search.certified() and len(search.visited) < max_iter:
        search.evaluate()
    return search.result()


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
        self.weights = np.full(pencil.n_groups, 1 / pencil.n_groups)
        # Of three groups or more a reduced problem takes longer than an eigenproblem.
        if isinstance(pencil, FormedPencil) and pencil.n_groups == 2:
            self.expand(pencil.covariances, start.basis)
        else:
            self.reduce(start.basis)

    def reduce(self, V: Array, compressed: Array | None = None) -> None:
        """Solve the problem restricted to the span of V."""
        if compressed is None:
            compressed = self.pencil.compress(V)
        self.V, self.compressed = V, compressed
        self.n_products += 1
        self.small = solve_small(
            compressed,
            self.r,
            best=self.best,
            tol=_REDUCED_TOL * self.tol,
            weights0=self.weights,
        )
        self.weights = self.small.weights

    def expand(self, C: Array, V: Array) -> None:
        """Reduce to V and products with the optimum there, until it hardly changes."""
        # The first weights were not the last: vectors turn towards their residuals.
        CV = multiply(C, V)
        self.reduce(V, symmetric(inner(V, CV)))
        fall = math.inf
        while fall > _FALL and 2 * ((p := V.shape[1]) + self.r) <= len(V):
            before, old = self.small.dual_value, self.compressed
            U = matmul(weighted_sum(self.small.weights, CV), self.small.basis)
            U = orthonormalize(U, against=V, rng=self.rng)
            CU = multiply(C, U)
            V, CV = np.hstack([V, U]), np.concatenate([CV, CU], axis=2)
            new = inner(V, CU)
            old = np.concatenate([old, new[:, :p].transpose(0, 2, 1)], axis=1)
            self.reduce(V, np.concatenate([old, new], axis=2))
            fall = (before - self.small.dual_value) / max(self._scale(), _TINY)

    def evaluate(self) -> None:
        """Evaluate the dual at the reduced maximiser; reduce to its eigenvectors."""
        weights, V = self.small.weights, self.V
        tol = max(_EIGEN_TOL * self.tol, 1e-13) if self.visited else _FIRST_TOL
        found = self.pencil.leading(weights, self.r, self.trial, tol, self.rng)
        self.message = found.message or self.message
        self.lower = max(self.lower, float(weights @ self.best) - found.total)
        self.n_products += found.n_products
        self.visited.append(weights)
        if len(weights) == 2 and found.vectors.shape[1] > self.r:
            self.polish(found.vectors)
        if not self.certified():
            self.reduce(orthonormal_span([V, found.vectors]))

    def polish(self, vectors: Array) -> None:
        """Reduce to eigenvectors at two weights that are nearly the maximiser."""
        compressed = self.pencil.compress(vectors)
        kept = np.trace(compressed[:, : self.r, : self.r], axis1=1, axis2=2)
        weights, slope = self.visited[-1], float(np.subtract(*(self.best - kept)))
        curvature = min(self.small.curvature, -_TINY)
        # What the dual rises by, at most, from here: else the reduced optimum is far.
        if slope**2 / abs(curvature) <= self.tol * self._scale():
            self.reduce(vectors, compressed)
            t = float(weights[0]) - slope / curvature  # Newton's step for the dual
            t = min(1.0, max(0.0, t))
            self.weights = np.array([t, 1 - t])

    def trial(self) -> Array:
        """Ritz vectors at the reduced maximiser, some more than wanted."""
        _, Y = np.linalg.eigh(weighted_sum(self.small.weights, self.compressed))
        size = self.r + buffer_size(self.r)
        return matmul(self.V, np.ascontiguousarray(Y[:, ::-1][:, :size]))

    def certified(self) -> bool:
        """Whether the bracket of the dual's maximum is narrow enough."""
        width = self.small.dual_value - self.lower
        return width <= _BRACKET_TOL * self.tol * self._scale()

    def _scale(self) -> float:
        rounding = 1e-13 * float(self.best.max(initial=0.0)) / self.tol
        return max(float(self.small.losses.max()), rounding)

    def result(self) -> FairBasis:
        Y = self.small.basis
        return FairBasis(
            weights=self.weights,
            basis=matmul(self.V, Y),
            compressed=Y.T @ self.compressed @ Y,
            best=self.best,
            dual_value=self.lower,
            n_iter=len(self.visited),
            n_products=self.n_products,
            converged=self.certified() and not self.message and self.small.converged,
            message=self.message,
        )
