"""Loss of a linear model and smoothed shares of scores above thresholds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from scalefair._entries import all_finite
from scalefair._memory import array_bytes
from scalefair.kernels import (
    HINGE,
    LOGISTIC,
    SQUARED,
    bin_pass,
    row_scores,
    row_table,
    score_losses,
    score_pass,
    sigmoid_slopes,
    sigmoid_sums,
    top_pairwise_hinge,
    weighted_row_sums,
)
from scalefair.linear_model._weights import Array, FeatureUnits, WeightLayout
from scalefair.streaming import Parts

# A subtracted loss and its derivatives in the scores.
_Concave = tuple[float, Array | None]
# Sums of gradients with weights, see `SigmoidShares.combine`.
_Combine = Callable[[Array], tuple[Array, Array]]

_KINDS = {"logistic": LOGISTIC, "hinge": HINGE, "squared": SQUARED}
_PAIRWISE = ("auc", "partial_auc")


@dataclass(eq=False)
class OracleValue:
    """Loss, smoothed shares and gradients at one point, of G cells, P thresholds."""

    layout: WeightLayout
    loss: float
    loss_gradient: Array  # (n_weights,)
    # (G, 2 P): plus parts, then minus parts. Their difference is the share of the
    # cell above the threshold.
    parts: Array
    form_slopes: Callable[[], Array]
    concave_loss: float  # subtracted from `loss`; zero but for "partial_auc"
    concave_gradient: Array
    form_combination: _Combine | None = None

    @property
    def plus(self) -> Array:
        """Convex parts of the shares, (G, P)."""
        return np.hsplit(self.parts, 2)[0]

    @property
    def minus(self) -> Array:
        """Convex parts that are subtracted, (G, P)."""
        return np.hsplit(self.parts, 2)[1]

    def convex_objective(self, w: Array, ridge: Array) -> tuple[float, Array]:
        """Return the loss with a penalty of the weights, and its gradient in them."""
        penalty = 0.5 * float(ridge @ (w * w))
        return self.loss + penalty, self.loss_gradient + ridge * w

    @cached_property
    def slopes(self) -> Array:
        """Gradients of `parts` in the weights of their cell, (G, 2 P, n + 1)."""
        return self.layout.units.pull_back(self.form_slopes())

    @cached_property
    def plus_gradient(self) -> Array:
        """Gradients of `plus`, (G, P, n_weights + P), the thresholds last."""
        return self.layout.spread(np.hsplit(self.slopes, 2)[0])

    @cached_property
    def minus_gradient(self) -> Array:
        """Gradients of `minus`, (G, P, n_weights + P)."""
        return self.layout.spread(np.hsplit(self.slopes, 2)[1])

    def combine(self, plus_weights: Array, minus_weights: Array) -> Array:
        """Return the gradient of a weighted sum of all of `plus` and `minus`."""
        weights = np.concatenate([plus_weights, minus_weights], axis=1)
        if self.form_combination is not None:
            rows, sums = self.form_combination(weights)
            rows = self.layout.units.pull_back(rows)
        else:
            rows = (weights[:, None] @ self.slopes)[:, 0]
            sums = (weights * self.slopes[:, :, -1]).sum(axis=0)
        n = plus_weights.shape[1]
        # A higher threshold is a lower score.
        theta = -(sums[:n] + sums[n:])
        return np.concatenate([self.layout.lift(rows), theta])


class RowOracle(ABC):
    """Examples B.1 to B.4 of the paper, as functions of the parameters of `layout`."""

    def __init__(self, layout: WeightLayout, cell_sizes: NDArray[np.int64]) -> None:
        self.layout = layout
        self.cell_sizes = cell_sizes  # rows of each, (n_cells,)
        self.n_features = layout.n_features
        self.n_weights = layout.n_weights
        self.n_groups = layout.n_groups
        self.n_calls = 0  # of `evaluate`

    @abstractmethod
    def scores(self, w: Array) -> Array:
        """Return the scores of all rows, ndarray of shape (m,)."""

    @abstractmethod
    def evaluate(
        self, w: Array, theta: Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        """Return all, the surrogate stretched to `width` (the ramp's is 1).

        Corners of the ramp are parabolas over `corner` of its width to both sides.
        """


class ScoreOracle(RowOracle):
    """The oracle of rows in memory."""

    # Rows are C-contiguous or canonical CSR, float64 or float32; codes of groups go
    # from 0 to n_groups - 1. Its cells are the groups or, by label, for each group its
    # negative and its positive rows; shares of one without rows are 0. The mean loss
    # of a score h with the sign y is log(1 + exp(-y h)), max(0, 1 - y h) or
    # (h - y)^2 / 2; of pairs max(0, 1 - h_i + h_j) for all positives i and negatives
    # j, or those with ranks in `auc_interval`: a difference of convex functions.
    # Parameters are for features in `units`, None for those that they are given in.

    def __init__(
        self,
        X: Array | sparse.csr_array,
        signs: ArrayLike,
        codes: ArrayLike,
        n_groups: int,
        *,
        interactions: bool = True,
        by_label: bool = False,
        loss: str = "logistic",
        surrogate: str = "ramp",
        auc_interval: tuple[float, float] = (0.0, 1.0),
        units: FeatureUnits | None = None,
    ) -> None:
        n = X.shape[1]
        units = units or FeatureUnits.given(n)
        layout = WeightLayout(n, n_groups, interactions, units, 1 + by_label)
        self._signs = np.ascontiguousarray(signs, dtype=np.float64)
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        if by_label:
            codes = cells_by_label(self._signs, codes)
        sizes = np.bincount(codes, minlength=layout.n_cells)
        super().__init__(layout, sizes)
        self.loss = loss
        self.surrogate = surrogate
        shape = layout.n_cells, n + 1
        self._rows = Rows(row_table(X), codes, shape, 1 / np.maximum(sizes, 1))
        if loss in _PAIRWISE:
            interval = auc_interval if loss == "partial_auc" else (0.0, 1.0)
            self._pairs = _Pairs(self._signs, interval)

    def __sizeof__(self) -> int:
        return array_bytes(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Kernels are compiled for a read-only table and for other arrays that are
        # not: arrays may come out of a pickle either way.
        self.__dict__.update(state)
        for array in self._rows.table:
            array.flags.writeable = False
        self._signs = np.require(self._signs, requirements="W")
        codes = np.require(self._rows.codes, requirements="W")
        self._rows = self._rows._replace(codes=codes)

    def scores(self, w: Array) -> Array:
        return row_scores(self._rows.table, self._rows.codes, self.layout.effective(w))

    def evaluate(
        self, w: Array, theta: Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        self.n_calls += 1
        theta = np.asarray(theta, dtype=np.float64)
        table, codes, shape, shares = self._rows
        m = codes.shape[0]
        ramp = Ramp(theta, width, corner)
        bins = ramp.edges, ramp.centre, ramp.n_powers
        concave_loss, concave_slopes = 0.0, None
        if self.surrogate == "ramp" and self.loss in _KINDS:
            kind = _KINDS[self.loss]
            loss, gradient, moments, sums = score_pass(
                table, codes, self._signs, kind, self.layout.effective(w), *bins
            )
            loss, gradient = loss / m, gradient / m
        else:
            scores = self.scores(w)
            if self.loss in _KINDS:
                loss, slopes = score_losses(scores, self._signs, _KINDS[self.loss])
                loss, slopes = loss / m, slopes / m
            else:
                loss, slopes, (concave_loss, concave_slopes) = self._pairs.losses(
                    scores
                )
            if self.surrogate == "ramp":
                gradient, moments, sums = bin_pass(
                    table, codes, scores, slopes, shape, *bins
                )
            else:
                gradient = self._rows.weighted(slopes[:, None])[:, :, 0]
        lifted = self._pulled(gradient)
        if not (math.isfinite(loss) and all_finite(lifted)):
            raise ValueError(
                "The scores overflow: rescale the features or take smaller parameters."
            )
        concave_gradient = np.zeros_like(lifted)
        if concave_slopes is not None:
            total = self._rows.weighted(concave_slopes[:, None])[:, :, 0]
            concave_gradient = self._pulled(total)
        slopes_of: Callable[[], Array]  # only formed where they are asked for
        combine: _Combine | None = None
        if self.surrogate == "ramp":
            parts = ramp.parts(moments) * shares[:, None]
            slopes_of = partial(ramp.slopes, sums, shares)
        else:
            sigmoid = SigmoidShares(self._rows, scores, theta, width)
            parts, slopes_of, combine = sigmoid.parts, sigmoid.slopes, sigmoid.combine
        return OracleValue(
            *(self.layout, loss, lifted, parts, slopes_of),
            *(concave_loss, concave_gradient, combine),
        )

    def _pulled(self, gradient: Array) -> Array:
        """Gradient in the parameters from that in the weights of each group."""
        return self.layout.lift(self.layout.units.pull_back(gradient))


def cells_by_label(signs: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.int64]:
    """Code of each row's group and label: the negative rows of a group come first."""
    return 2 * codes.astype(np.int64) + (signs > 0)


class _Pairs:
    """Mean hinge loss over pairs of positives and negatives of some ranks."""

    def __init__(self, signs: Array, interval: tuple[float, float]) -> None:
        self.positives = np.flatnonzero(signs > 0)
        self.negatives = np.flatnonzero(signs < 0)
        n_negatives = len(self.negatives)
        # 0.07 * 100 is above 7: rounding adds no rank.
        self.first, self.last = (
            math.ceil(rank * n_negatives * (1 - 1e-12)) for rank in interval
        )
        if self.first == self.last:
            raise ValueError(
                f"No negative has its rank in auc_interval {interval}: widen it."
            )

    def losses(self, scores: Array) -> tuple[float, Array, _Concave]:
        """Both parts of (50) and their derivatives in the scores."""
        n_tops = [self.last, self.first] if self.first else [self.last]
        n_pairs = float(len(self.positives)) * (self.last - self.first)
        parts = [
            (total / n_pairs, slopes / n_pairs)
            for total, slopes in top_pairwise_hinge(
                scores, self.positives, self.negatives, n_tops
            )
        ]
        return *parts[0], parts[1] if self.first else (0.0, None)


# Most weights of rows that are formed at a time.
_WEIGHTS = 2**21


class Rows(NamedTuple):
    """Rows of a table with the codes of their cells."""

    table: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # see `row_table`
    codes: NDArray[np.int64]
    shape: tuple[int, int]  # cells, and features with the intercept
    shares: Array  # of a row in the mean of its cell, (G,)

    def weighted(self, weights: Array) -> Array:
        """Return sums of rows times each column of weights, for each cell."""
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


class PartitionedOracle(RowOracle):
    """The oracle of rows in parts, which may lack cells and know of no units."""

    def __init__(
        self, oracles: Parts, layout: WeightLayout, cell_sizes: NDArray[np.int64]
    ) -> None:
        super().__init__(layout, cell_sizes)
        self._oracles = oracles

    def scores(self, w: Array) -> Array:
        w = self.layout.rows(w).ravel()
        return np.concatenate(self._oracles.map(ScoreOracle.scores, w).gather())

    def evaluate(
        self, w: Array, theta: Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        self.n_calls += 1
        at = self.layout.rows(w).ravel(), np.asarray(theta, np.float64), width, corner
        sums: _Sums = self._oracles.map(_sums, *at).reduce(_added)
        loss, gradient, parts, slopes = sums
        n_rows = self.cell_sizes.sum()
        sizes = np.maximum(self.cell_sizes, 1)
        gradient = gradient.reshape(-1, self.n_features + 1)
        slopes = slopes / sizes[:, None, None]
        return OracleValue(
            self.layout,
            loss / n_rows,
            self.layout.units.pull_back(gradient).ravel() / n_rows,
            parts / sizes[:, None],
            lambda: slopes,
            *(0.0, np.zeros(self.n_weights)),
        )


# Sums over rows of the loss, its gradient, the parts of shares and their slopes.
_Sums = tuple[float, Array, Array, Array]


def _sums(
    oracle: ScoreOracle, w: Array, theta: Array, width: float, corner: float
) -> _Sums:
    # What was sent may be read-only, and kernels are compiled for what is not.
    value = oracle.evaluate(w, theta.copy(), width=width, corner=corner)
    sizes = oracle.cell_sizes
    loss, gradient = value.loss * sizes.sum(), value.loss_gradient * sizes.sum()
    slopes = value.slopes * sizes[:, None, None]
    return loss, gradient, value.parts * sizes[:, None], slopes


def _added(a: _Sums, b: _Sums) -> _Sums:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]
