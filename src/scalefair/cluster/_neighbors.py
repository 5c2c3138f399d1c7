"""Graphs of nearest neighbours of rows: exact, approximate, or as a transformer finds.

Approximate neighbours come from an inverted file (faiss): the rows are put into lists
by k-means, and those of the lists nearest to a row are searched. How many lists, a
sample of rows decides, whose exact neighbours are computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import (
    NearestNeighbors,
    kneighbors_graph,
    sort_graph_by_row_values,
)

from scalefair._random_state import check_random_state

Indices = NDArray[np.integer]

# Share of the exact neighbours that approximate ones must hold.
RECALL = 0.99
# Rows from which on approximate neighbours are faster by more than a second.
_MANY = 20_000
# Rows whose exact neighbours are computed to estimate the recall.
_SAMPLE = 1000
# Squared distances that differ by less, relatively, are equal: float32 rounds.
_TIE = 1e-6
# Lists per square root of the rows, rows per list for k-means, and its iterations.
_LISTS, _ROWS_PER_LIST, _ITERATIONS = 2.5, 64, 5
_FIRST_PROBES, _MORE_PROBES = 8, 1.4
# Rows whose neighbours are searched at a time.
_BLOCK = 16_384
# New rows whose exact neighbours are found before lists are made again.
_FEW = 1000


class NeighborsGraph(NamedTuple):
    """Symmetric affinity, how it was found, and the share of exact neighbours in it."""

    affinity: sparse.csr_array
    neighbors: str
    recall: float | None
    search: Any = None  # how new rows find theirs; None: exactly


def neighbors_graph(
    X: Any, n_neighbors: int, neighbors: Any = "exact", random_state: Any = None
) -> NeighborsGraph:
    """Symmetric k-NN graph: ``w_ij`` is 1 for mutual neighbours, 1/2 for one-sided."""
    if not isinstance(neighbors, str):
        return _transformed(X, neighbors, check_random_state(random_state))
    n = X.shape[0]
    if n_neighbors >= n:
        raise ValueError(
            f"n_neighbors = {n_neighbors} must be less than the number of samples, {n}."
        )
    if (unit := _unit(X)) != 1:
        X = X / unit
    if _is_approximate(X, neighbors):
        found = _approximate(X, n_neighbors, check_random_state(random_state))
        if found is not None:
            return found
    exact = kneighbors_graph(X, n_neighbors, mode="connectivity", include_self=False)
    return NeighborsGraph(_symmetric(sparse.csr_array(exact)), "exact", 1.0)


def new_neighbors(
    X: Any, n_neighbors: int, fitted: Any, search: Any
) -> sparse.csr_array:
    """Neighbours of new rows among the fitted ones, found as theirs were; weight 1."""
    (m, n), exact = (X.shape[0], fitted.shape[0]), search is None
    if not (exact or isinstance(search, tuple)):
        if not hasattr(search, "transform"):
            raise ValueError(f"neighbors={search} has no `transform` for new rows.")
        return _ones(_graph_by(search, search.transform, X, (m, n)))
    if (unit := _unit(fitted)) != 1:
        X, fitted = X / unit, fitted / unit
    if exact or m <= _FEW:
        nearest = NearestNeighbors(n_neighbors=n_neighbors).fit(fitted)
        return _graph_of(nearest.kneighbors(X, return_distance=False), n)
    seed, n_probes = search
    lists = _Lists(fitted, seed)
    found = [
        lists.search_new(X[start : start + _BLOCK], n_neighbors, n_probes)
        for start in range(0, m, _BLOCK)
    ]
    neighbors = np.concatenate(found)
    short = np.flatnonzero((neighbors < 0).any(axis=1))
    if short.size:
        nearest = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute")
        rest = nearest.fit(fitted).kneighbors(X[short], return_distance=False)
        neighbors[short] = rest
    return _graph_of(neighbors, n)


def stored_neighbors(
    distances: Any, n_neighbors: int, *, of_fit: bool = True
) -> sparse.csr_array:
    """Symmetric graph of the nearest neighbours in a graph of distances."""
    # Not `of_fit`: rows of new nodes, whose neighbours have weight 1.
    m, n = distances.shape
    if of_fit and m != n:
        raise ValueError(
            f"A graph of distances must be a square matrix, got shape "
            f'{distances.shape}. For rows of features use affinity="nearest_neighbors".'
        )
    if not sparse.issparse(distances):  # zeros are distances, too
        entries = np.tile(np.arange(n), m), np.arange(0, m * n + 1, n)
        distances = sparse.csr_array((distances.ravel(), *entries), shape=(m, n))
    graph = _without_loops(distances) if of_fit else sparse.csr_array(distances)
    if (smallest := graph.data.min(initial=0)) < 0:
        raise ValueError(
            f"Negative values in data: the smallest distance is {smallest:g}."
        )
    counts = np.diff(graph.indptr)
    if counts.min() < n_neighbors:
        raise ValueError(
            f"n_neighbors = {n_neighbors}, but row {counts.argmin()} of the graph of "
            f"distances has {counts.min()} neighbours, itself not counted: store more "
            "or lower n_neighbors."
        )
    graph = sort_graph_by_row_values(graph, warn_when_not_sorted=False)
    ranks = np.arange(graph.nnz) - np.repeat(graph.indptr[:-1], counts)
    nearest = graph.indices[ranks < n_neighbors].reshape(m, n_neighbors)
    return _symmetric(_graph_of(nearest, n)) if of_fit else _graph_of(nearest, n)


def with_small_indices(A: sparse.csr_array) -> sparse.csr_array:
    """Use int32 indices where they suffice: a quarter less to read per product."""
    if A.indices.dtype == np.int32 or max(*A.shape, A.nnz) > np.iinfo(np.int32).max:
        return A
    return sparse.csr_array(
        (A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape
    )


def _transformed(X: Any, transformer: Any, rng: RandomState) -> NeighborsGraph:
    """All neighbours that a transformer stores; their recall if it is Euclidean."""
    transformer, n = clone(transformer), X.shape[0]
    graph = _graph_by(transformer, transformer.fit_transform, X, (n, n))
    graph = _ones(_without_loops(graph))
    metric = getattr(transformer, "metric", None)
    recall = None
    if metric == "euclidean" or (metric == "minkowski" and transformer.p == 2):
        rows = _sample(n, rng)
        found = [graph.indices[graph.indptr[i] : graph.indptr[i + 1]] for i in rows]
        reach = _reach(X, rows, [neighbors.size for neighbors in found])
        recall = float(_hits(X, rows, found, reach).mean())
    return NeighborsGraph(_symmetric(graph), "transformer", recall, transformer)


def _graph_by(
    transformer: Any, transform: Callable[[Any], Any], X: Any, shape: tuple[int, int]
) -> sparse.csr_array:
    """Sparse graph of rows by a transformer, of the right shape."""
    graph = transform(X)
    if not (sparse.issparse(graph) and graph.shape == shape):
        raise ValueError(
            f"neighbors={transformer} must make a sparse graph of shape {shape} of "
            f"{shape[0]} rows, got {type(graph).__name__} of shape "
            f"{getattr(graph, 'shape', 'unknown')}."
        )
    return sparse.csr_array(graph)


def _ones(graph: sparse.csr_array) -> sparse.csr_array:
    """Return the graph without weights; stored zeros are edges."""
    entries = np.ones(graph.nnz), graph.indices, graph.indptr
    return sparse.csr_array(entries, shape=graph.shape)


def _unit(X: Any) -> float:
    """By what rows are divided, for squared distances in range; 1 as a rule."""
    largest = float(max(X.max(), -X.min()))
    return largest if largest > 0 and not 1e-15 <= largest <= 1e15 else 1.0


def _is_approximate(X: Any, neighbors: str) -> bool:
    dense = not sparse.issparse(X)
    if neighbors == "approximate" and not dense:
        raise ValueError(
            'neighbors="approximate" takes dense rows. For sparse ones use '
            'neighbors="exact" or a transformer, such as PyNNDescentTransformer of '
            "pynndescent."
        )
    if neighbors == "approximate" and _faiss() is None:
        raise ImportError(
            'neighbors="approximate" needs faiss: pip install "scalefair[neighbors]".'
        )
    # On macOS only on demand: see `_Lists._repeatable`.
    many = X.shape[0] >= _MANY and dense and sys.platform != "darwin"
    return neighbors == "approximate" or (
        neighbors == "auto" and many and _faiss() is not None
    )


def _approximate(X: Any, n_neighbors: int, rng: RandomState) -> NeighborsGraph | None:
    """Neighbours from as many lists as the recall needs; None if from half of all."""
    n, seed = X.shape[0], int(rng.randint(2**31 - 1))
    rows = _sample(n, rng)
    reach = _reach(X, rows, [n_neighbors] * rows.size)
    lists = _Lists(X, seed)
    n_probes = _FIRST_PROBES
    while True:
        found = lists.search(rows, n_neighbors, n_probes)
        hits = _hits(X, rows, found, reach)
        # The lower end of what the recall of all rows can be.
        if hits.mean() - hits.std() / np.sqrt(rows.size) >= RECALL:
            break
        n_probes = int(_MORE_PROBES * n_probes) + 1
        if n_probes > lists.n_lists / 2:
            return None
    neighbors = np.empty((n, n_neighbors), dtype=np.int64)
    order = lists.order()  # rows that search the same lists, one after the other
    for start in range(0, n, _BLOCK):
        block = order[start : start + _BLOCK]
        neighbors[block] = lists.search(block, n_neighbors, n_probes)
    short = np.flatnonzero((neighbors < 0).any(axis=1))
    if short.size:  # fewer rows in all lists that were searched
        neighbors[short] = _exact(X, short, n_neighbors)
    del lists
    graph = _symmetric(_graph_of(neighbors, n))
    return NeighborsGraph(graph, "approximate", float(hits.mean()), (seed, n_probes))


class _Lists:
    """Rows in lists, by k-means."""

    def __init__(self, X: NDArray[np.floating], seed: int) -> None:
        self.faiss = _faiss()
        n, d = X.shape
        self.middle = X.mean(axis=0)
        self.rows = self._centred(X)
        self.n_lists = int(min(_LISTS * np.sqrt(n), n / 2))
        quantizer = self.faiss.IndexFlatL2(d)
        self.index = self.faiss.IndexIVFFlat(quantizer, d, self.n_lists)
        parameters = self.index.cp
        parameters.seed, parameters.niter = seed, _ITERATIONS
        parameters.min_points_per_centroid = 1
        parameters.max_points_per_centroid = _ROWS_PER_LIST
        with self._repeatable():
            self.index.train(self.rows)
            self.index.add(self.rows)

    def search(self, rows: Indices, n_neighbors: int, n_probes: int) -> Indices:
        """Neighbours of rows, themselves left out; -1 if there are too few."""
        found = self._search(self.rows[rows], n_neighbors + 1, n_probes)
        return _without_self(found, rows)

    def search_new(self, X: Any, n_neighbors: int, n_probes: int) -> Indices:
        """Neighbours of other rows; -1 if there are too few."""
        return self._search(self._centred(X), n_neighbors, n_probes)

    def _search(self, rows: Any, n_neighbors: int, n_probes: int) -> Indices:
        self.index.nprobe = n_probes
        with self._repeatable():
            found: Indices = self.index.search(rows, n_neighbors)[1]
        return found

    def _centred(self, X: Any) -> NDArray[np.float32]:
        """Centred before they are rounded: float32 keeps its digits for differences."""
        rows = np.empty(X.shape, dtype=np.float32)
        np.subtract(X, self.middle, out=rows, casting="same_kind")
        return rows

    def order(self) -> Indices:
        """Rows, list by list."""
        lists, array = self.index.invlists, self.faiss.rev_swig_ptr
        return np.concatenate(
            [
                array(lists.get_ids(i), lists.list_size(i))
                for i in range(self.n_lists)
                if lists.list_size(i)
            ]
        )

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        """Without BLAS, which rounds as its threads make it, and cancels digits."""
        options, n_threads = self.faiss.cvar, self.faiss.omp_get_max_threads()
        threshold = options.distance_compute_blas_threshold
        options.distance_compute_blas_threshold = np.iinfo(np.int32).max
        # Where OpenMP is loaded twice (scikit-learn brings it too), faiss is reported
        # to end processes when it starts threads (faiss-wheels, issue 73).
        if sys.platform == "darwin":
            self.faiss.omp_set_num_threads(1)
        try:
            yield
        finally:
            options.distance_compute_blas_threshold = threshold
            self.faiss.omp_set_num_threads(n_threads)


def _faiss() -> Any:
    """Return the module, None where it is not installed."""
    try:
        import faiss
    except ImportError:
        return None
    return faiss


def _sample(n: int, rng: RandomState) -> Indices:
    return rng.choice(n, min(n, _SAMPLE), replace=False)


def _exact(X: Any, rows: Indices, n_neighbors: int) -> Indices:
    """Exact neighbours of some rows, themselves left out."""
    search = NearestNeighbors(n_neighbors=n_neighbors + 1, algorithm="brute").fit(X)
    return _without_self(search.kneighbors(X[rows], return_distance=False), rows)


def _without_self(found: Indices, rows: Indices) -> Indices:
    """Neighbours but the row itself, or but the last if equal rows hide it."""
    others = found != rows[:, None]
    others[others.all(axis=1), -1] = False
    kept: Indices = found[others].reshape(found.shape[0], found.shape[1] - 1)
    return kept


def _reach(X: Any, rows: Indices, counts: Sequence[int]) -> list[float]:
    """Squared distance of each row to the last of so many exact neighbours."""
    exact = _exact(X, rows, max(counts))
    return [
        np.sort(_squared_distances(X, row, neighbors))[count - 1] if count else 0.0
        for row, neighbors, count in zip(rows, exact, counts, strict=True)
    ]


def _hits(
    X: Any, rows: Indices, found: Iterable[Indices], reach: Sequence[float]
) -> NDArray[np.float64]:
    """Share of each row's neighbours that are no farther than the exact ones."""
    return np.array(
        [
            np.mean(
                (_squared_distances(X, row, neighbors) <= (1 + _TIE) * farthest)
                & (neighbors >= 0)
            )
            if neighbors.size
            else 1.0
            for row, neighbors, farthest in zip(rows, found, reach, strict=True)
        ]
    )


def _squared_distances(X: Any, row: int, others: Indices) -> NDArray[np.float64]:
    difference = X[others] - X[np.full(len(others), row)]
    if sparse.issparse(difference):
        return np.asarray(difference.power(2).sum(axis=1)).ravel()
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _without_loops(graph: Any) -> sparse.csr_array:
    """CSR with all other stored entries, zeros too."""
    entries = sparse.coo_array(graph)
    rows, columns = entries.coords
    others = rows != columns
    return sparse.csr_array(
        (entries.data[others], (rows[others], columns[others])), shape=graph.shape
    )


def _graph_of(neighbors: Indices, n: int) -> sparse.csr_array:
    """Unweighted graph from rows to equally many neighbours each, among n."""
    m, n_each = neighbors.shape
    bounds, ones = np.arange(m + 1) * n_each, np.ones(neighbors.size)
    return sparse.csr_array((ones, neighbors.ravel(), bounds), shape=(m, n))


def _symmetric(graph: sparse.csr_array) -> sparse.csr_array:
    graph = with_small_indices(graph)
    return sparse.csr_array((graph + graph.T) / 2)
