"""Losses of the groups and the total error against the number of components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.plotting._labels import (
    draw_legend,
    draw_title,
    label_axes,
    listed,
    literal,
    percent,
)
from scalefair.plotting._loss_fits import ROUNDING, as_sizes, fit_losses
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.plotting._styles import MARKERS, PALETTE
from scalefair.streaming import GroupMoments

__all__ = ["GroupLossDisplay"]

# The first method is the one that the others are compared with.
_METHOD_STYLES = ((0, (4, 2)), "-", ":", "-.")
_METHOD_GREYS = ("black", "0.6", "0.35", "0.75")
# Equal losses lie on top of each other: a wide line shows below a narrow one.
_WIDEST, _NARROWEST = 5.0, 1.6


class GroupLossDisplay:
    """Loss of each group and total reconstruction error by number of components.

    Two panels: to the left, what each group loses, per sample, against its own best
    basis, with the largest loss of each method in the title; to the right, the mean
    reconstruction error of all rows, the price of equal losses. Use `from_data` to
    compare plain with fair PCA.

    Parameters
    ----------
    n_components : array-like of shape (k,)
        Numbers of components, increasing.
    losses : mapping of str to ndarray of shape (k, n_groups)
        For each method, by its name, the loss of each group. The first method is
        the one that the others are compared with.
    total_errors : mapping of str to ndarray of shape (k,)
        For each method the mean squared distance of all rows from the subspace.
    groups : array-like of shape (n_groups,)
        Names of the groups.

    Attributes
    ----------
    axes_ : ndarray of shape (2,) of matplotlib Axes
        The axes drawn on: losses, total error.
    figure_ : matplotlib Figure
        The figure of the first.
    loss_lines_ : dict of str to list of matplotlib Line2D
        For each method the line of each group.
    error_lines_ : dict of str to matplotlib Line2D
        For each method the line of its total error.

    Raises
    ------
    ValueError
        If shapes or methods do not fit together, or a number is not finite.

    See Also
    --------
    scalefair.decomposition.FairPCA : Equal losses.
    JointNumericalRangeDisplay : What is possible with one number of components.

    Notes
    -----
    Losses and errors are in squared units of the features, per sample. A group is
    known by its colour and marker (the colours are those of Okabe and Ito, which
    people with colour vision deficiencies can tell apart), a method by its line:
    the first is dashed with open markers. Where groups have equal losses the lines
    of the first groups, which are wider, show behind the others.

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
    >>> display = GroupLossDisplay.from_data(
    ...     X,
    ...     sensitive_features=["a", "a", "a", "a", "b", "b"],
    ...     n_components=[1, 2],
    ...     axes=Figure().subplots(1, 2),
    ... )
    >>> display.losses["PCA"]
    array([[0., 1.],
           [0., 0.]])
    """

    axes_: Any
    figure_: Any
    loss_lines_: dict[str, list[Any]]
    error_lines_: dict[str, Any]

    def __init__(
        self,
        n_components: ArrayLike,
        *,
        losses: Mapping[str, ArrayLike],
        total_errors: Mapping[str, ArrayLike],
        groups: ArrayLike,
    ) -> None:
        self.n_components = np.asarray(n_components)
        self.losses = {name: np.asarray(values) for name, values in losses.items()}
        self.total_errors = {
            name: np.asarray(values) for name, values in total_errors.items()
        }
        self.groups = np.asarray(groups)
        self._check_shapes()

    def _check_shapes(self) -> None:
        k, n_groups = self.n_components.size, self.groups.size
        if not self.losses or list(self.losses) != list(self.total_errors):
            raise ValueError(
                "losses and total_errors must have the same methods in the same "
                f"order, got {list(self.losses)} and {list(self.total_errors)}."
            )
        for name in self.losses:
            shapes = self.losses[name].shape, self.total_errors[name].shape
            if shapes != ((k, n_groups), (k,)):
                raise ValueError(
                    f"With {k} numbers of components and {n_groups} groups, losses "
                    f"must have shape {(k, n_groups)} and total_errors {(k,)}, got "
                    f"{shapes[0]} and {shapes[1]} for {name!r}."
                )
            for what, values in (
                ("losses", self.losses[name]),
                ("total_errors", self.total_errors[name]),
            ):
                if not np.isfinite(values).all():
                    first = np.argwhere(~np.isfinite(values))[0][0]
                    raise ValueError(
                        f"{what} of {name!r} are NaN or infinite with n_components="
                        f"{self.n_components[first]}. Leave that out, or the method."
                    )

    @classmethod
    def from_data(
        cls,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        n_components: Iterable[int],
        centering: str = "global",
        methods: Mapping[str, Any] | None = None,
        axes: Any = None,
        legend: bool = True,
        **line_kwargs: Any,
    ) -> GroupLossDisplay:
        """Fit plain and fair PCA for several numbers of components, and draw.

        The rows are read once, for the moments of the groups: ``8 n_features**2``
        bytes a group. The rest of the time does not depend on their number.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows.
        sensitive_features : array-like of shape (m,)
            Group of each row; at least two different ones.
        n_components : iterable of int
            Numbers of components, in any order, each at most `n_features`.
        centering : {"global", "group"}, default="global"
            What is subtracted from the rows: the mean of all, or each group's own.
        methods : mapping of str to estimator or None, default=None
            What to fit, by name: `FairPCA`, `GroupPCA` and others with
            `from_moments`. Their `n_components` and `centering` are replaced. None
            takes ``{"PCA": GroupPCA(), "FairPCA": FairPCA()}``.
        axes : sequence of two matplotlib Axes or None, default=None
            Where to draw losses and total error; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the second axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        GroupLossDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If there are fewer than two groups, `n_components` is empty, or one of
            them does not fit the rows.

        Warns
        -----
        ConvergenceWarning
            As `FairPCA` does, for each number of components.
        """
        if methods is None:
            methods = {"PCA": GroupPCA(), "FairPCA": FairPCA()}
        sizes = as_sizes(n_components)
        moments = GroupMoments.from_data(X, sensitive_features)
        losses, errors = fit_losses(moments, sizes, centering, methods)
        display = cls(sizes, losses=losses, total_errors=errors, groups=moments.groups)
        return display.plot(axes=axes, legend=legend, **line_kwargs)

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
        """Draw the losses of a fitted fair PCA, and of plain PCA on the same rows.

        The rows are not needed: both are found anew from the moments for each number
        of components.

        Parameters
        ----------
        estimator : FairPCA
            Fitted with ``solver="gram"``, which keeps the moments.
        n_components : iterable of int or None, default=None
            Numbers of components; None takes 1 to those of the estimator.
        axes : sequence of two matplotlib Axes or None, default=None
            Where to draw losses and total error; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the second axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        GroupLossDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
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
        sizes = as_sizes(n_components)
        methods = {"PCA": GroupPCA(), "FairPCA": estimator}
        moments, centering = estimator.moments_, estimator.centering
        losses, errors = fit_losses(moments, sizes, centering, methods)
        display = cls(sizes, losses=losses, total_errors=errors, groups=moments.groups)
        return display.plot(axes=axes, legend=legend, **line_kwargs)

    def plot(
        self, axes: Any = None, *, legend: bool = True, **line_kwargs: Any
    ) -> GroupLossDisplay:
        """Draw the lines.

        Parameters
        ----------
        axes : sequence of two matplotlib Axes or None, default=None
            Where to draw losses and total error; None makes a figure.
        legend : bool, default=True
            Whether to show a legend, to the right of the second axes.
        **line_kwargs : dict
            Passed to ``Axes.plot``.

        Returns
        -------
        GroupLossDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If `axes` are not two.
        """
        if axes is None:
            _, axes = import_pyplot(self).subplots(
                1, 2, figsize=(10, 4), layout="constrained"
            )
        axes = np.asarray(axes, dtype=object).ravel()
        if axes.size != 2:
            raise ValueError(
                "axes must be two, for the losses and the total error, got "
                f"{axes.size}."
            )
        self.loss_lines_ = {
            name: self._draw_losses(axes[0], i, name, line_kwargs)
            for i, name in enumerate(self.losses)
        }
        self.error_lines_ = {
            name: self._draw_errors(axes[1], i, name, line_kwargs)
            for i, name in enumerate(self.losses)
        }
        if legend:
            self._draw_legend(axes[1])
        self._label(axes)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    def _draw_losses(
        self, ax: Any, i: int, name: str, line_kwargs: dict[str, Any]
    ) -> list[Any]:
        widths = np.linspace(_WIDEST, _NARROWEST, len(self.groups))
        lines = []
        for g, width in enumerate(widths):
            style = {
                **_method_style(i),
                **_group_style(g),
                "linewidth": width if i else _NARROWEST,
                "markersize": 4 + width if i else 6,
                "markerfacecolor": _group_style(g)["color"] if i else "white",
                **line_kwargs,
            }
            lines += ax.plot(self.n_components, self.losses[name][:, g], **style)
        return lines

    def _draw_errors(
        self, ax: Any, i: int, name: str, line_kwargs: dict[str, Any]
    ) -> Any:
        style = {
            **_method_style(i),
            "color": _grey(i),
            "linewidth": _WIDEST if i else _NARROWEST,
            "marker": "o",
            "markersize": 8 if i else 5,
            "markerfacecolor": _grey(i) if i else "white",
            # The line that the others are compared with lies on top of them.
            "zorder": 2.5 if i == 0 else 2,
            "label": literal(name),
            **line_kwargs,
        }
        return ax.plot(self.n_components, self.total_errors[name], **style)[0]

    def _label(self, axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        for ax, name in zip(axes, ("loss", "reconstruction error"), strict=True):
            top = ax.dataLim.ymax
            if top > 0:
                ax.set_ylim(-0.03 * top, 1.05 * top)  # whole markers at zero
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            measure = f"{name} per sample (squared units of the features)"
            label_axes(ax, "number of components", measure)
        draw_title(axes[0], _largest("loss", self.losses))
        draw_title(axes[1], self._price())

    def _price(self) -> list[str]:
        """Say what the methods add to the error of the first, at the most."""
        first, *others = self.total_errors
        base = self.total_errors[first]
        counted = base > ROUNDING * base.max(initial=0.0)
        if not others or not counted.any():
            return _largest("error", self.total_errors)
        return listed([self._change(name, base, counted) for name in others])

    def _change(self, name: str, base: NDArray[Any], counted: NDArray[np.bool_]) -> str:
        """Say what a method adds to an error, at the most, or takes off."""
        errors, sizes = self.total_errors[name], self.n_components
        beside_nothing = ~counted & (errors > ROUNDING * base.max())
        if beside_nothing.any():
            r, change = sizes[beside_nothing][0], "adds to an error of nothing"
        else:
            added = errors[counted] / base[counted] - 1
            most, r = added.max(), sizes[counted][added.argmax()]
            if abs(most) <= ROUNDING:
                return f"{literal(name)} adds nothing"
            does = "adds at most" if most > 0 else "takes off at least"
            change = f"{does} {percent(abs(most))}"
        return f"{literal(name)} {change} (with {r} component{'' if r == 1 else 's'})"

    def _draw_legend(self, ax: Any) -> None:
        from matplotlib.lines import Line2D

        groups = [
            Line2D([], [], label=literal(group), linewidth=2, **_group_style(g))
            for g, group in enumerate(self.groups)
        ]
        methods = [
            Line2D(
                [],
                [],
                label=literal(name),
                color=_grey(i),
                marker="o",
                markerfacecolor=_grey(i) if i else "white",
                linewidth=3 if i else _NARROWEST,
                **_method_style(i),
            )
            for i, name in enumerate(self.losses)
        ]
        draw_legend(ax, "group", [*groups, "method", *methods])


def _largest(what: str, values: Mapping[str, NDArray[Any]]) -> list[str]:
    """Say how large a measure is at the most, for each method."""
    found = [f"{literal(name)} {those.max():.3g}" for name, those in values.items()]
    return [f"largest {what}:", *listed(found)]


def _group_style(g: int) -> dict[str, Any]:
    return {
        "color": PALETTE[g % len(PALETTE)],
        "marker": MARKERS[g % len(MARKERS)],
    }


def _method_style(i: int) -> dict[str, Any]:
    return {"linestyle": _METHOD_STYLES[i % len(_METHOD_STYLES)]}


def _grey(i: int) -> str:
    return _METHOD_GREYS[i % len(_METHOD_GREYS)]
