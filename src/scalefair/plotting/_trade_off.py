"""Accuracy against fairness, for points of several methods and for tables of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair.plotting import _draw

# Arrays of shape (n_points, n_repeats) by name of the method.
Measures = dict[str, NDArray[np.float64]]

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
    """Points of methods: means of a measure of fairness and of one of accuracy."""

    # 1 if large measures are good, -1 if small ones are.
    _sign: int
    # Names of the measures of fairness and accuracy, in the title and on the axes.
    _names: tuple[str, str]
    _axis_names: tuple[str, str]
    # Describes the bars; ``{}`` stands for the number of splits.
    _bar_caption: str
    # Half the length of the bars, shaped as the means.
    _half_lengths: Measures

    def _set_points(
        self,
        fairness: Mapping[str, ArrayLike],
        accuracy: Mapping[str, ArrayLike],
        names: tuple[str, str],
        point_labels: Mapping[str, Any] | None,
    ) -> tuple[Measures, Measures]:
        """Check both measures, named for messages; set the means and the labels."""
        # 1. Both measures have the same methods and shapes.
        x_name, y_name = names
        if not accuracy or list(accuracy) != list(fairness):
            raise ValueError(
                f"{y_name} and {x_name} must have the same methods in the same order, "
                f"got {list(accuracy)} and {list(fairness)}."
            )
        x = {
            name: _as_table(v, f"{x_name} of {name!r}") for name, v in fairness.items()
        }
        y = {
            name: _as_table(v, f"{y_name} of {name!r}") for name, v in accuracy.items()
        }
        for name in x:
            if x[name].shape != y[name].shape:
                raise ValueError(
                    f"{x_name} and {y_name} of {name!r} differ in shape: "
                    f"{x[name].shape} and {y[name].shape}."
                )
        # 2. Points are means over the repeats, in columns fairness and accuracy.
        self._runs = {name: np.stack([x[name], y[name]], axis=-1) for name in x}
        self.means = {name: runs.mean(axis=1) for name, runs in self._runs.items()}
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

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the points of each method, and the line that joins them.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        # Points, lines and bars of each method.
        self.lines_: dict[str, Any] = {}
        self.bars_: dict[str, list[Any]] = {}
        for i, name in enumerate(self.means):
            style = {
                **_draw.curve(i, name),
                "marker": _draw.MARKERS[i % len(_draw.MARKERS)],
                # Open and filled markers alternate, for grey prints.
                "markerfacecolor": "white" if i % 2 else _draw.color(i),
                **line_kwargs,
            }
            self._draw_method(ax, name, style)
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

    def _draw_method(self, ax: Any, name: str, style: dict[str, Any]) -> None:
        every_point = np.arange(len(self.means[name]))
        line, bars = self._draw_points(ax, name, every_point, style)
        self.lines_[name], self.bars_[name] = line, bars

    def _draw_points(
        self, ax: Any, name: str, points: NDArray[Any], style: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """Draw points of a method in this order, joined by a line, and their bars."""
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
            # Among the best points of a column the other column decides.
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
        count = "-".join(map(str, sorted({min(repeats), max(repeats)})))
        return f"{title} ({self._bar_caption.format(count)})"

    def _methods_at(self, point: NDArray[np.float64]) -> str:
        """Return the names of the methods that have a point with these means."""
        names = [name for name, m in self.means.items() if (m == point).all(1).any()]
        if len(names) > 2:
            return f"{len(names)} methods"
        return " and ".join(map(_draw.literal, names))


def standard_deviations(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard deviations over axis 1; zero for a single repeat."""
    return np.asarray(runs.std(axis=1, ddof=int(runs.shape[1] > 1)))


def _as_table(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a measure of a method with a row for each point, a column for a repeat."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{name} must have shape (n_points, n_repeats) or (n_points,), got "
            f"{table.shape}."
        )
    if not np.isfinite(table).all():
        point, split = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{name} is NaN or infinite, the first at point {point} and split {split}. "
            "Leave the point out, or the split."
        )
    return table


def read_runs(
    results: Any, columns: Mapping[str, str | None], *, repeat: bool
) -> tuple[Measures, Measures, dict[str, list[Any]]]:
    """Return both measures of each method, and the settings of those with several.

    `columns` are those of the method, both measures and the setting, by the parameter
    that names them. Without settings the rows of a method repeat one point, or else
    each is a point. Settings that are numbers are sorted if rows may repeat a point.
    """
    # 1. The columns that are read, by parameter.
    if not (hasattr(results, "columns") or isinstance(results, Mapping)):
        results = list(results)
        if not results:
            raise ValueError("results has no rows.")
        results = pandas.DataFrame(results)
    read = {key: column for key, column in columns.items() if column is not None}
    for parameter, column in read.items():
        if column not in results:
            raise ValueError(
                f"results has no column {column!r}. Say with the parameter "
                f"{parameter!r} which column to take."
            )
    try:
        frame = pandas.DataFrame({key: list(results[c]) for key, c in read.items()})
        values = frame.iloc[:, 1:3].astype(float)
    except ValueError as error:
        raise ValueError(f"The measures in results are no numbers: {error}.") from error
    if frame.empty:
        raise ValueError("results has no rows.")
    if "setting" not in frame:
        frame["setting"] = 0 if repeat else range(len(frame))
    # 2. For each method arrays with a row for each setting, a column for each repeat.
    first: Measures = {}
    second: Measures = {}
    settings = {}
    for name, part in frame.groupby(frame["method"].astype(str), sort=False):
        column = part["setting"].infer_objects()
        codes, points = pandas.factorize(column, use_na_sentinel=False)
        counts = np.bincount(codes)
        if counts.min() < counts.max():
            raise ValueError(
                f"The settings of {name!r} differ in the number of repeats: "
                f"{points.tolist()[counts.argmin()]!r} has {counts.min()}, another has "
                f"{counts.max()}. Run what is missing or leave the setting out."
            )
        # Rows of the same setting side by side, then an axis for each setting.
        runs = values.loc[part.index[codes.argsort(kind="stable")]].to_numpy()
        runs = runs.reshape(len(points), -1, 2)
        if repeat and pandas.api.types.is_numeric_dtype(column):
            order = np.argsort(points)
            runs, points = runs[order], points[order]
        first[str(name)], second[str(name)] = runs[..., 0], runs[..., 1]
        if len(points) > 1:
            settings[str(name)] = points.tolist()
    return first, second, settings
