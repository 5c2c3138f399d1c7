"""Covariances of the groups and their weighted sums, formed or multiplied by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, aslinearoperator, eigsh

from scalefair._membership import Membership
from scalefair._rounding import ROUNDING
from scalefair.kernels import eigenvalues, leading_eigh, matmul
from scalefair.linalg import chebyshev, spectral_bounds
from scalefair.operators import GroupCovariance, SymmetricBlockOperator

Array = NDArray[np.float64]
Random = np.random.RandomState

# Extra vectors of a filtered block, as a fraction of the wanted ones: the filter
# converges by the gap between the wanted eigenvalues and those outside of the block.
BUFFER_RATIO = 0.3
# Most wanted vectors for which sparse rows are multiplied by one vector at a time, by
# ARPACK.
MAX_ARPACK_RANK = 40
# Lanczos steps that look for eigenvectors that a solver missed.
N_CHECK_STEPS = 8


class LeadingEigenvectors(NamedTuple):
    """Leading eigenvectors (columns) of one matrix or of several, and the cost."""

    vectors: Array  # (n, r) or some more columns; of several matrices a basis
    total: Any  # sum of the r largest eigenvalues: a float, or one of each matrix, (G,)
    n_products: int  # with a block or a vector; an eigendecomposition counts one
    message: str  # empty if converged


class FormedCovariances:
    """Covariances that fit in memory, an array of shape (G, n, n)."""

    def __init__(self, arrays: Array, r: int, rng: Random) -> None:
        self.arrays, self.r, self.rng = arrays, r, rng
        self.n_groups, self.n_features, _ = arrays.shape
        # Filtering takes some 30 products with a block. That is less time than LAPACK
        # takes if the block is narrow.
        self.is_filtered = 40 * r <= self.n_features

    def start(self, tol: float) -> LeadingEigenvectors:
        """Return each group's sum of eigenvalues to `tol`, and a first subspace."""
        C, r = self.arrays, self.r
        size = min(r + buffer_size(r), self.n_features)
        if self.is_filtered:
            # The first group by LAPACK; the others start from its eigenvectors.
            values, vectors = leading_eigh(C[0], size)
            first = LeadingEigenvectors(vectors, float(values[:r].sum()), 1, "")
            return _joined(
                [first, *(_filtered(C_g, r, vectors, tol, self.rng) for C_g in C[1:])]
            )
        # Eigenvectors of the mean, in single precision: they are only a start. Scaled
        # entries do not overflow: the largest of a semidefinite matrix is on its
        # diagonal.
        mean = C.mean(axis=0)
        mean /= float(mean.diagonal().max()) or 1.0
        trial = leading_eigh(mean.astype(np.float32), size, overwrite=True)[1]
        basis = orthonormal_span([trial.astype(np.float64)])
        return LeadingEigenvectors(basis, top_sums(C, r), self.n_groups + 1, "")

    def compress(self, V: Array) -> Array:
        """``V.T @ C_g @ V`` of every group, shape (G, p, p)."""
        return symmetric(compress(self.arrays, V))

    def product(self, g: int, Y: Array) -> Array:
        """Product of the covariance of a group with a vector or a block (n, p)."""
        product: Array = self.arrays[g] @ Y
        return product

    def leading(
        self, weights: Array, V: Array, compressed: Array, tol: float
    ) -> LeadingEigenvectors:
        """Return the `r` leading eigenvectors of a weighted sum, or some more.

        An iteration starts from Ritz vectors in the span of V, where the covariances
        are `compressed`.
        """
        H, r = np.tensordot(weights, self.arrays, axes=1), self.r
        if self.is_filtered:
            start = _ritz_vectors(weights, r, V, compressed)
            return _filtered(H, r, start, tol, self.rng)
        # Some more than r: in their span is decided which of nearly equal ones serve.
        size = min(r + 10, self.n_features)
        values, vectors = leading_eigh(H, size, overwrite=True)
        return LeadingEigenvectors(vectors, float(values[:r].sum()), 1, "")


class CovarianceOperators:
    """Covariances that an operator multiplies by, for any weights; never formed."""

    is_filtered = True

    def __init__(
        self, operator: GroupCovariance | OverlappingCovariance, r: int, rng: Random
    ) -> None:
        self.operator, self.r, self.rng = operator, r, rng
        self.n_groups, self.n_features = operator.weights.size, operator.shape[0]

    def start(self, tol: float) -> LeadingEigenvectors:
        """Return each group's sum of eigenvalues to `tol`, and a first subspace."""
        # Weights of one group alone are a row of the identity. More vectors than r cost
        # ARPACK little.
        k, units = self.r + max(10, self.r // 2), np.eye(self.n_groups)
        return _joined([self._leading(unit, k, None, tol) for unit in units])

    def compress(self, V: Array) -> Array:
        """``V.T @ C_g @ V`` of every group, shape (G, p, p)."""
        return self.operator.compress(np.ascontiguousarray(V))

    def product(self, g: int, Y: Array) -> Array:
        """Product of the covariance of a group with a vector or a block (n, p)."""
        return self.operator.with_weights(np.eye(self.n_groups)[g]) @ Y

    def leading(
        self, weights: Array, V: Array, compressed: Array, tol: float
    ) -> LeadingEigenvectors:
        """Return the `r` leading eigenvectors of a weighted sum, or some more."""
        start = _ritz_vectors(weights, self.r, V, compressed)
        return self._leading(weights, self.r, start, tol)

    def _leading(
        self, weights: Array, k: int, start: Array | None, tol: float
    ) -> LeadingEigenvectors:
        """Leading eigenvectors, `k` by ARPACK for sparse rows, or else by filtering."""
        traces = self.operator.group_traces
        if weights @ traces < ROUNDING * traces.max():
            # Such as the only row of a group, about its mean: products are rounding.
            vectors = np.eye(self.n_features, self.r) if start is None else start
            return LeadingEigenvectors(vectors, 0.0, 0, "")
        H, r = self.operator.with_weights(weights), self.r
        if H.gathers_rows and r <= MAX_ARPACK_RANK and 4 * k <= self.n_features:
            leading = arpack_leading(H, r, k, tol, self.rng)
            if leading is not None:
                return leading
        return _filtered(H, r, start, tol, self.rng)


CovarianceFamily: TypeAlias = FormedCovariances | CovarianceOperators


def buffer_size(r: int) -> int:
    """Return the number of extra vectors in a block for `r` wanted ones."""
    return max(10, int(BUFFER_RATIO * r))


def top_sums(C: Array, r: int) -> Array:
    """Sum of the `r` largest eigenvalues of each symmetric matrix ``C[g]``."""
    return np.array([eigenvalues(C_g)[C.shape[1] - r :].sum() for C_g in C])


def leading_basis(weights: Array, C: Array, r: int) -> Array:
    """Leading `r` eigenvectors of the sum of ``weights[g] * C[g]``, largest first."""
    return leading_eigh(np.tensordot(weights, C, axes=1), r, overwrite=True)[1]


def compress(C: Array, U: Array) -> Array:
    """``U.T @ C[g] @ U`` of every group, shape (G, r, r)."""
    return inner(U, multiply(C, U))


def multiply(C: Array, U: Array) -> Array:
    """``C[g] @ U`` of every group, shape (G, n, r)."""
    return matmul(C.reshape(-1, len(U)), U).reshape(*C.shape[:2], -1)


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
    H: LinearOperator, r: int, k: int, tol: float, rng: Random
) -> LeadingEigenvectors | None:
    """Return `k` eigenvectors by ARPACK, `r` of them wanted; None if it failed."""
    # 1. Lanczos by ARPACK, with the products counted.
    n_products = 0

    def multiply_counted(x: Array) -> Array:
        nonlocal n_products
        n_products += 1
        y: Array = H.matvec(x)
        return y

    counted = LinearOperator(H.shape, matvec=multiply_counted, dtype=np.float64)
    try:
        # Tenfold: ARPACK's residuals were 3 to 10,000 times smaller than its tolerance.
        v0 = rng.standard_normal(H.shape[0])
        values, vectors = eigsh(counted, k, which="LA", tol=10 * tol, v0=v0)
    except ArpackError:  # also when it does not converge
        return None
    values, vectors = values[::-1], vectors[:, ::-1]
    # 2. ARPACK may miss one of several equal eigenvalues. With its eigenvectors
    # deflated, none must be above the last one.
    threshold = values[-1] + 10 * tol * values[0]
    if has_larger_eigenvalue(multiply_counted, vectors.T, threshold, rng):
        return None
    vectors, total = np.ascontiguousarray(vectors), float(values[:r].sum())
    return LeadingEigenvectors(vectors, total, n_products, "")


def has_larger_eigenvalue(
    multiply: Callable[[Array], Array], rows: Array, threshold: float, rng: Random
) -> bool:
    """Whether Lanczos finds an eigenvalue above `threshold` with `rows` deflated.

    `rows` are orthonormal. A bound that is NaN counts as above.
    """
    n = rows.shape[1]

    def multiply_deflated(x: Array) -> Array:
        y = multiply(x - (rows @ x) @ rows)
        y -= (rows @ y) @ rows
        return y

    deflated = LinearOperator((n, n), matvec=multiply_deflated, dtype=np.float64)
    bounds = spectral_bounds(deflated, n_steps=N_CHECK_STEPS, random_state=rng)
    return not bounds.nodes[-1] <= threshold  # the largest Ritz value


def _filtered(
    H: LinearOperator | Array, r: int, start: Array | None, tol: float, rng: Random
) -> LeadingEigenvectors:
    """Leading eigenvectors by filtered subspace iteration."""
    options: dict[str, Any] = {
        "tol": tol,
        "n_buffer": buffer_size(r),
        "random_state": rng,
    }
    result = chebyshev(H, r, X0=start, **options)
    n_products = result.n_products
    # A start in the span of some eigenvectors, as where features are uncorrelated, may
    # lead to those alone.
    if start is not None:
        threshold = result.values[-1] + 10 * tol * result.values[0]
        multiply = aslinearoperator(H).matvec
        n_products += N_CHECK_STEPS
        if has_larger_eigenvalue(multiply, result.vectors.T, threshold, rng):
            result = chebyshev(H, r, **options)
            n_products += result.n_products
    total, message = float(result.values.sum()), ""
    if not result.converged:
        residual = float(result.residual_norms.max())
        message = (
            f"An eigenproblem was solved to a residual of {residual:.1e}: raise tol."
        )
    return LeadingEigenvectors(result.vectors, total, n_products, message)


def _ritz_vectors(weights: Array, r: int, V: Array, compressed: Array) -> Array:
    """Leading Ritz vectors of a weighted sum in the span of V, with a buffer."""
    Y = np.linalg.eigh(np.tensordot(weights, compressed, axes=1))[1][:, ::-1]
    return matmul(V, np.ascontiguousarray(Y[:, : r + buffer_size(r)]))


def _joined(groups: list[LeadingEigenvectors]) -> LeadingEigenvectors:
    """Span of the leading eigenvectors of every group."""
    return LeadingEigenvectors(
        vectors=orthonormal_span([group.vectors for group in groups]),
        total=np.array([group.total for group in groups]),
        n_products=sum(group.n_products for group in groups),
        message=next((group.message for group in groups if group.message), ""),
    )


class OverlappingCovariance(SymmetricBlockOperator):
    """Weighted sum of the covariances of groups that have rows in common.

    A cell has the rows of one combination of the groups of several attributes. A group
    is a union of cells. Its covariance about the mean of all rows is the mean of those
    of its cells, weighted by their shares of the group. About the group's own mean, at
    an offset o from that of all rows, it is less by o o^T.
    """

    def __init__(self, X: Any, membership: Membership, centering: str) -> None:
        super().__init__(np.float64, X.shape[1])
        self._set_cells(X, membership)
        self.gathers_rows, self.mean = self._cells.gathers_rows, self._cells.mean
        self.group_traces, self._offsets = self._moments()
        if centering == "global":
            self._offsets = self._offsets[:0]  # nothing is subtracted
        else:
            self.group_traces -= (self._offsets**2).sum(axis=1)
        # The cells get weights that fit from `with_weights`, before the first product.
        self.weights = np.full(len(self.counts), 1 / len(self.counts))

    def _set_cells(self, X: Any, membership: Membership) -> None:
        """Set the operator of the cells, their shares (G, n_cells), and counts (G,)."""
        codes, cells = membership.cells()
        ones, weights = np.ones(len(cells.sets)), membership.weights
        self._cells = GroupCovariance(X, codes, ones, sample_weight=weights)
        self.counts = cells.members @ self._cells.counts
        self._shares = cells.shares(self._cells.counts)

    def _moments(self) -> tuple[Array, Array]:
        """Traces (G,) about the mean of all rows, offsets of the means (G, n)."""
        offsets = self._cells.means - self._cells.mean
        return self._shares @ self._cells.group_traces, self._shares @ offsets

    def _of_cells(self, weights: Array) -> GroupCovariance:
        """Operator of the cells with other weights."""
        return self._cells.with_weights(weights)

    def with_weights(self, weights: Array) -> OverlappingCovariance:
        """Return the operator with other weights."""
        other = copy(self)
        other.weights = weights
        other._cells = self._of_cells(weights @ self._shares)
        return other

    def _apply(
        self, X: Array, out: Array, alpha: float, shift: float, beta: float
    ) -> None:
        self._cells.apply(X, out, alpha=alpha, shift=shift, beta=beta)
        if len(self._offsets):
            scaled = self._offsets * (alpha * self.weights)[:, None]
            out -= scaled.T @ (self._offsets @ X)

    def _grams(self, V: Array) -> Array:
        """``V.T @ C_g @ V`` of every group about the mean of all rows."""
        grams = self._cells.compress(V)
        mixed: Array = self._shares @ grams.reshape(len(grams), -1)
        return mixed.reshape(-1, *grams.shape[1:])

    def compress(self, V: Array) -> Array:
        """Return ``V.T @ C_g @ V`` of every group."""
        grams = self._grams(V)
        # No offsets with global centering: the loop is empty.
        for gram, offset in zip(grams, self._offsets @ V, strict=False):
            gram -= np.outer(offset, offset)
        return grams


class ExpectedCovariance(OverlappingCovariance):
    """The same for probabilities of groups: a cell is a row.

    Weights of groups become a weight of each row: a product takes as long as that of a
    single group. Traces, offsets and compressed covariances take a pass for each group.
    """

    def _set_cells(self, X: Any, membership: Membership) -> None:
        # Entries of the membership: a row, a group that it may be of, and a weight.
        rows, codes = np.asarray(membership.rows), membership.codes
        A = np.ones(len(codes)) if membership.weights is None else membership.weights
        self.counts = np.bincount(codes, A)
        shape = len(self.counts), X.shape[0]
        self._shares = sparse.csr_array(
            (A / self.counts[codes], (codes, rows)), shape=shape
        )
        # All rows as one group. Those with no entry have weight 0: the mean of all rows
        # leaves them out.
        row_weights, one = np.bincount(rows, A, minlength=X.shape[0]), np.ones(1)
        codes = np.zeros(X.shape[0], np.int64)
        self._cells = GroupCovariance(X, codes, one, sample_weight=row_weights)

    def _of_groups(self) -> Iterator[GroupCovariance]:
        """Operators of the groups, about the mean of all rows."""
        for group in range(len(self.counts)):
            yield self._of_cells(self._shares[[group]].toarray()[0])

    def _moments(self) -> tuple[Array, Array]:
        moments = [(C.group_traces[0], C.means[0] - C.mean) for C in self._of_groups()]
        traces, offsets = zip(*moments, strict=True)
        return np.array(traces), np.array(offsets)

    def _of_cells(self, weights: Array) -> GroupCovariance:
        return self._cells.with_sample_weight(weights)

    def _grams(self, V: Array) -> Array:
        return np.concatenate([C.compress(V) for C in self._of_groups()])
