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

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.kernels import csr_add_matmat, csr_normal_product, csr_rows_transpose
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
        return np.sqrt(np.einsum("ij,ij->i", stack[0], stack[0]))

    def combined(self, stack: Array, weights: Array, values: Any = 0.0) -> Array:
        """Stack, or its first part, of ``(w_A C_A + w_B C_B) x - value x``."""
        R = stack[0] * -np.reshape(values, (-1, 1))
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
        self.order, first = np.argsort(codes, kind="stable"), int(C.counts[0])
        self.members = slice(0, first), slice(first, self.size)
        # What is subtracted from each row: the same centre, or its group's.
        self.centre = np.repeat(np.arange(2) % len(C.centres), C.counts)
        self.rows = sparse.vstack([X, -sparse.csr_array(C.centres)], format="csr")
        self._transposes: dict[Groups, tuple[_CSR, NDArray[np.int64]]] = {}

    def multiply(self, z: Array, out: Array, groups: Groups, weights: Array) -> None:
        """Write the product for Lanczos first, and last that with the rows."""
        scale = self._scale(groups, weights)
        self._gram(scale * z, groups, out[-1])
        np.multiply(scale, out[-1], out=out[0])

    def lanczos_weights(self, weights: Array) -> Array:
        """Weights of what `multiply` writes."""
        return np.eye(len(weights))[0]

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
        # Several vectors at once: each entry is read once for all of them.
        block = np.ascontiguousarray(self._with_sums(stack[0]).T)
        for Z in (self._transpose((0, 1))[0], self._sorted_rows):
            product = np.zeros((Z.indptr.size - 1, block.shape[1]))
            csr_add_matmat(*Z, Z.cuts(_CHUNKS), 1.0, block, product)
            block = product
        whole[1] = (block[len(self.C.centres) :] + block[self.centre]).T
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
        return np.sqrt(np.maximum(np.einsum("ij,ij->i", *stack), 0.0))

    def combined(self, stack: Array, weights: Array, values: Any = 0.0) -> Array:
        """Stack of ``(w_A C_A + w_B C_B) x - value x``."""
        y = stack[1] * np.repeat(weights / self.C.counts, self.C.counts)
        y -= np.reshape(values, (-1, 1)) * stack[0]
        return self.complete(y[None])

    def expand(self, stack: Array) -> Array:
        """Vectors of features, as columns."""
        z, n_centres = self._with_sums(stack[0]), len(self.C.centres)
        y = np.empty_like(z)
        y[:, self.order], y[:, self.size :] = z[:, n_centres:], z[:, :n_centres]
        return np.asarray(self.rows.T @ np.ascontiguousarray(y.T))

    def _scale(self, groups: Groups, weights: Array) -> Array:
        """Roots of D, for the groups; zero for other rows."""
        scale = np.zeros(self.size)
        for g, w in zip(groups, weights, strict=True):
            scale[self.members[g]] = np.sqrt(w / self.C.counts[g])
        return scale

    def _gram(self, y: Array, groups: Groups, out: Array) -> None:
        """Overwrite `out` with Z Z^T y; of rows of other groups nothing is meant."""
        (Z, bounds), z = self._transpose(groups), self._with_sums(y)
        partial = np.empty((len(bounds) - 1, z.size))
        csr_normal_product(*Z, bounds, 0.0, z, partial)
        total = partial.sum(axis=0)
        np.take(total, self.centre, out=out)
        out += total[len(self.C.centres) :]

    def _with_sums(self, y: Array) -> Array:
        """Weights of the centres, then of the rows; of one vector y, or of several."""
        ends = [0] if len(self.C.centres) == 1 else [0, self.members[1].start]
        return np.concatenate([np.add.reduceat(y, ends, axis=-1), y], axis=-1)

    def _transpose(self, groups: Groups) -> tuple[_CSR, NDArray[np.int64]]:
        """Z^T, of rows of the groups, and its chunks; its first columns are centres."""
        if groups not in self._transposes:
            X, n_centres = self.rows, len(self.C.centres)
            chosen = [self.size + np.arange(n_centres)]
            chosen += [self.order[self.members[g]] for g in groups]
            indptr, indices, data = csr_rows_transpose(
                X.indptr, X.indices, X.data, np.concatenate(chosen), X.shape[1]
            )
            indices[indices >= n_centres] += self.members[groups[0]].start
            # Features by length, of which a product with the rows knows no order: loops
            # are then predictable.
            lengths = np.diff(indptr)
            features = np.argsort(lengths, kind="stable")[np.sum(lengths == 0) :]
            shape = X.shape[1], n_centres + self.size
            Z = sparse.csr_array((data, indices, indptr), shape=shape)[features]
            indices = Z.indices.astype(np.uint32, copy=False)
            turned = _CSR(Z.indptr.astype(np.int64), indices, Z.data)
            n_chunks = min(_PARTIAL_SUMS, max(1, Z.nnz // (2 * self.size)))
            n_chunks = 2 ** (n_chunks.bit_length() - 1)
            self._transposes[groups] = turned, turned.cuts(n_chunks)
        return self._transposes[groups]

    @cached_property
    def _sorted_rows(self) -> _CSR:
        """Centres and rows, with features sorted as in their transpose."""
        Z, n_centres = self._transpose((0, 1))[0], len(self.C.centres)
        features = np.arange(Z.indptr.size - 1)
        return _CSR(*csr_rows_transpose(*Z, features, n_centres + self.size))


class _CSR(NamedTuple):
    """CSR arrays for products with one vector, or with several."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: Array

    def cuts(self, n_chunks: int) -> NDArray[np.int64]:
        """Cut the rows into chunks of about equal work."""
        # A row counts as one entry more than it has.
        work = self.indptr + np.arange(self.indptr.size)
        return np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1))
