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
_SHORT = 8, 1e-4
_LONG = 300, 1e-6
# An attempt that costs this much more than the best after two iterations is given up.
_HOPELESS = 1.1
# Starts whose costs differ relatively by less are taken to be the same.
_SAME = 1e-6
_TINY = float(np.finfo(np.float64).tiny)
# Centres added to the best ones, in turn.
_ADDED = (5, 3, 2, 1)


def embedding_rows(H: Array, affinity: Any) -> Array:
    """Rows of ``D^{-1/2} H``, of unit length if the affinity is regularised."""
    rows: Array = H * affinity.inv_sqrt_degrees[:, None]
    return unit_rows(rows) if affinity.tau > 0 else rows


def unit_rows(rows: Array) -> Array:
    """Rows brought to unit length, in place."""
    # None is zero: D^{1/2} 1 is in the span of H, or they are nearly so.
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    return rows


def embedding_kmeans(
    U: NDArray[np.floating],
    n_clusters: int,
    *,
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
        X = np.subtract(X, X.mean(axis=0), out=residual)
        runs = [_iterate(X, X[pivots])]
        for _ in range(n_starts - 1):
            nowhere = np.full(len(X), np.inf)
            runs.append(_iterate(X, _more_centres(X, nowhere, n_clusters, rng)))
        while len(runs) > 1:  # as in a tournament
            pairs = zip(runs[::2], runs[1::2], strict=False)
            runs = [_cross(X, *pair) for pair in pairs] + runs[len(runs) & ~1 :]
        best = runs[0]
        for n_added in itertools.islice(itertools.cycle(_ADDED), n_init - n_starts):
            n_added = min(n_added, n_clusters - 1)
            more = _more_centres(X, best.low, n_added, rng)
            best = _mend(X, best, np.vstack([best.centres, more]))
        labels: NDArray[np.int32] = _iterate(X, best.centres, *_LONG).labels
    return labels


def cluster_means(U: NDArray[np.floating], labels: NDArray[np.integer]) -> Array:
    """Mean of the rows of each cluster that has any."""
    counts = np.bincount(labels)
    sums = np.stack([np.bincount(labels, column) for column in U.T], axis=1)
    means: Array = sums[counts > 0] / counts[counts > 0, None]
    return means


class _Run(NamedTuple):
    """Rows at their nearest centres, and where these move next."""

    labels: NDArray[np.int32]
    low: Array  # (n,): squared distance to the nearest centre
    cost: float
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


def _assign(X: Array, centres: Array) -> _Run:
    labels, low, sums, counts, losses = nearest_centres(X, centres)
    means = np.divide(
        sums, counts[:, None], out=centres.copy(), where=counts[:, None] > 0
    )
    return _Run(labels, low, float(low.sum()), losses, means)


def _iterate(
    X: Array,
    centres: Array,
    max_iter: int = _SHORT[0],
    rtol: float = _SHORT[1],
    to_beat: float = np.inf,
) -> _Run:
    """Lloyd's iterations from given centres; they end early if there is no hope."""
    before = np.inf
    for i in range(max_iter):
        run = _assign(X, centres)
        centres = run.centres
        if before - run.cost <= rtol * run.cost:
            break
        if i == 1 and run.cost > _HOPELESS * to_beat:
            break
        before = run.cost
    return run


def _more_centres(
    X: Array, low: Array, n_more: int, rng: np.random.RandomState
) -> Array:
    """Rows by greedy k-means++; `low`: squared distances to the centres, or inf."""
    n_tried = 2 + int(math.log(max(n_more, 1)))
    distances = np.empty((n_tried, len(X)))
    chosen: list[int] = []
    while len(chosen) < n_more:
        ends = np.cumsum(low)
        if not ends[-1] > 0:
            break
        if np.isinf(ends[-1]):
            rows = rng.randint(len(X), size=1)
        else:
            picks = rng.random_sample(n_tried) * ends[-1]
            rows = np.minimum(np.searchsorted(ends, picks, "right"), len(X) - 1)
        sums = capped_distances(X, X[rows], low, distances[: len(rows)])
        best = int(sums.argmin())
        low = distances[best].copy()
        chosen.append(int(rows[best]))
    return X[chosen]


def _cross(X: Array, a: _Run, b: _Run) -> _Run:
    """Best of two runs and of what comes of the centres of both."""
    best, other = sorted((a, b), key=lambda run: run.cost)
    if other.cost - best.cost <= _SAME * other.cost:
        return best
    return _mend(X, best, np.vstack([best.centres, other.centres]))


def _mend(X: Array, best: _Run, centres: Array) -> _Run:
    """Best of a run and of one from the centres that are needed of many."""
    # Half of those to go are taken at a time, but none with its nearest centre.
    n_clusters = len(best.centres)
    run = _iterate(X, centres, max_iter=2)
    while len(run.centres) > n_clusters:
        most = max((len(run.centres) - n_clusters) // 2, 1)
        apart = cdist(run.centres, run.centres, "sqeuclidean")
        np.fill_diagonal(apart, np.inf)
        nearest = apart.argmin(axis=1)
        gone: list[int] = []
        for c in np.argsort(run.losses, kind="stable"):
            if len(gone) < most and not (nearest[gone] == c).any():
                gone.append(int(c))
        run = _assign(X, np.delete(run.centres, gone, axis=0))
    run = _iterate(X, run.centres, to_beat=best.cost)
    return run if run.cost < best.cost else best
