"""The rate of one group above a threshold against the other group's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._groups import check_interval
from scalefair.plotting._labels import (
    draw_legend,
    draw_title,
    label_axes,
    listed,
    literal,
)
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._rates import allowed_region, rate_curve
from scalefair.plotting._scores import (
    as_mapping,
    check_scores,
    common_setting,
    groups_of,
    models_by_name,
    score_rows,
)
from scalefair.plotting._styles import LINES, PALETTE

__all__ = ["GroupRateDisplay"]

_ALLOWED = "#009E73"
# The title has the gaps of this many models, or the smallest and the largest one.
_MOST_GAPS = 3


class GroupRateDisplay:
    r"""Rates of two groups above a threshold, as the threshold moves.

    A curve runs from (0, 0), where nobody is selected, to (1, 1), where all are; on
    the diagonal both groups are selected at the same rate. Grey bands mark the
    interval of ranks in which parity is asked for, and a green region the rates
    whose gap within it is at most `kappa`. The title has the largest gap of each model.
    Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    rates : mapping of str to array-like of shape (n_points, 2)
        For each model, by its name, the rates of the two groups at falling
        thresholds.
    groups : array-like of shape (2,)
        Names of the groups, on the horizontal and on the vertical axis.
    interval : tuple of float, default=(0.0, 1.0)
        Ranks, from the top, in which parity is asked for.
    kappa : float or None, default=None
        Largest allowed gap, a fraction of the interval; None marks no region.

    Attributes
    ----------
    gaps : dict of str to float
        For each model the largest gap of the two rates within the interval,
        relative to its length.
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : dict of str to matplotlib Line2D
        The curve of each model.
    parity_line_ : matplotlib Line2D
        The diagonal.
    region_ : matplotlib Polygon or None
        Rates with a gap of at most `kappa`.

    Raises
    ------
    ValueError
        If there are not two groups, rates are no rates, or `interval` or `kappa`
        are out of range.

    See Also
    --------
    ScoreDensityDisplay : Where the scores of the groups lie.
    scalefair.metrics.partial_demographic_parity_gap : The gap in the legend.

    Notes
    -----
    With :math:`A_k = (\min(P_k, \beta) - \min(P_k, \alpha)) / (\beta - \alpha)`
    for a rate :math:`P_k` and the interval :math:`[\alpha, \beta)`, the gap of two
    groups is the largest :math:`|A_1 - A_2|` at the points given. Points on a
    horizontal or vertical piece of a curve are left out, which does not change the
    gap: a picture of a million rows stays small.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing Fairness Where It Matters: An Approach
       Based on Difference-of-Convex Constraints", figure 2.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import GroupRateDisplay
    >>> display = GroupRateDisplay.from_predictions(
    ...     [4.0, 3.0, 2.0, 1.0],
    ...     sensitive_features=["f", "m", "m", "f"],
    ...     ax=Figure().subplots(),
    ... )
    >>> display.gaps
    {'scores': 0.5}
    """

    ax_: Any
    figure_: Any
    lines_: dict[str, Any]
    parity_line_: Any
    region_: Any

    def __init__(
        self,
        rates: Mapping[str, ArrayLike],
        *,
        groups: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float | None = None,
    ) -> None:
        self.rates = {
            name: _check_rates(values, name)
            for name, values in as_mapping(rates).items()
        }
        self.groups = np.asarray(groups)
        if self.groups.shape != (2,):
            raise ValueError(
                f"groups must be two names, got shape {self.groups.shape}."
            )
        self.interval = check_interval(interval)
        if kappa is not None and not 0 <= kappa <= 1:
            raise ValueError(f"kappa must be between 0 and 1, got {kappa!r}.")
        self.kappa = kappa
        self.gaps = {name: self._gap(curve) for name, curve in self.rates.items()}

    def _gap(self, curve: NDArray[Any]) -> float:
        low, high = self.interval
        A, B = curve.clip(low, high).T
        return float(np.abs(A - B).max() / (high - low))

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float | None = None,
        pair: Sequence[Any] | None = None,
        name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupRateDisplay:
        """Draw the rates of given scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,), or mapping of str to such
            Score of each row, high ones are selected first; for several models by
            their names.
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        interval : tuple of float, default=(0.0, 1.0)
            Ranks, from the top, in which parity is asked for.
        kappa : float or None, default=None
            Largest allowed gap; None marks no region.
        pair : sequence of two groups or None, default=None
            Which groups to compare, needed if there are more than two. The first is
            on the horizontal axis.
        name : str or None, default=None
            Name of a single model; None takes "scores".
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the curves.

        Returns
        -------
        GroupRateDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If lengths differ, a value is missing or not finite, or the groups to
            compare are not two.
        """
        checked = {
            key: check_scores(values, f"scores of {key!r}")
            for key, values in as_mapping(scores, name).items()
        }
        n_rows = {len(values) for values in checked.values()}
        if len(n_rows) > 1:
            raise ValueError(f"The models have scores of {sorted(n_rows)} rows.")
        groups, codes = groups_of(sensitive_features, n_rows.pop())
        chosen = _choose_pair(groups, pair)
        members = [codes == k for k in chosen]
        display = cls(
            {
                key: rate_curve(*(values[rows] for rows in members))
                for key, values in checked.items()
            },
            groups=groups[chosen],
            interval=interval,
            kappa=kappa,
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        interval: tuple[float, float] | None = None,
        kappa: float | None = None,
        pair: Sequence[Any] | None = None,
        name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupRateDisplay:
        """Draw the rates of the scores that fitted classifiers give to rows.

        Parameters
        ----------
        estimator : classifier, or mapping of str to classifiers
            Fitted, with `decision_function`; it is given the groups if it takes
            them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        interval : tuple of float or None, default=None
            As for `from_predictions`; None takes that of the classifiers if all that
            have one agree, else all ranks.
        kappa : float or None, default=None
            As for `from_predictions`; None takes that of the classifiers if all that
            have one agree, else marks no region.
        pair : sequence of two groups or None, default=None
            As for `from_predictions`.
        name : str or None, default=None
            Name of a single classifier; None takes its class.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the curves.

        Returns
        -------
        GroupRateDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If a classifier is not fitted.
        ImportError
            If matplotlib is missing.
        ValueError
            As for `from_predictions`.
        """
        estimators = models_by_name(estimator, name)
        if interval is None:
            interval = common_setting(estimators, "interval")
        return cls.from_predictions(
            {
                key: score_rows(model, X, sensitive_features)
                for key, model in estimators.items()
            },
            sensitive_features=sensitive_features,
            interval=(0.0, 1.0) if interval is None else interval,
            kappa=common_setting(estimators, "kappa") if kappa is None else kappa,
            pair=pair,
            ax=ax,
            legend=legend,
            **line_kwargs,
        )

    def plot(
        self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> GroupRateDisplay:
        """Draw the curves, the interval and the allowed region.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the curves.

        Returns
        -------
        GroupRateDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        if ax is None:
            _, ax = import_pyplot(self).subplots(figsize=(8, 5), layout="constrained")
        self._draw_interval(ax)
        self._draw_region(ax)
        (self.parity_line_,) = ax.plot(
            [0, 1],
            [0, 1],
            color="black",
            linewidth=0.9,
            label="equal rates",
            zorder=1.9,
        )
        self.lines_ = {}
        for i, (name, curve) in enumerate(self.rates.items()):
            style = {
                "color": PALETTE[i % len(PALETTE)],
                "linestyle": LINES[i % len(LINES)],
                "linewidth": 1.8,
                "label": f"{literal(name)} (gap {self.gaps[name]:.3f})",
                **line_kwargs,
            }
            (self.lines_[name],) = ax.plot(*curve.T, **style)
        x, y = (
            f"rate of group {literal(group)} above the threshold"
            for group in self.groups
        )
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if legend:
            draw_legend(ax)
            ax.set_anchor("E")  # a layout then knows where the legend is
        label_axes(ax, x, y)
        draw_title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _findings(self) -> list[str]:
        low, high = self.interval
        where = "" if (low, high) == (0.0, 1.0) else f" in ranks {low:g} to {high:g}"
        ranked = sorted(self.gaps.items(), key=lambda item: item[1])
        found = [f"{literal(name)} {gap:.3f}" for name, gap in self.gaps.items()]
        if len(found) == 1:
            [(name, gap)] = ranked
            return [f"{literal(name)}:", f"largest gap {gap:.3f}{where}"]
        if len(found) > _MOST_GAPS:
            least, most = (
                f"{gap:.3f} ({literal(name)})"
                for name, gap in ranked[:: len(ranked) - 1]
            )
            return [f"largest gaps{where}:", f"from {least}", f"to {most}"]
        return [f"largest gap{where}:", *listed(found)]

    def _draw_interval(self, ax: Any) -> None:
        low, high = self.interval
        if (low, high) == (0.0, 1.0):
            return  # a band over everything would mark nothing
        style = {
            "facecolor": "0.9",
            "edgecolor": "0.6",
            "linewidth": 0.8,
            "zorder": 0.5,
        }
        ax.axvspan(low, high, label=f"ranks {low:g} to {high:g}", **style)
        ax.axhspan(low, high, **style)

    def _draw_region(self, ax: Any) -> None:
        self.region_ = None
        if self.kappa is None:
            return
        corners = allowed_region(self.interval, self.kappa)
        (self.region_,) = ax.fill(
            *corners.T,
            facecolor=_ALLOWED,
            edgecolor=_ALLOWED,
            alpha=0.2,
            linewidth=0.8,
            label=f"gap at most {self.kappa:g}",
            zorder=1,
        )


def _choose_pair(groups: NDArray[Any], pair: Sequence[Any] | None) -> list[int]:
    names = groups.tolist()
    if pair is None:
        if len(names) > 2:
            raise ValueError(
                f"There are {len(names)} groups, {names[:8]}: say which two to "
                f"compare, as in pair=({names[0]!r}, {names[1]!r})."
            )
        return [0, 1]
    chosen = list(pair)
    if len(chosen) != 2 or chosen[0] == chosen[1] or not set(chosen) <= set(names):
        raise ValueError(f"pair must be two of the groups {names[:8]}, got {pair!r}.")
    return [names.index(group) for group in chosen]


def _check_rates(values: ArrayLike, name: str) -> NDArray[np.float64]:
    curve = np.asarray(values, dtype=np.float64)
    if curve.ndim != 2 or curve.shape[1] != 2 or not len(curve):
        raise ValueError(
            f"rates of {name!r} must have shape (n_points, 2), got {curve.shape}."
        )
    if not ((curve >= 0) & (curve <= 1)).all():
        raise ValueError(f"rates of {name!r} must be between 0 and 1.")
    return curve
