"""Weighted sums of the groups' covariances, formed or multiplied by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair.decomposition._narrow import narrow_leading
from scalefair.kernels import leading_eigh, long_blas_call
from scalefair.linalg import chebyshev
from scalefair.operators import GroupCovariance

__all__ = [
    "CovariancePencil",
    "FormedPencil",
    "Leading",
    "OperatorPencil",
    "Start",
    "buffer_size",
    "captured",
    "compress",
    "orthonormal_span",
    "top_sums",
    "weighted_sum",
]

Array = NDArray[np.float64]

# Vectors beyond the wanted ones that a filtered block carries, as a share of them:
# the filter works on the gap behind the block.
_BUFFER = 0.3
# Up to this many vectors a sparse operator is multiplied by one at a time.
_NARROW = 40
# Single precision does for a trial subspace.
_TRIAL = np.float32


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
        start: Array,
        tol: float,
        rng: np.random.RandomState,
        *,
        near: bool,
    ) -> Leading:
        """Return the `r` leading eigenvectors of the sum of ``weights[g] * C_g``.

        `start` approximates them; `near` says that it does so well.
        """


class FormedPencil(CovariancePencil):
    """Covariances that fit in memory.

    Parameters
    ----------
    covariances : ndarray of shape (G, n, n)
        Symmetric.
    """

    def __init__(self, covariances: Array) -> None:
        self.covariances = covariances
        self.n_groups, self.n_features, _ = covariances.shape

    def start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        if self._filters(r):
            return self._filtered_start(r, tol, rng)
        best = top_sums(self.covariances, r)
        mean = self.covariances.mean(axis=0)
        scale = float(np.abs(mean).max()) or 1.0
        size = min(r + buffer_size(r), self.n_features)
        trial = leading_eigh((mean / scale).astype(_TRIAL), size)[1]
        return Start(best, trial.astype(np.float64), self.n_groups + 1, "")

    def compress(self, V: Array) -> Array:
        compressed = compress(self.covariances, V)
        return (compressed + compressed.transpose(0, 2, 1)) / 2

    def leading(
        self,
        weights: Array,
        r: int,
        start: Array,
        tol: float,
        rng: np.random.RandomState,
        *,
        near: bool,
    ) -> Leading:
        H = weighted_sum(weights, self.covariances)
        if near or self._filters(r):
            return _filtered(H, r, start, tol, rng)
        values, vectors = leading_eigh(H, r, overwrite=True)
        return Leading(vectors, float(values.sum()), 1, "")

    def _filters(self, r: int) -> bool:
        """Whether a filtered block takes less time than LAPACK.

        LAPACK takes as long as some 30 products with a block of n / 10 vectors, which
        is what a filter needs unless its start is good.
        """
        return 10 * r <= self.n_features

    def _filtered_start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        """Vectors of the first group by LAPACK, of the others starting from them."""
        values, vectors = leading_eigh(self.covariances[0], r + buffer_size(r))
        others = [_filtered(C, r, vectors, tol, rng) for C in self.covariances[1:]]
        return Start(
            best=np.array([values[:r].sum(), *(each.total for each in others)]),
            basis=orthonormal_span([vectors, *(each.vectors for each in others)]),
            n_products=1 + sum(each.n_products for each in others),
            message=_first_message(others),
        )


class OperatorPencil(CovariancePencil):
    """Covariances behind an operator, never formed.

    Parameters
    ----------
    operator : GroupCovariance
        Any weights.
    """

    def __init__(self, operator: GroupCovariance) -> None:
        self.operator = operator
        self.n_groups = operator.weights.size
        self.n_features = operator.shape[0]

    def start(self, r: int, tol: float, rng: np.random.RandomState) -> Start:
        found = [
            self._leading(unit, r, None, tol, rng, extra=max(10, r // 2))
            for unit in np.eye(self.n_groups)
        ]
        return Start(
            best=np.array([each.total for each in found]),
            basis=orthonormal_span([each.vectors for each in found]),
            n_products=sum(each.n_products for each in found),
            message=_first_message(found),
        )

    def compress(self, V: Array) -> Array:
        return self.operator.compress(np.ascontiguousarray(V))

    def leading(
        self,
        weights: Array,
        r: int,
        start: Array,
        tol: float,
        rng: np.random.RandomState,
        *,
        near: bool,
    ) -> Leading:
        return self._leading(weights, r, start, tol, rng)

    def _leading(
        self,
        weights: Array,
        r: int,
        start: Array | None,
        tol: float,
        rng: np.random.RandomState,
        *,
        extra: int = 0,
    ) -> Leading:
        """`leading`, with some more vectors where they cost little."""
        H = self.operator.with_weights(weights)
        k = r + extra
        if H.gathers_rows and r <= _NARROW and 4 * k <= self.n_features:
            found = narrow_leading(H, k, tol, rng)
            if found is not None:
                values, vectors, n_products = found
                return Leading(vectors, float(values[:r].sum()), n_products, "")
        return _filtered(H, r, start, tol, rng)


def buffer_size(r: int) -> int:
    """Vectors beyond the `r` wanted ones that an iteration carries."""
    return max(10, int(_BUFFER * r))


def top_sums(C: Array, r: int) -> Array:
    """Sum of the `r` largest eigenvalues of each symmetric matrix ``C[g]``."""
    n = C.shape[1]
    with long_blas_call(0.05 * n**3):
        sums: Array = np.linalg.eigvalsh(C)[:, n - r :].sum(axis=1)
    return sums


def weighted_sum(weights: Array, C: Array) -> Array:
    """Sum of ``weights[g] * C[g]``; groups without weight are not read."""
    total = np.zeros(C.shape[1:])
    for w, C_g in zip(weights, C, strict=True):
        if w != 0:
            total += w * C_g
    return total


def compress(C: Array, U: Array) -> Array:
    """``U.T @ C[g] @ U`` of every group, shape (G, r, r)."""
    compressed: Array = np.matmul(U.T, C @ U)
    return compressed


def captured(C: Array, U: Array) -> Array:
    """Variance ``trace(U.T @ C[g] @ U)`` that U captures of every group."""
    traces: Array = np.einsum("ij,gij->g", U, C @ U)
    return traces


def orthonormal_span(blocks: list[Array]) -> Array:
    """Orthonormal basis whose span contains all columns."""
    return np.ascontiguousarray(np.linalg.qr(np.hstack(blocks))[0])


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


def _first_message(found: list[Leading]) -> str:
    return next((each.message for each in found if each.message), "")
