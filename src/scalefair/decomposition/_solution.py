"""What the solvers of fair PCA return."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FairBasis", "GroupsSolution"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GroupsSolution:
    """Basis with the smallest largest loss that was found, and its certificate.

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Dual weights, on the simplex.
    basis : ndarray of shape (n, r)
        Orthonormal columns.
    losses : ndarray of shape (G,)
        Losses of the groups under `basis`.
    dual_value : float
        phi(weights), a lower bound of the largest loss of any basis.
    n_iter : int
        Eigendecompositions or calls of the oracle.
    converged : bool
        Whether the dual was maximised to the tolerance.
    curvature : float
        Second derivative of the dual of two groups at the weights; NaN if unknown.
    """

    weights: Array
    basis: Array
    losses: Array
    dual_value: float
    n_iter: int
    converged: bool
    curvature: float = math.nan

    @property
    def gap(self) -> float:
        """Largest loss less the dual value: no basis is better by more."""
        return float(self.losses.max()) - self.dual_value


@dataclass(frozen=True)
class FairBasis:
    """Solution of the whole problem, with what an estimator stores.

    Attributes
    ----------
    weights : ndarray of shape (G,)
        Dual weights, on the simplex.
    basis : ndarray of shape (n, r)
        Orthonormal columns.
    compressed : ndarray of shape (G, r, r)
        ``basis.T @ C_g @ basis`` of every group.
    best : ndarray of shape (G,)
        Sums of the `r` largest eigenvalues of the ``C_g``.
    dual_value : float
        Value of the dual, a lower bound of the largest loss of any basis.
    n_iter : int
        Evaluations of the dual.
    n_products : int
        Products of a covariance (or a weighted sum of them) with a block.
    converged : bool
        Whether the dual was maximised to the tolerance.
    message : str
        What failed, if something did.
    """

    weights: Array
    basis: Array
    compressed: Array
    best: Array
    dual_value: float
    n_iter: int
    n_products: int
    converged: bool
    message: str

    @property
    def rounding(self) -> float:
        """What rounding alone can make of a loss of zero."""
        eps = float(np.finfo(np.float64).eps)
        return 8 * eps * math.sqrt(self.basis.shape[0]) * float(self.best.max())
