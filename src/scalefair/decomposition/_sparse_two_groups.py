"""Fair PCA of two groups of sparse rows, by Lanczos runs that share their products.

The algorithm, `_SharedSubspace`, maximises the dual in a growing subspace of feature
vectors x. Each x is stored together with linear images of it, as *blocks*: linear
combinations act on all blocks alike, and inner products with other x, C_A x and C_B x
need no further product. k vectors are an array (n_blocks, k, size). With Z the centred
rows, sorted by group, the blocks are

- of `FeatureSpace`: x, C_A x, C_B x;
- of `SampleSpace`: y and Z x, where x = Z^T y. All eigenvectors of t C_A + (1-t) C_B
  but those of zero are in the span of the rows; y is shorter if rows are few.
"""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_triangular

from scalefair._entries import check_random_state
from scalefair._rounding import EPS, ROUNDING, TINY
from scalefair.decomposition._covariances import has_larger_eigenvalue
from scalefair.decomposition._dense import solve_two_groups
from scalefair.decomposition._subspace import FairBasis
from scalefair.kernels import single_blas_thread
from scalefair.linalg import ThickRestartLanczos
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]
Groups = tuple[int, ...]

# Most components: the basis has some 5.5 vectors for each.
MAX_COMPONENTS = 100
# Most Lanczos runs at weights.
MAX_RUNS = 6
# Most vectors multiplied in each run.
MAX_PRODUCTS = 5000
# Most blocks of residuals added to the basis after a run.
MAX_BLOCKS = 12
# Eigenvectors behind the r leading ones that the basis nearly contains.
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
    search = _SharedSubspace(space, r, tol, check_random_state(random_state))
    if r > MAX_COMPONENTS or space.size < search.capacity:
        return None
    traces = space.C.group_traces
    if traces.min() <= ROUNDING * traces.max():
        return None  # the eigenvectors of one group would be rounding errors
    try:
        if not search.start():
            return None
        for _ in range(min(max_iter, MAX_RUNS)):
            if search.run():
                return search.result()
    except np.linalg.LinAlgError:
        pass  # a covariance may be rounding errors in all but few directions
    return None


class FeatureSpace:
    """Vectors of features, and their products with both covariances."""

    n_blocks = 3
    dual_block = 0  # x^T x' is the inner product of block 0 of x with this one of x'

    def __init__(self, C: GroupCovariance) -> None:
        self.C, self.size = C, C.shape[0]

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the products of which Lanczos takes the weighted sum."""
        self.C.products(z, out, groups)

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of the products that `multiply` writes."""
        return weights

    def lanczos_vectors(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        """Return the vectors that Lanczos iterates for those in `blocks`, unscaled."""
        x: Array = blocks[0]
        return x

    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Blocks of the k leading Ritz vectors; of one group the first block only."""
        vectors = run.leading(k)[None]
        if len(groups) == 1:
            return vectors
        return np.concatenate([vectors, run.leading_products(k)])

    def complete(self, x: Array) -> Array:
        """All blocks of the vectors in the first."""
        blocks = np.empty((3, *x.shape))
        blocks[0] = x
        for j, vector in enumerate(x):
            self.C.products(vector, blocks[1:, j])
        return blocks

    def projected(self, blocks: Array, other: Array) -> Array:
        """Inner products x^T C_g x' for both groups, shape (2, k, k')."""
        return np.array([blocks[0] @ products.T for products in other[1:]])

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        """Return the first block of ``(w_A C_A + w_B C_B) x - value x``."""
        R: Array = np.tensordot(weights, blocks[1:], axes=1)
        R -= values[:, None] * blocks[0]
        return R[None]

    def expand(self, blocks: Array) -> Array:
        """Vectors of features, as columns."""
        return np.ascontiguousarray(blocks[0].T)


class SampleSpace:
    """Combinations y of the rows, and products of ``x = Z^T y`` with the rows.

    Let D be diagonal: the weight of a row's group times the row's share of that group,
    one over its number of rows if they weigh the same. Then H(t) = Z^T D Z. Lanczos
    multiplies by D^(1/2) Z Z^T D^(1/2), which is symmetric and has the same nonzero
    eigenvalues. If z is an eigenvector of it, Z^T y is one of H(t), up to its length,
    with y = D^(1/2) z.
    """

    n_blocks, dual_block = 2, 1

    def __init__(
        self,
        C: GroupCovariance,
        X: Any,
        codes: NDArray[np.int64],
        weights: Array | None = None,
    ) -> None:
        self.C, self.size = C, X.shape[0]
        order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
        first = int(sizes[0])
        # Sorted rows of the groups.
        self.slices: dict[Groups, slice] = {
            (0, 1): slice(0, self.size),
            (0,): slice(0, first),
            (1,): slice(first, self.size),
        }
        self.groups = np.repeat([0, 1], sizes)
        # The share of each row in its group.
        self.row_shares = 1 / C.counts[self.groups]
        if weights is not None:
            self.row_shares *= weights[order]
        # Index of the centre that is subtracted from each row.
        self.centre = self.groups % len(C.centres)
        # The rows that multiply are followed by the centres: Z = rows - centres.
        rows, centres = sparse.csr_array(X), -sparse.csr_array(C.centres)
        self.rows = {
            groups: sparse.vstack([rows[order[part]], centres], format="csr")
            for groups, part in self.slices.items()
        }
        self.columns = {groups: rows.T for groups, rows in self.rows.items()}

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write D^(1/2) Z Z^T D^(1/2) z first, and Z Z^T D^(1/2) z last."""
        scale, part = self._scale(groups, weights), self.slices[groups]
        out[-1] = 0.0
        out[-1, part] = self._gram(scale[part] * z[part], groups)
        np.multiply(scale, out[-1], out=out[0])

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of the products that `multiply` writes: the first alone."""
        return np.eye(1, len(weights)).ravel()

    def lanczos_vectors(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        """Vectors z = D^(1/2) Z x that Lanczos iterates, unscaled."""
        z: Array = blocks[1] * self._scale(groups, weights)
        return z

    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Blocks of the k leading Ritz vectors with eigenvalues above rounding."""
        values = run.values[:k]
        k = int(np.count_nonzero(values > 1e-14 * run.scale))
        lengths = np.sqrt(values[:k, None])
        y = run.leading(k) * (self._scale(groups, weights) / lengths)
        if len(groups) == 1:
            return self.complete(y)
        return np.array([y, run.leading_products(k)[1] / lengths])

    def complete(self, y: Array) -> Array:
        """Both blocks of the vectors in the first."""
        return np.array([y, self._gram(y.T, (0, 1)).T])

    def projected(self, blocks: Array, other: Array) -> Array:
        """Inner products x^T C_g x' = (Z_g x)^T S (Z_g x'), S the shares of rows."""
        parts = self.slices[0,], self.slices[1,]
        weighted = other[1] * self.row_shares
        return np.array([blocks[1, :, p] @ weighted[:, p].T for p in parts])

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        """Both blocks of H x - value x: of y they are D Z x - value y."""
        y = blocks[1] * (weights[self.groups] * self.row_shares)
        y -= values[:, None] * blocks[0]
        return self.complete(y)

    def expand(self, blocks: Array) -> Array:
        """Vectors of features, as columns."""
        return np.asarray(self._features(blocks[0].T, (0, 1)))

    def _scale(self, groups: Groups, weights: Array) -> Array:
        """Roots of D, for the groups; zero for other rows."""
        scale = np.zeros(self.size)
        for g, w in zip(groups, weights, strict=True):
            part = self.slices[g,]
            scale[part] = np.sqrt(w * self.row_shares[part])
        return scale

    def _features(self, y: Array, groups: Groups) -> Array:
        """Z^T y, of rows of the groups; of one vector, or of several as columns."""
        centre = self.centre[self.slices[groups]]
        sums = [
            y[centre == c].sum(axis=0, keepdims=True)
            for c in range(len(self.C.centres))
        ]
        x: Array = self.columns[groups] @ np.concatenate([y, *sums])
        return x

    def _gram(self, y: Array, groups: Groups) -> Array:
        """Z Z^T y, of rows of the groups; of one vector, or of several as columns."""
        # Products with the rows, then with minus the centres.
        q = self.rows[groups] @ self._features(y, groups)
        m = len(y)
        product: Array = q[:m] + q[m:][self.centre[self.slices[groups]]]
        return product


VectorSpace: TypeAlias = FeatureSpace | SampleSpace


def choose_space(
    C: GroupCovariance, X: Any, codes: NDArray[np.int64], weights: Array | None
) -> VectorSpace:
    """Return the space whose vectors are shorter."""
    m, n = X.shape
    # The transposed rows, with two centres, have indices in int32.
    if m < n and X.nnz + 2 * n <= np.iinfo(np.int32).max:
        return SampleSpace(C, X, codes, weights)
    return FeatureSpace(C)


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
        self.n_ritz = r + max(10, r // 4)  # vectors that a run adds to the basis
        self.n_restart = 2 * r + 20  # vectors that are kept when the basis is full
        # Those kept, those of two runs, and a block of residuals.
        self.capacity = self.n_restart + 2 * self.n_ritz + r
        self.size = 0  # of the basis
        self.projected = np.empty((2, 0, 0))  # both covariances in the basis
        # Ritz vectors of H(t), rows of coefficients, by decreasing eigenvalue. Of the
        # first r `leading` has the blocks, `residuals` and `norms` the residuals.
        self.Y = np.empty((0, 0))
        self.weights = np.full(2, 0.5)  # t and 1 - t
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
        """Solve each group's own eigenproblem; return whether both are accurate.

        `best` are the groups' sums of the r largest eigenvalues, from which losses are
        counted.
        """
        # 1. Roughly, for a first basis.
        self.blocks = np.empty((self.space.n_blocks, self.capacity, self.space.size))
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
        self.rayleigh_ritz()
        self.add_residuals(3, 0.01 * self.scale)
        # 3. The sums to that accuracy, without a vector that is missed.
        for run in runs:
            is_accurate = self.advance(run, self.sum_tol)
            self.n_products += run.n_products
            if not is_accurate or self.has_missed_vector(run):
                return False
        self.best = np.array([run.values[: self.r].sum() for run in runs])
        return True

    def run(self) -> bool:
        """Add eigenvectors of H(t) at the weights; return whether these suffice."""
        # 1. Eigenvectors at the maximiser t in the present span.
        weights = self.weights
        run = self.lanczos((0, 1), weights, self.leading)
        self.n_runs += 1
        # Convergence in t is quadratic: a hundredth of the error squared is enough.
        self.advance(run, max(0.01 * self.error**2 / self.scale, self.sum_tol))
        k = min(self.n_ritz, len(run.values))
        # 2. They join the span, and t moves to the maximiser there.
        self.append(self.space.ritz_blocks(run, k, (0, 1), weights))
        self.rayleigh_ritz()
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
            self.rayleigh_ritz()

    def lanczos(
        self, groups: Groups, weights: Array, vectors: Array
    ) -> ThickRestartLanczos:
        """Lanczos from a random sum of `vectors`, blocks of Ritz vectors, or noise."""
        space = self.space
        start = self.rng.standard_normal(space.size)
        if vectors.shape[1]:
            # A sum of all approximate eigenvectors, with random signs, and some noise:
            # it may be orthogonal to an eigenvector.
            start *= 1e-3 / np.linalg.norm(start)
            approximate = space.lanczos_vectors(vectors, groups, weights)
            total = self.rng.choice([-1.0, 1.0], len(approximate)) @ approximate
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

    def has_missed_vector(self, run: ThickRestartLanczos) -> bool:
        """Whether an eigenvalue above the r-th is not among those of the run."""
        products = np.empty((run.weights.size, self.space.size))

        def multiply(x: Array) -> Array:
            run.products(x, products)
            self.n_products += 1
            return run.weights @ products

        # Known vectors are deflated: behind the first r those of small errors. One that
        # is turning into a missed vector would hide it.
        r, residuals = self.r, run.residuals[: self.n_ritz]
        gaps = np.maximum(run.values[r - 1] - run.values[: self.n_ritz], 0.0)
        is_known = residuals <= np.sqrt(self.sum_tol) * np.sqrt(gaps)
        is_known[:r] = True
        vectors = run.leading(len(is_known))[is_known]
        threshold = run.values[r - 1] + max(self.sum_tol, 1e-13 * run.values[0])
        return has_larger_eigenvalue(multiply, vectors, threshold, self.rng)

    def append(self, new: Array) -> None:
        """Extend the basis by new blocks; the later ones may be missing.

        Invariant: x^T x' = I in the basis, and `projected` has its x^T C_g x'.
        """
        space = self.space
        # 1. A full basis shrinks to the leading Ritz vectors of H(t).
        if self.size + new.shape[1] > self.capacity:
            Y = np.ascontiguousarray(self.Y[: self.n_restart])
            for rows in self.blocks:
                rows[: len(Y)] = Y @ rows[: self.size]
            self.size = len(Y)
            self.projected = Y @ self.projected @ Y.T
        # 2. Orthogonalise against the basis and among each other, by the eigenvectors
        #    of the Gram matrix; drop directions that depend on the others.
        basis, k = self.basis, self.size
        new = new - (new[0] @ basis[space.dual_block].T) @ basis[: len(new)]
        squares, Z = np.linalg.eigh(new[0] @ new[space.dual_block].T)
        is_independent = squares > 100 * EPS
        Z = Z[:, is_independent] / np.sqrt(squares[is_independent])
        # 3. Compute the missing blocks, by products with both covariances.
        new = Z.T @ new
        if len(new) < space.n_blocks:
            new = space.complete(new[0])
        self.n_products += new.shape[1]
        self.size = size = k + new.shape[1]
        self.blocks[:, k:size] = new
        # 4. Border the projected covariances.
        projected = np.empty((2, size, size))
        projected[:, :k, :k] = self.projected
        projected[:, :, k:] = space.projected(self.basis, new)
        projected[:, k:, :k] = projected[:, :k, k:].transpose(0, 2, 1)
        self.projected = (projected + projected.transpose(0, 2, 1)) / 2

    def rayleigh_ritz(self) -> None:
        """Solve the problem in the span of the basis; estimate the dual's error."""
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
        values, Y = np.linalg.eigh(np.tensordot(w, self.projected, axes=1))
        values, self.Y = values[::-1], np.ascontiguousarray(Y.T[::-1])
        self.leading = self.Y[:r] @ self.basis
        self.residuals = R = self.space.residuals(self.leading, w, values[:r])
        squares = (R[0] * R[self.space.dual_block]).sum(axis=1)
        self.norms = norms = np.sqrt(np.maximum(squares, 0.0))
        # 3. Error of the sum of eigenvalues: residual**2 / gap, at most the residual.
        #    The residuals are nearly orthogonal to the next few eigenvectors, too: the
        #    gap that counts lies behind these.
        next_value = values[min(r + GAP_OFFSET, len(values) - 1)]
        gaps = np.maximum(values[:r] - next_value, TINY)
        self.error = float(np.minimum(norms * (norms / gaps), norms).sum())

    def result(self) -> FairBasis:
        """Compress the covariances onto the leading Ritz vectors, and solve there."""
        V = self.space.expand(self.Y[: self.n_ritz] @ self.basis)
        # Orthonormal up to the products' errors, which Cholesky's factor removes.
        L = np.linalg.cholesky(V.T @ V)
        V = np.ascontiguousarray(solve_triangular(L, V.T, lower=True).T)
        C = self.space.C.compress(V)
        self.n_products += 1
        # The dual's derivative, the difference of the losses, may be a hundredth of the
        # tolerance.
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
