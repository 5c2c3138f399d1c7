"""The scores of each group, and which of them lie in the interval of ranks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.metrics import partial_demographic_parity_gap
from scalefair.plotting import _draw, _models

_TEXTS = {
    **_draw.TEXTS,
    "bins": """\
bins : int or array-like of edges, default=50
    Bins of the histogram, the same for all groups.""",
    "threshold": """\
threshold : float or None, default=None
    Score above which rows are selected, drawn as a vertical line.""",
}
_HATCHES = ("///", "\\\\\\", "...", "xxx", "ooo")
# Ranks are products of floats: this much of a row is rounding.
_ROUNDING = 1e-9


@documented(**_TEXTS)
class ScoreDensityDisplay(_models.ModelDisplay):
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
        Ranks that are marked, from the top of each group: rank 0 is its highest score.
        Of n rows those with ranks in :math:`[\alpha n, \beta n)`, rounded to whole
        rows, are in the interval.
    %(threshold)s
    name : str or None, default=None
        Name of the model, for the title.
    gap : float or None, default=None
        Largest gap of partial demographic parity in the interval, for the title; None
        leaves it out.

    Attributes
    ----------
    %(ax_)s
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
    OutputDensityDisplay : The outputs of regressors.

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

    _method = "decision_function"
    _settings = ("interval",)

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
        self.groups = np.asarray(groups)
        n_groups = self.groups.size
        self.densities = _models.check_densities(densities, self.grid, n_groups)
        self.score_ranges = np.asarray(score_ranges, dtype=np.float64)
        if self.score_ranges.shape != (n_groups, 2):
            raise ValueError(
                f"score_ranges must have shape ({n_groups}, 2), got "
                f"{self.score_ranges.shape}."
            )
        self.interval = check_interval(interval)
        self.threshold = threshold
        self.name = name
        self.gap = gap

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
        %(sensitive_features)s
        interval : tuple of float, default=(0.0, 1.0)
            Ranks, from the top of each group, that are marked.
        kind : {"histogram", "kde"}, default="histogram"
            A histogram, or a Gaussian kernel density with Scott's bandwidth, whose
            time grows with 400 points times the number of rows.
        %(bins)s
        %(threshold)s
        name : str or None, default=None
            Name of the model, for the title.
        %(drawing)s
        %(bad_rows)s
        """
        interval = check_interval(interval)
        given = _models.by_name(scores, name, "")
        found, groups, codes = _models.check_rows(given, sensitive_features, "scores")
        if len(found) > 1:
            raise ValueError(f"The figure is for one model, got {list(given)}.")
        [values], [name] = found, given
        grid, densities = _models.densities([values], groups, codes, kind, bins)
        display = cls(
            grid,
            densities=densities[0],
            groups=groups,
            score_ranges=[
                _score_range(values[codes == k], *interval) for k in range(groups.size)
            ],
            interval=interval,
            threshold=threshold,
            name=name or None,
            gap=partial_demographic_parity_gap(
                values, sensitive_features=codes, interval=interval
            ),
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the densities, and the interval of each group.

        Parameters
        ----------
        %(drawing)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 4.5))
        top = float(self.densities.max(initial=0.0)) or 1.0
        self.lines_: list[Any] = []
        self.bars_: list[Any] = []
        self.marks_: list[Any] = []
        for g in range(self.groups.size):
            self._draw_group(ax, g, -0.05 * top * (g + 1), line_kwargs)
        self.threshold_line_ = None
        if self.threshold is not None:
            self.threshold_line_ = ax.axvline(
                self.threshold, color="black", linewidth=1.2, label="threshold"
            )
        ax.axhline(0.0, color="0.3", linewidth=0.8, zorder=1.5)
        ax.set_ylim(-0.05 * top * (self.groups.size + 0.5), 1.05 * top)
        ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= 1.05 * top])
        if legend:
            _draw.legend(ax, "group")
        _draw.labels(ax, "score", "density")
        _draw.title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_group(
        self, ax: Any, g: int, height: float, line_kwargs: dict[str, Any]
    ) -> None:
        """Draw a density, hatched in the interval, and a bar at a height below it."""
        x, y = _models.outline(self.grid, self.densities[g])
        style = _draw.curve(g, self.groups[g])
        (line,) = ax.plot(x, y, **{**style, **line_kwargs})
        color, (low, high) = line.get_color(), self.score_ranges[g]
        # The ends of the interval lie between the points of the outline.
        inside = (x > low) & (x < high)
        ends = np.interp([low, high], x, y)
        mark = ax.fill_between(
            np.concatenate([[low], x[inside], [high]]),
            np.concatenate([ends[:1], y[inside], ends[1:]]),
            facecolor="none",
            edgecolor=color,
            hatch=_HATCHES[g % len(_HATCHES)],
            linewidth=0.0,
            alpha=0.5,
        )
        bar = {"color": color, "linewidth": 3, "marker": "|"}
        self.bars_ += ax.plot([low, high], [height, height], **bar)
        self.lines_.append(line)
        self.marks_.append(mark)

    def _findings(self) -> str:
        low, high = self.interval
        ranks = "" if (low, high) == (0.0, 1.0) else f"ranks {low:g} to {high:g}"
        if self.gap is None:
            found = f"hatched: {ranks}" if ranks else ""
        else:
            found = "largest gap" if self.groups.size > 2 else "gap"
            found += f" {self.gap:.3f}"
            found += f" in {ranks} (hatched)" if ranks else ""
        name = "" if self.name is None else _draw.literal(self.name)
        return ": ".join(filter(None, [name, found]))


def _score_range(part: NDArray[Any], alpha: float, beta: float) -> tuple[float, float]:
    """Lowest and highest score of the rows with ranks in [alpha, beta), 0 the top."""
    n = part.size
    first = min(int(np.floor(alpha * n + _ROUNDING)), n - 1)
    last = max(int(np.ceil(beta * n - _ROUNDING)) - 1, first)
    descending = np.sort(part)[::-1]
    return descending[last], descending[first]
