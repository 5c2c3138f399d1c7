"""Polar factor and nuclear norm of a tall block from its Gram matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_rotate,
    single_blas_thread,
)

__all__ = ["InverseRoot", "inverse_root", "polar"]

_EPSILON = float(np.finfo(np.float64).eps)
_MAX_PASSES = 4


class InverseRoot(NamedTuple):
    """Inverse square root of a Gram matrix, with what its eigenvalues tell.

    Attributes
    ----------
    matrix : ndarray of shape (k, k)
        :math:`G^{-1/2}`.
    nuclear_norm : float
        Trace of :math:`G^{1/2}`.
    condition : float
        Largest eigenvalue divided by the smallest.
    """

    matrix: NDArray[np.float64]
    nuclear_norm: float
    condition: float


def inverse_root(gram: NDArray[np.float64]) -> InverseRoot:
    """Decompose a Gram matrix; eigenvalues at rounding level are raised to it."""
    with single_blas_thread():
        values, S = np.linalg.eigh((gram + gram.T) / 2)
    top = max(float(values[-1]), float(np.finfo(np.float64).tiny))
    raised = np.maximum(values, len(values) * _EPSILON * top)
    return InverseRoot(
        (S / np.sqrt(raised)) @ S.T,
        float(np.sqrt(np.maximum(values, 0.0)).sum()),
        top / float(raised[0]),
    )


def polar(Z: NDArray[np.float64], root: InverseRoot, out: NDArray[np.float64]) -> None:
    r"""Write the orthonormal polar factor :math:`Z (Z^T Z)^{-1/2}` into `out`.

    It is the orthonormal block nearest to `Z` and the one whose inner product with
    `Z` is largest. A Gram matrix squares the condition; further passes mend what
    that spoils. Directions in which `Z` vanishes stay short.

    Parameters
    ----------
    Z : ndarray of shape (n, k)
        C-contiguous, ``k <= n``.
    root : InverseRoot
        Of the Gram matrix of `Z`.
    out : ndarray of shape (n, k)
        C-contiguous, another array than `Z`.
    """
    block_multiply(Z, root.matrix, out)
    for _ in range(_MAX_PASSES - 1):
        if root.condition < 1e3:  # orthonormal to 1e3 epsilon
            break
        root = inverse_root(block_gram(out, out))
        block_rotate(out, root.matrix)
