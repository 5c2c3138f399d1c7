"""Warnings of clusters that are of no use, or not as fair as was promised."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scalefair._user_warnings import warn_user
from scalefair.cluster._share_bounds import smallest_size

# One cluster above this fraction of all nodes leaves hardly any structure.
MAX_CLUSTER_FRACTION = 0.9
# Balance is judged where so many members of each group are expected in a cluster.
MIN_EXPECTED_COUNT = 10
# Clusters with less than this fraction of the population's balance are unfair.
MIN_RELATIVE_BALANCE = 0.2


def warn_of_sizes(
    labels: NDArray[np.integer], n_clusters: int, regularization: float
) -> None:
    """Warn of clusters far below the average, and of one that is nearly all."""
    n, k = labels.size, n_clusters
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    tiny = np.sort(sizes[sizes < smallest_size(n, k)])
    if tiny.size == 0 and (k == 1 or sizes.max() <= MAX_CLUSTER_FRACTION * n):
        return
    smallest = ", ".join(map(str, tiny[:10])) + ", ..." * (tiny.size > 10)
    tiny_text = f" {tiny.size} of {k} have {smallest}," if tiny.size else ""
    remedy = (
        f"regularization={max(0.1, 10 * regularization):g} (now {regularization:g}) "
        "makes such clusters costly."
    )
    if regularization >= 1:
        remedy = f"Fewer than n_clusters={k} may be of more use."
    warn_user(
        f"The clusters are of very different sizes:{tiny_text} the largest has "
        f"{sizes.max()} of {n} nodes. {remedy}"
    )


def warn_of_balance(
    labels: NDArray[np.integer],
    codes: NDArray[np.int64],
    balance: NDArray[np.float64],
) -> None:
    """Warn of the least fair cluster that chance should have made fair.

    `codes` has a column for each attribute, `balance` a row of the clusters' balances.
    """
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    counts = [np.bincount(column) for column in codes.T]
    rarest = np.array([[count.min()] for count in counts])
    population = np.array([[count.min() / count.max()] for count in counts])
    is_expected = sizes * (rarest / labels.size) >= MIN_EXPECTED_COUNT
    relative_balance = np.where(is_expected, balance / population, np.inf)
    worst = np.unravel_index(relative_balance.argmin(), relative_balance.shape)
    if relative_balance[worst] < MIN_RELATIVE_BALANCE:
        warn_user(
            f"A cluster of {sizes[worst[1]]} nodes has balance {balance[worst]:.2g}, "
            f"and the population {population[worst[0], 0]:.2g}: k-means has lost what "
            'the embedding promised. assign_labels="fair" keeps it.'
        )
