"""k-means on the rows of a spectral embedding."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from scalefair._random import check_random_state

__all__ = ["cluster_means", "embedding_kmeans"]

# Starts are compared on at most this many rows, the best one runs on all.
_SAMPLE_ROWS = 20_000


def embedding_kmeans(
    U: NDArray[np.floating],
    n_clusters: int,
    *,
    n_init: int = 10,
    random_state: Any = None,
) -> NDArray[np.int32]:
    """Cluster the rows of a spectral embedding by k-means with good starts.

    The first start is the partition that pivoted QR reads off the embedding
    [1]_, which is right when the clusters are well separated and k-means++ with
    many clusters hardly ever is; the other ``n_init - 1`` starts are k-means++.
    With more than 20,000 rows the starts compete on a random sample of that
    size, and only the centres that cost least there are iterated on all rows.

    Everything runs on one thread: scikit-learn adds up the threads' shares of a
    centre in the order in which they finish, and the labels could then depend on
    their number.

    Parameters
    ----------
    U : ndarray of shape (n, d)
        Rows to cluster, ``d >= n_clusters``.
    n_clusters : int
        Number of clusters, at most n.
    n_init : int, default=10
        Number of starts.
    random_state : int, RandomState instance or None, default=None
        For the sample and the starts.

    Returns
    -------
    ndarray of shape (n,), int32
        Labels from 0 to ``n_clusters - 1``.

    References
    ----------
    .. [1] Damle, Minden, Ying (2019), "Simple, direct and efficient multi-way
       spectral clustering", Information and Inference 8, 181-203.
    """
    rng = check_random_state(random_state)
    n = U.shape[0]
    sample = U
    if n > max(_SAMPLE_ROWS, 20 * n_clusters):
        rows = rng.choice(n, max(_SAMPLE_ROWS, 20 * n_clusters), replace=False)
        sample = U[np.sort(rows)]
    with threadpool_limits(1), warnings.catch_warnings():
        # Fewer distinct rows than clusters: empty clusters are what there is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        starts: list[Any] = [_pivoted_centres(U, n_clusters)]
        starts += ["k-means++"] * (n_init - 1)
        runs = [
            KMeans(n_clusters, init=start, n_init=1, random_state=rng).fit(sample)
            for start in starts
        ]
        best = min(runs, key=lambda run: run.inertia_)
        if sample is not U:
            best = KMeans(
                n_clusters, init=best.cluster_centers_, n_init=1, random_state=rng
            ).fit(U)
    labels: NDArray[np.int32] = best.labels_
    return labels


def cluster_means(
    U: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Mean of the rows of each cluster that has any."""
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, column) for column in U.T], axis=1)
    means: NDArray[np.float64] = sums[counts > 0] / counts[counts > 0, None]
    return means


def _pivoted_centres(U: NDArray[np.floating], n_clusters: int) -> NDArray[np.floating]:
    """Rows of U that pivoted QR picks as the most independent ones."""
    _, pivots = qr(U.T, mode="r", pivoting=True, check_finite=False)
    centres: NDArray[np.floating] = U[pivots[:n_clusters]]
    return centres
