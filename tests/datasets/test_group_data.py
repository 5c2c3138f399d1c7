"""Documents of topics, and normal groups."""

import numpy as np
import pytest

from scalefair.datasets import make_group_gaussians, make_topic_documents

GENERATORS = [make_topic_documents, make_group_gaussians]
SMALL = {
    make_topic_documents: {"n_samples": 200, "n_features": 300, "density": 0.05},
    make_group_gaussians: {"n_samples": 200, "n_features": 8},
}


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
    assert "3000 sparse rows" in data.DESCR


def test_topics_show_in_the_leading_directions():
    data = make_topic_documents(2000, 1000, density=0.05, n_topics=3, random_state=0)
    X = data.data.toarray()
    X -= X.mean(axis=0)
    values = np.linalg.svd(X, compute_uv=False)
    assert values[1] > 1.5 * values[2]  # three topics differ in two directions
    main, second = data.target == 0, data.target == 1
    apart = np.linalg.norm(X[main].mean(axis=0) - X[second].mean(axis=0))
    assert apart > 0.3


def test_groups_differ_in_their_topics():
    data = make_topic_documents(4000, 500, density=0.02, n_topics=10, random_state=0)
    shares = [
        np.bincount(data.target[data.sensitive_features == g], minlength=10)
        / (data.sensitive_features == g).sum()
        for g in (0, 1)
    ]
    assert np.abs(shares[0] - shares[1]).sum() > 0.3


def test_topic_documents_in_float32():
    arguments = SMALL[make_topic_documents]
    single = make_topic_documents(**arguments, dtype=np.float32, random_state=0).data
    double = make_topic_documents(**arguments, random_state=0).data
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), double.toarray(), rtol=1e-6)


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


def test_group_gaussians_of_many_rows_are_drawn_in_blocks():
    data = make_group_gaussians(20_000, 3, random_state=0)
    scales = np.abs(data.data).reshape(-1, 1000, 3).mean(axis=(1, 2))
    assert scales.max() < 1.2 * scales.min()


@pytest.mark.parametrize("make", GENERATORS)
def test_random_state(make):
    first, again, other = (make(**SMALL[make], random_state=s) for s in (3, 3, 4))
    assert abs(first.data - again.data).max() == 0
    np.testing.assert_array_equal(first.sensitive_features, again.sensitive_features)
    assert abs(first.data - other.data).max() > 0


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize("seed", range(5))
def test_no_group_is_empty(make, seed):
    arguments = {**SMALL[make], "n_samples": 5}
    data = make(**arguments, group_probabilities=[0.96, *4 * [0.01]], random_state=seed)
    np.testing.assert_array_equal(np.sort(data.sensitive_features), range(5))


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 1}, "n_samples"),
        ({"n_samples": 4.5}, "n_samples"),
        ({"n_features": 0}, "n_features"),
        ({"group_probabilities": (0.5, 0.6)}, "sum 1"),
        ({"group_probabilities": (1.0, 0.0)}, "positive"),
        ({"group_probabilities": (np.nan, 0.5)}, "positive"),
        ({"group_probabilities": 1.0}, "positive"),
    ],
)
def test_bad_input(make, change, message):
    with pytest.raises(ValueError, match=message):
        make(**{**SMALL[make], **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"density": 0.2}, "density"),
        ({"density": 1e-5}, "density"),
        ({"density": np.nan}, "density"),
        ({"n_topics": 1}, "n_topics"),
        ({"dtype": np.int64}, "dtype must be float64 or float32"),
    ],
)
def test_bad_topics(change, message):
    with pytest.raises(ValueError, match=message):
        make_topic_documents(**{**SMALL[make_topic_documents], **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decay": 0.0}, "decay"),
        ({"tilt": -1.0}, "tilt"),
        ({"spread": np.inf}, "spread"),
    ],
)
def test_bad_gaussians(change, message):
    with pytest.raises(ValueError, match=message):
        make_group_gaussians(**{**SMALL[make_group_gaussians], **change})
