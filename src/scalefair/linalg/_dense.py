"""Dense eigen-decomposition: the reference the other solvers are held to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import checked_product
from scalefair.kernels import leading_eigh, long_blas_call, single_blas_thread
from scalefair.linalg._checks import as_avoided, as_symmetric_operator, check_scale
from scalefair.linalg._result import EigenResult, orient

__all__ = ["as_dense", "dense_eigh"]


@single_blas_thread()
def dense_eigh(
    A: Any, k: int, *, orthogonal_to: ArrayLike | None = None
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by forming it.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric. It is applied to the identity: ``8 n**2`` bytes.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    orthogonal_to : array-like of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted,
        ``r <= n - k``.

    Returns
    -------
    EigenResult
        Eigenpairs to rounding level.

    Raises
    ------
    ValueError
        If `A` is not square, `k` does not fit it, the columns of `orthogonal_to` are
        not orthonormal, or the largest entry of `A` is not zero and below 1e-140 or
        above 1e150.
    FloatingPointError
        If a product with the operator is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import dense_eigh
    >>> dense_eigh(np.diag([1.0, 3.0, 2.0]), 2).values
    array([3., 2.])
    """
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    avoided = as_avoided(orthogonal_to, n, k)
    full = as_dense(operator)
    r = avoided.shape[1]
    if r == 0:
        values, vectors = leading_eigh(full, k)
    else:
        with long_blas_call(0.3 * n**3):
            Z = qr(avoided)[0][:, r:]
            reduced = Z.T @ full @ Z
        values, vectors = leading_eigh(reduced, k, overwrite=True)
        vectors = Z @ vectors
    vectors = orient(vectors)
    residuals = np.linalg.norm(full @ vectors - vectors * values, axis=0)
    return EigenResult(
        values, vectors, residuals, 1, n, 1, True, "Dense eigen-decomposition."
    )


def as_dense(operator: LinearOperator) -> NDArray[np.float64]:
    """Symmetric part of an operator, from one product with the identity."""
    identity = np.eye(operator.shape[0], dtype=operator.dtype)
    full: NDArray[np.float64] = checked_product(operator, identity)
    check_scale(float(np.abs(full).max()))
    return (full + full.T) / 2
