"""Block model: densities, sizes and memory."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from scalefair.datasets import make_fair_sbm
from scalefair.metrics import balance_score


def pair_kinds(data):
    """0, 1, 2, 3 for pairs that link with probability a, b, c, d."""
    cluster, group = data.target, data.sensitive_features
    other_cluster = cluster[:, None] != cluster
    other_group = group[:, None] != group
    return other_cluster + 2 * other_group


WEIGHTS = (0.9, 0.3, 0.2, 0.0)


@pytest.mark.parametrize(
    ("sizes", "average_degree", "probabilities"),
    [
        ((1500, 5, 3), None, None),
        ((1500, 5, 3), 5, None),
        ((1500, 5, 3), 60, None),
        ((600, 3, 2), None, WEIGHTS),
        ((600, 3, 2), 20.0, WEIGHTS),
    ],
)
def test_block_densities(sizes, average_degree, probabilities):
    n, n_clusters, n_groups = sizes
    data = make_fair_sbm(
        n,
        n_clusters=n_clusters,
        n_groups=n_groups,
        average_degree=average_degree,
        probabilities=probabilities,
        random_state=0,
    )
    graph = data.graph
    assert isinstance(graph, sparse.csr_array)
    assert graph.dtype == np.float64
    assert graph.indices.dtype == graph.indptr.dtype == np.int32
    assert (graph.data == 1).all()
    assert graph.diagonal().sum() == 0
    assert abs(graph - graph.T).nnz == 0
    fresh = sparse.csr_array((graph.data, graph.indices, graph.indptr), shape=(n, n))
    assert fresh.has_canonical_format  # computed here, not taken from the flag
    assert (np.diff(data.probabilities) < 0).all()
    kinds, W = pair_kinds(data), data.graph.toarray()
    upper = np.triu(np.ones_like(kinds, dtype=bool), k=1)
    for kind, probability in enumerate(data.probabilities):
        coins = W[(kinds == kind) & upper]
        deviation = np.sqrt(probability * (1 - probability) / coins.size)
        assert coins.mean() == pytest.approx(probability, abs=4.5 * deviation)
    if probabilities is not None:
        shares = data.probabilities / data.probabilities[0]
        np.testing.assert_allclose(shares, np.array(WEIGHTS) / 0.9)
        if average_degree is None:
            np.testing.assert_array_equal(data.probabilities, WEIGHTS)
    elif average_degree is None:
        expected = np.array([1, 0.7, 0.4, 0.1]) * (np.log(n) / n) ** 0.1
        np.testing.assert_allclose(data.probabilities, expected)
    for labels in (data.target, data.sensitive_features):  # in random order
        assert abs(np.corrcoef(np.arange(n), labels)[0, 1]) < 0.15


def test_the_number_of_edges_varies_like_coins():
    sizes = {"n_clusters": 3, "n_groups": 2, "average_degree": 6}
    graphs = [make_fair_sbm(60, **sizes, random_state=seed) for seed in range(200)]
    upper = np.triu(np.ones((60, 60), dtype=bool), k=1)
    p = graphs[0].probabilities[pair_kinds(graphs[0])[upper]]
    edges = [data.graph.nnz / 2 for data in graphs]
    assert np.var(edges) == pytest.approx((p * (1 - p)).sum(), rel=0.3)


def test_expected_shares_of_the_degree():
    n, k, h = 30_000, 10, 3
    data = make_fair_sbm(n, n_clusters=k, n_groups=h, average_degree=40, random_state=0)
    edges = data.graph.tocoo()
    same_cluster = data.target[edges.row] == data.target[edges.col]
    groups = data.sensitive_features
    same_group = groups[edges.row] == groups[edges.col]
    share_c = 0.97 * 0.40 * (h - 1) / (k - 1)
    assert np.mean(~same_cluster & same_group) == pytest.approx(0.40, abs=0.005)
    assert np.mean(same_cluster & ~same_group) == pytest.approx(share_c, abs=0.005)
    assert np.mean(~same_cluster & ~same_group) == pytest.approx(0.03, abs=0.003)


def test_default_weights_decrease_for_all_shapes():
    for k in [2, 3, 10, 200]:
        for h in [2, 3, 50]:
            sizes = {"n_clusters": k, "n_groups": h, "average_degree": 0.1}
            data = make_fair_sbm(k * h, **sizes, random_state=0)
            assert (np.diff(data.probabilities) < 0).all(), (k, h)
            assert data.probabilities[3] > 0


@pytest.mark.parametrize(("k", "h"), [(2, 2), (3, 5), (6, 4)])
def test_uneven_sizes_differ_by_at_most_one(k, h):
    for n in range(k * h, 2 * k * h + 1):
        data = make_fair_sbm(
            n, n_clusters=k, n_groups=h, average_degree=0.5, random_state=0
        )
        cluster, group = data.target, data.sensitive_features
        table = np.zeros((k, h), int)
        np.add.at(table, (cluster, group), 1)
        for counts in (table, table.sum(axis=0), table.sum(axis=1)):
            assert counts.sum() == n
            assert np.ptp(counts) <= 1
        if n % (k * h) == 0:  # perfectly fair
            assert balance_score(cluster, sensitive_features=group) == 1


def test_memory_is_that_of_the_edges():
    tracemalloc.start()
    data = make_fair_sbm(
        50_000, n_clusters=20, n_groups=5, average_degree=20, random_state=0
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The graph takes 12 bytes per entry, and 12 more each copy of its coordinates.
    assert peak < 24 * data.graph.nnz
    assert data.graph.nnz == pytest.approx(1_000_000, rel=0.01)


def test_largest_degree_of_the_message_works():
    arguments = {"n_clusters": 3, "n_groups": 2, "random_state": 0}
    with pytest.raises(ValueError, match="at most") as caught:
        make_fair_sbm(600, average_degree=599, **arguments)
    limit = float(str(caught.value).split("at most ")[1].split()[0])
    data = make_fair_sbm(600, average_degree=0.999 * limit, **arguments)
    assert data.probabilities[0] == pytest.approx(0.999, rel=1e-4)


def test_cohesion_loosens_chosen_clusters():
    cohesion = [1.0, 1.0, 0.25, 0.0]
    sizes = {"n_clusters": 4, "n_groups": 2, "average_degree": 40}
    data = make_fair_sbm(4000, **sizes, cohesion=cohesion, random_state=0)
    i, j = data.graph.nonzero()
    inside = (data.target[i] == data.target[j]) & (
        data.sensitive_features[i] == data.sensitive_features[j]
    )
    edges = np.bincount(data.target[i][inside], minlength=4)
    expected = data.probabilities[0] * 500 * 499 * 2 * np.array(cohesion)
    assert np.all(np.abs(edges - expected) <= 8 * np.sqrt(expected))
    assert abs(data.graph.nnz / 4000 - 40) < 0.6
