"""Rows of a table, sparse or dense, whose codes divide them into parts.

`GroupCovariance` works on either class through the same four methods; what differs
is how the rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import refuse_entries
from scalefair._memory import array_bytes
from scalefair.kernels import (
    block_gram,
    block_subtract,
    csr_add_matmat,
    csr_rows_matmat,
    csr_rows_scatter,
    csr_rows_transpose,
    dense_rows_gram,
    dense_rows_matmat,
    dense_rows_moments,
    single_blas_thread,
)

__all__ = ["DenseRows", "Moments", "SparseRows"]

# Rows of a tile: their products with 30 vectors, 4 MB in float64, stay in the cache
# while the transpose gathers them at random. A third of the time at 100,000 rows.
_TILE_ROWS = 16384
# Parts of a tile that are shared among threads.
_CHUNKS = 64

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]


class DenseRows:
    """Dense rows, read in blocks: nothing of their size is allocated.

    Parameters
    ----------
    X : ndarray of shape (m, n)
        float32 or float64, any layout; may be memory-mapped.
    codes : ndarray of int, shape (m,)
    n_codes : int
    """

    def __init__(self, X: np.ndarray, codes: NDArray[np.int64], n_codes: int) -> None:
        self._X, self._codes, self._n_codes = X, codes, n_codes

    def __sizeof__(self) -> int:
        return array_bytes(vars(self))

    def astype(self, dtype: np.dtype) -> DenseRows:
        """Return the rows as they are: each block is converted where it is read."""
        return self

    def moments(self) -> Moments:
        """Means (G, n) and sums of squared distances to them (G,)."""
        _, means, scatter = dense_rows_moments(self._X, self._codes, self._n_codes)
        return _checked((means, scatter), self._X)

    def add_products(
        self,
        V: np.ndarray,
        centres: np.ndarray,
        coefficients: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Add ``coefficients[g] * Z_g.T @ Z_g @ V`` for every g to `out`.

        ``Z_g`` are the rows of code g less ``centres[g]``; `centres` of shape (1, n)
        are the same for all.
        """
        out += dense_rows_matmat(
            self._X, self._codes, self._per_code(centres), coefficients, V
        )

    def gram(self, V: np.ndarray, centres: np.ndarray) -> NDArray[np.float64]:
        """``(Z_g V)^T (Z_g V)`` for every g, shape (G, k, k)."""
        return dense_rows_gram(self._X, self._codes, self._per_code(centres), V)

    def _per_code(self, centres: np.ndarray) -> np.ndarray:
        shape = (self._n_codes, centres.shape[1])
        return np.ascontiguousarray(np.broadcast_to(centres, shape))


class _Tile(NamedTuple):
    """Some rows of one code, and the transpose of these rows in CSR format."""

    code: int
    rows: NDArray[np.int64]
    row_bounds: NDArray[np.int64]
    indptr: NDArray[np.integer[Any]]
    indices: NDArray[np.integer[Any]]
    data: np.ndarray
    bounds: NDArray[np.int64]


class SparseRows:
    """Sparse rows, with their transpose stored in tiles of rows of one code.

    Parameters
    ----------
    X : csr_array of shape (m, n)
        float32 or float64, int32 or int64 indices, duplicates summed.
    codes : ndarray of int, shape (m,)
    n_codes : int
    """

    def __init__(
        self, X: sparse.csr_array, codes: NDArray[np.int64], n_codes: int
    ) -> None:
        self._X, self._codes = X, codes
        self._parts: dict[bytes, tuple[sparse.csr_array, NDArray[np.int64]]] = {}
        self._counts = np.bincount(codes, minlength=n_codes)

    def __sizeof__(self) -> int:
        return array_bytes(vars(self))

    @cached_property
    def _tiles(self) -> list[_Tile]:
        order = np.argsort(self._codes, kind="stable")
        ends = np.cumsum(self._counts)
        return [
            self._tile(g, rows)
            for g, members in enumerate(np.split(order, ends[:-1]))
            for rows in np.split(members, range(0, members.size, self._tile_rows())[1:])
        ]

    def _tile_rows(self) -> int:
        """Rows of a tile, more where they hold fewer entries than a row pointer."""
        m, n = self._X.shape
        return max(_TILE_ROWS, min(int(m), int(n * m / max(self._X.nnz, 1))))

    def _tile(self, code: int, rows: NDArray[np.int64]) -> _Tile:
        X = self._X
        lengths = X.indptr[rows + 1] - X.indptr[rows]
        indptr, indices, data = csr_rows_transpose(
            X.indptr, X.indices, X.data, rows, X.shape[1]
        )
        return _Tile(
            code,
            rows,
            _equal_work(np.cumsum(lengths)),
            indptr,
            indices,
            data,
            _equal_work(indptr[1:]),
        )

    def astype(self, dtype: np.dtype) -> SparseRows:
        """Return the rows with entries no wider than `dtype`; indices are shared.

        float32 entries stay what they are: products convert them.
        """
        if self._X.dtype.itemsize <= dtype.itemsize:
            return self
        other = copy(self)
        other._X, other._parts = self._X.astype(dtype), {}
        other._tiles = [t._replace(data=t.data.astype(dtype)) for t in self._tiles]
        return other

    def moments(self) -> Moments:
        """Means (G, n) and sums of squared distances to them (G,)."""
        n = self._X.shape[1]
        means = np.zeros((self._counts.size, n))
        for tile in self._tiles:
            csr_add_matmat(
                tile.indptr,
                tile.indices,
                tile.data,
                tile.bounds,
                1.0,
                np.ones((tile.rows.size, 1)),
                means[tile.code].reshape(-1, 1),  # a view: the sums so far
            )
        means /= self._counts[:, None]
        scatter = np.zeros_like(means)
        for tile in self._tiles:
            csr_rows_scatter(
                tile.indptr,
                tile.data,
                tile.rows.size,
                means[tile.code],
                scatter[tile.code],
            )
        return _checked((means, scatter.sum(axis=1)), self._X)

    def add_products(
        self,
        V: np.ndarray,
        centres: np.ndarray,
        coefficients: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Add ``coefficients[g] * Z_g.T @ Z_g @ V`` for every g to `out`.

        ``Z_g`` are the rows of code g less ``centres[g]``; `centres` of shape (1, n)
        are the same for all.
        """
        if V.shape[1] == 1:  # SciPy's serial loop is faster for one vector
            self._add_product(V[:, 0], centres, coefficients, out[:, 0])
            return
        sums = np.zeros((centres.shape[0], V.shape[1]))
        for tile, Y, column_sums in self._products(V, centres, coefficients != 0):
            a = coefficients[tile.code]
            csr_add_matmat(tile.indptr, tile.indices, tile.data, tile.bounds, a, Y, out)
            sums[tile.code % len(sums)] += float(a) * column_sums
        # Where the centres are the means the sums are rounding errors, and no less
        # needed: the products above hold these errors times the centre.
        block_subtract(out, np.ascontiguousarray(centres.T), sums)

    def _add_product(
        self,
        v: np.ndarray,
        centres: np.ndarray,
        coefficients: np.ndarray,
        out: np.ndarray,
    ) -> None:
        X, code = self._part(coefficients != 0)
        centre = code % len(centres)
        y = X @ v
        with single_blas_thread():
            y -= (centres @ v)[centre]
            y *= coefficients[code]
            out += X.T @ y
            sums = np.bincount(centre, weights=y, minlength=len(centres))
            out -= (sums @ centres).astype(out.dtype)

    def _part(
        self, wanted: NDArray[np.bool_]
    ) -> tuple[sparse.csr_array, NDArray[np.int64]]:
        """Rows of the wanted codes, copied once, and their codes."""
        if wanted.all():
            return self._X, self._codes
        key = wanted.tobytes()
        if key not in self._parts:
            rows = np.flatnonzero(wanted[self._codes])
            self._parts[key] = self._X[rows], self._codes[rows]
        return self._parts[key]

    def gram(self, V: np.ndarray, centres: np.ndarray) -> NDArray[np.float64]:
        """``(Z_g V)^T (Z_g V)`` for every g, shape (G, k, k)."""
        grams = np.zeros((self._counts.size, V.shape[1], V.shape[1]))
        every = np.ones(self._counts.size, bool)
        for tile, Y, _ in self._products(V, centres, every):
            grams[tile.code] += block_gram(Y, Y)
        return grams

    def _products(
        self, V: np.ndarray, centres: np.ndarray, wanted: NDArray[np.bool_]
    ) -> Iterator[tuple[_Tile, np.ndarray, np.ndarray]]:
        """Tiles of the wanted codes, their centred products, and the column sums.

        The products are overwritten by those of the next tile.
        """
        offsets = block_gram(np.ascontiguousarray(centres.T), V).astype(V.dtype)
        longest = max(tile.rows.size for tile in self._tiles)
        products = np.empty((longest, V.shape[1]), V.dtype)
        for tile in self._tiles:
            if wanted[tile.code]:
                Y = products[: tile.rows.size]
                sums = csr_rows_matmat(
                    self._X.indptr,
                    self._X.indices,
                    self._X.data,
                    tile.rows,
                    tile.row_bounds,
                    V,
                    offsets[tile.code % len(offsets)],
                    Y,
                )
                yield tile, Y, sums


def _checked(moments: Moments, X: Any) -> Moments:
    """Return the moments of `X`; where they are not finite, say which entry it is."""
    if all(np.isfinite(values).all() for values in moments):
        return moments
    for start in range(0, X.shape[0], _TILE_ROWS):  # X may be larger than the memory
        block = X[start : start + _TILE_ROWS]
        if not np.isfinite(block.data if sparse.issparse(block) else block).all():
            refuse_entries(block, start)
    refuse_entries(X[:0], 0)  # every entry is finite: their squares are not


def _equal_work(ends: np.ndarray) -> NDArray[np.int64]:
    """Cuts of rows, given by where their entries end, into chunks of equal work.

    A row counts as one entry more than it has, so that empty ones are shared too.
    """
    work = ends + np.arange(1, ends.size + 1)
    inner = np.searchsorted(work, np.linspace(0, work[-1], _CHUNKS + 1)[1:-1])
    return np.concatenate([[0], inner, [ends.size]]).astype(np.int64)
