"""Weighted sums of the groups' covariances, formed or multiplied by."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from scalefair.decomposition._overlapping_groups import OverlappingCovariance
from scalefair.kernels import eigenvalues, leading_eigh, matmul
from scalefair.linalg import chebyshev, spectral_bounds
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]
Random = np.random.RandomState

# Extra vectors of a filtered block, as a fraction of the wanted ones: the filter works
# on the gap behind the block.
BUFFER_RATIO = 0.3
# Most wanted vectors for which sparse rows are multiplied by one vector at a time.
MAX_ARPACK_RANK = 40
# Lanczos steps that look for missed eigenvectors.
N_CHECK_STEPS = 8


class LeadingEigenvectors(NamedTuple):
    """Leading eigenvectors (columns), the sum of their eigenvalues, and the cost."""

    vectors: Array
    total: float
    n_products: int
    message: str  # empty if converged


class InitialSubspace(NamedTuple):
    """Largest sums of `r` eigenvalues of the groups, and a first subspace."""

    best: Array
    basis: Array
    n_products: int
    message: str


class ReducedCovariances(NamedTuple):
    """Orthonormal basis of a subspace, and ``V.T @ C_g @ V`` of every group."""

    V: Array
    C: Array


@dataclass(frozen=True)
class GroupsSolution:
    """Basis with the smallest computed largest loss, and its certificate."""

    weights: Array  # of the dual, shape (G,), on the simplex
    basis: Array  # orthonormal columns, shape (n, r)
    losses: Array  # of the groups under the basis
    dual_value: float  # phi(weights), a lower bound of the largest loss of any basis
    n_iter: int  # eigendecompositions or calls of the oracle
    converged: bool  # whether the dual was maximised to the tolerance
    curvature: float = math.nan  # phi'' of two groups at the weights, else NaN

    @property
    def gap(self) -> float:
        """Largest loss less the dual value: no basis is better by more."""
        return float(self.losses.max()) - self.dual_value


class CovarianceFamily(ABC):
    """The covariances of the groups, of which `r` components are sought."""

    def __init__(self, n_groups: int, n_features: int, r: int, rng: Random) -> None:
        self.n_groups, self.n_features, self.r, self.rng = n_groups, n_features, r, rng

    @abstractmethod
    def start(self, tol: float) -> InitialSubspace:
        """Return the largest sums of r eigenvalues to `tol`, and a first subspace."""

    @abstractmethod
    def compress(self, V: Array) -> Array:
        """``V.T @ C_g @ V`` of every group, shape (G, p, p)."""

    @abstractmethod
    def leading(
        self, weights: Array, reduced: ReducedCovariances, tol: float
    ) -> LeadingEigenvectors:
        """Return the `r` leading eigenvectors of a weighted sum, or some more.

        An iteration starts from Ritz vectors in the subspace of `reduced`.
        """


class FormedCovariances(CovarianceFamily):
    """Covariances that fit in memory, an array of shape (G, n, n)."""

    def __init__(self, arrays: Array, r: int, rng: Random) -> None:
        self.arrays = arrays
        super().__init__(len(arrays), arrays.shape[1], r, rng)
        # Filtering a block takes some 30 products, LAPACK more for few components.
        self.is_filtered = 40 * r <= self.n_features

    def start(self, tol: float) -> InitialSubspace:
        C, r = self.arrays, self.r
        size = min(r + buffer_size(r), self.n_features)
        if self.is_filtered:
            # The first group by LAPACK; the others start from its eigenvectors.
            values, vectors = leading_eigh(C[0], size)
            first = LeadingEigenvectors(vectors, float(values[:r].sum()), 1, "")
            later = [_filtered(C_g, r, vectors, tol, self.rng) for C_g in C[1:]]
            return _joined([first, *later])
        # Eigenvectors of the mean, in single precision.
        mean = C.mean(axis=0)
        mean /= float(mean.diagonal().max()) or 1.0  # the largest entry
        trial = leading_eigh(mean.astype(np.float32), size, overwrite=True)[1]
        basis = orthonormal_span([trial.astype(np.float64)])
        return InitialSubspace(top_sums(C, r), basis, self.n_groups + 1, "")

    def compress(self, V: Array) -> Array:
        return symmetric(compress(self.arrays, V))

    def leading(
        self, weights: Array, reduced: ReducedCovariances, tol: float
    ) -> LeadingEigenvectors:
        H, r = weighted_sum(weights, self.arrays), self.r
        if self.is_filtered:
            return _filtered(H, r, _ritz_vectors(weights, r, reduced), tol, self.rng)
        size = min(r + 10, self.n_features)  # some more, for a rotation among ties
        values, vectors = leading_eigh(H, size, overwrite=True)
        return LeadingEigenvectors(vectors, float(values[:r].sum()), 1, "")


class CovarianceOperators(CovarianceFamily):
    """Covariances that an operator multiplies by, for any weights; never formed."""

    def __init__(
        self, operator: GroupCovariance | OverlappingCovariance, r: int, rng: Random
    ) -> None:
        self.operator = operator
        super().__init__(operator.weights.size, operator.shape[0], r, rng)

    def start(self, tol: float) -> InitialSubspace:
        # ARPACK's additional vectors cost little.
        k, units = self.r + max(10, self.r // 2), np.eye(self.n_groups)
        return _joined([self._leading(unit, k, None, tol) for unit in units])

    def compress(self, V: Array) -> Array:
        return self.operator.compress(np.ascontiguousarray(V))

    def leading(
        self, weights: Array, reduced: ReducedCovariances, tol: float
    ) -> LeadingEigenvectors:
        return self._leading(weights, self.r, reduced, tol)

    def _leading(
        self, weights: Array, k: int, reduced: ReducedCovariances | None, tol: float
    ) -> LeadingEigenvectors:
        """Eigenvectors by ARPACK, `k` of them, or else by filtering."""
        H, r = self.operator.with_weights(weights), self.r
        if H.gathers_rows and r <= MAX_ARPACK_RANK and 4 * k <= self.n_features:
            pairs = arpack_leading(H, k, tol, self.rng)
            if pairs is not None:
                values, vectors, n_products = pairs
                total = float(values[:r].sum())
                return LeadingEigenvectors(vectors, total, n_products, "")
        start = None if reduced is None else _ritz_vectors(weights, r, reduced)
        return _filtered(H, r, start, tol, self.rng)


def buffer_size(r: int) -> int:
    """Return the number of extra vectors in a block for `r` wanted ones."""
    return max(10, int(BUFFER_RATIO * r))


def top_sums(C: Array, r: int) -> Array:
    """Sum of the `r` largest eigenvalues of each symmetric matrix ``C[g]``."""
    return np.array([eigenvalues(C_g)[C.shape[1] - r :].sum() for C_g in C])


def weighted_sum(weights: Array, C: Array) -> Array:
    """Sum of ``weights[g] * C[g]``; groups without weight are not read."""
    total = np.zeros(C.shape[1:])
    for w, C_g in zip(weights, C, strict=True):
        if w != 0:
            total += w * C_g
    return total


def leading_basis(weights: Array, C: Array, r: int) -> Array:
    """Leading `r` eigenvectors of the sum of ``weights[g] * C[g]``, largest first."""
    return leading_eigh(weighted_sum(weights, C), r, overwrite=True)[1]


def compress(C: Array, U: Array) -> Array:
    """``U.T @ C[g] @ U`` of every group, shape (G, r, r)."""
    return inner(U, multiply(C, U))


def multiply(C: Array, U: Array) -> Array:
    """``C[g] @ U`` of every group, shape (G, n, r)."""
    n_groups, n, _ = C.shape
    return matmul(C.reshape(-1, n), U).reshape(n_groups, n, -1)


def inner(U: Array, CU: Array) -> Array:
    """``U.T @ CU[g]`` of every group."""
    return np.array([matmul(U.T, products) for products in CU])


def symmetric(A: Array) -> Array:
    """Symmetric part of each matrix."""
    return (A + A.transpose(0, 2, 1)) / 2


def captured(C: Array, U: Array) -> Array:
    """Variance ``trace(U.T @ C[g] @ U)`` that U captures of every group."""
    traces: Array = np.einsum("ij,gij->g", U, C @ U)
    return traces


def orthonormal_span(blocks: list[Array]) -> Array:
    """Orthonormal basis whose span contains all columns."""
    return np.ascontiguousarray(np.linalg.qr(np.hstack(blocks))[0])


def arpack_leading(
    H: LinearOperator, k: int, tol: float, rng: Random
) -> tuple[Array, Array, int] | None:
    """Leading eigenpairs by ARPACK, and the number of products; None if it failed."""
    n_products = 0

    def multiply(x: Array) -> Array:
        nonlocal n_products
        n_products += 1
        y: Array = H.matvec(x)
        return y

    counted = LinearOperator(H.shape, matvec=multiply, dtype=np.float64)
    try:
        # ARPACK's residuals were 3 to 10,000 times smaller than its tolerance.
        v0 = rng.standard_normal(H.shape[0])
        values, vectors = eigsh(counted, k, which="LA", tol=10 * tol, v0=v0)
    except ArpackError:  # also when it does not converge
        return None
    values, vectors = values[::-1], vectors[:, ::-1]
    # ARPACK may miss one of several equal eigenvalues.
    threshold = values[-1] + 10 * tol * values[0]
    if has_larger_eigenvalue(multiply, vectors.T, threshold, rng):
        return None
    return values, np.ascontiguousarray(vectors), n_products


def has_larger_eigenvalue(
    multiply: Callable[[Array], Array],
    rows: Array,
    threshold: float,
    rng: Random,
) -> bool:
    """Whether Lanczos finds an eigenvalue above `threshold` with `rows` deflated."""
    n = rows.shape[1]

    def multiply_deflated(x: Array) -> Array:
        y = multiply(x - (rows @ x) @ rows)
        y -= (rows @ y) @ rows
        return y

    deflated = LinearOperator((n, n), matvec=multiply_deflated, dtype=np.float64)
    bounds = spectral_bounds(deflated, n_steps=N_CHECK_STEPS, random_state=rng)
    return not bounds.nodes[-1] <= threshold


def _filtered(
    H: LinearOperator | Array,
    r: int,
    start: Array | None,
    tol: float,
    rng: Random,
) -> LeadingEigenvectors:
    """Leading eigenvectors by filtered subspace iteration."""
    result = chebyshev(
        H, r, X0=start, tol=tol, n_buffer=buffer_size(r), random_state=rng
    )
    message = ""
    if not result.converged:
        residual = float(result.residual_norms.max())
        message = (
            f"An eigenproblem was solved to a residual of {residual:.1e}: raise tol."
        )
    return LeadingEigenvectors(
        result.vectors, float(result.values.sum()), result.n_products, message
    )


def _ritz_vectors(weights: Array, r: int, reduced: ReducedCovariances) -> Array:
    """Leading Ritz vectors of a weighted sum in a subspace, with a buffer."""
    Y = np.linalg.eigh(weighted_sum(weights, reduced.C))[1][:, ::-1]
    size = r + buffer_size(r)
    return matmul(reduced.V, np.ascontiguousarray(Y[:, :size]))


def _joined(groups: list[LeadingEigenvectors]) -> InitialSubspace:
    """Span of the leading eigenvectors of every group."""
    return InitialSubspace(
        best=np.array([group.total for group in groups]),
        basis=orthonormal_span([group.vectors for group in groups]),
        n_products=sum(group.n_products for group in groups),
        message=next((group.message for group in groups if group.message), ""),
    )
