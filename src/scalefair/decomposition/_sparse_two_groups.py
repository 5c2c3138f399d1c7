"""Fair PCA of two groups of sparse rows, by Lanczos runs that share their products."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from scalefair._random_state import check_random_state
from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.decomposition._covariances import has_larger_eigenvalue, weighted_sum
from scalefair.decomposition._spaces import Groups, VectorSpace
from scalefair.decomposition._subspace import FairBasis
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import single_blas_thread
from scalefair.linalg import ThickRestartLanczos

Array = NDArray[np.float64]

# Most components: the basis has some 5.5 vectors for each.
MAX_COMPONENTS = 100
# Most Lanczos runs at weights.
MAX_RUNS = 6
# Most vectors multiplied in each run.
MAX_PRODUCTS = 5000
# Most blocks of residuals added to the basis after a run.
MAX_BLOCKS = 12
# Eigenvectors behind the wanted ones that the basis nearly contains.
GAP_OFFSET = 5
# Relative error of the groups' sums of eigenvalues at which the dual is first solved.
START_TOL = 1e-6
# Errors of sums of eigenvalues, as a fraction of the tolerance.
SUM_TOL_RATIO = 0.03


@single_blas_thread()
def solve_by_lanczos(
    space: VectorSpace, r: int, *, tol: float, max_iter: int, random_state: Any
) -> FairBasis | None:
    """Minimise the larger loss of two groups; None where another solver has to."""
    if r > MAX_COMPONENTS or space.size < _basis_size(r):
        return None
    traces = space.C.group_traces
    if traces.min() <= ROUNDING * traces.max():
        return None  # the eigenvectors of one group would be rounding errors
    search = _SharedSubspace(space, r, tol, check_random_state(random_state))
    try:
        if not search.start():
            return None
        for _ in range(min(max_iter, MAX_RUNS)):
            if search.run():
                return search.result()
    except np.linalg.LinAlgError:
        pass  # a covariance may be rounding errors in all but few directions
    return None


def _n_ritz(r: int) -> int:
    """Ritz vectors that a run adds to the basis."""
    return r + max(10, r // 4)


def _n_restart(r: int) -> int:
    """Ritz vectors that are kept when the basis is full."""
    return 2 * r + 20


def _basis_size(r: int) -> int:
    """Most vectors in the basis: those kept, those of two runs, and a block."""
    return _n_restart(r) + 2 * _n_ritz(r) + r


class _SharedSubspace:
    """Orthonormal basis, its products with both covariances, and the dual's weights.

    In the span of the basis the dual is known for all t. The span has to contain the
    leading eigenvectors of H(t) = t C_A + (1-t) C_B at the maximiser t. Lanczos at a t
    nearby computes them roughly, blocks of residuals complete them.
    """

    def __init__(
        self, space: VectorSpace, r: int, tol: float, rng: np.random.RandomState
    ) -> None:
        self.space, self.r, self.tol, self.rng = space, r, tol, rng
        self.blocks = np.empty((space.depth, _basis_size(r), space.size))
        self.size = 0
        self.projected = np.empty((2, 0, 0))  # both covariances in the basis
        self.Y = np.empty((0, 0))  # Ritz vectors of H(t), rows of coefficients
        self.weights = np.full(2, 0.5)
        self.n_products = self.n_runs = 0

    @property
    def basis(self) -> Array:
        """The blocks of the basis; a view."""
        return self.blocks[:, : self.size]

    @property
    def sum_tol(self) -> float:
        """Error that a sum of eigenvalues may have."""
        return SUM_TOL_RATIO * self.tol * self.scale

    def start(self) -> bool:
        """Solve each group's own eigenproblem; return whether both are accurate."""
        # 1. Roughly, for a first basis.
        runs = []
        for g in (0, 1):
            run = self.lanczos((g,), np.ones(1), self.basis)
            self.advance(run, 0.0, relative_error=START_TOL)
            self.append(self.space.ritz_blocks(run, self.r + 2, (g,), np.ones(1)))
            runs.append(run)
        if self.size <= self.r:
            return False  # the rows have no more directions
        # 2. The dual in the basis shows how large the losses are, and thus how
        #    accurate the sums have to be.
        self.best = np.array([run.values[: self.r].sum() for run in runs])
        self.reduce()
        self.add_residuals(3, 0.01 * self.scale)
        are_accurate = all(self.finish(run) for run in runs)
        self.best = np.array([run.values[: self.r].sum() for run in runs])
        return are_accurate

    def run(self) -> bool:
        """Add eigenvectors of H(t) at the weights; return whether these suffice."""
        # 1. Eigenvectors at the maximiser t in the present span.
        weights = self.weights
        run = self.lanczos((0, 1), weights, self.leading)
        self.n_runs += 1
        # Convergence in t is quadratic: a hundredth of the error squared is enough.
        self.advance(run, max(0.01 * self.error**2 / self.scale, self.sum_tol))
        k = min(_n_ritz(self.r), len(run.values))
        # 2. They join the span, and t moves to the maximiser there.
        self.append(self.space.ritz_blocks(run, k, (0, 1), weights))
        self.reduce()
        self.n_products += run.n_products
        # 3. Blocks of residuals at the new t join the span until the dual is accurate.
        self.add_residuals(MAX_BLOCKS, self.sum_tol)
        return self.error <= self.sum_tol and not self.has_missed_vector(run)

    def add_residuals(self, max_blocks: int, error: float) -> None:
        """Add blocks of residuals to the basis until the dual is accurate there."""
        for _ in range(max_blocks):
            if self.error <= max(error, self.sum_tol) or not self.norms.all():
                break
            self.append(self.residuals / self.norms[:, None])
            self.reduce()

    def lanczos(
        self, groups: Groups, weights: Array, vectors: Array
    ) -> ThickRestartLanczos:
        """Lanczos from a random sum of `vectors`, the blocks of Ritz vectors."""
        space = self.space
        start = self.rng.standard_normal(space.size)
        if vectors.shape[1]:
            # A little noise: the sum may be orthogonal to an eigenvector.
            start *= 1e-3 / np.linalg.norm(start)
            image = space.image(vectors, groups, weights)
            total = self.rng.choice([-1.0, 1.0], len(image)) @ image
            start += total / (np.linalg.norm(total) or 1.0)
        return ThickRestartLanczos(
            partial(space.multiply, groups=groups, weights=weights),
            space.lanczos_weights(weights),
            self.r,
            start,
            random_state=self.rng,
        )

    def advance(
        self, run: ThickRestartLanczos, error: float, relative_error: float = 0.0
    ) -> bool:
        """Continue until the sum of r eigenvalues is accurate; return whether it is."""
        return run.run(
            lambda it: (
                it.error <= max(error, relative_error * it.values[: self.r].sum())
            ),
            chunk=max(4, run.ncv // 12),  # a small eigendecomposition each
            max_products=MAX_PRODUCTS,
        )

    def finish(self, run: ThickRestartLanczos) -> bool:
        """Continue until the sum is accurate; return whether no vector was missed."""
        is_accurate = self.advance(run, self.sum_tol)
        self.n_products += run.n_products
        return is_accurate and not self.has_missed_vector(run)

    def has_missed_vector(self, run: ThickRestartLanczos) -> bool:
        """Whether an eigenvalue above the r-th is not among those of the run."""
        products = np.empty((run.weights.size, self.space.size))

        def multiply(x: Array) -> Array:
            run.products(x, products)
            self.n_products += 1
            return run.weights @ products

        vectors = run.leading(min(_n_ritz(self.r), len(run.values)))
        threshold = run.values[self.r - 1] + max(self.sum_tol, 1e-13 * run.values[0])
        return has_larger_eigenvalue(multiply, vectors, threshold, self.rng)

    def append(self, new: Array) -> None:
        """Add the components outside the basis of new blocks, or of their vectors."""
        if self.size + new.shape[1] > self.blocks.shape[1]:
            self.restart()
        space, basis, k = self.space, self.basis, self.size
        # 1. Orthogonalise against the basis, and drop what depends on it.
        new = new - space.inner(new, basis) @ basis[: len(new)]
        squares, Z = np.linalg.eigh(space.inner(new, new))
        is_independent = squares > 100 * EPS
        Z = Z[:, is_independent] / np.sqrt(squares[is_independent])
        # 2. Multiply by both covariances.
        new = space.complete(Z.T @ new)
        self.n_products += new.shape[1]
        self.size = size = k + new.shape[1]
        self.blocks[:, k:size] = new
        # 3. Border the projected covariances.
        projected = np.empty((2, size, size))
        projected[:, :k, :k] = self.projected
        projected[:, :, k:] = space.projected(self.basis, new)
        projected[:, k:, :k] = projected[:, :k, k:].transpose(0, 2, 1)
        self.projected = (projected + projected.transpose(0, 2, 1)) / 2

    def restart(self) -> None:
        """Shrink the basis to the leading Ritz vectors of H(t)."""
        Y = np.ascontiguousarray(self.Y[: _n_restart(self.r)])
        for rows in self.blocks:
            rows[: len(Y)] = Y @ rows[: self.size]
        self.size = len(Y)
        self.projected = Y @ self.projected @ Y.T

    def reduce(self) -> None:
        """Solve the problem in the span; estimate the error of the dual there."""
        r = self.r
        # 1. Weights that maximise the dual in the span.
        self.reduced = solve_two_groups(
            self.projected,
            r,
            best=self.best,
            tol=SUM_TOL_RATIO * self.tol,
            weights0=self.weights,
        )
        self.weights = w = self.reduced.weights
        # Losses near zero are known to rounding only.
        rounding = 1e-13 * float(self.best.max()) / self.tol
        self.scale = max(float(self.reduced.losses.max()), rounding)
        # 2. Ritz vectors of H(t) and their residuals.
        values, Y = np.linalg.eigh(weighted_sum(w, self.projected))
        values, self.Y = values[::-1], np.ascontiguousarray(Y.T[::-1])
        self.leading = self.Y[:r] @ self.basis
        self.residuals = self.space.residuals(self.leading, w, values[:r])
        self.norms = self.space.norms(self.residuals)
        # 3. Error of the sum of eigenvalues: residual**2 / gap. The residuals are
        #    nearly orthogonal to the next few eigenvectors, too: the gap that counts
        #    lies behind these.
        next_value = values[min(r + GAP_OFFSET, len(values) - 1)]
        gaps = np.maximum(values[:r] - next_value, TINY)
        norms = self.norms
        self.error = float(np.minimum(norms * (norms / gaps), norms).sum())

    def result(self) -> FairBasis:
        """Compress exactly onto the leading vectors, and solve there."""
        V = self.space.expand(self.Y[: _n_ritz(self.r)] @ self.basis)
        # Orthonormal up to the products' errors, which Cholesky's factor removes.
        L = np.linalg.cholesky(V.T @ V)
        V = np.ascontiguousarray(solve_triangular(L, V.T, lower=True).T)
        C = self.space.C.compress(V)
        self.n_products += 1
        # The derivative, the difference of the losses, to a hundredth of the tolerance.
        reduced = solve_two_groups(
            C, self.r, best=self.best, tol=0.01 * self.tol, weights0=self.weights
        )
        Y = reduced.basis
        return FairBasis(
            weights=reduced.weights,
            basis=V @ Y,
            compressed=Y.T @ C @ Y,
            best=self.best,
            dual_value=reduced.dual_value - self.error,
            n_iter=self.n_runs,
            n_products=self.n_products,
            converged=reduced.converged,
            message="",
        )
