"""Dense eigen-decomposition: the reference the other solvers are held to."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh, qr

from scalefair.linalg._checks import as_symmetric_operator, check_avoided, check_product
from scalefair.linalg._result import EigenResult, orient

__all__ = ["dense_eigh"]


def dense_eigh(
    A: Any, k: int, *, orthogonal_to: np.ndarray | None = None
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by forming it.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric. It is applied to the identity: ``8 n**2`` bytes.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    orthogonal_to : ndarray of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted,
        ``r <= n - k``.

    Returns
    -------
    EigenResult
        Eigenpairs to rounding level.

    Raises
    ------
    ValueError
        If `A` is not square or `k` does not fit it.
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
    check_avoided(orthogonal_to, n, k)
    full = np.asarray(operator.matmat(np.eye(n, dtype=operator.dtype)), np.float64)
    check_product(full)
    full = (full + full.T) / 2
    if orthogonal_to is None:
        values, vectors = eigh(full, subset_by_index=[n - k, n - 1])
    else:
        Z = qr(orthogonal_to)[0][:, orthogonal_to.shape[1] :]
        m = Z.shape[1]
        values, vectors = eigh(Z.T @ full @ Z, subset_by_index=[m - k, m - 1])
        vectors = Z @ vectors
    values, vectors = values[::-1], orient(np.ascontiguousarray(vectors[:, ::-1]))
    residuals = np.linalg.norm(full @ vectors - vectors * values, axis=0)
    return EigenResult(
        values, vectors, residuals, 1, n, 1, True, "Dense eigen-decomposition."
    )
