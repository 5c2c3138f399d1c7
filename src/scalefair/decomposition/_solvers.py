"""Which method solves a fair PCA problem: directly, or by subspaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from scalefair._random import check_random_state
from scalefair.decomposition._many_groups import solve_groups
from scalefair.decomposition._pencil import CovariancePencil, FormedPencil, top_sum
from scalefair.decomposition._solution import FairBasis, GroupsSolution
from scalefair.decomposition._subspace import solve_by_subspaces
from scalefair.decomposition._two_groups import solve_two_groups

__all__ = ["solve"]

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
    if isinstance(pencil, FormedPencil) and (n <= _SMALL or 3 * r >= n):
        return _solve_formed(pencil.covariances, r, tol, max_iter)
    rng = check_random_state(random_state)
    return solve_by_subspaces(
        pencil, r, _solve_small, tol=tol, max_iter=max_iter, rng=rng
    )


def _solve_formed(C: np.ndarray, r: int, tol: float, max_iter: int) -> FairBasis:
    best = np.array([top_sum(C_g, r) for C_g in C])
    found = _solve_small(C, r, best=best, tol=tol, max_iter=max_iter)
    U = found.basis
    return FairBasis(
        weights=found.weights,
        basis=U,
        compressed=np.stack([U.T @ C_g @ U for C_g in C]),
        best=best,
        dual_value=found.dual_value,
        n_iter=found.n_iter,
        n_products=found.n_iter + len(C),
        converged=found.converged,
        message="",
    )


def _solve_small(C: np.ndarray, r: int, **options: Any) -> GroupsSolution:
    solver = solve_two_groups if len(C) == 2 else solve_groups
    return solver(C, r, **options)
