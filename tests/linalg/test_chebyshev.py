"""chebyshev: starting vectors, limits, counts, failure modes."""

import numpy as np
import pytest
from scipy import sparse

from scalefair.linalg import SpectralBounds, chebyshev, spectral_bounds
from scalefair.operators import NormalizedAffinity, Projected


@pytest.fixture(scope="module")
def problem(graphs):
    """Operator, its matrix, eigenvalues and eigenvectors, largest first."""
    W = graphs.nearest_neighbors(300)
    dense = graphs.normalized(W)
    values, vectors = np.linalg.eigh(dense)
    order = slice(None, None, -1)
    return NormalizedAffinity(W), dense, values[order], vectors[:, order]


class TestStart:
    def test_exact_vectors_need_no_filter(self, problem):
        M, _, values, vectors = problem
        result = chebyshev(M, 4, tol=1e-10, X0=vectors[:, :4], random_state=0)
        assert result.converged
        assert result.n_iter == 0
        assert result.n_products == 12 + 1  # bounds, Rayleigh-Ritz
        np.testing.assert_allclose(result.values, values[:4], atol=1e-12)

    def test_fewer_and_more_than_wanted(self, problem, check_pairs):
        M, dense, _, vectors = problem
        for p in (0, 1, 3, 4, 6, 9, 30):
            result = chebyshev(M, 4, tol=1e-9, X0=vectors[:, :p], random_state=0)
            check_pairs(result, dense, 4, 1e-9)

    def test_a_good_start_saves_products(self, problem):
        M, _, _, vectors = problem
        noise = np.random.default_rng(0).standard_normal((300, 9))
        cold = chebyshev(M, 4, tol=1e-8, random_state=0)
        near = vectors[:, :9] + 1e-6 * noise
        warm = chebyshev(M, 4, tol=1e-8, X0=near, random_state=0)
        assert warm.converged
        assert warm.n_columns < 0.7 * cold.n_columns

    @pytest.mark.parametrize("kind", ["random", "equal columns", "zero", "Fortran"])
    def test_a_bad_start_does_no_harm(self, problem, check_pairs, kind):
        M, dense, _, _ = problem
        X0 = {
            "random": np.random.default_rng(0).standard_normal((300, 5)),
            "equal columns": np.ones((300, 5)),
            "zero": np.zeros((300, 5)),
            "Fortran": np.asfortranarray(np.random.default_rng(1).random((300, 2))),
        }[kind]
        before = X0.copy()
        result = chebyshev(M, 4, tol=1e-9, X0=X0, random_state=0)
        check_pairs(result, dense, 4, 1e-9)
        assert np.array_equal(X0, before)

    @pytest.mark.parametrize(
        "X0", [np.ones(300), np.ones((299, 2)), np.full((300, 1), np.nan)]
    )
    def test_refuses_what_does_not_fit(self, problem, X0):
        with pytest.raises(ValueError, match="X0"):
            chebyshev(problem[0], 4, X0=X0)


class TestLimits:
    def test_max_iter(self, graphs):
        M = NormalizedAffinity(graphs.path(500))
        for max_iter in (1, 2, 3):
            result = chebyshev(M, 5, tol=1e-10, max_iter=max_iter, random_state=0)
            assert not result.converged
            assert result.n_iter == max_iter
            assert f"max_iter = {max_iter}" in result.message
            assert "raise max_iter or tol" in result.message
            assert np.isfinite(result.values).all()
            np.testing.assert_allclose(
                result.vectors.T @ result.vectors, np.eye(5), atol=1e-12
            )
            residuals = M @ result.vectors - result.vectors * result.values
            np.testing.assert_allclose(
                result.residual_norms, np.linalg.norm(residuals, axis=0), rtol=1e-6
            )

    @pytest.mark.parametrize("kind", ["block model", "path"])
    def test_float32_says_what_it_cannot_reach(self, graphs, kind):
        W = graphs.block_model(300) if kind == "block model" else graphs.path(60)
        M = NormalizedAffinity(W, dtype=np.float32)
        result = chebyshev(M, 4, tol=1e-11, max_iter=500, random_state=0)
        assert not result.converged
        assert "float64" in result.message
        assert result.n_iter < 100  # gives up, does not grind on
        assert np.isfinite(result.vectors).all()
        assert result.residual_norms.max() < 1e-5

    def test_float64_says_what_it_cannot_reach(self, problem):
        result = chebyshev(problem[0], 4, tol=1e-20, max_iter=500, random_state=0)
        assert not result.converged
        assert "raise tol" in result.message
        assert result.n_iter < 100
        assert result.residual_norms.max() < 1e-12

    @pytest.mark.parametrize("max_degree", [3, 10, 200])
    def test_any_degree_converges(self, problem, check_pairs, max_degree, counting):
        M, dense, _, _ = problem
        A = counting(M)
        result = chebyshev(
            A, 4, tol=1e-7, max_degree=max_degree, max_iter=1000, random_state=0
        )
        check_pairs(result, dense, 4, 1.1e-7)
        assert result.n_products <= 12 + result.n_iter * (max_degree + 1)

    @pytest.mark.parametrize("name", ["max_iter", "max_degree"])
    @pytest.mark.parametrize("bad", [0, -2, 1.5])
    def test_refuses_limits(self, problem, name, bad):
        with pytest.raises(ValueError, match=f"{name} must be an integer, at least 1"):
            chebyshev(problem[0], 4, **{name: bad})

    @pytest.mark.parametrize("n_buffer", [0, 1, 20])
    def test_any_buffer_converges(self, problem, check_pairs, n_buffer):
        M, dense, _, _ = problem
        result = chebyshev(M, 4, tol=1e-7, n_buffer=n_buffer, random_state=0)
        check_pairs(result, dense, 4, 1.1e-7)


class TestBounds:
    def test_given_bounds_save_their_products(self, problem, counting):
        M = problem[0]
        bounds = spectral_bounds(M, random_state=0)
        A = counting(M)
        result = chebyshev(A, 4, tol=1e-8, bounds=bounds, random_state=0)
        assert result.converged
        # As documented, products spent on the bounds belong to the count.
        assert result.n_products == A.n_products + len(bounds.nodes)

    @pytest.mark.parametrize("lower", [-0.5, 0.0, 0.1])
    @pytest.mark.parametrize("upper", [-0.5, 0.0, 0.1])
    def test_survives_wrong_bounds(self, problem, check_pairs, lower, upper):
        # Relative to the width: too narrow (> 0) and too wide.
        M, dense, values, _ = problem
        good = spectral_bounds(M, random_state=0)
        width = values[0] - values[-1]
        bounds = SpectralBounds(
            values[-1] + lower * width, values[0] - upper * width, *good[2:]
        )
        result = chebyshev(M, 4, tol=1e-7, bounds=bounds, random_state=0)
        norm = max(abs(bounds.lower), abs(bounds.upper))
        check_pairs(result, dense, 4, 1e-7 * max(norm, 1))

    def test_finds_a_lower_end_that_the_bounds_miss(self):
        # Without the correction the filter grows the far lower end instead.
        values = np.r_[-3.0, -2.9, -2.8, np.linspace(-1, 1, 300), 1.3, 1.4, 1.5]
        A = sparse.csr_array(sparse.diags_array(values))
        good = spectral_bounds(A, random_state=0)
        bounds = SpectralBounds(-1.0, 1.5, *good[2:])
        result = chebyshev(A, 3, tol=1e-8, bounds=bounds, max_iter=20, random_state=0)
        assert result.converged
        np.testing.assert_allclose(result.values, [1.5, 1.4, 1.3], atol=1e-7)


@pytest.mark.parametrize(("n_cliques", "size"), [(60, 5), (200, 4)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multiplicity_beyond_the_block(graphs, check_pairs, n_cliques, size, dtype):
    W = graphs.many_cliques(n_cliques, size)
    for k in (1, 5, 12):
        M = NormalizedAffinity(W, dtype=dtype)
        tol, epsilon = (1e-10, 1e-12) if dtype == np.float64 else (1e-5, 1e-5)
        result = chebyshev(M, k, tol=tol, random_state=0)
        check_pairs(result, graphs.normalized(W), k, tol, epsilon=epsilon)
        np.testing.assert_allclose(result.values, 1, atol=1e-5)


@pytest.mark.parametrize("h", [2, 5])
def test_multiplicity_beyond_the_block_under_constraints(graphs, h):
    M = NormalizedAffinity(graphs.many_cliques(60, 5))
    Q = graphs.fairness_basis(M.degrees, graphs.random_groups(300, h))
    operator = Projected(M, Q, constrained_value=-1.0)
    result = chebyshev(operator, 6, tol=1e-10, orthogonal_to=Q, random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, 1, atol=1e-9)  # 60 - (h - 1) of them
    np.testing.assert_allclose(Q.T @ result.vectors, 0, atol=1e-14)


def test_not_finite_beyond_the_bounds(problem):
    # Bounds that are given: the iteration itself has to notice.
    bounds = spectral_bounds(problem[0], random_state=0)
    A = problem[1].copy()
    A[3, 3] = np.nan
    with pytest.raises(FloatingPointError, match="not finite"):
        chebyshev(A, 4, bounds=bounds, random_state=0)


def test_callback_sees_every_sweep(problem):
    calls = []
    result = chebyshev(
        problem[0],
        4,
        tol=1e-9,
        random_state=0,
        callback=lambda n, worst: calls.append((n, worst)),
    )
    assert len(calls) == result.n_iter
    assert calls[-1][0] == 4
    assert calls[-1][1] == pytest.approx(result.residual_norms.max())
    assert calls[0][1] > calls[-1][1]
    assert all(0 <= n <= 4 for n, _ in calls)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_for_any_number_of_threads(graphs, with_threads, dtype):
    W = graphs.nearest_neighbors(5000, 10)
    M = NormalizedAffinity(W, dtype=dtype)
    Q = graphs.fairness_basis(M.degrees, graphs.random_groups(5000, 4))

    def solve():
        operator = Projected(M, Q, constrained_value=-1.0)
        options = {"tol": 1e-4, "orthogonal_to": Q, "random_state": 0}
        return chebyshev(operator, 6, **options)

    one, two = with_threads(1, solve), with_threads(2, solve)
    assert one.converged
    assert np.array_equal(one.values, two.values)
    assert np.array_equal(one.vectors, two.vectors)
    assert one.n_columns == two.n_columns


def test_few_products_where_the_gap_is_wide(graphs):
    # A filter aimed well needs little more than one sweep beyond the first.
    W = graphs.block_model(600, n_blocks=6, inside=0.3, outside=0.01)
    result = chebyshev(NormalizedAffinity(W), 6, tol=1e-4, random_state=0)
    assert result.converged
    assert result.n_products <= 40


def test_small_gap_on_a_large_diagonal():
    # Relative gap 1e-5 behind the wanted values: slow, but correct.
    values = np.r_[1 + 1e-3 * np.arange(4), np.linspace(0, 1 - 1e-5, 3000)]
    A = sparse.csr_array(sparse.diags_array(values))
    result = chebyshev(A, 4, tol=1e-8, random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, np.sort(values)[::-1][:4], atol=2e-8)
