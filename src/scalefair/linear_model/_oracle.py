"""Loss of a linear model and smoothed shares of scores above thresholds.

One call knows the loss of all rows, the convex parts of the smoothed shares of
every group above every threshold, and all their gradients. For losses of single
rows and the ramp it reads the rows once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

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
from scalefair.linear_model._training_rows import FeatureUnits, WeightLayout

_Array = NDArray[np.float64]
# A subtracted loss and its derivatives in the scores.
_Concave = tuple[float, _Array | None]
# Sums of gradients with weights, see `SigmoidShares.combine`.
_Combine = Callable[[_Array], tuple[_Array, _Array]]

_KINDS = {"logistic": LOGISTIC, "hinge": HINGE, "squared": SQUARED}
_PAIRWISE = ("auc", "partial_auc")
_SURROGATES = ("ramp", "sigmoid")


class OracleValue:
    """Loss, smoothed shares and gradients at one point, of G groups, P thresholds.

    Gradients in both the parameters and the thresholds have the thresholds last. A
    convex `concave_loss` is subtracted from `loss`; zero but for "partial_auc".
    """

    def __init__(
        self,
        layout: WeightLayout,
        loss: float,
        loss_gradient: _Array,
        plus: _Array,
        minus: _Array,
        slopes: Callable[[], _Array],
        *,
        concave_loss: float = 0.0,
        concave_gradient: _Array | None = None,
        combine: _Combine | None = None,
    ) -> None:
        self._layout = layout
        self.loss = loss
        self.loss_gradient = loss_gradient  # (n_weights,)
        self.concave_loss = concave_loss
        self.concave_gradient = concave_gradient  # None if it is zero
        # (G, P): their difference is the share of the group above the threshold.
        self.plus = plus
        self.minus = minus
        self._form_slopes = slopes
        self._combine = combine

    @cached_property
    def plus_gradient(self) -> _Array:
        """Gradients of `plus`, ndarray of shape (G, P, n_weights + P)."""
        return self._layout.spread(self.slopes[:, : self.plus.shape[1]])

    @cached_property
    def minus_gradient(self) -> _Array:
        """Gradients of `minus`, ndarray of shape (G, P, n_weights + P)."""
        return self._layout.spread(self.slopes[:, self.plus.shape[1] :])

    def combine(self, plus_weights: _Array, minus_weights: _Array) -> _Array:
        """Return the gradient of a weighted sum of all of `plus` and `minus`."""
        weights = np.concatenate([plus_weights, minus_weights], axis=1)
        if self._combine is not None:
            rows, parts = self._combine(weights)
            rows = self._layout.units.pull_back(rows)
        else:
            slopes = self.slopes
            rows = (weights[:, None] @ slopes)[:, 0]
            parts = (weights * slopes[:, :, -1]).sum(axis=0)
        n = self.plus.shape[1]
        # A higher threshold is a lower score.
        theta = -(parts[:n] + parts[n:])
        return np.concatenate([self._layout.lift(rows), theta])

    @cached_property
    def slopes(self) -> _Array:
        """Gradients of `plus` and then `minus` in the coefficients of their group.

        ndarray of shape (G, 2 P, n + 1), the intercept last.
        """
        return self._layout.units.pull_back(self._form_slopes())


class ScoreOracle:
    """Loss of a linear model, and smoothed shares of scores above thresholds.

    Of He, Huang, Yao, Lin, "Enforcing fairness where it matters", examples B.1 to B.4.
    The parameters are those of `layout`; `n_calls` counts the calls of `evaluate`.
    """

    # Rows are C-contiguous or canonical CSR, float64 or float32; codes of groups go
    # from 0 to n_groups - 1, and shares of a group without rows are 0. The mean loss
    # of a score h with the sign y is log(1 + exp(-y h)), max(0, 1 - y h) or
    # (h - y)^2 / 2; of pairs max(0, 1 - h_i + h_j) for all positives i and negatives
    # j, or those with ranks in `auc_interval`: a difference of convex functions.
    # Parameters are for features in `units`, None for those that they are given in.

    def __init__(
        self,
        X: _Array | sparse.csr_array,
        signs: ArrayLike,
        codes: ArrayLike,
        n_groups: int,
        *,
        interactions: bool = True,
        loss: str = "logistic",
        surrogate: str = "ramp",
        auc_interval: tuple[float, float] = (0.0, 1.0),
        units: FeatureUnits | None = None,
    ) -> None:
        if loss not in _KINDS and loss not in _PAIRWISE:
            known = ", ".join([*_KINDS, *_PAIRWISE])
            raise ValueError(f"loss must be one of {known}, got {loss!r}.")
        if surrogate not in _SURROGATES:
            known = ", ".join(_SURROGATES)
            raise ValueError(f"surrogate must be one of {known}, got {surrogate!r}.")
        self.n_features = X.shape[1]
        self.n_groups = n_groups
        self.interactions = interactions
        self.loss = loss
        self.surrogate = surrogate
        units = units or FeatureUnits.given(self.n_features)
        self.layout = WeightLayout(self.n_features, n_groups, interactions, units)
        self.n_weights = self.layout.n_weights
        self.n_calls = 0
        self._signs = np.ascontiguousarray(signs, dtype=np.float64)
        codes = np.ascontiguousarray(codes, dtype=np.int64)
        self.group_sizes = np.bincount(codes, minlength=n_groups)
        shape = n_groups, self.n_features + 1
        self._rows = Rows(
            row_table(X), codes, shape, 1 / np.maximum(self.group_sizes, 1)
        )
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

    def scores(self, w: _Array) -> _Array:
        """Return the scores of all rows, ndarray of shape (m,)."""
        return row_scores(self._rows.table, self._rows.codes, self.layout.effective(w))

    def evaluate(
        self, w: _Array, theta: _Array, *, width: float = 1.0, corner: float = 0.0
    ) -> OracleValue:
        """Return the loss, the shares above the thresholds and their gradients.

        A step takes `width` scores, or as many per unit of the sigmoid; corners of the
        ramp are parabolas over the part `corner` of it on both sides.
        """
        if not (width > 0 and corner >= 0):
            raise ValueError(
                f"width must be positive and corner not negative, got {width} and "
                f"{corner}."
            )
        self.n_calls += 1
        theta = np.asarray(theta, dtype=np.float64)
        if self.surrogate == "sigmoid":
            return self._sigmoid(w, theta, width)
        return self._ramp(w, Ramp(theta, width, corner))

    def _ramp(self, w: _Array, ramp: Ramp) -> OracleValue:
        """Value with shares by the ramp."""
        table, codes, shape, _ = self._rows
        bins = ramp.edges, ramp.centre, ramp.n_powers
        if self.loss in _PAIRWISE:
            scores = self.scores(w)
            loss, slopes, concave = self._losses(scores)
            gradient, moments, sums = bin_pass(
                table, codes, scores, slopes, shape, *bins
            )
        else:
            kind = _KINDS[self.loss]
            loss, gradient, moments, sums = score_pass(
                table, codes, self._signs, kind, self.layout.effective(w), *bins
            )
            loss /= codes.shape[0]
            gradient /= codes.shape[0]
            concave = 0.0, None
        shares = RampShares(ramp, moments, sums, self._rows)
        return self._value(loss, gradient, concave, shares)

    def _sigmoid(self, w: _Array, theta: _Array, width: float) -> OracleValue:
        """Value with shares by the sigmoid."""
        scores = self.scores(w)
        loss, slopes, concave = self._losses(scores)
        gradient = self._rows.weighted(slopes[:, None])[:, :, 0]
        shares = SigmoidShares(self._rows, scores, theta, width)
        return self._value(loss, gradient, concave, shares, shares.combine)

    def _pulled(self, gradient: _Array) -> _Array:
        """Gradient in the parameters from that in the weights of each group."""
        return self.layout.lift(self.layout.units.pull_back(gradient))

    def _losses(self, scores: _Array) -> tuple[float, _Array, _Concave]:
        """Convex and subtracted loss, and their derivatives in the scores."""
        if self.loss in _PAIRWISE:
            return self._pairs.losses(scores)
        m = scores.shape[0]
        total, slopes = score_losses(scores, self._signs, _KINDS[self.loss])
        return total / m, slopes / m, (0.0, None)

    def _value(
        self,
        loss: float,
        gradient: _Array,
        concave: _Concave,
        shares: Shares,
        combine: _Combine | None = None,
    ) -> OracleValue:
        concave_loss, concave_slopes = concave
        lifted = self._pulled(gradient)
        if not (math.isfinite(loss) and all_finite(lifted)):
            raise ValueError(
                "The scores overflow: rescale the features or take smaller parameters."
            )
        concave_gradient = None
        if concave_slopes is not None:
            sums = self._rows.weighted(concave_slopes[:, None])[:, :, 0]
            concave_gradient = self._pulled(sums)
        n_thresholds = shares.values.shape[1] // 2
        return OracleValue(
            self.layout,
            loss,
            lifted,
            shares.values[:, :n_thresholds],
            shares.values[:, n_thresholds:],
            shares.slopes,
            concave_loss=concave_loss,
            concave_gradient=concave_gradient,
            combine=combine,
        )


class _Pairs:
    """Mean hinge loss over pairs of positives and negatives of some ranks."""

    def __init__(self, signs: _Array, interval: tuple[float, float]) -> None:
        self.positives = np.flatnonzero(signs > 0)
        self.negatives = np.flatnonzero(signs < 0)
        if not (self.positives.size and self.negatives.size):
            raise ValueError("Pairwise losses need rows of both classes.")
        if not 0 <= interval[0] < interval[1] <= 1:
            raise ValueError(
                f"auc_interval must satisfy 0 <= lower < upper <= 1, got {interval}."
            )
        n_negatives = len(self.negatives)
        # 0.07 * 100 is above 7: rounding adds no rank.
        self.first, self.last = (
            math.ceil(rank * n_negatives * (1 - 1e-12)) for rank in interval
        )
        if self.first == self.last:
            raise ValueError(
                f"No negative has its rank in auc_interval {interval}: widen it."
            )

    def losses(self, scores: _Array) -> tuple[float, _Array, _Concave]:
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
    """Where ramps at thresholds bend."""

    # With x = (h - theta) / width the plus part is max(x + 1/2, 0), the minus part
    # max(x - 1/2, 0). Either corner is rounded where it is nearer than `corner` by
    # (u + corner)^2 / (4 corner).
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
