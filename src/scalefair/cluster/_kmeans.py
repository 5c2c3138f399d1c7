"""k-means on the rows of a spectral embedding."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.spatial.distance import cdist

from scalefair._random import check_random_state
from scalefair.kernels import nearest_centres, single_blas_thread

# Iterations of an attempt, and relative decrease of the cost below which they end.
_SHORT, _SHORT_TOL = 5, 1e-4
_LONG, _LONG_TOL = 300, 1e-6
# An attempt that costs this much more than the best after two iterations is given up.
_HOPELESS = 1.1
# Centres added by the attempts, in turn; 0: as many as there are, a fresh start.
_ADDED = (0, 5, 4, 0, 3, 2, 0, 1, 5)


def embedding_kmeans(
    U: NDArray[np.floating],
    n_clusters: int,
    *,
    n_init: int = 10,
    random_state: Any = None,
) -> NDArray[np.int32]:
    """Cluster the rows of a spectral embedding by k-means with good starts.

    Embeddings of real graphs have a few rows far from all others, clusters of a
    handful of nodes that hang on the rest by an edge or two and make up most of the
    cost: no sample of the rows has them all, and starts are alike in almost all
    centres. So all rows take part, and instead of starting anew the best centres so
    far are mended. The first ones are those that pivoted QR reads off the embedding
    [1]_, right when the clusters are well separated. Each of the ``n_init - 1``
    attempts after it adds centres by greedy k-means++, iterates, takes away as many
    as were added, those whose rows lose least by going to the next nearest centre,
    and iterates again (after [2]_); what costs less is kept. Every third attempt
    adds a whole start of k-means++: the best of both are crossed.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        Rows to cluster, ``d >= n_clusters``.
    n_clusters : int
        Number of clusters, at most n.
    n_init : int, default=10
        Number of attempts, the start by pivoted QR included.
    random_state : int, RandomState instance or None, default=None
        For the attempts. With the same value the result is the same whatever the
        number of threads.

    Returns
    -------
    ndarray of shape (n,), int32
        Labels from 0 to ``n_clusters - 1``.

    References
    ----------
    .. [1] Damle, Minden, Ying (2019), "Simple, direct and efficient multi-way
       spectral clustering", Information and Inference 8, 181-203.
    .. [2] Fritzke (2020), "Breathing k-means", arXiv:2006.15666.
    """
    rng = check_random_state(random_state)
    X = np.ascontiguousarray(U, dtype=np.float64)
    with single_blas_thread():
        _, pivots = qr(X.T, mode="r", pivoting=True, check_finite=False)
        X = X - X.mean(axis=0)
        best = _iterate(X, X[pivots[:n_clusters]])
        for attempt in range(n_init - 1):
            if not best.cost > 0:
                break
            n_added = _ADDED[attempt % len(_ADDED)]
            if n_added == 0 or n_added > n_clusters // 2:
                more = _add_centres(X, np.full(len(X), np.inf), n_clusters, rng)
                more = _iterate(X, more, max_iter=2).centres
            else:
                more = _add_centres(X, best.low, n_added, rng)
            tried = _iterate(X, np.vstack([best.centres, more]))
            tried = _iterate(X, _fewer(X, tried, n_clusters), best.cost)
            if tried.cost < best.cost:
                best = tried
        labels: NDArray[np.int32] = _iterate(
            X, best.centres, max_iter=_LONG, rtol=_LONG_TOL
        ).labels
    return labels


def cluster_means(
    U: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Mean of the rows of each cluster that has any."""
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, column) for column in U.T], axis=1)
    means: NDArray[np.float64] = sums[counts > 0] / counts[counts > 0, None]
    return means


class _Clusters(NamedTuple):
    """Rows at their nearest centres, and what follows."""

    labels: NDArray[np.int32]
    low: NDArray[np.float64]  # squared distance of each row to its centre
    cost: float
    losses: NDArray[np.float64]  # (k,): rise of the cost without each centre
    centres: NDArray[np.float64]  # (k, d): means of the rows; the old one of none


def _assign(X: NDArray[np.float64], centres: NDArray[np.float64]) -> _Clusters:
    labels, low, second, sums, counts = nearest_centres(X, centres)
    losses = np.bincount(labels, second - low, minlength=len(centres))
    means = np.where(
        counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres
    )
    return _Clusters(labels, low, float(low.sum()), losses, means)


def _iterate(
    X: NDArray[np.float64],
    centres: NDArray[np.float64],
    to_beat: float = np.inf,
    *,
    max_iter: int = _SHORT,
    rtol: float = _SHORT_TOL,
) -> _Clusters:
    """Lloyd's iterations from given centres; stops early if there is no hope."""
    before = np.inf
    for i in range(max_iter):
        clusters = _assign(X, centres)
        centres, cost = clusters.centres, clusters.cost
        if before - cost <= rtol * cost or (i == 1 and cost > _HOPELESS * to_beat):
            break
        before = cost
    return clusters


def _add_centres(
    X: NDArray[np.float64],
    low: NDArray[np.float64],
    n_added: int,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """Rows chosen one by one by greedy k-means++; fewer if no row is left apart.

    `low` is the squared distance of each row to the centres there are, infinite if
    there are none.
    """
    squares = np.einsum("ij,ij->i", X, X)
    n_candidates = 2 + int(math.log(n_added))
    chosen: list[int] = []
    while len(chosen) < n_added:
        ends = np.cumsum(low)
        if not ends[-1] > 0:
            break
        if np.isinf(ends[-1]):
            rows = rng.randint(len(X), size=1)
        else:
            picks = rng.random_sample(n_candidates) * ends[-1]
            rows = np.minimum(np.searchsorted(ends, picks, "right"), len(X) - 1)
        distances = X[rows] @ X.T
        distances *= -2
        distances += squares
        distances += squares[rows, None]
        np.minimum(distances, low, out=distances)
        best = int(distances.sum(axis=1).argmin())
        low = np.maximum(distances[best], 0)
        chosen.append(int(rows[best]))
    return X[chosen]


def _fewer(
    X: NDArray[np.float64], clusters: _Clusters, n_clusters: int
) -> NDArray[np.float64]:
    """Centres without those that are missed least.

    Half of those to go are taken at a time, but no two of which one is the nearest
    centre of the other: either may be needed when the other is gone.
    """
    centres, losses = clusters.centres, clusters.losses
    while len(centres) > n_clusters:
        most = max((len(centres) - n_clusters) // 2, 1)
        apart = cdist(centres, centres, "sqeuclidean")
        np.fill_diagonal(apart, np.inf)
        nearest = apart.argmin(axis=1)
        gone: list[int] = []
        kept: set[int] = set()
        for c in np.argsort(losses, kind="stable"):
            if len(gone) < most and c not in kept:
                gone.append(c)
                kept.add(int(nearest[c]))
        clusters = _assign(X, np.delete(centres, gone, axis=0))
        centres, losses = clusters.centres, clusters.losses
    return centres
