"""Accuracy against fairness of several methods: points, bars, and fronts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._groups import encode_groups
from scalefair.metrics import partial_parity_gap
from scalefair.plotting import _draw, _inputs
from scalefair.plotting._inputs import Measures, read_runs

TEXTS = {
    **_draw.TEXTS,
    "point_labels": """\
point_labels : mapping of str to sequence, or None, default=None
    Labels of the points, for some methods; those that would overlap are hidden.""",
    "measure": """\
By name of the method; without repeats an array of shape (n_points,). Methods may
have different numbers of settings and splits.""",
    "means": """\
means : dict of str to ndarray of shape (n_points, 2)
    Means of the points of each method, fairness (or unfairness) first.""",
    "artists": f"""\
{_draw.TEXTS["ax_"]}
lines_ : dict of str to matplotlib Line2D
    The points of each method that a line joins, with it.
bars_ : dict of str to list of matplotlib LineCollection
    The horizontal and the vertical bars of each method.""",
    "confidence": """\
confidence : float, default=0.95
    Level of the confidence intervals, between 0 and 1.""",
    "results": """\
results : DataFrame, mapping of str to columns, or iterable of mappings
    The runs. Rows of the same method and setting are repeats.
method : str, default="method"
    Column with the name of the method.""",
    "drawing_results": f"""\
{_draw.TEXTS["drawing"]}
ValueError
    If a column is missing, there are no rows, the settings of a method have different
    numbers of repeats, or a measure is not finite.""",
}


@documented(**TEXTS)
class TradeOffDisplay:
    """Points of methods: means of a measure of fairness and of one of accuracy.

    In a display of errors the line of a method joins all its points, in their order.
    In one of fronts it joins those that are not dominated, by rising fairness.
    """

    # Names of the two measures: as parameters, in the title, on the axes.
    _parameters: tuple[str, str]
    _names: tuple[str, str]
    _axis_names: tuple[str, str]
    _sign: int  # 1 if large measures are good, -1 if small ones are
    _bar_caption: str  # ``{}`` is the number of splits

    def _set_points(
        self,
        fairness: Mapping[str, ArrayLike],
        accuracy: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None,
    ) -> tuple[Measures, Measures]:
        """Check both measures; set the means, the labels, and the order of points."""
        # 1. Both measures have the same methods and shapes.
        x_name, y_name = self._parameters
        if not accuracy or list(accuracy) != list(fairness):
            raise ValueError(
                f"{y_name} and {x_name} must have the same methods in the same order, "
                f"got {list(accuracy)} and {list(fairness)}."
            )
        shapes = ("n_points", "n_repeats"), ("n_points",)
        x: Measures = {}
        y: Measures = {}
        for values, measure, tables in ((fairness, x_name, x), (accuracy, y_name, y)):
            for name, runs in values.items():
                table = _inputs.as_array(runs, f"{measure} of {name!r}", *shapes)
                tables[name] = table.reshape(len(table), -1)
        for name in x:
            if x[name].shape != y[name].shape:
                raise ValueError(
                    f"{x_name} and {y_name} of {name!r} differ in shape: "
                    f"{x[name].shape} and {y[name].shape}."
                )
        # 2. Points are means over the repeats, in columns fairness and accuracy.
        self._runs = {name: np.stack([x[name], y[name]], axis=-1) for name in x}
        self.means = {name: runs.mean(axis=1) for name, runs in self._runs.items()}
        # Half lengths of the bars, zero for a single repeat.
        self._half_lengths = {}
        for name, runs in self._runs.items():
            n_repeats = runs.shape[1]
            deviations = runs.std(axis=1, ddof=int(n_repeats > 1))
            self._half_lengths[name] = self._bar_factor(n_repeats) * deviations
        sizes = {name: len(m) for name, m in self.means.items()}
        # The order along the line, and the points that are not on it: here none.
        self._order = {name: np.arange(n) for name, n in sizes.items()}
        self.dominated = {name: np.zeros(n, bool) for name, n in sizes.items()}
        # 3. Labels of all points of some methods.
        self.point_labels = dict(point_labels or {})
        for name, texts in self.point_labels.items():
            if name not in self.means:
                raise ValueError(f"point_labels names an unknown method, {name!r}.")
            if len(texts) != len(self.means[name]):
                raise ValueError(
                    f"point_labels of {name!r} must have {len(self.means[name])} "
                    f"entries, one for each point, got {len(texts)}."
                )
        return x, y

    def _bar_factor(self, n_repeats: int) -> float:
        """Return the half length of a bar in standard deviations of the repeats."""
        return 1.0

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the points of each method, and the line that joins them.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        # Points, lines and bars of each method.
        self.lines_: dict[str, Any] = {}
        self.bars_: dict[str, list[Any]] = {}
        self.dominated_: dict[str, Any] = {}
        for i, name in enumerate(self.means):
            style = {
                **_draw.curve(i, name),
                "marker": _draw.MARKERS[i % len(_draw.MARKERS)],
                # Open and filled markers alternate, for grey prints.
                "markerfacecolor": "white" if i % 2 else _draw.color(i),
                **line_kwargs,
            }
            order = self._order[name]
            is_dominated = self.dominated[name][order]
            line, bars = self._draw_points(ax, name, order[~is_dominated], style)
            lighter = {**style, "linestyle": "", "alpha": 0.35, "label": None}
            points, lighter_bars = self._draw_points(
                ax, name, order[is_dominated], lighter
            )
            self.lines_[name], self.dominated_[name] = line, points
            self.bars_[name] = bars + lighter_bars
        ax.grid(visible=True, color="0.9", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.margins(x=0.08, y=0.1)  # space for the labels of the outermost points
        # Labels, which must not cover a point of any method.
        if self.point_labels:
            texts = [text for texts in self.point_labels.values() for text in texts]
            labelled = np.vstack([self.means[name] for name in self.point_labels])
            all_points = np.vstack(list(self.means.values()))
            _draw.point_labels(ax, texts, labelled, all_points)
        if legend:
            _draw.legend(ax)
        _draw.labels(ax, *self._axis_names)
        _draw.title(ax, self._title())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_points(
        self, ax: Any, name: str, points: NDArray[Any], style: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """Draw some points of a method, in this order: a line, markers and bars."""
        means, half = self.means[name][points], self._half_lengths[name][points]
        (line,) = ax.plot(*means.T, **style)
        if len(means) == 1:
            line.set_linestyle("")
        if not half.any():
            return line, []
        bars = ax.errorbar(
            *means.T,
            xerr=half[:, 0],
            yerr=half[:, 1],
            fmt="none",
            ecolor=line.get_color(),
            alpha=line.get_alpha(),
            elinewidth=0.9,
            capsize=2.0,
            zorder=1.9,
        )
        return line, list(bars.lines[2])

    def _title(self) -> str:
        """Name the fairest and the most accurate point, and describe the bars."""
        points = np.vstack(list(self.means.values()))
        best = {}
        for adjective, column in (("fairest", 0), ("most accurate", 1)):
            # Among points that are equally good in a column the other one decides.
            keys = -self._sign * points[:, [1 - column, column]]
            best[adjective] = points[np.lexsort(keys.T)[0]]
        if (best["fairest"] == best["most accurate"]).all():
            best = {"fairest and most accurate": best["fairest"]}
        x, y = self._names
        title = "; ".join(
            f"{adjective}: {self._methods_at(point)} "
            f"({x} {point[0]:.3g}, {y} {point[1]:.3g})"
            for adjective, point in best.items()
        )
        repeats = {runs.shape[1] for runs in self._runs.values()}
        if repeats == {1}:
            return title
        # A number, or a range such as "5-10".
        count = "-".join(map(str, sorted({min(repeats), max(repeats)})))
        return f"{title} ({self._bar_caption.format(count)})"

    def _methods_at(self, point: NDArray[np.float64]) -> str:
        """Return the names of the methods that have a point with these means."""
        names = [name for name, m in self.means.items() if (m == point).all(1).any()]
        if len(names) > 2:
            return f"{len(names)} methods"
        return " and ".join(map(_draw.literal, names))


@documented(**TEXTS)
class ParetoFrontDisplay(TradeOffDisplay):
    """Accuracy against fairness, a front for each method.

    A point is a setting of a method, such as one kappa, averaged over repeated splits;
    bars in both directions are confidence intervals of the two means. A line joins the
    points of a method that none of its others beats in both; the others are drawn
    lighter. The title names the fairest and the most accurate point.

    Parameters
    ----------
    accuracy : mapping of str to array-like of shape (n_points, n_repeats)
        Accuracy of each setting in each split.
        %(measure)s
    fairness : mapping of str to array-like, shaped as in `accuracy`
        One minus the gap between the groups.
    %(point_labels)s
    %(confidence)s

    Attributes
    ----------
    %(means)s
    half_widths : dict of str to ndarray of shape (n_points, 2)
        Half widths of their confidence intervals, by Student's distribution; zero
        without repeats. An indication: splits of the same rows are not independent.
    dominated : dict of str to ndarray of bool of shape (n_points,)
        Which points are beaten by another one of the same method.
    %(artists)s
    dominated_ : dict of str to matplotlib Line2D
        The other points of each method.

    %(bad_parts)s

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

    _parameters = _names = ("fairness", "accuracy")
    _axis_names = ("fairness (1 - gap)", "accuracy")
    _sign = 1

    def __init__(
        self,
        accuracy: Mapping[str, ArrayLike],
        *,
        fairness: Mapping[str, ArrayLike],
        point_labels: Mapping[str, Any] | None = None,
        confidence: float = 0.95,
    ) -> None:
        if not 0 < confidence < 1:
            raise ValueError(
                f"confidence must be a level between 0 and 1, got {confidence!r}."
            )
        self.confidence = confidence
        self.fairness, self.accuracy = self._set_points(
            fairness, accuracy, point_labels
        )
        self._bar_caption = f"means of {{}} splits, {100 * confidence:g} % confidence"
        self.half_widths = self._half_lengths
        for name, m in self.means.items():
            # 1. A point is dominated if another one is as good in both measures and
            # better in one. Entry [i, j] compares point j with point i.
            is_as_good = (m[None] >= m[:, None]).all(axis=2)
            is_better = (m[None] > m[:, None]).any(axis=2)
            self.dominated[name] = (is_as_good & is_better).any(axis=1)
            # 2. The line goes by rising fairness; where that is equal, by falling
            # accuracy.
            self._order[name] = np.lexsort((-m[:, 1], m[:, 0]))

    def _bar_factor(self, n_repeats: int) -> float:
        # Student's quantile times the standard error of the mean.
        quantile = special.stdtrit(max(n_repeats - 1, 1), (1 + self.confidence) / 2)
        return float(quantile / np.sqrt(n_repeats))

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
        %(results)s
        setting : str or None, default="kappa"
            Column that tells the points of a method apart; None makes every row a
            point. NaN is a setting too, of methods without parameter.
        accuracy, fairness : str, default="accuracy", "fairness"
            Columns with the accuracy and one minus the gap.
        %(confidence)s
        label_points : bool, default=False
            Whether to write the setting beside each point, for methods with several.
        %(drawing_results)s
        """
        measures = {"accuracy": accuracy, "fairness": fairness}
        (accuracies, fairnesses), settings = read_runs(
            results, method, measures, setting, repeat=False
        )
        display = cls(
            accuracies,
            fairness=fairnesses,
            point_labels=settings if label_points and setting is not None else None,
            confidence=confidence,
        )
        return display.plot(ax, legend=legend, **line_kwargs)

    @classmethod
    @checked_call
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        interval: tuple[float, float] | None = None,
        given: str | None = None,
        attributes: str | None = None,
        name: str | None = None,
        confidence: float = 0.95,
        label_points: bool = True,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> ParetoFrontDisplay:
        """Draw the results of a search over allowed gaps, or of fitted classifiers.

        Parameters
        ----------
        estimator : PartiallyFairClassifierCV, list of classifiers, or mapping
            A fitted search, whose `cv_results_` hold a point for each gap and fold. Or
            fitted classifiers, such as a path over allowed gaps, each a point on the
            rows `X`; or several such lists, by their names. Each is given the groups
            if it takes them.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            Rows on which classifiers are compared. None draws a search.
        y : array-like of shape (n_samples,), default=None
            True labels of the rows.
        sensitive_features : array-like of shape (n,) or (n, k), default=None
            Group of each of the n rows; of k columns as `attributes` says.
        %(group_probabilities)s
        %(sample_weight)s
        interval : tuple of float or None, default=None
            Ranks, from the top of each group, that the gap is about; None takes that
            of the classifiers, if those that have one agree, or all.
        given : {"positive", "label"} or None, default=None
            Which rows the gap is about: all, the positive ones, or those of the same
            label; None takes that of the classifiers.
        attributes : {"joint", "each"} or None, default=None
            Whether of several columns combinations are compared, or the groups of each
            by itself; None takes that of the classifiers.
        name : str or None, default=None
            Name in the legend; None takes "cross-validation", or the class.
        %(confidence)s
        label_points : bool, default=True
            Whether to write the allowed gap beside each point.
        %(drawing)s
        NotFittedError
            If an estimator is not fitted.
        ValueError
            If lengths differ, or there are rows without labels or groups.
        """
        if X is None:  # a search: a point for each gap, a repeat for each fold
            check_is_fitted(estimator, "cv_results_")
            name, results = name or "cross-validation", estimator.cv_results_
            accuracies = {name: results["accuracy"]}
            fairnesses = {name: results["fairness"]}
            labels = {name: list(results["kappa"])}
        elif y is None or (sensitive_features is None and group_probabilities is None):
            raise ValueError(
                "X needs y and sensitive_features, its labels and groups, or "
                "group_probabilities."
            )
        else:  # classifiers: a point for each, measured on the rows
            paths = _as_paths(estimator, name)
            options = _inputs.fill_settings(
                list(chain.from_iterable(paths.values())),
                {"interval": interval, "given": given, "attributes": attributes},
            )
            groups = sensitive_features
            if groups is not None and options.get("attributes") != "each":
                # Encoded once for all models, so that small groups are warned of once.
                names, codes = encode_groups(groups)
                groups = names[codes]
            options |= {
                "sensitive_features": groups,
                "group_probabilities": group_probabilities,
                "sample_weight": sample_weight,
            }
            points = {
                key: np.array([_measure(model, X, y, options) for model in path])
                for key, path in paths.items()
            }
            accuracies = {key: measures[:, 0] for key, measures in points.items()}
            fairnesses = {key: measures[:, 1] for key, measures in points.items()}
            labels = {
                key: [model.kappa for model in path]
                for key, path in paths.items()
                if all(hasattr(model, "kappa") for model in path)
            }
        display = cls(
            accuracies,
            fairness=fairnesses,
            point_labels=labels if label_points else None,
            confidence=confidence,
        )
        return display.plot(ax, legend=legend, **line_kwargs)


def _measure(
    model: Any, X: Any, y: ArrayLike, options: dict[str, Any]
) -> tuple[float, float]:
    """Return the accuracy of a classifier on rows, and one minus its gap.

    `options` are those of `partial_parity_gap`: groups, weights, and what it compares.
    """
    groups = options["sensitive_features"]
    labels = _inputs.call_method(model, "predict", X, groups)
    scores = _inputs.call_method(model, "decision_function", X, groups)
    gap = partial_parity_gap(scores, y_true=y, **options)  # checks groups and weights
    accuracy = accuracy_score(y, labels, sample_weight=options["sample_weight"])
    return float(accuracy), 1 - gap


def _as_paths(estimator: Any, name: str | None) -> dict[str, list[Any]]:
    """Return lists of classifiers by name; a single list has `name`, or its class's.

    A list has the points of one method, such as a path over allowed gaps.
    """
    is_path = isinstance(estimator, list) and bool(estimator)
    first = estimator[0] if is_path else estimator
    paths = {
        key: value if isinstance(value, list) else [value]
        for key, value in _inputs.by_name(estimator, name, type(first).__name__).items()
    }
    if not all(paths.values()):
        raise ValueError("A list of classifiers is empty: give at least one.")
    return paths
