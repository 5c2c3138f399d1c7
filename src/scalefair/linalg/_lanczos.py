"""Thick-restart Lanczos, with a search for missed copies of multiple eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import check_count, check_random_state, checked_product
from scalefair._rounding import EPS
from scalefair.linalg._base import (
    TEXTS,
    Array,
    BlockIteration,
    Eigenpairs,
    EigenResult,
    Random,
)
from scalefair.linalg._thick_restart import ThickRestartLanczos
from scalefair.operators._base import apply_block

# A random vector's component along a direction is smaller than its root mean square
# divided by this in about one case of a hundred.
COMPONENT_RATIO = 100.0


@documented(**TEXTS)
@kernels.single_blas_thread()
def lanczos(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int | None = None,
    orthogonal_to: ArrayLike | None = None,
    random_state: Any = None,
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by thick-restart Lanczos.

    Multiplies one vector at a time, in float64. A last run, from a random vector
    orthogonal to the computed eigenvectors, looks for copies of multiple eigenvalues
    that the first has missed: it ends when one such vector in a hundred would hide one.
    About ``8 n (max(40, 3 k + 10) + 5 k)`` bytes.

    Parameters
    ----------
    %(A)s
        Orders up to ``max(40, 3 k + 10)`` are solved densely.
    %(k)s
    %(tol)s
    max_iter : int or None, default=None
        Most times the basis is filled; None is ``10 n``.
    %(orthogonal_to)s
        Its eigenvalues must not be among the `k` largest.
    %(random_state)s

    Returns
    -------
    EigenResult
        `n_iter` counts how often the basis was filled.

    %(raises)s

    References
    ----------
    Wu, Simon (2000), "Thick-restart Lanczos method for large symmetric eigenvalue
    problems".

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import lanczos
    >>> A = sparse.diags_array(np.arange(100.0))
    >>> lanczos(A, 2, tol=1e-10, random_state=0).values.round(8)
    array([99., 98.])
    """
    operator, _, deflated = base.as_problem(A, k, orthogonal_to=orthogonal_to)
    n = operator.shape[0]
    max_iter = 10 * n if max_iter is None else max_iter
    check_count("max_iter", max_iter, 1)
    if n - deflated.shape[1] <= max(40, 3 * k + 10):
        return base.dense_eigh(operator, k, orthogonal_to=deflated)
    # 1. A run for k pairs, then runs for one each while a larger value is found.
    search = _DeflatedRuns(
        operator, deflated, tol, max_iter, check_random_state(random_state)
    )
    pairs = search.largest(k)
    # 2. Residuals are measured by a last product, not estimated from T.
    residual = float(pairs[2].max())
    converged = residual <= tol * search.scale
    message = base.stop_message(
        search.n_iter, max_iter, residual, converged, steps="filling(s) of the basis"
    )
    return search.result_of(pairs, search.n_iter, converged, message)


class _DeflatedRuns(BlockIteration):
    """Lanczos runs, each with the eigenvectors of the runs before deflated."""

    def __init__(
        self, A: LinearOperator, deflated: Array, tol: float, max_iter: int, rng: Random
    ) -> None:
        """Operator of order n, columns (n, r) to avoid, and the limits of all runs."""
        super().__init__(A)
        self.deflated, self.tol, self.max_iter, self.rng = deflated, tol, max_iter, rng
        single = A.dtype == np.float32
        self.epsilon = float(np.finfo(np.float32).eps) if single else EPS
        # Rounding errors leave residuals of about 10 epsilon.
        self.min_tol = max(tol, 10 * self.epsilon)
        # Rows, (number of pairs, n): what the runs after the first leave out.
        self.eigenvectors = np.empty((0, A.shape[0]))
        self.n_iter = 0

    def largest(self, k: int) -> Eigenpairs:
        """Pairs from one Krylov space, and larger ones that it lacks."""
        # 1. The Krylov space of one vector: one copy of each eigenvalue.
        run = self.run(k, self.is_accurate)
        self.n_iter = run.n_restarts + 1
        pairs = self.rayleigh_ritz(run.leading(k))
        # 2. Invariant: `pairs` holds k eigenpairs. Eigenvectors that are missed are
        #    orthogonal to theirs, so that a deflated run can see them.
        while self.is_accurate(run):
            # Deflate the pairs and look for an eigenvalue above the smallest. Values
            # within the tolerance of each other count as equal.
            threshold = float(pairs[0][-1]) + self.min_tol * self.scale
            self.eigenvectors = np.ascontiguousarray(pairs[1].T)
            del run  # before the next basis
            run = self.run(1, self.none_above(threshold))
            # No larger eigenvalue was seen: the pairs are the k largest.
            if run.values[0] <= threshold:
                break
            # The new pair replaces the smallest one.
            more = self.rayleigh_ritz(np.vstack([self.eigenvectors, run.leading(1)]))
            pairs = more[0][:k], np.ascontiguousarray(more[1][:, :k]), more[2][:k]
        return pairs

    def none_above(self, value: float) -> Callable[[ThickRestartLanczos], bool]:
        """Criterion: no eigenvalue exceeds `value`, or the first pair has converged.

        The component of the start along an eigenvector is about ``1 / sqrt(n)``. Once
        it would have grown beyond 1, the eigenvector would be seen as a Ritz vector.
        """
        # Growths of the Krylov spaces between restarts multiply: each is relative to
        # the first vector after a restart. The last entry of a space replaces its
        # earlier ones.
        growth: dict[int, float] = {}  # by number of restarts
        sufficient_growth = COMPONENT_RATIO * math.sqrt(self.operator.shape[0])

        def done(run: ThickRestartLanczos) -> bool:
            if run.values[0] < value:
                growth[run.n_restarts] = run.growth(value)
                if math.prod(growth.values()) >= sufficient_growth:
                    return True
            return self.is_accurate(run)

        return done

    def run(
        self, k: int, done: Callable[[ThickRestartLanczos], bool]
    ) -> ThickRestartLanczos:
        """Lanczos from a random vector orthogonal to the deflated ones."""
        # The start has no component along what the caller left out, and the run
        # projects its products away from the eigenvectors computed so far.
        start = self.rng.standard_normal(self.operator.shape[0])
        start -= self.deflated @ (self.deflated.T @ start)

        def product(x: Array, out: Array) -> None:
            # Vectors of the run are rows, blocks of an operator have columns.
            apply_block(self.operator, x[:, None], out.reshape(-1, 1))
            self.count(1)

        run = ThickRestartLanczos(
            product,
            [1.0],
            k,
            start,
            deflate=self.eigenvectors,
            epsilon=self.epsilon,
            random_state=self.rng,
        )
        run.scale = self.scale

        def ends(it: ThickRestartLanczos) -> bool:
            # A full basis counts although it has not been restarted yet.
            n_fillings = it.n_restarts + (len(it.values) == it.ncv)
            return n_fillings >= self.max_iter or done(it)

        run.run(ends, chunk=5)
        self.scale = run.scale
        return run

    def is_accurate(self, run: ThickRestartLanczos) -> bool:
        """Whether the wanted pairs of a run have converged, by its estimates."""
        residual: float = run.residuals[: run.k].max()
        return residual <= self.min_tol * run.scale

    def rayleigh_ritz(self, rows: Array) -> Eigenpairs:
        """Ritz pairs and measured residual norms on the span of orthonormal rows."""
        # 1. Columns (n, k), clean of the directions that the caller left out: vectors
        #    that continue from an invariant subspace have parts along them.
        X = np.ascontiguousarray(rows.T)
        X = base.orthonormalize(X, against=self.deflated, rng=self.rng)
        AX = checked_product(self.operator, X)
        self.count(X.shape[1])
        # 2. Ritz pairs; X and A X are rotated in place, and give the residuals.
        values, residuals = base.rotate_to_ritz(X, AX)
        self.scale = max(self.scale, float(np.abs(values).max()))
        return values, X, residuals
