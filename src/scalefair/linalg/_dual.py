"""Largest eigenpairs by one dual minimisation, and the dual function itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_product,
    check_random_state,
    checked_product,
    random_generator,
)
from scalefair._rounding import EPS, TINY
from scalefair.linalg._base import TEXTS, Array, EigenResult, orthonormalize
from scalefair.linalg._chebyshev import SpectralBounds, spectral_bounds
from scalefair.linalg._lbfgs import lbfgs
from scalefair.operators._base import apply_block

# Smallest eigenvalue of the shifted operator, as a fraction of the spectrum's width:
# the operator must be positive definite, and the lower bound is an estimate.
SHIFT_MARGIN = 0.02


@documented(**TEXTS)
@kernels.single_blas_thread()
def dual(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    X0: ArrayLike | None = None,
    orthogonal_to: ArrayLike | None = None,
    bounds: SpectralBounds | None = None,
    random_state: Any = None,
    callback: Callable[[int, float], object] | None = None,
) -> EigenResult:
    r"""Largest eigenpairs of a symmetric operator by minimising one dual function.

    With :math:`M = A - \sigma I` positive definite, maximising :math:`|MH|^2` over
    orthonormal blocks has the dual :math:`\min_V |V|^2/2 - |MV|_*` (nuclear norm),
    smooth and without constraints; the polar factor of :math:`MV` is the primal
    solution. L-BFGS takes two block products a step and about ``168 n k`` bytes, 21
    blocks.

    Parameters
    ----------
    %(A)s
        Orders up to ``4 k`` are solved densely.
    %(k)s
    %(tol)s
    max_iter : int, default=1000
        Most L-BFGS steps.
    %(X0)s
    %(orthogonal_to)s
        Its eigenvalues must not be among the `k` largest.
    %(bounds)s
    %(random_state)s
    %(callback)s

    Returns
    -------
    EigenResult
        `n_iter` counts L-BFGS steps.

    %(raises)s

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
    Fairness Constraints", ICML, equation (14) without penalty and multipliers.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import dual
    >>> A = sparse.diags_array(np.arange(200.0))
    >>> dual(A, 2, tol=1e-8, random_state=0).values.round(6)
    array([199., 198.])
    """
    operator, start, deflated = base.as_problem(A, k, X0, orthogonal_to)
    n = operator.shape[0]
    check_count("max_iter", max_iter, 0)
    if n - deflated.shape[1] <= 4 * k:
        return base.dense_eigh(operator, k, orthogonal_to=deflated)
    rng = check_random_state(random_state)
    if bounds is None:
        bounds = spectral_bounds(operator, random_state=rng)
    # 1. A shift below the spectrum, from its bounds. The tolerance is relative to the
    # largest Ritz value in modulus.
    scale = float(np.abs(bounds.nodes).max()) or 1.0
    base.check_scale(scale)
    tol = tol * scale
    width = max(bounds.upper - bounds.lower, TINY)
    unit = 2.0 ** round(math.log2(scale))  # the dual squares the norm
    shift = bounds.lower - SHIFT_MARGIN * width
    objective = EnergyDual(operator, shift, k, unit)
    # 2. A start of full rank: if V s = 0, then H s = 0 and gradient s = 0, so that the
    # rank never grows. It is orthogonal to the deflated vectors, and stays so.
    V = random_generator(rng).standard_normal((n, k)) / np.sqrt(n)
    if start.shape[1]:
        V[:, : start.shape[1]] = start[:, :k]
        V = orthonormalize(V, against=deflated, rng=rng)
    kernels.block_subtract(V, deflated, kernels.block_gram(deflated, V))

    # 3. L-BFGS until the residuals of the primal block are small.
    def done(n_iter: int, _: float) -> bool:
        H, MH = objective.H.copy(), objective.MH.copy()  # the iteration needs both
        residuals = unit * base.rotate_to_ritz(H, MH)[1]
        if callback is not None:
            callback(int((residuals <= tol).sum()), float(residuals.max()))
        return bool(residuals.max() <= tol)

    n_iter = lbfgs(
        objective, V, ftol=-np.inf, gtol=0, max_iter=max_iter, callback=done
    ).n_iter
    # 4. Ritz pairs in the span of the primal block, their residuals from the products.
    X = orthonormalize(objective.H, against=deflated, rng=rng)
    # V is not needed any more: it takes the products, with A, not with M.
    V[...] = checked_product(operator, X)
    values, residuals = base.rotate_to_ritz(X, V)
    residual = float(residuals.max())
    converged = residual <= tol
    n_products, n_bound_products = objective.n_products + 1, len(bounds.nodes)
    return EigenResult(
        values,
        base.orient(X),
        residuals,
        n_bound_products + n_products,
        n_bound_products + k * n_products,
        n_iter,
        converged,
        base.stop_message(n_iter, max_iter, residual, converged, steps="L-BFGS steps"),
    )


class EnergyDual:
    """Toland dual of maximising ``c/2 |MH|^2 + <B, MH>`` over orthonormal H.

    ``|V - B|^2 / (2 c) - |MV|_*`` (nuclear norm), gradient ``(V - B) / c - M H`` with
    H, the primal solution, the polar factor of MV: Tonin et al. (2025), propositions
    3.2 and 3.3, with c = 1 - alpha and B = alpha Y - P.

    A `BlockObjective`; M = (A - shift I) / unit has to be positive definite, and
    `curvature` is c. A step multiplies by M twice, with the direction and with H.
    Values along a line follow from Gram matrices of MV and MD.
    """

    # Of the point V: products MV, their Gram matrix and |V - B|^2, which `move` updates
    # by recurrence; H = polar(MV) and MH, which `gradient` computes.

    def __init__(
        self, A: LinearOperator, shift: float, k: int, unit: float = 1.0
    ) -> None:
        # Four blocks (n, k). With V and the 14 of L-BFGS they are 19; residuals take
        # two more.
        self.A, self.shift, self.unit = A, shift, unit
        shape = (A.shape[0], k)
        self.curvature = 1.0
        self.B: Array | None = None
        self.H, self.MH = np.empty(shape), np.empty(shape)
        self._MV, self._MD = np.empty(shape), np.empty(shape)
        # (MV)^T MV, (k, k), and |V - B|^2: all that the value depends on.
        self._gram = np.zeros((k, k))
        self._squared_distance = 0.0
        self.n_products = 0

    def start(self, V: Array) -> float:
        """Move to V, (n, k): one product, then everything from the blocks."""
        self._V = V
        self._multiply(V, self._MV)
        check_product(self._MV)
        # A zero operator has a tiny shift: its small products are harmless.
        base.check_scale(max(1.0, float(np.abs(self._MV).max())))
        self._n_moves = 0
        self._recompute()
        return self._value()

    def gradient(self, out: Array) -> None:
        """Write the gradient, (n, k), by one product with the primal block."""
        # H = polar(MV), then (V - B) / c - M H.
        polar(self._MV, self._root, self.H)
        self._multiply(self.H, self.MH)
        kernels.combine(out, 1 / self.curvature, self._V, -1.0, self.MH)
        if self.B is not None:
            kernels.add_scaled(out, -1 / self.curvature, self.B)

    def line(self, D: Array) -> Callable[[float], tuple[float, float]]:
        """Value and slope along D, (n, k): one product, then O(k^3) for each length."""
        # With X(t) = V + t D, the Gram matrix of MX and |X - B|^2 are quadratic in t:
        # their coefficients need one product, MD. |MX|_* is the trace of the root.
        self._multiply(D, self._MD)
        self._cross = kernels.block_gram(self._MV, self._MD)
        self._square = kernels.block_gram(self._MD, self._MD)
        self._linear, self._quadratic = kernels.inner(self._V, D), kernels.inner(D, D)
        if self.B is not None:
            self._linear -= kernels.inner(self.B, D)

        def along(t: float) -> tuple[float, float]:
            gram, squared_distance = self._on_line(t)
            root = inverse_root(gram)
            value = squared_distance / (2 * self.curvature) - root.nuclear_norm
            # Derivative of the nuclear norm: <polar(MV + t MD), MD>. With Z = MV + t MD
            # and polar(Z) = Z (Z^T Z)^-1/2, this is the trace of (Z^T Z)^-1/2 Z^T MD,
            # and Z^T MD = cross + t square.
            growth = float((root.matrix * (self._cross + t * self._square)).sum())
            slope = (self._linear + t * self._quadratic) / self.curvature - growth
            return value, slope

        return along

    def _on_line(self, t: float) -> tuple[Array, float]:
        """Gram matrix and squared distance at ``V + t D``."""
        gram = self._gram + t * (self._cross + self._cross.T) + t**2 * self._square
        squared = self._squared_distance + 2 * t * self._linear + t**2 * self._quadratic
        return gram, squared

    def move(self, D: Array, t: float) -> float:
        """Move to ``V + t D`` without a product: the line knows all that is kept."""
        kernels.add_scaled(self._MV, t, self._MD)
        self._gram, self._squared_distance = self._on_line(t)
        self._n_moves += 1
        if self._n_moves % 10 == 0:  # rounding errors accumulate
            self._recompute()
        return self._value()

    def _recompute(self) -> None:
        """Gram matrix of MV and squared distance of V and B, from the blocks."""
        self._gram = kernels.block_gram(self._MV, self._MV)
        self._squared_distance = kernels.inner(self._V, self._V)
        if self.B is not None:
            self._squared_distance += kernels.inner(self.B, self.B)
            self._squared_distance -= 2 * kernels.inner(self.B, self._V)

    def _value(self) -> float:
        """Dual function at V; keeps the inverse root for the gradient there."""
        self._root = inverse_root(self._gram)
        return self._squared_distance / (2 * self.curvature) - self._root.nuclear_norm

    def _multiply(self, X: Array, out: Array) -> None:
        """Write ``M X`` into `out`, (n, k), and count it."""
        apply_block(self.A, X, out, alpha=1 / self.unit, shift=self.shift)
        self.n_products += 1


class InverseRoot(NamedTuple):
    """Inverse square root of a Gram matrix, and numbers from its eigenvalues."""

    matrix: Array
    nuclear_norm: float  # trace of the square root
    condition: float  # largest eigenvalue of the Gram matrix divided by the smallest


def inverse_root(gram: Array) -> InverseRoot:
    """Decompose a Gram matrix; eigenvalues at rounding level are raised to it."""
    with kernels.single_blas_thread():
        values, S = np.linalg.eigh((gram + gram.T) / 2)
    # The roots of the raised eigenvalues only invert; the nuclear norm takes the
    # eigenvalues themselves, so that the dual value has no such bias.
    top = max(float(values[-1]), TINY)
    raised = np.maximum(values, len(values) * EPS * top)
    nuclear_norm = float(np.sqrt(np.maximum(values, 0.0)).sum())
    matrix = (S / np.sqrt(raised)) @ S.T
    return InverseRoot(matrix, nuclear_norm, top / float(raised[0]))


def polar(Z: Array, root: InverseRoot, out: Array) -> None:
    """Write the orthonormal polar factor ``Z (Z^T Z)^(-1/2)`` into `out`.

    `root` is of the Gram matrix of `Z`, which squares the condition: the factor is
    orthonormal to its condition times epsilon. Further passes restore orthonormality.
    Directions in which `Z` vanishes stay short.
    """
    # Each pass leaves the polar factor as it is. From the second on the Gram matrix is
    # better conditioned, and its inverse root loses fewer digits.
    kernels.block_multiply(Z, root.matrix, out)
    for _ in range(3):
        if root.condition < 1e3:  # three digits are lost, which is good enough
            break
        root = inverse_root(kernels.block_gram(out, out))
        kernels.block_multiply(out, root.matrix, out)
