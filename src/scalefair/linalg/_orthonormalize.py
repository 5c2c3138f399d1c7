"""Orthonormal bases of tall blocks, however ill-conditioned."""

from __future__ import annotations

import numpy as np

from scalefair.kernels import (
    block_gram,
    block_rotate,
    block_subtract,
    single_blas_thread,
)

__all__ = ["orthonormalize"]

_MAX_PASSES = 8


def orthonormalize(
    X: np.ndarray,
    *,
    against: np.ndarray | None = None,
    rng: np.random.RandomState,
) -> np.ndarray:
    """Overwrite `X` with an orthonormal basis that contains its span.

    Each pass diagonalises the Gram matrix of the scaled columns and divides by
    the square roots of its eigenvalues. Eigenvalues at rounding level are raised
    to it, which bounds the growth of rounding errors; a pass then squares the
    departure from orthonormality, and two or three do. Columns that vanish or
    are not independent are replaced by random ones.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        C-contiguous block, ``m <= n``. Overwritten.
    against : ndarray of shape (n, p) or None, default=None
        Orthonormal columns that the result is to be orthogonal to.
    rng : RandomState
        For the replacement of dependent columns.

    Returns
    -------
    ndarray of shape (n, m)
        `X`.

    References
    ----------
    Stathopoulos, Wu (2002), "A block orthogonalization procedure with constant
    synchronization requirements", SIAM Journal on Scientific Computing 23,
    2165-2182 (SVQB).

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import orthonormalize
    >>> X = np.ones((5, 2))  # two equal columns
    >>> X = orthonormalize(X, rng=np.random.RandomState(0))
    >>> bool(np.allclose(X.T @ X, np.eye(2)))
    True
    """
    epsilon = float(np.finfo(X.dtype).eps)
    m = X.shape[1]
    for _ in range(_MAX_PASSES):
        if against is not None and against.shape[1]:
            block_subtract(X, against, block_gram(against, X))
        gram = block_gram(X, X)
        error = float(np.abs(gram - np.eye(m)).max(initial=0.0))
        if error <= 50 * epsilon:
            break
        norms = np.sqrt(np.diag(gram))
        dead = ~(norms > np.finfo(X.dtype).tiny)
        if dead.any():
            X[:, dead] = rng.standard_normal((X.shape[0], int(dead.sum())))
            continue
        with single_blas_thread():
            values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
        floor = m * epsilon * values[-1]
        S = vectors / np.sqrt(np.maximum(values, floor)) / norms[:, None]
        block_rotate(X, S)
        lost = values < floor
        if lost.any():
            # What is left of these directions is rounding error: start afresh.
            X[:, lost] = rng.standard_normal((X.shape[0], int(lost.sum())))
    return X
