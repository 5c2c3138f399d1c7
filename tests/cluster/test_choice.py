"""What solver="auto" chooses, and the fallback of lobpcg."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from scalefair.cluster import FairSpectralClustering
from scalefair.cluster._choice import DENSE_LIMIT, choose_solver
from scalefair.cluster._fairness import FairProblem
from scalefair.datasets import make_fair_sbm
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
    W = sparse.csr_array(graphs.grid(40, 30))
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


def test_choice_by_auto_falls_back_in_silence(mesh):
    model = fit(mesh, max_iter=3, tol=1e-3)
    assert model.solver_ in ("lobpcg", "chebyshev")
    assert model.converged_
