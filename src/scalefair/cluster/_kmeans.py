"""k-means on the rows of a spectral embedding."""

from __future__ import annotations

import math
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from scalefair._entries import check_random_state
from scalefair._rounding import ROUNDING, TINY
from scalefair.kernels import (
    capped_distances,
    deflate_rows,
    nearest_centres,
    single_blas_thread,
)

Array = NDArray[np.float64]
# Rows (n, d), and how much each counts.
WeightedRows = tuple[Array, Array]

# Centres added to the best ones in attempts to mend them: five in the first attempt,
# three in the second and so on. With three in every attempt the cuts of three networks
# were .04 to .7 % larger, about the spread of six seeds.
N_EXTRA_CENTRES = (5, 3, 2, 1)


def embedding_rows(H: Array, affinity: Any) -> tuple[Array, Array]:
    """Rows of ``D^{-1/2} H`` and their weights in k-means.

    Without regularisation the weights are those of the nodes. With it rows have unit
    length, and the weights of the normalised cut, ``d + tau`` (Dhillon, Guan and Kulis
    2004), in units of their mean.
    """
    copies = np.ones(len(H)) if affinity.weights is None else affinity.weights
    # A row is that of one copy of a node, of which H holds sqrt(copies).
    volumes = copies * affinity.degrees
    rows: Array = H / np.sqrt(volumes)[:, None]
    if affinity.tau == 0:
        return rows, copies
    return unit_rows(rows), volumes / volumes.mean()


def unit_rows(rows: Array) -> Array:
    """Rows brought to unit length, in place."""
    # No row is zero, or all but zero: D^{1/2} 1 is in the span of H.
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), TINY)
    return rows


def embedding_kmeans(
    U: NDArray[np.floating],
    n_clusters: int,
    *,
    weights: Array | None = None,
    n_init: int = 10,
    random_state: Any = None,
) -> NDArray[np.int32]:
    """Labels of the rows of a spectral embedding by k-means with good starts.

    Real embeddings have clusters of a handful of rows far from all others, of which
    every start misses some. So starts are merged: of the centres of two, those go
    whose rows lose least by it. The first start is read off by pivoted QR (Damle,
    Minden, Ying 2019, Information and Inference 8), the others are greedy k-means++;
    half of the attempts add centres to the best and take as many away (Fritzke 2020,
    arXiv:2006.15666). Any number of threads gives the same labels.
    """
    rng = check_random_state(random_state)
    X = np.ascontiguousarray(U, dtype=np.float64)
    n_starts = (n_init + 2) // 2
    with single_blas_thread():
        # Step 1: starts. Rows are centred: their differences lose no digits then.
        rows = X.copy()
        pivots = _pivots(rows, n_clusters)
        np.subtract(X, X.mean(axis=0), out=rows)
        data = rows, np.ones(len(X)) if weights is None else weights
        runs = [_iterate(data, rows[pivots])]
        for _ in range(n_starts - 1):
            infinite = np.full(len(X), np.inf)
            runs.append(_iterate(data, _add_centres(data, infinite, n_clusters, rng)))
        # Step 2: merge them in pairs, as in a tournament; an odd one waits.
        while len(runs) > 1:
            pairs = zip(runs[::2], runs[1::2], strict=False)
            merged = [_merge_runs(data, *pair) for pair in pairs]
            runs = merged + runs[len(runs) & ~1 :]
        best = runs[0]
        # Step 3: try to mend the best one, by more centres than are to stay.
        for n_extra in islice(cycle(N_EXTRA_CENTRES), n_init - n_starts):
            n_extra = min(n_extra, n_clusters - 1)
            extra = _add_centres(data, best.distances, n_extra, rng)
            best = _split_merge(data, best, np.vstack([best.centres, extra]))
        # Step 4: iterate it to the end.
        return _iterate(data, best.centres, max_iter=300, rtol=1e-6).labels


def cluster_means(
    U: NDArray[np.floating], labels: NDArray[np.integer], weights: Array | float = 1.0
) -> Array:
    """Mean of the rows, by their weights, of each cluster that has any."""
    counts = np.bincount(labels, np.broadcast_to(weights, len(labels)))
    sums = np.stack([np.bincount(labels, x) for x in U.T * weights], axis=1)
    means: Array = sums[counts > 0] / counts[counts > 0, None]
    return means


class KMeansRun(NamedTuple):
    """Rows at their nearest centres, and where these move next."""

    labels: NDArray[np.int32]
    distances: Array  # (n,): squared distance to the nearest centre
    cost: float  # weighted sum of these
    losses: Array  # (k,): rise of the cost without the centre, at most
    centres: Array  # (k, d): means of the rows, or where they were


def _pivots(X: Array, n_pivots: int) -> list[int]:
    """First pivots of QR of ``X.T`` with column pivoting; `X` becomes its residual."""
    squares = np.einsum("ij,ij->i", X, X)
    pivots: list[int] = []
    for _ in range(n_pivots):
        # Rows of unit length tie up to rounding: the first of them, on any machine.
        pivots.append(int((squares >= (1 - ROUNDING) * squares.max()).argmax()))
        length = math.sqrt(squares[pivots[-1]])
        deflate_rows(X, X[pivots[-1]] / (length or 1.0), squares)
    return pivots


def _assign(data: WeightedRows, centres: Array) -> KMeansRun:
    """Label the rows, and move centres to the means of theirs; those of none stay."""
    labels, distances, sums, counts, losses = nearest_centres(data[0], centres, data[1])
    counts = counts[:, None]
    means = np.divide(sums, counts, out=centres.copy(), where=counts > 0)
    return KMeansRun(labels, distances, float(data[1] @ distances), losses, means)


def _iterate(
    data: WeightedRows,
    centres: Array,
    max_iter: int = 8,
    rtol: float = 1e-4,
    cost_to_beat: float = np.inf,
) -> KMeansRun:
    """Lloyd's iterations, until the cost decreases relatively by less than `rtol`.

    The defaults are for attempts: only the best one is iterated to the end. A run ends
    after two iterations if it then costs a tenth more than `cost_to_beat`.
    """
    previous_cost = np.inf
    for i in range(max_iter):
        run = _assign(data, centres)
        centres = run.centres
        if previous_cost - run.cost <= rtol * run.cost:
            break
        if i == 1 and run.cost > 1.1 * cost_to_beat:
            break
        previous_cost = run.cost
    return run


def _add_centres(
    data: WeightedRows, distances: Array, n_more: int, rng: np.random.RandomState
) -> Array:
    """Rows by greedy k-means++ (Arthur and Vassilvitskii 2007, as in scikit-learn).

    `distances` are the squared ones to the centres so far, infinite without any.
    """
    X, weights = data
    n_trials = 2 + int(math.log(max(n_more, 1)))
    trial_distances = np.empty((n_trials, len(X)))
    chosen: list[int] = []
    while len(chosen) < n_more:
        # Step 1: rows drawn in proportion to their squared distances: an interval of
        # [0, ends[-1]] for each row. The first centre is any row.
        ends = np.cumsum(distances * weights)
        if not ends[-1] > 0:  # each row is at a centre
            break
        if np.isinf(ends[-1]):
            trials = rng.randint(len(X), size=1)
        else:
            picks = rng.random_sample(n_trials) * ends[-1]
            trials = np.minimum(np.searchsorted(ends, picks, "right"), len(X) - 1)
        # Step 2: that with which the cost is smallest.
        out = trial_distances[: len(trials)]
        costs = capped_distances(X, X[trials], distances, weights, out)
        best = int(costs.argmin())
        distances = out[best].copy()
        chosen.append(int(trials[best]))
    return X[chosen]


def _merge_runs(data: WeightedRows, a: KMeansRun, b: KMeansRun) -> KMeansRun:
    """Best of two runs and of the one from the centres of both."""
    best, other = sorted((a, b), key=lambda run: run.cost)
    if other.cost - best.cost <= 1e-6 * other.cost:  # most likely the same centres
        return best
    return _split_merge(data, best, np.vstack([best.centres, other.centres]))


def _split_merge(data: WeightedRows, best: KMeansRun, centres: Array) -> KMeansRun:
    """Best of a run and of one from more centres, of which the least useful go."""
    # Step 1: let the centres settle a little.
    n_clusters = len(best.centres)
    run = _iterate(data, centres, max_iter=2)
    # Step 2: remove those whose rows lose least, half of those to go at a time. The
    # nearest centre of one removed before stays: without it that loss would be larger.
    while len(run.centres) > n_clusters:
        n_removed = max((len(run.centres) - n_clusters) // 2, 1)
        distances = cdist(run.centres, run.centres, "sqeuclidean")
        np.fill_diagonal(distances, np.inf)
        nearest = distances.argmin(axis=1)
        removed: list[int] = []
        for c in np.argsort(run.losses, kind="stable"):
            if len(removed) < n_removed and not (nearest[removed] == c).any():
                removed.append(int(c))
        run = _assign(data, np.delete(run.centres, removed, axis=0))
    # Step 3: iterate, unless it is not going to be better.
    run = _iterate(data, run.centres, cost_to_beat=best.cost)
    return run if run.cost < best.cost else best
