"""Loss of a linear model and smoothed rates of scores above thresholds.

An oracle evaluates both at one point, the weights w and the thresholds theta. Its
`OracleValue` has them with their gradients, the rates as differences of convex parts.
The last functions choose intercepts: before training, and after it.

A call takes one or two passes over the rows: scores, their losses and derivatives, and
sums of rows weighted by these. Problems (13) and (17) of He, Huang, Yao and Lin are
functions of what it returns (`scalefair.linear_model._parity_problem`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._entries import all_finite
from scalefair._groups import effective_sizes
from scalefair._membership import Cells
from scalefair._memory import array_bytes
from scalefair._rounding import ROUNDING
from scalefair.kernels import (
    HINGE,
    LOGISTIC,
    SQUARED,
    bin_pass,
    row_scores,
    row_table,
    score_losses,
    score_pass,
    top_pairwise_hinge,
)
from scalefair.linear_model._shares import (
    CodedRows,
    Comparison,
    OneRampFamily,
    Ramp,
    RampFamilies,
    SigmoidFamilies,
    SmoothedRates,
    divisors,
)
from scalefair.linear_model._weights import (
    Array,
    FeatureUnits,
    WeightLayout,
    group_members,
)

_KINDS = {"logistic": LOGISTIC, "hinge": HINGE, "squared": SQUARED}
# Losses of pairs of rows. They take no sample weights and no rows in parts.
PAIRWISE_LOSSES = ("auc", "partial_auc")


@dataclass(eq=False)
class OracleValue:
    """Loss, smoothed rates and gradients at one point, of S sets, F P thresholds.

    The loss is a mean over rows, or over pairs of rows.
    """

    layout: WeightLayout
    rates: SmoothedRates
    loss: float
    loss_gradient: Array  # (n_weights,)
    concave_loss: float  # subtracted from `loss`; zero but for "partial_auc"
    concave_gradient: Array

    @property
    def plus(self) -> Array:
        """Convex parts that are added, (S, P)."""
        return np.hsplit(self.rates.parts, 2)[0]

    @property
    def minus(self) -> Array:
        """Convex parts that are subtracted, (S, P)."""
        return np.hsplit(self.rates.parts, 2)[1]

    def convex_objective(self, w: Array, ridge: Array) -> tuple[float, Array]:
        """Return the loss with a penalty of the weights, and its gradient in them."""
        penalty = 0.5 * float(ridge @ (w * w))
        return self.loss + penalty, self.loss_gradient + ridge * w

    @cached_property
    def slopes(self) -> Array:
        """Gradients of both parts, (S, 2 P, n_weights + F P), the thresholds last."""
        # `rates` has gradients in the weights of cells for the features as given.
        # `pull_back` makes them gradients in standardized weights, `gradients` in w
        # and theta.
        units = self.layout.units
        return self.rates.compared.gradients(
            [units.pull_back(slopes) for slopes in self.rates.slopes()]
        )

    @property
    def plus_gradient(self) -> Array:
        """Gradients of `plus`, (S, P, n_weights + F P)."""
        return np.hsplit(self.slopes, 2)[0]

    @property
    def minus_gradient(self) -> Array:
        """Gradients of `minus`, (S, P, n_weights + F P)."""
        return np.hsplit(self.slopes, 2)[1]

    def combine(self, plus_weights: Array, minus_weights: Array) -> Array:
        """Return the gradient of a weighted sum of all of `plus` and `minus`.

        Weights are (S, P) for both, the gradient (n_weights + F P,). It is that of
        `slopes`, which are not formed.
        """
        weights = np.concatenate([plus_weights, minus_weights], axis=1)
        cells, in_score = self.rates.combine(weights)
        # A higher threshold, of a plus and a minus part, is a lower score.
        plus, minus = np.hsplit(in_score, 2)
        in_thresholds = -(plus + minus)
        in_weights = self.layout.pull_back(cells)
        return np.concatenate([in_weights, in_thresholds.ravel()])


class RowOracle(ABC):
    """Examples B.1 to B.4 of the paper, as functions of the parameters of `layout`.

    Rows are in memory (`ScoreOracle`) or in parts (`PartitionedOracle`). `cell_sizes`
    are the entries of each cell, or their weight; `families` the sets that are
    compared; `totals` are needed where entries are not rows, or rows have weights.
    """

    def __init__(
        self,
        layout: WeightLayout,
        cell_sizes: NDArray[Any],
        families: Cells | None,
        totals: tuple[float, float] | None = None,
    ) -> None:
        if families is None:  # cells are compared with each other
            families = Cells(np.arange(layout.n_cells)[:, None], [layout.n_cells])
        self.layout = layout
        self.compared = Comparison(families, layout, cell_sizes)
        self.cell_sizes = cell_sizes  # rows of each, or their weight, (n_cells,)
        # Total weight of the rows, also of those in no cell, and their effective
        # number, (sum w)^2 / sum w^2.
        n_rows = float(cell_sizes.sum())
        self.total, self.n_effective = totals or (n_rows, n_rows)
        self.n_features = layout.n_features
        self.n_weights = layout.n_weights
        self.n_calls = 0  # of `evaluate`

    def without_interactions(self) -> Self:
        """Return the oracle of the model in which all groups share their weights.

        The rows and the compared sets are the same.
        """
        shared = sparse.csr_array(np.ones((self.layout.n_groups, 1)))
        other = copy(self)
        layout = replace(self.layout, members=shared)
        sizes, families = self.cell_sizes, self.compared.cells
        totals = self.total, self.n_effective
        RowOracle.__init__(other, layout, sizes, families, totals)
        return other

    @abstractmethod
    def quantiles(self, w: Array, shares: Array | list[float]) -> Array:
        """Return the least scores that shares of the rows do not exceed.

        Of weighted rows shares of their weight. A quantile is the score of a row.
        """

    @abstractmethod
    def scores(self, w: Array) -> Array:
        """Return the scores of all rows, ndarray of shape (m,)."""

    def ranked(self, w: Array) -> Any:
        """Return the scores of all rows, or what has their ranks (`RankedScores`)."""
        return self.scores(w)

    @abstractmethod
    def evaluate(
        self, w: Array, theta: Array, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        """Return loss and rates, the surrogate stretched to `width` (the ramp's is 1).

        Of the thresholds each family has as many, one family after the other.
        Corners of the ramp are parabolas over `corner` of its width to both sides.
        """


class ScoreOracle(RowOracle):
    """The oracle of rows in memory."""

    # X        C-contiguous or canonical CSR, float64 or float32.
    # codes    Group of each row, from 0 to n_groups - 1.
    # by_label Whether the cells are, of each group, its negative and its positive rows.
    #          Else they are the groups. Shares of a cell without rows are 0.
    # loss     Of a score h with the sign y the mean of log(1 + exp(-y h)),
    #          max(0, 1 - y h) or (h - y)^2 / 2; of pairs that of max(0, 1 - h_i + h_j)
    #          for all positives i and negatives j, or those with ranks in
    #          `auc_interval`: a difference of convex functions.
    # units    Of the features that w is for, None for those that they are given in.
    # members  The rows of weights that each group adds up, of several attributes or
    #          none; None for the groups of one.
    # weights  Of rows, in means and shares; for losses of single rows only.
    # entries  Rows (rising) and weights of entries, whose groups `codes` then are:
    #          shares are of entries, losses of rows. For a model without interactions.

    def __init__(
        self,
        X: Array | sparse.csr_array,
        signs: ArrayLike,
        codes: ArrayLike,
        n_groups: int,
        *,
        by_label: bool = False,
        loss: str = "logistic",
        surrogate: str = "ramp",
        auc_interval: tuple[float, float] = (0.0, 1.0),
        units: FeatureUnits | None = None,
        members: sparse.csr_array | None = None,
        families: Cells | None = None,
        weights: ArrayLike | None = None,
        entries: tuple[NDArray[np.int64], Array | None] | None = None,
    ) -> None:
        if weights is not None:
            if loss in PAIRWISE_LOSSES:
                raise ValueError(
                    f"loss={loss!r} compares pairs of rows and takes no sample_weight: "
                    'use "logistic", "hinge" or "squared", or pass no weights.'
                )
            weights = np.ascontiguousarray(weights, dtype=np.float64)
        # 1. The layout of the weights.
        n = X.shape[1]
        units = units or FeatureUnits.identity(n)
        if members is None:  # one attribute, whose groups have weights of their own
            members = group_members(Cells(np.arange(n_groups)[:, None], [n_groups]))
        layout = WeightLayout(n, members, units, 1 + by_label)
        # 2. The cell of each entry, and the sizes of the cells. An entry is a row, but
        # for probabilities of groups. Sizes are weights where entries have them.
        self._signs = np.ascontiguousarray(signs, dtype=np.float64)
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        rows, entry_weights = (None, weights) if entries is None else entries
        if by_label:
            signs = self._signs if rows is None else self._signs[rows]
            codes = cells_by_label(signs, codes)
        sizes = np.bincount(codes, entry_weights, minlength=layout.n_cells)
        if rows is not None and weights is None:
            weights = np.ones(X.shape[0])  # some rows may be in no cell
        super().__init__(layout, sizes, families, row_totals(weights))
        # 3. The rows, for the loss, and the entries, for the rates. They are the same
        # object where an entry is a row.
        self.weights = weights  # (m,) of all rows, None if each counts once
        self.loss = loss
        self.surrogate = surrogate
        shape = layout.n_cells, n + 1
        shares = 1 / divisors(sizes)
        self._rows = CodedRows(row_table(X), codes, shape, shares, weights)
        self._entries = self._rows
        if rows is not None:
            self._entries = self._rows._replace(rows=rows, weights=entry_weights)
            codes = np.zeros(X.shape[0], np.int64)  # all rows share their weights
            self._rows = self._rows._replace(codes=codes)
        if loss in PAIRWISE_LOSSES:
            interval = auc_interval if loss == "partial_auc" else (0.0, 1.0)
            self._pairs = _Pairs(self._signs, interval)

    @property
    def has_entries(self) -> bool:
        """Whether a row may count for several groups, as with probabilities."""
        return self._entries is not self._rows

    def __sizeof__(self) -> int:
        """Bytes of the arrays, by which workers of Dask count their memory."""
        return array_bytes(vars(self))

    def scores(self, w: Array) -> Array:
        return row_scores(self._rows.table, self._rows.codes, self.layout.effective(w))

    def quantiles(self, w: Array, shares: Array | list[float]) -> Array:
        quantiles: Array = np.quantile(
            self.scores(w), shares, weights=self.weights, method="inverted_cdf"
        )
        return quantiles

    def coded_scores(self, w: Array, by_label: bool) -> tuple[Array, Any, int, Any]:
        """Return scores, the codes of cells or labels, their number, and weights.

        Of entries for cells, of rows for labels.
        """
        scores, entries = self.scores(w), self._entries
        if by_label:
            return scores, (self._signs > 0).astype(np.int64), 2, self.weights
        scores = entries.of_entries(scores)
        return scores, entries.codes, entries.shape[0], entries.weights

    def evaluate(
        self, w: Array, theta: Array, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        self.n_calls += 1
        theta = np.asarray(theta, dtype=np.float64)
        table, codes, shape, shares, weights, _ = self._rows
        total, compared = self.total or 1.0, self.compared  # a part may have no rows
        # Rates of one family of ramps follow from sums of rows in bins of the scores.
        # They come from the pass that forms the gradient of the loss. Other rates need
        # the scores, and passes of their own when gradients are asked for.
        is_ramp = self.surrogate == "ramp"
        one_pass = is_ramp and compared.n_families == 1 and not self.has_entries
        ramp = Ramp(theta, width, corner)
        bins = ramp.edges, ramp.centre, ramp.n_powers
        concave_loss, concave_slopes = 0.0, None
        if one_pass and self.loss in _KINDS:
            # Steps 1 and 2 in one pass: scores, loss and gradient of row after row.
            kind = _KINDS[self.loss]
            of_scores = self._signs, kind, self.layout.effective(w)
            loss, gradient, moments, sums = score_pass(
                table, codes, *of_scores, *bins, weights
            )
            loss, gradient = loss / total, gradient / total
        else:
            # Step 1: scores, the loss of them, and its derivatives in them.
            scores = self.scores(w)
            if self.loss in _KINDS:
                kind = _KINDS[self.loss]
                loss, slopes = score_losses(scores, self._signs, kind, weights)
                loss, slopes = loss / total, slopes / total
            else:
                losses = self._pairs.losses(scores)
                loss, slopes, concave_loss, concave_slopes = losses
            # Step 2: the gradient in the weights, by a second pass over the rows.
            if one_pass:
                gradient, moments, sums = bin_pass(
                    table, codes, scores, slopes, shape, *bins, weights
                )
            else:
                gradient = self._rows.weighted_sum(slopes)
        # Step 3: from gradients in the weights of each group to those in w.
        loss_gradient = self.layout.pull_back(gradient)
        if not (math.isfinite(loss) and all_finite(loss_gradient)):
            raise ValueError(
                "The scores overflow: rescale the features or take smaller parameters."
            )
        concave_gradient = np.zeros_like(loss_gradient)
        if concave_slopes is not None:
            concave_gradient = self.layout.pull_back(
                self._rows.weighted_sum(concave_slopes)
            )
        # Step 4: the rates.
        rates: SmoothedRates
        entries, thetas = self._entries, theta.reshape(compared.n_families, -1)
        if one_pass:
            rates = OneRampFamily(compared, ramp, moments, sums, shares)
        elif is_ramp:
            rates = RampFamilies(entries, scores, compared, thetas, width, corner)
        else:
            rates = SigmoidFamilies(entries, scores, compared, thetas, width)
        return OracleValue(
            self.layout, rates, loss, loss_gradient, concave_loss, concave_gradient
        )


def row_totals(weights: Array | None) -> tuple[float, float] | None:
    """Total weight of the rows and their effective number; None of no weights.

    The effective number, (sum w)^2 / sum w^2, is that of equal weights whose mean has
    the same variance.
    """
    if weights is None:
        return None
    n_effective = effective_sizes(np.zeros(len(weights), int), weights)[0]
    return float(weights.sum()), float(n_effective)


def cells_by_label(signs: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.int64]:
    """Code of each row's group and label: the negative rows of a group come first."""
    return 2 * codes.astype(np.int64) + (signs > 0)


class _Pairs:
    """Mean hinge loss over pairs of positives and of negatives within some ranks.

    Example B.1 of the paper with all negatives, B.2 with those of an interval. Ranks
    are from the highest score down: those from `first` to `last` count.
    """

    def __init__(self, signs: Array, interval: tuple[float, float]) -> None:
        self.positives = np.flatnonzero(signs > 0)
        self.negatives = np.flatnonzero(signs < 0)
        n_negatives = len(self.negatives)
        # 0.07 * 100 is above 7: rounding adds no rank.
        self.first, self.last = (
            math.ceil(rank * n_negatives * (1 - ROUNDING)) for rank in interval
        )
        if self.first == self.last:
            raise ValueError(
                f"No negative has its rank in interval {interval}: widen it."
            )

    def losses(self, scores: Array) -> tuple[float, Array, float, Array | None]:
        """Both parts of (50) of the paper, each with its derivatives in the scores.

        The sum over the negatives of the `last` highest ranks, less that over those of
        the `first` ones, which are above the interval. Each is the largest sum over so
        many negatives, and so convex in the scores.
        """
        n_tops = [self.last, self.first] if self.first else [self.last]
        n_pairs = float(len(self.positives)) * (self.last - self.first)
        (total, slopes), *above = top_pairwise_hinge(
            scores, self.positives, self.negatives, n_tops
        )
        loss, derivatives = total / n_pairs, slopes / n_pairs
        if not above:
            return loss, derivatives, 0.0, None
        total, slopes = above[0]
        return loss, derivatives, total / n_pairs, slopes / n_pairs


def best_constant(signs: Array, loss: str, weights: Array | None = None) -> float:
    """Return the score with the least mean loss if all rows have the same.

    With the mean label 2 p - 1 the logistic one is log(p / (1 - p)); the hinge loss has
    its least value at 1 or -1, and the squared one at the mean.
    """
    mean = float(np.average(signs, weights=weights))
    if loss == "logistic":
        return float(np.log1p(mean) - np.log1p(-mean))
    if loss == "hinge":
        return float(np.sign(mean))
    return mean if loss == "squared" else 0.0  # pairs: it does not matter


def most_accurate_shift(
    scores: Array, signs: Array, weights: Array | None = None
) -> float:
    """Return the least shift after which most signs of the scores are right.

    `signs` are the labels, -1 and 1.
    """
    # The weight of right signs as a function of the cut is a random walk, whose
    # maximum follows the noise: it is averaged over neighbouring cuts first.
    # Step 1: rows in the order of their scores.
    if weights is None:
        weights = np.ones_like(scores)
    order = np.argsort(scores, kind="stable")
    order = order[weights[order] > 0]
    ordered, weights = scores[order], weights[order]
    # A power of two for their unit changes no digit; products of two are in range.
    weights = np.ldexp(weights, -np.frexp(weights.max())[1])
    # Step 2: gain[i] is the weight of right signs if the i lowest scores, of weight
    # below[i], become negative, less that if none does. It is linear between the cuts.
    # Its mean over 1 % of the weight to either side is a difference of integrals;
    # area[i] is the integral up to cut i.
    below = np.append(0.0, np.cumsum(weights))
    gain = np.append(0.0, np.cumsum(-signs[order] * weights))
    half_window = 0.01 * below[-1]
    area = np.append(0.0, np.cumsum(weights * (gain[1:] + gain[:-1]) / 2))

    def integral(ends: Array) -> Array:
        i = np.searchsorted(below[1:], ends, side="right")
        middle = (gain[i] + np.interp(ends, below, gain)) / 2
        return np.asarray(area[i] + (ends - below[i]) * middle)

    gain = integral(below + half_window) - integral(below - half_window)
    gain /= 2 * half_window
    # Step 3: the best cuts between different scores. If the cut at zero is one of them,
    # nothing is shifted.
    distinct = np.concatenate([[True], ordered[1:] > ordered[:-1], [True]])
    current = np.searchsorted(ordered, 0.0, side="right")  # a score of 0 is negative
    is_best = gain >= gain[distinct].max() - ROUNDING * below[-1]
    if is_best[current]:
        return 0.0
    best = np.flatnonzero(distinct & is_best)
    # Step 4: of several the one with the least shift. A cut is halfway between the
    # scores at its sides; those at the ends are at a distance of 1.
    padded = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    cuts = (padded[best] + padded[best + 1]) / 2
    return float(-cuts[np.abs(cuts).argmin()])
