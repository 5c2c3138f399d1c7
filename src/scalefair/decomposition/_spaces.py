"""Where Lanczos looks for components of two groups of sparse rows: features or samples.

A vector x of features is held as rows of a *stack*, which linear combinations keep
together and from which inner products with other x, C_A x and C_B x follow without
another product. With Z the centred rows, sorted by group, the stack is

- of `Features`: x, C_A x, C_B x;
- of `Samples`: y and Z x, where x = Z^T y. All eigenvectors of t C_A + (1-t) C_B but
  those of zero are in the span of the rows; y is shorter where these are few.
"""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.linalg import ThickRestartLanczos
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]
Groups = tuple[int, ...]

# Eigenvalues that are a smaller part of the largest are rounding errors.
_NEGLIGIBLE = 1e-14
_PARTIAL_SUMS = 8  # vectors that a product is collected in, at most
_CHUNKS = 64  # parts of a product with a block that are shared among threads
_MOST_ENTRIES = 2**31 - 1  # of a transpose: its indices are int32


def space_of(
    C: GroupCovariance, X: Any, codes: NDArray[np.int64]
) -> Features | Samples:
    """Return the space of the shorter vectors."""
    m, n = X.shape
    if m < n and X.nnz + 2 * n <= _MOST_ENTRIES:
        return Samples(C, X, codes)
    return Features(C)


class Features:
    """Vectors of features, and their products with both covariances."""

    depth = 3

    def __init__(self, C: GroupCovariance) -> None:
        self.C, self.size = C, C.shape[0]

    def multiply(self, x: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write products of which Lanczos takes the sum of these `weights`."""
        self.C.products(x, out, groups)

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of what `multiply` writes."""
        return weights

    def image(self, stack: Array, groups: Groups, weights: Array) -> Array:
        """Return what Lanczos has for the vectors of a stack."""
        x: Array = stack[0]
        return x

    def found(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Stack, or its first part, of the k leading Ritz vectors."""
        vectors = run.leading(k)[None]
        if len(groups) == 1:
            return vectors
        return np.concatenate([vectors, run.leading_products(k)])

    def complete(self, stack: Array) -> Array:
        """Return the stack of which the first part is given."""
        if len(stack) == self.depth:
            return stack
        whole = np.empty((self.depth, *stack.shape[1:]))
        whole[0] = stack[0]
        for j, x in enumerate(stack[0]):
            self.C.products(x, whole[1:, j])
        return whole

    def inner(self, stack: Array, other: Array) -> Array:
        """Inner products of vectors."""
        products: Array = stack[0] @ other[0].T
        return products

    def projected(self, stack: Array, other: Array) -> Array:
        """Inner products through both covariances."""
        return np.array([stack[0] @ products.T for products in other[1:]])

    def norms(self, stack: Array) -> Array:
        """Lengths of the vectors."""
        lengths: Array = np.sqrt(np.einsum("ij,ij->i", stack[0], stack[0]))
        return lengths

    def combined(self, stack: Array, weights: Array, values: Any = 0.0) -> Array:
        """Stack, or its first part, of ``(w_A C_A + w_B C_B) x - value x``."""
        R: Array = stack[0] * -np.reshape(values, (-1, 1))
        for w, products in zip(weights, stack[1:], strict=True):
            R += w * products
        return R[None]

    def expand(self, stack: Array) -> Array:
        """Vectors of features, as columns."""
        return np.ascontiguousarray(stack[0].T)


class Samples:
    """Combinations y of the rows, and products of ``x = Z^T y`` with the rows.

    With D the weight of a row's group over its number of rows, H(t) x is of D Z x.
    Lanczos has D^(1/2) Z Z^T D^(1/2), symmetric and of the same eigenvalues but for
    zeros: with its eigenvectors z, those of H(t) are of y = D^(1/2) z, but for lengths.
    """

    depth = 2

    def __init__(self, C: GroupCovariance, X: Any, codes: NDArray[np.int64]) -> None:
        self.C, self.size = C, X.shape[0]
        order, first = np.argsort(codes, kind="stable"), int(C.counts[0])
        self.members = slice(0, first), slice(first, self.size)
        # What is subtracted from each row: the same centre, or its group's.
        self.centre = np.repeat(np.arange(2) % len(C.centres), C.counts)
        rows, centres = sparse.csr_array(X), -sparse.csr_array(C.centres)
        self.rows = {
            groups: sparse.vstack([rows[order[own]], centres], format="csr")
            for groups, own in self._own.items()
        }
        self.columns = {groups: rows.T for groups, rows in self.rows.items()}

    @property
    def _own(self) -> dict[Groups, slice]:
        """Places of the rows of groups."""
        return {
            (0, 1): slice(0, self.size),
            (0,): self.members[0],
            (1,): self.members[1],
        }

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the product for Lanczos first, and last that with the rows."""
        scale, own = self._scale(groups, weights), self._own[groups]
        out[-1] = 0.0
        out[-1, own] = self._gram(scale[own] * z[own], groups)
        np.multiply(scale, out[-1], out=out[0])

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of what `multiply` writes."""
        first: Array = np.eye(len(weights))[0]
        return first

    def image(self, stack: Array, groups: Groups, weights: Array) -> Array:
        """Return what Lanczos has for the vectors of a stack, but for lengths."""
        z: Array = stack[1] * self._scale(groups, weights)
        return z

    def found(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Stack of the k leading Ritz vectors, less those of eigenvalue zero."""
        values = run.values[:k]
        k = int(np.count_nonzero(values > _NEGLIGIBLE * run.scale))
        lengths = np.sqrt(values[:k, None])
        y = run.leading(k) * (self._scale(groups, weights) / lengths)
        if len(groups) == 1:
            return self.complete(y[None])
        return np.array([y, run.leading_products(k)[1] / lengths])

    def complete(self, stack: Array) -> Array:
        """Return the stack of which the first part is given."""
        if len(stack) == self.depth:
            return stack
        whole = np.empty((self.depth, *stack.shape[1:]))
        whole[0] = stack[0]
        whole[1] = self._gram(stack[0].T, (0, 1)).T
        return whole

    def inner(self, stack: Array, other: Array) -> Array:
        """Inner products of vectors."""
        products: Array = stack[0] @ other[1].T
        return products

    def projected(self, stack: Array, other: Array) -> Array:
        """Inner products through both covariances."""
        return np.array(
            [
                stack[1, :, own] @ other[1, :, own].T / count
                for own, count in zip(self.members, self.C.counts, strict=True)
            ]
        )

    def norms(self, stack: Array) -> Array:
        """Lengths of the vectors."""
        lengths: Array = np.sqrt(np.maximum(np.einsum("ij,ij->i", *stack), 0.0))
        return lengths

    def combined(self, stack: Array, weights: Array, values: Any = 0.0) -> Array:
        """Stack of ``(w_A C_A + w_B C_B) x - value x``."""
        y = stack[1] * np.repeat(weights / self.C.counts, self.C.counts)
        y -= np.reshape(values, (-1, 1)) * stack[0]
        return self.complete(y[None])

    def expand(self, stack: Array) -> Array:
        """Vectors of features, as columns."""
        return np.asarray(self._features(stack[0].T, (0, 1)))

    def _scale(self, groups: Groups, weights: Array) -> Array:
        """Roots of D, for the groups; zero for other rows."""
        scale = np.zeros(self.size)
        for g, w in zip(groups, weights, strict=True):
            scale[self.members[g]] = np.sqrt(w / self.C.counts[g])
        return scale

    def _features(self, y: Array, groups: Groups) -> Array:
        """Z^T y, of rows of the groups; of one vector, or of several as columns."""
        own = self.centre[self._own[groups]]
        sums = [
            y[own == c].sum(axis=0, keepdims=True) for c in range(len(self.C.centres))
        ]
        x: Array = self.columns[groups] @ np.concatenate([y, *sums])
        return x

    def _gram(self, y: Array, groups: Groups) -> Array:
        """Z Z^T y, of rows of the groups; of one vector, or of several as columns."""
        q = self.rows[groups] @ self._features(y, groups)
        m = len(y)
        product: Array = q[:m] + q[m:][self.centre[self._own[groups]]]
        return product
