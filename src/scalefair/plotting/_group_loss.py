"""Losses of the groups and the total error against the number of components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair.decomposition import FairPCA, GroupPCA
from scalefair.plotting._cluster_composition import _PALETTE
from scalefair.plotting._matplotlib import import_pyplot
from scalefair.streaming import GroupMoments

__all__ = ["GroupLossDisplay"]

_MARKERS = "os^Dv<>p"
# The first method is the one that the others are compared with.
_METHOD_STYLES = ((0, (4, 2)), "-", ":", "-.")
_METHOD_GREYS = ("black", "0.6", "0.35", "0.75")
# Equal losses lie on top of each other: a wide line shows below a narrow one.
_WIDEST, _NARROWEST = 5.0, 1.6
# Errors this small beside the variance, or beside the largest, are rounding.
_ROUNDING = 1e-12


class GroupLossDisplay:
    """Loss of each group and total reconstruction error by number of components.

    Two panels: to the left, what each group loses, per sample, against its own best
    basis; to the right, the mean reconstruction error of all rows, the price of
    equal losses. Use `from_data` to compare plain with fair PCA.

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
        If shapes or methods do not fit together.

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
        sizes = sorted({int(r) for r in n_components})
        if not sizes:
            raise ValueError("n_components is empty: give at least one number.")
        moments = GroupMoments.from_data(X, sensitive_features)
        display = cls._of_moments(moments, sizes, centering, methods)
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
            If it kept no moments.
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "moments_"):
            raise ValueError(
                'This FairPCA was fitted by solver="matrix_free" and kept no moments: '
                'fit it with solver="gram", or use from_data.'
            )
        if n_components is None:
            n_components = range(1, estimator.n_components + 1)
        sizes = sorted({int(r) for r in n_components})
        methods = {"PCA": GroupPCA(), "FairPCA": estimator}
        display = cls._of_moments(
            estimator.moments_, sizes, estimator.centering, methods
        )
        return display.plot(axes=axes, legend=legend, **line_kwargs)

    @classmethod
    def _of_moments(
        cls,
        moments: GroupMoments,
        sizes: list[int],
        centering: str,
        methods: Mapping[str, Any],
    ) -> GroupLossDisplay:
        """Fit every method for every number of components; nothing is drawn."""
        shares = moments.counts / moments.counts.sum()
        losses, total_errors = {}, {}
        for name, method in methods.items():
            fits = [_fit(method, moments, r, centering) for r in sizes]
            losses[name] = np.array([fit.group_losses_ for fit in fits])
            total_errors[name] = np.array([_total_error(fit, shares) for fit in fits])
        return cls(
            sizes, losses=losses, total_errors=total_errors, groups=moments.groups
        )

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
        self._label(axes)
        if legend:
            self._draw_legend(axes)
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
            # The line that the others are compared with lies on top of them.
            "zorder": 2.5 if i == 0 else 2,
            "label": name,
            **line_kwargs,
        }
        return ax.plot(self.n_components, self.total_errors[name], **style)[0]

    def _label(self, axes: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        for ax, name in zip(axes, ("loss", "reconstruction error"), strict=True):
            ax.set(xlabel="number of components", ylabel=f"{name} per sample")
            ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])  # whole markers at zero
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes[0].set_title(
            "largest loss: "
            + ", ".join(f"{n} {v.max():.3g}" for n, v in self.losses.items())
        )
        axes[1].set_title(self._price())

    def _price(self) -> str:
        """Say what the methods add to the error of the first, at the most."""
        first, *others = self.total_errors
        base = self.total_errors[first]
        counted = base > _ROUNDING * base.max(initial=0.0)
        if not counted.any():
            return ""
        sizes = self.n_components[counted]
        parts = []
        for name in others:
            added = self.total_errors[name][counted] / base[counted] - 1
            worst = int(added.argmax())
            parts.append(
                f"{name} adds at most {_percent(added[worst])} (at {sizes[worst]})"
            )
        return ", ".join(parts)

    def _draw_legend(self, axes: Any) -> None:
        from matplotlib.lines import Line2D

        handles = [
            Line2D([], [], label=f"group {group}", linewidth=2, **_group_style(g))
            for g, group in enumerate(self.groups)
        ]
        for i, name in enumerate(self.losses):
            grey = _grey(i)
            handles.append(
                Line2D(
                    [],
                    [],
                    label=name,
                    color=grey,
                    marker="o",
                    markerfacecolor=grey if i else "white",
                    linewidth=3 if i else _NARROWEST,
                    **_method_style(i),
                )
            )
        axes[1].legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.01, 1.0),
            borderaxespad=0.0,
            frameon=False,
            handlelength=3.5,
        )


def _fit(method: Any, moments: GroupMoments, r: int, centering: str) -> Any:
    parameters = {**method.get_params(), "n_components": r, "centering": centering}
    return type(method).from_moments(moments, **parameters)


def _total_error(fit: Any, shares: NDArray[Any]) -> float:
    """Mean squared distance of all rows, zero if it is rounding of their variance."""
    error = float(fit.group_reconstruction_errors_ @ shares)
    return error if error > _ROUNDING * fit.explained_variance_.sum() else 0.0


def _group_style(g: int) -> dict[str, Any]:
    return {
        "color": _PALETTE[g % len(_PALETTE)],
        "marker": _MARKERS[g % len(_MARKERS)],
    }


def _method_style(i: int) -> dict[str, Any]:
    return {"linestyle": _METHOD_STYLES[i % len(_METHOD_STYLES)]}


def _grey(i: int) -> str:
    return _METHOD_GREYS[i % len(_METHOD_GREYS)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2g} %"
