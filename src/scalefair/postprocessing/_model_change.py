"""Changed models: the layer, the last one fitted to the targets again, and scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from scalefair._groups import GroupCodes, as_list, effective_sizes, squeeze_single
from scalefair._membership import Membership
from scalefair.metrics import null_parity_gap, statistical_parity_ks
from scalefair.postprocessing._fair_layer import (
    FairLayer,
    GapBounds,
    fair_layer,
    meet_bounds,
)
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import LayerMoments, Moments
from scalefair.postprocessing._passes import ModelRows
from scalefair.streaming import GroupMoments, is_partitioned

Array = NDArray[np.float64]

# Largest target: the squares of its covariances, fourth powers, must not overflow.
MAX_TARGET = 1e70
# Ridge of plain least squares, relative to the mean eigenvalue of the inputs' scatter.
# The inputs were trained on the same targets, and a smaller ridge fits more of what
# differs between groups, so that cross-validation compares larger ones only.
MIN_RIDGE = 1e-2


@dataclass(frozen=True)
class LastLayer:
    """New weight, shape (k, n), and bias of the last layer; the mean residual is zero.

    Gaps of the outputs in mean and covariance are those with the old and with the new
    last layer, on the same inputs.
    """

    weight: Array
    bias: Array
    gaps_before: tuple[float, float]
    gaps_after: tuple[float, float]
    converged: bool  # whether the bounds on the gaps hold


class Scores(NamedTuple):
    """How fair and how accurate predictions are, on the rows of `fit`."""

    distance: float  # KS distance of the groups' predictions; nan if there are none
    r2: Any  # by group; None without targets
    errors: Array | None  # (N,), squared, summed over the targets


class ChangedModel(NamedTuple):
    """A model with a changed layer, or only the last one fitted again."""

    host: LayerHost
    layer: FairLayer  # the layer that `fit` was to change
    is_changed: bool  # whether that layer has another weight
    refit: LastLayer | None  # None without targets
    scores: Scores


@dataclass(frozen=True)
class ModelChange:
    """Changes of a model by the parameters of a regressor, on the rows of its `fit`.

    The rows may be in parts. Their groups, weights and targets are in memory.
    """

    regressor: Any  # with its parameters, and `layer_`
    rows: ModelRows  # of the unchanged model
    membership: Membership
    targets: Array | None  # (N, k), None if no layer is fitted to them
    has_predictions: bool  # whether the model gives numbers that can be compared
    moments: Moments  # of the inputs of the layer to change

    @cached_property
    def sizes(self) -> list[NDArray[Any]]:
        """Effective number of rows of each group, for each attribute."""
        weights = self.membership.weights
        return [effective_sizes(codes, weights) for codes in self._codes]

    @cached_property
    def row_weights(self) -> Array | None:
        """Weights of the rows (N,), the sums of those of their entries."""
        _, entries, weights = self.membership
        if entries is not None:
            n_rows = self.rows.X.shape[0]
            weights = np.bincount(entries, weights, minlength=n_rows).astype(np.float64)
        return cast("Array | None", weights)

    @property
    def n_rows(self) -> float:
        """Effective number of all rows, (sum w)^2 / sum w^2."""
        weights, n_rows = self.row_weights, self.rows.X.shape[0]
        (size,) = effective_sizes(np.zeros(n_rows, np.int64), weights)
        return float(size)

    @property
    def _codes(self) -> list[NDArray[Any]]:
        """Codes of the entries, of each attribute."""
        return [codes for *_, codes in self.membership.compared]

    @cached_property
    def unchanged(self) -> ModelRows:
        """The rows of the unchanged model, with the last layer's inputs if possible."""
        if self.targets is None:
            return self.rows
        return self.rows.with_cache(self.rows.host.n_layers - 1)

    @cached_property
    def _last_layer_moments(self) -> Moments:
        """Moments of the last layer's inputs in the unchanged model."""
        return self.unchanged.moments(self.rows.host.n_layers - 1)

    def changed_model(self, power: float) -> ChangedModel:
        """Change the layer, by powers of the reductions, and fit the last one."""
        unchanged, reductions = self.unchanged, self._reductions(power)
        number, last = self.regressor.layer_, unchanged.host.n_layers - 1
        # 1. The new weight of the layer, and the model with it.
        layer = self._change_layer(number, self.moments, reductions)
        host = unchanged.host.replaced({number: (layer.weight, None)})
        rows = replace(self.rows, host=host)
        # 2. The last layer is fitted again, or its bias if it is the changed one.
        refit = None
        if self.targets is not None:
            if number == last:
                refit = self._fit_bias(layer, self.moments)
            else:
                rows = rows.with_cache(last)
                refit = self._refit(rows, reductions)
            host = host.replaced({last: (refit.weight, refit.bias)})
        is_changed = bool(layer.weights.any())
        scores = self.scores(replace(rows, host=host))
        model = ChangedModel(host, layer, is_changed, refit, scores)
        if not (is_changed and self._may_leave_layer()):
            return model
        # 3. The last layer changed instead: the other is left where that does as well.
        moments = self._last_layer_moments
        instead = self._change_layer(last, moments, reductions)
        refit = self._fit_bias(instead, moments)
        refit = replace(refit, gaps_before=instead.gaps_before)
        host = unchanged.host.replaced({last: (refit.weight, refit.bias)})
        scores = self.scores(replace(unchanged, host=host))
        if not self._is_as_good(scores, model.scores):
            return model
        layer = layer.undone(unchanged.host.weight(number))
        return ChangedModel(host, layer, False, refit, scores)

    def _change_layer(
        self, number: int, moments: Moments, reductions: tuple[float, float]
    ) -> FairLayer:
        """Compute the new weight of a layer from the moments of its inputs."""
        return fair_layer(
            self.rows.host.weight(number),
            moments,
            method=self.regressor.method,
            reductions=reductions,
            noise_floor=self.regressor.noise_floor,
            epsilon=float(self.regressor.epsilon),
            first_moment=self.regressor.first_moment,
            sizes=self.sizes,
        )

    def _may_leave_layer(self) -> bool:
        """Whether a change of the last layer instead is compared."""
        # Infinite reductions are wanted whatever they cost.
        return bool(
            self.regressor.method == "direct"
            and self.regressor.noise_floor
            and np.isfinite(self._reductions(1.0)).all()
            and self.targets is not None
            and self.has_predictions
            and self.regressor.layer_ < self.rows.host.n_layers - 1
        )

    def _refit(self, rows: ModelRows, reductions: tuple[float, float]) -> LastLayer:
        """Fit the last layer of a model with another changed layer."""
        # The published method has no bounds.
        kind = str(self.regressor.refit_last)
        if self.regressor.method != "direct":
            reductions = (1.0, 1.0)
        elif kind == "least_squares":
            kind = "ridge"
        last = rows.host.n_layers - 1
        return refit_last_layer(
            rows.moments(last, self.targets),
            rows.host.weight(last),
            kind,
            reductions,
            self.regressor.noise_floor,
            self.sizes,
            self.n_rows,
        )

    def _reductions(self, power: float) -> tuple[float, float]:
        """Both reductions to a power."""
        reductions = np.array(
            [self.regressor.mean_reduction, self.regressor.covariance_reduction]
        )
        with np.errstate(over="ignore"):
            mean, covariance = (reductions**power).tolist()
        return mean, covariance

    def _fit_bias(self, change: FairLayer, moments: Moments) -> LastLayer:
        """Fit the bias of a changed last layer, given moments of its inputs."""
        # The mean residual is zero: b = mean(y) - W mean(x).
        assert self.targets is not None
        means = np.average(self.targets, axis=0, weights=self.row_weights)
        bias = means - change.weight @ as_list(moments)[0].mean
        gaps = change.gaps_after
        return LastLayer(change.weight, bias, gaps, gaps, change.converged)

    def scores(self, rows: ModelRows) -> Scores:
        """Scores of a model's predictions for the rows."""
        if not self.has_predictions:
            return Scores(float("nan"), None, None)
        # 1. The largest distance between groups, of all outputs and attributes.
        outputs = rows.outputs()
        weights, take = self.membership.weights, self.membership.take
        groups = np.column_stack(self._codes).view(GroupCodes)
        distance = max(
            statistical_parity_ks(
                column,
                sensitive_features=groups,
                sample_weight=weights,
                attributes="each",
            )
            for column in take(outputs).T
        )
        if self.targets is None:
            return Scores(distance, None, None)
        # 2. The explained variance within each group of each attribute.
        y, r2 = self.targets, []
        entry_targets, entry_outputs = take(y), take(outputs)
        has_weight = True if weights is None else weights > 0
        for codes in self._codes:
            by_group = []
            for code in np.unique(codes):
                members = np.flatnonzero((codes == code) & has_weight)
                score = np.nan  # R2 needs two rows
                if len(members) > 1:
                    score = r2_score(
                        entry_targets[members],
                        entry_outputs[members],
                        sample_weight=None if weights is None else weights[members],
                    )
                by_group.append(score)
            r2.append(np.array(by_group))
        # 3. The error of each row.
        errors = ((outputs - y) ** 2).sum(axis=1)
        return Scores(distance, squeeze_single(r2), errors)

    def _is_as_good(self, instead: Scores, changed: Scores) -> bool:
        """Whether a change of the last layer instead does as well as one of the layer.

        Its mean error is smaller by two standard errors, and its distance is not larger
        by more than sampling noise. If the changed layer keeps `max_distance`, so does
        the last one.
        """
        assert instead.errors is not None
        assert changed.errors is not None
        # A paired comparison: the difference of both errors, row by row.
        gains = changed.errors - instead.errors
        gain = float(np.average(gains, weights=self.row_weights))
        variance = float(np.average((gains - gain) ** 2, weights=self.row_weights))
        if not gain > 2 * np.sqrt(variance / self.n_rows):
            return False
        limit = changed.distance + null_parity_gap(self.sizes)
        if self.regressor.max_distance is not None:
            limit = min(limit, max(changed.distance, self.regressor.max_distance))
        return instead.distance <= limit


def checked_targets(y: Any, n_rows: int, host: LayerHost) -> Array:
    """Targets as numbers in memory, (N, k); Dask's are gathered.

    A ValueError tells what is wrong with them, or that the model has other outputs.
    """
    if isinstance(y, (list, tuple, np.ndarray)) and is_partitioned(y):
        dask = import_module("dask")  # imported already: the blocks are Dask's
        blocks = y.ravel() if isinstance(y, np.ndarray) else y
        # Futures have to be made delayed values to be computed.
        blocks = dask.compute(*[dask.delayed(block) for block in blocks])
        y = np.concatenate([np.asarray(block) for block in blocks])
    try:
        targets = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must be numbers, one or more a row: {error}.") from error
    if targets.ndim not in (1, 2) or len(targets) != n_rows:
        raise ValueError(
            f"y must have shape ({n_rows},) or ({n_rows}, k), got {targets.shape}."
        )
    targets = targets.reshape(n_rows, -1)
    moderate = (np.abs(targets) <= MAX_TARGET).all(axis=1)
    if not moderate.all():
        bad = np.flatnonzero(~moderate)
        raise ValueError(
            f"y has entries that are NaN or infinite in {bad.size} row(s), or above "
            f"{MAX_TARGET:g}, the first at position {bad[0]}: drop these rows, or "
            "scale the targets."
        )
    n_targets, n_outputs = targets.shape[1], host.shape(host.n_layers - 1)[0]
    if n_targets != n_outputs:
        raise ValueError(
            f"This {type(host.estimator).__name__} predicts {n_outputs} target(s) a "
            f"row, y has {n_targets}: pass those that it was trained for."
        )
    return targets


def refit_last_layer(
    moments: Moments,
    weight: Array,
    kind: str,
    reductions: tuple[float, float],
    noise_floor: bool,
    sizes: list[Array] | None = None,
    n_rows: float | None = None,
) -> LastLayer:
    """Fit the last layer from the moments of rows ``[a, y]``, its inputs and targets.

    The rows have n + k entries, the old `weight` is (k, n). `kind` is "ridge" (by
    cross-validation), "least_squares" (the smallest ridge) or "gradient": ridges shrink
    towards the old weight, gradient steps start there. Reductions above 1 bound the
    gaps, relative to those of this fit; the result is then the weight within the bounds
    whose squared error with the ridge is smallest. `sizes` are those of `LayerMoments`,
    `n_rows` is the effective number of all rows.
    """
    # 1. Moments of the inputs, for the gaps, and the scatter S of inputs and targets.
    n = weight.shape[1]
    attributes = as_list(moments)
    inputs = LayerMoments(
        [
            GroupMoments(m.groups, m.counts, m.means[:, :n], m.scatters[:, :n, :n])
            for m in attributes
        ],
        sizes,
    )
    moments_of_all = attributes[0]  # the groups of any attribute have all rows
    S, counts = _total_scatter(moments_of_all), moments_of_all.counts
    weight_sum = float(counts.sum())
    n_rows = weight_sum if n_rows is None else n_rows
    # 2. Normal equations (W - W_old)(S_aa + ridge I) = S_ya - W_old S_aa, in the
    #    eigenvectors of S_aa.
    values, vectors = np.linalg.eigh(S[:n, :n])
    values = np.maximum(values, 0.0)
    cross = (S[n:, :n] - weight @ S[:n, :n]) @ vectors
    # 3. The ridge.
    ridge = MIN_RIDGE * float(values.mean())
    if kind == "ridge":
        # The old weight's residuals are [-W_old, I] [a, y].
        residual_map = np.hstack([-weight, np.eye(len(weight))])
        residual = float(((residual_map @ S) * residual_map).sum())
        ridge = _cross_validated_ridge(values, (cross**2).sum(axis=0), residual, n_rows)
    # Inputs that hardly vary relative to their mean squares keep the old weight. If all
    # inputs are 0, any ridge has this effect.
    mean = moments_of_all.mean
    mean_square = values.sum() + weight_sum * float(mean[:n] @ mean[:n])
    min_ridge = 1e-6 * float(mean_square) / n
    ridge = max(ridge, min_ridge) or 1.0
    # 4. The fit without bounds.
    filters = 1 / (values + ridge)
    if kind == "gradient":
        # As many steps as fifty epochs in batches of 256 rows.
        n_steps = 50 * max(1, int(n_rows) // 256)
        largest = max(float(values.max()), min_ridge) or 1.0
        filters = _landweber_filters(values, largest, n_steps)
    fitted = weight + (cross * filters) @ vectors.T
    # 5. The smallest change dW within the bounds, in the norm
    #    |dW (S_aa + ridge I)^(1/2)|: by its square the error with the ridge grows.
    bounds = GapBounds.build(fitted, inputs, reductions, noise_floor)
    converged = True
    if np.isfinite(bounds.limits).any():
        scales = np.sqrt(values + ridge)
        whitened, root = (fitted @ vectors) * scales, vectors / scales
        # The problem is small: a tighter tolerance than the default costs little.
        solution = meet_bounds(fitted, whitened, root, inputs, bounds, tol=1e-4)
        fitted, converged = solution.weight, solution.converged
    return LastLayer(
        weight=fitted,
        bias=mean[n:] - fitted @ mean[:n],
        gaps_before=inputs.gaps(weight),
        gaps_after=inputs.gaps(fitted),
        converged=converged,
    )


def _cross_validated_ridge(
    values: Array, squares: Array, residual: float, n_rows: float
) -> float:
    """Ridge of the least generalised cross-validation error (Golub, Heath, Wahba 1979).

    `values` v_i are the eigenvalues of S_aa, `squares` c_i the squared right-hand side
    of the normal equations along the eigenvectors, and `residual` is the sum of squared
    residuals of the old weight with the best bias.
    """
    # Minimise RSS / (N - 1 - df)^2 over ten ridges a decade, where s_i is
    # v_i / (v_i + ridge), df = sum_i s_i (1 more for the bias), and
    # RSS = residual - sum_i (2 - s_i) c_i / (v_i + ridge). Of weighted rows N may be
    # below 1 + df: nothing is left to tell the error, so that it counts as infinite.
    ridges = np.geomspace(1e6, MIN_RIDGE, 81)[:, None] * (float(values.mean()) or 1.0)
    shrinkage = values / (values + ridges)
    residuals = residual - ((2 - shrinkage) * squares / (values + ridges)).sum(axis=1)
    freedom = n_rows - 1 - shrinkage.sum(axis=1)
    errors = np.full(len(ridges), np.inf)
    np.divide(residuals, freedom**2, out=errors, where=freedom > 0)
    return float(ridges[np.argmin(errors), 0])


def _total_scatter(moments: GroupMoments) -> Array:
    """Sum of ``(x - mean)(x - mean)^T`` over the rows of all groups."""
    # Within the groups, and between their means.
    offsets = moments.means - moments.mean
    between = (moments.counts[:, None] * offsets).T @ offsets
    total: Array = moments.scatters.sum(axis=0) + between
    return total


def _landweber_filters(values: Array, largest: float, n_steps: int) -> Array:
    """Return what replaces 1 / v after gradient steps of length 1 / largest.

    Landweber's filter: (1 - (1 - v / largest)^n_steps) / v, and its limit
    n_steps / largest at v = 0.
    """
    with np.errstate(divide="ignore"):  # the steps remove a ratio of one at once
        exponents = n_steps * np.log1p(-np.minimum(values / largest, 1.0))
    filters = np.full_like(values, n_steps / largest)
    np.divide(-np.expm1(exponents), values, out=filters, where=values > 0)
    return filters
