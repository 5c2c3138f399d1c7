"""k-means on the rows of a spectral embedding."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from scalefair._random_state import check_random_state
from scalefair.kernels import (
    capped_distances,
    deflate_rows,
    nearest_centres,
    single_blas_thread,
)

Array = NDArray[np.float64]

# Iterations at most, and relative decrease of the cost below which they end: of
# attempts, and of the best of them in the end.
SHORT_RUN, LONG_RUN = (8, 1e-4), (300, 1e-6)
# An attempt that costs this much more than the best after two iterations is given up.
ABANDON_RATIO = 1.1
# Starts whose costs differ relatively by less are taken to be the same.
COST_RTOL = 1e-6
# Centres added to the best ones, in turn.
N_EXTRA_CENTRES = (5, 3, 2, 1)
_TINY = float(np.finfo(np.float64).tiny)


def embedding_rows(H: Array, affinity: Any) -> tuple[Array, Array | None]:
    """Rows of ``D^{-1/2} H`` and their weights; None: all count alike.

    If the affinity is regularised rows have unit length, and the weights of the
    normalised cut, ``d + tau`` (Dhillon, Guan and Kulis 2004), in units of their mean.
    """
    rows: Array = H * affinity.inv_sqrt_degrees[:, None]
    if affinity.tau == 0:
        return rows, None
    weights = affinity.inv_sqrt_degrees**-2.0
    return unit_rows(rows), weights / weights.mean()


def unit_rows(rows: Array) -> Array:
    """Rows brought to unit length, in place."""
    # None is zero: D^{1/2} 1 is in the span of H, or they are nearly so.
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
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
    every start misses some. So starts are crossed: of the centres of two, those go
    whose rows lose least by it. The first is read off by pivoted QR (Damle, Minden,
    Ying 2019, Information and Inference 8), the others are greedy k-means++; half of
    the attempts add centres to the best and take as many away (Fritzke 2020,
    arXiv:2006.15666). Any number of threads gives the same labels.
    """
    rng = check_random_state(random_state)
    X = np.ascontiguousarray(U, dtype=np.float64)
    n_starts = (n_init + 2) // 2
    with single_blas_thread():
        residual = X.copy()
        pivots = _pivots(residual, n_clusters)
        rows = _Rows(np.subtract(X, X.mean(axis=0), out=residual), weights)
        runs = [_iterate(rows, rows.X[pivots])]
        for _ in range(n_starts - 1):
            nowhere = np.full(len(X), np.inf)
            runs.append(_iterate(rows, _more_centres(rows, nowhere, n_clusters, rng)))
        while len(runs) > 1:  # as in a tournament
            pairs = zip(runs[::2], runs[1::2], strict=False)
            merged = [_merge_runs(rows, *pair) for pair in pairs]
            runs = merged + runs[len(runs) & ~1 :]
        best = runs[0]
        extra = itertools.islice(itertools.cycle(N_EXTRA_CENTRES), n_init - n_starts)
        for n_more in extra:
            n_more = min(n_more, n_clusters - 1)
            more = _more_centres(rows, best.distances, n_more, rng)
            best = _split_merge(rows, best, np.vstack([best.centres, more]))
        labels: NDArray[np.int32] = _iterate(rows, best.centres, *LONG_RUN).labels
    return labels


def cluster_means(
    U: NDArray[np.floating],
    labels: NDArray[np.integer],
    weights: Array | None = None,
) -> Array:
    """Mean of the rows, by their weights, of each cluster that has any."""
    counts = np.bincount(labels, weights)
    columns = U.T if weights is None else U.T * weights
    sums = np.stack([np.bincount(labels, column) for column in columns], axis=1)
    means: Array = sums[counts > 0] / counts[counts > 0, None]
    return means


class _Rows(NamedTuple):
    """Rows (n, d), and how much each counts; None: all alike."""

    X: Array
    weights: Array | None


class _Run(NamedTuple):
    """Rows at their nearest centres, and where these move next."""

    labels: NDArray[np.int32]
    distances: Array  # (n,): squared distance to the nearest centre
    cost: float  # weighted sum of these
    losses: Array  # (k,): rise of the cost without the centre, at most
    centres: Array  # (k, d): means of the rows, or where they were


def _pivots(X: Array, n_pivots: int) -> list[int]:
    """First pivots of QR of ``X.T`` with column pivoting; what it leaves is in `X`."""
    squares = np.einsum("ij,ij->i", X, X)
    pivots: list[int] = []
    for _ in range(n_pivots):
        pivots.append(int(squares.argmax()))
        length = math.sqrt(squares[pivots[-1]])
        deflate_rows(X, X[pivots[-1]] / (length or 1.0), squares)
    return pivots


def _assign(rows: _Rows, centres: Array) -> _Run:
    labels, distances, sums, counts, losses = nearest_centres(
        rows.X, centres, rows.weights
    )
    means = np.divide(
        sums, counts[:, None], out=centres.copy(), where=counts[:, None] > 0
    )
    cost = distances.sum() if rows.weights is None else rows.weights @ distances
    return _Run(labels, distances, float(cost), losses, means)


def _iterate(
    rows: _Rows,
    centres: Array,
    max_iter: int = SHORT_RUN[0],
    rtol: float = SHORT_RUN[1],
    to_beat: float = np.inf,
) -> _Run:
    """Lloyd's iterations from given centres; they end early if there is no hope."""
    before = np.inf
    for i in range(max_iter):
        run = _assign(rows, centres)
        centres = run.centres
        if before - run.cost <= rtol * run.cost:
            break
        if i == 1 and run.cost > ABANDON_RATIO * to_beat:
            break
        before = run.cost
    return run


def _more_centres(
    rows: _Rows, low: Array, n_more: int, rng: np.random.RandomState
) -> Array:
    """Rows by greedy k-means++; `low`: squared distances to the centres, or inf."""
    X, weights = rows
    n_tried = 2 + int(math.log(max(n_more, 1)))
    distances = np.empty((n_tried, len(X)))
    chosen: list[int] = []
    while len(chosen) < n_more:
        ends = np.cumsum(low if weights is None else low * weights)
        if not ends[-1] > 0:
            break
        if np.isinf(ends[-1]):
            tried = rng.randint(len(X), size=1)
        else:
            picks = rng.random_sample(n_tried) * ends[-1]
            tried = np.minimum(np.searchsorted(ends, picks, "right"), len(X) - 1)
        out = distances[: len(tried)]
        sums = capped_distances(X, X[tried], low, out, weights)
        best = int(sums.argmin())
        low = distances[best].copy()
        chosen.append(int(tried[best]))
    return X[chosen]


def _merge_runs(rows: _Rows, a: _Run, b: _Run) -> _Run:
    """Best of two runs and of what comes of the centres of both."""
    best, other = sorted((a, b), key=lambda run: run.cost)
    if other.cost - best.cost <= COST_RTOL * other.cost:
        return best
    return _split_merge(rows, best, np.vstack([best.centres, other.centres]))


def _split_merge(rows: _Rows, best: _Run, centres: Array) -> _Run:
    """Best of a run and of one from the centres that are needed of many."""
    # Half of those to go are taken at a time, but none with its nearest centre.
    n_clusters = len(best.centres)
    run = _iterate(rows, centres, max_iter=2)
    while len(run.centres) > n_clusters:
        most = max((len(run.centres) - n_clusters) // 2, 1)
        apart = cdist(run.centres, run.centres, "sqeuclidean")
        np.fill_diagonal(apart, np.inf)
        nearest = apart.argmin(axis=1)
        gone: list[int] = []
        for c in np.argsort(run.losses, kind="stable"):
            if len(gone) < most and not (nearest[gone] == c).any():
                gone.append(int(c))
        run = _assign(rows, np.delete(run.centres, gone, axis=0))
    run = _iterate(rows, run.centres, to_beat=best.cost)
    return run if run.cost < best.cost else best
