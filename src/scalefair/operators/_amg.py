"""Algebraic multigrid: an approximate inverse that is applied to blocks."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from scalefair._docs import documented
from scalefair._rounding import ROUNDING
from scalefair.kernels import csr_matmat, single_blas_thread
from scalefair.operators._base import (
    TEXTS,
    Array,
    Block,
    SymmetricBlockOperator,
    check_stored,
    put_product,
)

# Matrices up to this order are not coarsened, but inverted densely, in 0.1 s; and up to
# twice this order where the coarsening stops by itself.
MAX_COARSE_SIZE = 500
# Entries are strong from this fraction of the largest entry of either row on.
STRENGTH_THRESHOLD = 0.1
# Prolongation is smoothed up to this ratio of the entries of the coarse matrix to those
# of the fine one: beyond meshes the coarse matrices would fill up.
MAX_FILL = 2.0
# The same for the entries of the smoothed prolongation.
MAX_PROLONGATION_FILL = 5.0

Matrix: TypeAlias = sparse.csr_array | np.ndarray


@documented(**TEXTS)
class AMGPreconditioner(SymmetricBlockOperator):
    r"""Approximate inverse of a graph Laplacian by one multigrid V-cycle.

    Symmetric positive definite, also for a singular matrix. With damped Jacobi
    smoothing :math:`\omega D^{-1}` before and after the coarse correction, a level acts
    as

    .. math:: T = 2 \omega D^{-1} - \omega^2 D^{-1} A D^{-1}
              + \bar P\, T_c\, \bar P^T, \qquad \bar P = (I - \omega D^{-1} A) P,

    three sparse products on blocks. Prolongation is smoothed aggregation where that
    keeps the coarse matrix sparse, plain elsewhere. Nothing is random.

    Parameters
    ----------
    A : sparse matrix or array of shape (n, n)
        Symmetric positive semidefinite with mostly negative off-diagonal entries,
        such as a graph Laplacian.
    candidate : array-like of shape (n,) or None, default=None
        Positive vector that `A` maps to about zero: the constant for ``D - W``,
        :math:`D^{1/2} 1` for the normalised Laplacian. None is the constant.
    %(dtype)s
        The set-up is in float64.

    Attributes
    ----------
    level_sizes : list of int
        Orders of the levels, the finest first.
    operator_complexity : float
        Entries that a cycle reads, relative to those of `A`.

    Raises
    ------
    ValueError
        If `A` is empty, not square or not finite, inverses of its entries are out of
        the range of `dtype`, or `candidate` is not a positive vector of n entries.
    %(type_error)s

    References
    ----------
    Vanek, Mandel, Brezina (1996), "Algebraic multigrid by smoothed aggregation for
    second and fourth order elliptic problems", Computing 56, 179-196.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.operators import AMGPreconditioner
    >>> ones = np.ones(1999)
    >>> path = sparse.diags_array([-ones, -ones], offsets=[-1, 1])
    >>> A = sparse.csr_array(path - sparse.diags_array(path.sum(axis=1)))
    >>> T = AMGPreconditioner(A)
    >>> T.level_sizes
    [2000, 667, 223]
    """

    def __init__(
        self, A: Any, *, candidate: Any = None, dtype: Any = np.float64
    ) -> None:
        from pyamg.aggregation import fit_candidates

        A = _as_matrix(A)
        n = A.shape[0]
        super().__init__(dtype, n)
        b = _as_candidate(candidate, n)
        n_entries, n_cycle_entries = max(A.nnz, 1), 0
        unit = float(np.abs(A.diagonal()).max()) or 1.0
        info = np.finfo(self.dtype)
        if not float(info.tiny) < 1 / unit < float(info.max):
            raise ValueError(
                f"The entries of the matrix are of the size {unit:.1e}: their inverses "
                f"are out of the range of {self.dtype}. Scale the matrix."
            )
        # S, P and P.T of each level, whose cycle is S + P T_c P.T.
        self.levels: list[tuple[sparse.csr_array, ...]] = []
        self.level_sizes = [n]
        while A.shape[0] > MAX_COARSE_SIZE:
            # Step 1: aggregates, and a prolongator P.
            inverse_diagonal, omega = _jacobi(A, b, unit)
            aggregates = _aggregates(A, inverse_diagonal)
            if aggregates.nnz == 0:  # no strong entry
                break
            # Columns of T are orthonormal, and b = T R where nodes are in an aggregate.
            T, R = fit_candidates(aggregates, b[:, None])
            jacobi = omega * inverse_diagonal
            P = _prolongator(A, sparse.csr_array(T), jacobi)
            # Step 2: the additive form of the cycle, with (I - omega D^{-1} A) P.
            S = _smoother(A, jacobi, self.dtype)
            smoothed = P - sparse.diags_array(jacobi) @ (A @ P)
            smoothed = sparse.csr_array(smoothed, dtype=self.dtype)
            self.levels.append((S, smoothed, sparse.csr_array(smoothed.T)))
            n_cycle_entries += S.nnz + 2 * smoothed.nnz
            # Step 3: the Galerkin product is the matrix of the next level.
            A, b = sparse.csr_array(P.T @ (A @ P)), R[:, 0]
            self.level_sizes.append(A.shape[0])
        self.coarsest = _invert(A, b, unit, self.dtype)
        n_cycle_entries += self.coarsest.size  # of a sparse one those that are stored
        self.operator_complexity = n_cycle_entries / n_entries

    def _apply(
        self,
        X: Block,
        out: Block,
        alpha: float,
        shift: float,
        beta: float,
        depth: int = 0,
    ) -> None:
        if depth == len(self.levels):
            _apply_matrix(self.coarsest, X, out, alpha, shift, beta)
            return
        S, P, R = self.levels[depth]
        # out <- alpha (S - shift I) X + beta out + alpha P T P.T X
        _apply_matrix(S, X, out, alpha, shift, beta)
        coarse = np.empty((R.shape[0], X.shape[1]), self.dtype)
        _apply_matrix(R, X, coarse, 1.0, 0.0, 0.0)
        correction = np.empty_like(coarse)
        self._apply(coarse, correction, 1.0, 0.0, 0.0, depth + 1)
        _apply_matrix(P, correction, out, alpha, 0.0, 1.0)


def coarse_degree(A: Any) -> float:
    """Average number of aggregates that an aggregate of neighbouring nodes touches.

    Aggregates are those of `AMGPreconditioner`. About 2 on lines and trees, 5 to 6 in
    the plane, 11 to 14 in space, far more on social networks.

    Parameters
    ----------
    A : sparse matrix or array of shape (n, n)
        Symmetric: an affinity or a Laplacian.

    Returns
    -------
    float
        Infinity where there are fewer than 50 aggregates, too few to tell.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.operators import coarse_degree
    >>> ones = np.ones(2999)
    >>> coarse_degree(sparse.diags_array([ones, ones], offsets=[-1, 1]))
    1.998
    """
    A = _as_matrix(A)
    pattern = sparse.csr_array(
        (np.ones(A.nnz), A.indices, A.indptr), shape=A.shape, copy=False
    )
    T = _aggregates(A, np.ones(A.shape[0]))
    if T.shape[1] < 50:
        return math.inf
    coarse = sparse.csr_array(T.T @ (pattern @ T))
    coarse.setdiag(0.0)
    coarse.eliminate_zeros()
    return float(coarse.nnz / coarse.shape[0])


def _as_matrix(A: Any) -> sparse.csr_array:
    A = sparse.csr_array(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"The matrix must be square, got shape {A.shape}.")
    if A.shape[0] == 0:
        raise ValueError("The matrix has no rows.")
    if np.iscomplexobj(A.data):
        raise TypeError("The matrix must be real, got complex numbers.")
    A = A.astype(np.float64)
    check_stored(A, A.data)
    A.eliminate_zeros()  # they are no edges
    return A


def _as_candidate(candidate: Any, n: int) -> Array:
    b = np.ones(n) if candidate is None else np.array(candidate, np.float64)
    bad = np.flatnonzero(~(np.isfinite(b) & (b > 0)))
    if b.shape != (n,) or bad.size:
        got = (
            f"{b[bad[0]]} at entry {bad[0]}" if b.shape == (n,) else f"shape {b.shape}"
        )
        raise ValueError(
            f"candidate must be a vector of {n} positive numbers, got {got}."
        )
    b /= b.max()
    if b.min() < 1e-140:  # squares are taken
        raise ValueError(
            f"The entries of candidate are too far apart, by a factor of "
            f"{1 / b.min():.1e}."
        )
    return b


def _jacobi(A: sparse.csr_array, b: Array, unit: float) -> tuple[Array, float]:
    """Inverse diagonal, and a damping factor omega for which Jacobi converges."""
    diagonal = A.diagonal()
    # Rows of zeros belong to isolated nodes and to aggregates of whole components.
    diagonal[diagonal <= ROUNDING * unit] = unit
    # rho(D^{-1} A) <= max_i (|A| b)_i / (d_i b_i) for b > 0 (Collatz-Wielandt), exactly
    # 2 for a Laplacian and its null vector b. Power iteration underestimates rho on
    # some graphs. omega = (4/3) / rho.
    bound = float((abs(A) @ b / (diagonal * b)).max(initial=0.0))
    return 1.0 / diagonal, 4 / 3 / max(bound, 1.0)


def _aggregates(A: sparse.csr_array, inverse_diagonal: Array) -> sparse.csr_array:
    """Node by aggregate indicator; nodes without a strong neighbour are in none."""
    from pyamg.aggregation import standard_aggregation
    from pyamg.strength import classical_strength_of_connection

    # Entries of D^{-1/2} A D^{-1/2} that are strong in their row or in their column.
    # pyamg takes 32-bit indices, and before 5.3 no sparse arrays.
    root = np.sqrt(inverse_diagonal)
    data = A.data * np.repeat(root, np.diff(A.indptr)) * root[A.indices]
    indices, indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    scaled = sparse.csr_matrix((data, indices, indptr), shape=A.shape)
    C = classical_strength_of_connection(scaled, STRENGTH_THRESHOLD)
    return standard_aggregation(sparse.csr_matrix(C + C.T))[0]


def _prolongator(
    A: sparse.csr_array, T: sparse.csr_array, jacobi: Array
) -> sparse.csr_array:
    """Smooth the tentative prolongator where the coarse matrix stays sparse."""
    AT = sparse.csr_array(A @ T)
    n_coarse = T.shape[1]
    degree = sparse.csr_array(T.T @ AT).nnz / n_coarse
    # Smoothing makes neighbours of neighbours neighbours: estimate the entries of the
    # coarse matrix and of the prolongator from the squares of the average degrees.
    node_degree = AT.nnz / A.shape[0]
    n_coarse_entries = n_coarse * min(degree**2, n_coarse)
    n_prolongator_entries = A.shape[0] * min(node_degree**2, n_coarse)
    is_filled = n_coarse_entries > MAX_FILL * A.nnz
    if is_filled or n_prolongator_entries > MAX_PROLONGATION_FILL * A.nnz:
        return T
    return sparse.csr_array(T - sparse.diags_array(jacobi) @ AT)


def _smoother(A: sparse.csr_array, jacobi: Array, dtype: np.dtype) -> sparse.csr_array:
    """Two Jacobi steps: ``2 omega D^{-1} - omega^2 D^{-1} A D^{-1}``."""
    D = sparse.diags_array(jacobi)
    return sparse.csr_array(2 * D - D @ A @ D, dtype=dtype)


def _invert(A: sparse.csr_array, b: Array, unit: float, dtype: np.dtype) -> Matrix:
    """Positive definite inverse of the coarsest matrix."""
    inverse_diagonal, omega = _jacobi(A, b, unit)
    if A.shape[0] > 2 * MAX_COARSE_SIZE:  # no strong entries are left: smooth only
        return _smoother(A, omega * inverse_diagonal, dtype)
    scale = np.sqrt(inverse_diagonal)
    with single_blas_thread():
        values, vectors = eigh(scale[:, None] * A.toarray() * scale)
    values[values <= ROUNDING * len(values)] = 1.0  # null vectors
    vectors *= scale[:, None]
    inverse = (vectors / values) @ vectors.T
    return np.ascontiguousarray((inverse + inverse.T) / 2, dtype=dtype)


def _apply_matrix(
    A: Matrix, X: Block, out: Block, alpha: float, shift: float, beta: float
) -> None:
    """Overwrite `out` with ``alpha (A - shift I) X + beta out``."""
    if isinstance(A, np.ndarray):
        with single_blas_thread():
            product = A @ X
        put_product(product, X, out, alpha, shift, beta)
    else:
        scalars = map(X.dtype.type, (alpha, shift, beta))
        csr_matmat(A.indptr, A.indices, A.data, X, out, *scalars)
