"""The scores of each group, and which of them lie in the interval of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalefair._groups import check_interval
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting._densities import (
    histograms,
    kernel_densities,
    outline,
    score_range,
)
from scalefair.plotting._labels import draw_legend, draw_title, label_axes, literal
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._scores import (
    check_scores,
    groups_of,
    score_rows,
)
from scalefair.plotting._styles import LINES, PALETTE

__all__ = ["ScoreDensityDisplay"]

_HATCHES = ("///", "\\\\\\", "...", "xxx", "ooo")
_KINDS = ("histogram", "kde")


class ScoreDensityDisplay:
    r"""Density of the scores of each group, with the interval of ranks marked.

    The hatched part of a density, and the bar below it, is the range of the scores
    of the rows that are ranked in the interval within their own group. Where the
    densities agree there, the groups are treated alike there; the title has the largest
    gap between two of them. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    grid : array-like of shape (n,) or (n + 1,)
        Scores at which densities are given or, for histograms, edges of the bins.
    densities : array-like of shape (n_groups, n)
        Density of the scores of each group.
    groups : array-like of shape (n_groups,)
        Names of the groups.
    score_ranges : array-like of shape (n_groups, 2)
        Lowest and highest score of the rows of each group that are ranked in the
        interval.
    interval : tuple of float, default=(0.0, 1.0)
        Ranks, from the top of each group, that are marked.
    threshold : float or None, default=None
        Score above which rows are selected, drawn as a vertical line.
    name : str or None, default=None
        Name of the model, for the title.
    gap : float or None, default=None
        Largest gap of partial demographic parity in the interval, for the title; None
        leaves it out.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        The density of each group.
    bars_ : list of matplotlib Line2D
        The bar below it, from the lowest to the highest score of the interval.
    marks_ : list of matplotlib PolyCollection
        The part of each density in the interval.
    threshold_line_ : matplotlib Line2D or None
        The threshold.

    Raises
    ------
    ValueError
        If the shapes do not fit together or `interval` is out of range.

    See Also
    --------
    GroupRateDisplay : The rates of two groups above all thresholds.

    Notes
    -----
    Rank 0 is the highest score of a group. Of n rows those with ranks in
    :math:`[\alpha n, \beta n)`, rounded to whole rows, are in the interval. Groups
    differ in colour (the palette of Okabe and Ito), line and hatching.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing Fairness Where It Matters: An Approach
       Based on Difference-of-Convex Constraints", figures 3 to 8.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import ScoreDensityDisplay
    >>> display = ScoreDensityDisplay.from_predictions(
    ...     [1.0, 2.0, 3.0, 4.0, 2.0, 4.0, 6.0, 8.0],
    ...     sensitive_features=["f"] * 4 + ["m"] * 4,
    ...     interval=(0.0, 0.5),
    ...     ax=Figure().subplots(),
    ... )
    >>> display.score_ranges
    array([[3., 4.],
           [6., 8.]])
    """

    ax_: Any
    figure_: Any
    lines_: list[Any]
    bars_: list[Any]
    marks_: list[Any]
    threshold_line_: Any

    def __init__(
        self,
        grid: ArrayLike,
        *,
        densities: ArrayLike,
        groups: ArrayLike,
        score_ranges: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        threshold: float | None = None,
        name: str | None = None,
        gap: float | None = None,
    ) -> None:
        self.grid = np.asarray(grid, dtype=np.float64)
        self.densities = np.asarray(densities, dtype=np.float64)
        self.groups = np.asarray(groups)
        self.score_ranges = np.asarray(score_ranges, dtype=np.float64)
        self.interval = check_interval(interval)
        self.threshold = threshold
        self.name = name
        self.gap = gap
        self._check()

    def _check(self) -> None:
        n_groups, n = self.groups.size, self.grid.size
        shape = self.densities.shape
        if shape not in {(n_groups, n), (n_groups, n - 1)}:
            raise ValueError(
                f"With {n_groups} groups and {n} points of the grid, densities must "
                f"have shape ({n_groups}, {n}) or, for histograms, ({n_groups}, "
                f"{n - 1}), got {shape}."
            )
        if self.score_ranges.shape != (n_groups, 2):
            raise ValueError(
                f"score_ranges must have shape ({n_groups}, 2), got "
                f"{self.score_ranges.shape}."
            )

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        kind: str = "histogram",
        bins: int | ArrayLike = 50,
        threshold: float | None = None,
        name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ScoreDensityDisplay:
        """Draw the density of given scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            Score of each row.
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        interval : tuple of float, default=(0.0, 1.0)
            Ranks, from the top of each group, that are marked.
        kind : {"histogram", "kde"}, default="histogram"
            A histogram, or a Gaussian kernel density with Scott's bandwidth, whose
            time grows with 400 points times the number of rows.
        bins : int or array-like of edges, default=50
            Bins of the histogram, the same for all groups.
        threshold : float or None, default=None
            Score above which rows are selected, drawn as a vertical line.
        name : str or None, default=None
            Name of the model, for the title.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the densities.

        Returns
        -------
        ScoreDensityDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If lengths differ, a value is missing or not finite, there is one group
            only, `kind` is unknown, or a group has no kernel density because its
            scores are all the same.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}.")
        alpha, beta = check_interval(interval)
        values = check_scores(scores, "scores")
        groups, codes = groups_of(sensitive_features, len(values))
        parts = [values[codes == k] for k in range(groups.size)]
        if kind == "histogram":
            grid, densities = histograms(parts, values, bins)
        else:
            grid, densities = kernel_densities(parts, groups, "scores")
        display = cls(
            grid,
            densities=densities,
            groups=groups,
            score_ranges=[score_range(part, alpha, beta) for part in parts],
            interval=(alpha, beta),
            threshold=threshold,
            name=name,
            gap=partial_demographic_parity_gap(
                values, sensitive_features=codes, interval=(alpha, beta)
            ),
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
        kind: str = "histogram",
        bins: int | ArrayLike = 50,
        threshold: float | None = None,
        name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ScoreDensityDisplay:
        """Draw the density of the scores that a fitted classifier gives to rows.

        Parameters
        ----------
        estimator : classifier
            Fitted, with `decision_function`; it is given the groups if it takes
            them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        interval : tuple of float or None, default=None
            As for `from_predictions`; None takes that of the classifier, or all ranks.
        kind : {"histogram", "kde"}, default="histogram"
            As for `from_predictions`.
        bins : int or array-like of edges, default=50
            As for `from_predictions`.
        threshold : float or None, default=None
            As for `from_predictions`.
        name : str or None, default=None
            Name of the classifier; None takes its class.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the densities.

        Returns
        -------
        ScoreDensityDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the classifier is not fitted.
        ImportError
            If matplotlib is missing.
        ValueError
            As for `from_predictions`.
        """
        if interval is None:
            interval = getattr(estimator, "interval", (0.0, 1.0))
        return cls.from_predictions(
            score_rows(estimator, X, sensitive_features),
            sensitive_features=sensitive_features,
            interval=interval,
            kind=kind,
            bins=bins,
            threshold=threshold,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            legend=legend,
            **line_kwargs,
        )

    def plot(
        self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> ScoreDensityDisplay:
        """Draw the densities, and the interval of each group.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot`` for the densities.

        Returns
        -------
        ScoreDensityDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        if ax is None:
            _, ax = import_pyplot(self).subplots(figsize=(8, 4.5), layout="constrained")
        top = float(self.densities.max(initial=0.0)) or 1.0
        self.lines_, self.bars_, self.marks_ = [], [], []
        for g in range(self.groups.size):
            self._draw_group(ax, g, top, line_kwargs)
        self.threshold_line_ = None
        if self.threshold is not None:
            self.threshold_line_ = ax.axvline(
                self.threshold, color="black", linewidth=1.2, label="threshold"
            )
        ax.axhline(0.0, color="0.3", linewidth=0.8, zorder=1.5)
        ax.set_ylim(-0.05 * top * (self.groups.size + 0.5), 1.05 * top)
        ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.05 * top])
        if legend:
            draw_legend(ax, "group")
        label_axes(ax, "score", "density")
        draw_title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_group(
        self, ax: Any, g: int, top: float, line_kwargs: dict[str, Any]
    ) -> None:
        x, y = outline(self.grid, self.densities[g])
        style = {
            "color": PALETTE[g % len(PALETTE)],
            "linestyle": LINES[g % len(LINES)],
            "linewidth": 1.6,
            "label": literal(self.groups[g]),
            **line_kwargs,
        }
        (line,) = ax.plot(x, y, **style)
        color, (low, high) = line.get_color(), self.score_ranges[g]
        # The ends of the interval lie between the points of the outline.
        inside = (x > low) & (x < high)
        ends = np.interp([low, high], x, y)
        self.marks_.append(
            ax.fill_between(
                np.concatenate([[low], x[inside], [high]]),
                np.concatenate([ends[:1], y[inside], ends[1:]]),
                facecolor="none",
                edgecolor=color,
                hatch=_HATCHES[g % len(_HATCHES)],
                linewidth=0.0,
                alpha=0.5,
            )
        )
        height = -0.05 * top * (g + 1)
        self.bars_ += ax.plot(
            [low, high], [height, height], color=color, linewidth=3, marker="|"
        )
        self.lines_.append(line)

    def _findings(self) -> list[str]:
        low, high = self.interval
        ranks = "" if (low, high) == (0.0, 1.0) else f"ranks {low:g} to {high:g}"
        if self.gap is None:
            found = f"hatched: {ranks}" if ranks else ""
        else:
            found = "largest gap" if self.groups.size > 2 else "gap"
            found += f" {self.gap:.3f}"
            found += f" in {ranks} (hatched)" if ranks else ""
        if self.name is None:
            return [found]
        return [f"{literal(self.name)}{':' if found else ''}", found]
