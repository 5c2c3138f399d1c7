"""The linear constraints of group fairness."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import block_gram

__all__ = ["constraint_basis", "fairness_violation"]


def constraint_basis(
    group_codes: NDArray[np.int64], n_groups: int, inv_sqrt_degrees: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Orthonormal basis of the span of :math:`F = D^{-1/2} (G - 1 z^T)`.

    An embedding H is fair when :math:`F^T H = 0`. The columns of F add up to
    zero, so one is dropped; the others are independent when no group is empty.

    Returns
    -------
    ndarray of shape (n, n_groups - 1)
    """
    F = _constraints(group_codes, n_groups, inv_sqrt_degrees)
    Q, _ = np.linalg.qr(F[:, :-1])
    return Q


def fairness_violation(
    H: NDArray[np.float64],
    group_codes: NDArray[np.int64],
    n_groups: int,
    inv_sqrt_degrees: NDArray[np.float64],
) -> float:
    """Frobenius norm of ``F.T @ H``, with all columns of F."""
    F = _constraints(group_codes, n_groups, inv_sqrt_degrees)
    return float(np.linalg.norm(block_gram(F, H)))


def _constraints(
    group_codes: NDArray[np.int64], n_groups: int, inv_sqrt_degrees: NDArray[np.float64]
) -> NDArray[np.float64]:
    shares = np.bincount(group_codes, minlength=n_groups) / group_codes.size
    F0 = (group_codes[:, None] == np.arange(n_groups)) - shares  # G - 1 z^T
    return F0 * inv_sqrt_degrees[:, None]
