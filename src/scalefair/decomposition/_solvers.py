"""Which method solves a fair PCA problem: directly, or by subspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._random import check_random_state
from scalefair.decomposition._many_groups import solve_groups
from scalefair.decomposition._pencil import (
    CovariancePencil,
    FormedPencil,
    compress,
    top_sums,
)
from scalefair.decomposition._solution import FairBasis, GroupsSolution
from scalefair.decomposition._subspace import solve_by_subspaces
from scalefair.decomposition._two_groups import solve_two_groups
from scalefair.kernels import single_blas_thread

__all__ = ["solve"]

Array = NDArray[np.float64]

# Below this order full eigendecompositions take less time than a subspace method.
_SMALL = 300


def solve(
    pencil: CovariancePencil,
    r: int,
    *,
    tol: float,
    max_iter: int,
    random_state: Any,
) -> FairBasis:
    """Minimise the largest loss over bases of `r` columns."""
    n = pencil.n_features
    # Short products between kernels: threads of BLAS would be waited for each time.
    with single_blas_thread():
        if isinstance(pencil, FormedPencil) and (n <= _SMALL or 3 * r >= n):
            return _solve_formed(pencil.covariances, r, tol, max_iter)
        rng = check_random_state(random_state)
        return solve_by_subspaces(
            pencil, r, _solve_small, tol=tol, max_iter=max_iter, rng=rng
        )


def _solve_formed(C: Array, r: int, tol: float, max_iter: int) -> FairBasis:
    best = top_sums(C, r)
    found = _solve_small(C, r, best=best, tol=tol, max_iter=max_iter)
    return FairBasis(
        weights=found.weights,
        basis=found.basis,
        compressed=compress(C, found.basis),
        best=best,
        dual_value=found.dual_value,
        n_iter=found.n_iter,
        n_products=found.n_iter + len(C),
        converged=found.converged,
        message="",
    )


def _solve_small(C: Array, r: int, **options: Any) -> GroupsSolution:
    solver = solve_two_groups if len(C) == 2 else solve_groups
    return solver(C, r, **options)
