"""solver="admm" and solver="dual" through the estimator."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering
from scalefair.datasets import make_fair_sbm
from scalefair.linalg import dc_admm


@pytest.fixture(scope="module")
def planted():
    return make_fair_sbm(
        300, n_clusters=3, n_groups=3, average_degree=30, random_state=5
    )


def fit(data, **options):
    model = FairSpectralClustering(3, random_state=0, **options)
    return model.fit(data.graph, sensitive_features=data.sensitive_features)


def test_admm_is_algorithm_1_on_the_normalised_affinity(planted):
    with pytest.warns(ConvergenceWarning, match="admm"):
        model = fit(planted, solver="admm")
    W = planted.graph.toarray()
    d = W.sum(axis=1)
    M = W / np.sqrt(np.outer(d, d))
    groups = np.asarray(planted.sensitive_features)
    G = (groups[:, None] == np.unique(groups)).astype(float)
    F = (G - G.mean(axis=0)) / np.sqrt(d)[:, None]
    found = dc_admm(M, 3, F, shift=-1.01, random_state=np.random.RandomState(0))
    assert model.solver_ == "admm"
    H = model.embedding_
    overlap = np.linalg.svd(found.vectors.T @ H, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-8)
    np.testing.assert_allclose(H.T @ H, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(model.residuals_, found.residual_norms, rtol=1e-6)
    for name, record in found.history.items():
        np.testing.assert_allclose(model.history_[name], record, rtol=1e-6)
    # Rotated to Ritz vectors of M; H itself is not fair.
    np.testing.assert_allclose(H.T @ M @ H, np.diag(model.eigenvalues_), atol=1e-10)
    assert model.fairness_violation_ == pytest.approx(np.linalg.norm(F.T @ H))
    assert model.fairness_violation_ > 1e-3


def test_admm_with_the_papers_iterations_says_what_is_missing(planted):
    with pytest.warns(ConvergenceWarning, match=r"admm.*raise max_iter or tol"):
        model = fit(planted, solver="admm", tol=1e-8)
    assert model.n_iter_ == 10
    assert not model.converged_
    assert set(model.history_) >= {
        "objective",
        "primal_residual",
        "dual_residual",
        "alpha",
        "constraint_product",
        "constraint",
    }
    assert len(model.history_["alpha"]) == 10


def test_dual_is_the_fair_optimum(planted):
    exact = fit(planted, solver="nullspace")
    model = fit(planted, solver="dual", tol=1e-7)
    assert model.converged_
    assert model.history_ is None
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-10)
    overlap = np.linalg.svd(exact.embedding_.T @ model.embedding_, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-10)
    assert model.fairness_violation_ <= 1e-10


def test_no_convergence_of_the_dual_is_said(planted):
    with pytest.warns(ConvergenceWarning, match=r"dual.*raise max_iter or tol"):
        model = fit(planted, solver="dual", tol=1e-9, max_iter=2)
    assert model.fairness_violation_ <= 1e-10
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("solver", ["admm", "dual"])
def test_same_random_state_same_result(planted, solver):
    first, second = (fit(planted, solver=solver, tol=0.2) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
