"""Local search for the subspace with the smallest largest loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair.decomposition._pencil import captured
from scalefair.optimize import maximize_quadratic_on_simplex

__all__ = ["local_minimax"]

Array = NDArray[np.float64]


class _Model(NamedTuple):
    """Second-order model of the losses about a subspace, and its minimiser."""

    multipliers: Array
    step: Array
    decrease: float


def local_minimax(
    A: Array,
    b: Array,
    U: Array,
    weights: Array,
    *,
    atol: float,
    max_iter: int,
) -> Array:
    r"""Decrease ``max_g b_g - Tr(U^T A_g U)`` over subspaces by Newton-like steps.

    With M the sum of the matrices, weighted by the multipliers, diagonal on the
    subspace (entries sigma) and on its complement (rho), a step ``U + Q Delta``
    changes the weighted loss by :math:`\sum (\sigma_j - \rho_i) \Delta_{ij}^2` in
    second order. Where that is not convex, it is replaced by a damping that grows
    when less of the promised decrease is found and shrinks when most of it is. The
    model of the largest loss is then a quadratic program over the simplex of new
    multipliers.

    Parameters
    ----------
    A : ndarray of shape (G, n, n)
        Symmetric matrices.
    b : ndarray of shape (G,)
        Constants.
    U : ndarray of shape (n, r)
        Start, orthonormal.
    weights : ndarray of shape (G,)
        First multipliers, on the simplex.
    atol : float
        Stops when the model promises a decrease of at most this.
    max_iter : int
        Most steps.

    Returns
    -------
    ndarray of shape (n, r)
        The largest loss is nowhere above that of the start.
    """
    size = float(np.abs(A).max())
    if U.shape[0] == U.shape[1] or size == 0.0:
        return U
    damping = 1e-2 * size
    losses = b - captured(A, U)
    U, Q, gradients, curvature = _frame(A, U, weights)
    for _ in range(max_iter):
        model = _minimize_model(losses, gradients, curvature, damping, weights)
        if model.decrease <= atol or damping > 1e8 * size:
            break
        trial = np.linalg.qr(U + Q @ model.step)[0]
        new = b - captured(A, trial)
        kept = float(losses.max() - new.max()) / model.decrease
        if kept < 0.25:
            damping *= 4
        elif kept > 0.75:
            damping = max(damping / 4, 1e-12 * size)
        if kept < 0.1:
            continue
        losses, weights = new, model.multipliers
        U, Q, gradients, curvature = _frame(A, trial, weights)
    return U


def _frame(A: Array, U: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Axes of the weighted sum within the subspace and within its complement.

    Also the gradients ``Q^T A_g U`` of all groups and the curvatures.
    """
    r = U.shape[1]
    M = np.tensordot(weights, A, axes=1)
    Q = np.linalg.qr(U, mode="complete")[0][:, r:]
    sigma, E = np.linalg.eigh(U.T @ M @ U)
    rho, F = np.linalg.eigh(Q.T @ M @ Q)
    U, Q = U @ E, Q @ F
    gradients = np.matmul(Q.T, A @ U)
    return U, Q, gradients, sigma[None, :] - rho[:, None]


def _minimize_model(
    losses: Array,
    gradients: Array,
    curvature: Array,
    damping: float,
    weights: Array,
) -> _Model:
    convex = np.maximum(curvature, damping)
    flat = (gradients / np.sqrt(convex)).reshape(losses.size, -1)
    K = 2 * (flat @ flat.T)
    nu = maximize_quadratic_on_simplex(losses, K, x0=weights)
    step = np.tensordot(nu, gradients, axes=1) / convex
    promised = float(losses @ nu) - float(nu @ K @ nu) / 2
    return _Model(nu, step, float(losses.max()) - promised)
