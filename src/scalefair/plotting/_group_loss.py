"""Losses of the groups and the total error against the number of components."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._groups import as_list
from scalefair._rounding import ROUNDING
from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.plotting import _draw, _inputs
from scalefair.streaming import GroupMoments

_TEXTS = {
    **_draw.TEXTS,
    "axes": """\
axes : sequence of two matplotlib Axes or None, default=None
    Where to draw losses and total error; None makes a figure.
legend : bool, default=True
    Whether to show a legend, to the right of the second axes.
"""
    + _draw.TEXTS["line_options"],
}
# Styles of the methods. The others are compared with the first one.
_DASHES = ((0, (4, 2)), "-", ":", "-.")
_GREYS = ("black", "0.6", "0.35", "0.75")
# Line widths in points, of the first and of the last group.
_LINE_WIDTHS = (5.0, 1.6)


@documented(**_TEXTS)
class GroupLossDisplay:
    """Loss of each group and total reconstruction error by number of components.

    To the left the loss of each group, per sample, relative to the best basis of the
    group; to the right the mean reconstruction error of all rows, the price of equal
    losses. Groups have colours and markers, methods have lines. Lines of equal losses
    coincide: the wider ones show behind the others. Use `from_data` to compare plain
    with fair PCA.

    Parameters
    ----------
    n_components : array-like of shape (k,)
        Numbers of components, increasing.
    losses : mapping of str to ndarray of shape (k, n_groups)
        Loss of each group, for each method; the others are compared with the first.
    total_errors : mapping of str to ndarray of shape (k,)
        For each method the mean squared distance of all rows from the subspace.
    %(groups)s

    Attributes
    ----------
    axes_ : ndarray of shape (2,) of matplotlib Axes
        The axes drawn on: losses, total error.
    figure_ : matplotlib Figure
        Their figure.
    loss_lines_ : dict of str to list of matplotlib Line2D
        For each method the line of each group.
    error_lines_ : dict of str to matplotlib Line2D
        For each method the line of its total error.

    %(bad_parts)s

    References
    ----------
    .. [1] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", figure 3.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import GroupLossDisplay
    >>> X = np.array([[4.0, 0], [-4, 0], [3, 0], [-3, 0], [0, 1], [0, -1]])
    >>> groups, axes = ["a", "a", "a", "a", "b", "b"], Figure().subplots(1, 2)
    >>> display = GroupLossDisplay.from_data(
    ...     X, sensitive_features=groups, n_components=[1, 2], axes=axes
    ... )
    >>> display.losses["PCA"]
    array([[0., 1.],
           [0., 0.]])
    """

    def __init__(
        self,
        n_components: ArrayLike,
        *,
        losses: Mapping[str, ArrayLike],
        total_errors: Mapping[str, ArrayLike],
        groups: ArrayLike,
    ) -> None:
        if not losses or list(losses) != list(total_errors):
            raise ValueError(
                "losses and total_errors must have the same methods in the same "
                f"order, got {list(losses)} and {list(total_errors)}."
            )
        self.n_components = np.asarray(n_components)
        self.groups = np.asarray(groups)
        k, n_groups = self.n_components.size, self.groups.size
        self.losses = {
            name: _inputs.as_array(values, f"losses of {name!r}", (k, n_groups))
            for name, values in losses.items()
        }
        self.total_errors = {
            name: _inputs.as_array(values, f"total_errors of {name!r}", (k,))
            for name, values in total_errors.items()
        }

    @classmethod
    @checked_call
    def from_data(
        cls,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        n_components: Iterable[int],
        centering: str = "global",
        attributes: str = "joint",
        methods: Mapping[str, Any] | None = None,
        axes: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupLossDisplay:
        """Fit plain and fair PCA for several numbers of components, and draw.

        Rows are read once, for moments of ``8 n_features**2`` bytes a group.

        Parameters
        ----------
        %(X)s
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        n_components : iterable of int
            Numbers of components, in any order, each at most `n_features`.
        centering : {"global", "group"}, default="global"
            What is subtracted from the rows: the mean of all, or each group's own.
        %(attributes)s
        methods : mapping of str to estimator or None, default=None
            Estimators with `from_moments`, whose `n_components` and `centering` are
            replaced. None takes ``{"PCA": GroupPCA(), "FairPCA": FairPCA()}``.
        %(axes)s
        ValueError
            If there is one group only, or `n_components` does not fit the rows.

        Warns
        -----
        ConvergenceWarning
            As `FairPCA` does, for each number of components.
        """
        if methods is None:
            methods = {"PCA": GroupPCA(), "FairPCA": FairPCA()}
        moments = GroupMoments._from_attributes(
            X, sensitive_features, attributes, sample_weight, group_probabilities
        )
        display = cls._from_moments(moments, n_components, centering, methods)
        return display.plot(axes, legend=legend, **line_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: FairPCA,
        *,
        n_components: Iterable[int] | None = None,
        axes: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupLossDisplay:
        """Draw the losses of fair and plain PCA, fitted anew to an estimator's moments.

        Parameters
        ----------
        estimator : FairPCA
            Fitted with ``solver="gram"``, which keeps the moments.
        n_components : iterable of int or None, default=None
            Numbers of components; None takes 1 to those of the estimator.
        %(axes)s
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If it kept no moments, or `n_components` is empty or does not fit them.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "moments_"):
            raise ValueError(
                'This FairPCA was fitted by solver="matrix_free" and kept no moments: '
                'fit it with solver="gram", or use from_data.'
            )
        if n_components is None:
            n_components = range(1, estimator.n_components + 1)
        methods = {"PCA": GroupPCA(), "FairPCA": estimator}
        moments, centering = as_list(estimator.moments_), estimator.centering
        display = cls._from_moments(moments, n_components, centering, methods)
        return display.plot(axes, legend=legend, **line_kwargs)

    @classmethod
    def _from_moments(
        cls,
        moments: list[GroupMoments],
        n_components: Iterable[int],
        centering: str,
        methods: Mapping[str, Any],
    ) -> GroupLossDisplay:
        """Fit every method for every number of components to moments of attributes."""
        try:
            ranks = sorted({operator.index(r) for r in n_components})
        except TypeError:
            raise ValueError(
                f"n_components must be whole numbers, such as range(1, 6), got "
                f"{n_components!r}."
            ) from None
        if not ranks:
            raise ValueError("n_components is empty: give at least one number.")
        counts = moments[0].counts  # the groups of every attribute have all rows
        shares = counts / counts.sum()
        losses: dict[str, Any] = {name: [] for name in methods}
        errors: dict[str, Any] = {name: [] for name in methods}
        for name, method in methods.items():
            for r in ranks:
                replaced = {"n_components": r, "centering": centering}
                parameters = {**method.get_params(), **replaced}
                fit = type(method).from_moments(moments, **parameters)
                # The total error is the mean over the groups of the first attribute.
                error = np.hstack(fit.group_reconstruction_errors_)[: len(counts)]
                error = error @ shares
                loss = np.hstack(fit.group_losses_)
                # Losses and errors that are rounding count as 0.
                rounding = ROUNDING * fit.explained_variance_.sum()
                losses[name].append(np.where(loss > rounding, loss, 0.0))
                errors[name].append(error if error > rounding else 0.0)
        groups = np.concatenate([m.groups.astype(object) for m in moments])
        return cls(ranks, losses=losses, total_errors=errors, groups=groups)

    def plot(
        self, axes: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> GroupLossDisplay:
        """Draw the lines.

        Parameters
        ----------
        %(axes)s
        ValueError
            If `axes` are not two.
        """
        axes = _draw.make_axes(self, axes, 1, 2, figsize=(10, 4))
        from matplotlib.ticker import MaxNLocator

        axes = np.asarray(axes, dtype=object).ravel()
        if axes.size != 2:
            raise ValueError(
                "axes must be two, for the losses and the total error, got "
                f"{axes.size}."
            )
        # 1. Losses to the left, a line for each method and group; errors to the right.
        widths = np.linspace(*_LINE_WIDTHS, self.groups.size)
        groups = [
            {"color": _draw.color(g), "marker": _draw.MARKERS[g % len(_draw.MARKERS)]}
            for g in range(self.groups.size)
        ]
        self.loss_lines_: dict[str, list[Any]] = {}
        self.error_lines_: dict[str, Any] = {}
        for i, name in enumerate(self.losses):
            self.loss_lines_[name] = lines = []
            for width, group, losses in zip(
                widths, groups, self.losses[name].T, strict=True
            ):
                style = {**group, **_method_style(i, width), **line_kwargs}
                lines += axes[0].plot(self.n_components, losses, **style)
            style = {
                "color": _GREYS[i % len(_GREYS)],
                "marker": "o",
                "label": _draw.literal(name),
                **_method_style(i, _LINE_WIDTHS[0]),
                **line_kwargs,
            }
            (self.error_lines_[name],) = axes[1].plot(
                self.n_components, self.total_errors[name], **style
            )
        # 2. The legend lists the groups, then the methods.
        if legend:
            handles = [
                _draw.key(name, linewidth=2, **group)
                for name, group in zip(self.groups, groups, strict=True)
            ]
            handles += ["method", *self.error_lines_.values()]
            _draw.legend(axes[1], "group", handles)
        for ax, name in zip(axes, ("loss", "reconstruction error"), strict=True):
            top = ax.dataLim.ymax
            if top > 0:
                ax.set_ylim(-0.03 * top, 1.05 * top)  # whole markers at zero
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            measure = f"{name} per sample (squared units of the features)"
            _draw.labels(ax, "number of components", measure)
        # 3. Titles have the largest losses, and by how much errors change.
        _draw.title(axes[0], _maxima("loss", self.losses))
        first, *methods = self.total_errors
        base = self.total_errors[first]
        title = ", ".join(self._describe_change(name, base) for name in methods)
        if not methods or not base.any():
            title = _maxima("error", self.total_errors)
        _draw.title(axes[1], title)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _describe_change(self, name: str, base: NDArray[Any]) -> str:
        """Describe the largest relative increase of the error, or least decrease."""
        errors, rounding = self.total_errors[name], ROUNDING * base.max()
        # Relative to a base of 0 any error is infinite, and 0 is left out (-inf).
        change = np.where(errors > rounding, np.inf, -np.inf)
        is_positive = base > rounding
        change[is_positive] = errors[is_positive] / base[is_positive] - 1
        r = change.argmax()
        method, value = _draw.literal(name), 100 * abs(change[r])
        if abs(change[r]) <= ROUNDING:
            return f"{method} adds nothing"
        percent = f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"
        verb = "adds at most" if change[r] > 0 else "takes off at least"
        if np.isinf(change[r]):
            verb, percent = "adds to", "an error of nothing"
        n = self.n_components[r]
        return f"{method} {verb} {percent} (with {n} component{'' if n == 1 else 's'})"


def _maxima(measure: str, values: Mapping[str, NDArray[Any]]) -> str:
    """Return the largest value of a measure for each method, as a title."""
    maxima = (f"{_draw.literal(name)} {x.max():.3g}" for name, x in values.items())
    return f"largest {measure}: {', '.join(maxima)}"


def _method_style(i: int, width: float) -> dict[str, Any]:
    """Return the style of a line.

    The first method is dashed, with open markers and on top, so that lines of other
    methods that coincide with it show.
    """
    width = width if i else _LINE_WIDTHS[1]
    style = {
        "linestyle": _DASHES[i % len(_DASHES)],
        "linewidth": width,
        "markersize": 4 + width,
        "zorder": 2 if i else 2.5,
    }
    return style if i else {**style, "markerfacecolor": "white"}
