"""The dual of maximising the energy of a product over orthonormal blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import check_product
from scalefair.kernels import (
    add_scaled,
    block_gram,
    block_multiply,
    block_rotate,
    combine,
    inner,
    single_blas_thread,
)
from scalefair.linalg._base import Array, check_scale
from scalefair.operators._base import apply_block

# Moves after which Gram matrix and distance are measured anew: updates gather
# rounding errors.
_MEASURE = 10
_EPSILON = float(np.finfo(np.float64).eps)
_MAX_PASSES = 4  # of the polar factor


class EnergyDual:
    """Toland dual of maximising ``c/2 |MH|^2 + <B, MH>`` over orthonormal H.

    It is ``|V - B|^2 / (2 c) - |MV|_*`` (nuclear norm) with the gradient
    ``(V - B) / c - M H``; H, the polar factor of MV, is the primal solution. Tonin et
    al. (2025), propositions 3.2 and 3.3, with c = 1 - alpha and B = alpha Y - P.
    """

    # M = A - shift I has to be positive definite. A step multiplies by it twice, with
    # the direction and with H: values and slopes along a line come from Gram matrices.

    def __init__(self, A: LinearOperator, shift: float, k: int) -> None:
        self.A, self.shift = A, shift
        shape = (A.shape[0], k)
        self.curvature = 1.0
        self.B: Array | None = None
        self.H = np.empty(shape)
        self.MH = np.empty(shape)
        self._MV = np.empty(shape)
        self._MD = np.empty(shape)
        self._gram = np.zeros((k, k))
        self._distance = 0.0
        self.n_products = 0

    def start(self, V: Array) -> float:
        """Move to `V`; return the value there."""
        self._V = V
        self._multiply(V, self._MV)
        check_product(self._MV)
        # A zero operator is shifted by next to nothing: small products do no harm.
        check_scale(max(1.0, float(np.abs(self._MV).max())))
        self._n_moves = 0
        self._measure()
        return self._value()

    def gradient(self, out: Array) -> None:
        """Write the gradient at the current point into `out`; updates H and MH."""
        polar(self._MV, self._root, self.H)
        self._multiply(self.H, self.MH)
        combine(out, 1 / self.curvature, self._V, -1.0, self.MH)
        if self.B is not None:
            add_scaled(out, -1 / self.curvature, self.B)

    def line(self, D: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and slope at ``V + t D`` as a function of `t`."""
        self._multiply(D, self._MD)
        cross = block_gram(self._MV, self._MD)
        square = block_gram(self._MD, self._MD)
        linear, length = inner(self._V, D), inner(D, D)
        if self.B is not None:
            linear -= inner(self.B, D)

        old_gram, old_distance = self._gram, self._distance

        def measures(t: float) -> tuple[Array, float]:
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

    def move(self, D: Array, t: float) -> float:
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

    def _multiply(self, X: Array, out: Array) -> None:
        apply_block(self.A, X, out, shift=self.shift)
        self.n_products += 1


class InverseRoot(NamedTuple):
    """Inverse square root of a Gram matrix, with what its eigenvalues tell."""

    matrix: Array
    nuclear_norm: float  # trace of the square root
    condition: float  # largest eigenvalue divided by the smallest


def inverse_root(gram: Array) -> InverseRoot:
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


def polar(Z: Array, root: InverseRoot, out: Array) -> None:
    """Write the orthonormal polar factor ``Z (Z^T Z)^(-1/2)`` into `out`.

    `root` belongs to the Gram matrix of `Z`, which squares the condition; further
    passes mend what that spoils. Directions in which `Z` vanishes stay short.
    """
    block_multiply(Z, root.matrix, out)
    for _ in range(_MAX_PASSES - 1):
        if root.condition < 1e3:  # orthonormal to 1e3 epsilon
            break
        root = inverse_root(block_gram(out, out))
        block_rotate(out, root.matrix)
