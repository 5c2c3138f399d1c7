"""The fair embedding: top eigenvectors of the affinity under linear constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh, qr

from scalefair.linalg import EigenResult, chebyshev, lanczos, spectral_bounds
from scalefair.operators import NormalizedAffinity, Projected

__all__ = ["choose_solver", "nullspace_embedding", "solve_chebyshev", "solve_lanczos"]

# Up to this order the dense decomposition is exact and takes milliseconds; beyond it
# the Chebyshev iteration is faster (docs/performance.md).
_DENSE_ORDER = 100
# float32 iterations are not asked for residuals below this.
_SINGLE_TOL = 2e-5
_GIB = 2**30


def choose_solver(n_nodes: int, n_clusters: int) -> str:
    """Pick the solver of ``solver="auto"``.

    Dense for small graphs and for more clusters than a quarter of the nodes,
    Chebyshev iteration for all others: it was faster than Lanczos on every graph
    measured (docs/performance.md).
    """
    if n_nodes <= _DENSE_ORDER or n_clusters > n_nodes // 4:
        return "nullspace"
    return "chebyshev"


def nullspace_embedding(
    affinity: NormalizedAffinity, Q: NDArray[np.float64], k: int
) -> EigenResult:
    """Eigenvectors in a dense null-space basis (o-FSC, Kleindessner et al. 2019)."""
    n, r = Q.shape
    if 3 * 8 * n**2 > 16 * _GIB:
        raise ValueError(
            f'solver="nullspace" forms dense {n} x {n} matrices and would need '
            f'{3 * 8 * n**2 / _GIB:.0f} GiB; use solver="chebyshev".'
        )
    full, _ = qr(Q)
    Z = full[:, r:]  # orthonormal basis of null(Q^T)
    MZ = affinity.matrix.astype(np.float64) @ Z
    values, Y = eigh(Z.T @ MZ, subset_by_index=[n - r - k, n - r - 1])
    values, Y = values[::-1], Y[:, ::-1]
    H = Z @ Y
    MH = MZ @ Y
    residuals = MH - Q @ (Q.T @ MH) - H * values
    return EigenResult(
        values=values,
        vectors=H,
        residual_norms=np.linalg.norm(residuals, axis=0),
        n_products=1,
        n_columns=n - r,
        n_iter=1,
        converged=True,
        message="Dense eigen-decomposition in the null space of the constraints.",
    )


def solve_lanczos(
    W: sparse.csr_array,
    affinity: NormalizedAffinity,
    Q: NDArray[np.float64],
    k: int,
    *,
    dtype: Any,
    tol: float,
    max_iter: int | None,
    rng: np.random.RandomState,
    callback: Callable[[int, float], object],
) -> EigenResult:
    """Restarted Lanczos on the projected operator (s-FSC, Wang et al. 2023)."""
    single = np.dtype(dtype) == np.float32
    low = NormalizedAffinity(W, dtype=np.float32) if single else affinity
    operator = Projected(low, Q, constrained_value=-1.0)
    result = lanczos(
        operator,
        k,
        tol=tol,
        max_iter=max_iter,
        orthogonal_to=Q,
        random_state=rng,
    )
    callback(int((result.residual_norms <= tol).sum()), result.residual_norms.max())
    return result


def solve_chebyshev(
    W: sparse.csr_array,
    affinity: NormalizedAffinity,
    Q: NDArray[np.float64],
    k: int,
    *,
    dtype: Any,
    tol: float,
    max_iter: int | None,
    rng: np.random.RandomState,
    callback: Callable[[int, float], object],
) -> EigenResult:
    """Chebyshev-filtered iteration on the projected operator.

    With ``dtype=np.float32`` the iteration runs in float32 and its result is the
    start of one in float64, which as a rule only has to confirm it.
    """
    options: dict[str, Any] = {
        "orthogonal_to": Q,
        "random_state": rng,
        "callback": callback,
    }
    if max_iter is not None:
        options["max_iter"] = max_iter
    # D^{1/2} 1 is an eigenvector and fair: one pair is known beforehand.
    X0 = np.sqrt(affinity.degrees)[:, None]
    X0 /= np.linalg.norm(X0)
    bounds = spectral_bounds(affinity, random_state=rng)
    spent = (0, 0, 0)
    if np.dtype(dtype) == np.float32:
        low = Projected(
            NormalizedAffinity(W, dtype=np.float32), Q, constrained_value=bounds.lower
        )
        coarse = chebyshev(
            low, k, tol=max(tol, _SINGLE_TOL), X0=X0, bounds=bounds, **options
        )
        X0 = coarse.vectors
        spent = (coarse.n_products, coarse.n_columns, coarse.n_iter)
    # At the lower end of the spectrum of M the constrained directions cannot be
    # wanted (interlacing), nor do they widen the interval the filter works on.
    operator = Projected(affinity, Q, constrained_value=bounds.lower)
    result = chebyshev(operator, k, tol=tol, X0=X0, bounds=bounds, **options)
    return replace(
        result,
        n_products=result.n_products + spent[0],
        n_columns=result.n_columns + spent[1],
        n_iter=result.n_iter + spent[2],
    )
