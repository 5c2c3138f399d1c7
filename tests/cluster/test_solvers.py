"""What solver="auto" chooses, the fallback of lobpcg, solver="admm" and "dual"."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering, _solvers
from scalefair.cluster._base import PAPERS_METHOD
from scalefair.cluster._solvers import DENSE_LIMIT, FairProblem, choose_solver
from scalefair.linalg import dc_admm
from scalefair.operators import NormalizedAffinity, NormalizedOperator


@pytest.mark.parametrize(
    ("name", "sizes", "k", "expected"),
    [
        ("cycle", [100], 3, "nullspace"),
        ("cycle", [101], 3, "chebyshev"),
        ("block_model", [1000], 250, "chebyshev"),
        ("block_model", [1000], 251, "nullspace"),
        # No dense matrices of a size that is refused, and no multigrid either.
        ("path", [DENSE_LIMIT], 6689, "nullspace"),
        ("path", [DENSE_LIMIT + 1], 6689, "chebyshev"),
        ("path", [3000], 3, "lobpcg"),
        ("grid", [60, 60], 3, "lobpcg"),
        ("block_model", [1500], 3, "chebyshev"),
        ("star", [3000], 3, "chebyshev"),
        ("complete", [300], 3, "chebyshev"),
    ],
)
def test_choice(name, sizes, k, expected, graphs):
    W = 1e-6 * getattr(graphs, name)(*sizes)  # weights scale freely
    codes = np.arange(W.shape[0])[:, None] % 2
    assert choose_solver(FairProblem(NormalizedAffinity(W), codes, k)) == expected
    if expected == "lobpcg":  # operators are not looked into
        problem = FairProblem(NormalizedOperator(W), codes, k)
        assert choose_solver(problem) == "chebyshev"


@pytest.fixture(scope="module")
def mesh(graphs):
    W = graphs.grid(40, 30)
    return W, np.random.default_rng(0).integers(3, size=1200)


def fit(mesh, **options):
    model = FairSpectralClustering(4, random_state=0, **PAPERS_METHOD, **options)
    return model.fit(mesh[0], sensitive_features=mesh[1])


def test_fallback_is_said_and_right(mesh, monkeypatch):
    assert fit(mesh, tol=1e-7).solver_ == "lobpcg"  # by itself
    results = []
    for name in ("lobpcg", "chebyshev"):
        solver = getattr(_solvers, name)

        def recorded(*args, solver=solver, **options):
            results.append(solver(*args, **options))
            return results[-1]

        monkeypatch.setattr(_solvers, name, recorded)
    with pytest.warns(ConvergenceWarning, match=r"lobpcg.*chebyshev.*took over"):
        model = fit(mesh, solver="lobpcg", max_iter=2, tol=1e-3)
    assert model.solver_ == "chebyshev"
    assert model.converged_
    assert model.residuals_.max() <= 1e-3
    # What both have spent counts.
    assert len(results) == 2
    assert model.n_products_ == sum(result.n_products for result in results)
    assert model.n_iter_ == sum(result.n_iter for result in results)


@pytest.mark.parametrize(("dtype", "n_others"), [("float32", 4), ("float64", 3)])
def test_products_are_counted_once(planted, counting, dtype, n_others):
    W = counting(planted.graph)
    model = FairSpectralClustering(4, solver="chebyshev", dtype=dtype, random_state=0)
    model.fit(W, sensitive_features=planted.sensitive_features)
    # Others: the degrees; the constraints, by each projected operator and `predict`.
    assert model.n_products_ == W.n_products - n_others


def test_admm_is_algorithm_1_on_the_normalised_affinity(planted, graphs):
    W, groups = planted.graph, planted.sensitive_features
    with pytest.warns(ConvergenceWarning, match=r"admm.*raise max_iter or tol"):
        model = fit((W, groups), solver="admm")
    assert not model.converged_
    assert model.n_iter_ == len(model.history_["alpha"]) == 10  # as in the paper
    M, d = graphs.normalized(W), W.toarray().sum(axis=1)
    G = (groups[:, None] == np.unique(groups)).astype(float)
    F = (G - G.mean(axis=0)) / np.sqrt(d)[:, None]
    result = dc_admm(M, 4, F, shift=-1.01, random_state=np.random.RandomState(0))
    assert model.solver_ == "admm"
    H = model.embedding_
    overlap = np.linalg.svd(result.vectors.T @ H, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-8)
    for name, record in result.history.items():
        np.testing.assert_allclose(model.history_[name], record, rtol=1e-6)
    # Rotated to Ritz vectors of M; H itself is not fair.
    np.testing.assert_allclose(H.T @ M @ H, np.diag(model.eigenvalues_), atol=1e-10)
    assert model.fairness_violation_ == pytest.approx(np.linalg.norm(F.T @ H))
    assert model.fairness_violation_ > 1e-3
