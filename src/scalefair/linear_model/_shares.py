"""What is compared, and smoothed shares of scores above thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair.kernels import (
    bin_pass,
    family_moments,
    family_slopes,
    sigmoid_slopes,
    sigmoid_sums,
    weighted_row_sums,
)
from scalefair.linear_model._weights import Array, WeightLayout

# Most weights of rows that are formed at a time.
_WEIGHTS = 2**21


class Comparison:
    """Families of sets of cells: those of a family are compared with each other."""

    # Each family has thresholds of its own; in arrays for all sets, S of them, those
    # of a family come one after the other.

    def __init__(
        self,
        families: Sequence[NDArray[np.int64]],
        layout: WeightLayout,
        cell_sizes: NDArray[np.int64],
    ) -> None:
        self.sets = np.array(families, dtype=np.int64)  # (F, n_cells), -1 for none
        n_sets = self.sets.max(axis=1) + 1
        self.n_families, self.n_sets = len(n_sets), int(n_sets.sum())
        self.first = np.cumsum([0, *n_sets[:-1]])  # set of each family
        self.family = np.repeat(np.arange(len(n_sets)), n_sets)  # of each set
        self._layout = layout
        cells = np.repeat(np.arange(layout.n_groups), layout.cells_per_group)
        of_cell, row = layout.members[cells].tocoo().coords
        sizes, self._mixtures, self._spreads = [], [], []
        for family, n in zip(self.sets, n_sets, strict=True):
            (own,) = np.nonzero(family >= 0)
            size = np.bincount(family[own], cell_sizes[own], minlength=n)
            # A set's share above a threshold is that of its cells times theirs in it.
            shares = np.zeros(len(family))
            shares[own] = cell_sizes[own] / np.maximum(size, 1)[family[own]]
            at = family[own], own
            shape = int(n), len(family)
            self._mixtures.append(sparse.csr_array((shares[own], at), shape=shape))
            # Its gradient, in each row of weights, is that of the cells that have it.
            inside = family[of_cell] >= 0
            own, rows = of_cell[inside], row[inside]
            at = family[own] * layout.shape[0] + rows, own
            shape = int(n) * layout.shape[0], len(family)
            self._spreads.append(sparse.csr_array((shares[own], at), shape=shape))
            sizes.append(size)
        self.sizes = np.concatenate(sizes).astype(np.int64)  # rows of each set

    def split(self, values: Array) -> list[Array]:
        """Values of the sets of each family."""
        return np.split(values, self.first[1:])

    def of_cells(self, values: Sequence[Array]) -> Array:
        """Means over sets, (S, k), from those over cells, (n_cells, k) a family."""
        mixed = [own @ v for own, v in zip(self._mixtures, values, strict=True)]
        return np.concatenate(mixed)

    def cell_weights(self, weights: Array) -> list[Array]:
        """Adjoint of `of_cells`."""
        pairs = zip(self._mixtures, self.split(weights), strict=True)
        return [own.T @ w for own, w in pairs]

    def gradients(self, slopes: Sequence[Array]) -> Array:
        """Gradients (S, 2 P, n_weights + F P) of parts, the thresholds last.

        From those in the weights of each cell, (n_cells, 2 P, n + 1) a family.
        """
        n_cells, n_parts, n_columns = slopes[0].shape
        n, n_rows, half = self._layout.n_weights, self._layout.shape[0], n_parts // 2
        out = np.zeros((self.n_sets, n_parts, n + self.n_families * half))
        part = np.arange(n_parts)
        pairs = zip(self._spreads, slopes, self.split(out), strict=True)
        for family, (spread, own, found) in enumerate(pairs):
            rows = spread @ own.reshape(n_cells, -1)
            rows = rows.reshape(-1, n_rows, n_parts, n_columns).transpose(0, 2, 1, 3)
            found[:, :, :n] = rows.reshape(*found.shape[:2], n)
            # A higher threshold is a lower score.
            at = n + family * half + part % half
            found[:, part, at] = -found[:, :, n_columns - 1]
        return out


class Rows(NamedTuple):
    """Rows of a table with the codes of their cells."""

    table: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # see `row_table`
    codes: NDArray[np.int64]
    shape: tuple[int, int]  # cells, and features with the intercept
    shares: Array  # of a row in the mean of its cell, (G,)

    def weighted(self, weights: Array) -> Array:
        """Return sums of rows times each column of weights, for each cell."""
        return weighted_row_sums(self.table, self.codes, weights, self.shape)

    def added(self, weights: Array) -> Array:
        """Return sums of rows times one weight each, for each cell."""
        none = np.empty(0), 0.0, 1
        gradient, _, _ = bin_pass(
            self.table, self.codes, weights, weights, self.shape, *none
        )
        return gradient

    def part(self, start: int, stop: int) -> Rows:
        """Return the rows from start to stop."""
        indptr, indices, data = self.table
        if data.ndim == 2:
            data = data[start:stop]
        else:
            indptr = indptr[start : stop + 1]
        table = indptr, indices, data
        return self._replace(table=table, codes=self.codes[start:stop])


class Ramp:
    """Shares by ramps, which bend half of their width to both sides of theta."""

    # With x = h - theta the plus part is max(x + width / 2, 0) / width, the minus part
    # max(x - width / 2, 0) / width. Either corner is rounded where it is nearer than
    # c = `corner` * width by (u + c)^2 / (4 c).
    def __init__(self, theta: Array, width: float, corner: float) -> None:
        self.width = width
        self.corner = corner = corner * width
        self.n_powers = 2 if corner > 0 else 1  # of scores, times rows, in all sums
        # Near the thresholds squares of scores have the smallest rounding errors.
        self.centre = float(theta.mean()) if theta.size else 0.0
        shifted = theta - self.centre
        self.kinks = np.concatenate([shifted - width / 2, shifted + width / 2])
        self.lower = self.kinks - corner
        ends = np.concatenate([self.lower, self.kinks + corner])
        self.edges = np.sort(ends if corner > 0 else self.kinks)
        # Edges where the parts begin to bend and where they are straight again.
        self.begin, self.end = np.searchsorted(self.edges, ends).reshape(2, -1)

    def parts(self, moments: Array) -> Array:
        """Return sums of both parts over cells, from those above the edges."""
        straight = moments[:, self.end]
        total = straight[:, :, 1] - self.kinks * straight[:, :, 0]
        if self.corner > 0:
            # (h - lower)^2 / (4 corner) between the edges.
            n, h, hh = np.moveaxis(moments[:, self.begin] - straight, 2, 0)
            bent = hh - 2 * self.lower * h + self.lower**2 * n
            total += bent / (4 * self.corner)
        return total / self.width

    def slopes(self, sums: Array, shares: Array) -> Array:
        """Gradients (G, 2 P, n + 1) of the parts times the shares of their cells."""
        total = sums[:, self.end, 0]
        if self.corner > 0:
            bent = sums[:, self.begin] - sums[:, self.end]
            bent = bent[:, :, 1] - self.lower[:, None] * bent[:, :, 0]
            total += bent / (2 * self.corner)
        total *= shares[:, None, None] / self.width
        return total

    def lines(self, weights: Array) -> Array:
        """Return the derivative of weighted parts above each edge, (S, E, 2).

        A value at the centre and a slope, for weights (S, 2 P) of all members.
        """
        begin, end = np.eye(self.edges.size)[np.stack([self.begin, self.end])]
        weights = weights / self.width
        value, slope = weights @ end, np.zeros((len(weights), self.edges.size))
        if self.corner > 0:
            bend = weights / (2 * self.corner)
            slope = bend @ (begin - end)
            value -= (self.lower * bend) @ (begin - end)
        return np.cumsum(np.stack([value, slope], axis=2), axis=1)


class RampFamilies:
    """Shares of the sets of several families by ramps, without gradients of each."""

    def __init__(
        self,
        rows: Rows,
        scores: Array,
        compared: Comparison,
        thetas: Array,
        width: float,
        corner: float,
    ) -> None:
        self._rows, self._scores, self._compared = rows, scores, compared
        self._ramps = [Ramp(theta, width, corner) for theta in thetas]
        self._centres = np.array([ramp.centre for ramp in self._ramps])
        n_sets = int(np.bincount(compared.family).max())
        edges = np.array([ramp.edges for ramp in self._ramps])
        moments, self._places = family_moments(
            scores, rows.codes, compared.sets, n_sets, edges, self._centres
        )
        shares = compared.split(1.0 / np.maximum(compared.sizes, 1)[:, None])
        self._known = [
            (ramp, own[: len(share)], share)
            for ramp, own, share in zip(self._ramps, moments, shares, strict=True)
        ]
        self.parts = np.concatenate([r.parts(m) * share for r, m, share in self._known])

    def slopes(self) -> list[Array]:
        """Gradients for each family, (n_cells, 2 P, n + 1)."""
        (table, codes, shape, shares), found = self._rows, []
        none = np.zeros_like(self._scores)
        for ramp in self._ramps:
            bins = ramp.edges, ramp.centre, ramp.n_powers
            _, _, sums = bin_pass(table, codes, self._scores, none, shape, *bins)
            found.append(ramp.slopes(sums, shares))
        return found

    def combine(self, weights: Array) -> tuple[Array, Array]:
        """Weighted sums of gradients, (n_cells, n + 1), and of their ends, (F, 2 P)."""
        compared, (ramp, own, _) = self._compared, self._known[0]
        n_sets = int(np.bincount(compared.family).max())
        lines = np.zeros((compared.n_families, n_sets, ramp.edges.size, 2))
        sums = np.empty((compared.n_families, weights.shape[1]))
        for f, w in enumerate(compared.split(weights)):
            ramp, own, share = self._known[f]
            lines[f, : len(w)] = ramp.lines(w * share)
            in_score = ramp.slopes(own[:, :, : ramp.n_powers, None], share[:, 0])
            sums[f] = (w * in_score[:, :, 0]).sum(axis=0)
        slopes = family_slopes(
            *(self._scores, self._rows.codes, compared.sets),
            *(self._places, lines, self._centres),
        )
        return self._rows.added(slopes), sums


class SigmoidFamilies:
    """Shares of the sets of families by sigmoids."""

    def __init__(
        self,
        rows: Rows,
        scores: Array,
        compared: Comparison,
        thetas: Array,
        width: float,
    ) -> None:
        self._compared = compared
        self._of = [SigmoidShares(rows, scores, theta, width) for theta in thetas]
        self.parts = compared.of_cells([own.parts for own in self._of])

    def slopes(self) -> list[Array]:
        """Gradients for each family, (n_cells, 2 P, n + 1)."""
        return [own.slopes() for own in self._of]

    def combine(self, weights: Array) -> tuple[Array, Array]:
        """Weighted sums of gradients, (n_cells, n + 1), and of their ends, (F, 2 P)."""
        of_cells = zip(self._of, self._compared.cell_weights(weights), strict=True)
        rows, sums = zip(*(own.combine(w) for own, w in of_cells), strict=True)
        total: Array = sum(rows[1:], rows[0])
        return total, np.array(sums)


class SigmoidShares:
    """Shares by a sigmoid, from the scores; gradients take another pass."""

    def __init__(self, rows: Rows, scores: Array, theta: Array, width: float) -> None:
        self._rows = rows
        self._width = width
        self._scores = scores
        self._theta = theta
        sums = sigmoid_sums(scores, rows.codes, theta, width, rows.shape[0])
        self.parts, self._in_score = (s * rows.shares[:, None] for s in sums)

    def slopes(self) -> Array:
        """Gradients, (G, 2 P, n + 1)."""
        total = np.zeros((*self._rows.shape, self.parts.shape[1]))
        for part, slopes in self._blocks():
            total += part.weighted(slopes)
        total *= self._rows.shares[:, None, None]
        return np.ascontiguousarray(total.transpose(0, 2, 1))

    def combine(self, weights: Array) -> tuple[Array, Array]:
        """Return weighted sums of gradients, (G, n + 1), and of their ends, (2 P,)."""
        scaled = weights * self._rows.shares[:, None]
        total = np.zeros(self._rows.shape)
        for part, slopes in self._blocks():
            combined = np.einsum("ip,ip->i", slopes, scaled[part.codes])
            total += part.weighted(combined[:, None])[:, :, 0]
        return total, (weights * self._in_score).sum(axis=0)

    def _blocks(self) -> Iterator[tuple[Rows, Array]]:
        """Yield some rows, and the derivatives of all parts at their scores."""
        m = self._scores.shape[0]
        step = max(1, _WEIGHTS // max(self.parts.shape[1], 1))
        for start in range(0, m, step):
            stop = min(start + step, m)
            scores = self._scores[start:stop]
            slopes = sigmoid_slopes(scores, self._theta, self._width)
            yield self._rows.part(start, stop), slopes
