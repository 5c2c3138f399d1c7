"""The fair embedding: top eigenvectors of the affinity under linear constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import qr
from sklearn.exceptions import ConvergenceWarning

from scalefair._groups import combinations
from scalefair._messages import warn_user
from scalefair.cluster._share_bounds import is_mixed
from scalefair.kernels import block_gram, block_multiply
from scalefair.linalg import (
    EigenResult,
    SpectralBounds,
    chebyshev,
    dc_admm,
    dense_eigh,
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
    coarse_degree,
)

Array = NDArray[np.float64]

# Residuals down to which iterations in float32 go.
SINGLE_TOL = 2e-5
# Nodes from which on float32 gains time: fewer stay in the caches.
MIN_SINGLE_NODES = 20_000
# Nodes up to which the dense solver is the fastest (docs/performance.md).
MAX_DENSE_NODES = 100
# Most nodes of the dense solver: three matrices of their order take 16 GiB.
DENSE_LIMIT = 26_754
# Of a mesh, two hops reach fewer than so many times the nodes of one, and an aggregate
# touches fewer than so many others. In the plane these are 3 and 6, in space 4 and 11
# to 14, on social networks 12 to 36 and 14 to 100.
MESH_GROWTH = 8.0


@dataclass(frozen=True)
class FairProblem:
    """Maximise Tr(H' M H) with H'H = I_k, F'H = 0; M the normalised affinity."""

    affinity: Any  # M, in float64, with its degrees
    # Codes (n, n_attributes), or probabilities (n, h); every group occurs.
    groups: NDArray[Any]
    k: int

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.groups)

    @property
    def n_attributes(self) -> int:
        """Number of attributes; of probabilities there is one."""
        return 1 if is_mixed(self.groups) else self.groups.shape[1]

    @cached_property
    def F(self) -> Array:
        r""":math:`F = D^{-1/2} (G - 1 z^T)`, n x h, G the indicator of the groups.

        With weights :math:`D^{-1/2}` is that of the affinity, and shares are weighted.
        Of probabilities P it is :math:`D^{-1/2} (P - \rho z^T)`; :math:`\rho` is 1, and
        0 for nodes of which no group is known: they are in no share.
        """
        G = self.members
        F: Array = G - self.shares
        F[~G.any(axis=1)] = 0.0
        F *= self.affinity.inv_sqrt_degrees[:, None]
        return F

    @property
    def members(self) -> NDArray[Any]:
        """Indicator G (n, h) of the groups of all attributes, or probabilities."""
        return self.groups if is_mixed(self.groups) else indicator(self.groups)

    @cached_property
    def shares(self) -> Array:
        """Shares z (h,) of the groups among the nodes of which something is known."""
        G, weights = self.members, self.weights
        totals: Array = G.sum(axis=0) if weights is None else weights @ G
        # The groups of each attribute hold all these nodes.
        shares: Array = totals / (totals.sum() / self.n_attributes)
        return shares

    @property
    def weights(self) -> Array | None:
        """Weights of the nodes, of mean 1; None if they are equal."""
        weights: Array | None = self.affinity.weights
        return weights

    @cached_property
    def Q(self) -> Array:
        """Orthonormal basis of the span of F, n x (h - 1) or less."""
        # The columns of one attribute add up to zero; all but one are independent.
        columns: Any = slice(-1)
        if is_mixed(self.groups):
            largest = float(np.linalg.norm(self.affinity.inv_sqrt_degrees))
            columns = _independent(self.F, largest)
        elif self.n_attributes > 1:
            columns = independent_groups(self.groups)
        return np.linalg.qr(self.F[:, columns])[0]

    def violation(self, H: Array) -> float:
        """Frobenius norm of ``F.T @ H``, with all columns of F."""
        return float(np.linalg.norm(block_gram(self.F, H)))


def indicator(codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the indicator of the groups of all attributes, by columns of codes."""
    return np.hstack([x[:, None] == np.arange(x.max() + 1) for x in codes.T])


def independent_groups(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find groups, counted through all attributes, whose columns of F are a basis.

    Which columns depend on others follows from the combinations of groups that occur,
    whatever their sizes and degrees: few rows of zeros and ones, well conditioned.
    """
    G = indicator(codes[combinations([*codes.T], (codes.max(axis=0) + 1).tolist())[0]])
    F = G - G.mean(axis=0)
    return _independent(F, float(np.linalg.norm(F, axis=0).max()))


def _independent(F: Array, largest: float) -> NDArray[np.int64]:
    """Find columns that are a basis of the span of all.

    `largest` is the norm by which pivots are judged.
    """
    # Pivots fall; of a dependent column nothing but rounding remains.
    R, order = qr(F, mode="r", pivoting=True)
    pivots = np.abs(np.diagonal(R))
    return np.sort(order[: int((pivots > 1e-9 * largest).sum())])


@dataclass(frozen=True)
class SolverOptions:
    """Parameters of the estimator that all solvers take."""

    tol: float
    max_iter: int | None
    dtype: Any
    rng: np.random.RandomState
    callback: Callable[[int, float], object]

    def is_single(self, problem: FairProblem) -> bool:
        """Whether iterations in float32 are asked for, or pay."""
        if self.dtype != "auto":
            return bool(np.dtype(self.dtype) == np.float32)
        is_stored = isinstance(problem.affinity, NormalizedAffinity)
        return is_stored and problem.n >= MIN_SINGLE_NODES and self.tol >= SINGLE_TOL

    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the iterative solvers of `scalefair.linalg`."""
        keywords: dict[str, Any] = {
            "tol": self.tol,
            "random_state": self.rng,
            "callback": self.callback,
        }
        if self.max_iter is not None:  # else the solver's default
            keywords["max_iter"] = self.max_iter
        return keywords


def solve(
    name: str, problem: FairProblem, options: SolverOptions
) -> tuple[str, EigenResult]:
    """Name of the solver that ran, and its result; Chebyshev takes over from LOBPCG."""
    is_automatic = name == "auto"
    if is_automatic:
        name = choose_solver(problem)
    result = SOLVERS[name](problem, options)
    if name == "lobpcg" and not result.converged:
        if not is_automatic:
            warn_user(
                f'solver="lobpcg" did not converge to tol={options.tol:g} '
                f'({result.message}) and solver="chebyshev" took over: use that.',
                ConvergenceWarning,
            )
        name, first = "chebyshev", result
        result = _add_counts(_chebyshev(problem, options, X0=first.vectors), first)
    return name, result


def _add_counts(
    result: EigenResult, first: EigenResult, n_twice: int = 0
) -> EigenResult:
    """Add the counts of the solver that gave the start, but for some in both."""
    return replace(
        result,
        n_products=result.n_products + first.n_products - n_twice,
        n_columns=result.n_columns + first.n_columns - n_twice,
        n_iter=result.n_iter + first.n_iter,
    )


def choose_solver(problem: FairProblem) -> str:
    """Pick the fastest measured (docs/performance.md): LOBPCG on lines and planes."""
    # Of few nodes, or of nearly all eigenvectors, the dense solver is the fastest.
    n, affinity = problem.n, problem.affinity
    many_clusters = problem.k > n // 4
    if n <= MAX_DENSE_NODES or (many_clusters and n <= DENSE_LIMIT):
        return "nullspace"
    if isinstance(affinity, NormalizedAffinity) and not many_clusters:
        # The growth takes milliseconds, and rules out most graphs that are no mesh.
        growth = _two_hop_growth(affinity.indptr, affinity.indices)
        if growth < MESH_GROWTH and coarse_degree(affinity.matrix) < MESH_GROWTH:
            return "lobpcg"
    return "chebyshev"


def _two_hop_growth(indptr: NDArray[Any], indices: NDArray[Any]) -> float:
    """Nodes within two hops for each node within one, from 200 nodes."""
    # Without a matrix of ones, which would take as much memory as the graph.
    n = indptr.size - 1

    def neighbors(nodes: Iterable[int]) -> NDArray[Any]:
        """Neighbours of nodes, each of them once."""
        rows = [indices[indptr[i] : indptr[i + 1]] for i in nodes]
        return np.unique(np.concatenate([*rows, indices[:0]]))

    # Neighbours of 200 nodes with numbers evenly apart. If these have more neighbours
    # than the graph has nodes it is no mesh.
    one_hop = [neighbors([i]) for i in np.linspace(0, n - 1, min(n, 200)).astype(int)]
    n_one_hop = sum(nodes.size for nodes in one_hop)
    if n_one_hop > n:
        return np.inf
    return sum(neighbors(nodes).size for nodes in one_hop) / max(n_one_hop, 1)


def _nullspace(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """Dense eigenvectors in the null space (o-FSC, Kleindessner et al. 2019)."""
    n, Q = problem.n, problem.Q
    if n > DENSE_LIMIT:
        raise ValueError(
            f'solver="nullspace" forms dense {n} x {n} matrices and would need '
            f'{3 * 8 * n**2 / 2**30:.0f} GiB; use solver="chebyshev".'
        )
    # The constrained directions get an eigenvalue below those of M, in [-1, 1].
    return dense_eigh(Projected(problem.affinity, Q, constrained_value=-3.0), problem.k)


def _lanczos(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """Restarted Lanczos on the projected operator (s-FSC, Wang et al. 2023)."""
    # "auto" is float64 here: nothing would confirm the result of float32.
    is_auto = options.dtype == "auto"
    affinity = problem.affinity.astype(np.float64 if is_auto else options.dtype)
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
    problem: FairProblem, options: SolverOptions, X0: Array | None = None
) -> EigenResult:
    """Chebyshev-filtered iteration on the projected operator."""
    # The constrained directions get the lower end of the spectrum. By interlacing no
    # fair eigenvalue lies below it, and the interval that the filter damps is no wider.
    bounds = _bounds(problem, options)

    def iterate(affinity: Any, tol: float, X0: Array) -> EigenResult:
        return chebyshev(
            Projected(affinity, problem.Q, constrained_value=bounds.lower),
            problem.k,
            X0=X0,
            orthogonal_to=problem.Q,
            bounds=bounds,
            **options.keywords() | {"tol": tol},
        )

    affinity = problem.affinity
    if X0 is None:
        X0 = _trivial_eigenvector(problem)
    if not options.is_single(problem):
        return iterate(affinity, options.tol, X0)
    # In float32; its result starts the iteration in float64, which has to confirm it.
    coarse = iterate(affinity.astype(np.float32), max(options.tol, SINGLE_TOL), X0)
    result = iterate(affinity, options.tol, coarse.vectors)
    # Both have counted the bounds, unless they were dense: that is one product.
    n_twice = min(len(bounds.nodes), coarse.n_products - 1)
    return _add_counts(result, coarse, n_twice)


def _lobpcg(problem: FairProblem, options: SolverOptions) -> EigenResult:
    """LOBPCG, preconditioned by multigrid on the normalised Laplacian."""
    affinity = problem.affinity
    if not isinstance(affinity, NormalizedAffinity):
        raise ValueError(
            'solver="lobpcg" builds its preconditioner from a stored graph, and this '
            'affinity only multiplies: use solver="chebyshev".'
        )
    trivial = _trivial_eigenvector(problem)
    # Without the constant of a regularised graph: it would change the Laplacian in one
    # direction, which is near the trivial one.
    laplacian = sparse.csr_array(sparse.eye_array(problem.n) - affinity.matrix)
    return lobpcg(
        Projected(affinity, problem.Q, constrained_value=-1.0),
        problem.k,
        X0=trivial,
        orthogonal_to=problem.Q,
        preconditioner=AMGPreconditioner(laplacian, candidate=trivial[:, 0]),
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
    # Step 1: ADMM. It reports no eigenpairs before the end.
    quiet = replace(options, callback=lambda _, worst: options.callback(0, worst))
    # M + (1 + omega) I is positive definite; omega of remark 2.3.
    result = dc_admm(
        problem.affinity, problem.k, problem.F, shift=-(1 + 0.01), **quiet.keywords()
    )
    # Step 2: Ritz vectors of the span, and their values. This rotation changes no
    # distances between rows, and so no clusters of k-means.
    H = result.vectors
    T = block_gram(H, problem.affinity @ H)
    values, S = np.linalg.eigh((T + T.T) / 2)
    block_multiply(H, S[:, ::-1], H)
    options.callback(problem.k if result.converged else 0, 0.0)
    return replace(
        result,
        values=values[::-1],
        n_products=result.n_products + 1,
        n_columns=result.n_columns + problem.k,
    )


def _bounds(problem: FairProblem, options: SolverOptions) -> SpectralBounds:
    """Bounds on the spectrum of M; in float32 where a product costs a kernel."""
    affinity = problem.affinity
    if isinstance(affinity, NormalizedOperator) and hasattr(affinity.W, "astype"):
        affinity = affinity.astype(np.float32)
    return spectral_bounds(affinity, random_state=options.rng)


def _trivial_eigenvector(problem: FairProblem) -> Array:
    """Return the unit vector along D^{1/2} 1: an eigenvector of M, and fair."""
    X0: Array = np.sqrt(problem.affinity.degrees)[:, None]
    if problem.weights is not None:
        X0 *= np.sqrt(problem.weights)[:, None]
    return X0 / np.linalg.norm(X0)


SOLVERS: dict[str, Callable[[FairProblem, SolverOptions], EigenResult]] = {
    "nullspace": _nullspace,
    "lanczos": _lanczos,
    "chebyshev": _chebyshev,
    "lobpcg": _lobpcg,
    "dual": _dual,
    "admm": _admm,
}
