"""Largest eigenpairs by one dual minimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import checked_product
from scalefair._random import check_random_state, random_generator
from scalefair.kernels import (
    block_gram,
    block_subtract,
    rotate_ritz,
    single_blas_thread,
)
from scalefair.linalg._bounds import SpectralBounds, spectral_bounds
from scalefair.linalg._checks import (
    as_avoided,
    as_block,
    as_symmetric_operator,
    check_count,
    check_scale,
)
from scalefair.linalg._dense import dense_eigh
from scalefair.linalg._dual_objective import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.linalg._norms import column_norms
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._result import EigenResult, orient
from scalefair.linalg._ritz import eigh_descending

__all__ = ["dual"]

# The smallest eigenvalue is shifted to this part of the width of the spectrum.
_MARGIN = 0.02
# Residuals below this part of the norm cannot be told from Gram matrices.
_GRAM_LIMIT = 1e-7


@single_blas_thread()
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

    With :math:`M = A - \sigma I` positive definite, maximising
    :math:`|MH|^2` over orthonormal blocks has the dual
    :math:`\min_V |V|^2/2 - |MV|_*` (nuclear norm), smooth and without
    constraints; the primal solution is the polar factor of :math:`MV`. L-BFGS
    minimises it: a gradient step of length one is a step of subspace iteration,
    and the quasi-Newton directions accelerate it. Two block products a step. About
    ``152 n k`` bytes are kept.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric. Orders up to ``4 k`` are solved densely.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    tol : float, default=1e-4
        Converged when all residual norms are at most `tol` times the spectral
        norm of the operator.
    max_iter : int, default=1000
        Most L-BFGS steps.
    X0 : array-like of shape (n, p) or None, default=None
        Approximate eigenvectors to start from, any number of them; random vectors
        complete them.
    orthogonal_to : array-like of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted.
    bounds : SpectralBounds or None, default=None
        From `spectral_bounds`, if it was called already.
    random_state : int, RandomState instance or None, default=None
        For the vectors that `X0` does not supply.
    callback : callable or None, default=None
        Called after each step with the number of converged pairs and the largest
        residual norm.

    Returns
    -------
    EigenResult
        `n_iter` counts L-BFGS steps.

    Raises
    ------
    ValueError
        If `A` is not square, `k` or another argument does not fit it, the columns of
        `orthogonal_to` are not orthonormal, or the norm of `A` is not zero and below
        1e-140 or above 1e150.
    FloatingPointError
        If a product with the operator is not finite.

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
    Fairness Constraints", ICML, equation (14) without penalty and multipliers:
    the constraints are in the operator instead.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import dual
    >>> A = sparse.diags_array(np.arange(200.0))
    >>> dual(A, 2, tol=1e-8, random_state=0).values.round(6)
    array([199., 198.])
    """
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    start = np.empty((n, 0)) if X0 is None else as_block(X0, n, "X0")
    avoided = as_avoided(orthogonal_to, n, k)
    check_count("max_iter", max_iter, 0)
    if n - avoided.shape[1] <= 4 * k:
        return dense_eigh(operator, k, orthogonal_to=avoided)
    rng = check_random_state(random_state)
    if bounds is None:
        bounds = spectral_bounds(operator, random_state=rng)
    run = _Run(operator, k, tol, bounds)
    V = random_generator(rng).standard_normal((n, k)) / np.sqrt(n)
    if start.shape[1]:
        # Of full rank: what a start of lower rank lacks is never found.
        V[:, : start.shape[1]] = start[:, :k]
        V = orthonormalize(V, against=avoided, rng=rng)
    block_subtract(V, avoided, block_gram(avoided, V))
    n_iter = run.minimize(V, max_iter, callback)
    return run.result(V, avoided, rng, n_iter, max_iter, len(bounds.nodes))


class _Run:
    """The dual function of one operator, and its residuals."""

    def __init__(
        self, operator: LinearOperator, k: int, tol: float, bounds: SpectralBounds
    ) -> None:
        self.operator = operator
        width = max(bounds.upper - bounds.lower, np.finfo(float).tiny)
        self.scale = float(np.abs(bounds.nodes).max()) or 1.0
        check_scale(self.scale)
        self.tol = tol * self.scale
        self.objective = EnergyDual(operator, bounds.lower - _MARGIN * width, k)

    def minimize(
        self,
        V: NDArray[np.float64],
        max_iter: int,
        callback: Callable[[int, float], object] | None,
    ) -> int:
        """Move `V` until the residuals are small; return the steps taken."""

        def done(n_iter: int, _: float) -> bool:
            residuals = self.residuals()
            if callback is not None:
                callback(int((residuals <= self.tol).sum()), float(residuals.max()))
            return bool(residuals.max() <= self.tol)

        return lbfgs(
            self.objective, V, ftol=-np.inf, gtol=0, max_iter=max_iter, callback=done
        ).n_iter

    def residuals(self) -> NDArray[np.float64]:
        """Residual norms of the Ritz pairs in the span of the primal block."""
        H, MH = self.objective.H, self.objective.MH
        T = block_gram(H, MH)
        values, S = eigh_descending(T)
        squares = ((block_gram(MH, MH) @ S) * S).sum(axis=0) - values**2
        residuals: NDArray[np.float64] = np.sqrt(np.maximum(squares, 0.0))
        if residuals.max() > max(self.tol, _GRAM_LIMIT * np.abs(values).max()):
            return residuals
        return column_norms(MH @ S - (H @ S) * values)

    def result(
        self,
        work: NDArray[np.float64],
        avoided: NDArray[np.float64],
        rng: np.random.RandomState,
        n_iter: int,
        max_iter: int,
        n_before: int,
    ) -> EigenResult:
        """Ritz pairs of the primal block, measured; `work` is overwritten."""
        X = orthonormalize(self.objective.H, against=avoided, rng=rng)
        work[...] = checked_product(self.operator, X)
        T = block_gram(X, work)
        values, S = eigh_descending(T)
        residuals = rotate_ritz(X, work, S, values)
        k = len(values)
        converged = bool(residuals.max() <= self.tol)
        if converged:
            message = f"Converged in {n_iter} L-BFGS steps."
        elif n_iter >= max_iter:
            message = (
                f"Residual {residuals.max():.1e} after max_iter = {max_iter} L-BFGS "
                "steps: raise max_iter or tol."
            )
        else:
            message = f"The residual stays at {residuals.max():.1e}: raise tol."
        n_products = self.objective.n_products + 1
        return EigenResult(
            values=values,
            vectors=orient(X),
            residual_norms=residuals,
            n_products=n_before + n_products,
            n_columns=n_before + k * n_products,
            n_iter=n_iter,
            converged=converged,
            message=message,
        )
