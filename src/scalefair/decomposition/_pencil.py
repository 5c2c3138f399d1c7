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

from scalefair.kernels import eigenvalues, leading_eigh, matmul
from scalefair.linalg import chebyshev, spectral_bounds
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]

# Vectors beyond the wanted ones that a filtered block carries, as a share of them:
# the filter works on the gap behind the block.
_BUFFER = 0.3
# What LAPACK finds beside them, for rotations to equal losses.
_SPARE = 10
# Up to this many vectors a sparse operator is multiplied by one at a time.
_NARROW = 40
# Single precision does for a trial subspace.
_TRIAL = np.float32
# ARPACK's residuals were 3 to 10,000 times smaller than asked for.
_SLACK = 10.0
# Lanczos steps that look for eigenvectors which were missed.
_CHECK_STEPS = 8


class Leading(NamedTuple):
    """Leading eigenvectors (columns), the sum of their eigenvalues, and the cost."""

    vectors: Array
    total: float
    n_products: int
    message: str  # empty if converged


class Start(NamedTuple):
    """Largest sums of `r` eigenvalues of the groups, and a first subspace."""

    best: Array
    basis: Array
    n_products: int
    message: str


@dataclass(frozen=True)
class GroupsSolution:
    """Basis with the smallest largest loss that was found, and its certificate."""

    weights: Array  # of the dual, shape (G,), on the simplex
    basis: Array  # orthonormal columns, shape (n, r)
    losses: Array  # of the groups under the basis
    dual_value: float  # phi(weights), a lower bound of the largest loss of any basis
    n_iter: int  # eigendecompositions or calls of the oracle
    converged: bool  # whether the dual was maximised to the tolerance
    curvature: float = math.nan  # phi'' of two groups at the weights, if known

    @property
    def gap(self) -> float:
        """Largest loss less the dual value: no basis is better by more."""
        return float(self.losses.max()) - self.dual_value


class CovariancePencil(ABC):
    """The covariances of the groups, as the solvers see them."""

    n_groups: int
    n_features: int

    @abstractmethod
    def start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        """Best sums to `tol`, and a subspace to begin with."""

    @abstractmethod
    def compress(self, V: Array) -> Array:
        """``V.T @ C_g @ V`` of every group, shape (G, p, p)."""

    @abstractmethod
    def leading(
        self,
        weights: Array,
        r: int,
        trial: Callable[[], Array],
        tol: float,
        rng: np.random.RandomState,
    ) -> Leading:
        """Return the `r` leading eigenvectors of a weighted sum, or some more."""


class FormedPencil(CovariancePencil):
    """Covariances that fit in memory, an array of shape (G, n, n)."""

    def __init__(self, covariances: Array) -> None:
        self.covariances = covariances
        self.n_groups, self.n_features, _ = covariances.shape

    def start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        C, size = self.covariances, min(r + buffer_size(r), self.n_features)
        if self._filters(r):  # the first group by LAPACK, the others starting there
            values, vectors = leading_eigh(C[0], size)
            first = Leading(vectors, float(values[:r].sum()), 1, "")
            others = [_filtered(C_g, r, vectors, tol, rng) for C_g in C[1:]]
            return _joined([first, *others])
        mean = C.mean(axis=0)
        mean /= float(mean.diagonal().max()) or 1.0  # the largest entry
        trial = leading_eigh(mean.astype(_TRIAL), size, overwrite=True)[1]
        basis = orthonormal_span([trial.astype(np.float64)])
        return Start(top_sums(C, r), basis, self.n_groups + 1, "")

    def compress(self, V: Array) -> Array:
        return symmetric(compress(self.covariances, V))

    def leading(
        self,
        weights: Array,
        r: int,
        trial: Callable[[], Array],
        tol: float,
        rng: np.random.RandomState,
    ) -> Leading:
        H = weighted_sum(weights, self.covariances)
        if self._filters(r):
            return _filtered(H, r, trial(), tol, rng)
        size = min(r + _SPARE, self.n_features)
        values, vectors = leading_eigh(H, size, overwrite=True)
        return Leading(vectors, float(values[:r].sum()), 1, "")

    def _filters(self, r: int) -> bool:
        """Whether a filtered block takes less time than LAPACK: of some 30 products."""
        return 40 * r <= self.n_features


class OperatorPencil(CovariancePencil):
    """Covariances behind an operator of any weights, never formed."""

    def __init__(self, operator: GroupCovariance) -> None:
        self.operator = operator
        self.n_groups = operator.weights.size
        self.n_features = operator.shape[0]

    def start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        extra = max(10, r // 2)
        units = np.eye(self.n_groups)
        return _joined(
            [self.leading(unit, r, None, tol, rng, extra=extra) for unit in units]
        )

    def compress(self, V: Array) -> Array:
        return self.operator.compress(np.ascontiguousarray(V))

    def leading(
        self,
        weights: Array,
        r: int,
        trial: Callable[[], Array] | None,
        tol: float,
        rng: np.random.RandomState,
        *,
        extra: int = 0,
    ) -> Leading:
        # With some more vectors where they cost little.
        H = self.operator.with_weights(weights)
        k = r + extra
        if H.gathers_rows and r <= _NARROW and 4 * k <= self.n_features:
            found = arpack_leading(H, k, tol, rng)
            if found is not None:
                values, vectors, n_products = found
                return Leading(vectors, float(values[:r].sum()), n_products, "")
        return _filtered(H, r, trial and trial(), tol, rng)


def buffer_size(r: int) -> int:
    """Vectors beyond the `r` wanted ones that an iteration carries."""
    return max(10, int(_BUFFER * r))


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
    H: LinearOperator, k: int, tol: float, rng: np.random.RandomState
) -> tuple[Array, Array, int] | None:
    """Leading eigenpairs by ARPACK, and the number of products; None if it failed."""
    # It may miss one of several equal eigenvalues: more Lanczos steps look for it.
    n = H.shape[0]
    n_products = 0

    def multiply(x: Array) -> Array:
        nonlocal n_products
        n_products += 1
        y: Array = H.matvec(x)
        return y

    counted = LinearOperator(H.shape, matvec=multiply, dtype=np.float64)
    try:
        values, vectors = eigsh(
            counted, k, which="LA", tol=_SLACK * tol, v0=rng.standard_normal(n)
        )
    except ArpackError:  # also when it does not converge
        return None
    values, vectors = values[::-1], vectors[:, ::-1]

    def without_found(x: Array) -> Array:
        y = multiply(x - vectors @ (vectors.T @ x))
        y -= vectors @ (vectors.T @ y)
        return y

    rest = LinearOperator(H.shape, matvec=without_found, dtype=np.float64)
    highest = spectral_bounds(rest, n_steps=_CHECK_STEPS, random_state=rng).nodes[-1]
    if not highest <= values[-1] + 10 * tol * values[0]:
        return None
    return values, np.ascontiguousarray(vectors), n_products


def _filtered(
    H: LinearOperator | Array,
    r: int,
    start: Array | None,
    tol: float,
    rng: np.random.RandomState,
) -> Leading:
    result = chebyshev(
        H, r, X0=start, tol=tol, n_buffer=buffer_size(r), random_state=rng
    )
    message = ""
    if not result.converged:
        residual = float(result.residual_norms.max())
        message = (
            f"An eigenproblem was solved to a residual of {residual:.1e}: raise tol."
        )
    return Leading(
        result.vectors, float(result.values.sum()), result.n_products, message
    )


def _joined(found: list[Leading]) -> Start:
    """Start from leading eigenvectors of every group."""
    return Start(
        best=np.array([each.total for each in found]),
        basis=orthonormal_span([each.vectors for each in found]),
        n_products=sum(each.n_products for each in found),
        message=next((each.message for each in found if each.message), ""),
    )
