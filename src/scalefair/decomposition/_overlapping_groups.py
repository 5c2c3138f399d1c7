"""Covariances of the groups of several attributes, which overlap."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalefair._groups import Attribute, combinations
from scalefair.operators import GroupCovariance, SymmetricBlockOperator
from scalefair.streaming import Parts

Array = NDArray[np.float64]


class OverlappingCovariance(SymmetricBlockOperator):
    """Weighted sum of the covariances of the groups of several attributes.

    Groups are unions of the combinations of attributes, whose covariances about the
    mean of all rows are added up; about its own mean that of a group is less by the
    outer product of the difference of both.
    """

    def __init__(self, X: Any, compared: Sequence[Attribute], centering: str) -> None:
        cells, is_member = _cells(compared)
        super().__init__(np.float64, X.shape[1])
        C = GroupCovariance(X, cells, np.ones(is_member.shape[1]))
        self._cells, self.gathers_rows, self.mean = C, C.gathers_rows, C.mean
        self.counts = is_member @ C.counts
        # C_g is the sum of those of its cells, weighted by their shares of its rows.
        self._shares = is_member * C.counts / self.counts[:, None]
        self.group_traces = self._shares @ C.group_traces
        self._offsets = self._shares @ (C.means - C.mean)
        if centering == "global":
            self._offsets = self._offsets[:0]
        else:
            self.group_traces -= (self._offsets**2).sum(axis=1)
        self.weights = np.full(len(is_member), 1 / len(is_member))

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


def _combined(
    first: NDArray[Any], sizes: list[int], *more: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return each row's combination of codes, and the codes of those that occur."""
    codes = [first, *more]
    row, cells = combinations(codes, sizes)
    return cells, np.column_stack([column[row] for column in codes])


def _table(combined: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[Any]:
    return combined[1]


def _relabelled(combined: tuple[Any, Any], labels: NDArray[Any]) -> NDArray[Any]:
    cells: NDArray[Any] = labels[combined[0]]
    return cells


def _cells(compared: Sequence[Attribute]) -> tuple[Any, NDArray[np.int64]]:
    """Return each row's combination, and 1 where a group (row) has it (column)."""
    sizes = [len(attribute.groups) for attribute in compared]
    first, *more = (attribute.codes for attribute in compared)
    cells: Any
    if isinstance(first, Parts):
        parts = first.map(_combined, sizes, each=more).persist()
        tables = parts.map(_table).gather()
        table, labels = np.unique(np.concatenate(tables), axis=0, return_inverse=True)
        # The combinations of all parts, and the labels of those of each part.
        cuts = np.cumsum([len(part) for part in tables])[:-1]
        part_labels = parts.like(np.split(labels.ravel(), cuts))
        cells = parts.map(_relabelled, each=[part_labels]).persist()
    else:
        cells, table = _combined(first, sizes, *more)
    is_member = [
        np.equal.outer(np.arange(size), column)
        for size, column in zip(sizes, table.T, strict=True)
    ]
    return cells, np.concatenate(is_member).astype(np.int64)
