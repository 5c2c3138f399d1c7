"""The dual of maximising the energy of a product over orthonormal blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import check_product
from scalefair.kernels import add_scaled, block_gram, combine, inner
from scalefair.linalg._checks import check_scale
from scalefair.linalg._polar import inverse_root, polar
from scalefair.operators._base import apply_block

__all__ = ["EnergyDual"]

# Moves after which Gram matrix and distance are measured anew: updates gather
# rounding errors.
_MEASURE = 10


class EnergyDual:
    r"""Toland dual of :math:`\max \frac c2 |MH|^2 + \langle B, MH\rangle, H^T H = I`.

    With the convex function :math:`\phi(X) = \frac c2 |X|^2 + \langle B, X\rangle`
    the problem is a difference of convex functions, and its dual is

    .. math:: \min_V \phi^*(V) - |MV|_*, \qquad
        \phi^*(V) = \frac{1}{2c} |V - B|^2,

    with the nuclear norm :math:`|MV|_* = \mathrm{Tr} (V^T M^2 V)^{1/2}`; the
    gradient is :math:`(V - B)/c - M H` with :math:`H` the polar factor of
    :math:`MV`, which is also the primal solution. :math:`M = A - \sigma I` is
    only multiplied by: two products per step, one with the direction and one with
    `H`; along a line, values and slopes come from Gram matrices of order k.

    Parameters
    ----------
    A : LinearOperator of shape (n, n)
        Symmetric.
    shift : float
        :math:`\sigma`, such that :math:`A - \sigma I` is positive definite.
    k : int
        Width of the blocks.

    Attributes
    ----------
    H, MH : ndarray of shape (n, k)
        Primal solution that belongs to the current point, and its product.
    n_products : int
        Block products so far.

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
    Fairness Constraints", ICML, propositions 3.2 and 3.3, with
    :math:`c = 1 - \alpha` and :math:`B = \alpha Y - P`.
    """

    def __init__(self, A: LinearOperator, shift: float, k: int) -> None:
        self.A, self.shift = A, shift
        shape = (A.shape[0], k)
        self.curvature = 1.0
        self.B: NDArray[np.float64] | None = None
        self.H = np.empty(shape)
        self.MH = np.empty(shape)
        self._MV = np.empty(shape)
        self._MD = np.empty(shape)
        self._gram = np.zeros((k, k))
        self._distance = 0.0
        self.n_products = 0

    def start(self, V: NDArray[np.float64]) -> float:
        """Move to `V`; return the value there."""
        self._V = V
        self._multiply(V, self._MV)
        check_product(self._MV)
        # A zero operator is shifted by next to nothing: small products do no harm.
        check_scale(max(1.0, float(np.abs(self._MV).max())))
        self._n_moves = 0
        self._measure()
        return self._value()

    def gradient(self, out: NDArray[np.float64]) -> None:
        """Write the gradient at the current point into `out`; updates H and MH."""
        polar(self._MV, self._root, self.H)
        self._multiply(self.H, self.MH)
        combine(out, 1 / self.curvature, self._V, -1.0, self.MH)
        if self.B is not None:
            add_scaled(out, -1 / self.curvature, self.B)

    def line(self, D: NDArray[np.float64]) -> Callable[[float], tuple[float, float]]:
        """Return value and slope at ``V + t D`` as a function of `t`."""
        self._multiply(D, self._MD)
        cross = block_gram(self._MV, self._MD)
        square = block_gram(self._MD, self._MD)
        linear, length = inner(self._V, D), inner(D, D)
        if self.B is not None:
            linear -= inner(self.B, D)

        old_gram, old_distance = self._gram, self._distance

        def measures(t: float) -> tuple[NDArray[np.float64], float]:
            gram = old_gram + t * (cross + cross.T) + t**2 * square
            return gram, old_distance + 2 * t * linear + t**2 * length

        def along(t: float) -> tuple[float, float]:
            gram, distance = measures(t)
            root = inverse_root(gram)
            value = distance / (2 * self.curvature) - root.nuclear_norm
            # Derivative of the nuclear norm: <polar(MV + t MD), MD>.
            growth = float((root.matrix * (cross + t * square)).sum())
            return value, (linear + t * length) / self.curvature - growth

        self._line = measures
        return along

    def move(self, D: NDArray[np.float64], t: float) -> float:
        """Follow the point to ``V + t D``; return the value there."""
        add_scaled(self._MV, t, self._MD)
        self._gram, self._distance = self._line(t)
        self._n_moves += 1
        if self._n_moves % _MEASURE == 0:
            self._measure()
        return self._value()

    def _measure(self) -> None:
        self._gram = block_gram(self._MV, self._MV)
        self._distance = inner(self._V, self._V)
        if self.B is not None:
            self._distance += inner(self.B, self.B) - 2 * inner(self.B, self._V)

    def _value(self) -> float:
        self._root = inverse_root(self._gram)
        return self._distance / (2 * self.curvature) - self._root.nuclear_norm

    def _multiply(self, X: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        apply_block(self.A, X, out, shift=self.shift)
        self.n_products += 1
