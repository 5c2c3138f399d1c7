"""Normal rows, ellipses, an affinity, documents: their distributions are as stated."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from scalefair.datasets import (
    make_biased_rows,
    make_elliptical,
    make_group_gaussians,
    make_random_affinity,
    make_topic_documents,
)
from scalefair.metrics import balance_score


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
