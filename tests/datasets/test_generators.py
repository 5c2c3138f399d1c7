"""Generators: reproducible draws, refused arguments, distributions as stated."""

import re
import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from scalefair.datasets import (
    make_biased_rows,
    make_elliptical,
    make_fair_sbm,
    make_group_gaussians,
    make_random_affinity,
    make_topic_documents,
)
from scalefair.metrics import balance_score

# Small arguments of each, and what its description says of them.
SMALL = {
    make_biased_rows: ({"n_samples": 200, "n_features": 20}, "200 normal rows of 20"),
    make_elliptical: ({"n_samples": 50}, "re-creation"),
    make_fair_sbm: (
        {"n_nodes": 60, "n_clusters": 3, "n_groups": 2, "average_degree": 12},
        "60 nodes in 3 planted clusters and 2 groups",
    ),
    make_group_gaussians: ({"n_samples": 200, "n_features": 8}, "200 normal rows of 8"),
    make_random_affinity: ({"n_samples": 50}, "RandLaplace"),
    make_topic_documents: (
        {"n_samples": 200, "n_features": 300, "density": 0.05},
        "200 sparse rows",
    ),
}


def arrays(data):
    """Everything that is drawn, densely."""
    return {
        name: value.toarray() if hasattr(value, "toarray") else value
        for name, value in data.items()
        if name != "DESCR"
    }


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((make, {}) for make in SMALL),
        (make_biased_rows, {"density": 0.1}),
        (make_fair_sbm, {"average_degree": None}),
    ],
)
def test_draws_are_those_of_the_random_state(make, options):
    arguments, description = SMALL[make]
    arguments = {**arguments, **options}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (make(**arguments, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert description in first.DESCR
    for name, values in arrays(first).items():
        np.testing.assert_array_equal(values, arrays(again)[name])
    assert any((v != arrays(other)[name]).any() for name, v in arrays(first).items())
    shared = np.random.RandomState(3)
    moved = [arrays(make(**arguments, random_state=shared)) for _ in range(2)]
    same = [
        all(np.array_equal(v, m[name]) for name, v in arrays(first).items())
        for m in moved
    ]
    assert same == [True, False]  # the state moved on


@pytest.mark.parametrize("n_nodes", [70, 75])
def test_the_largest_degree_that_an_error_names_is_possible(n_nodes):
    make = partial(make_fair_sbm, n_nodes, n_clusters=3, n_groups=2)
    with pytest.raises(ValueError, match="too large") as error:
        make(average_degree=n_nodes)
    degree = float(re.search(r"at most (\S+) is possible", str(error.value))[1])
    assert make(average_degree=degree, random_state=0).probabilities[0] > 0.9999


RARE = {"group_probabilities": [0.96, *4 * [0.01]]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (make_biased_rows, {"n_groups": 5}),
        (make_group_gaussians, RARE),
        (make_random_affinity, {"n_groups": 5, **RARE}),
        (make_topic_documents, RARE),
    ],
)
def test_no_group_is_empty(make, groups, seed):
    data = make(**{**SMALL[make][0], "n_samples": 5}, **groups, random_state=seed)
    np.testing.assert_array_equal(np.sort(data.sensitive_features), range(5))


SHARES = [
    ({"group_probabilities": (0.5, 0.6)}, "sum 1"),
    ({"group_probabilities": (1.0, 0.0)}, "positive"),
]
ROWS = [
    ({"n_samples": 1}, "n_samples must be an integer >= 2"),
    ({"n_features": 0}, "n_features"),
]
ORDER = "a the largest and d the smallest"
REFUSED = {
    make_biased_rows: [
        *ROWS,
        ({"n_samples": 2, "n_groups": 3}, "n_samples must be an integer >= 3"),
        ({"n_groups": 1}, "n_groups"),
        ({"density": 0.0}, "density"),
        ({"bias": np.inf}, "bias"),
    ],
    make_elliptical: [
        ({"n_samples": n}, "n_samples must be an integer >= 4") for n in (3, 10.0)
    ],
    make_fair_sbm: [
        ({"n_clusters": 1}, "n_clusters must be an integer >= 2"),
        ({"n_groups": 1}, "n_groups must be an integer >= 2"),
        ({"n_nodes": 5}, r"n_nodes must be an integer >= 6 \(n_clusters \* n_groups:"),
        ({"average_degree": 0}, "positive number"),
        ({"average_degree": 59}, "too large.*at most"),
        ({"probabilities": (0.5, 0.4, 0.3)}, "four numbers"),
        ({"probabilities": (0.5, 0.5, 0.4, 0.1)}, ORDER),
        ({"probabilities": (np.nan, 0.3, 0.2, 0.1)}, ORDER),
        ({"probabilities": (1.1, 0.3, 0.2, 0.1), "average_degree": None}, "at most 1"),
        ({"cohesion": [1.0, 0.5]}, "3 numbers between 0 and 1"),
    ],
    make_group_gaussians: [
        *ROWS,
        *SHARES,
        ({"decay": 0.0}, "decay"),
        ({"tilt": -1.0}, "tilt"),
        ({"spread": np.inf}, "spread"),
    ],
    make_random_affinity: [
        ROWS[0],
        *SHARES,
        ({"n_groups": 0}, "n_groups"),
        ({"group_probabilities": (0.5, 0.3, 0.2)}, "one entry for each of the 2"),
    ],
    make_topic_documents: [
        *ROWS,
        *SHARES,
        ({"density": 0.2}, "density"),
        ({"n_topics": 1}, "n_topics"),
        ({"dtype": np.int64}, "dtype must be float64 or float32"),
    ],
}


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [(make, *case) for make, cases in REFUSED.items() for case in cases],
)
def test_arguments_that_are_refused(make, change, message):
    with pytest.raises(ValueError, match=message):
        make(**{**SMALL[make][0], **change}, random_state=0)


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
    options = {"average_degree": average_degree, "probabilities": probabilities}
    options |= {"n_clusters": n_clusters, "n_groups": n_groups}
    data = make_fair_sbm(n, **options, random_state=0)
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
        sizes = {"n_clusters": k, "n_groups": h, "average_degree": 0.5}
        data = make_fair_sbm(n, **sizes, random_state=0)
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
    sizes = {"n_clusters": 20, "n_groups": 5, "average_degree": 20}
    data = make_fair_sbm(50_000, **sizes, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The graph takes 12 bytes per entry, and 12 more each copy of its coordinates.
    assert peak < 24 * data.graph.nnz
    assert data.graph.nnz == pytest.approx(1_000_000, rel=0.01)


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


@pytest.mark.parametrize(("density", "bias"), [(1.0, 0.0), (1.0, -3.0), (0.1, 2.0)])
def test_scores_and_labels_are_as_stated(density, bias):
    data = make_biased_rows(
        60_000, 50, density=density, n_groups=3, bias=bias, random_state=0
    )
    X, groups, scores = data.data, data.sensitive_features, data.data @ data.coef
    assert X.shape == (60_000, 50)
    assert X.dtype == np.float64
    assert sparse.issparse(X) == (density < 1)
    if density < 1:
        assert isinstance(X, sparse.csr_array)
        assert X.has_canonical_format
        assert X.indices.dtype == X.indptr.dtype == np.int32
    assert data.target.dtype == groups.dtype == np.int64
    np.testing.assert_allclose(np.bincount(groups) / 60_000, 1 / 3, atol=0.02)
    for k, expected in enumerate([-bias / 2, 0, bias / 2]):
        members = scores[groups == k]
        assert members.mean() == pytest.approx(expected, abs=0.05)
        assert 1.95 < members.std() < 2.2
    # All features tell the groups.
    first, _, last = (X[groups == k].mean(axis=0) for k in range(3))
    if bias and density == 1:
        signs = np.sign(bias) * np.sign(data.coef)
        np.testing.assert_array_equal(np.sign(last - first), signs)
    # Labels follow the logistic model.
    edges = np.quantile(scores, np.linspace(0, 1, 11))
    bins = np.clip(np.searchsorted(edges, scores) - 1, 0, 9)
    expected = np.bincount(bins, expit(scores)) / np.bincount(bins)
    observed = np.bincount(bins, data.target) / np.bincount(bins)
    np.testing.assert_allclose(observed, expected, atol=0.03)


@pytest.mark.parametrize("density", [0.9, 0.003])
def test_each_cell_is_stored_with_the_same_probability(density):
    data = make_biased_rows(20_000, 30, density=density, random_state=0)
    X = data.data
    n_cells = 600_000
    noise = np.sqrt(density * (1 - density) / n_cells)
    assert abs(X.nnz / n_cells - density) < 4 * noise
    per_column = np.bincount(X.indices, minlength=30) / 20_000
    assert abs(per_column - density).max() < 4 * noise * np.sqrt(30)
    # Numbers of entries per row are binomial, across blocks too.
    per_row = np.diff(X.indptr)
    variance = 30 * density * (1 - density)
    assert per_row.var() == pytest.approx(variance, rel=0.1)
    start, end = per_row[:8192].mean(), per_row[-3000:].mean()
    assert start == pytest.approx(end, rel=max(0.05, 0.3 * np.sqrt(0.003 / density)))


def test_group_gaussians_have_the_stated_covariances():
    data = make_group_gaussians(
        40_000, 5, group_probabilities=(0.5, 0.3, 0.2), decay=2.0, random_state=0
    )
    assert data.covariances.shape == (3, 5, 5)
    for g, expected in enumerate(data.covariances):
        X = data.data[data.sensitive_features == g]
        sample = X.T @ X / len(X)
        noise = np.sqrt(2 / len(X)) * np.linalg.norm(expected)
        assert np.linalg.norm(sample - expected) < 3 * noise
        assert np.linalg.norm(data.covariances[g - 1] - expected) > 5 * noise


def test_group_gaussians_without_tilt_and_spread_are_alike():
    data = make_group_gaussians(10, 6, tilt=0.0, spread=0.0, random_state=0)
    np.testing.assert_allclose(*data.covariances, atol=1e-14)
    values = np.linalg.eigvalsh(data.covariances[0])[::-1]
    np.testing.assert_allclose(values, np.exp(-2 * np.arange(6) / 25.0))
    nearly = make_group_gaussians(10, 6, tilt=1e-3, spread=0.0, random_state=0)
    np.testing.assert_allclose(*nearly.covariances, atol=1e-2)


def test_random_affinity():
    data = make_random_affinity(400, random_state=0)
    W = data.affinity
    assert W.shape == (400, 400)
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_array_equal(np.diag(W), 0)
    off = W[np.triu_indices(400, k=1)]
    assert off.min() >= 0
    assert off.max() < 1
    assert off.mean() == pytest.approx(0.5, abs=0.01)
    assert off.var() == pytest.approx(1 / 12, abs=0.005)
    for n_groups, probabilities in [(2, None), (3, (0.7, 0.1, 0.2)), (5, None)]:
        groups = {"n_groups": n_groups, "group_probabilities": probabilities}
        codes = make_random_affinity(3000, **groups, random_state=0).sensitive_features
        expected = probabilities or {2: (0.7, 0.3), 5: 0.2}[n_groups]
        np.testing.assert_allclose(np.bincount(codes) / 3000, expected, atol=0.04)


@pytest.mark.parametrize("n", [600, 11])
def test_elliptical_shape(n):
    data = make_elliptical(n, random_state=0)
    x, y = data.data.T
    assert data.data.shape == (n, 2)
    np.testing.assert_array_equal(x > 0, data.sensitive_features == 1)
    np.testing.assert_array_equal(y > 0, data.target == 1)
    quarters = 2 * data.target + data.sensitive_features
    assert np.ptp(np.bincount(quarters)) == (n % 4 > 0)
    # Each half ellipse fits its outline.
    outline = ((abs(x) - 1) / 4) ** 2 + ((abs(y) - 1) / 0.5) ** 2
    assert outline.max() <= 1 + 1e-12
    assert n < 600 or outline.max() > 0.98


def test_groups_are_the_plain_clusters():
    data = make_elliptical(300, random_state=0)
    groups = data.sensitive_features
    labels = KMeans(2, n_init=5, random_state=0).fit_predict(data.data)
    assert adjusted_rand_score(groups, labels) == 1
    assert balance_score(labels, sensitive_features=groups) == 0


@pytest.mark.parametrize("density", [0.002, 0.05])
def test_topic_documents(density):
    data = make_topic_documents(3000, 2000, density=density, random_state=0)
    X = data.data
    assert X.shape == (3000, 2000)
    assert X.nnz == pytest.approx(density * 6e6, rel=0.05)
    assert X.has_canonical_format
    assert X.indices.dtype == np.int32
    assert (X.data > 0).all()
    np.testing.assert_allclose((X**2).sum(axis=1), 1)
    used = np.bincount(X.indices, minlength=2000)
    assert used[:20].mean() > 10 * used[-1000:].mean()  # frequent words first
    assert np.bincount(data.sensitive_features).min() > 0.25 * 3000
    single = make_topic_documents(
        3000, 2000, density=density, dtype=np.float32, random_state=0
    ).data
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.data, X.data, rtol=1e-6)


def test_topics_show_in_the_leading_directions_and_in_the_groups():
    data = make_topic_documents(2000, 1000, density=0.05, n_topics=3, random_state=0)
    X = data.data.toarray()
    X -= X.mean(axis=0)
    values = np.linalg.svd(X, compute_uv=False)
    assert values[1] > 1.5 * values[2]  # three topics differ in two directions
    main, second = data.target == 0, data.target == 1
    distance = np.linalg.norm(X[main].mean(axis=0) - X[second].mean(axis=0))
    assert distance > 0.3
    data = make_topic_documents(4000, 500, density=0.02, n_topics=10, random_state=0)
    counts = [
        np.bincount(data.target[data.sensitive_features == g], minlength=10)
        for g in (0, 1)
    ]
    first, second = (count / count.sum() for count in counts)
    assert np.abs(first - second).sum() > 0.3
