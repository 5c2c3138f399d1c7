"""Rows of a table, each with a code g from 0 to G - 1: dense, sparse, or in parts.

`GroupCovariance` uses these classes through five methods that all have; of sparse rows
it also takes the `normal_product` of one code with a vector. With Z_g the rows of code
g less ``centres[g]``, or less the only centre (``centres[g % len(centres)]``), the five
are

- `add_products`: add ``coefficients[g] * Z_g.T @ Z_g @ V`` for every g to a block;
- `gram`: ``(Z_g V)^T (Z_g V)`` for every g, shape (G, k, k);
- `moments`: counts, means and sums of squared distances to these (`Moments`);
- `astype`: the rows with stored entries no wider than a type; products convert them;
- `with_weights`: the rows with other weights.

With weights of the rows, products of Z_g with vectors are multiplied by them before Z_g
is applied again, and sums over rows are weighted: counts are sums of weights.

Rows in parts stay where they are: a product sends its block to the parts and adds up
their results.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import ignore_fp_warnings, real_type, refuse_entries
from scalefair._memory import array_bytes
from scalefair.kernels import (
    block_gram,
    block_subtract,
    csr_matmat,
    csr_normal_product,
    csr_rows_matmat,
    dense_rows_gram,
    dense_rows_matmat,
    first_means,
)
from scalefair.operators._base import Array, Block
from scalefair.streaming import PartitionedRows, Parts

# Rows of a tile: their products with 30 vectors, 4 MB in float64, stay in the cache
# while the transpose gathers them at random.
TILE_ROWS = 16384


class Moments(NamedTuple):
    """Of the rows of each code: their number, mean, and squared distances to it."""

    counts: NDArray[Any]  # (G,), or the sums of the weights
    means: Array  # (G, n)
    scatter: Array  # (G,): sums of squared distances


class DenseRows:
    """Dense rows of any layout, read in blocks: nothing of their size is allocated."""

    def __init__(
        self,
        X: np.ndarray,
        codes: NDArray[np.int64],
        n_codes: int,
        weights: Array | None,
    ) -> None:
        self._X, self._codes, self._n_codes, self._weights = X, codes, n_codes, weights

    def __sizeof__(self) -> int:
        return array_bytes(vars(self))

    def astype(self, dtype: np.dtype) -> DenseRows:
        return self  # each block is converted where it is read

    def with_weights(self, weights: Array) -> DenseRows:
        return DenseRows(self._X, self._codes, self._n_codes, weights)

    def moments(self) -> Moments:
        weights = self._weights
        counts = np.bincount(self._codes, weights, minlength=self._n_codes)
        # Rows are shifted by the mean of a few of them: a large mean costs no digits.
        shifts, _ = first_means(self._X, self._codes, self._n_codes, 16, weights)
        sums, squares = np.zeros_like(shifts), np.zeros(self._n_codes)
        step = max(64, 2**18 // self._X.shape[1])  # blocks that fit the cache
        with ignore_fp_warnings():
            for start in range(0, len(self._X), step):
                part = slice(start, start + step)
                codes = self._codes[part]
                Z = self._X[part] - shifts[codes]
                entries = np.ones(len(Z)) if weights is None else weights[part]
                members = sparse.csr_array(
                    (entries, (codes, np.arange(len(Z)))), shape=(self._n_codes, len(Z))
                )
                sums += members @ Z
                squares += members @ np.einsum("ij,ij->i", Z, Z)
            offsets = sums / np.where(counts > 0, counts, 1)[:, None]
            # sum |x - mean|^2 = sum |x - shift|^2 - m |mean - shift|^2
            scatter = squares - counts * (offsets**2).sum(axis=1)
            moments = Moments(counts, shifts + offsets, np.maximum(scatter, 0.0))
        return _checked(moments, self._X)

    def add_products(
        self, V: Block, centres: Block, coefficients: Block, out: Block
    ) -> None:
        centres = self._per_code(centres)
        out += dense_rows_matmat(
            self._X, self._codes, centres, coefficients, V, self._weights
        )

    def gram(self, V: Block, centres: Block) -> Array:
        return dense_rows_gram(
            self._X, self._codes, self._per_code(centres), V, self._weights
        )

    def _per_code(self, centres: np.ndarray) -> np.ndarray:
        shape = (self._n_codes, centres.shape[1])
        return np.ascontiguousarray(np.broadcast_to(centres, shape))


class _Tile(NamedTuple):
    """Some rows of one code, and the transpose of these rows in CSR format."""

    code: int
    rows: NDArray[np.int64]  # indices of the rows
    row_bounds: NDArray[np.int64]  # chunks of the rows, of equal work
    indptr: NDArray[np.integer[Any]]  # of the transpose, as all that follows
    indices: NDArray[np.integer[Any]]
    data: np.ndarray

    def add_product(self, a: float, Y: Block, out: Block) -> None:
        """Add the transpose times ``a * Y`` to `out`."""
        a, zero, one = np.array([a, 0, 1], out.dtype)
        csr_matmat(self.indptr, self.indices, self.data, Y, out, a, zero, one)


class _SortedRows(NamedTuple):
    """CSR arrays of the rows of one code, by length, and chunks of them."""

    rows: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    data: np.ndarray
    bounds: NDArray[np.int64]


class SparseRows:
    """CSR rows, and their transpose stored in tiles of rows of one code."""

    def __init__(
        self,
        X: sparse.csr_array,
        codes: NDArray[np.int64],
        n_codes: int,
        weights: Array | None,
    ) -> None:
        self._X, self._codes, self._weights = X, codes, weights
        self._by_length: dict[int, _SortedRows] = {}
        self._sorted_weights: dict[int, Array] = {}
        self._n_codes = n_codes

    def __sizeof__(self) -> int:
        return array_bytes(vars(self))

    @cached_property
    def _tiles(self) -> list[_Tile]:
        (m, n), tiles = self._X.shape, []
        # More rows where they hold fewer entries than a row pointer.
        step = max(TILE_ROWS, min(int(m), int(n * m / max(self._X.nnz, 1))))
        order = np.argsort(self._codes, kind="stable")
        sizes = np.bincount(self._codes, minlength=self._n_codes)
        for g, members in enumerate(np.split(order, np.cumsum(sizes)[:-1])):
            for start in range(0, members.size, step):
                rows = members[start : start + step]
                X = self._X[rows]
                T = X.T.tocsr()
                # A tile has fewer than 2**31 rows and entries: 32 bits suffice.
                indptr, indices = (
                    a.astype(np.int32, copy=False) for a in (T.indptr, T.indices)
                )
                bounds = _equal_work(X.indptr[1:])
                tiles.append(_Tile(g, rows, bounds, indptr, indices, T.data))
        return tiles

    def astype(self, dtype: np.dtype) -> SparseRows:
        if self._X.dtype.itemsize <= dtype.itemsize:
            return self
        # The sorted rows are made anew where they are needed; tiles are converted.
        other = copy(self)
        other._X = self._X.astype(dtype)
        other._by_length = {}
        other._tiles = [t._replace(data=t.data.astype(dtype)) for t in self._tiles]
        return other

    def with_weights(self, weights: Array) -> SparseRows:
        other = copy(self)  # shares the rows, sorted or in tiles
        other._weights, other._sorted_weights = weights, {}
        return other

    def moments(self) -> Moments:
        n, weights = self._X.shape[1], self._weights
        counts = np.bincount(self._codes, weights, minlength=self._n_codes)
        means = np.zeros((self._n_codes, n))
        for tile in self._tiles:
            sums = means[tile.code].reshape(-1, 1)  # a view
            units = np.ones(tile.rows.size) if weights is None else weights[tile.rows]
            tile.add_product(1.0, units[:, None], sums)
        means /= np.where(counts > 0, counts, 1)[:, None]
        # Squared distances to the means: of the stored entries of each column, and of
        # as many zeros as rows have no entry there.
        scatter = np.zeros(self._n_codes)
        with ignore_fp_warnings():
            for tile in self._tiles:
                mean, n_stored = means[tile.code], np.diff(tile.indptr)
                offsets = np.repeat(mean, n_stored)
                offsets -= tile.data
                if weights is None:
                    scatter[tile.code] += offsets @ offsets
                    scatter[tile.code] += (tile.rows.size - n_stored) @ mean**2
                    continue
                of_entries = weights[tile.rows][tile.indices]
                columns = np.repeat(np.arange(n), n_stored)
                stored = np.bincount(columns, of_entries, minlength=n)
                scatter[tile.code] += of_entries @ offsets**2
                zeros = np.maximum(weights[tile.rows].sum() - stored, 0.0)
                scatter[tile.code] += zeros @ mean**2
        return _checked(Moments(counts, means, scatter), self._X)

    def add_products(
        self, V: Block, centres: Block, coefficients: Block, out: Block
    ) -> None:
        # A vector: each row is read once, for both products. Blocks: tile by tile.
        if V.shape[1] == 1:
            v = V[:, 0].astype(np.float64)
            centres = centres.astype(np.float64, copy=False)
            for g in np.flatnonzero(coefficients).tolist():
                product = self.normal_product(v, centres[g % len(centres)], g)
                out[:, 0] += (coefficients[g] * product).astype(out.dtype)
            return
        sums = np.zeros((centres.shape[0], V.shape[1]))
        for tile, Y, column_sums in self._products(V, centres, coefficients != 0):
            a = coefficients[tile.code]
            if self._weights is not None:
                Y *= self._weights[tile.rows, None].astype(Y.dtype)
                column_sums = Y.sum(axis=0, dtype=np.float64)
            tile.add_product(a, Y, out)
            sums[tile.code % len(sums)] += float(a) * column_sums
        # Z_g^T Y = X_g^T Y - centre_g (1^T Y). If the centres are the means, the sums
        # 1^T Y are rounding errors. They are subtracted all the same: X_g^T Y contains
        # them, times the centre.
        block_subtract(out, np.ascontiguousarray(centres.T), sums)

    def normal_product(self, v: Array, centre: Array, code: int) -> Array:
        """``Z_g.T @ Z_g @ v`` of one code, reading each row once."""
        rows = self._sorted(code)
        if self._weights is not None and code not in self._sorted_weights:
            self._sorted_weights[code] = self._weights[rows.rows]
        weights = self._sorted_weights.get(code)
        partial = np.empty((rows.bounds.size - 1, v.size))
        csr = rows.indptr, rows.indices, rows.data, rows.bounds
        shift = float(centre @ v)
        sums = csr_normal_product(*csr, shift, v, partial, weights)
        product: Array = partial.sum(axis=0)
        product -= sums.sum() * centre
        return product

    def _sorted(self, code: int) -> _SortedRows:
        """Copy of the rows of a code, sorted by length: branches are then predicted."""
        if code not in self._by_length:
            rows, lengths = np.flatnonzero(self._codes == code), np.diff(self._X.indptr)
            rows = rows[np.argsort(lengths[rows], kind="stable")]
            X = self._X[rows]
            # A power of two up to 8: each chunk has a vector of partial sums, which
            # should be cheap to add next to the entries.
            n_chunks = min(8, max(1, X.nnz // (2 * X.shape[1])))
            n_chunks = 2 ** (n_chunks.bit_length() - 1)
            self._by_length[code] = _SortedRows(
                rows,
                X.indptr.astype(np.int64, copy=False),
                X.indices.astype(np.uint32, copy=False),
                X.data,
                _equal_work(X.indptr[1:], n_chunks),
            )
        return self._by_length[code]

    def gram(self, V: Block, centres: Block) -> Array:
        grams = np.zeros((self._n_codes, V.shape[1], V.shape[1]))
        selected = np.ones(self._n_codes, bool)
        for tile, Y, _ in self._products(V, centres, selected):
            if self._weights is not None:
                Y *= np.sqrt(self._weights[tile.rows, None]).astype(Y.dtype)
            grams[tile.code] += block_gram(Y, Y)
        return grams

    def _products(
        self, V: Block, centres: Block, selected: NDArray[np.bool_]
    ) -> Iterator[tuple[_Tile, np.ndarray, np.ndarray]]:
        """Yield tiles of selected codes, their centred products, and column sums.

        The products are valid until the next tile, and may be overwritten.
        """
        X = self._X
        offsets = block_gram(np.ascontiguousarray(centres.T), V).astype(V.dtype)
        longest = max(tile.rows.size for tile in self._tiles)
        products = np.empty((longest, V.shape[1]), V.dtype)
        for tile in self._tiles:
            if selected[tile.code]:
                Y = products[: tile.rows.size]
                shift = offsets[tile.code % len(offsets)]
                sums = csr_rows_matmat(
                    X.indptr, X.indices, X.data, tile.rows, tile.row_bounds, V, shift, Y
                )
                yield tile, Y, sums


def _checked(moments: Moments, X: Any) -> Moments:
    """Return the moments of `X`; raise and name the entry if they are not finite."""
    if all(np.isfinite(values).all() for values in moments):
        return moments
    for start in range(0, X.shape[0], TILE_ROWS):  # X may be larger than the memory
        block = X[start : start + TILE_ROWS]
        if not np.isfinite(block.data if sparse.issparse(block) else block).all():
            refuse_entries(block, start)
    refuse_entries(X[:0], 0)  # every entry is finite: their squares are not


def _equal_work(ends: np.ndarray, n_chunks: int = 64) -> NDArray[np.int64]:
    """Bounds of chunks of equal work, from where the entries of each row end.

    There are more chunks than threads, so that threads end at about the same time.
    """
    # A row counts as one entry more than it has, so that empty ones are shared too.
    work = ends + np.arange(1, ends.size + 1)
    inner = np.searchsorted(work, np.linspace(0, work[-1], n_chunks + 1)[1:-1])
    return np.concatenate([[0], inner, [ends.size]]).astype(np.int64)


class _CodedPart(NamedTuple):
    """The codes that occur in a part, and its rows with indices into these codes."""

    present: NDArray[np.int64]
    rows: DenseRows | SparseRows

    def centres(self, centres: np.ndarray) -> np.ndarray:
        return centres if len(centres) == 1 else centres[self.present]


class DistributedRows:
    """Rows in parts, with codes that are cut alike; a part need not have every code."""

    def __init__(
        self, rows: PartitionedRows, codes: Parts, n_codes: int, weights: Parts | None
    ) -> None:
        self._n_codes = n_codes
        self._is_sparse, self._dtype = rows.is_sparse, np.dtype(real_type(rows.dtype))
        self._cuts = rows.starts[1:]  # where columns of all rows are cut
        # Each part takes its codes, and weights, and answers the products.
        columns = [codes] if weights is None else [codes, weights]
        self._parts = rows.map(_code_part, aligned=columns).persist()

    def with_weights(self, weights: Array) -> DistributedRows:
        other = copy(self)
        aligned = [self._parts.like(np.split(weights, self._cuts))]
        other._parts = self._parts.map(_weighted, aligned=aligned).persist()
        return other

    def astype(self, dtype: np.dtype) -> DistributedRows:
        if not self._is_sparse or self._dtype.itemsize <= dtype.itemsize:
            return self
        other = copy(self)
        other._dtype = dtype
        other._parts = self._parts.map(_typed, dtype).persist()
        return other

    def moments(self) -> Moments:
        merged: Moments = self._parts.map(_moments, self._n_codes).reduce(_merge)
        if not np.isfinite(merged.scatter).all():
            raise ValueError(
                "The squared differences between the partitions of X overflow: rescale "
                "its features."
            )
        return merged

    def add_products(
        self, V: Block, centres: Block, coefficients: Block, out: Block
    ) -> None:
        out += self._parts.map(_product, V, centres, coefficients).reduce(add)

    def gram(self, V: Block, centres: Block) -> Array:
        grams = self._parts.map(_gram, V, centres, self._n_codes).reduce(add)
        return np.array(grams)  # arrays from other processes may be read-only


def _code_part(X: Any, codes: NDArray[Any], weights: Array | None = None) -> _CodedPart:
    """Take a part's rows, codes and weights; find its moments, which check the rows."""
    present, local = np.unique(codes, return_inverse=True)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    rows = DenseRows if isinstance(X, np.ndarray) else SparseRows
    coded = rows(X, local.astype(np.int64, copy=False), len(present), weights)
    coded.moments()  # raises here, where errors name the part
    return _CodedPart(present.astype(np.int64), coded)


def _typed(part: _CodedPart, dtype: np.dtype) -> _CodedPart:
    """Part with stored entries of a type."""
    return part._replace(rows=part.rows.astype(dtype))


def _weighted(part: _CodedPart, weights: Array) -> _CodedPart:
    """Part whose rows have other weights."""
    return part._replace(rows=part.rows.with_weights(weights))


def _moments(part: _CodedPart, n_codes: int) -> Moments:
    """Moments of a part, with zeros for the codes that it lacks."""
    moments = part.rows.moments()
    zeros = [np.zeros((n_codes, *x.shape[1:]), x.dtype) for x in moments]
    for total, values in zip(zeros, moments, strict=True):
        total[part.present] = values
    return Moments(*zeros)


def _merge(a: Moments, b: Moments) -> Moments:
    """Chan, Golub & LeVeque (1983), equations (2.1)."""
    counts = a.counts + b.counts
    share = b.counts / np.where(counts > 0, counts, 1)
    offsets = b.means - a.means
    with ignore_fp_warnings():
        between = a.counts * share * (offsets**2).sum(axis=1)
    means = a.means + share[:, None] * offsets
    return Moments(counts, means, a.scatter + b.scatter + between)


def _product(part: _CodedPart, V: Block, centres: Block, coefficients: Block) -> Block:
    """Sum of ``coefficients[g] * Z_g.T @ Z_g @ V`` over the rows of a part."""
    out = np.zeros_like(V)
    coefficients = coefficients[part.present]
    if coefficients.any():
        part.rows.add_products(V, part.centres(centres), coefficients, out)
    return out


def _gram(part: _CodedPart, V: Block, centres: Block, n_codes: int) -> Array:
    """``(Z_g V)^T (Z_g V)`` of the rows of a part, for all codes."""
    grams = np.zeros((n_codes, V.shape[1], V.shape[1]))
    grams[part.present] = part.rows.gram(V, part.centres(centres))
    return grams
