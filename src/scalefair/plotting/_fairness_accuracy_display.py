"""Error against unfairness of several methods, as their parameter varies."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import mean_squared_error

from scalefair.metrics import statistical_parity_ks
from scalefair.plotting._labels import draw_title, label_axes, literal
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._results import rows_of, setting_of, stack_repeats
from scalefair.plotting._scores import (
    as_mapping,
    models_by_name,
    name_of,
    predict_rows,
)
from scalefair.plotting._trade_off import (
    as_table,
    check_labels,
    check_tables,
    count_of_splits,
    describe_ends,
    draw_bars,
    finish,
    style_of,
)

__all__ = ["FairnessAccuracyDisplay"]


class FairnessAccuracyDisplay:
    """Error against unfairness, a curve for each method.

    A point is a setting of a method, such as one `mean_reduction`, averaged over
    repeated splits; bars in both directions are standard deviations over the splits.
    A line joins the points in the order of the settings. Low and to the left is
    good; the title names the fairest and the most accurate point. Use `from_results`
    to draw a table of runs.

    Parameters
    ----------
    error : mapping of str to array-like of shape (n_points, n_repeats)
        For each method, by its name, the error of each setting in each split; or an
        array of shape (n_points,) without repeats. Methods may have different
        numbers of settings and splits; a single setting is a point without line.
    unfairness : mapping of str to array-like, shaped as in `error`
        The distance between the groups.
    point_labels : mapping of str to sequence, or None, default=None
        For methods that it names, what to write beside each point, such as the
        value of the parameter. Labels for which there is no room are left out.
    error_name, unfairness_name : str
        What is measured, for the axes.

    Attributes
    ----------
    means : dict of str to ndarray of shape (n_points, 2)
        Mean unfairness and error of the points of each method.
    deviations : dict of str to ndarray of shape (n_points, 2)
        Standard deviations over the splits (divisor n - 1); zero without repeats.
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : dict of str to matplotlib Line2D
        The points of each method and the line that joins them.
    bars_ : dict of str to list of matplotlib LineCollection
        The horizontal and the vertical bars of each method.

    Raises
    ------
    ValueError
        If shapes or methods do not fit together, or a number is not finite.

    See Also
    --------
    ParetoFrontDisplay : Accuracy against fairness, joining the settings that no
        other one beats.
    OutputDensityDisplay : The outputs that one point stands for.

    Notes
    -----
    The bars tell how much splits differ, not how well the mean is known: that is
    better by the root of the number of splits. Methods differ in colour (the palette
    of Okabe and Ito), marker and line, and can be told apart in grey.

    References
    ----------
    .. [1] Z. Zuo, D. Zhu, M. M. Khalili, "Post-processing for fair regression via
       explainable SVD", figure 4.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import FairnessAccuracyDisplay
    >>> display = FairnessAccuracyDisplay(
    ...     {"unprocessed": [0.2], "corrected": [[0.21, 0.23], [0.25, 0.27]]},
    ...     unfairness={"unprocessed": [0.3], "corrected": [[0.2, 0.3], [0.1, 0.1]]},
    ... ).plot(Figure().subplots())
    >>> display.means["corrected"]
    array([[0.25, 0.22],
           [0.1 , 0.26]])
    """

    ax_: Any
    figure_: Any
    lines_: dict[str, Any]
    bars_: dict[str, list[Any]]

    def __init__(
        self,
        error: Mapping[str, ArrayLike],
        *,
        unfairness: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None = None,
        error_name: str = "mean squared error",
        unfairness_name: str = "KS distance between groups",
    ) -> None:
        if not error or list(error) != list(unfairness):
            raise ValueError(
                "error and unfairness must have the same methods in the same order, "
                f"got {list(error)} and {list(unfairness)}."
            )
        self.error = {name: as_table(error[name], name, "error") for name in error}
        self.unfairness = {
            name: as_table(unfairness[name], name, "unfairness") for name in error
        }
        self.point_labels = dict(point_labels or {})
        self.error_name = error_name
        self.unfairness_name = unfairness_name
        check_tables(self.error, self.unfairness, ("error", "unfairness"))
        check_labels(self.point_labels, self.error)
        tables = {
            name: np.stack([self.unfairness[name], self.error[name]], axis=-1)
            for name in self.error
        }
        self.means = {name: table.mean(axis=1) for name, table in tables.items()}
        self.deviations = {name: _deviations(table) for name, table in tables.items()}

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        method: str = "method",
        setting: str | None = "setting",
        error: str = "mse",
        unfairness: str = "ks",
        label_points: bool = True,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a table of runs: one row for each method, setting and split.

        Parameters
        ----------
        results : DataFrame, mapping of str to columns, or iterable of mappings
            The runs. Rows of the same method and setting are repeats.
        method : str, default="method"
            Column with the name of the method.
        setting : str or None, default="setting"
            Column that tells the points of a method apart. Points are joined in the
            order of their numbers, or of the table if a setting is not a number.
            None makes all rows of a method repeats of one point, and so does NaN
            for methods without parameter.
        error : str, default="mse"
            Column with the error.
        unfairness : str, default="ks"
            Column with the distance between the groups.
        label_points : bool, default=True
            Whether to write the setting beside each point, for methods with several.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        FairnessAccuracyDisplay
            The display, drawn; the axes have the names of the columns, but for the
            default ones.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If a column is missing, there are no rows, the settings of a method have
            different numbers of repeats, or a measure is not finite.
        """
        names = {"method": method, "error": error, "unfairness": unfairness}
        if setting is not None:
            names["setting"] = setting
        runs: dict[str, dict[Any, list[tuple[float, float]]]] = {}
        for row in rows_of(results, names):
            points = runs.setdefault(str(row[method]), {})
            point = None if setting is None else setting_of(row, setting)
            points.setdefault(point, []).append((row[error], row[unfairness]))
        if not runs:
            raise ValueError("results has no rows.")
        runs = {name: _in_order(points) for name, points in runs.items()}
        tables = {name: stack_repeats(name, points) for name, points in runs.items()}
        axes = {"error_name": error, "unfairness_name": unfairness}
        display = cls(
            {name: table[..., 0] for name, table in tables.items()},
            unfairness={name: table[..., 1] for name, table in tables.items()},
            point_labels={
                name: list(points)
                for name, points in runs.items()
                if label_points and len(points) > 1
            },
            **{key: name for key, name in axes.items() if name not in ("mse", "ks")},
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        predictions: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a point for each model's predictions.

        Parameters
        ----------
        y_true : array-like of shape (m,)
            True targets. The name of a Series is shown beside the error.
        predictions : array-like of shape (m,), or mapping of str to such
            Predictions for each row; or those of several models, by their names.
        sensitive_features : array-like of shape (m,)
            Group of each row.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        FairnessAccuracyDisplay
            The display, drawn: mean squared error against the distance of
            Kolmogorov and Smirnov between the groups' predictions.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If lengths differ, a number is not finite, or there is only one group.
        """
        single = None if isinstance(predictions, Mapping) else "predictions"
        given = as_mapping(predictions, single)
        unfairness = {
            name: [statistical_parity_ks(y, sensitive_features=sensitive_features)]
            for name, y in given.items()
        }
        error = {
            name: [float(mean_squared_error(y_true, y))] for name, y in given.items()
        }
        target = name_of(y_true)
        of_target = f" of {literal(target)}" if target else ""
        display = cls(
            error, unfairness=unfairness, error_name=f"mean squared error{of_target}"
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimators: Any,
        X: Any,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> FairnessAccuracyDisplay:
        """Draw a point for each fitted regressor.

        Parameters
        ----------
        estimators : regressor, or mapping of str to regressors
            Fitted, with `predict`; or several, by their names. Each is given the
            groups if it takes them.
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows that they predict.
        y, sensitive_features, ax, legend, **line_kwargs
            As for `from_predictions`.

        Returns
        -------
        FairnessAccuracyDisplay
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
        predictions = {
            name: predict_rows(model, X, sensitive_features)
            for name, model in models_by_name(estimators).items()
        }
        return cls.from_predictions(
            y,
            predictions,
            sensitive_features=sensitive_features,
            ax=ax,
            legend=legend,
            **line_kwargs,
        )

    def plot(
        self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> FairnessAccuracyDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        FairnessAccuracyDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        if ax is None:
            _, ax = import_pyplot(self).subplots(figsize=(8, 5), layout="constrained")
        self.lines_, self.bars_ = {}, {}
        for i, name in enumerate(self.means):
            self._draw(ax, i, name, line_kwargs)
        finish(ax, self.means, self.point_labels, legend=legend)
        label_axes(ax, self.unfairness_name, self.error_name)
        draw_title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, i: int, name: str, line_kwargs: dict[str, Any]) -> None:
        means, deviations = self.means[name], self.deviations[name]
        style = {**style_of(i), "label": literal(name), **line_kwargs}
        if len(means) == 1:
            style["linestyle"] = ""
        (self.lines_[name],) = ax.plot(*means.T, **style)
        color = self.lines_[name].get_color()
        self.bars_[name] = []
        if self.error[name].shape[1] > 1:
            self.bars_[name] += draw_bars(ax, means, deviations, color)

    def _findings(self) -> list[str]:
        count = count_of_splits(self.error)
        bars = f"(means and standard deviations of {count} splits)" if count else ""
        return [*describe_ends(self.means, ("distance", "error"), sign=-1), bars]


def _deviations(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard deviations over axis 1; zero for a single repeat."""
    if table.shape[1] == 1:
        return np.zeros((len(table), table.shape[2]))
    deviations: NDArray[np.float64] = table.std(axis=1, ddof=1)
    return deviations


def _in_order(points: dict[Any, Any]) -> dict[Any, Any]:
    """Return the settings from the smallest to the largest if they are numbers."""
    if all(isinstance(point, Real) for point in points):
        return dict(sorted(points.items()))
    return points
