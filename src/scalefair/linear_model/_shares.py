"""Smoothed shares of scores above thresholds, and their gradients.

The share of a group above a threshold is the mean of a smooth step of its scores
less the threshold. A step is the difference of two convex functions, its plus and
its minus part; all results list the plus parts of all thresholds, then the minus
parts. Gradients are those in the coefficients of the group, intercept last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from scalefair.kernels import sigmoid_slopes, sigmoid_sums, weighted_row_sums

__all__ = ["Ramp", "RampShares", "Rows", "Shares", "SigmoidShares"]

_Array = NDArray[np.float64]
# See `row_table`.
_Table = tuple[
    NDArray[np.integer[Any]], NDArray[np.integer[Any]], NDArray[np.floating[Any]]
]

# Most weights of rows that are formed at a time.
_WEIGHTS = 2**21


class Rows(NamedTuple):
    """Rows of a table with the codes of their groups."""

    table: _Table
    codes: NDArray[np.int64]
    shape: tuple[int, int]  # groups, and features with the intercept
    shares: _Array  # of a row in the mean of its group, (G,)

    def weighted(self, weights: _Array) -> _Array:
        """Return sums of rows times each column of weights, for each group."""
        return weighted_row_sums(self.table, self.codes, weights, self.shape)

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from start to stop."""
        indptr, indices, data = self.table
        if data.ndim == 2:
            data = data[start:stop]
        else:
            indptr = indptr[start : stop + 1]
        table = indptr, indices, data
        return self._replace(table=table, codes=self.codes[start:stop])


class Shares(Protocol):
    """Shares at one point."""

    values: _Array  # (G, 2 P)

    def slopes(self) -> _Array:
        """Gradients, (G, 2 P, n + 1)."""


class Ramp:
    """Ramps at thresholds: where they bend.

    With ``x = (h - theta) / width`` the plus part is ``max(x + 1/2, 0)`` and the
    minus part ``max(x - 1/2, 0)``. Either corner is rounded where it is nearer
    than ``corner`` by ``(u + corner)^2 / (4 corner)``.
    """

    def __init__(self, theta: _Array, width: float, corner: float) -> None:
        self.width = width
        self.corner = corner
        # Near the thresholds squares of scores have the smallest rounding errors.
        self.centre = float(theta.mean()) if theta.size else 0.0
        shifted = theta - self.centre
        self.kinks = np.concatenate([shifted - width / 2, shifted + width / 2])
        if corner > 0:
            reach = corner * width
            self.lower = self.kinks - reach
            ends = np.concatenate([self.lower, self.kinks + reach])
        else:
            self.lower = ends = self.kinks
        self.edges = np.sort(ends)
        # Edges where the parts begin to bend and where they are straight again.
        self.begin, self.end = np.searchsorted(
            self.edges, ends if corner > 0 else [ends, ends]
        ).reshape(2, -1)

    @property
    def n_powers(self) -> int:
        """Powers of the scores that rows are multiplied by, in all sums."""
        return 2 if self.corner > 0 else 1


class RampShares:
    """Shares by a ramp, from sums over the rows above its edges."""

    def __init__(self, ramp: Ramp, moments: _Array, sums: _Array, rows: Rows) -> None:
        self._ramp = ramp
        self._sums = sums
        self._scale = rows.shares / ramp.width
        straight = moments[:, ramp.end]
        total = straight[:, :, 1] - ramp.kinks * straight[:, :, 0]
        if ramp.corner > 0:
            # (h - lower)^2 / (4 corner width) between the edges.
            n, h, hh = np.moveaxis(moments[:, ramp.begin] - straight, 2, 0)
            bent = hh - 2 * ramp.lower * h + ramp.lower**2 * n
            total += bent / (4 * ramp.corner * ramp.width)
        self.values = total * self._scale[:, None]

    def slopes(self) -> _Array:
        """Gradients, (G, 2 P, n + 1)."""
        ramp = self._ramp
        total = self._sums[:, ramp.end, 0]
        if ramp.corner > 0:
            bent = self._sums[:, ramp.begin] - self._sums[:, ramp.end]
            bent = bent[:, :, 1] - ramp.lower[:, None] * bent[:, :, 0]
            total += bent / (2 * ramp.corner * ramp.width)
        total *= self._scale[:, None, None]
        return total


class SigmoidShares:
    """Shares by a sigmoid, from the scores; gradients take another pass."""

    def __init__(self, rows: Rows, scores: _Array, theta: _Array, width: float) -> None:
        self._rows = rows
        self._scores = scores
        self._theta = theta
        self._width = width
        n_groups = rows.shape[0]
        values, self._in_score = (
            sums * rows.shares[:, None]
            for sums in sigmoid_sums(scores, rows.codes, theta, width, n_groups)
        )
        self.values = values

    def slopes(self) -> _Array:
        """Gradients, (G, 2 P, n + 1)."""
        n_weights = self.values.shape[1]
        total = np.zeros((*self._rows.shape, n_weights))
        for part, slopes in self._parts():
            total += part.weighted(slopes)
        total *= self._rows.shares[:, None, None]
        return np.ascontiguousarray(total.transpose(0, 2, 1))

    def combine(self, weights: _Array) -> tuple[_Array, _Array]:
        """Return sums of gradients with weights (G, 2 P), cheaper than the gradients.

        Of all parts for each group, (G, n + 1), and of all groups for the last
        column of each part, (2 P,).
        """
        scaled = weights * self._rows.shares[:, None]
        total = np.zeros(self._rows.shape)
        for part, slopes in self._parts():
            combined = np.einsum("ip,ip->i", slopes, scaled[part.codes])
            total += part.weighted(combined[:, None])[:, :, 0]
        return total, (weights * self._in_score).sum(axis=0)

    def _parts(self) -> Iterator[tuple[Rows, _Array]]:
        """Yield some rows, and the derivatives of all parts at their scores."""
        m = self._scores.shape[0]
        step = max(1, _WEIGHTS // max(self.values.shape[1], 1))
        for start in range(0, m, step):
            stop = min(start + step, m)
            scores = self._scores[start:stop]
            slopes = sigmoid_slopes(scores, self._theta, self._width)
            yield self._rows.part(start, stop), slopes
