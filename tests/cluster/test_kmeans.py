"""k-means on embeddings."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import _kmeans
from scalefair.cluster._kmeans import embedding_kmeans


def _simplex(n_per_cluster, k, noise, seed=0):
    rng = np.random.RandomState(seed)
    target = np.repeat(np.arange(k), n_per_cluster)
    return np.eye(k)[target] + noise * rng.standard_normal((target.size, k)), target


def test_many_separated_clusters_are_found_where_kmeans_plus_plus_fails():
    U, target = _simplex(40, 60, 0.06)
    alone = KMeans(60, n_init=1, init="random", random_state=0).fit(U).labels_
    assert adjusted_rand_score(target, alone) < 0.95
    labels = embedding_kmeans(U, 60, n_init=1, random_state=0)
    assert adjusted_rand_score(target, labels) == 1.0


def test_no_worse_than_scikit_learn():
    U = np.random.RandomState(0).standard_normal((500, 6))
    labels = embedding_kmeans(U, 6, n_init=10, random_state=0)
    centres = np.array([U[labels == c].mean(axis=0) for c in range(6)])
    cost = ((U - centres[labels]) ** 2).sum()
    assert cost <= 1.02 * KMeans(6, n_init=10, random_state=0).fit(U).inertia_


def test_starts_compete_on_a_sample(monkeypatch):
    monkeypatch.setattr(_kmeans, "_SAMPLE_ROWS", 200)
    U, target = _simplex(300, 5, 0.1)
    labels = embedding_kmeans(U, 5, n_init=3, random_state=0)
    assert labels.shape == target.shape
    assert adjusted_rand_score(target, labels) == 1.0


@pytest.mark.parametrize("rows", [1, 3])
def test_fewer_distinct_rows_than_clusters(rows):
    U = np.zeros((20, 5))
    U[np.arange(20), np.arange(20) % rows] = 1
    labels = embedding_kmeans(U, 5, n_init=2, random_state=0)
    assert len(set(labels)) == rows
    assert labels.min() == 0


def test_random_state_is_all_that_matters():
    U = np.random.RandomState(0).standard_normal((500, 6))
    first = embedding_kmeans(U, 6, random_state=4)
    np.testing.assert_array_equal(first, embedding_kmeans(U, 6, random_state=4))
