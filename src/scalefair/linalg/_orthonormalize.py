"""Orthonormal bases of tall blocks, however ill-conditioned."""

from __future__ import annotations

import numpy as np

from scalefair import kernels

_MAX_PASSES = 8


def orthonormalize(
    X: np.ndarray, *, against: np.ndarray | None = None, rng: np.random.RandomState
) -> np.ndarray:
    """Overwrite `X` with an orthonormal basis that contains its span.

    Two or three passes divide by the square root of the Gram matrix, its eigenvalues
    raised to rounding level. Directions lost to rounding become random ones.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        C-contiguous, float32 or float64, ``m <= n``. Overwritten.
    against : ndarray of shape (n, p) or None, default=None
        Orthonormal columns of the type of `X` to be orthogonal to, ``m + p <= n``.
    rng : RandomState
        For the replacement of dependent columns.

    Returns
    -------
    ndarray of shape (n, m)
        `X`.

    Raises
    ------
    FloatingPointError
        If `X` has entries that are not finite.
    ValueError
        If `X` has more columns than can be orthonormal.

    References
    ----------
    Stathopoulos, Wu (2002), "A block orthogonalization procedure with constant
    synchronization requirements", SIAM Journal on Scientific Computing 23 (SVQB).

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
    n, m = X.shape
    p = 0 if against is None else against.shape[1]
    if m + p > n:
        raise ValueError(
            f"{m} columns of length {n} cannot be orthonormal, and orthogonal to {p} "
            "others: take fewer."
        )
    shortest, longest = _squarable(X.dtype)
    noise = 0.0
    for _ in range(_MAX_PASSES):
        if against is not None and p:
            kernels.block_subtract(X, against, kernels.block_gram(against, X))
        gram = kernels.block_gram(X, X)
        error = float(np.abs(gram - np.eye(m)).max(initial=0.0))
        if error <= 50 * epsilon:
            break
        norms = np.sqrt(np.diag(gram))
        drowned = norms < noise
        if drowned.any():
            X[:, drowned] = rng.standard_normal((X.shape[0], int(drowned.sum())))
            noise = 0.0
            continue
        if not ((norms > shortest) & (norms < longest)).all():
            _rescale(X, rng)
            continue
        with kernels.single_blas_thread():
            values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
        floor = m * epsilon * values[-1]
        S = vectors / np.sqrt(np.maximum(values, floor)) / norms[:, None]
        kernels.block_rotate(X, S)
        # Norm that the rounding errors of the rotation alone can have.
        noise = 2 * float(np.sqrt(epsilon / values[-1]))
    return X


def _squarable(dtype: np.dtype) -> tuple[float, float]:
    """Range of the norms whose squares neither underflow nor overflow."""
    info = np.finfo(dtype)
    return float(np.sqrt(info.tiny) / info.eps), float(np.sqrt(info.max) * info.eps)


def _rescale(X: np.ndarray, rng: np.random.RandomState) -> None:
    """Divide each column by its largest entry; random numbers for zero columns."""
    peaks = np.abs(X).max(axis=0)
    if not np.isfinite(peaks).all():
        raise FloatingPointError(
            "The block to orthonormalise has entries that are not finite: check the "
            "operator and the starting vectors for NaN and infinity."
        )
    dead = peaks == 0
    X[:, dead] = rng.standard_normal((X.shape[0], int(dead.sum())))
    peaks[dead] = 1
    X /= peaks
