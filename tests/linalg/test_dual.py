"""The dual solver: its pairs, what it says when it fails, bad input.

It converges as fast as the gaps let a first-order method, so the tolerance here is
looser than in the tests that the other solvers share.
"""

import numpy as np
import pytest
from scipy import sparse

from scalefair.linalg import chebyshev, dual, spectral_bounds
from scalefair.operators import NormalizedAffinity, Projected

TOL = 1e-6

SPECTRA = {
    "even": np.linspace(-1, 1, 200),
    "repeated": np.r_[np.ones(3), np.full(4, 0.9), np.linspace(-0.5, 0.5, 200)],
    "all negative": -np.linspace(1, 10, 200),
    "large negative end": np.r_[-20 * np.linspace(1, 2, 20), np.linspace(0, 3, 180)],
    "decaying": 0.8 ** np.arange(200),
    "mostly zero": np.r_[3.0, 2.0, np.zeros(200), -1.0],
    "all equal": np.full(200, -0.7),
    "zero": np.zeros(200),
    "rank one": np.r_[2.0, np.zeros(199)],
    "negative of rank one": np.r_[-2.0, np.zeros(199)],
}


def diagonal(values):
    values = np.random.default_rng(0).permutation(np.asarray(values, dtype=float))
    return sparse.csr_array(sparse.diags_array(values))


@pytest.mark.parametrize("k", [1, 5])
def test_every_graph(graph, graphs, check_pairs, k):
    result = dual(NormalizedAffinity(graph), k, tol=TOL, random_state=0)
    check_pairs(result, graphs.normalized(graph), k, TOL)


@pytest.mark.parametrize(("n_groups", "of_one"), [(2, False), (5, True)])
def test_every_graph_under_constraints(graph, graphs, check_pairs, n_groups, of_one):
    M = NormalizedAffinity(graph)
    groups = graphs.random_groups(M.shape[0], n_groups, smallest_of_one=of_one)
    Q = graphs.fairness_basis(M.degrees, groups)
    operator = Projected(M, Q, constrained_value=-1.0)
    result = dual(operator, 4, tol=TOL, orthogonal_to=Q, random_state=0)
    P = np.eye(M.shape[0]) - Q @ Q.T
    check_pairs(result, P @ graphs.normalized(graph) @ P - Q @ Q.T, 4, TOL)
    np.testing.assert_allclose(Q.T @ result.vectors, 0, atol=1e-14)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("k", [1, 6])
def test_every_spectrum(spectrum, check_pairs, k):
    A = diagonal(SPECTRA[spectrum])
    check_pairs(dual(A, k, tol=TOL, random_state=0), A.toarray(), k, TOL)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_tolerance_is_relative_to_the_norm(check_pairs, factor):
    A = factor * diagonal(SPECTRA["even"])
    check_pairs(dual(A, 4, tol=TOL, random_state=0), A.toarray(), 4, TOL)


def test_small_orders_are_solved_densely(check_pairs):
    A = np.diag(np.arange(12.0))
    result = dual(A, 3, tol=TOL)
    check_pairs(result, A, 3, 1e-12)


def test_agrees_with_chebyshev(graphs):
    M = NormalizedAffinity(graphs.block_model(300))
    one = dual(M, 4, tol=1e-8, random_state=0)
    other = chebyshev(M, 4, tol=1e-8, random_state=1)
    np.testing.assert_allclose(one.values, other.values, atol=1e-10)
    overlap = np.linalg.svd(one.vectors.T @ other.vectors, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-10)


def test_start_is_used(graphs):
    M = NormalizedAffinity(graphs.nearest_neighbors(250))
    exact = dual(M, 4, tol=1e-8, random_state=0)
    again = dual(M, 4, tol=1e-6, X0=exact.vectors, random_state=1)
    assert again.n_iter < 3 < exact.n_iter


@pytest.mark.parametrize("kind", ["zero", "equal columns", "one", "too many"])
def test_a_bad_start_does_no_harm(graphs, check_pairs, kind):
    W = graphs.block_model(200)
    X0 = {
        "zero": np.zeros((200, 3)),
        "equal columns": np.ones((200, 3)),
        "one": np.ones((200, 1)),
        "too many": np.random.default_rng(0).standard_normal((200, 9)),
    }[kind]
    before = X0.copy()
    result = dual(NormalizedAffinity(W), 3, tol=TOL, X0=X0, random_state=0)
    check_pairs(result, graphs.normalized(W), 3, TOL)
    assert np.array_equal(X0, before)


def test_counts_and_callback(graphs, counting):
    counted = counting(NormalizedAffinity(graphs.block_model(200)))
    seen = []
    result = dual(
        counted, 3, tol=1e-4, random_state=0, callback=lambda *state: seen.append(state)
    )
    assert (result.n_products, result.n_columns) == (
        counted.n_products,
        counted.n_columns,
    )
    assert len(seen) == result.n_iter
    assert seen[-1][0] == 3
    assert seen[-1][1] <= 1e-4


def test_no_convergence_is_said(graphs):
    M = NormalizedAffinity(graphs.nearest_neighbors(250))
    result = dual(M, 4, tol=1e-8, max_iter=3, random_state=0)
    assert not result.converged
    assert result.n_iter == 3
    assert "raise max_iter or tol" in result.message
    measured = M @ result.vectors - result.vectors * result.values
    np.testing.assert_allclose(
        result.residual_norms, np.linalg.norm(measured, axis=0), rtol=1e-6
    )


def test_tolerance_out_of_reach_is_said():
    # Residuals of 1e-17 are below rounding: it must end and say so.
    result = dual(diagonal(np.linspace(0, 1, 60)), 2, tol=1e-17, random_state=0)
    assert not result.converged
    assert result.residual_norms.max() < 1e-7
    assert "raise" in result.message


def test_thread_count_does_not_matter(graphs, with_threads):
    M = NormalizedAffinity(graphs.nearest_neighbors(3000))

    def run():
        return dual(M, 3, tol=1e-2, random_state=0).vectors

    np.testing.assert_array_equal(with_threads(1, run), with_threads(2, run))


def test_bounds_are_not_needed_twice(graphs, counting):
    M = NormalizedAffinity(graphs.block_model(200))
    bounds = spectral_bounds(M, random_state=0)
    counted = counting(M)
    result = dual(counted, 3, bounds=bounds, random_state=0)
    assert result.n_products == counted.n_products + len(bounds.nodes)


class TestBadInput:
    @pytest.mark.parametrize("k", [0, 21])
    def test_k_that_does_not_fit(self, k):
        with pytest.raises(ValueError, match="between 1 and the order 20"):
            dual(np.eye(20), k)

    def test_not_square(self):
        with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
            dual(np.ones((3, 4)), 1)

    @pytest.mark.parametrize("n", [5, 100])
    def test_not_finite(self, n):
        values = np.arange(float(n))
        values[2] = np.nan
        with pytest.raises(FloatingPointError, match="not finite"):
            dual(sparse.csr_array(sparse.diags_array(values)), 2, random_state=0)

    def test_basis_to_avoid_that_does_not_fit(self):
        with pytest.raises(ValueError, match="orthogonal_to"):
            dual(np.eye(60), 2, orthogonal_to=np.ones((59, 2)))
