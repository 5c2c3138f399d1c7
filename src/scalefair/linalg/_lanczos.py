"""Implicitly restarted Lanczos (ARPACK, through SciPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

import scalefair.linalg._base as base
from scalefair._docs import documented
from scalefair._entries import checked_product
from scalefair._random import check_random_state
from scalefair.kernels import single_blas_thread
from scalefair.linalg._base import TEXTS, Array, EigenResult, Iteration, Pairs, Random


@documented(**TEXTS)
@single_blas_thread()
def lanczos(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int | None = None,
    orthogonal_to: ArrayLike | None = None,
    random_state: Any = None,
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by restarted Lanczos.

    Multiplies one vector at a time. A last run, on the operator without the pairs
    found, looks for copies of multiple eigenvalues that the first has missed.

    Parameters
    ----------
    %(A)s
        Orders up to ``k + 1``, which ARPACK does not take, are solved densely.
    %(k)s
    %(tol)s
    max_iter : int or None, default=None
        Most restarts; None is ARPACK's ``10 n``.
    %(orthogonal_to)s
        Its eigenvalues must not be among the `k` largest.
    %(random_state)s

    Returns
    -------
    EigenResult
        `n_iter` counts products. Ritz pairs of random vectors complete what was found.

    %(raises)s

    References
    ----------
    Lehoucq, Sorensen, Yang (1998), "ARPACK Users' Guide", SIAM.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import lanczos
    >>> A = sparse.diags_array(np.arange(100.0))
    >>> lanczos(A, 2, tol=1e-10, random_state=0).values.round(8)
    array([99., 98.])
    """
    operator, _, avoided = base.as_problem(A, k, orthogonal_to=orthogonal_to)
    n = operator.shape[0]
    if k >= n - 1:
        return base.dense_eigh(operator, k, orthogonal_to=avoided)
    rng = check_random_state(random_state)
    arpack = _Arpack(operator, avoided, tol, max_iter, rng)
    message = ""
    try:
        vectors = arpack.largest(k)
    except ArpackNoConvergence as error:
        vectors = error.eigenvectors.astype(np.float64)
        message = (
            f"ARPACK found {vectors.shape[1]} of {k} pairs in {arpack.n_products} "
            "products: raise max_iter or tol, or use the Chebyshev solver."
        )
    except ArpackError as error:
        # A zero operator, as a rule: random vectors are then as good as any.
        vectors = np.empty((n, 0))
        message = f"ARPACK failed ({error}): use the Chebyshev solver."
    missing = k - vectors.shape[1]
    vectors = np.hstack([vectors, rng.standard_normal((n, missing))])
    pairs = arpack.rayleigh_ritz(vectors)
    if not missing:
        if (pairs[2] > tol * arpack.scale).any():
            pairs = _find_again(arpack, pairs)
        pairs = _add_copies(arpack, pairs)
    values, vectors, residuals = pairs
    converged = bool((residuals <= tol * arpack.scale).all())
    if converged:
        message = "Every residual is within tol."
    elif not message:
        message = (
            f"ARPACK stopped with a residual of {residuals.max():.1e}, above "
            f"tol = {tol:.1e}: raise tol or max_iter, or use the Chebyshev solver."
        )
    pairs = values, np.ascontiguousarray(vectors), residuals
    return arpack.result_of(pairs, arpack.n_products, converged, message)


def _find_again(arpack: _Arpack, pairs: Pairs) -> Pairs:
    """Compute the inaccurate pairs once more, from another start."""
    # ARPACK estimates residuals; for a copy that came in by rounding errors the
    # estimate can be far too small.
    values, vectors, residuals = pairs
    good = residuals <= arpack.tol * arpack.scale
    try:
        more = arpack.largest(
            int((~good).sum()), moved=vectors[:, good], by=values[good] + arpack.scale
        )
    except ArpackError:
        return pairs
    return arpack.rayleigh_ritz(np.hstack([vectors[:, good], more]))


def _add_copies(arpack: _Arpack, pairs: Pairs) -> Pairs:
    """Exchange the smallest pairs for larger ones that Lanczos has missed."""
    # Copies of a multiple eigenvalue come in by rounding errors only, late or never.
    # With the pairs found moved to the lower end, what is largest now was missed.
    while True:
        known, vectors, _ = pairs
        try:
            more = arpack.largest(1, moved=vectors, by=known + arpack.scale)
        except ArpackError:
            return pairs
        k = len(known)
        values, vectors, residuals = arpack.rayleigh_ritz(np.hstack([vectors, more]))
        # Values within the tolerance of each other count as the same.
        if (values[:k] <= known + arpack.tol * arpack.scale).all():
            return pairs
        pairs = values[:k], vectors[:, :k], residuals[:k]


class _Arpack(Iteration):
    """ARPACK on an operator, with the counts and the norm of its products."""

    def __init__(
        self, A: LinearOperator, avoided: Array, tol: float, max_iter: Any, rng: Random
    ) -> None:
        super().__init__(A)
        self.avoided = avoided
        self.tol, self.max_iter, self.rng = tol, max_iter, rng
        self.dtype = np.float32 if A.dtype == np.float32 else np.float64

    def largest(
        self, k: int, moved: Array | None = None, by: Array | None = None
    ) -> Array:
        """Vectors of the k largest pairs, after moving known ones down."""
        n = self.operator.shape[0]

        def matvec(x: NDArray[Any]) -> NDArray[Any]:
            x = x.ravel()
            y = checked_product(self.operator, x, dtype=self.dtype)
            self.count(1)
            base.check_scale(float(np.abs(y).max()))
            norm = float(np.linalg.norm(y) / np.linalg.norm(x))
            self.scale = max(self.scale, norm)
            return y if moved is None else y - moved @ (by * (moved.T @ x))

        v0 = self.rng.standard_normal(n)
        v0 -= self.avoided @ (self.avoided.T @ v0)
        A = LinearOperator(self.operator.shape, matvec=matvec, dtype=self.dtype)
        options = {"tol": self.tol, "maxiter": self.max_iter, "v0": v0.astype(A.dtype)}
        _, vectors = eigsh(A, k, which="LA", **options)
        found: Array = vectors.astype(np.float64)
        return found

    def rayleigh_ritz(self, vectors: Array) -> Pairs:
        """Ritz values, vectors and residual norms in float64, largest first."""
        for _ in range(2):  # once more against what the first pass left
            vectors = vectors - self.avoided @ (self.avoided.T @ vectors)
            vectors, _ = np.linalg.qr(vectors)
        product = self.multiply(vectors)
        projected = vectors.T @ product
        values, S = base.eigh_descending(projected)
        vectors, product = vectors @ S, product @ S
        residuals = np.linalg.norm(product - vectors * values, axis=0)
        self.scale = max(self.scale, float(np.abs(values).max()))
        return values, vectors, residuals
