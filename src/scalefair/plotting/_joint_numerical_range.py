"""Variances that one basis can capture from two groups, and the fair choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._rounding import ROUNDING
from scalefair.decomposition import FairPCA, joint_numerical_range
from scalefair.plotting import _draw, _inputs
from scalefair.streaming import GroupMoments

# Okabe and Ito's blue, sky blue, vermilion and orange.
_EDGE, _REGION, _FAIR, _PLAIN = "#0072B2", "#56B4E9", "#D55E00", "#E69F00"
_TEXTS = {
    **_draw.TEXTS,
    "drawing": f"""\
{_draw.TEXTS["ax"]}
view : {{"all", "optimum"}}, default="all"
    Whether to show the whole region or the part between the two groups' own best
    bases, which is small when the groups are alike.
{_draw.TEXTS["legend"]}
{_draw.TEXTS["fill_options"]}""",
    "n_angles": """\
n_angles : int, default=180
    Directions of the boundary: about so many eigendecompositions of order n.""",
}


@documented(**_TEXTS)
class JointNumericalRangeDisplay:
    """Region of the variances that one basis can capture from two groups.

    Every orthonormal basis of r components is a point: the variance it captures from
    the first group to the right, from the second upwards. The axes above and to the
    right measure losses, the difference to the best basis of the group. Along a dotted
    corner the larger loss is the same; the solid one touches the region in fair PCA
    only, on the line of equal losses. Use `from_covariances` or `from_estimator`.

    Parameters
    ----------
    boundary : ndarray of shape (k, 2)
        Boundary of the region (`decomposition.joint_numerical_range`).
    best : array-like of shape (2,)
        Largest variance that can be captured from each group.
    fair_point : array-like of shape (2,)
        Variances captured by fair PCA.
    plain_point : array-like of shape (2,) or None, default=None
        Variances captured by plain PCA; None leaves it out.
    groups : sequence of two, default=("A", "B")
        Names of the groups.
    filled : bool, default=True
        Whether the interior belongs to the set; not for one component of two features.
    name : str, default="fair PCA"
        Name of the fair point.

    Attributes
    ----------
    %(ax_)s
    region_ : matplotlib Polygon
        The region.
    levels_ : ndarray of shape (n_levels,)
        Largest losses of the dotted corners.
    level_lines_ : list of matplotlib Line2D
        The dotted corners.
    fair_level_line_, equal_line_ : matplotlib Line2D
        The corner of fair PCA's largest loss; the line of equal losses.
    markers_ : dict of str to matplotlib Line2D
        The markers ``"fair"``, ``"plain"`` (if it is given) and ``"best"``.

    %(bad_parts)s

    References
    ----------
    .. [1] Shen, Davis, Lu, Bai (2026), "Fair principal component analysis via
       eigenvalue optimization", section 3.4 and figure 2 (turned by half a turn).

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
        self.boundary = _inputs.as_array(boundary, "boundary", ("k", 2))
        self.best = _inputs.as_array(best, "best", (2,))
        self.fair_point = _inputs.as_array(fair_point, "fair_point", (2,))
        self.plain_point = (
            None
            if plain_point is None
            else _inputs.as_array(plain_point, "plain_point", (2,))
        )
        if len(groups) != 2:
            raise ValueError(f"groups must be two names, got {len(groups)}.")
        self.groups = groups
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
            Rows of each group, which place plain PCA; None leaves it out.
        groups : sequence of two, default=("A", "B")
            Names of the groups.
        %(n_angles)s
        %(drawing)s
        ValueError
            If matrices are not symmetric, finite and alike, or another value is wrong.
        """
        joint_numerical_range(C_A, C_B, n_components, angles=[0.0])  # checks them
        # Losses are per row, so that the sizes of the groups do not matter here.
        C = np.array([C_A, C_B], dtype=np.float64)
        moments = GroupMoments([0, 1], [1, 1], np.zeros(C.shape[:2]), C)
        fair = FairPCA.from_moments(
            moments, n_components=n_components, centering="group", tol=1e-10
        )
        display = cls._from_components(
            C, fair.components_, group_sizes, n_angles, groups=groups
        )
        return display.plot(ax, view=view, legend=legend, **fill_kwargs)

    @classmethod
    @checked_call
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        n_angles: int = 180,
        ax: Any = None,
        view: str = "all",
        legend: bool = True,
        **fill_kwargs: Any,
    ) -> JointNumericalRangeDisplay:
        """Draw the region of two groups of rows, with a fitted estimator as fair.

        Parameters
        ----------
        estimator : estimator
            Fitted `FairPCA`, or another with orthonormal `components_` and `centering`.
            For other rows than it was fitted to, its point may lie inside the region.
        %(X)s
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        name : str or None, default=None
            Name of the estimator's point; None takes its class.
        %(n_angles)s
        %(drawing)s
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If there are not two groups, the rows do not have the estimator's
            features, its components are not orthonormal, or `view` is unknown.
        """
        check_is_fitted(estimator, "components_")
        components = np.asarray(estimator.components_, dtype=np.float64)
        error = np.abs(components @ components.T - np.eye(len(components))).max()
        if error > 1e-6:  # more than rounding, and than single precision
            raise ValueError(
                "The estimator's components_ must be orthonormal for what they capture "
                f"to lie within the region, but they are off by {error:.2g}."
            )
        moments = GroupMoments.from_data(
            X,
            sensitive_features,
            group_probabilities=group_probabilities,
            sample_weight=sample_weight,
        )
        if len(moments.groups) != 2:
            raise ValueError(
                f"The figure is for two groups, got {len(moments.groups)}: draw a "
                "GroupLossDisplay instead."
            )
        if moments.n_features != components.shape[1]:
            raise ValueError(
                f"X has {moments.n_features} features, the estimator was fitted to "
                f"{components.shape[1]}."
            )
        display = cls._from_components(
            moments.covariances(estimator.centering),
            components,
            moments.counts,
            n_angles,
            groups=moments.groups,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax, view=view, legend=legend, **fill_kwargs)

    @classmethod
    def _from_components(
        cls,
        C: NDArray[np.float64],
        components: NDArray[np.float64],
        sizes: ArrayLike | None,
        n_angles: int,
        **names: Any,
    ) -> JointNumericalRangeDisplay:
        """Return the display of two covariances, with components as the fair ones."""
        r, plain = len(components), None
        full = joint_numerical_range(C[0], C[1], r, n_angles=n_angles)
        # Twice as many points where a group gains only by a loss of the other.
        quarter = np.linspace(0.0, np.pi / 2, n_angles // 2 + 1)
        arc = joint_numerical_range(C[0], C[1], r, angles=quarter)
        if sizes is not None:
            n = _inputs.as_array(sizes, "group_sizes", (2,))
            if not (n > 0).all():
                raise ValueError(f"group_sizes must be positive, got {sizes!r}.")
            pooled = np.tensordot(n / n.sum(), C, axes=1)
            plain = _captured(C, np.linalg.eigh(pooled)[1][:, -r:])
        return cls(
            np.vstack([arc.points, full.points[full.angles > np.pi / 2]]),
            best=arc.support[[0, -1]],
            fair_point=_captured(C, components.T),
            plain_point=plain,
            filled=C.shape[1] != 2,
            **names,
        )

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
        %(drawing)s
        ValueError
            If `view` is unknown.
        """
        if view not in ("all", "optimum"):
            raise ValueError(f"view must be 'all' or 'optimum', got {view!r}.")
        low, high = self._window(view)
        # The region, the corners and the points.
        ax = _draw.make_axes(self, ax, figsize=(8, 5))
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        style = {
            "facecolor": _REGION if self.filled else "none",
            "edgecolor": _EDGE,
            "linewidth": 1.2,
            "alpha": 0.35 if self.filled else 1.0,
            "label": "possible for one basis",
            "zorder": 1,
            **fill_kwargs,
        }
        (self.region_,) = ax.fill(*self.boundary.T, **style)
        self._draw_levels(ax, low)
        markers = {
            "best": (self.best, "P", "white", 10, "each group's own best"),
            "plain": (self.plain_point, "o", _PLAIN, 9, "plain PCA"),
            "fair": (self.fair_point, "*", _FAIR, 17, _draw.literal(self.name)),
        }
        self.markers_ = {}
        for key, (point, marker, color, size, label) in markers.items():
            if point is not None:
                shape = {"marker": marker, "markersize": size, "linestyle": "none"}
                colors = {"markerfacecolor": color, "markeredgecolor": "black"}
                style = {**shape, **colors, "label": label, "zorder": 3}
                (self.markers_[key],) = ax.plot(*point, **style)
        if legend:
            from matplotlib.transforms import offset_copy

            # The loss axis, with its numbers and label, is 86 points wide.
            shifted = offset_copy(ax.transAxes, ax.figure, x=86, units="points")
            anchor: Any = {"bbox_to_anchor": (1.0, 1.0), "bbox_transform": shifted}
            _draw.legend(ax, handlelength=2.0, **anchor)
        names = [_draw.literal(group) for group in self.groups]
        units = "(squared units of the features)"
        _draw.labels(ax, *(f"captured variance of group {g} {units}" for g in names))
        for g, axis in enumerate((ax.xaxis, ax.yaxis)):
            # A power of ten at the end of an axis would overlap other texts.
            axis.set_major_formatter("{x:.6g}")
            axis.get_major_locator().set_params(nbins=5)
            self._draw_loss_axis(ax, g, names[g], float(high[g] - low[g]))
        # The title has the larger loss of each point.
        points = (self.name, self.fair_point), ("plain PCA", self.plain_point)
        losses = ", ".join(
            f"{_draw.literal(name)} {self._largest_loss(point):.3g}"
            for name, point in points
            if point is not None
        )
        _draw.title(ax, f"largest loss: {losses}")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _window(self, view: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """Lower left and upper right corner of the part that is shown."""
        ends = self.boundary
        if view == "optimum":  # the best bases of the two groups
            ends = ends[ends.argmax(axis=0)]
        plain = [] if self.plain_point is None else [self.plain_point]
        points = np.array([self.best, self.fair_point, *plain, *ends])
        low, high = points.min(axis=0), points.max(axis=0)
        size = high - low
        # A single point, or a line along an axis, gets a window of positive size.
        scale = float(np.abs(points).max()) or 1.0
        min_size = 0.05 * size.max() if size.max() > ROUNDING * scale else 0.1 * scale
        padding = np.maximum(min_size - size, 0.0) / 2
        margin = padding + 0.06 * np.maximum(size, min_size)
        return low - margin, high + margin

    def _draw_levels(self, ax: Any, low: NDArray[Any]) -> None:
        """Draw the corners of some losses and of fair PCA's, and the diagonal."""
        from matplotlib.ticker import MaxNLocator

        # Levels with round numbers, up to the largest loss that is shown.
        max_losses = self.best - low
        middle = float(np.sqrt(max_losses).prod())  # between those of both groups
        locator = MaxNLocator(6, steps=[1, 2, 5, 10])
        levels = np.asarray(locator.tick_values(0.0, middle), dtype=np.float64)
        self.levels_ = levels[(levels > 0) & (levels < max_losses.max())]
        dotted = {"color": "0.35", "linestyle": ":", "linewidth": 1.1}
        self.level_lines_ = [self._draw_corner(ax, L, **dotted) for L in self.levels_]
        if self.level_lines_:
            self.level_lines_[0].set_label("equal largest loss")
        label = f"largest loss of {_draw.literal(self.name)}"
        solid = {"color": _FAIR, "linewidth": 1.4, "label": label}
        fair_loss = self._largest_loss(self.fair_point)
        self.fair_level_line_ = self._draw_corner(ax, fair_loss, **solid)
        # The line of equal losses has slope 1.
        dashed = {"color": "black", "linewidth": 1.2, "linestyle": (0, (6, 3))}
        ends = np.column_stack([self.best - max_losses.max(), self.best])
        (self.equal_line_,) = ax.plot(*ends, label="equal losses", zorder=2, **dashed)

    def _draw_corner(self, ax: Any, level: float, **style: Any) -> Any:
        """Draw the captured variances at which the larger loss is `level`."""
        x, y = self.best - level
        right, top = ax.get_xlim()[1], ax.get_ylim()[1]
        return ax.plot([x, x, right], [top, y, y], zorder=2, **style)[0]

    def _draw_loss_axis(self, ax: Any, g: int, name: str, size: float) -> None:
        """Add an axis, at the top or to the right, that measures a group's loss."""
        best = float(self.best[g])

        def convert(value: Any) -> Any:
            """Convert variance to loss, or back."""
            return best - value

        if g == 0:
            axis = ax.secondary_xaxis("top", functions=(convert, convert)).xaxis
        else:
            axis = ax.secondary_yaxis("right", functions=(convert, convert)).yaxis
        # Zero and the levels, at a distance of a fifth of the side: numbers are apart.
        ticks = np.append(0.0, self.levels_)
        step = ticks[1] if self.levels_.size else size
        axis.set_ticks(ticks[:: math.ceil(0.2 * size / step)])
        axis.set_major_formatter("{x:.6g}")
        _draw.label(axis, ax, f"loss of group {name} (same units)")

    def _largest_loss(self, point: NDArray[Any]) -> float:
        """Return the larger loss of the two groups at a point; rounding counts as 0."""
        loss = float((self.best - point).max())
        return loss if loss > ROUNDING * np.abs(self.best).max() else 0.0


def _captured(C: NDArray[Any], U: NDArray[Any]) -> NDArray[np.float64]:
    """Variance that the columns of U capture from each group."""
    return np.array([np.vdot(U, C_g @ U) for C_g in C])
