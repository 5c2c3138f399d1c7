"""Checks that the solvers share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

__all__ = [
    "as_start_vectors",
    "as_symmetric_operator",
    "check_avoided",
    "check_product",
]


def as_symmetric_operator(A: Any, k: int) -> LinearOperator:
    """Return `A` as a LinearOperator after checking that it is real and k fits it."""
    operator = aslinearoperator(A)
    n, m = operator.shape
    if n != m:
        raise ValueError(f"The operator must be square, got shape {operator.shape}.")
    if np.issubdtype(operator.dtype, np.complexfloating):
        raise TypeError("The operator must be real and symmetric, got complex numbers.")
    if not isinstance(k, Integral):
        raise TypeError(f"k must be an integer, got {k!r}.")
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the order {n}, got {k}.")
    return operator


def as_start_vectors(X0: Any, n: int) -> np.ndarray | None:
    """Return `X0` as an array after checking that it is a finite block of n rows."""
    if X0 is None:
        return None
    X0 = np.asarray(X0)
    if X0.ndim != 2 or X0.shape[0] != n:
        raise ValueError(f"X0 must have shape ({n}, p), got {X0.shape}.")
    if not np.isfinite(X0).all():
        raise ValueError("X0 has entries that are not finite.")
    return X0


def check_avoided(Q: np.ndarray | None, n: int, k: int) -> int:
    """Check that k vectors of n entries fit beside the basis; return its width."""
    if Q is None:
        return 0
    if Q.ndim != 2 or Q.shape[0] != n or not np.isfinite(Q).all():
        raise ValueError(
            f"orthogonal_to must be a finite block of shape ({n}, r), "
            f"got shape {Q.shape}."
        )
    if k > n - Q.shape[1]:
        raise ValueError(
            f"{k} vectors of order {n} cannot be orthogonal to {Q.shape[1]} others."
        )
    return Q.shape[1]


def check_product(Y: np.ndarray) -> None:
    """Refuse a product that is not finite."""
    if not np.isfinite(Y).all():
        raise FloatingPointError(
            "A product with the operator has entries that are not finite: "
            "check its entries for NaN and infinity."
        )
