"""What a wide layer may become: a weight in few directions, and two compared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["LayerComparison", "ReducedLayer"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LayerComparison:
    """Gaps of two weights and what lies between their outputs.

    Attributes
    ----------
    mean_gap_before, mean_gap_after : float
        d_e of the weights: root of the sum over pairs of ``|W d_p|**2``.
    covariance_gap_before, covariance_gap_after : float
        d_v of the weights: root of the sum over pairs of ``|W M_p W^T|_F**2``.
    output_change : float
        ``tr((W - W') S (W - W')^T)``.
    """

    mean_gap_before: float
    mean_gap_after: float
    covariance_gap_before: float
    covariance_gap_after: float
    output_change: float


@dataclass(frozen=True)
class ReducedLayer:
    r"""A weight that may change in a few directions only, as a small problem.

    With B a basis of the leading eigenvectors and of the differences of means, weights
    that share the values :math:`W' B` differ in what plays little part in the gaps; of
    them the one whose outputs are next to those of W is

    .. math::

        W' = W + (V - V_0) Z^T, \qquad \mathrm{span}\, Z = S^+ \mathrm{span}\, B,
        \quad Z^T S Z = I, \quad V_0 = W S Z,

    and it changes them by :math:`|V - V_0|_F^2`. The attributes state the problem of
    choosing V for a solver of whole layers whose inputs are whitened: its means are
    exact, its covariances are those within the span of B. What lies outside is counted
    by `gaps`; the more eigenvectors, the less it is.

    Attributes
    ----------
    whitened : ndarray of shape (m, r)
        V_0.
    root : ndarray of shape (r, r)
        The identity: distances of small weights are changes of outputs.
    differences : ndarray of shape (r, P)
        ``Z^T d_p``: ``V @ differences`` are the differences of the mean outputs.
    forms : ndarray of shape (P, r, r)
        ``V @ forms[p] @ V.T`` are the differences of the covariances of the outputs
        within the span of B.
    directions : ndarray of shape (n, r)
        Z.
    n_products : int
        Passes that the solution for Z took.
    converged : bool
        Whether it was solved to its tolerance. Gaps and changes are exact in any
        case; a Z that is not solved for makes changes larger than they need be.
    message : str
        How the solution ended.
    """

    whitened: Array
    root: Array
    differences: Array
    forms: Array
    directions: Array
    n_products: int
    converged: bool
    message: str
    original: Array = field(repr=False)
    # Differences of the covariances of Z^T x and of what of W x lies outside, jointly.
    _whole: Array = field(repr=False)

    def lift(self, weight: Array) -> Array:
        """Return the weight of the layer that a small one stands for.

        Parameters
        ----------
        weight : ndarray of shape (m, r)
            Small weight V.

        Returns
        -------
        ndarray of shape (m, n)
            Weight of the layer.
        """
        return self.original + (weight - self.whitened) @ self.directions.T

    def gaps(self, weight: Array) -> tuple[float, float]:
        """Return the gaps of the lifted weight, nothing left out, without a pass.

        Parameters
        ----------
        weight : ndarray of shape (m, r)
            Small weight V.

        Returns
        -------
        mean_gap, covariance_gap : float
            d_e and d_v of the lifted weight.
        """
        W = np.hstack([weight, np.eye(weight.shape[0])])
        return (
            float(np.linalg.norm(weight @ self.differences)),
            float(np.linalg.norm(W @ self._whole @ W.T)),
        )
