"""Checks that the solvers share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._entries import check_orthonormal

__all__ = [
    "as_avoided",
    "as_block",
    "as_preconditioner",
    "as_symmetric_operator",
    "buffer_size",
    "check_count",
    "check_room",
    "check_scale",
]

# Norms of an operator whose residuals, a small part of them, have squares in range.
_SMALLEST, _LARGEST = 1e-140, 1e150


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


def as_preconditioner(T: Any, n: int) -> LinearOperator | None:
    """Return `T` as a LinearOperator after checking its order."""
    if T is None:
        return None
    T = aslinearoperator(T)
    if T.shape != (n, n):
        raise ValueError(
            f"The preconditioner must have shape ({n}, {n}), got {T.shape}."
        )
    return T


def as_block(X: Any, n: int, name: str) -> NDArray[np.float64]:
    """Return `X` as a C-contiguous float64 block after checking its n rows."""
    if np.iscomplexobj(X):
        raise TypeError(f"{name} must be real, got complex numbers.")
    block: NDArray[np.float64] = np.asarray(X, dtype=np.float64, order="C")
    if block.ndim != 2 or block.shape[0] != n:
        raise ValueError(f"{name} must have shape ({n}, p), got {block.shape}.")
    finite = np.isfinite(block)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise ValueError(
            f"{name} has entries that are not finite (first: {block[i, j]} at row {i}, "
            f"column {j})."
        )
    return block


def as_avoided(Q: Any, n: int, k: int) -> NDArray[np.float64]:
    """Check a basis that k vectors are to be orthogonal to; no columns for None."""
    if Q is None:
        return np.empty((n, 0))
    basis = as_block(Q, n, "orthogonal_to")
    check_room(k, n, basis.shape[1])
    most = 1e-4 if np.asarray(Q).dtype == np.float32 else 1e-8
    check_orthonormal(basis, "orthogonal_to", most)
    return basis


def check_room(k: int, n: int, n_avoided: int) -> None:
    """Refuse more vectors than are left beside a subspace."""
    if k > n - n_avoided:
        raise ValueError(
            f"{k} vectors of order {n} cannot be orthogonal to {n_avoided} others."
        )


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is no integer of at least the given size."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer, at least {least}, got {value!r}.")


def buffer_size(n_buffer: int | None, k: int) -> int:
    """Vectors iterated beside the k wanted ones; a tenth, at least 5, for None."""
    if n_buffer is None:
        return max(5, k // 10)
    check_count("n_buffer", n_buffer, 0)
    return n_buffer


def check_scale(norm: float, what: str = "operator") -> None:
    """Refuse an operator that is not zero and has no moderate norm."""
    if norm != 0 and not _SMALLEST <= norm <= _LARGEST:
        raise ValueError(
            f"The {what} has a norm of about {norm:.1e}, too far from 1: the squares "
            f"of residuals are out of range. Scale the {what}."
        )
