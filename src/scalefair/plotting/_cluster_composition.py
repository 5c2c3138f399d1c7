"""Shares of the groups in each cluster and in the population."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._decorators import checked_call
from scalefair._docs import documented
from scalefair._entries import check_sample_weight
from scalefair._groups import as_list, check_values
from scalefair._membership import Membership
from scalefair.metrics import group_proportions
from scalefair.plotting import _draw, _inputs

# Patterns of the bars of further groups, when the palette starts again.
_HATCHES = ("", "///", "...", "xxx")

_TEXTS = {
    **_draw.TEXTS,
    "name": """\
name : str or None, default=None
    Name of the clustering, for the title; None takes the class of an estimator.""",
}
# Options of the constructors, and those of `plot`, which has no name.
_NAMED = ["ax", "name", "legend", "bar_options"]
_TEXTS["named"] = "\n".join(_TEXTS[key] for key in _NAMED)
_TEXTS["options"] = "\n".join(_TEXTS[key] for key in _NAMED if key != "name")


@documented(**_TEXTS)
class ClusterCompositionDisplay:
    """Stacked bars of the share of each group in each cluster.

    Dashed lines mark the shares in the population: in a fair clustering all bars have
    these heights. The bars of several attributes are stacked, the first at the top.
    Clusters are sorted by their most overrepresented group, then by its excess; of
    more than 30, lines separate these groups. Use
    `from_predictions` or `from_estimator`.

    Parameters
    ----------
    proportions : ndarray of shape (n_clusters, n_groups)
        Share of each group in each cluster, as of `metrics.group_proportions`; of
        several attributes side by side.
    population : ndarray of shape (n_groups,)
        Share of each group among the clustered samples; two groups or more.
    clusters : ndarray of shape (n_clusters,)
        Names of the clusters.
    %(groups)s
    average_balance : float or None, default=None
        As of `metrics.balance_score`; None takes that of the clusters drawn.
    %(name)s
    attributes : mapping of str to int or None, default=None
        Of several attributes names and numbers of groups, in the order of `groups`.

    Attributes
    ----------
    %(ax_)s
    bars_ : list of matplotlib BarContainer
        The bars of each group, in the order of `groups`.
    lines_ : list of matplotlib Line2D
        The dashed lines between the shares in the population.

    %(bad_parts)s

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from scalefair.plotting import ClusterCompositionDisplay
    >>> groups, ax = ["f", "m", "m", "m", "f", "m"], Figure().subplots()
    >>> display = ClusterCompositionDisplay.from_predictions(
    ...     [0, 0, 1, 1, 1, 1], sensitive_features=groups, ax=ax
    ... )
    >>> display.ax_.get_title()
    'average balance 0.67'
    """

    def __init__(
        self,
        proportions: NDArray[np.float64],
        *,
        population: NDArray[np.float64],
        clusters: NDArray[Any],
        groups: NDArray[Any],
        average_balance: float | None = None,
        name: str | None = None,
        attributes: Mapping[str, int] | None = None,
    ) -> None:
        self.clusters = np.asarray(clusters)
        self.groups = np.asarray(groups)
        # 1. Each attribute has two groups or more; together they have all groups.
        n_clusters, n_groups = self.clusters.size, self.groups.size
        self.attributes = {"": n_groups} if attributes is None else dict(attributes)
        sizes = list(self.attributes.values())
        if min(sizes, default=0) < 2 or sum(sizes) != n_groups or n_clusters < 1:
            suffix = "" if attributes is None else f" of attributes {self.attributes}"
            raise ValueError(
                "The figure is for two groups or more and one cluster or more, got "
                f"{n_groups} groups{suffix} and {n_clusters} clusters."
            )
        self.proportions = _inputs.as_array(
            proportions, "proportions", (n_clusters, n_groups)
        )
        self.population = _inputs.as_array(population, "population", (n_groups,))
        starts = np.cumsum([0, *sizes[:-1]])
        for part in ("proportions", "population"):
            shares = np.atleast_2d(getattr(self, part))
            totals = np.add.reduceat(shares, starts, axis=1)
            # Shares of a table may be rounded.
            if (shares < 0).any() or (np.abs(totals - 1) > 0.05).any():
                raise ValueError(
                    f"{part} must be shares of groups, none negative, that add up to 1 "
                    f"for each cluster and attribute, got {shares.min():g} to "
                    f"{shares.max():g}, in sum {totals.min():g} to {totals.max():g}."
                )
        # 2. The balance of a cluster, smallest over largest share of an attribute's
        # groups, is the lowest of the attributes.
        if average_balance is None:
            smallest = np.minimum.reduceat(self.proportions, starts, axis=1)
            largest = np.maximum.reduceat(self.proportions, starts, axis=1)
            average_balance = float((smallest / largest).min(axis=1).mean())
        self.average_balance = average_balance
        self.name = name

    @classmethod
    @checked_call
    def from_predictions(
        cls,
        labels: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        attributes: str = "joint",
        ax: Any = None,
        name: str | None = None,
        legend: bool = True,
        **bar_kwargs: Any,
    ) -> ClusterCompositionDisplay:
        """Draw the composition of clusters.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Cluster of each sample. Samples labelled -1 are left out, and clusters of
            which no group is known.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        %(attributes)s
        %(named)s
        ValueError
            If lengths differ, a value is missing, no sample is assigned, or there are
            fewer than two groups.
        """
        labels = check_values(labels, name="labels", noun="cluster label")
        members = Membership.of(
            sensitive_features,
            group_probabilities,
            len(labels),
            attributes=attributes,
            alternative="the sizes of the clusters",
        )
        # 1. The samples that count: assigned to a cluster, with a weight.
        is_assigned = labels != -1
        weights = check_sample_weight(sample_weight, len(labels))
        if weights is not None:
            is_assigned = is_assigned & (weights > 0)
        # 2. Shares in each cluster and in the population, as in a single cluster,
        # attribute by attribute: of the groups that are present among these samples.
        arguments = _inputs.as_arguments(members, group_probabilities)
        proportions, population = (
            np.hstack(
                as_list(group_proportions(codes, **arguments, sample_weight=weights))
            )
            for codes in (labels, np.where(is_assigned, 0, -1))
        )
        entries, compared = members.take(is_assigned), members.compared
        present = [groups[np.unique(codes[entries])] for _, groups, codes in compared]
        names = [attribute.name for attribute in compared]
        sizes = dict(zip(names, map(len, present), strict=True))
        if len(sizes) < len(names):
            raise ValueError(
                f"Columns of sensitive_features have equal names, {names}: rename them."
            )
        is_known = ~np.isnan(proportions).any(axis=1)
        display = cls(
            proportions[is_known],
            population=population[0],
            clusters=np.unique(labels[is_assigned])[is_known],
            groups=np.concatenate([groups.astype(object) for groups in present]),
            name=name,
            attributes=sizes if len(compared) > 1 else None,
        )
        return display.plot(ax, legend=legend, **bar_kwargs)

    @classmethod
    @checked_call
    def from_estimator(
        cls,
        estimator: Any,
        *,
        sensitive_features: ArrayLike | None = None,
        group_probabilities: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        attributes: str | None = None,
        ax: Any = None,
        name: str | None = None,
        legend: bool = True,
        **bar_kwargs: Any,
    ) -> ClusterCompositionDisplay:
        """Draw the composition of the clusters of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted to these rows, with `labels_`.
        %(sensitive_features)s
        %(group_probabilities)s
        %(sample_weight)s
        attributes : {"joint", "each"} or None, default=None
            As for `from_predictions`; None takes that of the estimator.
        %(named)s
        %(as_for_predictions)s
        """
        check_is_fitted(estimator, "labels_")
        if attributes is None:
            attributes = getattr(estimator, "attributes", "joint")
        return cls.from_predictions(
            estimator.labels_,
            sensitive_features=sensitive_features,
            group_probabilities=group_probabilities,
            sample_weight=sample_weight,
            attributes=attributes,
            ax=ax,
            name=type(estimator).__name__ if name is None else name,
            legend=legend,
            **bar_kwargs,
        )

    def plot(self, ax: Any = None, *, legend: bool = True, **bar_kwargs: Any) -> Self:
        """Draw the bars.

        Parameters
        ----------
        %(options)s
        """
        ax = _draw.make_axes(self, ax)
        # 1. Sort by the most overrepresented group, then by its excess.
        excess = self.proportions - self.population
        order = np.lexsort((-excess.max(axis=1), excess.argmax(axis=1)))
        n, k = len(order), len(self.attributes)
        # Of more than 40 bars the gaps would be as narrow as a pixel.
        style = {"width": 0.9 if n <= 40 else 1.0, **bar_kwargs}
        self.bars_: list[Any] = []
        self.lines_: list[Any] = []
        handles: list[Any] = []
        # 2. Bars: a stack of height 1 for each attribute, the first at the top, with a
        # distance of 0.1 between them.
        bottoms = 1.1 * np.arange(k)[::-1]
        for bottom, (name, size) in zip(bottoms, self.attributes.items(), strict=True):
            first = len(self.bars_)
            tops = np.full(n, bottom)
            for g in range(first, first + size):
                shares = self.proportions[order, g]
                options = {
                    "label": _draw.literal(self.groups[g]),
                    "color": _draw.color(g),
                    "hatch": _HATCHES[g // len(_draw.PALETTE) % len(_HATCHES)],
                    # Hatching takes the colour of an edge that is not drawn.
                    "edgecolor": "white",
                    "linewidth": 0.0,
                    "bottom": tops,
                    **style,
                }
                self.bars_.append(ax.bar(range(n), shares, **options))
                tops = tops + shares
            # Lines between the groups of the population, at none of the stack's ends.
            for height in self.population[first : first + size - 1].cumsum():
                line = ax.axhline(
                    bottom + height, color="black", linewidth=1.4, linestyle=(0, (5, 3))
                )
                self.lines_.append(line)
            # The legend has the order of the stack, whose last group is at the top.
            handles += [_draw.literal(name)] * (k > 1) + self.bars_[first:][::-1]
        # 3. Legend, axes and title.
        self.lines_[0].set_label("share in the population")
        if legend:
            handles.append(self.lines_[0])
            _draw.legend(ax, "group" if k == 1 else "", handles, handlelength=2.0)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(0, 1 + bottoms[0]), xticks=[])
        if k > 1:
            ticks = np.add.outer(bottoms, [0.0, 0.5])
            ax.set_yticks(ticks.ravel(), ["0.0", "0.5"] * k)
        x_label = f"{n} clusters"
        if n > 30:  # lines where the next group is the most overrepresented one
            x_label += ", by the group that has most above its share"
            borders = np.flatnonzero(np.diff(excess.argmax(axis=1)[order])) + 0.5
            ax.vlines(borders, 0, 1 + bottoms[0], color="black", linewidth=1.0)
        if n <= 16:  # more names would overlap
            x_label = "cluster"
            names = list(map(_draw.literal, self.clusters[order]))
            ax.set_xticks(range(n), names)
            # About 36 letters fit side by side, spaces included: else slant the names.
            if n * (1 + max(map(len, names))) > 36:
                for text in ax.get_xticklabels():
                    text.set(rotation=40, ha="right", rotation_mode="anchor")
        _draw.labels(ax, x_label, "share of each group")
        name = f"{_draw.literal(self.name)}: " if self.name else ""
        _draw.title(ax, f"{name}average balance {self.average_balance:.2f}")
        self.ax_, self.figure_ = ax, ax.figure
        return self
