"""The outputs of regressors for each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair.metrics import statistical_parity_ks
from scalefair.plotting._densities import histograms, kernel_densities, outline
from scalefair.plotting._labels import (
    draw_legend,
    draw_title,
    label_axes,
    listed,
    literal,
)
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._scores import (
    as_mapping,
    check_scores,
    groups_of,
    models_by_name,
    name_of,
    predict_rows,
)
from scalefair.plotting._styles import LINES, MARKERS, PALETTE

__all__ = ["OutputDensityDisplay"]

# Parts of the width of the axes between two markers of a line.
_EVERY = 0.08
# Opacity of the area below a density.
_AREA = 0.15
_KINDS = ("kde", "histogram")


class OutputDensityDisplay:
    """Density of the outputs for each group, of one regressor or of several.

    Where the densities of the groups agree the regressor treats them alike; titles
    have KS, the largest Kolmogorov-Smirnov distance between two groups. Regressors,
    such as one before and after its correction, are drawn side by side, or overlaid
    when they are given a single axes. Use `from_predictions` or `from_estimator`.

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

    Notes
    -----
    Side by side, groups differ in colour (the palette of Okabe and Ito) and line;
    overlaid, groups differ in colour and marker and regressors in line.

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

    axes_: NDArray[Any]
    figure_: Any
    lines_: list[list[Any]]
    areas_: list[list[Any]]

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
        self.densities = np.asarray(densities, dtype=np.float64)
        self.groups = np.asarray(groups)
        self.distances = np.asarray(distances, dtype=np.float64)
        self.names = [""] if names is None else [str(name) for name in names]
        self.output_name = output_name
        self._check()

    def _check(self) -> None:
        n_models, n_groups = len(self.names), self.groups.size
        shape, n = self.densities.shape, self.grid.size
        if shape not in {(n_models, n_groups, n), (n_models, n_groups, n - 1)}:
            raise ValueError(
                f"With {n_models} regressors, {n_groups} groups and {n} points of the "
                f"grid, densities must have shape ({n_models}, {n_groups}, {n}) or, "
                f"for histograms, ({n_models}, {n_groups}, {n - 1}), got {shape}."
            )
        if self.distances.shape != (n_models,):
            raise ValueError(
                f"distances must have shape ({n_models},), got {self.distances.shape}."
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
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        kind : {"kde", "histogram"}, default="kde"
            A Gaussian kernel density with Scott's bandwidth, whose time grows with
            400 points times the number of rows, or a histogram, for many rows or for
            outputs of few values.
        bins : int or array-like of edges, default=50
            Bins of the histogram, the same for all groups and regressors.
        name : str or None, default=None
            Name of a single regressor.
        output_name : str or None, default=None
            What is predicted, with its unit, for the horizontal axis; None takes the
            name of the outputs that are a Series, or "output".
        ax : matplotlib Axes, sequence of them or None, default=None
            Where to draw: one axes for each regressor, or a single one for all;
            None makes a figure with one for each, side by side.
        legend : bool, default=True
            Whether to show a legend, to the right of the last axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        OutputDensityDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If lengths differ, a value is missing or not finite, there is one group
            only, `kind` is unknown, the axes are not one for each regressor, or a
            group has no kernel density because its outputs are all the same.
        """
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {_KINDS}, got {kind!r}.")
        given = as_mapping(y_pred, name if name or isinstance(y_pred, Mapping) else "")
        outputs = [_check_outputs(values, key) for key, values in given.items()]
        groups, codes = groups_of(sensitive_features, len(outputs[0]))
        for key, values in zip(given, outputs, strict=True):
            if len(values) != len(codes):
                raise ValueError(
                    f"All regressors must have outputs for the same rows, but {key!r} "
                    f"has {len(values)} for {len(codes)} rows."
                )
        parts = [values[codes == g] for values in outputs for g in range(groups.size)]
        if kind == "histogram":
            grid, densities = histograms(parts, np.concatenate(outputs), bins)
        else:
            owners = np.tile(groups, len(outputs))
            grid, densities = kernel_densities(parts, owners, "outputs")
        if output_name is None:
            output_name = next(filter(None, map(name_of, given.values())), "output")
        display = cls(
            grid,
            densities=densities.reshape(len(outputs), groups.size, -1),
            groups=groups,
            distances=[
                statistical_parity_ks(values, sensitive_features=codes)
                for values in outputs
            ],
            names=list(given),
            output_name=output_name,
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
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
        """Draw the density of the outputs that fitted regressors give to rows.

        Parameters
        ----------
        estimator : regressor, or mapping of str to regressors
            Fitted, with `predict`; or several, by their names. Each is given the
            groups if it takes them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        sensitive_features : array-like of shape (n_samples,)
            Group of each row.
        kind : {"kde", "histogram"}, default="kde"
            As for `from_predictions`.
        bins : int or array-like of edges, default=50
            As for `from_predictions`.
        name : str or None, default=None
            Name of a single regressor; None takes its class.
        output_name : str or None, default=None
            As for `from_predictions`.
        ax : matplotlib Axes, sequence of them or None, default=None
            As for `from_predictions`.
        legend : bool, default=True
            Whether to show a legend, to the right of the last axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        OutputDensityDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If a regressor is not fitted.
        ImportError
            If matplotlib is missing.
        ValueError
            As for `from_predictions`.
        """
        return cls.from_predictions(
            {
                key: predict_rows(each, X, sensitive_features)
                for key, each in models_by_name(estimator, name).items()
            },
            sensitive_features=sensitive_features,
            kind=kind,
            bins=bins,
            output_name=output_name,
            ax=ax,
            legend=legend,
            **line_kwargs,
        )

    def plot(
        self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> OutputDensityDisplay:
        """Draw the densities.

        Parameters
        ----------
        ax : matplotlib Axes, sequence of them or None, default=None
            Where to draw: one axes for each regressor, or a single one for all;
            None makes a figure with one for each, side by side.
        legend : bool, default=True
            Whether to show a legend, to the right of the last axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        OutputDensityDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the axes are not one, nor one for each regressor.
        """
        n_models = len(self.names)
        if ax is None:
            _, ax = import_pyplot(self).subplots(
                1,
                n_models,
                figsize=(2.5 + 3.5 * n_models, 3.5),
                sharex=True,
                sharey=True,
                layout="constrained",
            )
        self.axes_ = np.asarray(ax, dtype=object).ravel()
        if self.axes_.size not in {1, n_models}:
            raise ValueError(
                f"ax must be one axes, or one for each of the {n_models} regressors, "
                f"got {self.axes_.size}."
            )
        self.figure_, self.lines_, self.areas_ = self.axes_[0].figure, [], []
        side_by_side = self.axes_.size == n_models
        if side_by_side:
            for i, one in enumerate(self.axes_):
                self._draw_alone(one, i, line_kwargs)
        else:
            self._draw_overlaid(self.axes_[0], line_kwargs)
        top = float(self.densities.max(initial=0.0)) or 1.0
        for one in self.axes_:
            one.set_ylim(0.0, 1.05 * top)  # the same for all, to be compared
        if legend and side_by_side:
            draw_legend(self.axes_[-1], "group")
        elif legend:
            self._explain_overlaid(self.axes_[0])
        for i, one in enumerate(self.axes_):
            label_axes(one, self.output_name, "density" if i == 0 else "")
            draw_title(one, self._caption(i) if side_by_side else self._captions())
        return self

    def _draw_alone(self, ax: Any, i: int, line_kwargs: dict[str, Any]) -> None:
        """One regressor: groups differ in colour and line."""
        lines, areas = [], []
        for g, group in enumerate(self.groups):
            x, y = outline(self.grid, self.densities[i, g])
            style = {
                "color": PALETTE[g % len(PALETTE)],
                "linestyle": LINES[g % len(LINES)],
                "label": literal(group),
                **line_kwargs,
            }
            lines += ax.plot(x, y, **style)
            color = lines[-1].get_color()
            areas.append(ax.fill_between(x, y, color=color, alpha=_AREA, linewidth=0))
        self.lines_.append(lines)
        self.areas_.append(areas)

    def _draw_overlaid(self, ax: Any, line_kwargs: dict[str, Any]) -> None:
        """All regressors: groups differ in colour and marker, regressors in line."""
        for i in range(len(self.names)):
            lines = []
            for g, group in enumerate(self.groups):
                style = {
                    "color": PALETTE[g % len(PALETTE)],
                    "linestyle": LINES[i % len(LINES)],
                    "marker": MARKERS[g % len(MARKERS)],
                    # Not at the same place for all lines, which may coincide.
                    "markevery": (_EVERY * ((i / 2 + g / 4) % 1), _EVERY),
                    "markersize": 4,
                    "label": literal(f"{group}, {self.names[i]}"),
                    **line_kwargs,
                }
                curve = outline(self.grid, self.densities[i, g])
                lines += ax.plot(*curve, **style)
            self.lines_.append(lines)
            self.areas_.append([])

    def _explain_overlaid(self, ax: Any) -> None:
        """Add a legend of groups and of regressors, not of every pair."""
        from matplotlib.lines import Line2D

        groups = [
            Line2D([], [], color=line.get_color(), marker=line.get_marker(), label=name)
            for line, name in zip(
                self.lines_[0], map(literal, self.groups), strict=True
            )
        ]
        regressors = [
            Line2D(
                [], [], color="black", linestyle=lines[0].get_linestyle(), label=name
            )
            for lines, name in zip(self.lines_, map(literal, self.names), strict=True)
        ]
        draw_legend(ax, "group", [*groups, "regressor", *regressors])

    def _caption(self, i: int) -> list[str]:
        distance = f"KS = {self.distances[i]:.3f}"
        name = self.names[i]
        return [f"{literal(name)},", distance] if name else [distance]

    def _captions(self) -> list[str]:
        found = [
            f"{literal(name)} {distance:.3f}"
            for name, distance in zip(self.names, self.distances, strict=True)
        ]
        return ["KS distance:", *listed(found)]


def _check_outputs(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return the outputs as a vector of finite numbers, or say what is wrong."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]  # as some regressors return a single output
    given = f"y_pred of {name!r}" if name else "y_pred"
    return check_scores(array, given, "value")
