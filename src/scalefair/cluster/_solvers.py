"""The fair embedding: top eigenvectors of the affinity under linear constraints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import qr
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster._choice import DENSE_LIMIT, choose_solver
from scalefair.cluster._fairness import FairProblem
from scalefair.kernels import (
    block_gram,
    block_rotate,
    leading_eigh,
    long_blas_call,
)
from scalefair.linalg import (
    EigenResult,
    SpectralBounds,
    chebyshev,
    dc_admm,
    dual,
    lanczos,
    lobpcg,
    spectral_bounds,
)
from scalefair.operators import (
    AMGPreconditioner,
    NormalizedAffinity,
    NormalizedOperator,
    Projected,
)

__all__ = ["SOLVERS", "SolverOptions", "solve"]

# float32 iterations are not asked for residuals below this.
_SINGLE_TOL = 2e-5
_GIB = 2**30
# omega of remark 2.3 of the paper: M + (1 + omega) I is positive definite.
_OMEGA = 0.01


@dataclass(frozen=True)
class SolverOptions:
    """What all solvers are told: the parameters of the estimator."""

    tol: float
    max_iter: int | None
    dtype: Any
    rng: np.random.RandomState
    callback: Callable[[int, float], object]

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the iterative solvers of `scalefair.linalg`."""
        words = {
            "tol": self.tol,
            "random_state": self.rng,
            "callback": self.callback,
            "max_iter": self.max_iter,
        }
        return {name: value for name, value in words.items() if value is not None}


def solve(
    name: str, problem: FairProblem, options: SolverOptions
) -> tuple[str, EigenResult]:
    """Run the solver of the given name, or the one to choose; which, and its result.

    LOBPCG that does not converge is followed by Chebyshev iteration from its block.
    """
    asked = name
    if name == "auto":
        name = choose_solver(problem)
    result = SOLVERS[name](problem, options)
    if name == "lobpcg" and not result.converged:
        if asked == "lobpcg":
            warnings.warn(
                f'solver="lobpcg" did not converge to tol={options.tol:g} '
                f'({result.message}) and solver="chebyshev" took over: use that.',
                ConvergenceWarning,
                stacklevel=5,
            )
        name, first = "chebyshev", result
        result = _chebyshev(problem, options, X0=first.vectors)
        result = replace(
            result,
            n_products=result.n_products + first.n_products,
            n_columns=result.n_columns + first.n_columns,
            n_iter=result.n_iter + first.n_iter,
        )
    return name, result


def _nullspace(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """Eigenvectors in a dense null-space basis (o-FSC, Kleindessner et al. 2019)."""
    Q, k = problem.Q, problem.k
    n, r = Q.shape
    if n > DENSE_LIMIT:
        raise ValueError(
            f'solver="nullspace" forms dense {n} x {n} matrices and would need '
            f'{3 * 8 * n**2 / _GIB:.0f} GiB; use solver="chebyshev".'
        )
    with long_blas_call(0.3 * n**3):
        full, _ = qr(Q)
    Z = np.ascontiguousarray(full[:, r:])  # orthonormal basis of null(Q^T)
    MZ = problem.affinity @ Z
    with long_blas_call(0.05 * n**3):
        H_small = Z.T @ MZ
    values, Y = leading_eigh(H_small, k, overwrite=True)
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


def _lanczos(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """Restarted Lanczos on the projected operator (s-FSC, Wang et al. 2023)."""
    affinity = problem.affinity.astype(options.dtype)
    result = lanczos(
        Projected(affinity, problem.Q, constrained_value=-1.0),
        problem.k,
        tol=options.tol,
        max_iter=options.max_iter,
        orthogonal_to=problem.Q,
        random_state=options.rng,
    )
    n_converged = int((result.residual_norms <= options.tol).sum())
    options.callback(n_converged, result.residual_norms.max())
    return result


def _chebyshev(
    problem: FairProblem, options: SolverOptions, X0: NDArray[np.float64] | None = None
) -> EigenResult:
    """Chebyshev-filtered iteration on the projected operator.

    With ``dtype=np.float32`` the iteration runs in float32 and its result is the
    start of one in float64, which as a rule only has to confirm it.
    """
    bounds = _bounds(problem, options)
    common: dict[str, Any] = {
        **options.keywords(),
        "orthogonal_to": problem.Q,
        "bounds": bounds,
    }
    if X0 is None:
        X0 = _known_vector(problem)
    # At the lower end of the spectrum of M the constrained directions cannot be
    # wanted (interlacing), nor do they widen the interval the filter works on.
    value = bounds.lower
    spent = (0, 0, 0)
    if np.dtype(options.dtype) == np.float32:
        low = Projected(
            problem.affinity.astype(np.float32), problem.Q, constrained_value=value
        )
        common["tol"] = max(options.tol, _SINGLE_TOL)
        coarse = chebyshev(low, problem.k, X0=X0, **common)
        X0 = coarse.vectors
        spent = (coarse.n_products, coarse.n_columns, coarse.n_iter)
    operator = Projected(problem.affinity, problem.Q, constrained_value=value)
    common["tol"] = options.tol
    result = chebyshev(operator, problem.k, X0=X0, **common)
    return replace(
        result,
        n_products=result.n_products + spent[0],
        n_columns=result.n_columns + spent[1],
        n_iter=result.n_iter + spent[2],
    )


def _lobpcg(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """LOBPCG, preconditioned by multigrid on the normalised Laplacian."""
    affinity = problem.affinity
    if not isinstance(affinity, NormalizedAffinity):
        raise ValueError(
            'solver="lobpcg" builds its preconditioner from a stored graph, and this '
            'affinity only multiplies: use solver="chebyshev".'
        )
    known = _known_vector(problem)
    laplacian = sparse.csr_array(sparse.eye_array(problem.n) - affinity.matrix)
    return lobpcg(
        Projected(affinity, problem.Q, constrained_value=-1.0),
        problem.k,
        X0=known,
        orthogonal_to=problem.Q,
        preconditioner=AMGPreconditioner(laplacian, candidate=known[:, 0]),
        **options.keywords(),
    )


def _dual(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """One dual minimisation on the projected operator: the exact fair optimum."""
    bounds = _bounds(problem, options)
    return dual(
        Projected(problem.affinity, problem.Q, constrained_value=bounds.lower),
        problem.k,
        orthogonal_to=problem.Q,
        bounds=bounds,
        **options.keywords(),
    )


def _admm(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """Algorithm 1 of Tonin et al. 2025, which constrains M H and not H."""
    found = dc_admm(
        problem.affinity,
        problem.k,
        problem.F,
        shift=-(1 + _OMEGA),
        **{
            **options.keywords(),
            "callback": lambda _, worst: options.callback(0, worst),
        },
    )
    H = found.vectors
    T = block_gram(H, problem.affinity @ H)
    values, S = np.linalg.eigh((T + T.T) / 2)
    block_rotate(H, S[:, ::-1])  # clusters do not change: k-means is invariant
    options.callback(problem.k if found.converged else 0, 0.0)
    return EigenResult(
        values=values[::-1],
        vectors=H,
        residual_norms=found.residual_norms,
        n_products=found.n_products + 1,
        n_columns=found.n_columns + problem.k,
        n_iter=found.n_iter,
        converged=found.converged,
        message=found.message,
        history=found.history,
    )


def _bounds(problem: FairProblem, options: SolverOptions) -> SpectralBounds:
    """Bounds on the spectrum of M; in float32 where a product costs a kernel."""
    affinity = problem.affinity
    if isinstance(affinity, NormalizedOperator):
        affinity = affinity.astype(np.float32)
    return spectral_bounds(affinity, random_state=options.rng)


def _known_vector(problem: FairProblem) -> NDArray[np.float64]:
    """Return the unit vector along D^{1/2} 1: an eigenvector of M, and fair."""
    X0: NDArray[np.float64] = np.sqrt(problem.affinity.degrees)[:, None]
    X0 /= np.linalg.norm(X0)
    return X0


SOLVERS: dict[str, Callable[[FairProblem, SolverOptions], EigenResult]] = {
    "nullspace": _nullspace,
    "lanczos": _lanczos,
    "chebyshev": _chebyshev,
    "lobpcg": _lobpcg,
    "dual": _dual,
    "admm": _admm,
}
