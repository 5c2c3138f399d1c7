"""Sets of rows that are compared, and smoothed rates of scores above thresholds.

The rows of a cell share their weights. A set, such as a group, is a union of cells, and
the sets of a family, such as the groups of an attribute, are compared with each other.
The rate of a set above a threshold is the mean of a ramp or a sigmoid over its rows,
which is a difference of two convex parts: the plus part less the minus part.

In shapes there are F families, S sets in all of them, n_cells cells, n features and P
thresholds of each family. So there are 2 P parts of a set: P plus parts come first.

All rates are evaluated at once, and there are two ways to their gradients. `slopes`
forms all of them: (n_cells, 2 P, n + 1) numbers a family. `combine` forms one weighted
sum of them, (n_cells, n + 1) numbers, from one weight for each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._membership import Cells
from scalefair.kernels import (
    bin_pass,
    family_moments,
    family_slopes,
    sigmoid_slopes,
    sigmoid_sums,
    weighted_row_sums,
)
from scalefair.linear_model._weights import Array, WeightLayout


class Comparison:
    """Families of sets of cells: those of a family are compared with each other.

    Such a family are the groups of an attribute, and a cell is a combination of groups.
    Each family has thresholds of its own. In arrays for all S sets those of a family
    follow each other.
    """

    def __init__(
        self, cells: Cells, layout: WeightLayout, cell_sizes: NDArray[Any]
    ) -> None:
        # 1. The sets, and the cells that they consist of. Sets are numbered in the
        # order of the families: those of family f start at first[f].
        self.cells, n_sets = cells, cells.n_sets
        self.sets = np.ascontiguousarray(cells.sets.T)  # (F, n_cells), -1 for none
        self.n_families, self.n_sets = len(n_sets), sum(n_sets)
        self.first = np.cumsum([0, *n_sets[:-1]])  # set of each family
        self.family = np.repeat(np.arange(len(n_sets)), n_sets)  # of each set
        self.sizes = cells.members @ cell_sizes  # rows of each set, or their weight
        self._layout = layout
        # 2. Rate of a set = sum over cells of (share of the set) * (rate of the cell).
        self._mixtures = [
            sparse.csr_array(mixture)
            for mixture in self.split(cells.shares(cell_sizes).toarray())
        ]
        self._adjoints = [sparse.csr_array(mixture.T) for mixture in self._mixtures]
        # 3. The gradient of a rate in a row of weights is the sum of those of the cells
        # that add this row to their weights, times their shares of the set. One matrix
        # for each family, (n_sets * n_rows, n_cells), takes gradients of cells there.
        # Pairs (cell, row of weights): the weights of a cell are sums of rows.
        groups = np.repeat(np.arange(layout.n_groups), layout.cells_per_group)
        pair_cell, pair_row = layout.members[groups].tocoo().coords
        self._spreads = []
        for family, mixture in zip(self.sets, self._mixtures, strict=True):
            inside = family[pair_cell] >= 0
            row_cells, rows = pair_cell[inside], pair_row[inside]
            shape = mixture.shape[0] * layout.shape[0], len(family)
            indices = family[row_cells] * layout.shape[0] + rows, row_cells
            shares = mixture.sum(axis=0)[row_cells]
            self._spreads.append(sparse.csr_array((shares, indices), shape=shape))

    def split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of the sets of each family."""
        return [values] if self.n_families == 1 else np.split(values, self.first[1:])

    def set_means(self, values: Sequence[Array]) -> Array:
        """Means over sets, (S, k), from those over cells, (n_cells, k) a family.

        Cells have values for each family, as each family has thresholds of its own.
        """
        pairs = zip(self._mixtures, values, strict=True)
        return np.concatenate([mixture @ v for mixture, v in pairs])

    def cell_weights(self, weights: Array) -> list[Array]:
        """Adjoint of `set_means`: weights (n_cells, k) a family from those of sets."""
        pairs = zip(self._adjoints, self.split(weights), strict=True)
        return [adjoint @ w for adjoint, w in pairs]

    def gradients(self, slopes: Sequence[Array]) -> Array:
        """Gradients (S, 2 P, n_weights + F P) of parts, the thresholds last.

        From those in the weights of each cell, (n_cells, 2 P, n + 1) a family.
        """
        n_cells, n_parts, n_columns = slopes[0].shape
        n, n_rows = self._layout.n_weights, self._layout.shape[0]
        n_thresholds, part = n_parts // 2, np.arange(n_parts)
        gradients = np.zeros((self.n_sets, n_parts, n + self.n_families * n_thresholds))
        # Each family fills its sets (a view), in the weights and its own thresholds.
        # The derivative of a set's part by another family's threshold stays 0.
        pairs = zip(self._spreads, slopes, self.split(gradients), strict=True)
        for family, (spread, cell_slopes, block) in enumerate(pairs):
            rows = spread @ cell_slopes.reshape(n_cells, -1)
            rows = rows.reshape(-1, n_rows, n_parts, n_columns).transpose(0, 2, 1, 3)
            block[:, :, :n] = rows.reshape(*block.shape[:2], n)
            # A higher threshold is a lower score, whose gradient is that in the shared
            # intercept. Plus and minus part p have the same threshold.
            threshold = n + family * n_thresholds + part % n_thresholds
            block[:, part, threshold] = -block[:, :, n_columns - 1]
        return gradients


def divisors(sizes: NDArray[Any]) -> Array:
    """Sizes to divide by: 1 of sets without rows, whose sums are 0."""
    return np.where(sizes > 0, sizes, 1.0)


class SmoothedRates(ABC):
    """Rates of the sets of all families at one point, as differences of convex parts.

    `parts`, (S, 2 P), are the plus parts, then the minus parts. Their difference is
    the smoothed rate of the set above the thresholds of its family. Parts are computed
    at once, gradients when they are asked for: a line search needs few of them.
    """

    compared: Comparison
    parts: Array

    @abstractmethod
    def slopes(self) -> list[Array]:
        """Gradients in the weights of cells, (n_cells, 2 P, n + 1) a family."""

    def combine(self, weights: Array) -> tuple[Array, Array]:
        """Weighted sums of gradients, for weights (S, 2 P) of the parts.

        Over all parts, (n_cells, n + 1); and the derivative of each in the score,
        (F, 2 P), summed over sets.
        """
        # From all gradients of the only family. Subclasses for several families weigh
        # the rows instead, and form no gradients. The derivative in the score is that
        # in the intercept, the last column.
        (slopes,), (weights,) = self.slopes(), self.compared.cell_weights(weights)
        rows = (weights[:, None] @ slopes)[:, 0]
        return rows, (weights * slopes[:, :, -1]).sum(axis=0)[None]


class CodedRows(NamedTuple):
    """Rows of a table, and their entries: which rows count for which cells.

    Of certain groups an entry is a row. Of probabilities of groups a row has an entry
    in the cell of each group that it may be of, with its probability as the weight.
    """

    table: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # see `row_table`
    codes: NDArray[np.int64]  # of entries
    shape: tuple[int, int]  # cells, and features with the intercept
    shares: Array  # of a row of weight 1 in the mean of its cell, (n_cells,)
    weights: Array | None  # of each entry, None if each counts once
    # Row of each entry, rising; None: entry i is row i. Cells then share their weights:
    # sums of rows that are for all of them are those of the first one.
    rows: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        indptr, _, data = self.table
        return len(data) if data.ndim == 2 else len(indptr) - 1

    def of_entries(self, values: Array) -> Array:
        """Return values of rows for each entry."""
        return values if self.rows is None else values[self.rows]

    def times_weights(self, values: Array) -> Array:
        """Return values of entries, (n, ...), times the entries' own weights."""
        if self.weights is None:
            return values
        return (values.T * self.weights).T

    def weighted_sums(self, weights: Array) -> Array:
        """Return sums of rows times each column of weights, for each cell.

        Weights are (n_entries, q) and the sums (n_cells, n + 1, q).
        """
        sums = [
            weighted_row_sums(self.table, codes, row_weights, shape)
            for codes, shape, row_weights in self._cell_passes(weights)
        ]
        return np.concatenate(sums) if len(sums) > 1 else sums[0]

    def sums_above(self, scores: Array, ramp: Ramp) -> Array:
        """Return sums above the edges, as `score_pass` does, for each cell."""
        no_slopes = np.zeros_like(scores)  # the pass forms a gradient, too: of no loss
        bins = ramp.edges, ramp.centre, ramp.n_powers
        sums = [
            bin_pass(self.table, codes, scores, no_slopes, shape, *bins, row_weights)[2]
            for codes, shape, row_weights in self._cell_passes(self.weights)
        ]
        return np.concatenate(sums) if len(sums) > 1 else sums[0]

    def weighted_sum(self, weights: Array) -> Array:
        """Return sums of rows times one weight for each entry, (n_cells, n + 1)."""
        codes = self.codes
        if self.rows is not None:
            # The cells share their weights: their sums are only ever added up. So the
            # weights of the entries of a row are added first, and go to cell 0.
            weights = np.bincount(self.rows, weights, self.n_rows).astype(np.float64)
            codes = np.zeros(self.n_rows, np.int64)
        no_bins = np.empty(0), 0.0, 1  # edges, centre and powers
        gradient, _, _ = bin_pass(
            self.table, codes, weights, weights, self.shape, *no_bins
        )
        return gradient

    def part(self, start: int, stop: int) -> CodedRows:
        """Return the entries from start to stop, and their rows, in views."""
        first, last, rows = start, stop, self.rows
        if rows is not None:  # they rise: entries in a row are of rows in a row
            first, last = rows[start], rows[stop - 1] + 1
            rows = rows[start:stop] - first
        indptr, indices, data = self.table
        if data.ndim == 2:
            data = data[first:last]
        else:
            indptr = indptr[first : last + 1]
        table = indptr, indices, data
        weights = None if self.weights is None else self.weights[start:stop]
        codes = self.codes[start:stop]
        return self._replace(table=table, codes=codes, weights=weights, rows=rows)

    def _cell_passes(self, weights: Array | None) -> Iterator[tuple[Any, Any, Any]]:
        """Yield codes of all rows, the shape of sums, and weights of all rows.

        One pass is for all cells where entries are rows. Of entries, for which None
        counts each once, a pass is for each cell: a row may be in several. Rows that
        are not in the cell have weight 0 there.
        """
        if self.rows is None:
            yield self.codes, self.shape, weights
            return
        codes = np.zeros(self.n_rows, np.int64)
        weights = np.ones(len(self.rows)) if weights is None else weights
        for cell in range(self.shape[0]):
            entries = np.flatnonzero(self.codes == cell)
            row_weights = np.zeros((self.n_rows, *weights.shape[1:]))
            row_weights[self.rows[entries]] = weights[entries]
            yield codes, (1, self.shape[1]), row_weights


class Ramp:
    """Rates by ramps, which rise from 0 to 1 over a width around theta."""

    # With x = h - theta, h the score, the plus part is max(x + width / 2, 0) / width
    # and the minus part max(x - width / 2, 0) / width: sigma_plus and sigma_minus of
    # the paper for width 1. Each is max(u, 0) / width with the distance u of h from its
    # kink. Where u is in [-c, c], c = `corner` * width, (u + c)^2 / (4 c) takes the
    # place of max(u, 0).
    # So sums of the parts follow from those of 1, h and h^2 above the edges, where
    # parts begin to bend or are straight again; gradients from sums of rows times 1 and
    # h. There are E = 2 P edges, with corners 4 P.
    def __init__(self, theta: Array, width: float, corner: float) -> None:
        self.width = width
        self.corner = corner = corner * width
        self.n_powers = 2 if corner > 0 else 1  # of scores, times rows, in all sums
        # Near the thresholds squares of scores have the smallest rounding errors.
        self.centre = float(theta.mean()) if theta.size else 0.0
        shifted = theta - self.centre
        # Kinks of the plus parts, then of the minus parts; all numbers less the centre.
        self.kinks = np.concatenate([shifted - width / 2, shifted + width / 2])
        self.lower = self.kinks - corner
        ends = np.concatenate([self.lower, self.kinks + corner])
        self.edges = np.sort(ends if corner > 0 else self.kinks)
        # Edges where the parts begin to bend and where they are straight again.
        self.begin, self.end = np.searchsorted(self.edges, ends).reshape(2, -1)

    def parts(self, moments: Array, shares: Array) -> Array:
        """Return sums of both parts over cells, times their shares, (n_cells, 2 P).

        From moments (n_cells, E, 3): sums of 1, h and h^2 above the edges.
        """
        # Sums over the rows above the corner of h - kink: the part is straight there.
        straight = moments[:, self.end]
        total = straight[:, :, 1] - self.kinks * straight[:, :, 0]
        if self.corner > 0:
            # (h - lower)^2 / (4 corner) between the edges.
            n, h, hh = np.moveaxis(moments[:, self.begin] - straight, 2, 0)
            bent = hh - 2 * self.lower * h + self.lower**2 * n
            total += bent / (4 * self.corner)
        return total / self.width * shares[:, None]

    def slopes(self, sums: Array, shares: Array) -> Array:
        """Gradients (n_cells, 2 P, n + 1) of the parts, times the cells' shares.

        From sums (n_cells, E, n_powers, n + 1) of rows above the edges.
        """
        # Derivatives of the parts in the score times the rows: 1 above the corner,
        # (h - lower) / (2 corner) within it.
        total = sums[:, self.end, 0]
        if self.corner > 0:
            bent = sums[:, self.begin] - sums[:, self.end]
            bent = bent[:, :, 1] - self.lower[:, None] * bent[:, :, 0]
            total += bent / (2 * self.corner)
        total *= shares[:, None, None] / self.width
        return total

    def derivative(self, weights: Array) -> Array:
        """Return the derivative of weighted parts above each edge, (S, E, 2).

        A value at the centre and a slope, for weights (S, 2 P) of the parts.
        """

        def add_at(edges: NDArray[np.int64], changes: Array) -> Array:
            """Add the change that each part makes, (S, 2 P), at its edge."""
            total = np.zeros((self.edges.size, len(changes)))
            np.add.at(total, edges, changes.T)
            return total.T

        # Each part changes the line at two edges: its slope where it begins to bend,
        # slope and value where it is straight again. The line is the sum of the
        # changes at the edges below.
        weights = weights / self.width
        # Without corners the derivative of a part jumps from 0 to 1 / width at its
        # kink. With them it rises from 0 at `lower` to that at the end of the corner.
        value = add_at(self.end, weights)
        slope = np.zeros_like(value)
        if self.corner > 0:
            bend = weights / (2 * self.corner)
            slope = add_at(self.begin, bend) - add_at(self.end, bend)
            bend = self.lower * bend
            value -= add_at(self.begin, bend) - add_at(self.end, bend)
        return np.cumsum(np.stack([value, slope], axis=2), axis=1)


class OneRampFamily(SmoothedRates):
    """Rates of one family by ramps, from sums over the rows above the edges.

    The pass over the rows that computes the loss has formed these sums: the gradients
    cost no other pass.
    """

    def __init__(
        self,
        compared: Comparison,
        ramp: Ramp,
        moments: Array,
        sums: Array,
        shares: Array,
    ) -> None:
        self.compared = compared
        self._ramp, self._sums, self._shares = ramp, sums, shares
        self.parts = compared.set_means([ramp.parts(moments, shares)])

    def slopes(self) -> list[Array]:
        return [self._ramp.slopes(self._sums, self._shares)]


class RampFamilies(SmoothedRates):
    """Rates of the sets of several families by ramps, without gradients of each.

    Sums of rows in the bins of each family would take a pass for each. Moments of the
    scores give the parts; `combine` takes one pass for all families.
    """

    def __init__(
        self,
        rows: CodedRows,
        scores: Array,
        compared: Comparison,
        thetas: Array,
        width: float,
        corner: float,
    ) -> None:
        self.compared = compared
        self._rows, self._scores = rows, scores
        self._entry_scores = rows.of_entries(scores)
        self._ramps = [Ramp(theta, width, corner) for theta in thetas]
        self._centres = np.array([ramp.centre for ramp in self._ramps])
        edges = np.array([ramp.edges for ramp in self._ramps])
        sizes = compared.split(compared.sizes)
        self._n_sets = max(map(len, sizes))
        moments, self._bins = family_moments(
            self._entry_scores,
            rows.codes,
            compared.sets,
            self._n_sets,
            edges,
            self._centres,
            rows.weights,
        )
        # Moments of the sets of each family, and the share of a row in their means.
        self._moments = [m[: len(n)] for m, n in zip(moments, sizes, strict=True)]
        self._shares = [1.0 / divisors(n) for n in sizes]
        parts = map(Ramp.parts, self._ramps, self._moments, self._shares)
        self.parts = np.concatenate(list(parts))

    def slopes(self) -> list[Array]:
        # A pass over the rows for each family: for the DC algorithm only.
        shares, rows = self._rows.shares, self._rows
        return [
            ramp.slopes(rows.sums_above(self._scores, ramp), shares)
            for ramp in self._ramps
        ]

    def combine(self, weights: Array) -> tuple[Array, Array]:
        # Step 1: the derivative of the weighted sum in the score, linear in each bin.
        # `in_score`, (F, 2 P), is that of each part, from the moments in its bins.
        n_families, n_edges = len(self._ramps), self._ramps[0].edges.size
        lines = np.zeros((n_families, self._n_sets, n_edges, 2))
        in_score = np.empty((n_families, weights.shape[1]))
        for f, w in enumerate(self.compared.split(weights)):
            ramp, share = self._ramps[f], self._shares[f]
            lines[f, : len(w)] = ramp.derivative(w * share[:, None])
            moments = self._moments[f][:, :, : ramp.n_powers, None]
            in_score[f] = (w * ramp.slopes(moments, share)[:, :, 0]).sum(axis=0)
        # Step 2: the value of this line at each entry, summed over families.
        entry_weights = family_slopes(
            self._entry_scores,
            self._rows.codes,
            self.compared.sets,
            self._bins,
            lines,
            self._centres,
        )
        # Step 3: the sums of the rows with these weights.
        return self._rows.weighted_sum(
            self._rows.times_weights(entry_weights)
        ), in_score


class SigmoidFamilies(SmoothedRates):
    """Rates of the sets of families by sigmoids; gradients take more passes.

    A sigmoid bends everywhere: no bins of scores give its sums. Example B.4 of the
    paper; for the convex parts see `scalefair.kernels._score_functions`.
    """

    def __init__(
        self,
        rows: CodedRows,
        scores: Array,
        compared: Comparison,
        thetas: Array,
        width: float,
    ) -> None:
        self.compared = compared
        self._rows, self._thetas, self._width = rows, thetas, width
        self._scores = rows.of_entries(scores)
        # Means over the cells, (n_cells, 2 P) a family, of the parts and of their
        # derivatives in the score.
        args = width, rows.shape[0], rows.weights
        sums = [
            sigmoid_sums(self._scores, rows.codes, theta, *args) for theta in thetas
        ]
        shares = rows.shares[:, None]
        self.parts = compared.set_means([parts * shares for parts, _ in sums])
        self._in_score = [derivatives * shares for _, derivatives in sums]

    def slopes(self) -> list[Array]:
        gradients = []
        for theta in self._thetas:
            # Sums of the rows times their derivatives, (n_cells, n + 1, 2 P).
            total = np.zeros((*self._rows.shape, self.parts.shape[1]))
            for block, derivatives in self._blocks(theta):
                total += block.weighted_sums(derivatives)
            total *= self._rows.shares[:, None, None]
            gradients.append(np.ascontiguousarray(total.transpose(0, 2, 1)))
        return gradients

    def combine(self, weights: Array) -> tuple[Array, Array]:
        # The derivative of the weighted sum in the score of each entry, then one sum of
        # the rows: derivatives of all parts are formed for a block of entries only.
        total, in_score = np.zeros(self._rows.shape), []
        cell_weights = self.compared.cell_weights(weights)
        for theta, w, cell_derivatives in zip(
            self._thetas, cell_weights, self._in_score, strict=True
        ):
            # One weight for each entry: its derivatives times those of its cell.
            scaled = w * self._rows.shares[:, None]
            entry_weights = [np.empty(0)]  # a part of a partition may have no rows
            for block, derivatives in self._blocks(theta):
                block_weights = scaled[block.codes]
                entry_weights.append(np.einsum("ip,ip->i", derivatives, block_weights))
            total += self._rows.weighted_sum(np.concatenate(entry_weights))
            in_score.append((w * cell_derivatives).sum(axis=0))
        return total, np.array(in_score)

    def _blocks(self, theta: Array) -> Iterator[tuple[CodedRows, Array]]:
        """Yield blocks of entries, and derivatives of all parts times their weights."""
        m = self._scores.shape[0]
        # Blocks of 16 MiB of derivatives.
        step = max(1, 2**21 // max(self.parts.shape[1], 1))
        for start in range(0, m, step):
            stop = min(start + step, m)
            derivatives = sigmoid_slopes(self._scores[start:stop], theta, self._width)
            block = self._rows.part(start, stop)
            yield block, block.times_weights(derivatives)
