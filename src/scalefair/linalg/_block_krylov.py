"""Block Lanczos with thick restarts, for eigenvalues at both ends of the spectrum."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import checked_product
from scalefair._random import check_random_state, random_generator
from scalefair.kernels import (
    block_gram,
    block_multiply,
    block_subtract,
    single_blas_thread,
)
from scalefair.linalg._checks import (
    as_block,
    as_symmetric_operator,
    check_count,
    check_scale,
)
from scalefair.linalg._dense import as_dense
from scalefair.linalg._norms import column_norms
from scalefair.linalg._orthonormalize import orthonormalize
from scalefair.linalg._result import EigenResult, orient
from scalefair.linalg._ritz import eigh_descending

__all__ = ["block_krylov"]

# Blocks that the basis holds before it is restarted.
_BASIS_BLOCKS = 8


@single_blas_thread()
def block_krylov(
    A: Any,
    k: int,
    *,
    tol: float = 1e-4,
    max_products: int = 50,
    block_size: int | None = None,
    X0: ArrayLike | None = None,
    random_state: Any = None,
) -> EigenResult:
    """Eigenpairs of a symmetric operator whose eigenvalues are largest in modulus.

    For operators whose products are expensive whatever the width of the block, as
    where each reads all data: wide blocks, every product kept in the basis, and few
    products, three to six as a rule. The basis is orthonormal to rounding (each block
    is made orthogonal to all before it), and holds up to eight blocks; then it is
    restarted from the Ritz vectors largest in modulus. About ``16 n`` times
    ``8 block_size`` bytes.

    Parameters
    ----------
    A : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric, of any signature. An order of at most ``4 k`` or ``4 block_size``
        is solved densely, by one product with the identity.
    k : int
        Number of eigenpairs, ``1 <= k <= n``.
    tol : float, default=1e-4
        A pair has converged when its residual norm is at most `tol` times the
        spectral norm of the operator, which Ritz values bound from below.
    max_products : int, default=50
        Most block products.
    block_size : int or None, default=None
        Vectors in a block. None takes ``k + 10``: eigenvalues of multiplicity up to
        the block size are found with all their copies.
    X0 : array-like of shape (n, p) or None, default=None
        Vectors to start from, completed by random ones up to `block_size`; the first
        `block_size` of them if there are more.
    random_state : int, RandomState instance or None, default=None
        For the starting block.

    Returns
    -------
    EigenResult
        The values come by decreasing modulus. Residual norms follow from the products
        that made the basis, without another one: they are exact to rounding. `n_iter`
        counts restarts.

    Raises
    ------
    ValueError
        If `A` is not square, `k`, `block_size` or `max_products` does not fit, or the
        norm of `A` is not zero and below 1e-140 or above 1e150.
    FloatingPointError
        If a product with the operator is not finite.

    References
    ----------
    Golub, Underwood (1977), "The block Lanczos method for computing eigenvalues",
    Mathematical Software III, 361-377. Wu, Simon (2000), "Thick-restart Lanczos
    method for large symmetric eigenvalue problems", SIAM Journal on Matrix Analysis
    and Applications 22, 602-616. Musco, Musco (2015), "Randomized block Krylov
    methods for stronger and faster approximate singular value decomposition".

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.linalg import block_krylov
    >>> A = sparse.diags_array(np.arange(-300.0, 200.0))
    >>> result = block_krylov(A, 3, tol=1e-9, random_state=0)
    >>> result.values.round(6)
    array([-300., -299., -298.])
    """
    operator = as_symmetric_operator(A, k)
    n = operator.shape[0]
    start = None if X0 is None else as_block(X0, n, "X0")
    if block_size is None:
        block_size = k + 10
    check_count("block_size", block_size, 1)
    fewest = -(-k // block_size)
    if not isinstance(max_products, Integral) or max_products < fewest:
        raise ValueError(
            f"max_products must be at least {fewest} for {k} pairs from blocks of "
            f"{block_size} vectors, got {max_products!r}."
        )
    if n <= 4 * max(block_size, k):
        return _dense(operator, k)
    rng = check_random_state(random_state)
    basis = _Basis(operator, _start(start, n, block_size, rng), rng)
    kept = k + block_size
    most_columns = min(n, max(_BASIS_BLOCKS * block_size, kept + 2 * block_size))
    n_restarts = 0
    while True:
        basis.multiply()
        residuals = basis.residual_norms(k)
        scale = basis.scale
        n_converged = int((residuals <= tol * scale).sum())
        if n_converged == residuals.size == k:
            message = f"Converged after {basis.n_products} products."
            break
        if basis.n_products >= max_products:
            worst = residuals.max() / max(scale, np.finfo(float).tiny)
            message = (
                f"{n_converged} of {k} pairs have converged after max_products = "
                f"{max_products} products (largest residual {worst:.1e} of the norm): "
                "raise max_products, tol or block_size."
            )
            break
        if basis.n_columns_with_next > most_columns:
            basis.restart(kept)
            n_restarts += 1
        basis.extend()
    values, vectors, residuals = basis.pairs(k)
    return EigenResult(
        values=values,
        vectors=orient(vectors),
        residual_norms=residuals,
        n_products=basis.n_products,
        n_columns=basis.n_columns,
        n_iter=n_restarts,
        converged=bool(n_converged == k),
        message=message,
    )


class _Basis:
    """Orthonormal V, the newest block of it, and T = V^T A V.

    With ``A V = V T + F E^T``: all that leaves the span of V is the part F of the
    image of the newest block, whose columns E^T picks.
    """

    def __init__(
        self,
        operator: LinearOperator,
        start: NDArray[np.float64],
        rng: np.random.RandomState,
    ) -> None:
        self.operator, self.rng = operator, rng
        self.V = self.newest = orthonormalize(start, rng=rng)
        self.T = np.empty((0, 0))
        self.F = np.empty((start.shape[0], 0))
        self.values, self.S = np.empty(0), np.empty((0, 0))
        self.n_products = self.n_columns = 0
        self.scale = 0.0

    @property
    def n_columns_with_next(self) -> int:
        return int(self.V.shape[1] + self.newest.shape[1])

    def multiply(self) -> None:
        """Multiply the newest block; new Ritz pairs."""
        F = checked_product(self.operator, self.newest)
        self.n_products += 1
        self.n_columns += F.shape[1]
        H = block_gram(self.V, F)
        block_subtract(F, self.V, H)
        # Once more against what cancellation left; it belongs to T as well.
        correction = block_gram(self.V, F)
        block_subtract(F, self.V, correction)
        H += correction
        old, new = self.T.shape[0], H.shape[1]
        T = np.zeros((old + new, old + new))
        T[:old, :old] = self.T
        T[:, old:] = H
        T[old:, :old] = H[:old].T
        T[old:, old:] = (H[old:] + H[old:].T) / 2
        self.T, self.F = T, F
        self._set_ritz()

    def extend(self) -> None:
        """Append an orthonormal basis of F to V."""
        self.newest = orthonormalize(self.F, against=self.V, rng=self.rng)
        self.V = np.hstack([self.V, self.newest])

    def restart(self, kept: int) -> None:
        """Shrink the basis to Ritz vectors; F stays what leaves their span.

        Their images leave it in directions of F alone: T becomes diagonal, and the
        product with the next block brings the rest of it.
        """
        V = np.empty((self.V.shape[0], kept))
        block_multiply(self.V, self.S[:, :kept], V)
        self.V, self.T = V, np.diag(self.values[:kept])

    def residual_norms(self, k: int) -> NDArray[np.float64]:
        """Norms of ``A v - value v`` for the k Ritz pairs largest in modulus."""
        b = self.F.shape[1]
        R = np.empty((self.F.shape[0], min(k, self.S.shape[1])))
        block_multiply(self.F, self.S[-b:, :k], R)
        return column_norms(R)

    def pairs(
        self, k: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the k Ritz pairs largest in modulus, and their residual norms."""
        vectors = np.empty((self.V.shape[0], k))
        block_multiply(self.V, self.S[:, :k], vectors)
        return self.values[:k].copy(), vectors, self.residual_norms(k)

    def _set_ritz(self) -> None:
        self.values, self.S = _by_modulus(*eigh_descending(self.T))
        self.scale = max(self.scale, float(np.abs(self.values[0])))
        check_scale(self.scale)


def _by_modulus(
    values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], np.ascontiguousarray(vectors[:, order])


def _start(
    X0: NDArray[np.float64] | None,
    n: int,
    block_size: int,
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    X = random_generator(rng).standard_normal((n, block_size))
    if X0 is not None:
        given = min(X0.shape[1], block_size)
        X[:, :given] = X0[:, :given]
    return X


def _dense(operator: LinearOperator, k: int) -> EigenResult:
    """All of a small operator, from one product with the identity."""
    full = as_dense(operator)
    values, vectors = _by_modulus(*eigh_descending(full))
    values, vectors = values[:k], orient(np.ascontiguousarray(vectors[:, :k]))
    residuals = np.linalg.norm(full @ vectors - vectors * values, axis=0)
    return EigenResult(
        values, vectors, residuals, 1, len(full), 0, True, "Dense eigen-decomposition."
    )
