"""Largest eigenpairs by one dual minimisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from scalefair._docs import documented
from scalefair._entries import checked_product
from scalefair._random import check_random_state, random_generator
from scalefair.kernels import (
    block_gram,
    block_subtract,
    rotate_ritz,
    single_blas_thread,
)
from scalefair.linalg._base import (
    TEXTS,
    Array,
    EigenResult,
    as_problem,
    check_count,
    check_scale,
    column_norms,
    dense_eigh,
    eigh_descending,
    ending,
    orient,
)
from scalefair.linalg._chebyshev import SpectralBounds, spectral_bounds
from scalefair.linalg._dual_objective import EnergyDual
from scalefair.linalg._lbfgs import lbfgs
from scalefair.linalg._orthonormalize import orthonormalize

# The smallest eigenvalue is shifted to this part of the width of the spectrum.
_MARGIN = 0.02
# Residuals below this part of the norm cannot be told from Gram matrices.
_GRAM_LIMIT = 1e-7


@documented(**TEXTS)
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

    With :math:`M = A - \sigma I` positive definite, maximising :math:`|MH|^2` over
    orthonormal blocks has the dual :math:`\min_V |V|^2/2 - |MV|_*` (nuclear norm),
    smooth and without constraints; the polar factor of :math:`MV` is the primal
    solution. A gradient step of length one is a step of subspace iteration, L-BFGS
    accelerates it. Two block products a step; about ``152 n k`` bytes.

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
    operator, start, avoided = as_problem(A, k, X0, orthogonal_to)
    n = operator.shape[0]
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
        self, V: Array, max_iter: int, callback: Callable[[int, float], object] | None
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

    def residuals(self) -> Array:
        """Residual norms of the Ritz pairs in the span of the primal block."""
        H, MH = self.objective.H, self.objective.MH
        T = block_gram(H, MH)
        values, S = eigh_descending(T)
        squares = ((block_gram(MH, MH) @ S) * S).sum(axis=0) - values**2
        residuals: Array = np.sqrt(np.maximum(squares, 0.0))
        if residuals.max() > max(self.tol, _GRAM_LIMIT * np.abs(values).max()):
            return residuals
        return column_norms(MH @ S - (H @ S) * values)

    def result(
        self,
        work: Array,
        avoided: Array,
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
        worst = float(residuals.max())
        converged = worst <= self.tol
        n_products = self.objective.n_products + 1
        return EigenResult(
            values=values,
            vectors=orient(X),
            residual_norms=residuals,
            n_products=n_before + n_products,
            n_columns=n_before + len(values) * n_products,
            n_iter=n_iter,
            converged=converged,
            message=ending(n_iter, max_iter, worst, converged, steps="L-BFGS steps"),
        )
