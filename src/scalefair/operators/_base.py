"""The interface that the package's operators add to SciPy's LinearOperator."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from scalefair.kernels import combine

__all__ = ["ProductOperator", "SymmetricBlockOperator", "apply_block"]


class SymmetricBlockOperator(LinearOperator):
    """Real symmetric operator that works on blocks of vectors in place.

    It is a :class:`scipy.sparse.linalg.LinearOperator` with one more method,
    `apply`, shaped like a BLAS call: iterations with short recurrences run
    through it without temporary blocks. Solvers accept any LinearOperator and
    use `apply` where there is one.

    Parameters
    ----------
    dtype : dtype
        float32 or float64; blocks are converted to it.
    n : int
        Order of the operator.

    Attributes
    ----------
    gathers_rows : bool
        Whether a product gathers rows of its block at random, as that with a
        sparse matrix does. Blocks too large for the cache are then better
        multiplied in parts. False for all others: a part would repeat the work
        that columns share.
    """

    gathers_rows: bool = False

    def __init__(self, dtype: Any, n: int) -> None:
        super().__init__(np.dtype(dtype), (n, n))
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(
                f"{type(self).__name__} works in float32 or float64, got {dtype!r}."
            )

    @abstractmethod
    def apply(
        self,
        X: np.ndarray,
        out: np.ndarray,
        *,
        alpha: float = 1.0,
        shift: float = 0.0,
        beta: float = 0.0,
    ) -> np.ndarray:
        """Overwrite `out` with ``alpha * (A - shift I) X + beta * out``.

        Parameters
        ----------
        X : ndarray of shape (n, k)
            C-contiguous block of the operator's dtype.
        out : ndarray of shape (n, k)
            C-contiguous block of the operator's dtype that does not overlap
            `X`. It is not read when ``beta == 0``.
        alpha, shift, beta : float
            Coefficients.

        Returns
        -------
        ndarray
            `out`.
        """

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(X):
            raise TypeError(f"{type(self).__name__} works on real blocks.")
        X = np.ascontiguousarray(X, dtype=self.dtype)
        return self.apply(X, np.empty_like(X))

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._matmat(np.reshape(x, (-1, 1))).ravel()

    def _rmatmat(self, X: np.ndarray) -> np.ndarray:
        return self._matmat(X)

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self._matvec(x)

    def _adjoint(self) -> SymmetricBlockOperator:
        return self

    def _transpose(self) -> SymmetricBlockOperator:
        return self


class ProductOperator(SymmetricBlockOperator):
    """Operator whose products come as new blocks; `apply` follows from them."""

    def apply(
        self,
        X: np.ndarray,
        out: np.ndarray,
        *,
        alpha: float = 1.0,
        shift: float = 0.0,
        beta: float = 0.0,
    ) -> np.ndarray:
        if out.size == 0:
            return out
        product = self._product(X)
        if shift != 0:
            product -= self.dtype.type(shift) * X
        if beta != 0:
            combine(out, beta, out, alpha, product)
        else:
            np.multiply(product, self.dtype.type(alpha), out=out)
        return out

    @abstractmethod
    def _product(self, X: np.ndarray) -> np.ndarray:
        """Return the operator times a block, in an array that may be overwritten."""


def apply_block(
    A: LinearOperator,
    X: np.ndarray,
    out: np.ndarray,
    *,
    alpha: float = 1.0,
    shift: float = 0.0,
    beta: float = 0.0,
) -> np.ndarray:
    """Overwrite `out` with ``alpha (A - shift I) X + beta out``, any operator `A`.

    Uses `SymmetricBlockOperator.apply` where `A` has it.
    """
    if isinstance(A, SymmetricBlockOperator) and A.dtype == X.dtype:
        return A.apply(X, out, alpha=alpha, shift=shift, beta=beta)
    product = A.matmat(X)
    if shift != 0:
        product = product - shift * X
    product = alpha * product
    if beta != 0:
        product += beta * out
    out[...] = product
    return out
