"""Neighbours of rows of features: exact, approximate, of a transformer, or stored."""

import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.neighbors import KNeighborsTransformer, RadiusNeighborsTransformer
from sklearn.preprocessing import FunctionTransformer

from scalefair.cluster import FairSpectralClustering, _neighbors
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._neighbors import neighbors_graph


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="needs the extra neighbors")


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(300, n_features=4, centers=3, cluster_std=3.0, random_state=0)[0]


def fit(X, k=2, **options):
    options = {"affinity": "nearest_neighbors", "random_state": 0, **options}
    model = FairSpectralClustering(k, connected_components="all", **options)
    return model.fit(X, sensitive_features=np.arange(X.shape[0]) % 2)


def assert_same(A, B):
    assert A.shape == B.shape
    assert abs(A - B).max() == 0


def recall_of(X, W, n_neighbors=10):
    """Share of the exact neighbours in a graph, by a dense matrix of distances."""
    distances = cdist(X, X)
    np.fill_diagonal(distances, np.inf)
    reach = np.sort(distances, axis=1)[:, [n_neighbors - 1]]
    W = W.toarray()
    return ((W > 0) & (distances <= reach * (1 + 1e-6))).sum(axis=1).clip(
        max=n_neighbors
    ).mean() / n_neighbors


class Ranks(BaseEstimator):
    """Transformer that stores others than the nearest neighbours, and no diagonal."""

    def __init__(self, first=0, last=10, metric="euclidean"):
        self.first, self.last, self.metric = first, last, metric

    def fit_transform(self, X):
        distances = cdist(X, X)
        np.fill_diagonal(distances, np.inf)
        chosen = np.argsort(distances, axis=1)[:, self.first : self.last]
        rows = np.repeat(np.arange(len(X)), self.last - self.first)
        values = distances[rows, chosen.ravel()]
        return sparse.csr_array((values, (rows, chosen.ravel())), shape=distances.shape)


@pytest.mark.filterwarnings("ignore:The clusters are of very different sizes")
def test_exact_is_the_default_for_few_rows(blobs):
    model = fit(blobs)
    assert (model.neighbors_, model.neighbors_recall_) == ("exact", 1)
    assert_same(model.affinity_matrix_, fit(blobs, neighbors="exact").affinity_matrix_)
    other = fit(blobs, affinity="rbf")
    assert other.neighbors_ is None
    assert other.neighbors_recall_ is None


@pytest.mark.parametrize(
    "transformer",
    [
        KNeighborsTransformer(n_neighbors=10),
        KNeighborsTransformer(mode="connectivity", n_neighbors=11),  # and the row
        Ranks(),
    ],
)
def test_transformers_find_the_exact_graph(blobs, transformer):
    model = fit(blobs, neighbors=transformer, n_neighbors=3)
    assert_same(model.affinity_matrix_, fit(blobs).affinity_matrix_)
    assert (model.neighbors_, model.neighbors_recall_) == ("transformer", 1)
    assert not hasattr(transformer, "n_features_in_")  # a clone is fitted
    assert model.affinity_matrix_.indices.dtype == np.int32


def test_all_neighbours_within_a_radius(blobs):
    transformer = RadiusNeighborsTransformer(radius=2.0)
    model = fit(blobs, neighbors=transformer, **PAPERS_METHOD)
    is_near = (cdist(blobs, blobs) <= 2) & ~np.eye(300, dtype=bool)
    np.testing.assert_array_equal(model.affinity_matrix_.toarray(), is_near)
    assert model.neighbors_recall_ == 1


def test_recall_of_a_transformer(blobs):
    # Of the ten nearest it stores those from the fifth on.
    assert fit(blobs, neighbors=Ranks(4, 14)).neighbors_recall_ == pytest.approx(0.6)
    for metric in ("cosine", "minkowski"):  # of which no p is known
        assert fit(blobs, neighbors=Ranks(metric=metric)).neighbors_recall_ is None
    sparse_rows = sparse.csr_array(np.round(blobs))
    result = fit(sparse_rows, neighbors=KNeighborsTransformer(n_neighbors=5))
    assert result.neighbors_recall_ == 1
    other = KNeighborsTransformer(n_neighbors=5, p=1)
    assert fit(blobs, neighbors=other).neighbors_recall_ is None


@pytest.mark.parametrize("unit", [1e-200, -1e200])
def test_the_unit_does_not_matter(blobs, unit):
    X = blobs - blobs.min() + 1
    assert_same(neighbors_graph(X * unit, 10)[0], neighbors_graph(X, 10)[0])


def test_rows_without_neighbours():
    X = np.repeat([0.0, 50.0, 100.0], [20, 1, 20])[:, None]
    result = neighbors_graph(X, 10, RadiusNeighborsTransformer(radius=1.0))
    assert result.recall == 1
    assert result.affinity[[20]].nnz == 0


def test_ties_are_hits():
    X = np.repeat(np.arange(20.0)[:, None], 30, axis=0)  # thirty rows in each place
    # The first ten and the last ten of the equal rows are equally near.
    for transformer in (Ranks(0, 10), Ranks(19, 29)):
        assert fit(X, neighbors=transformer).neighbors_recall_ == 1
    assert fit(X, neighbors=Ranks(20, 30)).neighbors_recall_ == pytest.approx(0.9)


def stored(X, n_neighbors=14):
    return KNeighborsTransformer(n_neighbors=n_neighbors).fit_transform(X)


@pytest.mark.parametrize(
    "make",
    [
        stored,
        lambda X: stored(X, 10),
        lambda X: stored(X).tocoo(),
        lambda X: Ranks(0, 12).fit_transform(X),  # no diagonal, and not sorted
        lambda X: cdist(X, X),
    ],
)
def test_stored_neighbours_give_the_same_graph(blobs, make):
    graph = make(blobs)
    model = fit(graph, affinity="precomputed_nearest_neighbors")
    assert_same(model.affinity_matrix_, fit(blobs).affinity_matrix_)
    assert model.neighbors_recall_ is None


def test_same_graph_as_scikit_learn(blobs):
    options = {"affinity": "precomputed_nearest_neighbors"}
    model = fit(stored(blobs), n_neighbors=6, **options)
    peer = SpectralClustering(2, n_neighbors=7, **options).fit(stored(blobs))
    W = peer.affinity_matrix_.toarray()  # the row itself is one of its seven
    np.fill_diagonal(W, 0)
    np.testing.assert_array_equal(model.affinity_matrix_.toarray(), W)


def test_stored_distances_of_new_rows():
    """They stay as they are; of duplicate entries the sum counts, as in a fit."""
    data = np.array([9.0, 1, 2, 3, 4, 9, 1, 1, 3])
    entries = [0, 5, 6, 7, 8, 0, 1, 1, 3], [0, 5, 9]
    distances = sparse.csr_array((data, *entries), shape=(2, 20))
    distances.data.flags.writeable = False
    graph = _neighbors.stored_neighbors(distances, 3, of_fit=False)
    np.testing.assert_array_equal(
        np.argwhere(graph.toarray() == 1)[:, 1], [5, 6, 7, 0, 1, 3]
    )


@pytest.fixture(scope="module")
def many():
    X = make_blobs(3000, n_features=6, centers=30, random_state=0)[0]
    return X + 1000


def test_approximate_reaches_its_recall_on_any_threads(faiss, many):
    model = fit(many, neighbors="approximate", k=5)
    assert model.neighbors_ == "approximate"
    assert 0.99 <= model.neighbors_recall_ <= 1
    # 3,000 rows of which 1,000 were the sample: three standard errors are 0.005.
    recall = recall_of(many, model.affinity_matrix_)
    assert recall == pytest.approx(model.neighbors_recall_, abs=0.005)
    W = model.affinity_matrix_
    assert abs(W - W.T).max() == 0
    assert W.diagonal().sum() == 0
    assert W.sum() == 10 * 3000
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(2)
        again = fit(many, neighbors="approximate", k=5)
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)
    assert_same(again.affinity_matrix_, W)


def test_digits_that_float32_lacks(faiss, many, monkeypatch):
    """Lists far from each other, which BLAS would mix up, and rows far from zero."""
    # BLAS from so many rows on, as some versions of faiss have it.
    monkeypatch.setattr(faiss.cvar, "distance_compute_blas_threshold", 20)
    wide = many + 1e5 * (np.arange(3000) % 2)[:, None]
    for X in (many + 1e6, wide):
        result = neighbors_graph(X, 10, "approximate", 0)
        assert result.neighbors == "approximate"
        assert recall_of(X, result.affinity) >= 0.985
        assert faiss.cvar.distance_compute_blas_threshold == 20


def test_one_thread_on_macos(faiss, many, monkeypatch):
    n_threads, calls = faiss.omp_get_max_threads(), []
    monkeypatch.setattr(faiss, "omp_set_num_threads", calls.append)
    lists = _neighbors.InvertedLists(many, 0)
    monkeypatch.setattr(sys, "platform", "darwin")
    lists.search(np.arange(5), 10, 8)
    assert calls == [n_threads, 1, n_threads]


def test_exact_where_half_of_the_lists_are_not_enough(faiss):
    X = np.random.default_rng(0).standard_normal((2000, 40))
    result = neighbors_graph(X, 10, "approximate", 0)
    assert (result.neighbors, result.recall) == ("exact", 1)
    assert_same(result.affinity, neighbors_graph(X, 10).affinity)


def test_rows_with_too_few_neighbours_are_searched_again(faiss, many, monkeypatch):
    search = _neighbors.InvertedLists.search

    def missing(lists, rows, n_neighbors, n_probes):
        neighbors = search(lists, rows, n_neighbors, n_probes)
        neighbors[rows == 7] = -1
        return neighbors

    monkeypatch.setattr(_neighbors.InvertedLists, "search", missing)
    result = neighbors_graph(many, 10, "approximate", 0)
    assert result.neighbors == "approximate"
    assert result.affinity[[7]].nnz >= 10


def islands():
    """Forty places of fifty equal rows, and some rows far from all others."""
    rng = np.random.default_rng(0)
    positions = np.repeat(rng.standard_normal((40, 3)), 50, axis=0)
    return np.vstack([positions, 100 * rng.standard_normal((7, 3))])


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((500, 2)),
        np.arange(12.0)[:, None],
        1e-200 * islands(),
        1e200 * islands(),
        islands().astype(np.float32),
    ],
    ids=["equal", "few", "tiny", "huge", "float32"],
)
def test_approximate_neighbours_are_as_near_as_exact_ones(faiss, X, capfd):
    result = neighbors_graph(X, 10, "approximate", 0)
    unit = max(np.abs(X).max(), 1e-300)
    assert recall_of(X / unit, result.affinity) >= 0.99
    assert result.affinity.sum() == pytest.approx(10 * len(X))
    assert capfd.readouterr() == ("", "")


def test_auto(faiss, many, monkeypatch):
    monkeypatch.setattr(_neighbors, "MIN_APPROXIMATE_ROWS", 3000)
    for system, method in (("linux", "approximate"), ("darwin", "exact")):
        monkeypatch.setattr(sys, "platform", system)
        assert neighbors_graph(many, 10, "auto").neighbors == method
    monkeypatch.setattr(sys, "platform", "linux")
    assert neighbors_graph(many[:-1], 10, "auto").neighbors == "exact"
    rows = sparse.csr_array(many)
    assert neighbors_graph(rows, 10, "auto").neighbors == "exact"


def test_without_faiss(blobs, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(_neighbors, "MIN_APPROXIMATE_ROWS", 100)
    assert fit(blobs).neighbors_ == "exact"
    with pytest.raises(ImportError, match=r'pip install "scalefair\[neighbors\]"'):
        fit(blobs, neighbors="approximate")


PRECOMPUTED = {"affinity": "precomputed_nearest_neighbors"}


def made_of_shape(*shape):
    return {"neighbors": FunctionTransformer(lambda X: sparse.csr_array(shape))}


def with_negative(X):
    graph = stored(X)
    graph.data[5] = -2
    return graph


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (sparse.csr_array, {"neighbors": "approximate"}, "dense rows.*PyNNDescent"),
        (cdist, {"affinity": "precomputed", "neighbors": "exact"}, 'not for "precomp'),
        (np.array, {"affinity": "rbf", "neighbors": Ranks()}, "s=Ranks.*is for"),
        (np.array, {"neighbors": FunctionTransformer()}, "sparse.*ndarray of sh"),
        (np.array, made_of_shape(300, 299), r"shape \(300, 299\)"),
        (np.array, made_of_shape(300, 300), "no edges"),
        (np.array, {"neighbors": RadiusNeighborsTransformer(radius=0.0)}, "no edges"),
        (lambda X: sparse.csr_array((300, 300)), PRECOMPUTED, "row 0 .* has 0 "),
        (lambda X: stored(X)[:, 1:], PRECOMPUTED, r"square matrix.*\(300, 299\)"),
        (lambda X: stored(X, 9), PRECOMPUTED, "n_neighbors = 10.* row 0 .* has 9 "),
        (with_negative, PRECOMPUTED, "Negative values.*smallest distance is -2"),
    ],
)
def test_bad_input(blobs, make, options, message):
    W = make(blobs, blobs) if make is cdist else make(blobs)
    with pytest.raises(ValueError, match=message):
        fit(W, **options)
