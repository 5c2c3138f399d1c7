"""Whether covariances are formed or multiplied by."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.decomposition import FairPCA
from scalefair.decomposition._fair_pca import choose_solver


def _shape(m, n):
    return np.broadcast_to(0.0, (m, n))  # of this shape, in eight bytes


@pytest.mark.parametrize(
    ("m", "n", "r", "n_groups", "solver"),
    [
        (10**7, 50, 10, 2, "gram"),  # many rows, few features
        (13_232, 1764, 200, 2, "gram"),
        (10**6, 8000, 10, 2, "gram"),
        (10**6, 8000, 10, 20, "matrix_free"),  # 14 GiB of moments
        (1000, 20_000, 10, 2, "matrix_free"),
    ],
)
def test_dense(m, n, r, n_groups, solver):
    assert choose_solver(_shape(m, n), r, n_groups) == solver


def test_sparse():
    X = sparse.random_array((1000, 30_000), density=1e-3, rng=0, format="csr")
    assert choose_solver(X, 5, 2) == "matrix_free"
    X = sparse.random_array((20_000, 50), density=0.1, rng=0, format="csr")
    assert choose_solver(X, 5, 2) == "gram"


def test_the_estimator_counts_the_groups(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "scalefair.decomposition._fair_pca.choose_solver",
        lambda X, r, n_groups: seen.append(n_groups) or "gram",
    )
    X = np.random.default_rng(0).standard_normal((60, 3))
    FairPCA(3).fit(X, sensitive_features=np.arange(60) % 4)
    assert seen == [4]
