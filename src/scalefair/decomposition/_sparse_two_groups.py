"""Fair PCA of two groups of sparse rows, by Lanczos runs that share their products."""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._random import check_random_state
from scalefair.decomposition._pencil import weighted_sum
from scalefair.decomposition._subspace import FairBasis
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import single_blas_thread
from scalefair.linalg import ThickRestartLanczos, spectral_bounds
from scalefair.operators import GroupCovariance

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
    C: GroupCovariance, r: int, *, tol: float, max_iter: int, random_state: Any
) -> FairBasis | None:
    """Minimise the larger loss of two groups; None where other ways are better."""
    if C.counts.size != 2 or r > _MOST or C.shape[0] < _capacity(r):
        return None
    search = _Search(C, r, tol, check_random_state(random_state))
    try:
        if search.begin() and any(search.run() for _ in range(min(max_iter, _RUNS))):
            return search.result()
    except np.linalg.LinAlgError:
        pass  # a group's covariance may be rounding only
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
    """Orthonormal rows, their products with both covariances, and the weights.

    In the span the dual is known for all t. Eigenvectors of H(t) = t C_A + (1-t) C_B at
    a t nearby, and residuals, are what it has to contain: both were multiplied by both.
    """

    def __init__(
        self, C: GroupCovariance, r: int, tol: float, rng: np.random.RandomState
    ) -> None:
        self.C, self.r, self.tol, self.rng = C, r, tol, rng
        # The basis, and its products with the first and the second covariance.
        self.rows = np.empty((3, _capacity(r), C.shape[0]))
        self.size = 0
        self.projected = np.empty((2, 0, 0))
        self.Y = np.empty((0, 0))  # Ritz vectors of H(t), rows in the basis
        self.weights = np.full(2, 0.5)
        self.n_products = self.n_runs = 0

    def begin(self) -> bool:
        """Solve the groups' own problems, and that in the span of the solutions."""
        r, near = self.r, None
        runs: list[ThickRestartLanczos] = []
        for g in (0, 1):
            run = self.lanczos((g,), np.ones(1), near)
            run.run(
                lambda it: it.error <= _FIRST * it.values[:r].sum(),
                chunk=_chunk(run),
                max_products=_PRODUCTS,
            )
            near = run.leading(r + 2)
            self.append(near)
            runs.append(run)
        self.best = np.array([run.values[:r].sum() for run in runs])
        self.reduce()
        self.polish(_FIRST_BLOCKS, _FIRST_ERROR)
        exact = all(self.finish(run) for run in runs)
        self.best = np.array([run.values[:r].sum() for run in runs])
        self.reduce()
        return exact

    def finish(self, run: ThickRestartLanczos) -> bool:
        """Go on until the sum is accurate; return whether none of it was missed."""
        accurate = self.advance(run, self.least)
        self.n_products += run.n_products
        return accurate and not self.missed(run)

    def lanczos(
        self, groups: tuple[int, ...], weights: Array, near: Array | None
    ) -> ThickRestartLanczos:
        """Run that begins at a random sum of vectors near the eigenvectors."""
        start = self.rng.standard_normal(self.C.shape[0])
        if near is not None:
            start *= _NOISE / np.linalg.norm(start)
            signs = self.rng.choice([-1.0, 1.0], len(near))
            start += signs / math.sqrt(len(near)) @ near
        products = partial(self.C.products, codes=groups)
        return ThickRestartLanczos(
            products, weights, self.r, start, random_state=self.rng
        )

    def advance(self, run: ThickRestartLanczos, error: float) -> bool:
        """Go on until the sum is accurate; return whether it is."""
        return run.run(
            lambda it: it.error <= error, chunk=_chunk(run), max_products=_PRODUCTS
        )

    def missed(self, run: ThickRestartLanczos) -> bool:
        """Whether Lanczos beside the vectors found finds a larger eigenvalue."""
        n, r = self.C.shape[0], self.r
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

    def append(self, V: Array, products: Array | None = None) -> None:
        """Add what is new in rows V to the basis, and its products."""
        if self.size + len(V) > self.rows.shape[1]:
            self.shrink()
        k = self.size
        B, *rest = self.rows[:, :k]
        M = V @ B.T
        new = V - M @ B
        lengths, Z = np.linalg.eigh(new @ new.T)
        wanted = lengths > _DEPENDENT
        Z = (Z[:, wanted] / np.sqrt(lengths[wanted])).T
        self.size = size = k + len(Z)
        np.matmul(Z, new, out=self.rows[0, k:size])
        if products is None:
            for j in range(k, size):
                self.C.products(self.rows[0, j], self.rows[1:, j])
            self.n_products += len(Z)
        else:
            for target, P, known in zip(self.rows[1:], products, rest, strict=True):
                np.matmul(Z, P - M @ known, out=target[k:size])
        projected = np.empty((2, size, size))
        projected[:, :k, :k] = self.projected
        for target, P in zip(projected, self.rows[1:], strict=True):
            target[:, k:] = self.rows[0, :size] @ P[k:size].T
            target[k:, :k] = target[:k, k:].T
        self.projected = (projected + projected.transpose(0, 2, 1)) / 2

    def shrink(self) -> None:
        """Keep the leading Ritz vectors of H(t) only."""
        Y = np.ascontiguousarray(self.Y[: _kept(self.r)])
        for rows in self.rows:
            for start in range(0, rows.shape[1], _COLUMNS):
                some = slice(start, start + _COLUMNS)
                rows[: len(Y), some] = Y @ rows[: self.size, some]
        self.size = len(Y)
        self.projected = Y @ self.projected @ Y.T
        self.Y = np.eye(len(Y))

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
        X, A, B = (self.Y[:r] @ rows[: self.size] for rows in self.rows)
        self.leading, A_less_B = X, A - B
        X = X * -self.values[:r, None]
        X += B
        X += w[0] * A_less_B
        self.residuals = X
        self.error = self.beyond(_norms(X))
        # What C_A - C_B takes the eigenvectors to, outside the span.
        inside = self.Y[:r] @ (self.projected[0] - self.projected[1])
        self.turn = np.sqrt(
            np.maximum(_norms(A_less_B) ** 2 - (inside**2).sum(axis=1), 0)
        )

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
            norms, before = _norms(self.residuals), self.error
            if self.certified or self.error <= aim * self.scale or not norms.all():
                break
            self.append(self.residuals / norms[:, None])
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
            self.append(run.leading(n), run.leading_products(n))
            self.reduce()
            # The part of the residuals that this run does not change.
            change = abs(float(self.weights[0] - weights[0]))
            allowed = self.beyond(change * self.turn)
            if self.certified or not converged:
                break
            if run.error <= max(allowed, self.least):
                break
        self.n_products += run.n_products
        return self.polish() and not self.missed(run)

    def result(self) -> FairBasis:
        """Compress exactly onto the leading vectors, and solve there."""
        V = np.linalg.qr((self.Y[: _shown(self.r)] @ self.rows[0, : self.size]).T)[0]
        C = self.C.compress(np.ascontiguousarray(V))
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


def _norms(rows: Array) -> Array:
    norms: Array = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def _chunk(run: ThickRestartLanczos) -> int:
    """Return the steps between questions, an eigendecomposition each."""
    return max(4, run.ncv // 12)
