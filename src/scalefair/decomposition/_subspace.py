"""Fair PCA of any size: small problems directly, large ones by subspaces."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scalefair._rounding import EPS, TINY
from scalefair.decomposition._covariances import (
    N_CHECK_STEPS,
    CovarianceFamily,
    FormedCovariances,
    compress,
    has_larger_eigenvalue,
    inner,
    multiply,
    orthonormal_span,
    symmetric,
    top_sums,
)
from scalefair.decomposition._dense import (
    GroupsSolution,
    solve_groups,
    solve_two_groups,
)
from scalefair.kernels import matmul, single_blas_thread
from scalefair.linalg import orthonormalize

Array = NDArray[np.float64]

# Order up to which full eigendecompositions take less time than a subspace method.
MAX_DENSE_ORDER = 300
# Tolerance of reduced problems and width of the dual's bracket, relative to `tol`.
DUAL_TOL_RATIO = 0.1


@dataclass(frozen=True)
class FairBasis:
    """Solution of the whole problem, with what an estimator stores."""

    weights: Array  # of the dual, shape (G,), on the simplex
    basis: Array  # orthonormal columns, shape (n, r)
    compressed: Array  # basis.T @ C_g @ basis of every group, shape (G, r, r)
    best: Array  # sums of the r largest eigenvalues of the C_g
    dual_value: float  # a lower bound of the largest loss of any basis
    n_iter: int  # evaluations of the dual
    n_products: int  # of a covariance, or a weighted sum of them, with a block
    converged: bool  # whether the dual was maximised to the tolerance
    message: str  # what failed, if something did

    @property
    def rounding(self) -> float:
        """Rounding errors of a loss of zero."""
        return 8 * EPS * math.sqrt(self.basis.shape[0]) * float(self.best.max())


def solve(covariances: CovarianceFamily, *, tol: float, max_iter: int) -> FairBasis:
    """Minimise the largest loss over bases of r columns."""
    n, r = covariances.n_features, covariances.r
    # Between short products the threads of BLAS would spin, and delay the kernels.
    with single_blas_thread():
        # Of many components a subspace would be nearly the whole space.
        if isinstance(covariances, FormedCovariances) and (
            n <= MAX_DENSE_ORDER or 3 * r >= n
        ):
            return solve_formed(covariances.arrays, r, tol, max_iter)
        return solve_by_subspaces(covariances, tol=tol, max_iter=max_iter)


def solve_formed(C: Array, r: int, tol: float, max_iter: int) -> FairBasis:
    """Solve the problem of formed covariances by full eigendecompositions."""
    best = top_sums(C, r)
    solver = dense_solver(len(C))
    solution = solver(C, r, best=best, tol=tol, max_iter=max_iter)
    return FairBasis(
        weights=solution.weights,
        basis=solution.basis,
        compressed=compress(C, solution.basis),
        best=best,
        dual_value=solution.dual_value,
        n_iter=solution.n_iter,
        n_products=solution.n_iter + len(C),
        converged=solution.converged,
        message="",
    )


def dense_solver(n_groups: int) -> Callable[..., GroupsSolution]:
    """Return the solver of small problems: of covariances of shape (G, n, n)."""
    return solve_two_groups if n_groups == 2 else solve_groups


def solve_by_subspaces(
    covariances: CovarianceFamily, *, tol: float, max_iter: int
) -> FairBasis:
    """Maximise the dual with the large problem evaluated at a few weights only.

    The dual restricted to a subspace bounds the dual from above, its values at the
    weights visited from below: the method ends where both meet.
    """
    search = _ReducedDual(covariances, tol)
    while not search.certified() and len(search.visited) < max_iter:
        search.evaluate()
    return search.result()


class _ReducedDual:
    """Basis V, solution of the problem restricted to its span, and weights visited.

    Invariant: the maximum of the dual lies between `lower`, the largest value at a
    visited point, and the dual value of the restricted problem.
    """

    def __init__(self, covariances: CovarianceFamily, tol: float) -> None:
        self.covariances, self.r, self.tol = covariances, covariances.r, tol
        start = covariances.start(tol)
        self.best, self.n_products = start.total, start.n_products
        self.message = start.message
        self.lower = -math.inf
        self.visited: list[Array] = []
        self.weights = np.full(covariances.n_groups, 1 / covariances.n_groups)
        # Of three groups or more a reduced problem takes longer than an eigenproblem.
        if isinstance(covariances, FormedCovariances) and covariances.n_groups == 2:
            self.expand(covariances.arrays, start.vectors)
        else:
            self.reduce(start.vectors)
        if covariances.is_filtered:
            self.refine_sums()

    def refine_sums(self) -> None:
        """Compute groups' sums of eigenvalues anew that are not accurate enough.

        They shall be off by at most `tol` times the loss, which may be far smaller.
        """
        max_error, vectors = self.tol * self._scale(), [self.V]
        tol = max_error / max(float(self.best.max()), TINY)
        for g, unit in enumerate(np.eye(self.covariances.n_groups)):
            if self.is_accurate(g, max_error):
                continue
            group = self.covariances.leading(unit, self.V, self.compressed, tol)
            # Sums of Ritz values are never too large.
            self.best[g] = max(self.best[g], group.total)
            self.n_products += group.n_products
            self.message = group.message or self.message
            vectors.append(group.vectors)
        if len(vectors) > 1:
            self.reduce(orthonormal_span(vectors))

    def is_accurate(self, g: int, max_error: float) -> bool:
        """Whether a group's Ritz values in the span of V tell its sum of eigenvalues.

        Where the residual norm is e, a Ritz value is off by at most e, and by e^2 / d
        at a distance d from what is not wanted: below the last one that is.
        """
        # 1. Ritz pairs, the largest first, and the errors of the values.
        values, S = np.linalg.eigh(self.compressed[g])
        values, S = values[: -self.r - 1 : -1], S[:, : -self.r - 1 : -1]
        Y = matmul(self.V, np.ascontiguousarray(S))
        multiply = partial(self.covariances.product, g)
        norms = np.linalg.norm(multiply(Y) - Y * values, axis=0)
        distances = np.maximum(values - values[-1], TINY)
        error = float((norms * np.minimum(1.0, norms / distances)).sum())
        self.n_products += 1
        if error > max_error:
            return False
        # 2. They may be eigenvalues, but not the largest ones.
        threshold, rng = values[-1] + max_error, self.covariances.rng
        self.n_products += N_CHECK_STEPS
        return not has_larger_eigenvalue(multiply, Y.T, threshold, rng)

    def reduce(self, V: Array, compressed: Array | None = None) -> None:
        """Solve the problem restricted to the span of V."""
        if compressed is None:
            compressed = self.covariances.compress(V)
        self.V, self.compressed = V, compressed
        self.n_products += 1
        # The dual value of the optimum in the span is an upper bound.
        self.solution = dense_solver(len(compressed))(
            compressed,
            self.r,
            best=self.best,
            tol=DUAL_TOL_RATIO * self.tol,
            weights0=self.weights,
        )
        self.weights = self.solution.weights

    def expand(self, C: Array, V: Array) -> None:
        """Reduce to V, and extend V while that lowers the loss in its span.

        A few steps of block Lanczos, with the weights updated in each.
        """
        CV = multiply(C, V)
        self.reduce(V, symmetric(inner(V, CV)))
        decrease = math.inf
        # When a step lowers the loss by at most 1e-4 of it, the weights are good enough
        # to evaluate the dual there. V has at most half as many columns as rows.
        while decrease > 1e-4 and 2 * ((p := V.shape[1]) + self.r) <= len(V):
            previous_value, projected = self.solution.dual_value, self.compressed
            # 1. U: the weighted sum H(w) times the optimal basis, made orthogonal to V.
            U = matmul(
                np.tensordot(self.solution.weights, CV, axes=1), self.solution.basis
            )
            U = orthonormalize(U, against=V, rng=self.covariances.rng)
            CU = multiply(C, U)
            V, CV = np.hstack([V, U]), np.concatenate([CV, CU], axis=2)
            # 2. Border the projected covariances, and solve again.
            new = inner(V, CU)
            border = new[:, :p].transpose(0, 2, 1)
            projected = np.concatenate([projected, border], axis=1)
            self.reduce(V, np.concatenate([projected, new], axis=2))
            decrease = previous_value - self.solution.dual_value
            decrease /= max(self._scale(), TINY)

    def evaluate(self) -> None:
        """Evaluate the dual at the reduced maximiser; reduce to its eigenvectors."""
        weights, V = self.solution.weights, self.V
        # 1. Leading eigenvectors of H(w), and with them a lower bound. Errors of the
        #    vectors change the losses in second order only, but the next weights in
        #    first order: the tolerance is far below `tol`. The first weights are
        #    inaccurate themselves, and need no more than 1e-7.
        tol = max(1e-3 * self.tol, 1e-13) if self.visited else 1e-7
        leading = self.covariances.leading(weights, V, self.compressed, tol)
        self.message = leading.message or self.message
        self.lower = max(self.lower, float(weights @ self.best) - leading.total)
        self.n_products += leading.n_products
        self.visited.append(weights)
        # 2. If the bounds are still too far apart: the span of V and the new vectors.
        if not self.certified():
            self.reduce(orthonormal_span([V, leading.vectors]))

    def certified(self) -> bool:
        """Whether the bracket of the dual's maximum is narrow enough."""
        width = self.solution.dual_value - self.lower
        return width <= DUAL_TOL_RATIO * self.tol * self._scale()

    def _scale(self) -> float:
        """Largest loss, or more if `tol` times this would be below rounding errors."""
        rounding = 1e-13 * float(self.best.max(initial=0.0)) / self.tol
        return max(float(self.solution.losses.max()), rounding)

    def result(self) -> FairBasis:
        Y = self.solution.basis
        return FairBasis(
            weights=self.weights,
            basis=matmul(self.V, Y),
            compressed=Y.T @ self.compressed @ Y,
            best=self.best,
            dual_value=self.lower,
            n_iter=len(self.visited),
            n_products=self.n_products,
            converged=self.certified() and not self.message and self.solution.converged,
            message=self.message,
        )
