"""The outputs of regressors for each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from scalefair._docs import documented
from scalefair.metrics import statistical_parity_ks
from scalefair.plotting import _draw, _models

_TEXTS = {
    **_draw.TEXTS,
    "bins": """\
bins : int or array-like of edges, default=50
    Bins of the histogram, the same for all groups and regressors.""",
    "axes": """\
ax : matplotlib Axes, sequence of them or None, default=None
    Where to draw: one axes for each regressor, or a single one for all; None makes
    a figure with one for each, side by side.
legend : bool, default=True
    Whether to show a legend, to the right of the last axes.""",
}
# Parts of the width of the axes between two markers of a line.
_EVERY = 0.08


@documented(**_TEXTS)
class OutputDensityDisplay(_models.ModelDisplay):
    """Density of the outputs for each group, of one regressor or of several.

    Where the densities of the groups agree the regressor treats them alike; titles
    have KS, the largest Kolmogorov-Smirnov distance between two groups. Regressors,
    such as one before and after its correction, are drawn side by side, or overlaid
    when they are given a single axes: then groups differ in colour and marker,
    regressors in line. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    grid : array-like of shape (n,) or (n + 1,)
        Outputs at which densities are given or, for histograms, edges of the bins.
    densities : array-like of shape (n_models, n_groups, n)
        Density of the outputs of each regressor for each group.
    groups : array-like of shape (n_groups,)
        Names of the groups.
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

    Raises
    ------
    ValueError
        If the shapes do not fit together.

    See Also
    --------
    scalefair.metrics.statistical_parity_ks : The distance in the titles.
    FairnessAccuracyDisplay : The errors and distances of many regressors.
    ScoreDensityDisplay : The scores of a classifier, with an interval of ranks.

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", figures 1, 2, 3 and 5.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import OutputDensityDisplay
    >>> display = OutputDensityDisplay.from_predictions(
    ...     {"before": [1.0, 2.0, 3.0, 4.0], "after": [2.0, 3.0, 2.0, 3.0]},
    ...     sensitive_features=["f", "f", "m", "m"],
    ...     ax=Figure().subplots(1, 2),
    ... )
    >>> [ax.get_title() for ax in display.axes_]
    ['before, KS = 1.000', 'after, KS = 0.000']
    """

    _method = "predict"

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
        self.grid = np.asarray(grid, dtype=np.float64)
        self.groups = np.asarray(groups)
        self.distances = np.asarray(distances, dtype=np.float64)
        self.names = [""] if names is None else [str(name) for name in names]
        self.output_name = output_name
        shape = (len(self.names), self.groups.size)
        self.densities = _models.check_densities(densities, self.grid, *shape)
        if self.distances.shape != shape[:1]:
            raise ValueError(
                f"distances must have shape {shape[:1]}, got {self.distances.shape}."
            )

    @classmethod
    def from_predictions(
        cls,
        y_pred: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        kind: str = "kde",
        bins: int | ArrayLike = 50,
        name: str | None = None,
        output_name: str | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> OutputDensityDisplay:
        """Draw the density of given outputs.

        Parameters
        ----------
        y_pred : array-like of shape (n_samples,), or mapping of str to such
            Output for each row; or those of several regressors, for the same rows,
            by their names.
        %(sensitive_features)s
        kind : {"kde", "histogram"}, default="kde"
            A Gaussian kernel density with Scott's bandwidth, whose time grows with
            400 points times the number of rows, or a histogram, for many rows or for
            outputs of few values.
        %(bins)s
        name : str or None, default=None
            Name of a single regressor.
        output_name : str or None, default=None
            What is predicted, with its unit, for the horizontal axis; None takes the
            name of the outputs that are a Series, or "output".
        %(axes)s
        %(line_options)s
        %(bad_rows)s
        """
        given = _models.by_name(y_pred, name, "")
        outputs, groups, codes = _models.check_rows(given, sensitive_features, "y_pred")
        grid, densities = _models.densities(outputs, groups, codes, kind, bins)
        if output_name is None:
            output_name = next(
                filter(None, map(_models.series_name, given.values())), "output"
            )
        display = cls(
            grid,
            densities=densities,
            groups=groups,
            distances=[
                statistical_parity_ks(values, sensitive_features=codes)
                for values in outputs
            ],
            names=list(given),
            output_name=output_name,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the densities.

        Parameters
        ----------
        %(axes)s
        %(line_options)s
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
        top = float(self.densities.max(initial=0.0)) or 1.0
        for i, (one, title) in enumerate(zip(self.axes_, titles, strict=True)):
            one.set_ylim(0.0, 1.05 * top)  # the same for all, to be compared
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
            x, y = _models.outline(self.grid, self.densities[i, g])
            lines += ax.plot(x, y, **{**style, **line_kwargs})
            if not overlaid:
                color = lines[-1].get_color()
                area = ax.fill_between(x, y, color=color, alpha=0.15, linewidth=0)
                areas.append(area)
        self.lines_.append(lines)
        self.areas_.append(areas)

    def _handles(self) -> list[Any]:
        """Return entries for groups and for regressors, not for every pair."""
        from matplotlib.lines import Line2D

        groups = [
            Line2D([], [], color=line.get_color(), marker=line.get_marker())
            for line in self.lines_[0]
        ]
        regressors = [
            Line2D([], [], color="black", linestyle=lines[0].get_linestyle())
            for lines in self.lines_
        ]
        names = [*self.groups, *self.names]
        for handle, name in zip([*groups, *regressors], names, strict=True):
            handle.set_label(_draw.literal(name))
        return [*groups, "regressor", *regressors]
