"""What solver="auto" chooses, the fallback of lobpcg, solver="admm" and "dual"."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._solvers import DENSE_LIMIT, FairProblem, choose_solver
from scalefair.datasets import make_fair_sbm
from scalefair.linalg import dc_admm
from scalefair.operators import NormalizedAffinity, NormalizedOperator


def choice(W, k=3):
    codes = np.arange(W.shape[0]) % 2
    return choose_solver(FairProblem(NormalizedAffinity(W), codes, k))


def block_model(n):
    return make_fair_sbm(
        n, n_clusters=4, n_groups=2, average_degree=20, random_state=0
    ).graph


def test_dense_for_small_graphs_and_many_clusters(graphs):
    assert choice(graphs.cycle(100)) == "nullspace"
    assert choice(graphs.cycle(101)) != "nullspace"
    assert choice(block_model(1000), k=250) == "chebyshev"
    assert choice(block_model(1000), k=251) == "nullspace"
    # No dense matrices of a size that the solver refuses, and no multigrid either.
    assert choice(graphs.path(DENSE_LIMIT), k=6689) == "nullspace"
    assert choice(graphs.path(DENSE_LIMIT + 1), k=6689) == "chebyshev"


def test_lobpcg_on_meshes(graphs):
    assert choice(graphs.grid(60, 60)) == "lobpcg"
    assert choice(graphs.path(3000)) == "lobpcg"


def test_chebyshev_on_all_others(graphs):
    assert choice(block_model(3000)) == "chebyshev"
    assert choice(graphs.star(3000)) == "chebyshev"
    assert choice(graphs.complete(300)) == "chebyshev"


def test_weights_scale_freely(graphs):
    assert choice(1e-6 * graphs.grid(60, 60)) == "lobpcg"


def test_operators_are_not_looked_into(graphs):
    W = graphs.grid(60, 60)
    codes = np.arange(3600) % 2
    problem = FairProblem(NormalizedOperator(W), codes, 3)
    assert choose_solver(problem) == "chebyshev"


@pytest.fixture(scope="module")
def mesh(graphs):
    W = graphs.grid(40, 30)
    return W, np.random.default_rng(0).integers(3, size=1200)


def fit(mesh, **options):
    model = FairSpectralClustering(4, random_state=0, **options)
    return model.fit(mesh[0], sensitive_features=mesh[1])


def test_auto_uses_it_and_it_is_right(mesh):
    model = fit(mesh, tol=1e-7)
    exact = fit(mesh, solver="nullspace")
    assert model.solver_ == "lobpcg"
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, atol=1e-10)
    assert model.fairness_violation_ < 1e-12


def test_fallback_is_said_and_right(mesh):
    with pytest.warns(ConvergenceWarning, match=r"lobpcg.*chebyshev.*took over"):
        model = fit(mesh, solver="lobpcg", max_iter=2, tol=1e-3)
    assert model.solver_ == "chebyshev"
    assert model.converged_
    assert model.residuals_.max() <= 1e-3
    assert model.n_iter_ > 2  # those of both


def test_choice_by_auto_falls_back_in_silence(mesh):
    model = fit(mesh, max_iter=3, tol=1e-3)
    assert model.solver_ in ("lobpcg", "chebyshev")
    assert model.converged_


@pytest.fixture(scope="module")
def planted():
    return make_fair_sbm(
        300, n_clusters=3, n_groups=3, average_degree=30, random_state=5
    )


def fit_planted(data, **options):
    model = FairSpectralClustering(3, random_state=0, **options)
    return model.fit(data.graph, sensitive_features=data.sensitive_features)


def test_admm_is_algorithm_1_on_the_normalised_affinity(planted):
    with pytest.warns(ConvergenceWarning, match="admm"):
        model = fit_planted(planted, solver="admm")
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
        model = fit_planted(planted, solver="admm", tol=1e-8)
    assert model.n_iter_ == 10
    assert not model.converged_
    assert len(model.history_["alpha"]) == 10


def test_no_convergence_of_the_dual_is_said(planted):
    with pytest.warns(ConvergenceWarning, match=r"dual.*raise max_iter or tol"):
        model = fit_planted(planted, solver="dual", tol=1e-9, max_iter=2)
    assert model.fairness_violation_ <= 1e-10
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("solver", ["admm", "dual"])
def test_same_random_state_same_result(planted, solver):
    first, second = (fit_planted(planted, solver=solver, tol=0.2) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
