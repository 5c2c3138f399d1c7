"""What one basis can capture from two groups, and the fair choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair.plotting._captured_variance import (
    captured,
    check_orthonormal,
    check_plane,
    find_fair_point,
    moments_of_two,
    plain_basis,
    region,
)
from scalefair.plotting._labels import (
    draw_title,
    label_axes,
    literal,
    percent,
)
from scalefair.plotting._loss_corners import (
    choose_levels,
    draw_corner,
    draw_legend_beside_losses,
    draw_loss_axis,
    losses_at,
    spread_ticks,
    window,
)
from scalefair.plotting._matplotlib import import_pyplot

__all__ = ["JointNumericalRangeDisplay"]

# Okabe and Ito's blue, sky blue, vermilion and orange.
_EDGE, _REGION, _FAIR, _PLAIN = "#0072B2", "#56B4E9", "#D55E00", "#E69F00"


class JointNumericalRangeDisplay:
    """Region of the variances that one basis can capture from two groups.

    Every orthonormal basis of r components is a point: the variance it captures
    from the first group to the right, from the second upwards. The axes above and
    to the right measure losses, what is missing to the group's own best basis.
    Along a dotted corner the larger of the two losses is the same; the solid corner
    touches the region in one point only, fair PCA, where it meets the line of equal
    losses. The title has the losses of fair PCA: of the whole region as shares of each
    group's best, near the optimum the larger one, beside that of plain PCA. Use
    `from_covariances` or `from_estimator` to create one.

    Parameters
    ----------
    boundary : ndarray of shape (k, 2)
        Boundary points of the region, counterclockwise.
    best : array-like of shape (2,)
        Largest variance that can be captured from each group.
    fair_point : array-like of shape (2,)
        Variances captured by fair PCA.
    plain_point : array-like of shape (2,) or None, default=None
        Variances captured by plain PCA; None leaves it out.
    groups : sequence of two, default=("A", "B")
        Names of the groups.
    filled : bool, default=True
        Whether the interior belongs to the set: not so for one component of two
        features.
    name : str, default="fair PCA"
        Name of the fair point.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    region_ : matplotlib Polygon
        The region.
    levels_ : ndarray of shape (n_levels,)
        Largest losses of the dotted corners.
    level_lines_ : list of matplotlib Line2D
        The dotted corners.
    fair_level_line_ : matplotlib Line2D
        The corner of fair PCA's largest loss.
    equal_line_ : matplotlib Line2D
        The line of equal losses.
    markers_ : dict of str to matplotlib Line2D
        The markers ``"fair"``, ``"plain"`` (if it is given) and ``"best"``.

    Raises
    ------
    ValueError
        If the shapes are not those of two groups, or a number is not finite.

    See Also
    --------
    scalefair.decomposition.joint_numerical_range : The boundary.
    GroupLossDisplay : Losses against the number of components.

    Notes
    -----
    The colours are those of Okabe and Ito, which people with colour vision
    deficiencies can tell apart; points and lines differ in shape as well.

    References
    ----------
    .. [1] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", section 3.4 and figure 2, which has the losses on
       the axes: the same picture turned by half a turn.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import JointNumericalRangeDisplay
    >>> display = JointNumericalRangeDisplay.from_covariances(
    ...     np.diag([3.0, 0, 0]), np.diag([0, 3.0, 1]), 1, ax=Figure().subplots()
    ... )
    >>> display.fair_point.round(6)
    array([1.5, 1.5])
    """

    ax_: Any
    figure_: Any
    region_: Any
    levels_: NDArray[np.float64]
    level_lines_: list[Any]
    fair_level_line_: Any
    equal_line_: Any
    markers_: dict[str, Any]

    def __init__(
        self,
        boundary: NDArray[np.float64],
        *,
        best: ArrayLike,
        fair_point: ArrayLike,
        plain_point: ArrayLike | None = None,
        groups: Sequence[Any] | NDArray[Any] = ("A", "B"),
        filled: bool = True,
        name: str = "fair PCA",
    ) -> None:
        self.boundary = boundary = np.asarray(boundary)
        self.best = np.asarray(best)
        self.fair_point = np.asarray(fair_point)
        self.plain_point = None if plain_point is None else np.asarray(plain_point)
        self.groups = groups
        names = ("best", "fair_point", "plain_point")
        check_plane(boundary, {name: getattr(self, name) for name in names}, groups)
        self.filled = filled
        self.name = name

    @classmethod
    def from_covariances(
        cls,
        C_A: ArrayLike,
        C_B: ArrayLike,
        n_components: int,
        *,
        group_sizes: ArrayLike | None = None,
        groups: Sequence[Any] = ("A", "B"),
        n_angles: int = 180,
        ax: Any = None,
        view: str = "all",
        legend: bool = True,
        **fill_kwargs: Any,
    ) -> JointNumericalRangeDisplay:
        """Draw the region of two covariance matrices.

        Parameters
        ----------
        C_A, C_B : array-like of shape (n, n)
            Covariances of the groups, per row of the group.
        n_components : int
            Number of components, at most n.
        group_sizes : array-like of shape (2,) or None, default=None
            Number of rows of each group, which decide where plain PCA lies. None
            leaves it out.
        groups : sequence of two, default=("A", "B")
            Names of the groups.
        n_angles : int, default=180
            Directions in which the boundary is computed. Twice as many are used in
            the quarter turn that faces both groups' best: about n_angles
            eigendecompositions of order n in all.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        view : {"all", "optimum"}, default="all"
            Whether to show the whole region or the part between the two groups' own
            best bases, which is small when the groups are alike.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **fill_kwargs : dict
            Passed to ``Axes.fill``.

        Returns
        -------
        JointNumericalRangeDisplay
            The display, drawn.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If the matrices are not symmetric, finite and of one shape,
            `n_components` does not fit them, or `view` is unknown.
        """
        boundary, arc = region(C_A, C_B, n_components, n_angles)
        C = np.array([C_A, C_B], dtype=np.float64)
        display = cls(
            boundary,
            best=arc.support[[0, -1]],
            fair_point=find_fair_point(C, n_components, arc),
            plain_point=(
                None
                if group_sizes is None
                else captured(C, plain_basis(C, group_sizes, n_components))
            ),
            groups=groups,
            filled=C.shape[1] != 2,
        )
        return display.plot(ax=ax, view=view, legend=legend, **fill_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike,
        n_angles: int = 180,
        ax: Any = None,
        name: str | None = None,
        view: str = "all",
        legend: bool = True,
        **fill_kwargs: Any,
    ) -> JointNumericalRangeDisplay:
        """Draw the region of two groups of rows, with a fitted estimator as fair.

        Parameters
        ----------
        estimator : estimator
            Fitted `FairPCA`, or another with orthonormal `components_` and the
            parameter `centering`.
        X : {array-like, sparse matrix} of shape (m, n_features)
            Rows. For others than those it was fitted to, the estimator's point may
            lie inside the region.
        sensitive_features : array-like of shape (m,)
            Group of each row, two different ones.
        n_angles : int, default=180
            As for `from_covariances`.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        name : str or None, default=None
            Name of the estimator's point; None takes its class.
        view : {"all", "optimum"}, default="all"
            As for `from_covariances`.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **fill_kwargs : dict
            Passed to ``Axes.fill``.

        Returns
        -------
        JointNumericalRangeDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ImportError
            If matplotlib is missing.
        ValueError
            If there are not two groups, the rows do not have the estimator's
            features, its components are not orthonormal, or `view` is unknown.
        """
        check_is_fitted(estimator, "components_")
        U = np.asarray(estimator.components_, dtype=np.float64).T
        check_orthonormal(U)
        moments = moments_of_two(X, sensitive_features, U.shape[0])
        C, r = moments.covariances(estimator.centering), U.shape[1]
        boundary, arc = region(C[0], C[1], r, n_angles)
        display = cls(
            boundary,
            best=arc.support[[0, -1]],
            fair_point=captured(C, U),
            plain_point=captured(C, plain_basis(C, moments.counts, r)),
            groups=moments.groups,
            filled=C.shape[1] != 2,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, view=view, legend=legend, **fill_kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        view: str = "all",
        legend: bool = True,
        **fill_kwargs: Any,
    ) -> JointNumericalRangeDisplay:
        """Draw the region, the corners and the points.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a figure.
        view : {"all", "optimum"}, default="all"
            As for `from_covariances`.
        legend : bool, default=True
            Whether to show a legend, to the right of the axes.
        **fill_kwargs : dict
            Passed to ``Axes.fill``.

        Returns
        -------
        JointNumericalRangeDisplay
            This display.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        ValueError
            If `view` is unknown.
        """
        if view not in ("all", "optimum"):
            raise ValueError(f"view must be 'all' or 'optimum', got {view!r}.")
        low, high = window(self._shown(view))
        if ax is None:
            _, ax = import_pyplot(self).subplots(figsize=(8, 5), layout="constrained")
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        self._draw_region(ax, fill_kwargs)
        self._draw_levels(ax, low, high)
        self._draw_points(ax)
        if legend:
            draw_legend_beside_losses(ax)
        self._label(ax, view)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shown(self, view: str) -> NDArray[Any]:
        points = [self.best, self.fair_point]
        if self.plain_point is not None:
            points.append(self.plain_point)
        ends = self.boundary
        if view == "optimum":  # the groups' own best bases
            ends = ends[ends.argmax(axis=0)]
        return np.vstack([*points, ends])

    def _draw_region(self, ax: Any, fill_kwargs: dict[str, Any]) -> None:
        style: dict[str, Any] = {
            "facecolor": _REGION if self.filled else "none",
            "edgecolor": _EDGE,
            "linewidth": 1.2,
            "alpha": 0.35 if self.filled else 1.0,
            "label": "possible for one basis",
            "zorder": 1,
            **fill_kwargs,
        }
        (self.region_,) = ax.fill(self.boundary[:, 0], self.boundary[:, 1], **style)

    def _draw_levels(self, ax: Any, low: NDArray[Any], high: NDArray[Any]) -> None:
        self.levels_ = choose_levels(self.best, low)
        self.level_lines_ = [
            draw_corner(
                ax, self.best, level, color="0.35", linestyle=":", linewidth=1.1
            )
            for level in self.levels_
        ]
        if self.level_lines_:
            self.level_lines_[0].set_label("equal largest loss")
        self.fair_level_line_ = draw_corner(
            ax,
            self.best,
            self._largest_loss(self.fair_point),
            color=_FAIR,
            linewidth=1.4,
            label=f"largest loss of {literal(self.name)}",
        )
        start = self.best - (self.best - low).max()
        (self.equal_line_,) = ax.plot(
            *np.column_stack([start, self.best]),
            color="black",
            linewidth=1.2,
            linestyle=(0, (6, 3)),
            label="equal losses",
            zorder=2,
        )
        for g, place in enumerate(("top", "right")):
            draw_loss_axis(
                ax,
                place,
                best=float(self.best[g]),
                ticks=spread_ticks(self.levels_, float(high[g] - low[g])),
                label=f"loss of group {literal(self.groups[g])} (same units)",
            )

    def _draw_points(self, ax: Any) -> None:
        looks = {
            "best": (self.best, "P", "white", 10, "each group's own best"),
            "plain": (self.plain_point, "o", _PLAIN, 9, "plain PCA"),
            "fair": (self.fair_point, "*", _FAIR, 17, literal(self.name)),
        }
        self.markers_ = {}
        for key, (point, marker, color, size, label) in looks.items():
            if point is not None:
                (self.markers_[key],) = ax.plot(
                    *point,
                    marker=marker,
                    markersize=size,
                    markerfacecolor=color,
                    markeredgecolor="black",
                    linestyle="none",
                    label=label,
                    zorder=3,
                )

    def _label(self, ax: Any, view: str) -> None:
        x, y = (
            f"captured variance of group {literal(group)} "
            "(squared units of the features)"
            for group in self.groups
        )
        label_axes(ax, x, y)
        draw_title(ax, self._shares() if view == "all" else self._largest_losses())

    def _shares(self) -> list[str]:
        """Say how much of what its own best basis captures each group loses."""
        losses = losses_at(self.fair_point, self.best)
        found = [
            f"{percent(loss / best if loss else 0.0)} ({literal(group)})"
            for loss, best, group in zip(losses, self.best, self.groups, strict=True)
        ]
        who = f"of each group's best, {literal(self.name)} loses"
        return [who, found[0], f"and {found[1]}"]

    def _largest_losses(self) -> list[str]:
        fair = f"{literal(self.name)} {self._largest_loss(self.fair_point):.3g}"
        if self.plain_point is None:
            return ["largest loss:", fair]
        plain = f"plain PCA {self._largest_loss(self.plain_point):.3g}"
        return ["largest loss:", f"{fair},", plain]

    def _largest_loss(self, point: NDArray[Any]) -> float:
        return float(losses_at(point, self.best).max())
