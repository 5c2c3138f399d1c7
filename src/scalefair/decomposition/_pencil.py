"""Weighted sums of the groups' covariances, formed or multiplied by."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from scalefair._groups import Attribute, combinations
from scalefair.kernels import eigenvalues, leading_eigh, matmul
from scalefair.linalg import chebyshev, spectral_bounds
from scalefair.operators import GroupCovariance, SymmetricBlockOperator
from scalefair.streaming import Parts

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


def _combined(
    first: NDArray[Any], sizes: list[int], *others: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Each row's combination of codes, and the codes of each that occurs."""
    codes = [first, *others]
    row, cells = combinations(codes, sizes)
    return cells, np.column_stack([own[row] for own in codes])


def _table(combined: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
    return combined[1]


def _relabelled(combined: tuple[Any, Any], labels: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = labels[combined[0]]
    return found


def _cells(compared: Sequence[Attribute]) -> tuple[Any, NDArray[np.int64]]:
    """Return each row's combination, and 1 where a group (row) has it (column)."""
    sizes = [len(attribute.groups) for attribute in compared]
    first, *others = (attribute.codes for attribute in compared)
    cells: Any
    if isinstance(first, Parts):
        parts = first.map(_combined, sizes, each=others).persist()
        tables = parts.map(_table).gather()
        table, labels = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        cuts = np.cumsum([len(own) for own in tables])[:-1]
        places = parts.like(np.split(labels.ravel(), cuts))
        cells = parts.map(_relabelled, each=[places]).persist()
    else:
        cells, table = _combined(first, sizes, *others)
    members = [
        np.equal.outer(np.arange(size), own)
        for size, own in zip(sizes, table.T, strict=True)
    ]
    return cells, np.concatenate(members).astype(np.int64)


class OverlappingCovariance(SymmetricBlockOperator):
    """Weighted sum of the covariances of the groups of several attributes.

    Groups are unions of the combinations of attributes, whose covariances about the
    mean of all rows are added up; about its own mean that of a group is less by the
    outer product of the difference of both.
    """

    def __init__(self, X: Any, compared: Sequence[Attribute], centering: str) -> None:
        cells, members = _cells(compared)
        super().__init__(np.float64, X.shape[1])
        C = GroupCovariance(X, cells, np.ones(members.shape[1]))
        self._cells, self.gathers_rows, self.mean = C, C.gathers_rows, C.mean
        self.counts = members @ C.counts
        self._shares = members * C.counts / self.counts[:, None]
        self.group_traces = self._shares @ C.group_traces
        self._offsets = self._shares @ (C.means - C.mean)
        if centering == "global":
            self._offsets = self._offsets[:0]
        else:
            self.group_traces -= (self._offsets**2).sum(axis=1)
        self.weights = np.full(len(members), 1 / len(members))

    def with_weights(self, weights: Array) -> OverlappingCovariance:
        """Return the operator with other weights."""
        other = copy(self)
        other.weights = weights
        other._cells = self._cells.with_weights(weights @ self._shares)
        return other

    def _apply(
        self, X: Array, out: Array, alpha: float, shift: float, beta: float
    ) -> None:
        self._cells.apply(X, out, alpha=alpha, shift=shift, beta=beta)
        if len(self._offsets):
            scaled = self._offsets * (alpha * self.weights)[:, None]
            out -= scaled.T @ (self._offsets @ X)

    def compress(self, V: Array) -> Array:
        """Return ``V.T @ C_g @ V`` of every group."""
        grams = np.tensordot(self._shares, self._cells.compress(V), axes=1)
        for gram, offset in zip(grams, self._offsets @ V, strict=False):
            gram -= np.outer(offset, offset)
        return grams


class OperatorPencil(CovariancePencil):
    """Covariances behind an operator of any weights, never formed."""

    def __init__(self, operator: GroupCovariance | OverlappingCovariance) -> None:
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
