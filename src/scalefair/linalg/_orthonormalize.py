"""Orthonormal bases of tall blocks, however ill-conditioned."""

from __future__ import annotations

import numpy as np

from scalefair import kernels


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
    # Norms whose squares neither underflow nor overflow.
    info = np.finfo(X.dtype)
    min_norm = float(np.sqrt(info.tiny) / info.eps)
    max_norm = float(np.sqrt(info.max) * info.eps)
    noise = 0.0
    for _ in range(8):  # two or three, unless columns are dependent
        # 1. Project away from the other basis.
        if against is not None and p:
            kernels.block_subtract(X, against, kernels.block_gram(against, X))
        # 2. Done if the Gram matrix is the identity to rounding.
        gram = kernels.block_gram(X, X)
        error = float(np.abs(gram - np.eye(m)).max(initial=0.0))
        if error <= 50 * epsilon:
            break
        # 3. Columns that are rounding errors become random ones.
        # Invariant: `noise` bounds the norms of columns that hold nothing but the
        # rounding errors of the last rotation; it is 0 where there was none.
        norms = np.sqrt(np.diag(gram))
        is_noise = norms < noise
        if is_noise.any():
            X[:, is_noise] = rng.standard_normal((n, int(is_noise.sum())))
            noise = 0.0
            continue
        if not ((norms > min_norm) & (norms < max_norm)).all():
            # Divide by the largest entries; columns of zeros become random ones. The
            # Gram matrix has squares out of range: it is formed anew.
            peaks = np.abs(X).max(axis=0)
            if not np.isfinite(peaks).all():
                raise FloatingPointError(
                    "The block to orthonormalise has entries that are not finite: "
                    "check the operator and the starting vectors for NaN and infinity."
                )
            is_zero = peaks == 0
            X[:, is_zero] = rng.standard_normal((n, int(is_zero.sum())))
            peaks[is_zero] = 1
            X /= peaks
            continue
        # 4. Multiply by the inverse square root of the Gram matrix of unit columns:
        #        S = D^-1 U diag(values)^-1/2,
        #    with D the norms and U diag(values) U' the Gram matrix of X D^-1. Unit
        #    columns first: small eigenvalues then show dependence, not short columns.
        #    Cost of a pass: 4 n m^2 + O(m^3).
        with kernels.single_blas_thread():
            values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
        # Eigenvalues below the floor are rounding errors: such columns come out
        # shorter than 1, and the next pass divides again.
        floor = m * epsilon * values[-1]
        S = vectors / np.sqrt(np.maximum(values, floor)) / norms[:, None]
        kernels.block_rotate(X, S)
        # Largest norm of the rotation's rounding errors.
        noise = 2 * float(np.sqrt(epsilon / values[-1]))
    return X
