"""Fair PCA of two groups of sparse rows, by Lanczos runs that share their products."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse.linalg import LinearOperator

from scalefair._random_state import check_random_state
from scalefair.decomposition._pencil import weighted_sum
from scalefair.decomposition._spaces import Features, Groups, Samples
from scalefair.decomposition._subspace import FairBasis
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import single_blas_thread
from scalefair.linalg import ThickRestartLanczos, spectral_bounds

Array = NDArray[np.float64]

# Most components: bases for Lanczos are larger than blocks.
_MOST = 100
# Lanczos runs at weights, and vectors multiplied in each, before another way is taken.
_RUNS, _PRODUCTS = 6, 5000
# Error of the groups' sums with which the search begins, as a part of them.
_FIRST = 1e-6
# Parts of the tolerance: the error of the groups' sums, and of the dual in the span.
_SUMS, _DUAL = 0.05, 0.1
# The derivative of the dual at the end, as a part of the tolerance.
_LAST = 1e-2
# What a first look at a run waits for: this part of the square of the error before.
_RUN = 1e-2
# Blocks of residuals that are added, while each divides the error by this.
_BLOCKS, _FALL = 6, 2.0
# As many before the first run, to this part of the loss.
_FIRST_BLOCKS, _FIRST_ERROR = 3, 1e-2
# Eigenvectors behind the wanted ones that are in the span but for little.
_BEHIND = 5
# A group with this part of the other's variance has none.
_ROUNDING = 1e-12
# Directions of squared length below this are in the span already.
_DEPENDENT = 1e-14
# Noise in a first vector, lest it be orthogonal to an eigenvector.
_NOISE = 1e-3
# Lanczos steps that look for eigenvectors which were missed.
_CHECK_STEPS = 8
# Columns of the basis that are turned at once: they stay in the cache.
_COLUMNS = 4096


@single_blas_thread()
def solve_by_lanczos(
    space: Features | Samples, r: int, *, tol: float, max_iter: int, random_state: Any
) -> FairBasis | None:
    """Minimise the larger loss of two groups; None where other ways are better."""
    if r > _MOST or space.size < _capacity(r):
        return None
    traces = space.C.group_traces
    if traces.min() <= _ROUNDING * traces.max():
        return None  # Lanczos would find directions of rounding errors
    search = _Search(space, r, tol, check_random_state(random_state))
    try:
        if search.begin() and any(search.run() for _ in range(min(max_iter, _RUNS))):
            return search.result()
    except np.linalg.LinAlgError:
        pass  # a covariance may be rounding but for few directions
    return None


def _shown(r: int) -> int:
    """Ritz vectors that a run adds to the basis."""
    return r + max(10, r // 4)


def _kept(r: int) -> int:
    """Ritz vectors that are kept when the basis is full."""
    return 2 * r + 20


def _capacity(r: int) -> int:
    """Most vectors in the basis: those that are kept, those of two runs, a block."""
    return _kept(r) + 2 * _shown(r) + r


class _Search:
    """Orthonormal vectors, their products with both covariances, and the weights.

    In the span the dual is known for all t. Eigenvectors of H(t) = t C_A + (1-t) C_B at
    a t nearby, and residuals, are what it has to contain: both were multiplied by both.
    """

    def __init__(
        self,
        space: Features | Samples,
        r: int,
        tol: float,
        rng: np.random.RandomState,
    ) -> None:
        self.space, self.r, self.tol, self.rng = space, r, tol, rng
        self.stack = np.empty((space.depth, _capacity(r), space.size))
        self.size = 0
        self.projected = np.empty((2, 0, 0))
        self.Y = np.empty((0, 0))  # Ritz vectors of H(t), rows in the basis
        self.weights = np.full(2, 0.5)
        self.n_products = self.n_runs = 0

    @property
    def basis(self) -> Array:
        """The stack of the basis; a view."""
        return self.stack[:, : self.size]

    def begin(self) -> bool:
        """Solve the groups' own problems, and that in the span of the solutions."""
        runs = []
        for g in (0, 1):
            run = self.lanczos((g,), np.ones(1), self.basis)
            self.advance(run, part=_FIRST)
            self.append(self.space.found(run, self.r + 2, (g,), np.ones(1)))
            runs.append(run)
        if self.size <= self.r:
            return False  # the rows have no more directions
        self.best = np.array([run.values[: self.r].sum() for run in runs])
        self.reduce()
        self.polish(_FIRST_BLOCKS, _FIRST_ERROR)
        exact = all(self.finish(run) for run in runs)
        self.best = np.array([run.values[: self.r].sum() for run in runs])
        return exact

    def finish(self, run: ThickRestartLanczos) -> bool:
        """Go on until the sum is accurate; return whether none of it was missed."""
        accurate = self.advance(run, self.least)
        self.n_products += run.n_products
        return accurate and not self.missed(run)

    def lanczos(
        self, groups: Groups, weights: Array, near: Array
    ) -> ThickRestartLanczos:
        """Run that begins at a random sum of vectors near the eigenvectors."""
        space = self.space
        start = self.rng.standard_normal(space.size)
        if near.shape[1]:
            start *= _NOISE / np.linalg.norm(start)
            image = space.image(near, groups, weights)
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
        self, run: ThickRestartLanczos, error: float = 0.0, part: float = 0.0
    ) -> bool:
        """Go on until the sum is accurate, or to a part of it; whether it is."""
        return run.run(
            lambda it: it.error <= max(error, part * it.values[: self.r].sum()),
            chunk=max(4, run.ncv // 12),  # an eigendecomposition each
            max_products=_PRODUCTS,
        )

    def missed(self, run: ThickRestartLanczos) -> bool:
        """Whether Lanczos beside the vectors found finds a larger eigenvalue."""
        n, r = self.space.size, self.r
        found = run.leading(min(_shown(r), len(run.values)))
        products = np.empty((run.weights.size, n))

        def without_found(x: Array) -> Array:
            run.products(x - (found @ x) @ found, products)
            y = run.weights @ products
            y -= (found @ y) @ found
            return y

        self.n_products += _CHECK_STEPS
        rest = LinearOperator((n, n), matvec=without_found, dtype=np.float64)
        bounds = spectral_bounds(rest, n_steps=_CHECK_STEPS, random_state=self.rng)
        slack = max(self.least, 1e-13 * run.values[0])
        return bool(bounds.nodes[-1] > run.values[r - 1] + slack)

    def append(self, new: Array) -> None:
        """Add what is new in a stack, or in its first part, to the basis."""
        if self.size + new.shape[1] > self.stack.shape[1]:
            self.shrink()
        space, basis, k = self.space, self.basis, self.size
        new = new - space.inner(new, basis) @ basis[: len(new)]
        lengths, Z = np.linalg.eigh(space.inner(new, new))
        wanted = lengths > _DEPENDENT
        new = space.complete((Z[:, wanted] / np.sqrt(lengths[wanted])).T @ new)
        self.n_products += new.shape[1]
        self.size = size = k + new.shape[1]
        self.stack[:, k:size] = new
        projected = np.empty((2, size, size))
        projected[:, :k, :k] = self.projected
        projected[:, :, k:] = space.projected(self.basis, new)
        projected[:, k:, :k] = projected[:, :k, k:].transpose(0, 2, 1)
        self.projected = (projected + projected.transpose(0, 2, 1)) / 2

    def shrink(self) -> None:
        """Keep the leading Ritz vectors of H(t) only."""
        Y = np.ascontiguousarray(self.Y[: _kept(self.r)])
        for rows in self.stack:
            for start in range(0, rows.shape[1], _COLUMNS):
                some = slice(start, start + _COLUMNS)
                rows[: len(Y), some] = Y @ rows[: self.size, some]
        self.size = len(Y)
        self.projected = Y @ self.projected @ Y.T

    def reduce(self) -> None:
        """Solve the problem in the span, and estimate how far H(t) is from it."""
        r = self.r
        self.small = solve_two_groups(
            self.projected,
            r,
            best=self.best,
            tol=_SUMS * self.tol,
            weights0=self.weights,
        )
        self.weights = w = self.small.weights
        # Losses near zero are known to rounding only.
        rounding = 1e-13 * float(self.best.max()) / self.tol
        self.scale = max(float(self.small.losses.max()), rounding)
        values, Y = np.linalg.eigh(weighted_sum(w, self.projected))
        self.values, self.Y = values[::-1], np.ascontiguousarray(Y.T[::-1])
        self.leading = self.Y[:r] @ self.basis
        self.residuals = self.space.combined(self.leading, w, self.values[:r])
        self.norms = self.space.norms(self.residuals)
        self.error = self.beyond(self.norms)

    def turn(self) -> Array:
        """Lengths of what C_A - C_B makes of the eigenvectors, outside the span."""
        signs = np.array([1.0, -1.0])
        inside = self.Y[: self.r] @ weighted_sum(signs, self.projected)
        whole = self.space.norms(self.space.combined(self.leading, signs))
        outside: Array = np.sqrt(np.maximum(whole**2 - (inside**2).sum(axis=1), 0))
        return outside

    def beyond(self, norms: Array) -> float:
        """Estimate the error of the r largest values' sum from their residuals."""
        # Residuals are orthogonal to the next few eigenvectors, too: these are nearly
        # in the span, and the gap that counts is the one behind them.
        values, r = self.values, self.r
        behind = values[min(r + _BEHIND, len(values) - 1)]
        gaps = np.maximum(values[:r] - behind, np.finfo(float).tiny)
        return float(np.minimum(norms * (norms / gaps), norms).sum())

    @property
    def least(self) -> float:
        """Error of a sum of eigenvalues that is small enough."""
        return _SUMS * self.tol * self.scale

    @property
    def certified(self) -> bool:
        """Whether the dual is accurate in the span."""
        return self.error <= _DUAL * self.tol * self.scale

    def polish(self, most: int = _BLOCKS, aim: float = 0.0) -> bool:
        """Add blocks of residuals; return whether the dual is accurate in the span."""
        for _ in range(most):
            before = self.error
            if self.certified or before <= aim * self.scale or not self.norms.all():
                break
            self.append(self.residuals / self.norms[:, None])
            self.reduce()
            if self.error > before / _FALL:
                break
        return self.certified

    def run(self) -> bool:
        """Add the eigenvectors at the weights; return whether these need no others."""
        weights, r = self.weights, self.r
        run = self.lanczos((0, 1), weights, self.leading)
        self.n_runs += 1
        allowed = _RUN * self.error**2 / self.scale
        while True:
            converged = self.advance(run, max(allowed, self.least))
            n = min(_shown(r), len(run.values))
            self.append(self.space.found(run, n, (0, 1), weights))
            self.reduce()
            if self.certified or not converged:
                break
            # The part of the residuals that this run does not change.
            change = abs(float(self.weights[0] - weights[0]))
            allowed = self.beyond(change * self.turn())
            if run.error <= max(allowed, self.least):
                break
        self.n_products += run.n_products
        return self.polish() and not self.missed(run)

    def result(self) -> FairBasis:
        """Compress exactly onto the leading vectors, and solve there."""
        V = self.space.expand(self.Y[: _shown(self.r)] @ self.basis)
        # Orthonormal up to the products' errors: Cholesky's factor takes them away.
        L = np.linalg.cholesky(V.T @ V)
        V = np.ascontiguousarray(solve_triangular(L, V.T, lower=True).T)
        C = self.space.C.compress(V)
        self.n_products += 1
        small = solve_two_groups(
            C, self.r, best=self.best, tol=_LAST * self.tol, weights0=self.weights
        )
        Y = small.basis
        return FairBasis(
            weights=small.weights,
            basis=V @ Y,
            compressed=Y.T @ C @ Y,
            best=self.best,
            dual_value=small.dual_value - self.error,
            n_iter=self.n_runs,
            n_products=self.n_products,
            converged=small.converged,
            message="",
        )
