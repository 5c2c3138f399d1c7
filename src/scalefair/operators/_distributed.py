"""Rows in parts, divided by codes: products where the parts are, sums as a tree.

A product with an n x k block sends the block to the parts and adds up what they
return, n x k numbers each; the solver sees a sum and never a part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalefair._entries import judged_later
from scalefair.operators._coded_rows import DenseRows, Moments, SparseRows
from scalefair.streaming import PartitionedRows, Parts

__all__ = ["DistributedRows"]


class DistributedRows:
    """What `DenseRows` and `SparseRows` offer, for rows in parts.

    Parameters
    ----------
    rows : PartitionedRows
        The rows.
    codes : Parts
        Code of each row, cut alike.
    n_codes : int
        Number of codes. Not every part needs rows of each.
    """

    def __init__(self, rows: PartitionedRows, codes: Parts, n_codes: int) -> None:
        self._shape = n_codes, rows.shape[1]
        self._is_sparse, self._dtype = rows.is_sparse, rows.dtype
        self._parts = rows.map(_code_part, each=[codes]).persist()
        found = self._parts.map(_moments, n_codes).reduce(_merge)
        self.counts: NDArray[np.int64] = found.counts
        if not np.isfinite(found.scatter).all():
            raise ValueError(
                "The squared differences between the partitions of X overflow: rescale "
                "its features."
            )
        self._moments = found.means, found.scatter

    def astype(self, dtype: np.dtype) -> DistributedRows:
        """Return the rows with sparse entries no wider than `dtype`."""
        if not self._is_sparse or self._dtype.itemsize <= dtype.itemsize:
            return self
        other = object.__new__(DistributedRows)
        other.__dict__.update(self.__dict__, _dtype=dtype)
        other._parts = self._parts.map(_typed, dtype).persist()
        return other

    def moments(self) -> Moments:
        """Means (G, n) and sums of squared distances to them (G,)."""
        return self._moments

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
        out += self._parts.map(_product, V, centres, coefficients).reduce(_add)

    def gram(self, V: np.ndarray, centres: np.ndarray) -> NDArray[np.float64]:
        """``(Z_g V)^T (Z_g V)`` for every g, shape (G, k, k)."""
        grams = self._parts.map(_gram, V, centres, self._shape[0]).reduce(_add)
        return np.array(grams)  # what came from elsewhere may be read-only


class _CodedPart(NamedTuple):
    """The codes that occur in a part, and its rows by their places among these."""

    present: NDArray[np.int64]
    rows: DenseRows | SparseRows
    counts: NDArray[np.int64]

    def centres(self, centres: np.ndarray) -> np.ndarray:
        return centres if len(centres) == 1 else centres[self.present]


class _Moments(NamedTuple):
    """Counts (G,), means (G, n) and sums of squared distances to them (G,)."""

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]


def _code_part(X: Any, codes: NDArray[Any]) -> _CodedPart:
    present, local = np.unique(codes, return_inverse=True)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    rows = DenseRows if isinstance(X, np.ndarray) else SparseRows
    coded = rows(X, local.astype(np.int64, copy=False), len(present))
    coded.moments()  # to raise here, where the place of the part is known
    return _CodedPart(present.astype(np.int64), coded, np.bincount(local))


def _typed(part: _CodedPart, dtype: np.dtype) -> _CodedPart:
    return part._replace(rows=part.rows.astype(dtype))


def _moments(part: _CodedPart, n_codes: int) -> _Moments:
    means, scatter = part.rows.moments()
    found = _Moments(
        np.zeros(n_codes, np.int64),
        np.zeros((n_codes, means.shape[1])),
        np.zeros(n_codes),
    )
    for total, own in zip(found, (part.counts, means, scatter), strict=True):
        total[part.present] = own
    return found


def _merge(a: _Moments, b: _Moments) -> _Moments:
    """Chan, Golub & LeVeque (1983), equations (2.1)."""
    counts = a.counts + b.counts
    share = b.counts / np.maximum(counts, 1)
    offsets = b.means - a.means
    with judged_later():
        between = a.counts * share * (offsets**2).sum(axis=1)
    return _Moments(
        counts,
        a.means + share[:, None] * offsets,
        a.scatter + b.scatter + between,
    )


def _product(
    part: _CodedPart, V: np.ndarray, centres: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    out = np.zeros_like(V)
    own = coefficients[part.present]
    if own.any():
        part.rows.add_products(V, part.centres(centres), own, out)
    return out


def _gram(
    part: _CodedPart, V: np.ndarray, centres: np.ndarray, n_codes: int
) -> NDArray[np.float64]:
    grams = np.zeros((n_codes, V.shape[1], V.shape[1]))
    grams[part.present] = part.rows.gram(V, part.centres(centres))
    return grams


def _add(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    total: NDArray[Any] = a + b
    return total
