"""Graphs of nearest neighbours: exact by scikit-learn, approximate by faiss."""

import numpy as np
from sklearn.datasets import make_blobs
from sklearn.neighbors import kneighbors_graph

from scalefair.cluster._neighbors import neighbors_graph

N_NEIGHBORS = 10


def clustered_rows(n_rows, n_features=50, seed=0):
    """Rows of a hundred clusters that overlap a little."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((100, n_features))
    return make_blobs(n_rows, centers=centers, random_state=seed)[0]


def recall(X, affinity, n_sampled=300, seed=1):
    """Share of the exact neighbours of some rows in a symmetric graph."""
    rows = np.random.default_rng(seed).choice(len(X), n_sampled, replace=False)
    n_exact = 0
    for row in rows:
        distances = ((X - X[row]) ** 2).sum(axis=1)
        distances[row] = np.inf
        reach = np.partition(distances, N_NEIGHBORS - 1)[N_NEIGHBORS - 1]
        is_exact = distances[affinity[[row]].indices] <= (1 + 1e-6) * reach
        n_exact += min(N_NEIGHBORS, np.count_nonzero(is_exact))
    return n_exact / (n_sampled * N_NEIGHBORS)


class Graph:
    params = ([20_000, 100_000], ["sklearn", "approximate"])
    param_names = ("n_rows", "method")
    timeout = 900
    number = 1
    repeat = (1, 3, 60.0)

    def setup(self, n_rows, method):
        if method == "approximate":
            try:
                import faiss  # noqa: F401
            except ImportError as error:
                raise NotImplementedError("needs faiss") from error
        self.X, self.affinity = clustered_rows(n_rows), None

    def time_graph(self, n_rows, method):
        if method == "sklearn":
            kneighbors_graph(self.X, N_NEIGHBORS)
        else:
            self.affinity = neighbors_graph(self.X, N_NEIGHBORS, method, 0).affinity

    peakmem_graph = time_graph

    def teardown(self, n_rows, method):
        if self.affinity is not None and recall(self.X, self.affinity) < 0.98:
            raise AssertionError("neighbours are missed")

    def track_recall(self, n_rows, method):
        self.time_graph(n_rows, method)
        return 1.0 if self.affinity is None else recall(self.X, self.affinity)
