"""Normal rows, ellipses, an affinity, documents: their distributions are as stated."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.datasets import (
    make_biased_rows,
    make_elliptical,
    make_group_gaussians,
    make_random_affinity,
    make_topic_documents,
)
from scalefair.datasets._samples import _draw_cells
from scalefair.metrics import balance_score


@pytest.mark.parametrize("density", [1.0, 0.3, 0.01])
def test_shapes_and_types(density):
    data = make_biased_rows(500, 40, density=density, n_groups=3, random_state=0)
    assert data.data.shape == (500, 40)
    assert data.data.dtype == np.float64
    assert data.coef.shape == (40,)
    assert data.target.dtype == data.sensitive_features.dtype == np.int64
    assert set(data.target) == {0, 1}
    assert set(data.sensitive_features) == {0, 1, 2}
    assert sparse.issparse(data.data) == (density < 1)
    if density < 1:
        assert isinstance(data.data, sparse.csr_array)
        assert data.data.has_canonical_format
        assert data.data.indices.dtype == data.data.indptr.dtype == np.int32


@pytest.mark.parametrize("density", [1.0, 0.1])
@pytest.mark.parametrize("bias", [0.0, 2.0, -3.0])
def test_scores_are_as_stated(density, bias):
    data = make_biased_rows(
        60_000, 50, density=density, n_groups=3, bias=bias, random_state=0
    )
    scores = data.data @ data.coef
    for k, expected in enumerate([-bias / 2, 0, bias / 2]):
        members = scores[data.sensitive_features == k]
        assert members.mean() == pytest.approx(expected, abs=0.05)
        assert 1.95 < members.std() < 2.2


def test_labels_follow_the_logistic_model():
    data = make_biased_rows(100_000, 30, density=0.2, random_state=0)
    scores = data.data @ data.coef
    edges = np.quantile(scores, np.linspace(0, 1, 11))
    bins = np.clip(np.searchsorted(edges, scores) - 1, 0, 9)
    expected = np.bincount(bins, expit(scores)) / np.bincount(bins)
    observed = np.bincount(bins, data.target) / np.bincount(bins)
    np.testing.assert_allclose(observed, expected, atol=0.02)


def test_groups_are_of_equal_probability_and_all_features_tell_them():
    data = make_biased_rows(50_000, 10, density=0.5, bias=4.0, random_state=0)
    sizes = np.bincount(data.sensitive_features)
    np.testing.assert_allclose(sizes / 50_000, 0.5, atol=0.02)
    means = [data.data[data.sensitive_features == k].mean(axis=0) for k in (0, 1)]
    np.testing.assert_array_equal(np.sign(means[1] - means[0]), np.sign(data.coef))


@pytest.mark.parametrize("density", [0.9, 0.2, 0.003])
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


class RepeatingGenerator:
    """Draws so small that the first batch of cells does not reach the end."""

    def standard_exponential(self, size):
        return np.zeros(size)


def test_cells_are_drawn_up_to_the_end():
    cells = _draw_cells(1000, 0.5, RepeatingGenerator())
    np.testing.assert_array_equal(cells, np.arange(1000))


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
    assert data.sensitive_features.mean() == pytest.approx(0.3, abs=0.1)


def test_random_affinity_groups():
    for n_groups, probabilities in [(3, (0.7, 0.1, 0.2)), (5, None)]:
        data = make_random_affinity(
            3000,
            n_groups=n_groups,
            group_probabilities=probabilities,
            random_state=0,
        )
        shares = np.bincount(data.sensitive_features) / 3000
        np.testing.assert_allclose(shares, probabilities or 0.2, atol=0.04)


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


def test_plain_clustering_follows_the_groups():
    data = make_elliptical(400, random_state=0)
    labels = KMeans(2, n_init=5, random_state=0).fit_predict(data.data)
    assert adjusted_rand_score(data.sensitive_features, labels) == 1
    assert balance_score(labels, sensitive_features=data.sensitive_features) == 0


def test_fair_spectral_clustering_finds_the_ellipses():
    data = make_elliptical(300, random_state=0)
    model = FairSpectralClustering(
        2, affinity="rbf", gamma=1.0, random_state=0, **PAPERS_METHOD
    )
    model.fit(data.data, sensitive_features=data.sensitive_features)
    assert adjusted_rand_score(data.target, model.labels_) == 1


@pytest.mark.parametrize("density", [0.002, 0.01, 0.05])
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


def test_topics_show_in_the_leading_directions():
    data = make_topic_documents(2000, 1000, density=0.05, n_topics=3, random_state=0)
    X = data.data.toarray()
    X -= X.mean(axis=0)
    values = np.linalg.svd(X, compute_uv=False)
    assert values[1] > 1.5 * values[2]  # three topics differ in two directions
    main, second = data.target == 0, data.target == 1
    distance = np.linalg.norm(X[main].mean(axis=0) - X[second].mean(axis=0))
    assert distance > 0.3


def test_groups_differ_in_their_topics():
    data = make_topic_documents(4000, 500, density=0.02, n_topics=10, random_state=0)
    shares = [
        np.bincount(data.target[data.sensitive_features == g], minlength=10)
        / (data.sensitive_features == g).sum()
        for g in (0, 1)
    ]
    assert np.abs(shares[0] - shares[1]).sum() > 0.3
