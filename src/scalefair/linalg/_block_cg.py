"""Block conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._entries import all_finite, check_product, checked_product, judged_later
from scalefair._random_state import check_random_state
from scalefair.linalg._base import TEXTS, Array, Iteration, Random
from scalefair.linalg._orthonormalize import orthonormalize

# Directions weaker than this, relative to the strongest, are rounding errors of it:
# squared norms in a basis of unit columns, and curvatures.
_DEPENDENT = 1e-14
# It gives up after so many products that gain nothing beside the energy x^T b so far;
# residuals may rise for long while the energy grows.
_PATIENCE, _NO_GAIN = 5, 1e-24


@documented(**TEXTS)
@dataclass(frozen=True)
class LinearResult:
    """Solution of ``S X = B`` for several right-hand sides, with what it took.

    Attributes
    ----------
    X : ndarray of shape (n, s), float64
        Solution.
    residuals : ndarray of shape (n, s), float64
        ``B - S X``, as the iteration carries it on.
    residual_norms : ndarray of shape (s,)
        Euclidean norms of the residuals, relative to those of the right-hand sides.
    %(counts)s
    column_converged : ndarray of shape (s,), bool
        Whether each residual norm is at most `tol`.
    converged : bool
        Whether all are.
    %(message)s
    """

    X: Array
    residuals: Array
    residual_norms: Array
    n_products: int
    n_columns: int
    column_converged: NDArray[np.bool_]
    converged: bool
    message: str


@documented(**TEXTS)
@kernels.single_blas_thread()
def block_cg(
    S: Any,
    B: ArrayLike,
    *,
    tol: float = 1e-6,
    max_products: int = 200,
    preconditioner: Any = None,
    random_state: Any = None,
    callback: Callable[[Array, Array], object] | None = None,
) -> LinearResult:
    """Solve ``S X = B`` for a positive semi-definite operator by block directions.

    Every column takes the best step in the span of all directions: s right-hand sides
    need far fewer products than one. Of a singular operator the solution is that of
    least norm (with a preconditioner: in its inverse). About ``48 n s`` bytes.

    Parameters
    ----------
    S : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric positive semi-definite.
    B : array-like of shape (n, s)
        Right-hand sides of any size, in the range of `S`.
    tol : float, default=1e-6
        Most norm of a residual, relative to that of its right-hand side.
    max_products : int, default=200
        Most block products.
    preconditioner : LinearOperator, sparse matrix, ndarray or None, default=None
        Symmetric positive definite, about the inverse of `S` or of its diagonal.
    %(random_state)s
        They replace directions that are dependent.
    callback : callable or None, default=None
        Called after each product with the solution and the residuals so far; ends the
        iteration by returning True.

    Returns
    -------
    LinearResult
        Solution, residuals and flags; a caller warns if `converged` is False.

    Raises
    ------
    ValueError
        If shapes do not fit, `B` is not finite, or `S` not positive semi-definite.
    FloatingPointError
        If a product with the operator or the preconditioner is not finite.

    References
    ----------
    O'Leary (1980), "The block conjugate gradient algorithm and related methods". Ji, Li
    (2017), "A breakdown-free block conjugate gradient method".

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import block_cg
    >>> S = sparse.diags_array([4.0, 1.0, 0.0])
    >>> block_cg(S, np.array([[4.0, 0.0], [0.0, 3.0], [0.0, 0.0]])).X.round(8)
    array([[1., 0.],
           [0., 3.],
           [0., 0.]])
    """
    operator = base.as_symmetric_operator(S, 1)
    n = operator.shape[0]
    B = base.as_block(B, n, "B")
    base.check_count("max_products", max_products, 1)
    # Columns of moderate size, whose squares are in range: powers of two are exact.
    scale = _powers_of_two(B)
    T, rng = base.as_preconditioner(preconditioner, n), check_random_state(random_state)
    iteration = _Iteration(operator, T, B / scale, rng)
    stalled, stuck, ended = 0, False, False
    while True:
        norms = iteration.relative_norms()
        active = ~(norms <= tol)
        spent = iteration.n_products >= max_products
        if not active.any() or ended or stuck or spent:
            break
        stalled = 0 if iteration.step(active) else stalled + 1
        stuck = stalled >= _PATIENCE or not iteration.inverse.any()
        if callback is not None and not stuck:
            with judged_later():
                so_far = iteration.X * scale, iteration.R * scale
            ended = bool(callback(*so_far))
    if not active.any():
        message = f"Converged after {iteration.n_products} products."
    elif ended:
        message = f"Ended by the callback after {iteration.n_products} products."
    elif stuck:
        message = (
            f"The residual stays at {norms.max():.1e}: raise tol, or check that the "
            "right-hand sides lie in the range of the operator."
        )
    else:
        message = (
            f"Residual {norms.max():.1e} after max_products = {max_products} products: "
            "raise max_products or tol, or use a preconditioner."
        )
    with judged_later():
        X, R = iteration.X * scale, iteration.R * scale
    if not (all_finite(X) and all_finite(R)):
        raise FloatingPointError(
            "The solution or its residuals are too large for float64: scale the "
            "right-hand sides."
        )
    counts = iteration.n_products, iteration.n_columns
    return LinearResult(X, R, norms, *counts, ~active, not active.any(), message)


class _Iteration(Iteration):
    """Solution X, residual R, and the last directions P with their image."""

    def __init__(
        self, A: LinearOperator, T: LinearOperator | None, B: Array, rng: Random
    ) -> None:
        super().__init__(A)
        self.T, self.rng = T, rng
        self.X, self.R = np.zeros_like(B), B  # overwritten
        self.sizes = base.column_norms(B)
        self.sizes[self.sizes == 0] = 1.0
        self.P = self.SP = np.empty((B.shape[0], 0))
        self.inverse = np.empty((0, 0))
        self.largest_curvature = 0.0
        self.energy = np.zeros(B.shape[1])

    def relative_norms(self) -> Array:
        return base.column_norms(self.R) / self.sizes

    def step(self, active: NDArray[np.bool_]) -> bool:
        """Take every column's best step along new directions; whether it gains."""
        Z = self._precondition(np.ascontiguousarray(self.R[:, active]))
        if self.P.shape[1]:  # conjugate to the last directions
            along = self.inverse @ kernels.block_gram(self.SP, Z)
            kernels.block_subtract(Z, self.P, along)
        P = _independent(Z, self.rng)
        if P.shape[1] == 0:
            self.inverse = np.empty((0, 0))
            return False
        SP = self.multiply(P)
        self.P, self.SP = P, SP
        self.inverse = self._invert(kernels.block_gram(P, SP))
        slopes = kernels.block_gram(P, self.R)
        steps = self.inverse @ slopes
        kernels.block_subtract(self.X, P, -steps)
        kernels.block_subtract(self.R, SP, steps)
        gains = np.einsum("ij,ij->j", slopes, steps)
        self.energy += gains
        return bool((gains[active] > _NO_GAIN * self.energy[active]).any())

    def _invert(self, G: Array) -> Array:
        """Pseudo-inverse of ``P^T S P``; directions without curvature are not taken."""
        values, vectors = base.eigh_descending(G)
        self.largest_curvature = max(self.largest_curvature, float(values[0]))
        if values[-1] < -1e-8 * self.largest_curvature:
            raise ValueError(
                f"The operator is not positive semi-definite: a direction has the "
                f"curvature {values[-1]:.1e}."
            )
        used = values > G.shape[0] * _DEPENDENT * self.largest_curvature
        vectors = vectors[:, used]
        inverse: Array = (vectors / values[used]) @ vectors.T
        return inverse

    def _precondition(self, R: Array) -> Array:
        if self.T is None:
            return R
        return checked_product(self.T, R, "preconditioner")


def _independent(Z: Array, rng: Random) -> Array:
    """Orthonormal basis of the span of Z, without rounding errors of the rest."""
    norms = base.column_norms(Z)
    check_product(norms, "operator or the preconditioner")
    # Of unit columns: residuals of all sizes count alike.
    Z = np.ascontiguousarray(Z[:, norms > 0] / norms[norms > 0])
    if Z.shape[1] == 0:
        return Z
    values, vectors = base.eigh_descending(kernels.block_gram(Z, Z))
    kept = values > Z.shape[1] * _DEPENDENT * values[0]
    S = vectors[:, kept] / np.sqrt(values[kept])
    P = np.empty((Z.shape[0], S.shape[1]))
    kernels.block_multiply(Z, S, P)
    return orthonormalize(P, rng=rng)


def _powers_of_two(B: Array) -> Array:
    """Largest power of two below the entries of each column, 1/2 for zeros."""
    _, exponents = np.frexp(np.abs(B).max(axis=0, initial=0.0))
    powers: Array = np.ldexp(1.0, exponents - 1)
    return powers
