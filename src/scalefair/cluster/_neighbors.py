"""Graphs of nearest neighbours of rows: exact, approximate, or as a transformer finds.

Approximate neighbours come from an inverted file (faiss): the rows are put into lists
by k-means, and those of the lists nearest to a row are searched. How many lists, a
sample of rows decides, whose exact neighbours are computed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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

from scalefair._entries import check_random_state, with_small_indices

Indices = NDArray[np.integer]

# Share of the exact neighbours that approximate ones must hold.
MIN_RECALL = 0.99
# Rows from which on approximate neighbours are faster by more than a second.
MIN_APPROXIMATE_ROWS = 20_000
# Rows whose exact neighbours take about a second: so many are the sample that estimates
# the recall, and for so many new rows the lists are not made again.
N_EXACT_ROWS = 1000


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
    # Step 1: rows whose squared distances are in range.
    n, is_dense = X.shape[0], not sparse.issparse(X)
    if n_neighbors >= n:
        raise ValueError(
            f"n_neighbors = {n_neighbors} must be less than the number of samples, {n}."
        )
    if (unit := _unit(X)) != 1:
        X = X / unit
    # Step 2: approximate neighbours, where they are asked for or pay.
    # On macOS "auto" never takes approximate neighbours: see `_repeatable`.
    is_approximate = neighbors == "approximate"
    if neighbors == "auto" and is_dense and sys.platform != "darwin":
        is_approximate = n >= MIN_APPROXIMATE_ROWS and _faiss() is not None
    if is_approximate and not is_dense:
        raise ValueError(
            'neighbors="approximate" takes dense rows. For sparse ones use '
            'neighbors="exact" or a transformer, such as PyNNDescentTransformer of '
            "pynndescent."
        )
    if is_approximate and _faiss() is None:
        raise ImportError(
            'neighbors="approximate" needs faiss: pip install "scalefair[neighbors]".'
        )
    if is_approximate:
        graph = _approximate(X, n_neighbors, check_random_state(random_state))
        if graph is not None:
            return graph
    # Step 3: exact ones, also where half of all lists would have to be searched.
    exact = kneighbors_graph(X, n_neighbors, mode="connectivity", include_self=False)
    return NeighborsGraph(_symmetric(sparse.csr_array(exact)), "exact", 1.0)


def new_neighbors(
    X: Any, n_neighbors: int, fitted: Any, search: Any
) -> sparse.csr_array:
    """Neighbours of new rows among the fitted ones, found as theirs were; weight 1."""
    # Step 1: a transformer knows its rows.
    (m, n), exact = (X.shape[0], fitted.shape[0]), search is None
    if not (exact or isinstance(search, tuple)):
        if not hasattr(search, "transform"):
            raise ValueError(f"neighbors={search} has no `transform` for new rows.")
        return _ones(_graph_by(search, search.transform, X, (m, n)))
    if (unit := _unit(fitted)) != 1:
        X, fitted = X / unit, fitted / unit
    # Step 2: exactly, where that is asked for or takes a second.
    if exact or m <= N_EXACT_ROWS:
        nearest = NearestNeighbors(n_neighbors=n_neighbors).fit(fitted)
        return _graph_of(nearest.kneighbors(X, return_distance=False), n)
    # Step 3: as many lists as the fit searched, made again from the same seed.
    seed, n_probes = search
    lists = InvertedLists(fitted, seed)
    neighbors = np.empty((m, n_neighbors), dtype=np.int64)
    for block in _blocks(np.arange(m)):
        neighbors[block] = lists.search_new(X[block], n_neighbors, n_probes)
    incomplete = np.flatnonzero((neighbors < 0).any(axis=1))
    if incomplete.size:
        nearest = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute")
        nearest.fit(fitted)
        neighbors[incomplete] = nearest.kneighbors(X[incomplete], return_distance=False)
    return _graph_of(neighbors, n)


def stored_neighbors(
    distances: Any, n_neighbors: int, *, of_fit: bool = True
) -> sparse.csr_array:
    """Symmetric graph of the nearest neighbours in a graph of distances.

    Without `of_fit` the rows are new nodes: their neighbours have weight 1.
    """
    # Step 1: a sparse graph of distances >= 0, without loops.
    m, n = distances.shape
    if of_fit and m != n:
        raise ValueError(
            f"A graph of distances must be a square matrix, got shape "
            f'{distances.shape}. For rows of features use affinity="nearest_neighbors".'
        )
    if not sparse.issparse(distances):  # zeros are distances, too
        entries = np.tile(np.arange(n), m), np.arange(0, m * n + 1, n)
        distances = sparse.csr_array((distances.ravel(), *entries), shape=(m, n))
    # A new matrix, which is sorted in place; its duplicates are summed.
    graph = _without_loops(distances) if of_fit else sparse.coo_array(distances).tocsr()
    if (smallest := graph.data.min(initial=0)) < 0:
        raise ValueError(
            f"Negative values in data: the smallest distance is {smallest:g}."
        )
    # Step 2: of each row the entries with the smallest distances.
    counts = np.diff(graph.indptr)
    if counts.min() < n_neighbors:
        raise ValueError(
            f"n_neighbors = {n_neighbors}, but row {counts.argmin()} of the graph of "
            f"distances has {counts.min()} neighbours, itself not counted: store more "
            "or lower n_neighbors."
        )
    graph = sort_graph_by_row_values(graph, warn_when_not_sorted=False)
    # The rank of an entry is its position less that of the first one of its row.
    ranks = np.arange(graph.nnz) - np.repeat(graph.indptr[:-1], counts)
    nearest = graph.indices[ranks < n_neighbors].reshape(m, n_neighbors)
    return _symmetric(_graph_of(nearest, n)) if of_fit else _graph_of(nearest, n)


def _transformed(X: Any, transformer: Any, rng: RandomState) -> NeighborsGraph:
    """All neighbours that a transformer stores; their recall if it is Euclidean."""
    transformer, n = clone(transformer), X.shape[0]
    graph = _graph_by(transformer, transformer.fit_transform, X, (n, n))
    graph = _ones(_without_loops(graph))
    # The recall is that of Euclidean neighbours: others are not compared.
    metric, p = (getattr(transformer, name, None) for name in ("metric", "p"))
    recall = None
    if metric == "euclidean" or (metric == "minkowski" and p == 2):
        rows = _sample(n, rng)
        neighbors = [graph.indices[graph.indptr[i] : graph.indptr[i + 1]] for i in rows]
        sample = RecallSample.of(X, rows, max(indices.size for indices in neighbors))
        recall = float(sample.recalls(neighbors).mean())
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


def _approximate(X: Any, n_neighbors: int, rng: RandomState) -> NeighborsGraph | None:
    """Neighbours from as many lists as the recall needs; None if from over half."""
    n, seed = X.shape[0], int(rng.randint(2**31 - 1))
    # Step 1: exact neighbours of a sample, and the lists.
    sample = RecallSample.of(X, _sample(n, rng), n_neighbors)
    lists = InvertedLists(X, seed)
    # Step 2: search more lists until the recall of the sample, less its standard error,
    # suffices.
    n_probes = 8
    while True:
        recalls = sample.recalls(lists.search(sample.rows, n_neighbors, n_probes))
        standard_error = recalls.std() / np.sqrt(recalls.size)
        if recalls.mean() - standard_error >= MIN_RECALL:
            break
        n_probes = int(1.4 * n_probes) + 1  # small steps: few lists too many
        if n_probes > lists.n_lists / 2:
            return None
    # Step 3: all rows; those of one list search the same lists, one after the other.
    neighbors = np.empty((n, n_neighbors), dtype=np.int64)
    for block in _blocks(lists.order()):
        neighbors[block] = lists.search(block, n_neighbors, n_probes)
    # Step 4: exact neighbours of rows whose lists held too few.
    incomplete = np.flatnonzero((neighbors < 0).any(axis=1))
    if incomplete.size:
        neighbors[incomplete] = _exact(X, incomplete, n_neighbors)
    del lists
    graph = _symmetric(_graph_of(neighbors, n))
    return NeighborsGraph(graph, "approximate", float(recalls.mean()), (seed, n_probes))


class InvertedLists:
    """Rows in lists, by k-means: an inverted file of faiss."""

    def __init__(self, X: NDArray[np.floating], seed: int) -> None:
        self.faiss = _faiss()
        n, d = X.shape
        self.mean = X.mean(axis=0)
        self.rows = self._centred(X)
        self.n_lists = int(min(2.5 * np.sqrt(n), n / 2))
        self.index = self.faiss.IndexIVFFlat(self.faiss.IndexFlatL2(d), d, self.n_lists)
        # Rough lists will do: five iterations of k-means on 64 rows for each list.
        self.index.cp.seed, self.index.cp.niter = seed, 5
        self.index.cp.min_points_per_centroid = 1  # without a warning
        self.index.cp.max_points_per_centroid = 64
        with self._repeatable():
            self.index.train(self.rows)
            self.index.add(self.rows)

    def search(self, rows: Indices, n_neighbors: int, n_probes: int) -> Indices:
        """Neighbours of rows, themselves left out; -1 if there are too few."""
        neighbors = self._search(self.rows[rows], n_neighbors + 1, n_probes)
        return _without_self(neighbors, rows)

    def search_new(self, X: Any, n_neighbors: int, n_probes: int) -> Indices:
        """Neighbours of other rows; -1 if there are too few."""
        return self._search(self._centred(X), n_neighbors, n_probes)

    def _search(self, rows: Any, n_neighbors: int, n_probes: int) -> Indices:
        self.index.nprobe = n_probes
        with self._repeatable():
            neighbors: Indices = self.index.search(rows, n_neighbors)[1]
        return neighbors

    def _centred(self, X: Any) -> NDArray[np.float32]:
        """Centred before they are rounded: float32 keeps its digits for differences."""
        rows = np.empty(X.shape, dtype=np.float32)
        np.subtract(X, self.mean, out=rows, casting="same_kind")
        return rows

    def order(self) -> Indices:
        """Rows, list by list."""
        lists, as_array = self.index.invlists, self.faiss.rev_swig_ptr
        return np.concatenate(
            [
                as_array(lists.get_ids(i), lists.list_size(i))
                for i in range(self.n_lists)
                if lists.list_size(i)
            ]
        )

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        """Search without BLAS: its rounding depends on threads, and digits cancel."""
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


@dataclass(frozen=True)
class RecallSample:
    """Rows of which the exact neighbours are computed."""

    X: Any
    rows: Indices
    distances: NDArray[np.float64]  # (m, n_neighbors): squared, in order

    @classmethod
    def of(cls, X: Any, rows: Indices, n_neighbors: int) -> RecallSample:
        """Find the distances of rows to their exact neighbours."""
        distances = [
            _squared_distances(X, row, neighbors)
            for row, neighbors in zip(rows, _exact(X, rows, n_neighbors), strict=True)
        ]
        return cls(X, rows, np.sort(distances, axis=1))

    def recalls(self, neighbors: Iterable[Indices]) -> NDArray[np.float64]:
        """Share of each row's neighbours that are no farther than as many exact ones.

        -1 stands for a missing neighbour.
        """
        recalls = np.ones(len(self.rows))  # of rows without neighbours
        for i, indices in enumerate(neighbors):
            if indices.size:
                # Distances that differ by the rounding of float32 are equal.
                farthest = (1 + 1e-6) * self.distances[i, indices.size - 1]
                squares = _squared_distances(self.X, self.rows[i], indices)
                recalls[i] = np.mean((squares <= farthest) & (indices >= 0))
        return recalls


def _sample(n: int, rng: RandomState) -> Indices:
    return rng.choice(n, min(n, N_EXACT_ROWS), replace=False)


def _blocks(order: Indices) -> Iterator[Indices]:
    """Rows in blocks: the copies of a search stay small."""
    for start in range(0, len(order), 16_384):
        yield order[start : start + 16_384]


def _exact(X: Any, rows: Indices, n_neighbors: int) -> Indices:
    """Exact neighbours of some rows, themselves left out."""
    search = NearestNeighbors(n_neighbors=n_neighbors + 1, algorithm="brute").fit(X)
    return _without_self(search.kneighbors(X[rows], return_distance=False), rows)


def _without_self(neighbors: Indices, rows: Indices) -> Indices:
    """Neighbours but the row itself, or but the last if equal rows hide it."""
    is_other = neighbors != rows[:, None]
    is_other[is_other.all(axis=1), -1] = False
    remaining: Indices = neighbors[is_other].reshape(len(neighbors), -1)
    return remaining


def _squared_distances(X: Any, row: int, neighbors: Indices) -> NDArray[np.float64]:
    difference = X[neighbors] - X[np.full(len(neighbors), row)]
    if sparse.issparse(difference):
        return np.asarray(difference.power(2).sum(axis=1)).ravel()
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _without_loops(graph: Any) -> sparse.csr_array:
    """CSR with all other stored entries, zeros too."""
    entries = sparse.coo_array(graph)
    rows, columns = entries.coords
    is_edge = rows != columns
    return sparse.csr_array(
        (entries.data[is_edge], (rows[is_edge], columns[is_edge])), shape=graph.shape
    )


def _graph_of(neighbors: Indices, n: int) -> sparse.csr_array:
    """Unweighted graph from rows to equally many neighbours each, among n."""
    m, n_neighbors = neighbors.shape
    indptr, ones = np.arange(m + 1) * n_neighbors, np.ones(neighbors.size)
    return sparse.csr_array((ones, neighbors.ravel(), indptr), shape=(m, n))


def _symmetric(graph: sparse.csr_array) -> sparse.csr_array:
    graph = with_small_indices(graph)
    return sparse.csr_array((graph + graph.T) / 2)
