"""Densities of the outputs of models in each group: of scores, and of regressors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.metrics import partial_parity_gap, statistical_parity_ks
from scalefair.plotting import _draw, _inputs

_HATCHES = ("///", "\\\\\\", "...", "xxx", "ooo")

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
    A histogram, or a Gaussian kernel density at 400 points, Scott's bandwidth; weighted
    rows count as :math:`(\\sum w)^2 / \\sum w^2` for it.
bins : int or array-like of edges, default=50
    Bins of the histogram, the same for all."""
_SCORE_OPTIONS = f"""\
{_TEXTS["given"]}
{_TEXTS["attributes"]}
{_KIND.format("histogram")}
{_TEXTS["threshold"]}
{_TEXTS["drawing"]}"""
_OUTPUT_OPTIONS = f"""\
{_KIND.format("kde")}
output_name : str or None, default=None
    Name of the outputs, with the unit; None takes the name of a Series, or "output".
{_TEXTS["axes"]}"""


class _DensityDisplay:
    """Densities of values in each group, as curves or as outlines of histograms."""

    def _set_densities(
        self, grid: ArrayLike, densities: ArrayLike, groups: ArrayLike, *n_models: int
    ) -> None:
        """Check and keep densities (*n_models, n_groups, n); one model has no axis."""
        self.grid = _inputs.as_array(grid, "grid", ("n",))
        self.groups = np.asarray(groups)
        curve = (*n_models, self.groups.size, self.grid.size)
        histogram = (*curve[:-1], self.grid.size - 1)
        self.densities = _inputs.as_array(densities, "densities", curve, histogram)
        # All are 0 if no value is in a bin: the axis still needs a height.
        self._max_density = float(self.densities.max()) or 1.0

    def _draw_density(
        self, ax: Any, density: NDArray[Any], style: dict[str, Any]
    ) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Draw a curve, or the outline of a histogram; return line and coordinates."""
        x, y = self.grid, density
        if y.size < x.size:  # a histogram: x are the edges of its bins
            # Each edge twice, with the heights at its two sides; 0 outside.
            x, y = np.repeat(x, 2), np.pad(np.repeat(y, 2), 1)
        (line,) = ax.plot(x, y, **style)
        return line, x, y


@documented(
    **_TEXTS,
    options=_SCORE_OPTIONS,
    options_of_models=f"""\
interval : tuple of float or None, default=None
    Ranks, from the top, that are marked; None takes those of the model, or all. If
    `given` or `attributes` is None, it is that of the model, too.
{_SCORE_OPTIONS}""",
)
class ScoreDensityDisplay(_DensityDisplay):
    r"""Density of the scores of each group, with the interval of ranks marked.

    The hatched part of a density, and the bar below it, is the range of the scores of
    the rows ranked in the interval within their group: where the groups are compared.
    Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    %(grid)s
    densities : array-like of shape (n_groups, n)
        Density of the scores of each group.
    %(groups)s
    score_ranges : array-like of shape (n_groups, 2)
        Lowest and highest score of each group's rows that are ranked in the interval.
    interval : tuple of float, default=(0.0, 1.0)
        Ranks that are marked, from the top of each group. A row partly in it counts.
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
        self._set_densities(grid, densities, groups)
        self.score_ranges = _inputs.as_array(
            score_ranges, "score_ranges", (self.groups.size, 2)
        )
        self.interval = check_interval(interval)
        self.threshold = threshold
        self.name = name
        self.gap = gap

    @classmethod
    @checked_call
    def from_predictions(
        cls,
        scores: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
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
        """Draw the density of scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            Score of each row.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        interval : tuple of float, default=(0.0, 1.0)
            Ranks, from the top of each group, that are marked.
        %(name)s
        %(options)s
        %(bad_rows)s
        """
        interval = check_interval(interval)
        models = _inputs.by_name(scores, name, "")
        arrays, members = _inputs.check_outputs(
            models,
            sensitive_features,
            group_probabilities,
            "scores",
            attributes,
            sample_weight,
        )
        if len(arrays) > 1:
            raise ValueError(f"The figure is for one model, got {list(models)}.")
        [values], [name] = arrays, models
        gap = partial_parity_gap(
            values,
            **_inputs.as_arguments(members, group_probabilities),
            y_true=y_true,
            given=given,
            interval=interval,
            sample_weight=sample_weight,
        )
        # The groups drawn: those of each attribute, among the rows of each label.
        names, parts, compared = [], [], members.compared
        row_sets = _inputs.compared_rows(given, y_true, len(values))
        for label, rows in row_sets.items():
            for attribute in compared:
                prefix = f"{attribute.name} " if len(compared) > 1 else ""
                for k, group in enumerate(attribute.groups.tolist()):
                    names.append(f"{prefix}{group}{label}")
                    part = _inputs.values_of_group(members, attribute, k, values, rows)
                    parts.append(part)
        is_plain = len(compared) == 1 and given is None
        groups = compared[0].groups if is_plain else np.array(names)
        grid, densities = _densities(parts, groups.tolist(), kind, bins)
        display = cls(
            grid,
            densities=densities,
            groups=groups,
            score_ranges=[_score_range(*part, *interval) for part in parts],
            interval=interval,
            threshold=threshold,
            name=name or None,
            gap=gap,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _inputs.estimator_method(
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
        bar_spacing = 0.05 * self._max_density
        for g, (low, high) in enumerate(self.score_ranges):
            # 1. The density of a group.
            style = {**_draw.curve(g, self.groups[g]), **line_kwargs}
            line, x, y = self._draw_density(ax, self.densities[g], style)
            self.lines_.append(line)
            # 2. The part in the interval, hatched. Its ends lie between points of the
            # outline: heights there are interpolated.
            inside = (x > low) & (x < high)
            y_low, y_high = np.interp([low, high], x, y)
            mark = ax.fill_between(
                np.array([low, *x[inside], high]),
                np.array([y_low, *y[inside], y_high]),
                hatch=_HATCHES[g % len(_HATCHES)],
                facecolor="none",
                edgecolor=line.get_color(),
                linewidth=0.0,
                alpha=0.5,
            )
            self.marks_.append(mark)
            # 3. The same range as a bar below the axis.
            style = {"color": line.get_color(), "linewidth": 3, "marker": "|"}
            self.bars_ += ax.plot([low, high], [-bar_spacing * (g + 1)] * 2, **style)
        self.threshold_line_ = None
        if self.threshold is not None:
            style = {"color": "black", "linewidth": 1.2, "label": "threshold"}
            self.threshold_line_ = ax.axvline(self.threshold, **style)
        ax.axhline(0.0, color="0.3", linewidth=0.8, zorder=1.5)
        # The largest density is at 20 spacings. Ticks are for densities, not for bars.
        ax.set_ylim(-bar_spacing * (self.groups.size + 0.5), 21 * bar_spacing)
        ax.set_yticks([t for t in ax.get_yticks() if 0 <= t <= 21 * bar_spacing])
        if legend:
            _draw.legend(ax, "group")
        _draw.labels(ax, "score", "density")
        # The title has the name of the model, the gap, and the ranks that are marked.
        ranks, text = _draw.ranks(self.interval), ""
        if self.gap is not None:
            largest = "largest " if self.groups.size > 2 else ""
            text = f"{largest}gap {self.gap:.3f}"
        if ranks:
            text = f"{text} in {ranks} (hatched)" if text else f"hatched: {ranks}"
        name = "" if self.name is None else _draw.literal(self.name)
        _draw.title(ax, ": ".join(filter(None, [name, text])))
        self.ax_, self.figure_ = ax, ax.figure
        return self


@documented(**_TEXTS, options=_OUTPUT_OPTIONS, options_of_models=_OUTPUT_OPTIONS)
class OutputDensityDisplay(_DensityDisplay):
    """Density of the outputs for each group, of one regressor or of several.

    The nearer the densities, the nearer the outputs of the groups; titles have KS, the
    largest distance between two (`metrics.statistical_parity_ks`). Regressors are side
    by side or, on a single axes, overlaid. Use `from_predictions` or `from_estimator`.

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
        Name of the outputs, with the unit, for the horizontal axis.

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
        self._set_densities(grid, densities, groups, len(self.names))
        self.distances = _inputs.as_array(distances, "distances", (len(self.names),))
        self.output_name = output_name

    @classmethod
    @checked_call
    def from_predictions(
        cls,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        kind: str = "kde",
        bins: int | ArrayLike = 50,
        output_name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> OutputDensityDisplay:
        """Draw the density of outputs.

        Parameters
        ----------
        y_pred : array-like of shape (n_samples,), or mapping of str to such
            Output for each row; or those of several regressors, by name.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        %(name)s
        %(options)s
        %(bad_rows)s
        """
        models = _inputs.by_name(y_pred, name, "")
        outputs, members = _inputs.check_outputs(
            models,
            sensitive_features,
            group_probabilities,
            "y_pred",
            sample_weight=sample_weight,
        )
        attribute, all_rows = members.compared[0], np.ones(len(outputs[0]), bool)
        groups, n_groups = attribute.groups, len(attribute.groups)
        parts = [
            _inputs.values_of_group(members, attribute, g, values, all_rows)
            for values in outputs
            for g in range(n_groups)
        ]
        names = groups.tolist() * len(outputs)
        grid, densities = _densities(parts, names, kind, bins)
        if output_name is None:
            series_names = map(_inputs.series_name, models.values())
            output_name = next(filter(None, series_names), "output")
        display = cls(
            grid,
            densities=densities.reshape(len(outputs), n_groups, -1),
            groups=groups,
            distances=[
                statistical_parity_ks(
                    values,
                    **_inputs.as_arguments(members, group_probabilities),
                    sample_weight=sample_weight,
                )
                for values in outputs
            ],
            names=list(models),
            output_name=output_name,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _inputs.estimator_method(from_predictions, "predict")

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
        is_overlaid = self.axes_.size < n_models
        # 1. The density of each group, of each regressor.
        self.lines_: list[list[Any]] = [[] for _ in self.names]
        self.areas_: list[list[Any]] = [[] for _ in self.names]
        for i, g in np.ndindex(self.densities.shape[:2]):
            style = _draw.curve(g, self.groups[g])
            if is_overlaid:  # regressors have dashes, groups have markers
                style |= {
                    "linestyle": _draw.LINES[i % len(_draw.LINES)],
                    "marker": _draw.MARKERS[g % len(_draw.MARKERS)],
                    # First marker and spacing along the line, as parts of the diagonal
                    # of the axes: markers of lines that coincide are apart.
                    "markevery": (0.08 * ((i / 2 + g / 4) % 1), 0.08),
                    "markersize": 4,
                }
            ax = last if is_overlaid else self.axes_[i]
            style |= line_kwargs
            line, x, y = self._draw_density(ax, self.densities[i, g], style)
            self.lines_[i].append(line)
            if not is_overlaid:
                style = {"color": line.get_color(), "alpha": 0.15, "linewidth": 0}
                self.areas_[i].append(ax.fill_between(x, y, **style))
        # 2. A legend of the groups and, where they are overlaid, of the regressors.
        names = list(map(_draw.literal, self.names))
        if legend and is_overlaid:
            handles: list[Any] = [
                _draw.key(n.get_label(), color=n.get_color(), marker=n.get_marker())
                for n in self.lines_[0]
            ]
            handles.append("regressor")
            for lines, name in zip(self.lines_, names, strict=True):
                dashes = lines[0].get_linestyle()
                handles.append(_draw.key(name, color="black", linestyle=dashes))
            _draw.legend(last, "group", handles)
        elif legend:
            _draw.legend(last, "group")
        # 3. Titles have the distance between the groups, of each regressor.
        distances = list(zip(names, self.distances, strict=True))
        titles = [f"{name}, KS = {ks:.3f}".removeprefix(", ") for name, ks in distances]
        if is_overlaid:
            values = ", ".join(f"{name} {ks:.3f}" for name, ks in distances)
            titles = [f"KS distance: {values}"]
        for i, (axes, title) in enumerate(zip(self.axes_, titles, strict=True)):
            axes.set_ylim(0.0, 1.05 * self._max_density)  # the same, to be compared
            _draw.labels(axes, self.output_name, "density" if i == 0 else "")
            _draw.title(axes, title)
        return self


def _score_range(
    scores: NDArray[Any], weights: _inputs.Weights, alpha: float, beta: float
) -> tuple[float, float]:
    """Lowest and highest score of the rows with ranks in [alpha, beta), 0 the top.

    A row that is partly in the interval counts.
    """
    n, order = scores.size, np.argsort(-scores)
    # Number of rows from the top down to each row, itself included. Of weighted rows
    # the sum of the weights, divided by their mean.
    ends = np.arange(1.0, n + 1)
    if weights is not None:
        ends = np.cumsum(weights[order])
        ends *= n / ends[-1]
    # alpha * n and beta * n are rounded: a row of which at most 1e-9 is in the interval
    # does not count.
    first = min(int(np.searchsorted(ends, alpha * n + 1e-9, side="right")), n - 1)
    last = min(int(np.searchsorted(ends, beta * n - 1e-9)), n - 1)
    return scores[order[max(first, last)]], scores[order[first]]


def _densities(
    parts: list[tuple[NDArray[Any], _inputs.Weights]],
    names: list[Any],
    kind: str,
    bins: int | ArrayLike,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a grid, or edges of bins, for all parts, and the density of each.

    A part is a group's values, and their weights or None.
    """
    samples = [values for values, _ in parts]
    if kind == "histogram":
        edges = np.histogram_bin_edges(np.concatenate(samples), bins)
        counts = np.array([np.histogram(x, edges, weights=w)[0] for x, w in parts])
        # Divided by all rows of the part: the edges of a user may exclude some.
        sizes = np.array([[x.size if w is None else w.sum()] for x, w in parts])
        return edges, counts / (sizes * np.diff(edges))
    if kind != "kde":
        raise ValueError(f"kind must be 'histogram' or 'kde', got {kind!r}.")
    from scipy.stats import gaussian_kde

    for name, values in zip(names, samples, strict=True):
        if not values.var() > 0:  # squares of tiny differences underflow to 0
            raise ValueError(
                f"Group {name!r} has no kernel density: its values are all the same, "
                "or nearly so. Use kind='histogram'."
            )
    kernels = [gaussian_kde(values, weights=weights) for values, weights in parts]
    # The grid goes beyond the extreme values by three standard deviations of the
    # kernel: the density is nearly 0 there.
    widths = [3.0 * np.sqrt(kernel.covariance[0, 0]) for kernel in kernels]
    low = min(x.min() - width for x, width in zip(samples, widths, strict=True))
    high = max(x.max() + width for x, width in zip(samples, widths, strict=True))
    grid = np.linspace(low, high, 400)
    return grid, np.array([kernel(grid) for kernel in kernels])
