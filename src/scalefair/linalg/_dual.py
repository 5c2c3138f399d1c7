"""Largest eigenpairs by one dual minimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalefair._random import check_random_state, random_generator
from scalefair.kernels import block_gram, block_subtract, rotate_ritz
from scalefair.linalg._bounds import SpectralBounds, spectral_bounds
from scalefair.linalg._checks import (
    as_start_vectors,
    as_symmetric_operator,
    check_avoided,
)
from scalefair.linalg._dense import dense_eigh
from scalefair.linalg._dual_objective import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._result import EigenResult, orient
from scalefair.linalg._ritz import eigh_descending

__all__ = ["dual"]

# The smallest eigenvalue is shifted to this part of the width of the spectrum.
_MARGIN = 0.02
# Residuals below this part of the norm cannot be told from Gram matrices.
_GRAM_LIMIT = 1e-7


def dual(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_iter: int = 1000,
    X0: np.ndarray | None = None,
    orthogonal_to: np.ndarray | None = None,
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
        Symmetric. Orders below ``4 k`` are solved densely.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    tol : float, default=1e-4
        Converged when all residual norms are at most `tol` times the spectral
        norm of the operator.
    max_iter : int, default=1000
        Most L-BFGS steps.
    X0 : ndarray of shape (n, k) or None, default=None
        Start.
    orthogonal_to : ndarray of shape (n, r) or None, default=None
        Orthonormal basis of an invariant subspace that is not wanted.
    bounds : SpectralBounds or None, default=None
        From `spectral_bounds`, if it was called already.
    random_state : int, RandomState instance or None, default=None
        For the start.
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
        If `A` is not square or `k` does not fit it.
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
    X0 = as_start_vectors(X0, n)
    n_avoided = check_avoided(orthogonal_to, n, k)
    if n - n_avoided <= 4 * k:
        return dense_eigh(operator, k, orthogonal_to=orthogonal_to)
    rng = check_random_state(random_state)
    if bounds is None:
        bounds = spectral_bounds(operator, random_state=rng)
    run = _Run(operator, k, tol, bounds)
    V = random_generator(rng).standard_normal((n, k)) / np.sqrt(n)
    if X0 is not None:
        V[:, : X0.shape[1]] = X0[:, :k]
    avoided = np.empty((n, 0)) if orthogonal_to is None else orthogonal_to
    avoided = np.ascontiguousarray(avoided, dtype=np.float64)
    block_subtract(V, avoided, block_gram(avoided, V))
    n_iter, message = run.minimize(V, max_iter, callback)
    return run.result(V, avoided, rng, n_iter, len(bounds.nodes), message)


class _Run:
    """The dual function of one operator, and its residuals."""

    def __init__(
        self, operator: Any, k: int, tol: float, bounds: SpectralBounds
    ) -> None:
        self.operator = operator
        width = max(bounds.upper - bounds.lower, np.finfo(float).tiny)
        self.scale = float(np.abs(bounds.nodes).max()) or 1.0
        self.tol = tol * self.scale
        self.objective = EnergyDual(operator, bounds.lower - _MARGIN * width, k)

    def minimize(
        self,
        V: np.ndarray,
        max_iter: int,
        callback: Callable[[int, float], object] | None,
    ) -> tuple[int, str]:
        """Move `V` until the residuals are small; steps taken and how it ended."""

        def done(n_iter: int, _: float) -> bool:
            residuals = self.residuals()
            if callback is not None:
                callback(int((residuals <= self.tol).sum()), float(residuals.max()))
            return bool(residuals.max() <= self.tol)

        found = lbfgs(
            self.objective, V, ftol=-np.inf, gtol=0, max_iter=max_iter, callback=done
        )
        return found.n_iter, found.message

    def residuals(self) -> np.ndarray:
        """Residual norms of the Ritz pairs in the span of the primal block."""
        H, MH = self.objective.H, self.objective.MH
        T = block_gram(H, MH)
        values, S = eigh_descending(T)
        squares = ((block_gram(MH, MH) @ S) * S).sum(axis=0) - values**2
        residuals = np.sqrt(np.maximum(squares, 0.0))
        if residuals.max() > max(self.tol, _GRAM_LIMIT * np.abs(values).max()):
            return residuals
        exact = MH @ S - (H @ S) * values
        return np.linalg.norm(exact, axis=0)

    def result(
        self,
        work: np.ndarray,
        avoided: np.ndarray,
        rng: np.random.RandomState,
        n_iter: int,
        n_before: int,
        message: str,
    ) -> EigenResult:
        """Ritz pairs of the primal block, measured; `work` is overwritten."""
        X = orthonormalize(self.objective.H, against=avoided, rng=rng)
        work[...] = self.operator.matmat(X)
        T = block_gram(X, work)
        values, S = eigh_descending(T)
        residuals = rotate_ritz(X, work, S, values)
        k = len(values)
        converged = bool(residuals.max() <= self.tol)
        if converged:
            message = f"Converged in {n_iter} L-BFGS steps."
        elif "max_iter" in message:
            message = (
                f"Residual {residuals.max():.1e} after max_iter = {n_iter} L-BFGS "
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
