"""Checks that the solvers share."""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import LinearOperator, aslinearoperator

__all__ = ["as_symmetric_operator"]


def as_symmetric_operator(A: Any, k: int) -> LinearOperator:
    """Return `A` as a LinearOperator after checking its shape and that k fits it."""
    operator = aslinearoperator(A)
    n, m = operator.shape
    if n != m:
        raise ValueError(f"The operator must be square, got shape {operator.shape}.")
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the order {n}, got {k}.")
    return operator
