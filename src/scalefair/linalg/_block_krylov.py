"""Block Lanczos with thick restarts, for eigenvalues at both ends of the spectrum."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

import scalefair.linalg._base as base
from scalefair import kernels
from scalefair._docs import documented
from scalefair._random_state import check_random_state, random_generator
from scalefair.linalg._base import TEXTS, Array, EigenResult, Iteration
from scalefair.linalg._orthonormalize import orthonormalize

# Blocks that the basis holds before it is restarted.
_BASIS_BLOCKS = 8


@documented(**TEXTS)
@kernels.single_blas_thread()
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

    For operators whose products are expensive whatever the width of the block: wide
    blocks, every product kept in the basis, three to six of them as a rule. A basis of
    eight blocks (``128 n block_size`` bytes) is restarted from leading Ritz vectors.

    Parameters
    ----------
    %(A)s
        Orders up to ``4 k`` or ``4 block_size`` are solved densely.
    %(k)s
    %(tol)s
    max_products : int, default=50
        Most block products.
    block_size : int or None, default=None
        Vectors in a block, ``k + 10`` for None: eigenvalues of multiplicity up to the
        block size are found with all their copies.
    %(X0)s
        Of more than `block_size` the first are taken.
    %(random_state)s

    Returns
    -------
    EigenResult
        By decreasing modulus; `n_iter` counts restarts.

    %(raises)s

    References
    ----------
    Golub, Underwood (1977), "The block Lanczos method for computing eigenvalues". Wu,
    Simon (2000), "Thick-restart Lanczos method for large symmetric eigenvalue
    problems". Musco, Musco (2015), "Randomized block Krylov methods for stronger and
    faster approximate singular value decomposition".

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
    operator, start, _ = base.as_problem(A, k, X0)
    n = operator.shape[0]
    if block_size is None:
        block_size = k + 10
    base.check_count("block_size", block_size, 1)
    fewest = -(-k // block_size)
    if not isinstance(max_products, Integral) or max_products < fewest:
        raise ValueError(
            f"max_products must be at least {fewest} for {k} pairs from blocks of "
            f"{block_size} vectors, got {max_products!r}."
        )
    if n <= 4 * max(block_size, k):
        full = base.as_dense(operator)
        values, vectors = _by_modulus(*base.eigh_descending(full))
        top = np.ascontiguousarray(vectors[:, :k])
        return base.dense_result(full, values[:k], top, n_iter=0)
    rng = check_random_state(random_state)
    X = random_generator(rng).standard_normal((n, block_size))
    X[:, : start.shape[1]] = start[:, :block_size]
    basis = _Basis(operator, X, rng)
    kept = k + block_size
    most_columns = min(n, max(_BASIS_BLOCKS * block_size, kept + 2 * block_size))
    n_restarts = 0
    while True:
        basis.multiply_newest()
        residuals = basis.residual_norms(k)
        n_converged = int((residuals <= tol * basis.scale).sum())
        if n_converged == residuals.size == k:
            message = f"Converged after {basis.n_products} products."
            break
        if basis.n_products >= max_products:
            worst = residuals.max() / max(basis.scale, np.finfo(float).tiny)
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
    pairs = basis.values[:k].copy(), basis.vectors(k), residuals
    return basis.result_of(pairs, n_restarts, n_converged == k, message)


class _Basis(Iteration):
    """Orthonormal V, T = V^T A V: ``A V = V T + F E^T``, E of the last block."""

    def __init__(
        self, operator: LinearOperator, start: Array, rng: np.random.RandomState
    ) -> None:
        super().__init__(operator)
        self.rng = rng
        self.V = self.newest = orthonormalize(start, rng=rng)
        self.T = np.empty((0, 0))
        self.F = np.empty((start.shape[0], 0))
        self.values, self.S = np.empty(0), np.empty((0, 0))

    @property
    def n_columns_with_next(self) -> int:
        return int(self.V.shape[1] + self.newest.shape[1])

    def multiply_newest(self) -> None:
        """Multiply the newest block; new Ritz pairs."""
        F = self.multiply(self.newest)
        H = kernels.block_gram(self.V, F)
        kernels.block_subtract(F, self.V, H)
        # Once more against what cancellation left; it belongs to T as well.
        correction = kernels.block_gram(self.V, F)
        kernels.block_subtract(F, self.V, correction)
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
        """Shrink the basis to Ritz vectors; F stays what leaves their span."""
        # T becomes diagonal; the product with the next block brings the rest of it.
        self.V, self.T = self.vectors(kept), np.diag(self.values[:kept])

    def residual_norms(self, k: int) -> Array:
        """Norms of ``A v - value v`` for the k Ritz pairs largest in modulus."""
        b = self.F.shape[1]
        R = np.empty((self.F.shape[0], min(k, self.S.shape[1])))
        kernels.block_multiply(self.F, self.S[-b:, :k], R)
        return base.column_norms(R)

    def vectors(self, k: int) -> Array:
        """Return the k Ritz vectors largest in modulus."""
        vectors = np.empty((self.V.shape[0], k))
        kernels.block_multiply(self.V, self.S[:, :k], vectors)
        return vectors

    def _set_ritz(self) -> None:
        self.values, self.S = _by_modulus(*base.eigh_descending(self.T))
        self.scale = max(self.scale, float(np.abs(self.values[0])))
        base.check_scale(self.scale)


def _by_modulus(values: Array, vectors: Array) -> tuple[Array, Array]:
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], np.ascontiguousarray(vectors[:, order])
