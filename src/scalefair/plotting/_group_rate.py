"""The rate of one group above a threshold against the other group's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._groups import check_interval
from scalefair.plotting import _draw, _inputs

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
    Largest allowed gap. For both, and for `given` and `attributes`, None takes the
    value of the models, if those that have one agree.
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
        self.rates = {}
        for name, values in _inputs.by_name(rates, None, "scores").items():
            subject = f"rates of {name!r}"
            curve = _inputs.as_array(values, subject, ("n_points", 2))
            if not ((curve >= 0) & (curve <= 1)).all():
                raise ValueError(f"{subject} must be between 0 and 1.")
            self.rates[name] = curve
        self.groups = np.asarray(groups)
        if self.groups.shape != (2,):
            raise ValueError(
                f"groups must be two names, got shape {self.groups.shape}."
            )
        self.interval = check_interval(interval)
        if kappa is not None and not 0 <= kappa <= 1:
            raise ValueError(f"kappa must be between 0 and 1, got {kappa!r}.")
        self.kappa = kappa
        # Rates outside of the interval count as its ends. Vertices are enough: on a
        # horizontal or vertical piece the gap is largest at an end, and a sloping piece
        # is passed at once, at one threshold.
        low, high = self.interval
        self.gaps = {
            name: float(np.abs(np.diff(curve.clip(low, high))).max() / (high - low))
            for name, curve in self.rates.items()
        }

    @classmethod
    @checked_call
    def from_predictions(
        cls,
        scores: ArrayLike | Mapping[str, ArrayLike],
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
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
        """Draw the rates of scores.

        Parameters
        ----------
        scores : array-like of shape (n_samples,), or mapping of str to such
            Score of each row, high ones are selected first; or those of several models.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        %(parity)s
        name : str or None, default=None
            Name of a single model; None takes "scores".
        %(options)s
        %(bad_rows)s
        """
        models = _inputs.by_name(scores, name, "scores")
        arrays, members = _inputs.check_outputs(
            models,
            sensitive_features,
            group_probabilities,
            "scores",
            attributes,
            sample_weight,
        )
        compared = members.compared
        row_sets = _inputs.compared_rows(given, y_true, len(arrays[0]))
        # For each attribute the suffix of its curves, and its two groups by index.
        pairs = []
        for attribute in compared:
            column = attribute.name if len(compared) > 1 else ""
            chosen = _choose_pair(column, attribute.groups.tolist(), pair)
            pairs.append((f", {column}" if column else "", attribute, chosen))
        # A curve for each model, set of rows and attribute.
        rates = {}
        for model, array in zip(models, arrays, strict=True):
            for condition, rows in row_sets.items():
                for suffix, attribute, chosen in pairs:
                    parts = [
                        _inputs.values_of_group(members, attribute, k, array, rows)
                        for k in chosen
                    ]
                    if not all(len(part) for part, _ in parts):
                        raise ValueError(
                            f"One of the two groups has no rows{condition}."
                        )
                    rates[f"{model}{suffix}{condition}"] = _rate_curve(*parts)
        groups = compared[0].groups[pairs[0][-1]]
        if len(pairs) > 1:  # an axis has a group of each attribute
            groups = np.array(
                [
                    " / ".join(str(a.groups[chosen[axis]]) for _, a, chosen in pairs)
                    for axis in range(2)
                ]
            )
        display = cls(rates, groups=groups, interval=interval, kappa=kappa)
        return display.plot(ax, legend=legend, **line_kwargs)

    from_estimator = _inputs.estimator_method(
        from_predictions,
        "decision_function",
        ("interval", "kappa", "given", "attributes"),
    )

    def plot(self, ax: Any = None, *, legend: bool = True, **line_kwargs: Any) -> Self:
        """Draw the curves, the interval and the allowed region.

        %(plot)s
        """
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        # The interval of either group, grey.
        low, high = self.interval
        band = {"facecolor": "0.9", "edgecolor": "0.6", "linewidth": 0.8, "zorder": 0.5}
        interval_text = _draw.ranks(self.interval)
        if interval_text:  # empty for all ranks, which need no band
            ax.axvspan(low, high, label=interval_text, **band)
            ax.axhspan(low, high, **band)
        # Rates with an allowed gap, green.
        self.region_ = None
        if self.kappa is not None:
            (self.region_,) = ax.fill(
                *allowed_region(self.interval, self.kappa).T,
                label=f"gap at most {self.kappa:g}",
                color="#009E73",
                alpha=0.2,
                linewidth=0.8,
                zorder=1,
            )
        (self.parity_line_,) = ax.plot(
            [0, 1],
            [0, 1],
            label="equal rates",
            color="black",
            linewidth=0.9,
            zorder=1.9,
        )
        # A curve for each model.
        self.lines_ = {}
        for i, (name, curve) in enumerate(self.rates.items()):
            style = _draw.curve(i, f"{name} (gap {self.gaps[name]:.3f})")
            (self.lines_[name],) = ax.plot(*curve.T, **{**style, **line_kwargs})
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if legend:
            _draw.legend(ax)
            # The equal aspect narrows the axes within their slot. At its right edge
            # the legend is where a layout made room for it.
            ax.set_anchor("E")
        x, y = map(_draw.literal, self.groups)
        suffix = "above the threshold"
        _draw.labels(ax, f"rate of group {x} {suffix}", f"rate of group {y} {suffix}")
        # The title has the largest gap of each model; of many the lowest and highest.
        gaps = [f"{_draw.literal(name)} {g:.3f}" for name, g in self.gaps.items()]
        where = f" in {interval_text}" if interval_text else ""
        text = f"largest gap{where}: {', '.join(gaps)}"
        if len(gaps) > 3:
            values = list(self.gaps.values())
            smallest, largest = gaps[np.argmin(values)], gaps[np.argmax(values)]
            text = f"largest gaps{where}: from {smallest} to {largest}"
        _draw.title(ax, text)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _choose_pair(column: str, groups: list[Any], pair: Any) -> list[int]:
    """Return the indices of the two groups of an attribute that are compared.

    `column` is its name if there are several attributes, else empty.
    """
    suffix = column and f" of {column}"
    if isinstance(pair, Mapping):
        pair = pair.get(column)
    if pair is None:
        if len(groups) > 2:
            first_two = tuple(groups[:2])
            example = {column: first_two} if column else first_two
            raise ValueError(
                f"There are {len(groups)} groups{suffix}, {groups[:8]}: say which two "
                f"to compare, as in pair={example}."
            )
        return [0, 1]
    chosen = list(pair)
    if len(chosen) != 2 or chosen[0] == chosen[1] or not set(chosen) <= set(groups):
        raise ValueError(
            f"pair must be two of the groups{suffix}, {groups[:8]}, got {pair!r}."
        )
    return [groups.index(group) for group in chosen]


def allowed_region(interval: tuple[float, float], kappa: float) -> NDArray[np.float64]:
    """Corners of the set of pairs of rates with a gap of at most kappa.

    The gap is the difference of the rates clipped to the interval, by its length.
    """
    low, high = interval
    d = kappa * (high - low)
    if kappa == 1:  # no gap is larger; the corners below would leave rates out
        return np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    # Within the interval a strip of half width d around the diagonal. It widens below
    # `low` and above `high`, where the clipped rates are equal.
    lower = [(low + d, 0), (low + d, low), (high, high - d), (1, high - d)]
    upper = [corner[::-1] for corner in reversed(lower)]  # mirrored at the diagonal
    return np.array([(0, 0), *lower, (1, 1), *upper], dtype=np.float64)


def _rate_curve(
    a: tuple[NDArray[Any], _inputs.Weights], b: tuple[NDArray[Any], _inputs.Weights]
) -> NDArray[np.float64]:
    """Rates of two groups above all thresholds, from the highest down.

    `a` and `b` are the scores of a group, and their weights or None.
    """
    # The curve has a vertex at each distinct score: ties are passed at once.
    scores = np.concatenate([a[0], b[0]])
    order = np.argsort(-scores, kind="stable")
    is_last_tie = np.append(np.diff(scores[order]) != 0, True)
    is_a = order < len(a[0])
    passed: list[NDArray[Any]] = [is_a, ~is_a]
    if a[1] is not None and b[1] is not None:
        passed = [rows * np.concatenate([a[1], b[1]])[order] for rows in passed]
    sums = np.column_stack([rows.cumsum()[is_last_tie] for rows in passed])
    counts = np.vstack([np.zeros((1, 2), sums.dtype), sums])
    # Leave out vertices within a horizontal or vertical piece. Vertices between sloping
    # pieces, which are ties of both groups, stay: the gap may be largest at any.
    steps = np.diff(counts, axis=0)
    is_straight = ((steps[:-1] == 0) & (steps[1:] == 0)).any(axis=1)
    vertices = counts[np.concatenate([[True], ~is_straight, [True]])]
    rates: NDArray[np.float64] = vertices / vertices[-1]
    return rates
