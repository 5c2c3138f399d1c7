"""The groups in each cluster, beside the groups in the population."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from scalefair._docs import documented
from scalefair._groups import check_values, encode_groups
from scalefair.metrics import balance_score, group_proportions
from scalefair.plotting import _draw

_HATCHES = ("", "///", "...", "xxx")
# With more clusters their names would overlap; with more letters they are slanted.
_MOST_NAMES, _MOST_LETTERS = 16, 36
_SLANTED = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
# With more than this the gaps between the bars would be as thin as a pixel.
_MOST_GAPS = 40

_NAME = """\
name : str or None, default=None
    Name of the clustering, for the title; None takes the class of an estimator."""
_TEXTS = {
    **_draw.TEXTS,
    "name": _NAME,
    "options": "\n".join(_draw.TEXTS[key] for key in ("ax", "legend", "bar_options")),
}
_TEXTS["named"] = _TEXTS["options"].replace("legend :", f"{_NAME}\nlegend :", 1)


@documented(**_TEXTS)
class ClusterCompositionDisplay:
    """Stacked bars of the share of each group in each cluster.

    Dashed lines mark the shares in the population: the clustering is fair when all
    bars meet them. Clusters are sorted by their most overrepresented group and, for
    each, by how much it is. Use `from_predictions` or `from_estimator`.

    Parameters
    ----------
    proportions : ndarray of shape (n_clusters, n_groups)
        Share of each group in each cluster, as of `metrics.group_proportions`.
    population : ndarray of shape (n_groups,)
        Share of each group among the clustered samples; two groups or more.
    clusters : ndarray of shape (n_clusters,)
        Names of the clusters.
    %(groups)s
    average_balance : float or None, default=None
        As of `metrics.balance_score`; None takes that of the clusters drawn.
    %(name)s

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
    ) -> None:
        self.proportions = np.asarray(proportions, dtype=np.float64)
        self.population = np.asarray(population, dtype=np.float64)
        self.clusters = np.asarray(clusters)
        self.groups = np.asarray(groups)
        n_clusters, n_groups = self.clusters.size, self.groups.size
        if n_groups < 2 or n_clusters < 1:
            raise ValueError(
                "The figure is for two groups or more and one cluster or more, got "
                f"{n_groups} groups and {n_clusters} clusters."
            )
        shapes = self.proportions.shape, self.population.shape
        if shapes != ((n_clusters, n_groups), (n_groups,)):
            raise ValueError(
                f"With {n_clusters} clusters and {n_groups} groups, proportions must "
                f"have shape {(n_clusters, n_groups)} and population {(n_groups,)}, "
                f"got {shapes[0]} and {shapes[1]}."
            )
        if average_balance is None:
            balances = self.proportions.min(axis=1) / self.proportions.max(axis=1)
            average_balance = float(balances.mean())
        self.average_balance = average_balance
        self.name = name

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        *,
        sensitive_features: ArrayLike,
        ax: Any = None,
        name: str | None = None,
        legend: bool = True,
        **bar_kwargs: Any,
    ) -> ClusterCompositionDisplay:
        """Draw the composition of given clusters.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Cluster of each sample. Samples labelled -1 are left out.
        %(sensitive_features)s
        %(named)s
        ValueError
            If lengths differ, a value is missing, no sample is assigned, or there are
            fewer than two groups.
        """
        labels = check_values(labels, name="labels", what="cluster label")
        names, codes = encode_groups(sensitive_features, len(labels))
        groups = names[codes]
        proportions = group_proportions(labels, sensitive_features=groups)
        balance = balance_score(labels, sensitive_features=groups)
        assigned = labels != -1
        together = np.where(assigned, 0, -1)
        display = cls(
            proportions,
            population=group_proportions(together, sensitive_features=groups)[0],
            clusters=np.unique(labels[assigned]),
            groups=np.unique(groups[assigned]),
            average_balance=balance,
            name=name,
        )
        return display.plot(ax, legend=legend, **bar_kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        sensitive_features: ArrayLike,
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
        %(named)s
        %(as_for_predictions)s
        """
        check_is_fitted(estimator, "labels_")
        return cls.from_predictions(
            estimator.labels_,
            sensitive_features=sensitive_features,
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
        # By most overrepresented group, then by how much.
        excess = self.proportions - self.population
        order = np.lexsort((-excess.max(axis=1), excess.argmax(axis=1)))
        shares = self.proportions[order]
        tops = shares.cumsum(axis=1)
        style = {"width": 0.9 if len(order) <= _MOST_GAPS else 1.0, **bar_kwargs}
        self.bars_ = [
            ax.bar(
                range(len(order)),
                shares[:, g],
                bottom=tops[:, g] - shares[:, g],
                label=_draw.literal(group),
                **{**_appearance(g), **style},
            )
            for g, group in enumerate(self.groups)
        ]
        self.lines_ = [
            ax.axhline(height, color="black", linewidth=1.4, linestyle=(0, (5, 3)))
            for height in self.population.cumsum()[:-1]
        ]
        self.lines_[0].set_label("share in the population")
        if legend:
            # As high as the stack, in its order: the last group lies on top.
            handles = ax.get_legend_handles_labels()[0][::-1]
            _draw.legend(ax, "group", handles, handlelength=2.0)
        ax.set(xlim=(-0.5, len(order) - 0.5), ylim=(0, 1), xticks=[])
        of_clusters = f"{len(order)} clusters"
        if len(order) <= _MOST_NAMES:
            of_clusters = "cluster"
            names = list(map(_draw.literal, self.clusters[order]))
            crowded = len(names) * (1 + max(map(len, names))) > _MOST_LETTERS
            ax.set_xticks(range(len(order)), names, **(_SLANTED if crowded else {}))
        _draw.labels(ax, of_clusters, "share of each group")
        name = f"{_draw.literal(self.name)}: " if self.name else ""
        _draw.title(ax, f"{name}average balance {self.average_balance:.2f}")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _appearance(g: int) -> dict[str, Any]:
    hatch = _HATCHES[g // len(_draw.PALETTE) % len(_HATCHES)]
    # Hatching takes the colour of an edge that is not drawn.
    edge = {"edgecolor": "white", "linewidth": 0.0}
    return {"color": _draw.color(g), "hatch": hatch, **edge}
