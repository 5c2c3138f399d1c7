"""What every eigen-solver owes: the right pairs, honest residuals and counts.

Matrices that are infinite somewhere, or too large, are refused in our words. Warnings
are errors in these tests, and whether a product with one infinite entry warns is up to
the processor: a row with both signs warns on each, and so does `Flagging`.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import scalefair.linalg
from scalefair.linalg import (
    chebyshev,
    dc_admm,
    dense_eigh,
    dual,
    lanczos,
    lobpcg,
    orthonormalize,
    spectral_bounds,
)
from scalefair.operators import NormalizedAffinity, Projected

from ..conftest import CountingOperator
from .conftest import check_pairs

# Number of groups, a group of one node, pairs, tolerance.
CONSTRAINTS = [
    (2, False, 5, 1e-4),
    (3, True, 2, 1e-9),
    (5, False, 2, 1e-9),
    (8, True, 5, 1e-4),
]


def dense(A, k, *, tol=None, random_state=None, **options):
    """dense_eigh with the arguments of the others."""
    return dense_eigh(A, k, **options)


SOLVERS = {
    "dense_eigh": dense,
    "lanczos": lanczos,
    "chebyshev": chebyshev,
    "lobpcg": lobpcg,
    "dual": dual,
}
of_all = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
of_precise = pytest.mark.parametrize("solver", [dense, lanczos, chebyshev, lobpcg])
# Those that iterate, and those of them that start from given vectors.
of_limited = pytest.mark.parametrize("solver", [chebyshev, lobpcg, dual, lanczos])
of_started = pytest.mark.parametrize("solver", [chebyshev, lobpcg, dual])


def tolerance(solver):
    """What is asked for; a first-order method is as fast as the gaps let it be."""
    return 1e-6 if solver is dual else 1e-9


def diagonal(values):
    """Operator of known eigenvalues that is diagonal, in mixed order."""
    values = np.random.default_rng(0).permutation(np.asarray(values, dtype=float))
    return sparse.csr_array(sparse.diags_array(values))


# Each has 200 eigenvalues or so: orders that chebyshev iterates.
SPECTRA = {
    "even": np.linspace(-1, 1, 200),
    "repeated": np.r_[np.ones(3), np.full(4, 0.9), np.linspace(-0.5, 0.5, 200)],
    "repeated more often than the block": np.r_[np.ones(30), np.linspace(0, 0.8, 200)],
    "clustered": np.r_[1 - 1e-7 * np.arange(6), np.linspace(-0.9, 0.9, 200)],
    "all negative": -np.linspace(1, 10, 200),
    "far below zero": np.linspace(-110, -90, 200),
    "large negative end": np.r_[-20 * np.linspace(1, 2, 20), np.linspace(0, 3, 180)],
    "one large": np.r_[1e4, np.linspace(0, 1, 200)],
    "mostly zero": np.r_[3.0, 2.0, np.zeros(200), -1.0],
    "all equal": np.full(200, -0.7),
    "tiny": 1e-100 * np.linspace(-1, 1, 200),
    "huge": 1e100 * np.linspace(-1, 1, 200),
    "zero": np.zeros(200),
    "negative of rank one": np.r_[-2.0, np.zeros(199)],
}


# Each solver on each graph; each solver, and each graph, with all constraints.
@of_all
def test_every_graph_under_constraints(solver, graph, graphs, request):
    i = list(SOLVERS.values()).index(solver)
    j = request.node.callspec.indices["graph"]
    n_groups, of_one, k, tol = CONSTRAINTS[(i + j) % len(CONSTRAINTS)]
    tol = max(tol, tolerance(solver))
    M = NormalizedAffinity(graph)
    groups = graphs.random_groups(M.shape[0], n_groups, smallest_of_one=of_one)
    Q = graphs.fairness_basis(M.degrees, groups)
    operator = Projected(M, Q, constrained_value=-1.0)
    result = solver(operator, k, tol=tol, orthogonal_to=Q, random_state=0)
    P = np.eye(M.shape[0]) - Q @ Q.T
    restricted = P @ graphs.normalized(graph) @ P - Q @ Q.T
    check_pairs(result, restricted, k, tol)
    np.testing.assert_allclose(Q.T @ result.vectors, 0, atol=1e-14)


@of_all
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_every_spectrum(solver, spectrum):
    A, tol = diagonal(SPECTRA[spectrum]), tolerance(solver)
    check_pairs(solver(A, 6, tol=tol, random_state=0), A.toarray(), 6, tol)


@of_precise
@pytest.mark.parametrize(
    ("n", "k"), [(1, 1), (2, 2), (20, 1), (20, 20), (120, 60), (120, 119)]
)
def test_any_k(solver, graphs, n, k):
    # Small orders are solved densely.
    A = {1: [[-3.5]], 2: [[0.0, 1.0], [1.0, 0.0]]}.get(n)  # entries of equal modulus
    A = np.array(A or graphs.normalized(graphs.nearest_neighbors(n, 4)))
    check_pairs(solver(A, k, tol=1e-9, random_state=0), A, k, 1e-9)


@of_precise
@pytest.mark.parametrize("wrap", [aslinearoperator, sparse.coo_array, np.int8])
def test_takes_any_operator(solver, graphs, wrap):
    A = wrap(graphs.cycle(90).toarray() + np.diag(np.arange(90)))
    matrix = np.asarray(aslinearoperator(A) @ np.eye(90))
    check_pairs(solver(A, 3, tol=1e-9, random_state=0), matrix, 3, 1e-9)


@of_precise
def test_float32(solver, graphs):
    for W in (graphs.nearest_neighbors(300), graphs.many_cliques(40, 5)):
        result = solver(NormalizedAffinity(W, dtype=np.float32), 6, tol=1e-4)
        check_pairs(result, graphs.normalized(W), 6, 1e-4, epsilon=1e-5)


@of_all
def test_counts_are_those_of_the_operator(solver, graphs, counting):
    matrix = graphs.normalized(graphs.nearest_neighbors(200))
    before, A = matrix.copy(), counting(matrix)
    result = solver(A, 4, tol=1e-6, random_state=0)
    assert result.n_products == A.n_products
    assert result.n_columns == A.n_columns
    assert result.n_iter >= 1
    assert np.array_equal(matrix, before)


@of_limited
def test_deterministic(solver, graphs, with_threads):
    M = NormalizedAffinity(graphs.nearest_neighbors(2100))
    state = np.random.get_state()[1].copy()  # noqa: NPY002

    def solve(seed=3):
        return solver(M, 4, tol=1e-2, random_state=seed)

    first = with_threads(1, solve)
    for other in (with_threads(2, solve), solve(), solve(np.random.RandomState(3))):
        assert np.array_equal(first.values, other.values)
        assert np.array_equal(first.vectors, other.vectors)
        assert np.array_equal(first.residual_norms, other.residual_norms)
    assert not np.array_equal(first.vectors, solve(4).vectors)
    solver(np.diag(np.arange(60.0)), 2)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.fixture(scope="module")
def problem(graphs):
    """Operator without negative eigenvalues, matrix, eigenvectors, largest first."""
    W = graphs.block_model(300)
    A = graphs.normalized(W) + 1.5 * np.eye(300)
    return NormalizedAffinity(W, shift=1.5), A, np.linalg.eigh(A)[1][:, ::-1]


class TestStart:
    @of_started
    def test_a_good_one_saves_products(self, solver, problem):
        M, _, vectors = problem
        cold = solver(M, 4, tol=1e-6, random_state=0)
        warm = solver(M, 4, tol=1e-6, X0=vectors[:, :14], random_state=0)
        assert warm.converged
        assert warm.n_columns < 0.7 * cold.n_columns

    @pytest.mark.parametrize(("solver", "p"), [(chebyshev, 4), (lobpcg, 9)])
    def test_exact_vectors_need_no_iteration(self, solver, problem, p):
        M, A, vectors = problem
        result = solver(M, 4, tol=1e-10, X0=vectors[:, :p], random_state=0)
        check_pairs(result, A, 4, 1e-10)
        assert result.n_iter == 0
        assert result.n_products == 1 + 12 * (solver is chebyshev)  # with the bounds

    @pytest.mark.parametrize("solver", [chebyshev, dual])
    def test_given_bounds_save_their_products(self, solver, problem, counting):
        A = counting(problem[0])
        bounds = spectral_bounds(problem[0], random_state=0)
        result = solver(A, 4, tol=1e-6, bounds=bounds, random_state=0)
        assert result.converged
        # As documented, products spent on the bounds belong to the count.
        assert result.n_products == A.n_products + len(bounds.nodes)

    @of_started
    @pytest.mark.parametrize(
        "X0",
        [
            np.ones((300, 0)),
            np.ones((300, 5)),
            np.zeros((300, 30)),
            np.asfortranarray(np.arange(600).reshape(300, 2)),
        ],
        ids=["no columns", "equal columns", "zero", "Fortran, integers"],
    )
    def test_a_bad_one_does_no_harm(self, solver, problem, X0):
        before = X0.copy()
        result = solver(problem[0], 4, tol=1e-6, X0=X0, random_state=0)
        check_pairs(result, problem[1], 4, 1e-6)
        assert np.array_equal(X0, before)

    @of_started
    @pytest.mark.parametrize(
        "X0", [np.ones(300), np.ones((299, 2)), np.full((300, 1), np.nan)]
    )
    def test_refuses_what_does_not_fit(self, solver, problem, X0):
        with pytest.raises(ValueError, match="X0"):
            solver(problem[0], 4, X0=X0)
        with pytest.raises(TypeError, match="X0 must be real"):
            solver(problem[0], 4, X0=1j * np.ones((300, 1)))


class TestLimits:
    @of_limited
    def test_honest_when_it_runs_out(self, solver, graphs):
        M = NormalizedAffinity(graphs.path(500))
        result = solver(M, 5, tol=1e-12, random_state=0, max_iter=1)
        assert not result.converged
        assert "raise max_iter" in result.message
        assert "max_iter = 1" in result.message
        assert result.n_iter == 1
        gram = result.vectors.T @ result.vectors
        np.testing.assert_allclose(gram, np.eye(5), atol=1e-12)
        residuals = M @ result.vectors - result.vectors * result.values
        np.testing.assert_allclose(
            result.residual_norms, np.linalg.norm(residuals, axis=0), rtol=1e-6
        )

    @of_limited
    def test_says_what_it_cannot_reach(self, solver, problem):
        result = solver(problem[0], 4, tol=1e-20, random_state=0)
        assert not result.converged
        assert "raise" in result.message
        assert result.n_iter < 1000  # gives up, does not grind on
        assert result.residual_norms.max() < 1e-7

    @pytest.mark.parametrize("solver", [chebyshev, lanczos])
    def test_float32_says_what_it_cannot_reach(self, solver, graphs):
        for W in (graphs.block_model(300), graphs.path(60)):
            M = NormalizedAffinity(W, dtype=np.float32)
            result = solver(M, 4, tol=1e-11, random_state=0)
            assert not result.converged
            assert "raise tol" in result.message
            assert result.residual_norms.max() < 1e-5
            assert result.n_products < 2000
        assert ("float64" in result.message) == (solver is chebyshev)

    @pytest.mark.parametrize("solver", [chebyshev, lobpcg])
    @pytest.mark.parametrize("n_buffer", [0, 20])
    def test_any_buffer_converges(self, solver, problem, n_buffer):
        result = solver(problem[0], 4, tol=1e-7, n_buffer=n_buffer, random_state=0)
        check_pairs(result, problem[1], 4, 1.1e-7)

    @pytest.mark.parametrize(
        ("solver", "name", "minimum"),
        [
            (chebyshev, "max_iter", 1),
            (chebyshev, "max_degree", 1),
            (chebyshev, "n_buffer", 0),
            (lanczos, "max_iter", 1),
            (lobpcg, "max_iter", 0),
            (dual, "max_iter", 0),
        ],
    )
    @pytest.mark.parametrize("below", [-1, 0.5])
    def test_refuses_limits(self, solver, name, minimum, below):
        message = f"{name} must be an integer >= {minimum}"
        with pytest.raises(ValueError, match=message):
            solver(np.eye(60), 4, **{name: minimum + below})

    @pytest.mark.parametrize("solver", [chebyshev, lobpcg, dual])
    def test_callback_sees_every_iteration(self, solver, problem):
        calls = []
        options = {"tol": 1e-6, "callback": lambda *call: calls.append(call)}
        result = solver(problem[0], 4, random_state=0, **options)
        assert len(calls) == result.n_iter + (solver is lobpcg)
        assert calls[-1][0] == 4
        assert calls[-1][1] == pytest.approx(result.residual_norms.max(), rel=1e-3)
        assert calls[0][1] > calls[-1][1]
        assert all(0 <= n <= 4 for n, _ in calls)


class TestBadInput:
    @of_all
    @pytest.mark.parametrize("k", [0, -1, 21])
    def test_k_that_does_not_fit(self, solver, k):
        with pytest.raises(ValueError, match="between 1 and the order 20"):
            solver(np.eye(20), k)
        with pytest.raises(TypeError, match=r"integer, got 2\.0"):
            solver(np.eye(20), 2.0)

    @of_all
    def test_not_square_or_complex(self, solver):
        with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
            solver(np.ones((3, 4)), 1)
        with pytest.raises(TypeError, match="real"):
            solver(1j * np.eye(20), 2)

    @of_all
    @pytest.mark.parametrize(
        ("Q", "message"),
        [
            (np.ones(60), "orthogonal_to"),
            (np.ones((59, 2)), "orthogonal_to"),
            (np.full((60, 1), np.nan), "orthogonal_to"),
            (np.ones((60, 1)), r"orthogonal_to are not orthonormal.*qr"),
            (np.full((60, 1), 1e160), r"orthogonal_to are not orthonormal.*qr"),
            (np.eye(60)[:, :57], r"4 vectors of order 60.*57 others"),
        ],
    )
    def test_basis_to_avoid(self, solver, Q, message):
        with pytest.raises(ValueError, match=message):
            solver(np.eye(60), 4, orthogonal_to=Q)


@of_precise
@pytest.mark.parametrize("r", [30, 57])
def test_basis_to_avoid_that_leaves_little_room(solver, r):
    # The other eigenvalues are above all that is avoided.
    A = np.diag(np.arange(60.0))
    result = solver(A, 3, tol=1e-9, orthogonal_to=np.eye(60)[:, :r], random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, [59, 58, 57], atol=1e-6)
    np.testing.assert_allclose(result.vectors[:r], 0, atol=1e-14)


@of_precise
def test_basis_to_avoid_of_an_equal_eigenvalue(solver):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 5)))[0]
    result = solver(np.zeros((60, 60)), 3, orthogonal_to=Q, random_state=0)
    H = result.vectors
    np.testing.assert_allclose(H.T @ np.column_stack([H, Q]), np.eye(3, 8), atol=1e-12)


def block(n, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, 2)))[0]


# What each public function does with a matrix.
OF_A_MATRIX = {
    **{
        s: lambda A, s=s: s(A, 2, random_state=0)
        for s in (lobpcg, lanczos, chebyshev, dual)
    },
    dense_eigh: lambda A: dense_eigh(A, 2),
    spectral_bounds: lambda A: spectral_bounds(A, random_state=0),
    dc_admm: lambda A: dc_admm(A, 2, block(A.shape[0]), random_state=0),
}
of_a_matrix = pytest.mark.parametrize("solver", OF_A_MATRIX, ids=lambda s: s.__name__)
of_any_size = pytest.mark.parametrize("n", [8, 150], ids=["dense", "iterated"])


def matrix(n, entry):
    """Positive definite but for an entry, or one of each sign in a row."""
    A = np.random.default_rng(0).standard_normal((n, n))
    A = A @ A.T / n + np.eye(n)
    signs = [1, -1] if entry == "both" else [1]
    for j, sign in zip([2, 4], signs, strict=False):
        A[3, j] = A[j, 3] = sign * (np.inf if entry == "both" else entry)
    return A


class Flagging(CountingOperator):
    """Sets the flags in each product, as BLAS does on some processors."""

    def _matmat(self, X):
        np.subtract(np.inf, [np.inf])
        return super()._matmat(X)


def test_every_function_is_tried():
    public = {getattr(scalefair.linalg, name) for name in scalefair.linalg.__all__}
    functions = {f for f in public if not isinstance(f, type)}
    assert functions == {*OF_A_MATRIX, orthonormalize}


@of_a_matrix
@of_any_size
@pytest.mark.parametrize(
    ("entry", "wrap"),
    [(np.nan, np.float64), (-np.inf, sparse.csr_array), ("both", Flagging)],
)
def test_entries_that_are_not_finite(solver, n, entry, wrap):
    with pytest.raises(FloatingPointError, match=r"product with the operator .*finite"):
        OF_A_MATRIX[solver](wrap(matrix(n, entry)))


@of_a_matrix
@of_any_size
@pytest.mark.parametrize("factor", [1e-160, 1e307])
def test_squares_out_of_range_are_no_residuals_of_zero(solver, n, factor):
    if solver is dc_admm and factor < 1:
        return  # next to nothing is zero to it
    with pytest.raises((ValueError, FloatingPointError), match=r"Scale the op|too la"):
        OF_A_MATRIX[solver](factor * matrix(n, 1.0))


def test_preconditioner():
    A = matrix(150, 1.0)
    with pytest.raises(FloatingPointError, match=r"product with the .*preconditioner"):
        lobpcg(A, 2, preconditioner=matrix(150, "both"), random_state=0)
    with pytest.raises(ValueError, match=r"\(150, 150\).*\(5, 5\)"):
        lobpcg(A, 2, preconditioner=np.eye(5))
