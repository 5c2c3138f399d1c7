"""Documents of topics."""

import numpy as np
import pytest

from scalefair.datasets import make_topic_documents


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
    arguments = {"n_samples": 200, "n_features": 300, "density": 0.05}
    single = make_topic_documents(**arguments, dtype=np.float32, random_state=0).data
    double = make_topic_documents(**arguments, random_state=0).data
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), double.toarray(), rtol=1e-6)
