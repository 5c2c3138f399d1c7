import numpy as np
import pytest
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

from scalefair.datasets import make_elliptical, make_random_affinity
from scalefair.metrics import balance_score


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
    assert "RandLaplace" in data.DESCR


def test_random_affinity_groups():
    data = make_random_affinity(
        3000, n_groups=3, group_probabilities=(0.7, 0.1, 0.2), random_state=0
    )
    shares = np.bincount(data.sensitive_features) / 3000
    np.testing.assert_allclose(shares, [0.7, 0.1, 0.2], atol=0.04)
    even = make_random_affinity(3000, n_groups=5, random_state=0)
    shares = np.bincount(even.sensitive_features) / 3000
    np.testing.assert_allclose(shares, 0.2, atol=0.04)


@pytest.mark.parametrize("seed", range(20))
def test_no_group_is_empty(seed):
    data = make_random_affinity(
        6, n_groups=5, group_probabilities=[0.96] + 4 * [0.01], random_state=seed
    )
    assert set(data.sensitive_features) == set(range(5))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 1}, "n_samples"),
        ({"n_samples": 4.5}, "n_samples"),
        ({"n_groups": 0}, "n_groups"),
        ({"group_probabilities": (0.5, 0.3, 0.2)}, "one entry for each of the 2"),
        ({"group_probabilities": (0.5, 0.6)}, "sum 1"),
        ({"group_probabilities": (1.0, 0.0)}, "positive"),
        ({"group_probabilities": (np.nan, 0.5)}, "positive"),
    ],
)
def test_random_affinity_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_random_affinity(**{"n_samples": 10, **arguments})


@pytest.mark.parametrize(
    ("make", "entry"), [(make_random_affinity, "affinity"), (make_elliptical, "data")]
)
def test_random_state(make, entry):
    first, again, other = (make(50, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first[entry], again[entry])
    np.testing.assert_array_equal(first.sensitive_features, again.sensitive_features)
    assert (first[entry] != other[entry]).any()


def test_elliptical_shape():
    data = make_elliptical(random_state=0)
    x, y = data.data.T
    assert data.data.shape == (600, 2)
    np.testing.assert_array_equal(x > 0, data.sensitive_features == 1)
    np.testing.assert_array_equal(y > 0, data.target == 1)
    quarters = 2 * data.target + data.sensitive_features
    np.testing.assert_array_equal(np.bincount(quarters), 150)
    # Each half ellipse fits its outline.
    outline = ((abs(x) - 1) / 4) ** 2 + ((abs(y) - 1) / 0.5) ** 2
    assert outline.max() <= 1 + 1e-12
    assert outline.max() > 0.98
    assert "re-creation" in data.DESCR


def test_elliptical_odd_size_is_as_even_as_possible():
    data = make_elliptical(11, random_state=0)
    quarters = np.bincount(2 * data.target + data.sensitive_features)
    assert np.ptp(quarters) == 1


@pytest.mark.parametrize(
    "model",
    [
        KMeans(2, n_init=5, random_state=0),
        SpectralClustering(2, gamma=1.0, random_state=0),
    ],
    ids=["k-means", "spectral"],
)
def test_plain_clustering_follows_the_groups(model):
    data = make_elliptical(400, random_state=0)
    labels = model.fit_predict(data.data)
    assert adjusted_rand_score(data.sensitive_features, labels) == 1
    assert balance_score(labels, sensitive_features=data.sensitive_features) == 0


def test_fair_spectral_clustering_finds_the_ellipses():
    # Dense reference: smallest eigenvector of L on the null space of F^T.
    data = make_elliptical(300, random_state=0)
    gaps = data.data[:, None] - data.data
    W = np.exp(-(gaps**2).sum(axis=2))
    root = np.sqrt(W.sum(axis=1))
    F = (data.sensitive_features - data.sensitive_features.mean()) / root
    F /= np.linalg.norm(F)
    P = np.eye(300) - np.outer(F, F)
    M = P @ (W / np.outer(root, root) + np.eye(300)) @ P
    H = np.linalg.eigh(M)[1][:, -2:] / root[:, None]
    labels = KMeans(2, n_init=5, random_state=0).fit_predict(H)
    assert adjusted_rand_score(data.target, labels) == 1


@pytest.mark.parametrize("n_samples", [3, -1, 10.0])
def test_elliptical_bad_input(n_samples):
    with pytest.raises(ValueError, match="n_samples must be an integer >= 4"):
        make_elliptical(n_samples)
