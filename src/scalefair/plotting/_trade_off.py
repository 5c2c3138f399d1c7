"""Accuracy against fairness, for points of several methods; and tables of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pandas
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair.plotting import _draw

TEXTS = {
    **_draw.TEXTS,
    "point_labels": """\
point_labels : mapping of str to sequence, or None, default=None
    What to write beside each point of the methods it names, where there is room.""",
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
    """Base of displays of a measure of accuracy against one of fairness."""

    # Whether large values are good, and what the title calls fairness and accuracy.
    _sign: int
    _words: tuple[str, str]
    _axis_names: tuple[str, str]
    _bars_are: str
    # Half the length of the bars.
    _spreads: dict[str, NDArray[np.float64]]

    def _read(
        self,
        measures: Mapping[str, Mapping[str, ArrayLike]],
        point_labels: Mapping[str, Any] | None,
    ) -> list[dict[str, NDArray[np.float64]]]:
        """Return the measures of fairness and accuracy, checked; keep their means."""
        (x, fairness), (y, accuracy) = measures.items()
        if not accuracy or list(accuracy) != list(fairness):
            raise ValueError(
                f"{y} and {x} must have the same methods in the same order, got "
                f"{list(accuracy)} and {list(fairness)}."
            )
        found = [
            {name: _as_table(values, name, what) for name, values in given.items()}
            for what, given in measures.items()
        ]
        for name, table in found[0].items():
            if table.shape != found[1][name].shape:
                raise ValueError(
                    f"{x} and {y} of {name!r} differ in shape: {table.shape} and "
                    f"{found[1][name].shape}."
                )
        self._runs = {name: np.stack([f[name] for f in found], -1) for name in fairness}
        self.means = {name: runs.mean(axis=1) for name, runs in self._runs.items()}
        self.point_labels = dict(point_labels or {})
        for name, texts in self.point_labels.items():
            if name not in self.means:
                raise ValueError(f"point_labels names an unknown method, {name!r}.")
            if len(texts) != len(self.means[name]):
                raise ValueError(
                    f"point_labels of {name!r} must have {len(self.means[name])} "
                    f"entries, one for each point, got {len(texts)}."
                )
        return found

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the points of each method, and the line that joins them.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        self.lines_: dict[str, Any] = {}
        self.bars_: dict[str, list[Any]] = {}
        for i, name in enumerate(self.means):
            style = {
                **_draw.curve(i, name),
                "marker": _draw.MARKERS[i % len(_draw.MARKERS)],
                # Open and filled by turns, for grey prints.
                "markerfacecolor": "white" if i % 2 else _draw.color(i),
                **line_kwargs,
            }
            self._draw_method(ax, name, style)
        ax.grid(visible=True, color="0.9", linewidth=0.7)
        ax.set_axisbelow(True)
        ax.margins(x=0.08, y=0.1)  # room for the labels of the outermost points
        if self.point_labels:
            texts = [text for those in self.point_labels.values() for text in those]
            labelled = np.vstack([self.means[name] for name in self.point_labels])
            everything = np.vstack(list(self.means.values()))
            _draw.point_labels(ax, texts, labelled, everything)
        if legend:
            _draw.legend(ax)
        _draw.labels(ax, *self._axis_names)
        _draw.title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_method(self, ax: Any, name: str, style: dict[str, Any]) -> None:
        every = np.arange(len(self.means[name]))
        self.lines_[name], self.bars_[name] = self._join(ax, name, every, style)

    def _join(
        self, ax: Any, name: str, points: NDArray[Any], style: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        """Draw points of a method in this order, joined by a line, and their bars."""
        means, spreads = self.means[name][points], self._spreads[name][points]
        (line,) = ax.plot(*means.T, **style)
        if len(means) == 1:
            line.set_linestyle("")
        if not spreads.any():
            return line, []
        look = {"ecolor": line.get_color(), "alpha": line.get_alpha(), "zorder": 1.9}
        ends = {"fmt": "none", "elinewidth": 0.9, "capsize": 2.0}
        bars = ax.errorbar(*means.T, *spreads.T[::-1], **look, **ends)
        return line, list(bars.lines[2])

    def _findings(self) -> str:
        """Say which points are the fairest and the most accurate, and what bars are."""
        points = np.vstack(list(self.means.values()))
        ends = {}
        for end, column in (("fairest", 0), ("most accurate", 1)):
            # Among the best of a column the other one decides.
            keys = -self._sign * points[:, [1 - column, column]]
            ends[end] = points[np.lexsort(keys.T)[0]]
        if (ends["fairest"] == ends["most accurate"]).all():
            ends = {"fairest and most accurate": ends["fairest"]}
        x, y = self._words
        said = "; ".join(
            f"{end}: {self._owners(point)} ({x} {point[0]:.3g}, {y} {point[1]:.3g})"
            for end, point in ends.items()
        )
        repeats = {runs.shape[1] for runs in self._runs.values()}
        if repeats == {1}:
            return said
        count = "-".join(map(str, sorted({min(repeats), max(repeats)})))
        return f"{said} ({self._bars_are.format(count)})"

    def _owners(self, point: NDArray[np.float64]) -> str:
        """Return the names of the methods that have a point."""
        names = [name for name, m in self.means.items() if (m == point).all(1).any()]
        many = f"{len(names)} methods"
        return many if len(names) > 2 else " and ".join(map(_draw.literal, names))


def deviations_of(runs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard deviations over axis 1; zero for a single repeat."""
    return np.asarray(runs.std(axis=1, ddof=int(runs.shape[1] > 1)))


def _as_table(values: ArrayLike, name: str, what: str) -> NDArray[np.float64]:
    """Return a measure of a method with a row for each point, or say what is wrong."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"{what} of {name!r} must have shape (n_points, n_repeats) or (n_points,), "
            f"got {table.shape}."
        )
    if not np.isfinite(table).all():
        point, split = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"{what} of {name!r} is NaN or infinite, the first at point {point} and "
            f"split {split}. Leave the point out, or the split."
        )
    return table


def read_runs(
    results: Any, columns: Mapping[str, str], *, join: bool
) -> tuple[list[dict[str, NDArray[np.float64]]], dict[str, list[Any]]]:
    """Return both measures of each method, and the settings of those with several."""
    # `columns` are method, both measures and setting, by the parameters for them. To be
    # joined, settings are sorted; rows without one are repeats of a point, else points.
    if not (hasattr(results, "columns") or isinstance(results, Mapping)):
        results = list(results)
        if not results:
            raise ValueError("results has no rows.")
        results = pandas.DataFrame(results)
    for parameter, column in columns.items():
        if column not in results:
            raise ValueError(
                f"results has no column {column!r}. Say with the parameter "
                f"{parameter!r} which column to take."
            )
    try:
        frame = pandas.DataFrame({p: list(results[c]) for p, c in columns.items()})
        values = frame.iloc[:, 1:3].astype(float)
    except ValueError as error:
        raise ValueError(f"The measures in results are no numbers: {error}.") from error
    if frame.empty:
        raise ValueError("results has no rows.")
    if "setting" not in frame:
        frame["setting"] = 0 if join else range(len(frame))
    measures: list[dict[str, NDArray[np.float64]]] = [{}, {}]
    settings = {}
    for name, part in frame.groupby(frame["method"].astype(str), sort=False):
        found = part["setting"].infer_objects()
        codes, points = pandas.factorize(found, use_na_sentinel=False)
        counts = np.bincount(codes)
        few = counts.argmin()
        if counts[few] < counts.max():
            raise ValueError(
                f"The settings of {name!r} differ in the number of repeats: "
                f"{points.tolist()[few]!r} has {counts[few]}, another has "
                f"{counts.max()}. Run what is missing or leave the setting out."
            )
        runs = values.loc[part.index[codes.argsort(kind="stable")]].to_numpy()
        runs = runs.reshape(len(points), -1, 2)
        if join and pandas.api.types.is_numeric_dtype(found):
            order = np.argsort(points)
            runs, points = runs[order], points[order]
        for i, measure in enumerate(measures):
            measure[str(name)] = runs[..., i]
        if len(points) > 1:
            settings[str(name)] = points.tolist()
    return measures, settings
