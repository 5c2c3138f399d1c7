"""Results, checked input, orthonormal bases and dense problems of all eigensolvers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._docs import documented
from scalefair._entries import (
    check_count,
    check_orthonormal,
    check_product,
    checked_product,
)
from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_subtract,
    leading_eigh,
    long_blas_call,
    rotate_ritz,
    single_blas_thread,
)

Array = NDArray[np.float64]
Random = np.random.RandomState
Eigenpairs = tuple[Array, Array, Array]  # values, vectors, residual norms

# Parameters that the docstrings of the eigensolvers share.
TEXTS = {
    "A": """\
A : LinearOperator, sparse matrix or ndarray of shape (n, n)
    Symmetric.""",
    "k": """\
k : int
    Number of eigenpairs, ``1 <= k <= n``.""",
    "tol": """\
tol : float, default=1e-4
    A pair has converged when its residual norm is at most `tol` times the spectral
    norm of the operator, estimated from products.""",
    "n_buffer": """\
n_buffer : int or None, default=None
    Extra vectors, which need not converge; None takes ``max(5, k // 10)``.""",
    "X0": """\
X0 : array-like of shape (n, p) or None, default=None
    Any number of approximate eigenvectors to start from.""",
    "orthogonal_to": """\
orthogonal_to : array-like of shape (n, r) or None, default=None
    Orthonormal basis, to 1e-8, of an invariant subspace that is not wanted,
    ``r <= n - k``: the vectors are orthogonal to it.""",
    "bounds": """\
bounds : SpectralBounds or None, default=None
    From `spectral_bounds`, if it was called already.""",
    "random_state": """\
random_state : int, RandomState instance or None, default=None
    For the random vectors of the start.""",
    "callback": """\
callback : callable or None, default=None
    Called after each iteration with the number of converged pairs and the largest
    residual norm among the wanted ones.""",
    "counts": """\
n_products : int
    Block products with the operator (of any width).
n_columns : int
    Vectors multiplied in all: the sum of the widths of the products.""",
    "message": """\
message : str
    How the iteration ended and, if it failed, what to change.""",
    "raises": """\
Raises
------
ValueError
    If `A` is not square, another argument does not fit it, or the norm of `A` is not
    zero and below 1e-140 or above 1e150.
FloatingPointError
    If a product with the operator or the preconditioner is not finite.""",
}


@documented(**TEXTS)
@dataclass(frozen=True)
class EigenResult:
    """Largest eigenpairs of a symmetric operator, and the cost of the solution.

    Attributes
    ----------
    values : ndarray of shape (k,), float64
        Ritz values, largest first.
    vectors : ndarray of shape (n, k), float64
        Orthonormal; in each the entry largest in modulus is positive.
    residual_norms : ndarray of shape (k,)
        Euclidean norms of ``A v - v * value``, measured, not estimated.
    %(counts)s
    n_iter : int
        Outer iterations; their meaning is the solver's.
    converged : bool
        Whether every residual norm is within the tolerance.
    %(message)s
    history : dict of ndarray or None
        Records of each iteration, if any.
    """

    values: Array
    vectors: Array
    residual_norms: Array
    n_products: int
    n_columns: int
    n_iter: int
    converged: bool
    message: str
    history: dict[str, np.ndarray] | None = None


class BlockIteration:
    """Base of the block eigensolvers: counted products, a norm, the result."""

    def __init__(self, operator: LinearOperator) -> None:
        self.operator = operator
        self.n_products = self.n_columns = 0
        self.scale = 0.0  # of the operator: a lower bound of its spectral norm

    def count(self, n_columns: int) -> None:
        """Count a product with a block of `n_columns` columns."""
        self.n_products += 1
        self.n_columns += n_columns

    def result_of(
        self, pairs: Eigenpairs, n_iter: int, converged: bool, message: str
    ) -> EigenResult:
        """Return the result; the signs of the vectors are normalised in place."""
        values, vectors, residuals = pairs
        return EigenResult(
            values,
            orient(vectors),
            residuals,
            self.n_products,
            self.n_columns,
            n_iter,
            converged,
            message,
        )


def orient(vectors: Array) -> Array:
    """Give each column the sign that makes its entry largest in modulus positive."""
    # The modulus of the largest entry is max(top, bottom): no block of moduli is made.
    top, bottom = vectors.max(axis=0), -vectors.min(axis=0)
    signs = np.where(top >= bottom, 1.0, -1.0)
    for j in np.flatnonzero(top == bottom):  # a tie: the first such entry decides
        signs[j] = np.sign(vectors[np.abs(vectors[:, j]).argmax(), j]) or 1.0
    vectors *= signs
    return vectors


def column_norms(X: Array) -> Array:
    """Euclidean norms of the columns, without a block of their squares."""
    norms: Array = np.sqrt(np.einsum("ij,ij->j", X, X))
    return norms


def eigh_descending(T: Array) -> tuple[Array, Array]:
    """Eigenvalues of the symmetric part of `T`, largest first, and eigenvectors."""
    with single_blas_thread():  # the same result for any number of threads
        values, S = np.linalg.eigh((T + T.T) / 2)
    return values[::-1], S[:, ::-1]


def rotate_to_ritz(X: np.ndarray, AX: np.ndarray) -> tuple[Array, Array]:
    """Rotate an orthonormal block to Ritz vectors, its products to their residuals.

    Both in place; returns the Ritz values, largest first, and norms of the residuals.
    """
    projected = block_gram(X, AX)
    check_product(projected)
    values, S = eigh_descending(projected)
    return values, rotate_ritz(X, AX, S, values)


def orthonormalize(
    X: np.ndarray, *, against: np.ndarray | None = None, rng: np.random.RandomState
) -> np.ndarray:
    """Overwrite `X` with an orthonormal basis that contains its span.

    Two or three passes divide by the square root of the Gram matrix, its eigenvalues
    raised to rounding level. Directions lost to rounding become random ones.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        C-contiguous, float32 or float64, ``m <= n``. Overwritten.
    against : ndarray of shape (n, p) or None, default=None
        Orthonormal columns of the type of `X` to be orthogonal to, ``m + p <= n``.
    rng : RandomState
        For the replacement of dependent columns.

    Returns
    -------
    ndarray of shape (n, m)
        `X`.

    Raises
    ------
    FloatingPointError
        If `X` has entries that are not finite.
    ValueError
        If `X` has more columns than can be orthonormal.

    References
    ----------
    Stathopoulos, Wu (2002), "A block orthogonalization procedure with constant
    synchronization requirements", SIAM Journal on Scientific Computing 23 (SVQB).

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import orthonormalize
    >>> X = np.ones((5, 2))  # two equal columns
    >>> X = orthonormalize(X, rng=np.random.RandomState(0))
    >>> bool(np.allclose(X.T @ X, np.eye(2)))
    True
    """
    epsilon = float(np.finfo(X.dtype).eps)
    n, m = X.shape
    p = 0 if against is None else against.shape[1]
    if m + p > n:
        raise ValueError(
            f"{m} columns of length {n} cannot be orthonormal, and orthogonal to {p} "
            "others: take fewer."
        )
    # Norms whose squares neither underflow nor overflow.
    info = np.finfo(X.dtype)
    min_norm = float(np.sqrt(info.tiny) / info.eps)
    max_norm = float(np.sqrt(info.max) * info.eps)
    noise = 0.0
    for _ in range(8):  # two or three, unless columns are dependent
        # 1. Project away from the other basis.
        if against is not None and p:
            block_subtract(X, against, block_gram(against, X))
        # 2. Done if the Gram matrix is the identity to rounding.
        gram = block_gram(X, X)
        error = float(np.abs(gram - np.eye(m)).max(initial=0.0))
        if error <= 50 * epsilon:
            break
        # 3. Columns that are rounding errors become random ones.
        #    Invariant: `noise` bounds the norms of columns that hold nothing but the
        #    rounding errors of the last rotation. It is 0 before the first one, and
        #    after such columns were replaced.
        norms = np.sqrt(np.diag(gram))
        is_noise = norms < noise
        if is_noise.any():
            X[:, is_noise] = rng.standard_normal((n, int(is_noise.sum())))
            noise = 0.0
            continue
        if not ((norms > min_norm) & (norms < max_norm)).all():
            # Squares in the Gram matrix are out of range. Divide the columns by their
            # largest entries, and form it anew; columns of zeros become random ones.
            peaks = np.abs(X).max(axis=0)
            if not np.isfinite(peaks).all():
                raise FloatingPointError(
                    "The block to orthonormalise has entries that are not finite: "
                    "check the operator and the starting vectors for NaN and infinity."
                )
            is_zero = peaks == 0
            X[:, is_zero] = rng.standard_normal((n, int(is_zero.sum())))
            peaks[is_zero] = 1
            X /= peaks
            continue
        # 4. Multiply by the inverse square root of the Gram matrix of unit columns:
        #        S = D^-1 U diag(values)^-1/2,
        #    with D the norms and U diag(values) U' the Gram matrix of X D^-1. Unit
        #    columns first: small eigenvalues then show dependence, not short columns.
        #    Cost of a pass: 4 n m^2 + O(m^3).
        with single_blas_thread():
            values, vectors = np.linalg.eigh(gram / np.outer(norms, norms))
        # Eigenvalues below the floor are rounding errors: such columns come out
        # shorter than 1, and the next pass divides again.
        floor = m * epsilon * values[-1]
        S = vectors / np.sqrt(np.maximum(values, floor)) / norms[:, None]
        block_multiply(X, S, X)
        # Largest norm of the rotation's rounding errors. A column of D S has a norm of
        # at most floor^-1/2. Its product with the m unit columns X D^-1 errs by epsilon
        # times the sum of its moduli: at most epsilon (m / floor)^1/2, which is
        # (epsilon / values[-1])^1/2. The factor 2 is for safety.
        noise = 2 * float(np.sqrt(epsilon / values[-1]))
    return X


@documented(**TEXTS)
@single_blas_thread()
def dense_eigh(
    A: Any, k: int, *, orthogonal_to: ArrayLike | None = None
) -> EigenResult:
    """Largest eigenpairs of a symmetric operator by forming it.

    Parameters
    ----------
    %(A)s
        It is applied to the identity: ``24 n**2`` bytes.
    %(k)s
    %(orthogonal_to)s

    Returns
    -------
    EigenResult
        Eigenpairs to rounding level.

    %(raises)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.linalg import dense_eigh
    >>> dense_eigh(np.diag([1.0, 3.0, 2.0]), 2).values
    array([3., 2.])
    """
    operator, _, deflated = as_problem(A, k, orthogonal_to=orthogonal_to)
    n, r = deflated.shape
    # 1. The symmetric part, from one product with the identity.
    matrix: Array = checked_product(operator, np.eye(n, dtype=operator.dtype))
    check_scale(float(np.abs(matrix).max()))
    matrix = (matrix + matrix.T) / 2
    # 2. Leading eigenvectors, in coordinates of the complement of a deflated subspace.
    if r == 0:
        values, vectors = leading_eigh(matrix, k)
    else:
        # Some 4 n^3 operations take one thread 0.3 n^3 nanoseconds.
        with long_blas_call(0.3 * n**3):
            Z = qr(deflated)[0][:, r:]  # orthonormal basis of the complement
            reduced = Z.T @ matrix @ Z
        values, vectors = leading_eigh(reduced, k, overwrite=True)
        vectors = Z @ vectors
    # 3. Residuals with A itself. If the deflated subspace is not invariant, A x has a
    #    part in it, and the residuals are large.
    vectors = orient(vectors)
    residuals = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
    message = "Dense eigen-decomposition."
    return EigenResult(values, vectors, residuals, 1, n, 1, True, message)


def stop_message(
    n_iter: int,
    max_iter: int,
    residual: float,
    converged: bool,
    *,
    steps: str,
    limit_remedy: str = "",
    stagnation_remedy: str = "",
) -> str:
    """Say how an iteration ended, with remedies if it did not converge.

    `steps` names what `n_iter` counts, in the plural. The remedies are for the limit of
    steps, and for residuals that stagnate; they continue the sentence.
    """
    if converged:
        return f"Converged in {n_iter} {steps}."
    if n_iter >= max_iter:
        return (
            f"Residual {residual:.1e} after max_iter = {max_iter} {steps}: raise "
            f"max_iter or tol{limit_remedy}."
        )
    return f"The residual stays at {residual:.1e}: raise tol{stagnation_remedy}."


def as_symmetric_operator(A: Any, k: int) -> LinearOperator:
    """Return `A` as a LinearOperator after checking that it is square, real and k fits.

    That it is symmetric is not checked.
    """
    operator = aslinearoperator(A)
    n, m = operator.shape
    if n != m:
        raise ValueError(f"The operator must be square, got shape {operator.shape}.")
    if np.issubdtype(operator.dtype, np.complexfloating):
        raise TypeError("The operator must be real and symmetric, got complex numbers.")
    if not isinstance(k, Integral):
        raise TypeError(f"k must be an integer, got {k!r}.")
    if not 1 <= k <= n:
        raise ValueError(f"k must be between 1 and the order {n}, got {k}.")
    return operator


def as_block(X: Any, n: int, name: str) -> Array:
    """Return `X` as a C-contiguous float64 block after checking its n rows."""
    if np.iscomplexobj(X):
        raise TypeError(f"{name} must be real, got complex numbers.")
    block: Array = np.asarray(X, dtype=np.float64, order="C")
    if block.ndim != 2 or block.shape[0] != n:
        raise ValueError(f"{name} must have shape ({n}, p), got {block.shape}.")
    finite = np.isfinite(block)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise ValueError(
            f"{name} has entries that are not finite (first: {block[i, j]} at row {i}, "
            f"column {j})."
        )
    return block


def as_problem(
    A: Any, k: int, X0: Any = None, orthogonal_to: Any = None
) -> tuple[LinearOperator, Array, Array]:
    """Check the operator, the start and the basis to deflate, and return them.

    A start or a basis of None becomes a block without columns.
    """
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    start = deflated = np.empty((n, 0))
    if X0 is not None:
        start = as_block(X0, n, "X0")
    if orthogonal_to is not None:
        deflated = as_block(orthogonal_to, n, "orthogonal_to")
        check_complement(k, n, deflated.shape[1])
        # The tolerance is about the square root of the basis's own precision.
        single = np.asarray(orthogonal_to).dtype == np.float32
        check_orthonormal(deflated, "orthogonal_to", 1e-4 if single else 1e-8)
    return operator, start, deflated


def check_complement(k: int, n: int, n_deflated: int) -> None:
    """Refuse k vectors if the complement of a subspace has fewer dimensions."""
    if k > n - n_deflated:
        raise ValueError(
            f"{k} vectors of order {n} cannot be orthogonal to {n_deflated} others."
        )


def buffer_size(n_buffer: int | None, k: int) -> int:
    """Return the number of extra vectors; None takes a tenth of k, at least 5."""
    if n_buffer is None:
        return max(5, k // 10)
    check_count("n_buffer", n_buffer, 0)
    return n_buffer


def check_scale(norm: float, name: str = "operator") -> None:
    """Refuse a norm for which squares of residuals may overflow or underflow.

    float64 ranges from about 1e-308 to 1e308. The limits leave room for a residual of
    1e-14 times the norm and for sums over the rows.
    """
    if norm != 0 and not 1e-140 <= norm <= 1e150:
        raise ValueError(
            f"The {name} has a norm of about {norm:.1e}, too far from 1: the squares "
            f"of residuals are out of range. Scale the {name}."
        )
