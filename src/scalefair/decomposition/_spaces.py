"""Vectors of features or of samples, for Lanczos on two groups of sparse rows.

A vector x of features is held as rows of several *blocks*. Linear combinations act on
all blocks, and inner products with other x, C_A x and C_B x follow without another
product. With Z the centred rows, sorted by group, the blocks are

- of `FeatureSpace`: x, C_A x, C_B x;
- of `SampleSpace`: y and Z x, where x = Z^T y. All eigenvectors of t C_A + (1-t) C_B
  but those of zero are in the span of the rows; y is shorter if rows are few.
"""
# See the user guide, "Fair principal component analysis", "How it is solved".

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.linalg import ThickRestartLanczos
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]
Groups = tuple[int, ...]


def choose_space(C: GroupCovariance, X: Any, codes: NDArray[np.int64]) -> VectorSpace:
    """Return the space whose vectors are shorter."""
    m, n = X.shape
    # The transposed rows, with two centres, have indices in int32.
    if m < n and X.nnz + 2 * n <= np.iinfo(np.int32).max:
        return SampleSpace(C, X, codes)
    return FeatureSpace(C)


class VectorSpace(ABC):
    """Vectors of length `size`, held as `depth` blocks of rows."""

    depth: ClassVar[int]
    paired: ClassVar[int]  # x^T x' are inner products of block 0 with this one

    C: GroupCovariance
    size: int

    @abstractmethod
    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the products of which Lanczos takes the weighted sum."""

    @abstractmethod
    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of the products that `multiply` writes."""

    @abstractmethod
    def image(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        """Return the vectors of Lanczos for those of `blocks`, up to their lengths."""

    @abstractmethod
    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Blocks, or the first only, of the k leading Ritz vectors."""

    @abstractmethod
    def projected(self, blocks: Array, other: Array) -> Array:
        """Inner products through both covariances."""

    @abstractmethod
    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        """Return, at least, the first block of ``(w_A C_A + w_B C_B) x - value x``."""

    @abstractmethod
    def expand(self, blocks: Array) -> Array:
        """Vectors of features, as columns."""

    @abstractmethod
    def _add_products(self, blocks: Array) -> None:
        """Write all blocks but the first."""

    def complete(self, blocks: Array) -> Array:
        """Return all blocks of the vectors in the first."""
        if len(blocks) == self.depth:
            return blocks
        complete = np.empty((self.depth, *blocks.shape[1:]))
        complete[0] = blocks[0]
        self._add_products(complete)
        return complete

    def inner(self, blocks: Array, other: Array) -> Array:
        """Inner products of vectors."""
        products: Array = blocks[0] @ other[self.paired].T
        return products

    def norms(self, blocks: Array) -> Array:
        """Lengths of the vectors."""
        squares = np.einsum("ij,ij->i", blocks[0], blocks[self.paired])
        lengths: Array = np.sqrt(np.maximum(squares, 0.0))
        return lengths


class FeatureSpace(VectorSpace):
    """Vectors of features, and their products with both covariances."""

    depth, paired = 3, 0

    def __init__(self, C: GroupCovariance) -> None:
        self.C, self.size = C, C.shape[0]

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        self.C.products(z, out, groups)

    def lanczos_weights(self, weights: Array) -> Array:
        return weights

    def image(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        x: Array = blocks[0]
        return x

    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        vectors = run.leading(k)[None]
        if len(groups) == 1:
            return vectors
        return np.concatenate([vectors, run.leading_products(k)])

    def projected(self, blocks: Array, other: Array) -> Array:
        return np.array([blocks[0] @ products.T for products in other[1:]])

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        R: Array = blocks[0] * -values[:, None]
        for w, products in zip(weights, blocks[1:], strict=True):
            R += w * products
        return R[None]

    def expand(self, blocks: Array) -> Array:
        return np.ascontiguousarray(blocks[0].T)

    def _add_products(self, blocks: Array) -> None:
        for j, x in enumerate(blocks[0]):
            self.C.products(x, blocks[1:, j])


class SampleSpace(VectorSpace):
    """Combinations y of the rows, and products of ``x = Z^T y`` with the rows.

    Let D be diagonal: the weight of a row's group, divided by its number of rows. Then
    H(t) = Z^T D Z. Lanczos multiplies by D^(1/2) Z Z^T D^(1/2), which is symmetric and
    has the same nonzero eigenvalues. If z is an eigenvector of it, Z^T y is one of
    H(t), up to its length, with y = D^(1/2) z.
    """

    depth, paired = 2, 1

    def __init__(self, C: GroupCovariance, X: Any, codes: NDArray[np.int64]) -> None:
        self.C, self.size = C, X.shape[0]
        order, first = np.argsort(codes, kind="stable"), int(C.counts[0])
        # Sorted rows of the groups.
        self.slices: dict[Groups, slice] = {
            (0, 1): slice(0, self.size),
            (0,): slice(0, first),
            (1,): slice(first, self.size),
        }
        # Index of the centre that is subtracted from each row.
        self.centre = np.repeat(np.arange(2) % len(C.centres), C.counts)
        # The rows that multiply are followed by the centres: Z = rows - centres.
        rows, centres = sparse.csr_array(X), -sparse.csr_array(C.centres)
        self.rows = {
            groups: sparse.vstack([rows[order[part]], centres], format="csr")
            for groups, part in self.slices.items()
        }
        self.columns = {groups: rows.T for groups, rows in self.rows.items()}

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the product of Lanczos first, and last that with the rows."""
        scale, part = self._scale(groups, weights), self.slices[groups]
        out[-1] = 0.0
        out[-1, part] = self._gram(scale[part] * z[part], groups)
        np.multiply(scale, out[-1], out=out[0])

    def lanczos_weights(self, weights: Array) -> Array:
        first: Array = np.eye(len(weights))[0]
        return first

    def image(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        z: Array = blocks[1] * self._scale(groups, weights)
        return z

    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Blocks of the k leading Ritz vectors with eigenvalues above rounding."""
        values = run.values[:k]
        k = int(np.count_nonzero(values > 1e-14 * run.scale))
        lengths = np.sqrt(values[:k, None])
        y = run.leading(k) * (self._scale(groups, weights) / lengths)
        if len(groups) == 1:
            return self.complete(y[None])
        return np.array([y, run.leading_products(k)[1] / lengths])

    def projected(self, blocks: Array, other: Array) -> Array:
        parts = self.slices[0,], self.slices[1,]
        return np.array(
            [
                blocks[1, :, part] @ other[1, :, part].T / count
                for part, count in zip(parts, self.C.counts, strict=True)
            ]
        )

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        y = blocks[1] * np.repeat(weights / self.C.counts, self.C.counts)
        y -= values[:, None] * blocks[0]
        return self.complete(y[None])

    def expand(self, blocks: Array) -> Array:
        return np.asarray(self._features(blocks[0].T, (0, 1)))

    def _add_products(self, blocks: Array) -> None:
        blocks[1] = self._gram(blocks[0].T, (0, 1)).T

    def _scale(self, groups: Groups, weights: Array) -> Array:
        """Roots of D, for the groups; zero for other rows."""
        scale = np.zeros(self.size)
        for g, w in zip(groups, weights, strict=True):
            scale[self.slices[g,]] = np.sqrt(w / self.C.counts[g])
        return scale

    def _features(self, y: Array, groups: Groups) -> Array:
        """Z^T y, of rows of the groups; of one vector, or of several as columns."""
        centre = self.centre[self.slices[groups]]
        sums = [
            y[centre == c].sum(axis=0, keepdims=True)
            for c in range(len(self.C.centres))
        ]
        x: Array = self.columns[groups] @ np.concatenate([y, *sums])
        return x

    def _gram(self, y: Array, groups: Groups) -> Array:
        """Z Z^T y, of rows of the groups; of one vector, or of several as columns."""
        q = self.rows[groups] @ self._features(y, groups)
        m = len(y)
        product: Array = q[:m] + q[m:][self.centre[self.slices[groups]]]
        return product
