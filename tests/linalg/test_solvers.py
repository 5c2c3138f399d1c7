"""What every eigen-solver owes: the right pairs, honest residuals and counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from threadpoolctl import ThreadpoolController, threadpool_limits

from scalefair.linalg import (
    block_krylov,
    chebyshev,
    dense_eigh,
    dual,
    lanczos,
    lobpcg,
)
from scalefair.operators import NormalizedAffinity, Projected

TOL = 1e-9
# Number of groups, a group of one node, pairs, tolerance.
CONSTRAINTS = [
    (2, False, 5, 1e-4),
    (3, True, 2, TOL),
    (5, False, 2, TOL),
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
}


@pytest.fixture(params=list(SOLVERS))
def solver(request):
    return SOLVERS[request.param]


@pytest.fixture(params=["lanczos", "chebyshev", "lobpcg"])
def iterative(request):
    return SOLVERS[request.param]


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
    "large negative end": np.r_[-20 * np.linspace(1, 2, 20), np.linspace(0, 3, 180)],
    "one large": np.r_[1e4, np.linspace(0, 1, 200)],
    "decaying": 0.8 ** np.arange(200),
    "mostly zero": np.r_[3.0, 2.0, np.zeros(200), -1.0],
    "all equal": np.full(200, -0.7),
    "zero": np.zeros(200),
    "rank one": np.r_[2.0, np.zeros(199)],
    "negative of rank one": np.r_[-2.0, np.zeros(199)],
}


@pytest.mark.parametrize("k", [1, 8])
def test_every_graph(solver, graph, graphs, check_pairs, k):
    result = solver(NormalizedAffinity(graph), k, tol=TOL, random_state=0)
    check_pairs(result, graphs.normalized(graph), k, TOL)


@pytest.mark.parametrize("k", [2, 5])
def test_every_number_of_pairs(solver, graphs, check_pairs, k):
    for W in (graphs.cycle(121), graphs.nearest_neighbors(200)):
        result = solver(NormalizedAffinity(W), k, tol=TOL, random_state=0)
        check_pairs(result, graphs.normalized(W), k, TOL)


# Each solver on each graph; each solver, and each graph, with all constraints.
def test_every_graph_under_constraints(request, solver, graph, graphs, check_pairs):
    i = list(SOLVERS).index(request.node.callspec.params["solver"])
    j = request.node.callspec.indices["graph"]
    n_groups, of_one, k, tol = CONSTRAINTS[(i + j) % len(CONSTRAINTS)]
    M = NormalizedAffinity(graph)
    groups = graphs.random_groups(M.shape[0], n_groups, smallest_of_one=of_one)
    Q = graphs.fairness_basis(M.degrees, groups)
    operator = Projected(M, Q, constrained_value=-1.0)
    result = solver(operator, k, tol=tol, orthogonal_to=Q, random_state=0)
    P = np.eye(M.shape[0]) - Q @ Q.T
    restricted = P @ graphs.normalized(graph) @ P - Q @ Q.T
    check_pairs(result, restricted, k, tol)
    np.testing.assert_allclose(Q.T @ result.vectors, 0, atol=1e-14)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("k", [1, 6])
def test_every_spectrum(solver, spectrum, check_pairs, k):
    A = diagonal(SPECTRA[spectrum])
    check_pairs(solver(A, k, tol=TOL, random_state=0), A.toarray(), k, TOL)


@pytest.mark.parametrize("factor", [1e-8, 1e8])
@pytest.mark.parametrize("spectrum", ["repeated", "all negative", "all equal", "even"])
def test_tolerance_is_relative_to_the_norm(iterative, spectrum, check_pairs, factor):
    A = factor * diagonal(SPECTRA[spectrum])
    check_pairs(iterative(A, 4, tol=TOL, random_state=0), A.toarray(), 4, TOL)


@pytest.mark.parametrize("name", ["lanczos", "chebyshev", "lobpcg", "dual", "krylov"])
@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e160, 1e200])
def test_squares_out_of_range_are_no_residuals_of_zero(name, factor):
    solve = {"dual": dual, "krylov": block_krylov}.get(name) or SOLVERS[name]
    with pytest.raises(ValueError, match=r"norm of about .*Scale the operator"):
        solve(factor * diagonal(SPECTRA["even"]), 4, tol=TOL, random_state=0)


def test_known_eigenvalues(solver, graphs):
    for W, expected in [
        (graphs.path(150), graphs.path_eigenvalues(150)),
        (graphs.cycle(150), graphs.cycle_eigenvalues(150)),
        (graphs.star(150), np.r_[1, np.zeros(148), -1]),
        (graphs.complete(80), np.r_[1, np.full(79, -1 / 79)]),
        (graphs.many_cliques(30, 6), np.r_[np.ones(30), np.full(150, -0.2)]),
    ]:
        values = solver(NormalizedAffinity(W), 7, tol=TOL, random_state=0).values
        np.testing.assert_allclose(values, expected[:7], rtol=0, atol=1e-8)


def test_agree_pairwise(graph, graphs):
    M = NormalizedAffinity(graph)
    reference = np.linalg.eigvalsh(graphs.normalized(graph))[::-1]
    results = [f(M, 6, tol=1e-11, random_state=0) for f in SOLVERS.values()]
    for a in results:
        for b in results:
            np.testing.assert_allclose(a.values, b.values, rtol=0, atol=1e-11)
            if reference[5] - reference[6] > 1e-4:
                assert subspace_angles(a.vectors, b.vectors).max() < 1e-6


@pytest.mark.parametrize("k", [1, 3, 17, 18, 19, 20])
def test_any_k_on_a_small_matrix(solver, graphs, check_pairs, k):
    A = graphs.normalized(graphs.nearest_neighbors(20, 4))
    check_pairs(solver(A, k, tol=TOL, random_state=0), A, k, TOL)


@pytest.mark.parametrize("k", [20, 60, 110, 119, 120])
def test_large_k(solver, graphs, check_pairs, k):
    A = graphs.normalized(graphs.nearest_neighbors(120))
    check_pairs(solver(A, k, tol=TOL, random_state=0), A, k, TOL)


def test_order_one(solver):
    result = solver(np.array([[-3.5]]), 1)
    assert result.values == pytest.approx([-3.5])
    assert result.vectors == pytest.approx(np.ones((1, 1)))


@pytest.mark.parametrize(
    "wrap",
    [
        np.asarray,
        aslinearoperator,
        sparse.csr_array,
        sparse.csc_array,
        sparse.coo_array,
        sparse.csr_matrix,
        NormalizedAffinity,
    ],
)
def test_takes_any_operator(solver, graphs, check_pairs, wrap):
    A = wrap(graphs.cycle(90).toarray() + np.diag(np.linspace(0, 1, 90)))
    check_pairs(
        solver(A, 3, tol=TOL, random_state=0),
        np.asarray(aslinearoperator(A) @ np.eye(90)),
        3,
        TOL,
    )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.int64])
def test_takes_integers(solver, graphs, check_pairs, dtype):
    A = graphs.block_model(100)
    result = solver(A.astype(dtype), 3, tol=TOL, random_state=0)
    check_pairs(result, A.toarray(), 3, TOL)
    small = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    for seed in range(20):  # a start of small integers could vanish
        result = solver(small.astype(dtype), 2, tol=TOL, random_state=seed)
        check_pairs(result, small.astype(float), 2, TOL)


@pytest.mark.parametrize("k", [1, 6])
def test_float32(solver, graph, graphs, check_pairs, k):
    result = solver(
        NormalizedAffinity(graph, dtype=np.float32), k, tol=1e-4, random_state=0
    )
    check_pairs(result, graphs.normalized(graph), k, 1e-4, epsilon=1e-5)


def test_counts_are_those_of_the_operator(solver, graphs, counting):
    A = counting(graphs.normalized(graphs.nearest_neighbors(200)))
    result = solver(A, 4, tol=1e-6, random_state=0)
    assert result.n_products == A.n_products
    assert result.n_columns == A.n_columns
    assert result.n_iter >= 1


def test_input_is_not_modified(solver, graphs):
    A = graphs.normalized(graphs.nearest_neighbors(100))
    before = A.copy()
    solver(A, 3, tol=1e-6, random_state=0)
    assert np.array_equal(A, before)


@pytest.mark.parametrize("random_state", [0, 7, np.random.RandomState])
def test_deterministic(iterative, graphs, random_state):
    M = NormalizedAffinity(graphs.nearest_neighbors(250))

    def solve():
        state = random_state if isinstance(random_state, int) else random_state(3)
        return iterative(M, 4, tol=1e-6, random_state=state)

    first, second = solve(), solve()
    assert np.array_equal(first.values, second.values)
    assert np.array_equal(first.vectors, second.vectors)
    assert np.array_equal(first.residual_norms, second.residual_norms)


def test_another_seed_is_another_start(iterative, graphs):
    M = NormalizedAffinity(graphs.nearest_neighbors(250))
    first, second = (iterative(M, 4, tol=1e-4, random_state=s) for s in (0, 1))
    assert not np.array_equal(first.vectors, second.vectors)


def test_global_random_state_is_left_alone(iterative, graphs):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    iterative(graphs.normalized(graphs.cycle(100)), 3)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@settings(deadline=None, max_examples=6)
@given(
    factor=st.floats(1e-6, 1e6),
    shift=st.floats(-3, 3),
    seed=st.integers(0, 100),
)
def test_scaling_and_shift(graphs, factor, shift, seed):
    A = graphs.normalized(graphs.nearest_neighbors(60, seed=seed))
    expected = np.linalg.eigvalsh(A)[::-1][:3]
    for solve in SOLVERS.values():
        values = solve(factor * A, 3, tol=TOL, random_state=seed).values
        np.testing.assert_allclose(values, factor * expected, atol=2e-9 * factor)
        values = solve(A + shift * np.eye(60), 3, tol=TOL, random_state=seed).values
        np.testing.assert_allclose(values, shift + expected, atol=1e-8)


@settings(deadline=None, max_examples=5)
@given(seed=st.integers(0, 1000))
def test_permuted_nodes_permute_the_subspace(graphs, seed):
    A = graphs.normalized(graphs.block_model(80, n_blocks=3, seed=seed % 7))
    order = np.random.default_rng(seed).permutation(80)
    for solve in SOLVERS.values():
        plain = solve(A, 3, tol=TOL, random_state=0)
        permuted = solve(A[np.ix_(order, order)], 3, tol=TOL, random_state=seed)
        np.testing.assert_allclose(permuted.values, plain.values, atol=1e-8)
        angles = subspace_angles(permuted.vectors, plain.vectors[order])
        assert angles.max() < 1e-6


@settings(deadline=None, max_examples=15)
@given(
    values=st.lists(st.integers(-20, 20), min_size=40, max_size=60),
    k=st.integers(1, 6),
)
def test_integer_spectra(check_pairs, values, k):
    # Many repeated values at both ends.
    A = np.diag(np.array(values, dtype=float))
    for solve in SOLVERS.values():
        check_pairs(solve(A, k, tol=TOL, random_state=0), A, k, TOL)


class TestBadInput:
    @pytest.mark.parametrize("k", [0, -1, 21])
    def test_k_that_does_not_fit(self, solver, k):
        with pytest.raises(ValueError, match="between 1 and the order 20"):
            solver(np.eye(20), k)

    def test_k_that_is_no_integer(self, solver):
        with pytest.raises(TypeError, match=r"integer, got 2\.0"):
            solver(np.eye(20), 2.0)

    def test_not_square(self, solver):
        with pytest.raises(ValueError, match=r"square.*\(3, 4\)"):
            solver(np.ones((3, 4)), 1)

    def test_complex(self, solver):
        with pytest.raises(TypeError, match="real"):
            solver(1j * np.eye(20), 2)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("n", [5, 100])
    def test_not_finite(self, solver, bad, n):
        values = np.arange(float(n))
        values[2] = bad
        A = sparse.csr_array(sparse.diags_array(values))
        with pytest.raises(FloatingPointError, match="not finite"):
            solver(A, 2, random_state=0)

    @pytest.mark.parametrize(
        "Q", [np.ones(60), np.ones((59, 2)), np.full((60, 1), np.nan)]
    )
    def test_basis_to_avoid_that_does_not_fit(self, solver, Q):
        with pytest.raises(ValueError, match="orthogonal_to"):
            solver(np.eye(60), 2, orthogonal_to=Q)

    @pytest.mark.parametrize("n", [6, 60])
    def test_basis_to_avoid_that_is_not_orthonormal(self, solver, n):
        with pytest.raises(ValueError, match=r"orthogonal_to are not orthonormal.*qr"):
            solver(np.eye(n), 2, orthogonal_to=np.ones((n, 1)))

    def test_basis_to_avoid_in_single_precision(self, solver):
        Q = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 2)))[0]
        A = np.eye(60) - Q @ Q.T + np.diag(np.linspace(0, 1e-3, 60))
        result = solver(
            A, 2, tol=1e-2, orthogonal_to=Q.astype(np.float32), random_state=0
        )
        np.testing.assert_allclose(Q.T @ result.vectors, 0, atol=1e-6)

    def test_basis_to_avoid_that_leaves_no_room(self, solver):
        with pytest.raises(ValueError, match=r"4 vectors of order 60.*57 others"):
            solver(np.eye(60), 4, orthogonal_to=np.eye(60)[:, :57])


@pytest.mark.parametrize("r", [30, 52, 57])
def test_basis_to_avoid_that_leaves_little_room(solver, r):
    # The other eigenvalues are above all that is avoided.
    A = np.diag(np.arange(60.0))
    result = solver(A, 3, tol=TOL, orthogonal_to=np.eye(60)[:, :r], random_state=0)
    assert result.converged
    np.testing.assert_allclose(result.values, [59, 58, 57], atol=1e-6)
    np.testing.assert_allclose(result.vectors[:r], 0, atol=1e-14)


@pytest.mark.parametrize("solve", [dual, *SOLVERS.values()])
def test_blas_is_held_to_one_thread(graphs, solve):
    # Its threads spin when they have done, and the next kernel waits for the processor.
    W = graphs.block_model(240)
    blas = ThreadpoolController().select(user_api="blas")
    seen = set()

    class Watching(LinearOperator):
        def _matmat(self, X):
            seen.update(library["num_threads"] for library in blas.info())
            return M @ X

        def _matvec(self, x):
            return self._matmat(x.reshape(-1, 1)).ravel()

    M = NormalizedAffinity(W)
    with threadpool_limits(2, user_api="blas"):
        solve(Watching(M.dtype, M.shape), 3, tol=1e-3, random_state=0)
    assert seen == {1}
