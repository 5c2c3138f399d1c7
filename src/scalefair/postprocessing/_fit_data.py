"""Rows of a fit with targets and weights, and how changed models do on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from scalefair._groups import GroupCodes, as_list, effective_sizes, squeeze_single
from scalefair._membership import Membership
from scalefair._messages import listed
from scalefair._user_warnings import warn_user
from scalefair.metrics import null_parity_gap, statistical_parity_ks
from scalefair.postprocessing._fair_layer import FairLayer
from scalefair.postprocessing._layer_host import LayerHost
from scalefair.postprocessing._layer_moments import Moments
from scalefair.postprocessing._passes import ModelRows
from scalefair.postprocessing._refit_last_layer import LastLayer


class Scores(NamedTuple):
    """How fair and how accurate predictions are, on the rows of `fit`."""

    distance: float  # KS distance of the groups' predictions; nan if there are none
    r2: Any  # by group; None without targets
    errors: NDArray[np.float64] | None  # (N,), squared


class ChangedModel(NamedTuple):
    """A model with a changed layer, or only the last one fitted again."""

    host: LayerHost
    change: FairLayer
    refit: LastLayer | None
    scores: Scores


@dataclass(frozen=True)
class FitData:
    """Rows and targets of `fit`."""

    rows: ModelRows  # of the unchanged model
    membership: Membership  # in memory
    targets: NDArray[np.float64] | None
    has_predictions: bool

    @classmethod
    def of(cls, rows: ModelRows, targets: Any, has_predictions: bool) -> FitData:
        """Gather what is known of the rows, which may be in parts."""
        return cls(rows, rows.membership.gathered(), targets, has_predictions)

    @cached_property
    def sizes(self) -> list[NDArray[Any]]:
        """Rows of each group, of each attribute; of weighted rows those in effect."""
        weights = self.membership.weights
        return [effective_sizes(codes, weights) for codes in self._codes]

    @cached_property
    def row_weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows (N,), the sums of those of their entries."""
        _, entries, weights = self.membership
        if entries is not None:
            n_rows = len(self.columns_of_targets)
            weights = np.bincount(entries, weights, minlength=n_rows).astype(np.float64)
        return cast("NDArray[np.float64] | None", weights)

    @property
    def n_rows(self) -> float:
        """Rows; of weighted ones those in effect."""
        weights, n_rows = self.row_weights, self.rows.X.shape[0]
        (size,) = effective_sizes(np.zeros(n_rows, np.int64), weights)
        return float(size)

    @property
    def _codes(self) -> list[NDArray[Any]]:
        """Codes of the entries, of each attribute."""
        return [codes for *_, codes in self.membership.compared]

    @property
    def columns_of_targets(self) -> NDArray[np.float64]:
        """Targets as columns, (N, k)."""
        assert self.targets is not None
        return self.targets.reshape(len(self.targets), -1)

    @cached_property
    def last_layer_moments(self) -> Moments:
        """Moments of the last layer's inputs in the unchanged model."""
        return self.rows.moments(self.rows.host.n_layers - 1)

    def fit_bias(self, change: FairLayer, moments: Moments) -> LastLayer:
        """Fit the bias of a changed last layer, given moments of its inputs."""
        # The mean residual is zero: b = mean(y) - W mean(x).
        means = np.average(self.columns_of_targets, axis=0, weights=self.row_weights)
        bias = means - change.weight @ as_list(moments)[0].mean
        gaps = change.gaps_after
        return LastLayer(change.weight, bias, gaps, gaps, change.converged)

    def scores(self, host: LayerHost) -> Scores:
        """Scores of a model's predictions."""
        if not self.has_predictions:
            return Scores(float("nan"), None, None)
        outputs = replace(self.rows, host=host).outputs()
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
        y, r2 = self.columns_of_targets, []
        of_entries = take(y), take(outputs)
        has_weight = True if weights is None else weights > 0
        for codes in self._codes:
            by_group = []
            for code in np.unique(codes):
                rows = np.flatnonzero((codes == code) & has_weight)
                of_group = None if weights is None else weights[rows]
                # R2 needs two rows.
                score = np.nan
                if len(rows) > 1:
                    values = (column[rows] for column in of_entries)
                    score = r2_score(*values, sample_weight=of_group)
                by_group.append(score)
            r2.append(np.array(by_group))
        errors = ((outputs - y) ** 2).sum(axis=1)
        return Scores(distance, squeeze_single(r2), errors)

    def is_as_good(
        self, instead: Scores, changed: Scores, max_distance: float | None
    ) -> bool:
        """Whether a change of the last layer instead does as well as one of the layer.

        Its error is smaller by two standard errors, and its distance is not larger by
        more than sampling noise, nor than a distance that the other keeps.
        """
        assert instead.errors is not None
        assert changed.errors is not None
        gains = changed.errors - instead.errors
        gain = float(np.average(gains, weights=self.row_weights))
        variance = float(np.average((gains - gain) ** 2, weights=self.row_weights))
        if not gain > 2 * np.sqrt(variance / self.n_rows):
            return False
        limit = changed.distance + null_parity_gap(self.sizes)
        if max_distance is not None:
            limit = min(limit, max(changed.distance, max_distance))
        return instead.distance <= limit


def warn_of_groups(
    groups: NDArray[Any],
    n_rows: NDArray[Any],
    chosen: NDArray[np.bool_],
    remark: str,
) -> None:
    """Warn of the chosen groups, named with their numbers of rows."""
    if chosen.any():
        named = zip(groups[chosen], n_rows[chosen], strict=True)
        listed_groups = listed(f"{group!s} ({n:,.0f} rows)" for group, n in named)
        warn_user(f"{listed_groups}: {remark}")
