"""Accuracy against fairness of several methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils.validation import check_is_fitted

from scalefair.plotting._labels import draw_title, label_axes, literal
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._results import rows_of, setting_of, stack_repeats
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

__all__ = ["ParetoFrontDisplay"]

# Opacity of points that are beaten.
_DOMINATED = 0.35


class ParetoFrontDisplay:
    r"""Accuracy against fairness, a front for each method.

    A point is a setting of a method, such as one kappa, averaged over repeated
    splits; bars in both directions are confidence intervals of the two means. A
    line joins the points of a method that none of its other points beats in both
    accuracy and fairness; the others are drawn lighter and without line. Use
    `from_results` to draw a table of runs. The title names the fairest and the most
    accurate point.

    Parameters
    ----------
    accuracy : mapping of str to array-like of shape (n_points, n_repeats)
        For each method, by its name, the accuracy of each setting in each split; or
        an array of shape (n_points,) without repeats. Methods may have different
        numbers of settings and splits.
    fairness : mapping of str to array-like, shaped as in `accuracy`
        One minus the gap between the groups.
    point_labels : mapping of str to sequence, or None, default=None
        For methods that it names, what to write beside each point, such as kappa.
        Labels for which there is no room are left out.
    confidence : float, default=0.95
        Level of the confidence intervals, between 0 and 1.

    Attributes
    ----------
    means : dict of str to ndarray of shape (n_points, 2)
        Mean fairness and accuracy of the points of each method.
    half_widths : dict of str to ndarray of shape (n_points, 2)
        Half widths of their confidence intervals; zero without repeats.
    dominated : dict of str to ndarray of bool of shape (n_points,)
        Which points are beaten by another one of the same method.
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : dict of str to matplotlib Line2D
        The front of each method.
    dominated_ : dict of str to matplotlib Line2D
        The other points of each method.
    bars_ : dict of str to list of matplotlib LineCollection
        The bars of each method.

    Raises
    ------
    ValueError
        If shapes or methods do not fit together, a number is not finite, or
        `confidence` is not between 0 and 1.

    See Also
    --------
    GroupRateDisplay : The rates of two groups, threshold by threshold.

    Notes
    -----
    The half width of an interval is :math:`t\, s / \sqrt{n}` for `n` splits with
    standard deviation `s` (divisor n - 1) and the quantile `t` of Student's
    distribution with n - 1 degrees of freedom. Splits of the same rows are not
    independent, so the intervals are an indication. Methods differ in colour (the
    palette of Okabe and Ito), marker and line, and can be told apart in grey.

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing Fairness Where It Matters: An Approach
       Based on Difference-of-Convex Constraints", figure 1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import ParetoFrontDisplay
    >>> display = ParetoFrontDisplay(
    ...     {"DC": [0.83, 0.84, 0.85], "penalty": [0.82, 0.81]},
    ...     fairness={"DC": [0.95, 0.90, 0.60], "penalty": [0.90, 0.85]},
    ... ).plot(Figure().subplots())
    >>> display.dominated["penalty"]
    array([False,  True])
    """

    ax_: Any
    figure_: Any
    lines_: dict[str, Any]
    dominated_: dict[str, Any]
    bars_: dict[str, list[Any]]

    def __init__(
        self,
        accuracy: Mapping[str, ArrayLike],
        *,
        fairness: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None = None,
        confidence: float = 0.95,
    ) -> None:
        if not accuracy or list(accuracy) != list(fairness):
            raise ValueError(
                "accuracy and fairness must have the same methods in the same order, "
                f"got {list(accuracy)} and {list(fairness)}."
            )
        if not 0 < confidence < 1:
            raise ValueError(
                f"confidence must be a level between 0 and 1, got {confidence!r}."
            )
        self.accuracy = {
            name: as_table(accuracy[name], name, "accuracy") for name in accuracy
        }
        self.fairness = {
            name: as_table(fairness[name], name, "fairness") for name in accuracy
        }
        self.confidence = confidence
        self.point_labels = dict(point_labels or {})
        check_tables(self.accuracy, self.fairness, ("accuracy", "fairness"))
        check_labels(self.point_labels, self.accuracy)
        tables = {
            name: np.stack([self.fairness[name], self.accuracy[name]], axis=-1)
            for name in self.accuracy
        }
        self.means = {name: table.mean(axis=1) for name, table in tables.items()}
        self.half_widths = {
            name: _half_widths(table, confidence) for name, table in tables.items()
        }
        self.dominated = {name: _dominated(m) for name, m in self.means.items()}

    @classmethod
    def from_results(
        cls,
        results: Any,
        *,
        method: str = "method",
        setting: str | None = "kappa",
        accuracy: str = "accuracy",
        fairness: str = "fairness",
        confidence: float = 0.95,
        label_points: bool = False,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ParetoFrontDisplay:
        """Draw a table of runs: one row for each method, setting and split.

        Parameters
        ----------
        results : DataFrame, mapping of str to columns, or iterable of mappings
            The runs. Rows of the same method and setting are repeats.
        method : str, default="method"
            Column with the name of the method.
        setting : str or None, default="kappa"
            Column that tells the points of a method apart; None makes every row a
            point. NaN is a setting too, of methods without parameter.
        accuracy : str, default="accuracy"
            Column with the accuracy.
        fairness : str, default="fairness"
            Column with one minus the gap.
        confidence : float, default=0.95
            Level of the confidence intervals.
        label_points : bool, default=False
            Whether to write the setting beside each point, for methods with several.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        ParetoFrontDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If a column is missing, there are no rows, the settings of a method have
            different numbers of repeats, or a measure is not finite.
        """
        names = {"method": method, "accuracy": accuracy, "fairness": fairness}
        if setting is not None:
            names["setting"] = setting
        runs: dict[str, dict[Any, list[tuple[float, float]]]] = {}
        for i, row in enumerate(rows_of(results, names)):
            point = i if setting is None else setting_of(row, setting)
            points = runs.setdefault(str(row[method]), {})
            points.setdefault(point, []).append((row[accuracy], row[fairness]))
        if not runs:
            raise ValueError("results has no rows.")
        tables = {name: stack_repeats(name, points) for name, points in runs.items()}
        display = cls(
            {name: table[..., 0] for name, table in tables.items()},
            fairness={name: table[..., 1] for name, table in tables.items()},
            point_labels={
                name: list(points)
                for name, points in runs.items()
                if label_points and setting is not None and len(points) > 1
            },
            confidence=confidence,
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        name: str = "cross-validation",
        confidence: float = 0.95,
        label_points: bool = True,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ParetoFrontDisplay:
        """Draw what a search over allowed gaps found.

        Parameters
        ----------
        estimator : PartiallyFairClassifierCV
            Fitted: its `cv_results_` hold a point for each gap and fold.
        name : str, default="cross-validation"
            What the legend says.
        confidence : float, default=0.95
            Level of the confidence intervals over the folds.
        label_points : bool, default=True
            Whether to write the gap beside each point.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        ParetoFrontDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(estimator, "cv_results_")
        found = estimator.cv_results_
        display = cls(
            {name: found["accuracy"]},
            fairness={name: found["fairness"]},
            point_labels={name: list(found["kappa"])} if label_points else None,
            confidence=confidence,
        )
        return display.plot(ax=ax, legend=legend, **line_kwargs)

    def plot(
        self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> ParetoFrontDisplay:
        """Draw the fronts.

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
        ParetoFrontDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        if ax is None:
            _, ax = import_pyplot(self).subplots(figsize=(8, 5), layout="constrained")
        self.lines_, self.dominated_, self.bars_ = {}, {}, {}
        for i, name in enumerate(self.means):
            self._draw(ax, i, name, line_kwargs)
        finish(ax, self.means, self.point_labels, legend=legend)
        label_axes(ax, "fairness (1 - gap)", "accuracy")
        draw_title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, i: int, name: str, line_kwargs: dict[str, Any]) -> None:
        means, beaten = self.means[name], self.dominated[name]
        front = means[~beaten]
        front = front[np.lexsort((-front[:, 1], front[:, 0]))]
        style = {**style_of(i), "label": literal(name), **line_kwargs}
        (self.lines_[name],) = ax.plot(*front.T, **style)
        lighter = {"linestyle": "", "alpha": _DOMINATED, "label": None}
        (self.dominated_[name],) = ax.plot(*means[beaten].T, **{**style, **lighter})
        self.bars_[name] = []
        color = self.lines_[name].get_color()
        for which, alpha in ((~beaten, 1.0), (beaten, _DOMINATED)):
            widths = self.half_widths[name][which]
            if widths.any():
                self.bars_[name] += draw_bars(ax, means[which], widths, color, alpha)

    def _findings(self) -> list[str]:
        count = count_of_splits(self.accuracy)
        level = f"{100 * self.confidence:g} % confidence"
        bars = f"(means of {count} splits, {level})" if count else ""
        return [*describe_ends(self.means, ("fairness", "accuracy"), sign=1), bars]


def _half_widths(table: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Half widths of confidence intervals of means over axis 1."""
    n = table.shape[1]
    if n == 1:
        return np.zeros((len(table), table.shape[2]))
    quantile = special.stdtrit(n - 1, (1 + confidence) / 2)
    widths: NDArray[np.float64] = quantile * table.std(axis=1, ddof=1) / np.sqrt(n)
    return widths


def _dominated(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Points that another one equals in one coordinate, at least, and beats in one."""
    as_good = (points[None] >= points[:, None]).all(axis=2)
    better = (points[None] > points[:, None]).any(axis=2)
    beaten: NDArray[np.bool_] = np.any(as_good & better, axis=1)
    return beaten
