"""Matrices that are infinite somewhere, or too large: the error is ours, everywhere.

Warnings are errors in these tests. Whether a product with one infinite entry warns is
up to the processor (BLAS for AVX-512 does); a row with both signs warns on each, and
so does `Flagging`.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg
from scalefair.linalg import (
    block_cg,
    block_krylov,
    chebyshev,
    dc_admm,
    dense_eigh,
    dual,
    lanczos,
    lobpcg,
    orthonormalize,
    spectral_bounds,
)

ERRORS = ValueError, FloatingPointError


def block(n, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, 2)))[0]


# What each does with a matrix.
SOLVERS = {
    dense_eigh: lambda A: dense_eigh(A, 2),
    block_krylov: lambda A: block_krylov(A, 2, random_state=0),
    lobpcg: lambda A: lobpcg(A, 2, random_state=0),
    lanczos: lambda A: lanczos(A, 2, random_state=0),
    chebyshev: lambda A: chebyshev(A, 2, random_state=0),
    dual: lambda A: dual(A, 2, random_state=0),
    spectral_bounds: lambda A: spectral_bounds(A, random_state=0),
    block_cg: lambda A: block_cg(A, block(A.shape[0]), random_state=0),
    dc_admm: lambda A: dc_admm(A, 2, block(A.shape[0]), random_state=0),
    orthonormalize: None,  # takes none
}
EIGENSOLVERS = [dense_eigh, block_krylov, lobpcg, lanczos, chebyshev, dual]


def matrix(n, entry):
    """Positive definite but for an entry, or one of each sign in a row."""
    A = np.random.default_rng(0).standard_normal((n, n))
    A = A @ A.T / n + np.eye(n)
    signs = [1, -1] if entry == "both" else [1]
    for j, sign in zip([2, 4], signs, strict=False):
        A[3, j] = A[j, 3] = sign * (np.inf if entry == "both" else entry)
    return A


class Flagging(LinearOperator):
    """Sets the flags in each product, as BLAS does on some processors."""

    def __init__(self, A):
        self.A = A
        super().__init__(A.dtype, A.shape)

    def _matmat(self, X):
        np.subtract(np.inf, [np.inf])
        return self.A @ X

    def _matvec(self, x):
        return self._matmat(x.reshape(-1, 1)).ravel()

    def _adjoint(self):
        return self


def test_every_solver_is_tried():
    public = {getattr(scalefair.linalg, name) for name in scalefair.linalg.__all__}
    assert {f for f in public if not isinstance(f, type)} == set(SOLVERS)


@pytest.fixture(params=[s for s in SOLVERS if SOLVERS[s]], ids=lambda s: s.__name__)
def solve(request):
    return SOLVERS[request.param]


@pytest.fixture(params=[12, 150], ids=["dense", "iterated"])
def n(request):
    return request.param


@pytest.mark.parametrize("entry", [np.inf, -np.inf, np.nan, "both"])
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, sparse.csr_array, Flagging])
def test_entries_that_are_not_finite(solve, n, entry, wrap):
    with pytest.raises(FloatingPointError, match=r"product with the operator .*finite"):
        solve(wrap(matrix(n, entry)))


def test_flags_alone_do_no_harm(solve, n):
    solve(Flagging(matrix(n, 1.0)))


@pytest.mark.parametrize("factor", [1e160, 1e300, 1e307])
def test_too_large(solve, n, factor):
    A = factor * matrix(n, 1.0)
    if solve is SOLVERS[block_cg]:  # any scale will do
        result = solve(A)
        assert result.converged
        np.testing.assert_allclose(
            (A / factor) @ (result.X * factor), block(n), atol=1e-4
        )
        return
    with pytest.raises(ERRORS, match=r"norm of about .*Scale the op|too large"):
        solve(A)


@pytest.mark.parametrize("solver", EIGENSOLVERS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("entry", [np.inf, np.nan, 1e160, 1e308])
def test_basis_to_avoid(solver, n, entry):
    if solver is block_krylov:
        pytest.skip("takes no basis to avoid")
    Q = block(n)
    Q[3] = entry
    with pytest.raises(ValueError, match=r"orthogonal_to (has entr|are not orthonorm)"):
        solver(matrix(n, 1.0), 2, orthogonal_to=Q)


@pytest.mark.parametrize("entry", [np.inf, -np.inf, np.nan, "both"])
@pytest.mark.parametrize("solver", [lobpcg, block_cg], ids=lambda s: s.__name__)
def test_preconditioner(solver, entry):
    A, B = matrix(150, 1.0), block(150)
    arguments = (2,) if solver is lobpcg else (B,)
    with pytest.raises(FloatingPointError, match=r"product with the .*preconditioner"):
        solver(A, *arguments, preconditioner=matrix(150, entry), random_state=0)


@pytest.mark.parametrize("entry", [np.inf, -np.inf, np.nan])
def test_orthonormalize(entry):
    X = np.ones((3000, 20))  # more than one chunk of rows: their sums meet
    X[3] = entry
    X[2500] = -entry
    with pytest.raises(FloatingPointError, match="not finite"):
        orthonormalize(X, rng=np.random.RandomState(0))


@pytest.mark.parametrize("entry", [np.inf, np.nan, 1e160, 1e308])
def test_constraints(entry):
    F = block(20)
    F[3] = entry
    with pytest.raises(ValueError, match=r"F has .*(not finite|norm of about)"):
        dc_admm(matrix(20, 1.0), 2, F)


def test_solution_too_large():
    B = np.full((3, 1), 1e300)
    with pytest.raises(FloatingPointError, match=r"too large .*scale the right-hand"):
        block_cg(1e-20 * np.eye(3), B)
