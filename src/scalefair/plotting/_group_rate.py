"""The rate of one group above a threshold against the other group's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.plotting import _draw, _models

_ALLOWED = "#009E73"
# The title has the gaps of this many models, or the smallest and the largest one.
_MOST_GAPS = 3
_OPTIONS = f"""\
{_draw.TEXTS["given"]}
{_draw.TEXTS["attributes"]}
pair : sequence of two groups, mapping of columns to such, or None, default=None
    Which groups to compare, needed if there are more than two. The first is on the
    horizontal axis. The mapping is for ``attributes="each"``.
{_draw.TEXTS["drawing"]}"""


@documented(
    **_draw.TEXTS,
    options=_OPTIONS,
    parity="""\
interval : tuple of float, default=(0.0, 1.0)
    Ranks, from the top, in which parity is asked for.
kappa : float or None, default=None
    Largest allowed gap, a fraction of the interval; None marks no region.""",
    options_of_models=f"""\
interval : tuple of float or None, default=None
    Ranks, from the top, in which parity is asked for.
kappa : float or None, default=None
    Largest allowed gap. Of both, and of `given` and `attributes`, None takes what the
    models have, if those that have one agree.
{_OPTIONS}""",
)
class GroupRateDisplay:
    r"""Rates of two groups above a threshold, as the threshold moves.

    A curve runs from (0, 0), where nobody is selected, to (1, 1), where all are; on
    the diagonal both groups are selected at the same rate. Grey bands mark `interval`,
    and a green region the rates whose gap within it is at most `kappa`. The title has
    the largest gaps (`metrics.partial_parity_gap`). Points within straight
    pieces are left out. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    rates : mapping of str to array-like of shape (n_points, 2)
        For each model, by name, the rates of the two groups at falling thresholds.
    groups : array-like of shape (2,)
        Names of the groups, on the horizontal and on the vertical axis.
    %(parity)s

    Attributes
    ----------
    gaps : dict of str to float
        Largest gap of the two rates within the interval, relative to its length.
    %(ax_)s
    lines_ : dict of str to matplotlib Line2D
        The curve of each model.
    parity_line_ : matplotlib Line2D
        The diagonal.
    region_ : matplotlib Polygon or None
        Rates with a gap of at most `kappa`.

    %(bad_parts)s

    References
    ----------
    .. [1] He, Huang, Yao, Lin, "Enforcing Fairness Where It Matters: An Approach
       Based on Difference-of-Convex Constraints", figure 2.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import GroupRateDisplay
    >>> scores, groups, ax = [4.0, 3, 2, 1], ["f", "m", "m", "f"], Figure().subplots()
    >>> display = GroupRateDisplay.from_predictions(
    ...     scores, sensitive_features=groups, ax=ax
    ... )
    >>> display.gaps
    {'scores': 0.5}
    """

    def __init__(
        self,
        rates: Mapping[str, ArrayLike],
        *,
        groups: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float | None = None,
    ) -> None:
        self.rates = {
            name: _check_rates(values, name)
            for name, values in _models.by_name(rates, None, "scores").items()
        }
        self.groups = np.asarray(groups)
        if self.groups.shape != (2,):
            raise ValueError(
                f"groups must be two names, got shape {self.groups.shape}."
            )
        self.interval = check_interval(interval)
        if kappa is not None and not 0 <= kappa <= 1:
            raise ValueError(f"kappa must be between 0 and 1, got {kappa!r}.")
        self.kappa = kappa
        low, high = self.interval
        self.gaps = {
            name: float(np.abs(np.diff(curve.clip(low, high))).max() / (high - low))
            for name, curve in self.rates.items()
        }

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike,
        interval: tuple[float, float] = (0.0, 1.0),
        kappa: float | None = None,
        name: str | None = None,
        y_true: ArrayLike | None = None,
        given: str | None = None,
        attributes: str = "joint",
        pair: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
        ax: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupRateDisplay:
        """Draw the rates of given scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,), or mapping of str to such
            Score of each row, high ones are selected first; or those of several models.
        %(sensitive_features)s
        %(parity)s
        name : str or None, default=None
            Name of a single model; None takes "scores".
        %(options)s
        %(bad_rows)s
        """
        models = _models.by_name(scores, name, "scores")
        found, each = _models.check_rows(
            models, sensitive_features, "scores", attributes
        )
        compared = _models.compared_rows(given, y_true, len(found[0]))
        names = [own.name * (len(each) > 1) for own in each]
        pairs = [
            _choose_pair(name, own.groups.tolist(), pair)
            for name, own in zip(names, each, strict=True)
        ]
        rates = {}
        for key, values in zip(models, found, strict=True):
            for label, rows in compared.items():
                for of, own, chosen in zip(names, each, pairs, strict=True):
                    parts = [values[rows][own.codes[rows] == k] for k in chosen]
                    if not all(map(len, parts)):
                        raise ValueError(f"One of the two groups has no rows{label}.")
                    rates[f"{key}{of and f', {of}'}{label}"] = _rate_curve(*parts)
        groups, *others = (
            own.groups[chosen] for own, chosen in zip(each, pairs, strict=True)
        )
        if others:  # an axis has a group of each attribute
            both = zip(groups, *others, strict=True)
            groups = np.array([" / ".join(map(str, one)) for one in both])
        display = cls(rates, groups=groups, interval=interval, kappa=kappa)
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _models.estimator_method(
        from_predictions,
        "decision_function",
        ("interval", "kappa", "given", "attributes"),
    )

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the curves, the interval and the allowed region.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        low, high = self.interval
        band = {"facecolor": "0.9", "edgecolor": "0.6", "linewidth": 0.8, "zorder": 0.5}
        if ranks := _draw.ranks(self.interval):  # of all it would mark nothing
            ax.axvspan(low, high, label=ranks, **band)
            ax.axhspan(low, high, **band)
        self.region_ = None
        if self.kappa is not None:
            style = {"color": _ALLOWED, "alpha": 0.2, "linewidth": 0.8, "zorder": 1}
            style["label"] = f"gap at most {self.kappa:g}"
            corners = allowed_region(self.interval, self.kappa)
            (self.region_,) = ax.fill(*corners.T, **style)
        style = {"color": "black", "linewidth": 0.9, "zorder": 1.9}
        (self.parity_line_,) = ax.plot([0, 1], [0, 1], label="equal rates", **style)
        self.lines_ = {}
        for i, (name, curve) in enumerate(self.rates.items()):
            style = _draw.curve(i, f"{name} (gap {self.gaps[name]:.3f})")
            (self.lines_[name],) = ax.plot(*curve.T, **{**style, **line_kwargs})
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if legend:
            _draw.legend(ax)
            ax.set_anchor("E")  # a layout then knows where the legend is
        x, y = map(_draw.literal, self.groups)
        above = "above the threshold"
        _draw.labels(ax, f"rate of group {x} {above}", f"rate of group {y} {above}")
        _draw.title(ax, self._findings())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _findings(self) -> str:
        where = f" in {ranks}" if (ranks := _draw.ranks(self.interval)) else ""
        found = [f"{_draw.literal(name)} {g:.3f}" for name, g in self.gaps.items()]
        if len(found) <= _MOST_GAPS:
            return f"largest gap{where}: {', '.join(found)}"
        gaps = list(self.gaps.values())
        low, high = found[np.argmin(gaps)], found[np.argmax(gaps)]
        return f"largest gaps{where}: from {low} to {high}"


def _choose_pair(name: str, names: list[Any], pair: Any) -> list[int]:
    """Return which two of the groups of an attribute, if it has a name, to compare."""
    of = name and f" of {name}"
    if isinstance(pair, Mapping):
        pair = pair.get(name)
    if pair is None:
        if len(names) > 2:
            two = tuple(names[:2])
            shown = {name: two} if name else two
            raise ValueError(
                f"There are {len(names)} groups{of}, {names[:8]}: say which two to "
                f"compare, as in pair={shown}."
            )
        return [0, 1]
    chosen = list(pair)
    if len(chosen) != 2 or chosen[0] == chosen[1] or not set(chosen) <= set(names):
        raise ValueError(
            f"pair must be two of the groups{of}, {names[:8]}, got {pair!r}."
        )
    return [names.index(group) for group in chosen]


def _check_rates(values: ArrayLike, name: str) -> NDArray[np.float64]:
    curve = np.asarray(values, dtype=np.float64)
    if curve.ndim != 2 or curve.shape[1] != 2 or not len(curve):
        raise ValueError(
            f"rates of {name!r} must have shape (n_points, 2), got {curve.shape}."
        )
    if not ((curve >= 0) & (curve <= 1)).all():
        raise ValueError(f"rates of {name!r} must be between 0 and 1.")
    return curve


def allowed_region(interval: tuple[float, float], kappa: float) -> NDArray[np.float64]:
    """Corners of the set of rates (P_1, P_2) with |A_1 - A_2| <= kappa."""
    # The strip around the diagonal widens to a square at either side of the interval.
    low, high = interval
    d = kappa * (high - low)
    if kappa == 1:
        return np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    to_the_right = [(low + d, 0), (low + d, low), (high, high - d), (1, high - d)]
    above = [corner[::-1] for corner in reversed(to_the_right)]
    return np.array([(0, 0), *to_the_right, (1, 1), *above], dtype=np.float64)


def _rate_curve(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Rates of scores `a` and `b` above all thresholds, from the highest down."""
    # On a sloping piece, which ties make, the gap may be largest in the middle.
    scores = np.concatenate([a, b])
    order = np.argsort(-scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) != 0, True)  # of a run of ties
    from_a = (order < len(a)).cumsum()[is_last]
    from_b = np.flatnonzero(is_last) + 1 - from_a
    counts = np.vstack([np.zeros((1, 2), np.int64), np.column_stack([from_a, from_b])])
    steps = np.diff(counts, axis=0)
    straight = ((steps[:-1] == 0) & (steps[1:] == 0)).any(axis=1)
    vertices = counts[np.concatenate([[True], ~straight, [True]])]
    rates: NDArray[np.float64] = vertices / [len(a), len(b)]
    return rates
