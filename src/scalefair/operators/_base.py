"""The interface that the package's operators add to SciPy's LinearOperator."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import all_finite, check_product, judged_later
from scalefair.kernels import combine

__all__ = [
    "ProductOperator",
    "SymmetricBlockOperator",
    "apply_block",
    "check_weights",
    "put_product",
]


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

    def _as_block(self, V: ArrayLike) -> np.ndarray:
        """Return `V` as `apply` takes it, after checking its shape."""
        V = np.asarray(V)
        if V.ndim != 2 or V.shape[0] != self.shape[0]:
            raise ValueError(
                f"V must be a block of vectors of length {self.shape[0]}, got shape "
                f"{V.shape}."
            )
        V = self._converted(V)
        if not all_finite(V):
            raise ValueError(
                f"V has entries that are not finite in {self.dtype}: replace them."
            )
        return V

    def _converted(self, X: np.ndarray) -> np.ndarray:
        if np.iscomplexobj(X):
            raise TypeError(
                f"{type(self).__name__} works on real blocks, got complex numbers: "
                "multiply real and imaginary part, each by itself."
            )
        with judged_later():  # float32 may be too narrow
            return np.ascontiguousarray(X, dtype=self.dtype)

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        X = self._converted(X)
        with judged_later():
            Y = self.apply(X, np.empty_like(X))
        check_product(Y, type(self).__name__)
        return Y

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
        return put_product(
            self._product(X), X, out, alpha=alpha, shift=shift, beta=beta
        )

    @abstractmethod
    def _product(self, X: np.ndarray) -> np.ndarray:
        """Return the operator times a block, in an array that may be overwritten."""


def put_product(
    product: np.ndarray,
    X: np.ndarray,
    out: np.ndarray,
    *,
    alpha: float,
    shift: float,
    beta: float,
) -> np.ndarray:
    """Overwrite `out` with ``alpha * (product - shift * X) + beta * out``.

    All are C-contiguous blocks of one type; `product` is overwritten as well.
    """
    real = out.dtype.type
    if shift != 0:
        product -= real(shift) * X
    if beta != 0:
        combine(out, beta, out, alpha, product)
    else:
        np.multiply(product, real(alpha), out=out)
    return out


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

    Uses `SymmetricBlockOperator.apply` where `A` has it. Callers judge the result.
    """
    with judged_later():
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


def check_weights(weights: ArrayLike, n_codes: int) -> NDArray[np.float64]:
    """Return a copy of the weights of the groups, one finite number for each."""
    checked = np.array(weights, dtype=np.float64)
    if checked.shape != (n_codes,) or n_codes < 1:
        raise ValueError(
            f"weights must be one number for each of the {n_codes} groups, at least "
            f"one, got shape {checked.shape}."
        )
    if not np.isfinite(checked).all():
        bad = int(np.flatnonzero(~np.isfinite(checked))[0])
        raise ValueError(
            f"weights must be finite, got {checked[bad]} for group {bad}: replace it."
        )
    return checked
