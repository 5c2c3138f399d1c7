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

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.linalg import ThickRestartLanczos
from scalefair.operators import GroupCovariance

Array = NDArray[np.float64]
Groups = tuple[int, ...]


def choose_space(
    C: GroupCovariance, X: Any, codes: NDArray[np.int64]
) -> FeatureSpace | SampleSpace:
    """Return the space whose vectors are shorter."""
    m, n = X.shape
    # The transposed rows, with two centres, have indices in int32.
    if m < n and X.nnz + 2 * n <= np.iinfo(np.int32).max:
        return SampleSpace(C, X, codes)
    return FeatureSpace(C)


class FeatureSpace:
    """Vectors of features, and their products with both covariances."""

    depth = 3

    def __init__(self, C: GroupCovariance) -> None:
        self.C, self.size = C, C.shape[0]

    def multiply(self, x: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the products of which Lanczos takes the weighted sum."""
        self.C.products(x, out, groups)

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of the products that `multiply` writes."""
        return weights

    def image(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        """Return the vectors of Lanczos for those of some blocks."""
        x: Array = blocks[0]
        return x

    def ritz_blocks(
        self, run: ThickRestartLanczos, k: int, groups: Groups, weights: Array
    ) -> Array:
        """Blocks, or the first only, of the k leading Ritz vectors."""
        vectors = run.leading(k)[None]
        if len(groups) == 1:
            return vectors
        return np.concatenate([vectors, run.leading_products(k)])

    def complete(self, blocks: Array) -> Array:
        """Return all blocks of the vectors in the first."""
        if len(blocks) == self.depth:
            return blocks
        complete = np.empty((self.depth, *blocks.shape[1:]))
        complete[0] = blocks[0]
        for j, x in enumerate(blocks[0]):
            self.C.products(x, complete[1:, j])
        return complete

    def inner(self, blocks: Array, other: Array) -> Array:
        """Inner products of vectors."""
        products: Array = blocks[0] @ other[0].T
        return products

    def projected(self, blocks: Array, other: Array) -> Array:
        """Inner products through both covariances."""
        return np.array([blocks[0] @ products.T for products in other[1:]])

    def norms(self, blocks: Array) -> Array:
        """Lengths of the vectors."""
        lengths: Array = np.sqrt(np.einsum("ij,ij->i", blocks[0], blocks[0]))
        return lengths

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        """Return the first block of ``(w_A C_A + w_B C_B) x - value x``."""
        R: Array = blocks[0] * -values[:, None]
        for w, products in zip(weights, blocks[1:], strict=True):
            R += w * products
        return R[None]

    def expand(self, blocks: Array) -> Array:
        """Vectors of features, as columns."""
        return np.ascontiguousarray(blocks[0].T)


class SampleSpace:
    """Combinations y of the rows, and products of ``x = Z^T y`` with the rows.

    Let D be diagonal: the weight of a row's group, divided by its number of rows. Then
    H(t) = Z^T D Z. Lanczos multiplies by D^(1/2) Z Z^T D^(1/2), which is symmetric and
    has the same nonzero eigenvalues. If z is an eigenvector of it, Z^T y is one of
    H(t), up to its length, with y = D^(1/2) z.
    """

    depth = 2

    def __init__(self, C: GroupCovariance, X: Any, codes: NDArray[np.int64]) -> None:
        self.C, self.size = C, X.shape[0]
        order, first = np.argsort(codes, kind="stable"), int(C.counts[0])
        self.members = slice(0, first), slice(first, self.size)
        # Index of the centre that is subtracted from each row.
        self.centre = np.repeat(np.arange(2) % len(C.centres), C.counts)
        rows, centres = sparse.csr_array(X), -sparse.csr_array(C.centres)
        self.rows = {
            groups: sparse.vstack([rows[order[part]], centres], format="csr")
            for groups, part in self._slices.items()
        }
        self.columns = {groups: rows.T for groups, rows in self.rows.items()}

    @property
    def _slices(self) -> dict[Groups, slice]:
        """Sorted rows of the groups."""
        return {
            (0, 1): slice(0, self.size),
            (0,): self.members[0],
            (1,): self.members[1],
        }

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the product of Lanczos first, and last that with the rows."""
        scale, part = self._scale(groups, weights), self._slices[groups]
        out[-1] = 0.0
        out[-1, part] = self._gram(scale[part] * z[part], groups)
        np.multiply(scale, out[-1], out=out[0])

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of the products that `multiply` writes."""
        first: Array = np.eye(len(weights))[0]
        return first

    def image(self, blocks: Array, groups: Groups, weights: Array) -> Array:
        """Return the vectors of Lanczos for those of some blocks, up to lengths."""
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

    def complete(self, blocks: Array) -> Array:
        """Return all blocks of the vectors in the first."""
        if len(blocks) == self.depth:
            return blocks
        complete = np.empty((self.depth, *blocks.shape[1:]))
        complete[0] = blocks[0]
        complete[1] = self._gram(blocks[0].T, (0, 1)).T
        return complete

    def inner(self, blocks: Array, other: Array) -> Array:
        """Inner products of vectors."""
        products: Array = blocks[0] @ other[1].T
        return products

    def projected(self, blocks: Array, other: Array) -> Array:
        """Inner products through both covariances."""
        return np.array(
            [
                blocks[1, :, part] @ other[1, :, part].T / count
                for part, count in zip(self.members, self.C.counts, strict=True)
            ]
        )

    def norms(self, blocks: Array) -> Array:
        """Lengths of the vectors."""
        lengths: Array = np.sqrt(np.maximum(np.einsum("ij,ij->i", *blocks), 0.0))
        return lengths

    def residuals(self, blocks: Array, weights: Array, values: Array) -> Array:
        """Return the blocks of ``(w_A C_A + w_B C_B) x - value x``."""
        y = blocks[1] * np.repeat(weights / self.C.counts, self.C.counts)
        y -= values[:, None] * blocks[0]
        return self.complete(y[None])

    def expand(self, blocks: Array) -> Array:
        """Vectors of features, as columns."""
        return np.asarray(self._features(blocks[0].T, (0, 1)))

    def _scale(self, groups: Groups, weights: Array) -> Array:
        """Roots of D, for the groups; zero for other rows."""
        scale = np.zeros(self.size)
        for g, w in zip(groups, weights, strict=True):
            scale[self.members[g]] = np.sqrt(w / self.C.counts[g])
        return scale

    def _features(self, y: Array, groups: Groups) -> Array:
        """Z^T y, of rows of the groups; of one vector, or of several as columns."""
        centre = self.centre[self._slices[groups]]
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
        product: Array = q[:m] + q[m:][self.centre[self._slices[groups]]]
        return product
