"""Descent on the fair orthonormal blocks for a quadratic with a linear term."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["descend_embedding", "nearest_rotation"]

_MAX_STEPS = 50
# Norm of the projected gradient, relative to that of its two terms.
_GRADIENT_TOL = 1e-6
# Frobenius norm of a step: the Gram matrix before the return to the orthonormal
# blocks then has a condition number of at most 101.
_LONGEST_STEP = 10.0


def descend_embedding(
    H: NDArray[np.float64],
    A: sparse.csr_array,
    B: NDArray[np.float64],
    Q: NDArray[np.float64],
) -> NDArray[np.float64]:
    r"""Lower :math:`\mathrm{Tr}(H^T A H) - 2\,\mathrm{Tr}(B^T H)` on the fair blocks.

    Gradient steps within :math:`H^T H = I`, :math:`Q^T H = 0`, each followed by a
    return to the orthonormal blocks by the polar factor. Their lengths are those of
    Barzilai and Borwein, halved until the value falls [1]_.

    Parameters
    ----------
    H : ndarray of shape (n, k)
        Start, with orthonormal columns orthogonal to `Q`.
    A : csr_array of shape (n, n)
        Symmetric.
    B : ndarray of shape (n, k)
        Linear term.
    Q : ndarray of shape (n, r)
        Orthonormal basis of the constraints.

    Returns
    -------
    ndarray of shape (n, k)
        A block whose value is not above that of the start.

    References
    ----------
    .. [1] Wen, Yin (2013), "A feasible method for optimization with orthogonality
       constraints", Mathematical Programming 142, 397-434.
    """
    B = B - Q @ (Q.T @ B)
    AH = A @ H
    value = _value(H, AH, B)
    gradient = _gradient(H, AH, B, Q)
    # Along the gradient a quadratic is least here.
    curvature = float(np.vdot(gradient, A @ gradient))
    size = float(np.vdot(gradient, gradient))
    length = size / (2.0 * curvature) if curvature > 0 else 1.0
    for step in range(_MAX_STEPS):
        scale = np.linalg.norm(AH) + np.linalg.norm(B)
        if np.sqrt(size) <= _GRADIENT_TOL * scale:
            break
        length = min(length, _LONGEST_STEP / float(np.sqrt(size)))
        for _ in range(40):
            X = H - length * gradient
            trial = _polar(X - Q @ (Q.T @ X))  # fair, whatever was rounded
            A_trial = A @ trial
            trial_value = _value(trial, A_trial, B)
            if trial_value <= value - 1e-4 * length * size:
                break
            length /= 2.0
        else:  # no progress beyond rounding
            break
        trial_gradient = _gradient(trial, A_trial, B, Q)
        moved, turned = trial - H, trial_gradient - gradient
        product = abs(float(np.vdot(moved, turned)))
        if product == 0.0:
            return trial
        length = (
            product / float(np.vdot(turned, turned))
            if step % 2
            else float(np.vdot(moved, moved)) / product
        )
        H, AH, value, gradient = trial, A_trial, trial_value, trial_gradient
        size = float(np.vdot(gradient, gradient))
    return H


def nearest_rotation(C: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthogonal matrix R for which ``Tr(R.T @ C)`` is largest."""
    U, _, Vt = np.linalg.svd(C)
    R: NDArray[np.float64] = U @ Vt
    return R


def _value(
    H: NDArray[np.float64], AH: NDArray[np.float64], B: NDArray[np.float64]
) -> float:
    return float(np.vdot(H, AH)) - 2.0 * float(np.vdot(B, H))


def _gradient(
    H: NDArray[np.float64],
    AH: NDArray[np.float64],
    B: NDArray[np.float64],
    Q: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Gradient within the tangent space of the fair orthonormal blocks."""
    G = 2.0 * (AH - B)
    G -= Q @ (Q.T @ G)
    inner = H.T @ G
    return G - H @ ((inner + inner.T) / 2.0)


def _polar(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Closest block with orthonormal columns; the span stays."""
    values, V = np.linalg.eigh(X.T @ X)
    H: NDArray[np.float64] = X @ ((V / np.sqrt(values)) @ V.T)
    return H
