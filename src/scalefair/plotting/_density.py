"""Densities of what models give to each group: scores, and outputs of regressors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._groups import GroupCodes, check_interval
from scalefair.metrics import partial_parity_gap, statistical_parity_ks
from scalefair.plotting import _draw, _models

# Points of a kernel density, and its reach beyond the values, in kernel deviations.
_GRID, _BEYOND = 400, 3.0
_HATCHES = ("///", "\\\\\\", "...", "xxx", "ooo")
# Ranks are products of floats: this much of a row is rounding.
_ROUNDING = 1e-9
# Parts of the width of the axes between two markers of a line.
_EVERY = 0.08

_TEXTS = {
    **_draw.TEXTS,
    "name": """\
name : str or None, default=None
    Name of a single model, for the title.""",
    "grid": """\
grid : array-like of shape (n,) or (n + 1,)
    Values at which densities are given or, for histograms, edges of the bins.""",
    "threshold": """\
threshold : float or None, default=None
    Score above which rows are selected, drawn as a vertical line.""",
    "axes": f"""\
ax : matplotlib Axes, sequence of them or None, default=None
    One axes for each regressor, or one for all; None makes a figure with one for each.
legend : bool, default=True
    Whether to show a legend, to the right of the last axes.
{_draw.TEXTS["line_options"]}""",
}
_KIND = """\
kind : {{"histogram", "kde"}}, default="{}"
    A histogram, or a Gaussian kernel density at 400 points, Scott's bandwidth.
bins : int or array-like of edges, default=50
    Bins of the histogram, the same for all."""
_OF_SCORES = f"""\
{_TEXTS["given"]}
{_TEXTS["attributes"]}
{_KIND.format("histogram")}
{_TEXTS["threshold"]}
{_TEXTS["drawing"]}"""
_OF_OUTPUTS = f"""\
{_KIND.format("kde")}
output_name : str or None, default=None
    What is predicted, with its unit; None takes the name of a Series, or "output".
{_TEXTS["axes"]}"""


class _DensityDisplay:
    """Base of displays of the density of values for each group."""

    def _keep(
        self, grid: ArrayLike, densities: ArrayLike, groups: ArrayLike, *n_models: int
    ) -> None:
        """Keep the densities of so many models, or of one, if their shape is right."""
        self.grid = np.asarray(grid, dtype=np.float64)
        self.groups = np.asarray(groups)
        self.densities = np.asarray(densities, dtype=np.float64)
        shape, n = (*n_models, self.groups.size), self.grid.size
        fitting = (*shape, n), (*shape, n - 1)
        if self.densities.shape not in fitting:
            raise ValueError(
                f"With {shape[-1]} groups and {n} points of the grid, densities must "
                f"have shape {fitting[0]} or, for histograms, {fitting[1]}, got "
                f"{self.densities.shape}."
            )
        self._top = float(self.densities.max(initial=0.0)) or 1.0

    def _draw_density(
        self, ax: Any, density: NDArray[Any], style: dict[str, Any]
    ) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Draw a curve, or the outline of a histogram; return line and coordinates."""
        x, y = self.grid, density
        if y.size < x.size:
            x, y = np.repeat(x, 2), np.pad(np.repeat(y, 2), 1)
        (line,) = ax.plot(x, y, **style)
        return line, x, y


@documented(
    **_TEXTS,
    options=_OF_SCORES,
    options_of_models=f"""\
interval : tuple of float or None, default=None
    Ranks, from the top, that are marked; None takes those of the model, or all, as it
    does of `given`.
{_OF_SCORES}""",
)
class ScoreDensityDisplay(_DensityDisplay):
    r"""Density of the scores of each group, with the interval of ranks marked.

    The hatched part of a density, and the bar below it, is the range of the scores of
    the rows ranked in the interval within their group. Where densities agree there,
    groups are treated alike. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    %(grid)s
    densities : array-like of shape (n_groups, n)
        Density of the scores of each group.
    %(groups)s
    score_ranges : array-like of shape (n_groups, 2)
        Lowest and highest score of each group's rows that are ranked in the interval.
    interval : tuple of float, default=(0.0, 1.0)
        Ranks that are marked, from the top of each group, rounded to whole rows.
    %(threshold)s
    %(name)s
    gap : float or None, default=None
        Largest gap in the interval (`metrics.partial_parity_gap`), for the title.

    Attributes
    ----------
    %(ax_)s
    lines_, bars_ : list of matplotlib Line2D
        The density of each group, and the bar below it.
    marks_ : list of matplotlib PolyCollection
        The part of each density in the interval.
    threshold_line_ : matplotlib Line2D or None
        The threshold.

    %(bad_parts)s

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
        self._keep(grid, densities, groups)
        self.score_ranges = np.asarray(score_ranges, dtype=np.float64)
        shape = (self.groups.size, 2)
        if self.score_ranges.shape != shape:
            raise ValueError(
                f"score_ranges must have shape {shape}, got {self.score_ranges.shape}."
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
        name: str | None = None,
        y_true: ArrayLike | None = None,
        given: str | None = None,
        attributes: str = "joint",
        kind: str = "histogram",
        bins: int | ArrayLike = 50,
        threshold: float | None = None,
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
        %(name)s
        %(options)s
        %(bad_rows)s
        """
        interval = check_interval(interval)
        models = _models.by_name(scores, name, "")
        found, each = _models.check_rows(
            models, sensitive_features, "scores", attributes
        )
        if len(found) > 1:
            raise ValueError(f"The figure is for one model, got {list(models)}.")
        [values], [name] = found, models
        of: dict[str, Any] = {"interval": interval, "y_true": y_true, "given": given}
        # Encoded, so that small groups are warned of once.
        codes = np.column_stack([own.codes for own in each])
        of["sensitive_features"] = codes.view(GroupCodes)
        gap = partial_parity_gap(values, attributes="each", **of)
        compared = _models.compared_rows(given, y_true, len(values))
        drawn = list(product(compared.items(), each))
        first = np.cumsum([0, *(len(own.groups) for _, own in drawn)])
        codes = np.concatenate(
            [own.codes[r] + i for i, ((_, r), own) in zip(first, drawn, strict=False)]
        )
        values = np.concatenate([values[r] for (_, r), _ in drawn])
        groups = each[0].groups
        if len(drawn) > 1 or given is not None:
            groups = np.array(
                [
                    f"{own.name} " * (len(each) > 1) + f"{group}{label}"
                    for (label, _), own in drawn
                    for group in own.groups.tolist()
                ]
            )
        grid, densities = _densities([values], groups, codes, kind, bins)
        ranges = [
            _score_range(values[codes == k], *interval) for k in range(groups.size)
        ]
        display = cls(
            grid,
            densities=densities[0],
            groups=groups,
            score_ranges=ranges,
            interval=interval,
            threshold=threshold,
            name=name or None,
            gap=gap,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _models.estimator_method(
        from_predictions, "decision_function", ("interval", "given", "attributes")
    )

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the densities, and the interval of each group.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 4.5))
        self.lines_: list[Any] = []
        self.bars_: list[Any] = []
        self.marks_: list[Any] = []
        for g in range(self.groups.size):
            self._draw_group(ax, g, -0.05 * self._top * (g + 1), line_kwargs)
        self.threshold_line_ = None
        if self.threshold is not None:
            style = {"color": "black", "linewidth": 1.2, "label": "threshold"}
            self.threshold_line_ = ax.axvline(self.threshold, **style)
        ax.axhline(0.0, color="0.3", linewidth=0.8, zorder=1.5)
        highest = 1.05 * self._top
        ax.set_ylim(-0.05 * self._top * (self.groups.size + 0.5), highest)
        ax.set_yticks([tick for tick in ax.get_yticks() if 0 <= tick <= highest])
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
        style = {**_draw.curve(g, self.groups[g]), **line_kwargs}
        line, x, y = self._draw_density(ax, self.densities[g], style)
        color, (low, high) = line.get_color(), self.score_ranges[g]
        # The ends of the interval lie between the points of the outline.
        inside = (x > low) & (x < high)
        left, right = np.interp([low, high], x, y)
        mark = {"facecolor": "none", "edgecolor": color, "linewidth": 0.0, "alpha": 0.5}
        self.marks_.append(
            ax.fill_between(
                np.array([low, *x[inside], high]),
                np.array([left, *y[inside], right]),
                hatch=_HATCHES[g % len(_HATCHES)],
                **mark,
            )
        )
        bar = {"color": color, "linewidth": 3, "marker": "|"}
        self.bars_ += ax.plot([low, high], [height, height], **bar)
        self.lines_.append(line)

    def _findings(self) -> str:
        ranks, found = _draw.ranks(self.interval), ""
        if self.gap is not None:
            largest = "largest " if self.groups.size > 2 else ""
            found = f"{largest}gap {self.gap:.3f}"
        if ranks:
            found = f"{found} in {ranks} (hatched)" if found else f"hatched: {ranks}"
        name = "" if self.name is None else _draw.literal(self.name)
        return ": ".join(filter(None, [name, found]))


@documented(**_TEXTS, options=_OF_OUTPUTS, options_of_models=_OF_OUTPUTS)
class OutputDensityDisplay(_DensityDisplay):
    """Density of the outputs for each group, of one regressor or of several.

    Where the densities agree the groups are treated alike; titles have KS, the largest
    distance between two (`metrics.statistical_parity_ks`). Regressors are side by side
    or, on a single axes, overlaid. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    %(grid)s
    densities : array-like of shape (n_models, n_groups, n)
        Density of the outputs of each regressor for each group.
    %(groups)s
    distances : array-like of shape (n_models,)
        Kolmogorov-Smirnov distance between the groups for each regressor.
    names : sequence of str or None, default=None
        Names of the regressors. None leaves a single one without name.
    output_name : str, default="output"
        What is predicted, with its unit, for the horizontal axis.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The axes of each regressor, or the single one with all of them.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of list of matplotlib Line2D
        The density for each group, of each regressor.
    areas_ : list of list of matplotlib PolyCollection
        The area below it; none where regressors are overlaid.

    %(bad_parts)s

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", figures 1, 2, 3 and 5.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import OutputDensityDisplay
    >>> outputs = {"before": [1.0, 2, 3, 4], "after": [2.0, 3, 2, 3]}
    >>> display = OutputDensityDisplay.from_predictions(
    ...     outputs, sensitive_features=["f", "f", "m", "m"], ax=Figure().subplots(1, 2)
    ... )
    >>> [ax.get_title() for ax in display.axes_]
    ['before, KS = 1.000', 'after, KS = 0.000']
    """

    def __init__(
        self,
        grid: ArrayLike,
        *,
        densities: ArrayLike,
        groups: ArrayLike,
        distances: ArrayLike,
        names: Any = None,
        output_name: str = "output",
    ) -> None:
        self.names = [""] if names is None else [str(name) for name in names]
        self._keep(grid, densities, groups, len(self.names))
        self.distances = np.asarray(distances, dtype=np.float64)
        self.output_name = output_name
        if self.distances.shape != (len(self.names),):
            raise ValueError(
                f"distances must have shape ({len(self.names)},), got "
                f"{self.distances.shape}."
            )

    @classmethod
    def from_predictions(
        cls,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        name: str | None = None,
        kind: str = "kde",
        bins: int | ArrayLike = 50,
        output_name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> OutputDensityDisplay:
        """Draw the density of given outputs.

        Parameters
        ----------
        y_pred : array-like of shape (n_samples,), or mapping of str to such
            Output for each row; or those of several regressors, by name.
        %(sensitive_features)s
        %(name)s
        %(options)s
        %(bad_rows)s
        """
        given = _models.by_name(y_pred, name, "")
        outputs, [(_, groups, codes)] = _models.check_rows(
            given, sensitive_features, "y_pred"
        )
        grid, densities = _densities(outputs, groups, codes, kind, bins)
        if output_name is None:
            output_name = next(
                filter(None, map(_models.series_name, given.values())), "output"
            )
        distances = [
            statistical_parity_ks(values, sensitive_features=codes.view(GroupCodes))
            for values in outputs
        ]
        display = cls(
            grid,
            densities=densities,
            groups=groups,
            distances=distances,
            names=list(given),
            output_name=output_name,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _models.estimator_method(from_predictions, "predict")

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the densities.

        Parameters
        ----------
        %(axes)s
        ValueError
            If the axes are not one, nor one for each regressor.
        """
        n_models = len(self.names)
        size = {"figsize": (2.5 + 3.5 * n_models, 3.5), "sharex": True, "sharey": True}
        ax = _draw.make_axes(self, ax, 1, n_models, **size)
        self.axes_ = np.asarray(ax, dtype=object).ravel()
        if self.axes_.size not in {1, n_models}:
            raise ValueError(
                f"ax must be one axes, or one for each of the {n_models} regressors, "
                f"got {self.axes_.size}."
            )
        self.figure_, last = self.axes_[0].figure, self.axes_[-1]
        self.lines_: list[list[Any]] = []
        self.areas_: list[list[Any]] = []
        overlaid = self.axes_.size < n_models
        for i in range(n_models):
            self._draw(last if overlaid else self.axes_[i], i, overlaid, line_kwargs)
        if legend:
            _draw.legend(last, "group", self._handles() if overlaid else None)
        found = list(zip(map(_draw.literal, self.names), self.distances, strict=True))
        titles = [f"{name}, KS = {ks:.3f}".removeprefix(", ") for name, ks in found]
        if overlaid:
            titles = ["KS distance: " + ", ".join(f"{n} {ks:.3f}" for n, ks in found)]
        for i, (one, title) in enumerate(zip(self.axes_, titles, strict=True)):
            one.set_ylim(0.0, 1.05 * self._top)  # the same for all, to be compared
            _draw.labels(one, self.output_name, "density" if i == 0 else "")
            _draw.title(one, title)
        return self

    def _draw(
        self, ax: Any, i: int, overlaid: bool, line_kwargs: dict[str, Any]
    ) -> None:
        """Draw a regressor: lines, and areas below them unless others lie there."""
        lines, areas = [], []
        for g, group in enumerate(self.groups):
            style = _draw.curve(g, group)
            if overlaid:
                style["linestyle"] = _draw.LINES[i % len(_draw.LINES)]
                style["marker"] = _draw.MARKERS[g % len(_draw.MARKERS)]
                # Not at the same place for all lines, which may coincide.
                style["markevery"] = (_EVERY * ((i / 2 + g / 4) % 1), _EVERY)
                style["markersize"] = 4
            style |= line_kwargs
            line, x, y = self._draw_density(ax, self.densities[i, g], style)
            lines.append(line)
            if not overlaid:
                fill = {"color": line.get_color(), "alpha": 0.15, "linewidth": 0}
                areas.append(ax.fill_between(x, y, **fill))
        self.lines_.append(lines)
        self.areas_.append(areas)

    def _handles(self) -> list[Any]:
        """Return entries for groups and for regressors, not for every pair."""
        from matplotlib.lines import Line2D

        handles: list[Any] = [
            Line2D(
                [], [], color=n.get_color(), marker=n.get_marker(), label=n.get_label()
            )
            for n in self.lines_[0]
        ]
        handles.append("regressor")
        for lines, name in zip(
            self.lines_, map(_draw.literal, self.names), strict=True
        ):
            style = {"color": "black", "linestyle": lines[0].get_linestyle()}
            handles.append(Line2D([], [], label=name, **style))
        return handles


def _score_range(part: NDArray[Any], alpha: float, beta: float) -> tuple[float, float]:
    """Lowest and highest score of the rows with ranks in [alpha, beta), 0 the top."""
    n = part.size
    first = min(int(np.floor(alpha * n + _ROUNDING)), n - 1)
    last = max(int(np.ceil(beta * n - _ROUNDING)) - 1, first)
    descending = np.sort(part)[::-1]
    return descending[last], descending[first]


def _densities(
    outputs: list[NDArray[Any]],
    groups: NDArray[Any],
    codes: NDArray[np.int64],
    kind: str,
    bins: int | ArrayLike,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid, or edges, for all; the density of each model for each group."""
    parts = [values[codes == g] for values in outputs for g in range(groups.size)]
    if kind == "histogram":
        grid = np.histogram_bin_edges(np.concatenate(outputs), bins)
        counts = np.array([np.histogram(part, grid)[0] for part in parts])
        # A share of all rows of the group: the edges given may leave some out.
        sizes = np.array([[part.size] for part in parts])
        found = counts / (sizes * np.diff(grid))
    elif kind == "kde":
        grid, found = _kernel_densities(parts, groups.tolist() * len(outputs))
    else:
        raise ValueError(f"kind must be 'histogram' or 'kde', got {kind!r}.")
    return grid, found.reshape(len(outputs), groups.size, -1)


def _kernel_densities(
    parts: list[NDArray[Any]], groups: list[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid that covers all parts, and their densities."""
    from scipy.stats import gaussian_kde

    for group, part in zip(groups, parts, strict=True):
        # The square of what is next to nothing is nothing.
        if not part.var() > 0:
            raise ValueError(
                f"Group {group!r} has no kernel density: its values are all the same, "
                "or nearly so. Use kind='histogram'."
            )
    kernels = [gaussian_kde(part) for part in parts]
    reach = [_BEYOND * np.sqrt(kernel.covariance[0, 0]) for kernel in kernels]
    low = min(part.min() - r for part, r in zip(parts, reach, strict=True))
    high = max(part.max() + r for part, r in zip(parts, reach, strict=True))
    grid = np.linspace(low, high, _GRID)
    return grid, np.array([kernel(grid) for kernel in kernels])
