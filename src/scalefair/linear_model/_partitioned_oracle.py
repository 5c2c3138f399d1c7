"""Rows in parts: their oracle, and ranks of their scores.

Each part has an oracle of its rows, and the oracle of all adds up what these return: a
call sends w and theta to the parts, and sums of the size of gradients come back.
For ranks the scores are sorted where they are, once. From then on only cuts travel to
the parts, and the numbers of scores between two cuts, a bin, come back. Each search
splits the bins that its answer may lie in, until they are as narrow as it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from scalefair._membership import Cells
from scalefair.linear_model._oracle import (
    OracleValue,
    RowOracle,
    ScoreOracle,
    most_accurate_shift,
)
from scalefair.linear_model._shares import Comparison, SmoothedRates, divisors
from scalefair.linear_model._weights import Array, WeightLayout
from scalefair.streaming import Parts


class PartitionedOracle(RowOracle):
    """The oracle of rows in parts; a part may lack cells, and has no units.

    Units are those of all rows. Parts take weights of the features as given, and their
    gradients are pulled back here.
    """

    def __init__(
        self,
        oracles: Parts,
        layout: WeightLayout,
        cell_sizes: NDArray[Any],
        families: Cells | None = None,
        totals: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(layout, cell_sizes, families, totals)
        self._oracles = oracles

    def without_interactions(self) -> Self:
        other = super().without_interactions()
        other._oracles = self._oracles.map(ScoreOracle.without_interactions)
        return other

    def scores(self, w: Array) -> Array:
        w = self.layout.rows(w).ravel()
        # One number for each row travels: only the unmixed gap asks for it.
        return np.concatenate(self._oracles.map(ScoreOracle.scores, w).gather())

    def ranked(self, w: Array) -> RankedScores:
        w = self.layout.rows(w).ravel()
        return RankedScores(self._oracles, self.compared, w)

    def quantiles(self, w: Array, shares: Array | list[float]) -> Array:
        return self.ranked(w).quantiles(shares)

    def evaluate(
        self, w: Array, theta: Array, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        self.n_calls += 1
        rows = self.layout.rows(w).ravel()
        point = rows, np.asarray(theta, np.float64), width, corner
        rates = PartitionedRates(self._oracles, self.compared, point, self.cell_sizes)
        gradient = rates.loss_gradient.reshape(-1, self.n_features + 1)
        gradient = self.layout.units.pull_back(gradient).ravel() / self.total
        loss, concave_gradient = rates.loss / self.total, np.zeros(self.n_weights)
        return OracleValue(self.layout, rates, loss, gradient, 0.0, concave_gradient)


class PartitionedRates(SmoothedRates):
    """Rates of rows in parts, from sums over the parts at one point.

    Of one family the gradients come with the values; of several, and of entries, they
    take more passes.
    """

    def __init__(
        self,
        oracles: Parts,
        compared: Comparison,
        point: tuple[Array, Array, float, float],
        cell_sizes: NDArray[Any],
    ) -> None:
        self.compared = compared
        self._oracles, self._point = oracles, point
        self._cell_sizes = divisors(cell_sizes)[:, None, None]
        self._set_sizes = divisors(compared.sizes)[:, None]
        # Sums over all rows of the loss, of its gradient, and of the parts over each
        # set; of one family those of the parts' gradients over each cell, else none.
        # Sums add up; means do not, as parts have different numbers of rows of a cell.
        self.loss, self.loss_gradient, parts, *slopes = self._sum(_value_sums)
        self.parts = parts / self._set_sizes
        self._slope_sums = slopes

    def slopes(self) -> list[Array]:
        sums = self._slope_sums or self._sum(_slope_sums)
        return [family / self._cell_sizes for family in sums]

    def combine(self, weights: Array) -> tuple[Array, Array]:
        if self._slope_sums:  # all gradients are here
            return super().combine(weights)
        rows, in_score = self._sum(_weighted_sums, weights / self._set_sizes)
        return rows, in_score

    def _sum(self, function: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
        """Add up lists of sums that a function returns for each part."""
        sums = self._oracles.map(function, *self._point, *arguments)
        total: list[Any] = sums.reduce(_add_pairwise)
        return total


def _value_sums(oracle: ScoreOracle, *point: Any) -> list[Any]:
    """Return sums of the loss, its gradient, parts, and slopes if of one family."""
    # A part's oracle gives means over its rows, sets and cells: times their sizes.
    value, m = oracle.evaluate(*point), oracle.total
    parts = value.rates.parts * oracle.compared.sizes[:, None]
    sums = [value.loss * m, value.loss_gradient * m, parts]
    if oracle.compared.n_families == 1 and not oracle.has_entries:
        sums += _cell_sums(oracle, value)
    return sums


def _slope_sums(oracle: ScoreOracle, *point: Any) -> list[Array]:
    """Return sums of slopes for each family."""
    return _cell_sums(oracle, oracle.evaluate(*point))


def _cell_sums(oracle: ScoreOracle, value: OracleValue) -> list[Array]:
    """Return sums over the cells from means over them, for each family."""
    sizes = oracle.cell_sizes[:, None, None]
    return [family * sizes for family in value.rates.slopes()]


def _weighted_sums(oracle: ScoreOracle, *arguments: Any) -> list[Array]:
    """Return weighted sums of the slopes, and of their derivatives in the score.

    Arguments are a point, and weights of the sums over sets.
    """
    *point, weights = arguments
    # The oracle of the part has means over its sets: weigh them by their sizes.
    rates = oracle.evaluate(*point).rates
    return list(rates.combine(weights * oracle.compared.sizes[:, None]))


def _add_pairwise(a: list[Any], b: list[Any]) -> list[Any]:
    """Add the sums of two parts."""
    return [first + second for first, second in zip(a, b, strict=True)]


class RankedScores:
    """Scores of rows in parts, which stay there: what travels does not grow with them.

    Results are those of rows in memory but for 1e-6 of the ranks, ties for 1e-3. Each
    search is branch and bound: ends of bins give a value, and bins that cannot hold a
    better one are not split.
    """

    def __init__(self, oracles: Parts, compared: Comparison, rows: Array) -> None:
        # `rows` are the rows of weights of the features as given.
        self._oracles, self._compared, self._rows = oracles, compared, rows

    def _sorted(self, by_label: bool = False, cuts: tuple[float, ...] = ()) -> _Bins:
        """Sort the scores of each cell, or label, and count them between some cuts."""
        return _Bins(self._oracles.map(_sort, self._rows, by_label).keep(), cuts)

    def gap(self, interval: tuple[float, float], threshold: float | None) -> float:
        """Return the largest gap of A_k at any threshold, or at one."""
        bins = self._sorted(cuts=() if threshold is None else (threshold,))
        while True:
            # 1. The gap at the lower end of each bin: A_k is the share of set k with
            # scores above it, cut to the interval.
            shares, first = self._shares(bins, interval), self._compared.first
            highest = np.maximum.reduceat(shares, first)
            lowest = np.minimum.reduceat(shares, first)
            gaps = (highest - lowest).max(axis=0)
            if threshold is not None:
                return float(gaps[np.searchsorted(bins.high, threshold, side="right")])
            # 2. Within a bin shares fall, from that at its lower to that at its upper
            # end. So a gap in it is at most the highest share at the one less the
            # lowest share at the other. Bins with a larger bound are split.
            bounds = (highest[:, :-1] - lowest[:, 1:]).max(axis=0)
            if not bins.split(bounds > gaps.max() + 1e-6):
                return float(gaps.max())

    def quantiles(self, shares: Array | list[float]) -> Array:
        """Return the least scores that shares of the rows do not exceed."""
        bins = self._sorted(by_label=True)
        while True:
            # A quantile is in the first bin that, with those below, has its share of
            # the rows. Such bins are split until they have a millionth of the rows.
            sizes = bins.counts.sum(axis=0)
            below = sizes.cumsum()
            chosen = np.searchsorted(below[:-1], np.multiply(shares, below[-1]))
            is_chosen = np.isin(np.arange(sizes.size), chosen)
            if not bins.split(is_chosen & (sizes > 1e-6 * below[-1])):
                return np.asarray(bins.high[chosen])

    def most_accurate_shift(self) -> float:
        """Return the shift of `most_accurate_shift`, to 2e-4 of the ranks."""
        bins = self._sorted(by_label=True)
        while True:
            # 1. The shift for bins in place of rows: each has its highest score and the
            # mean of its signs.
            sizes = bins.counts.sum(axis=0)
            signs = (bins.counts[1] - bins.counts[0]) / sizes
            shift = most_accurate_shift(bins.high, signs, sizes)
            # 2. Split large bins; when there are none, those next to the best cut.
            sizes /= sizes.sum()
            distance = np.arange(sizes.size) - np.searchsorted(bins.high, -shift)
            if not (
                bins.split(sizes > 2e-4)
                or bins.split((abs(distance) <= 1) & (sizes > 1e-6))
            ):
                return shift

    def largest_tie(self, interval: tuple[float, float]) -> float:
        """Return the largest share of a set within the interval with one score."""
        bins = self._sorted()
        while True:
            # The share of a bin bounds that of one score, and equals it if the bin has
            # one. Bins that may hide a larger share are split.
            shares = -np.diff(self._shares(bins, interval)).min(axis=0)
            tie = float(shares[bins.low == bins.high].max(initial=0.0))
            if not bins.split(shares > max(tie, 1e-3)):
                return tie

    def _shares(self, bins: _Bins, interval: tuple[float, float]) -> Array:
        """A_k of all sets above the lower end of each bin, and above the last.

        (S, n_bins + 1), from 1 down to 0.
        """
        low, high = interval
        # Bins rise, rates are summed from the highest bin on: reverse, add up, reverse.
        sums = (self._compared.cells.members @ bins.counts)[:, ::-1].cumsum(axis=1)
        rates = np.pad(sums / sums[:, -1:], ((0, 0), (1, 0)))[:, ::-1]
        return np.asarray((np.clip(rates, low, high) - low) / (high - low))


class _Bins:
    """Weight of each code's scores in bins, which can be split.

    Parts are, for each code, the sorted scores and their weight up to each, None if
    each counts once. `counts` has shape (n_codes, n_bins). Bins rise; `low` and `high`
    are the smallest and the largest score in each. So a bin with one score is known by
    equal ends, and is never split.
    """

    def __init__(self, parts: Parts, cuts: tuple[float, ...]) -> None:
        self._parts = parts
        # A bin has the scores above the cut before and up to its own; none is empty.
        self.counts, self.low, self.high = self._count(np.array([*cuts, np.inf]))

    def _count(self, cuts: Array) -> Any:
        """Return counts, and both ends, of the bins between cuts that have scores."""
        counts, low, high = self._parts.map(_counts, cuts).reduce(_merge_counts)
        is_full = low <= high
        return counts[:, is_full], low[is_full], high[is_full]

    def split(self, chosen: NDArray[np.bool_]) -> bool:
        """Split bins of several scores into some 512; return whether there are any."""
        chosen = chosen & (self.low < self.high)
        if not chosen.any():
            return False
        # 1. Cuts in equal steps; the lowest score comes off in any case. The upper ends
        # of the bins before bound the new bins from below.
        n_steps = max(512 // int(chosen.sum()), 2)
        steps = np.arange(n_steps) / n_steps
        low, high = self.low[chosen, None], self.high[chosen, None]
        inner = np.append(low * (1 - steps) + high * steps, high)
        cuts = np.union1d(inner, np.append(-np.inf, self.high[:-1])[chosen])
        new, old = self._count(cuts), (self.counts, self.low, self.high)
        # 2. Bins that end at such a bound hold what other bins have: leave them out.
        # The others replace the chosen bins.
        is_inner = np.isin(cuts[np.searchsorted(cuts, new[2])], inner)
        bins = [
            np.concatenate([a[..., ~chosen], b[..., is_inner]], axis=-1)
            for a, b in zip(old, new, strict=True)
        ]
        order = np.argsort(bins[2])
        self.counts, self.low, self.high = (a[..., order] for a in bins)
        return True


def _sort(oracle: Any, rows: Array, by_label: bool) -> list[tuple[Array, Array | None]]:
    """Return the sorted scores of a part's cells, or labels, and weights up to each.

    A list of both for each code. Scores of weight 0 are left out.
    """
    scores, codes, n_codes, weights = oracle.coded_scores(rows, by_label)
    if weights is not None:
        codes = np.where(weights > 0, codes, n_codes)  # left out
    parts = []
    for code in range(n_codes):
        members = np.flatnonzero(codes == code)
        members = members[np.argsort(scores[members])]
        levels = None
        if weights is not None:
            levels = np.append(0.0, np.cumsum(weights[members]))
        parts.append((scores[members], levels))
    return parts


def _counts(
    part: list[tuple[Array, Array | None]], cuts: Array
) -> tuple[Array, Array, Array]:
    """Return the weight of each code's scores in bins, and the bins' ends."""
    counts = np.zeros((len(part), len(cuts)))
    low = np.full(len(cuts), np.inf)
    high = -low
    for (scores, levels), row in zip(part, counts, strict=True):
        # Bin i has the sorted scores from starts[i] up to stops[i].
        stops = np.searchsorted(scores, cuts, side="right")
        starts = np.append(0, stops[:-1])
        row[:] = stops - starts if levels is None else levels[stops] - levels[starts]
        full = starts < stops
        low[full] = np.minimum(low[full], scores[starts[full]])
        high[full] = np.maximum(high[full], scores[stops[full] - 1])
    return counts, low, high


def _merge_counts(a: Any, b: Any) -> Any:
    """Merge the counts, lowest and highest scores of two parts."""
    return a[0] + b[0], np.minimum(a[1], b[1]), np.maximum(a[2], b[2])
