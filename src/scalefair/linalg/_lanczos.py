"""Implicitly restarted Lanczos (ARPACK, through SciPy)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from scalefair._random import check_random_state
from scalefair.linalg._checks import as_symmetric_operator, check_avoided, check_product
from scalefair.linalg._dense import dense_eigh
from scalefair.linalg._result import EigenResult, orient

__all__ = ["lanczos"]


def lanczos(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int | None = None,
    orthogonal_to: np.ndarray | None = None,
    random_state: Any = None,
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by restarted Lanczos.

    Multiplies one vector at a time: the fewest products of all solvers here, and
    the slowest ones. Orders up to ``k + 1``, which ARPACK does not take, are
    solved densely.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    tol : float, default=1e-4
        A pair has converged when its residual norm is at most `tol` times the
        spectral norm of the operator, taken from the products.
    max_iter : int or None, default=None
        Most restarts; None is ARPACK's ``10 n``.
    orthogonal_to : ndarray of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted: the starting
        vector and the result are made orthogonal to it. Its eigenvalues must not
        be among the `k` largest.
    random_state : int, RandomState instance or None, default=None
        For the starting vector.

    Returns
    -------
    EigenResult
        `n_iter` counts products, ARPACK does not tell its restarts. When ARPACK
        gives up, the pairs it found are completed by Ritz pairs of random
        vectors and `converged` is False.

    Raises
    ------
    ValueError
        If `A` is not square or `k` does not fit it.
    FloatingPointError
        If a product with the operator is not finite.

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
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    check_avoided(orthogonal_to, n, k)
    if k >= n - 1:
        return dense_eigh(operator, k, orthogonal_to=orthogonal_to)
    rng = check_random_state(random_state)
    n_products = 0
    scale = float(np.finfo(np.float64).tiny)  # the spectral norm, from below

    def matvec(x: np.ndarray) -> np.ndarray:
        nonlocal n_products, scale
        n_products += 1
        y = operator.matvec(x)
        check_product(y)
        scale = max(scale, float(np.linalg.norm(y) / np.linalg.norm(x)))
        return y

    dtype = np.float32 if operator.dtype == np.float32 else np.float64
    counted = LinearOperator(operator.shape, matvec=matvec, dtype=dtype)
    avoided = np.empty((n, 0)) if orthogonal_to is None else orthogonal_to
    v0 = rng.standard_normal(n)
    v0 = (v0 - avoided @ (avoided.T @ v0)).astype(dtype)
    try:
        _, vectors = eigsh(counted, k, which="LA", tol=tol, maxiter=max_iter, v0=v0)
        message = "ARPACK converged."
    except ArpackNoConvergence as error:
        vectors = error.eigenvectors
        message = (
            f"ARPACK found {vectors.shape[1]} of {k} pairs in {n_products} products: "
            "raise max_iter or tol, or use the Chebyshev solver."
        )
    except ArpackError as error:
        # A zero operator, as a rule: random vectors are then as good as any.
        vectors = np.empty((n, 0))
        message = f"ARPACK failed ({error}): use the Chebyshev solver."
    vectors = vectors.astype(np.float64)
    if vectors.shape[1] < k:
        fill = rng.standard_normal((n, k - vectors.shape[1]))
        vectors = np.hstack([vectors, fill])
    # Rayleigh-Ritz in float64: orthonormal vectors, measured residuals.
    for _ in range(2):  # once more against what the first pass left
        vectors, _ = np.linalg.qr(vectors - avoided @ (avoided.T @ vectors))
    product = np.asarray(operator.matmat(vectors), dtype=np.float64)
    projected = vectors.T @ product
    values, S = np.linalg.eigh((projected + projected.T) / 2)
    values, S = values[::-1], S[:, ::-1]
    vectors, product = vectors @ S, product @ S
    residuals = np.linalg.norm(product - vectors * values, axis=0)
    scale = max(scale, float(np.abs(values).max()))
    converged = bool((residuals <= tol * scale).all())
    if converged:
        message = "Every residual is within tol."
    elif message == "ARPACK converged.":
        message = (
            f"ARPACK stopped with a residual of {residuals.max():.1e}, above "
            f"tol = {tol:.1e}: raise tol or max_iter, or use the Chebyshev solver."
        )
    return EigenResult(
        values=values,
        vectors=orient(np.ascontiguousarray(vectors)),
        residual_norms=residuals,
        n_products=n_products + 1,
        n_columns=n_products + k,
        n_iter=n_products,
        converged=converged,
        message=message,
    )
