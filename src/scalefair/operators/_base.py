"""The interface that the package's operators add to SciPy's LinearOperator."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from scalefair._entries import all_finite, check_product, ignore_fp_warnings
from scalefair.kernels import combine

Array = NDArray[np.float64]
Block = np.ndarray  # float64 or float32

# Texts that the docstrings of the operators share.
TEXTS = {
    "A": """\
A : LinearOperator, sparse matrix or ndarray of shape (n, n)
    Symmetric.""",
    "dtype": """\
dtype : {np.float64, np.float32}, default=np.float64
    Type of the blocks and of the products.""",
    "type_error": """\
TypeError
    If the input is complex, or `dtype` is neither float32 nor float64.""",
}


class SymmetricBlockOperator(LinearOperator):
    """Real symmetric operator that works on blocks of vectors in place.

    A :class:`scipy.sparse.linalg.LinearOperator` with one more method, `apply`, shaped
    like a BLAS call, which solvers use where there is one: short recurrences need no
    temporary blocks. A subclass implements ``_apply(X, out, alpha, shift, beta)``.

    Parameters
    ----------
    dtype : dtype
        float32 or float64; blocks are converted to it.
    n : int
        Order of the operator.
    """

    def __init__(self, dtype: Any, n: int) -> None:
        super().__init__(np.dtype(dtype), (n, n))
        if self.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise TypeError(
                f"{type(self).__name__} works in float32 or float64, got {dtype!r}."
            )

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
            Another such block, not read when ``beta == 0``.
        alpha, shift, beta : float
            Coefficients.

        Returns
        -------
        ndarray
            `out`.
        """
        if out.size:
            self._apply(X, out, alpha, shift, beta)
        return out

    @abstractmethod
    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        """Overwrite `out`, which is not empty, as `apply` says."""

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
        with ignore_fp_warnings():  # float32 may be too narrow
            return np.ascontiguousarray(X, dtype=self.dtype)

    def _matmat(self, X: np.ndarray) -> np.ndarray:
        # From SciPy 1.18 on, X may be a stack of blocks.
        columns = np.moveaxis(X, -2, 0)
        block = self._converted(columns.reshape(len(columns), -1))
        with ignore_fp_warnings():
            Y = self.apply(block, np.empty_like(block))
        check_product(Y, type(self).__name__)
        return np.moveaxis(Y.reshape(columns.shape), 0, -2)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        rows = np.reshape(x, (-1, self.shape[1]))  # one vector, or a stack
        return self._matmat(rows.T).T.reshape(np.shape(x))

    def _adjoint(self) -> SymmetricBlockOperator:
        return self

    _rmatmat, _rmatvec, _transpose = _matmat, _matvec, _adjoint  # it is symmetric


class TypedOperator(SymmetricBlockOperator):
    """Operator that can be converted between float64 and float32."""

    def astype(self, dtype: Any) -> Self:
        """Return the operator with products in another type.

        Parameters
        ----------
        dtype : {np.float64, np.float32}
            Type of the products.

        Returns
        -------
        SymmetricBlockOperator
            `self` if it has this type, else a new operator of the same class.
        """
        if np.dtype(dtype) == self.dtype:
            return self
        other = copy(self)
        SymmetricBlockOperator.__init__(other, dtype, self.shape[0])
        other._set_type()
        return other

    @abstractmethod
    def _set_type(self) -> None:
        """Convert to `dtype` what products read."""


def check_stored(A: sparse.csr_array, data: NDArray[Any]) -> None:
    """Refuse a matrix with entries that are not finite once converted to `data`."""
    if not all_finite(data):
        bad = int(np.flatnonzero(~np.isfinite(data))[0])
        row = int(np.searchsorted(A.indptr, bad, side="right")) - 1
        raise ValueError(
            f"The matrix has an entry that is not finite, at row {row}, column "
            f"{A.indices[bad]} ({A.data[bad]}), in {data.dtype}: remove or replace it."
        )


def put_product(
    Y: Block, X: Block, out: Block, alpha: float, shift: float, beta: float
) -> None:
    """Overwrite `out` with ``alpha * (Y - shift * X) + beta * out``; changes `Y`."""
    if shift != 0:
        Y -= out.dtype.type(shift) * X
    put_sum(Y, out, alpha, beta)


def put_sum(X: np.ndarray, out: np.ndarray, alpha: float, beta: float) -> None:
    """Overwrite `out` with ``alpha * X + beta * out``; it is not read for beta 0."""
    if beta != 0:
        combine(out, beta, out, alpha, X)
    elif alpha != 0:
        np.multiply(X, out.dtype.type(alpha), out=out)
    else:
        out[...] = 0


def apply_block(
    A: LinearOperator,
    X: np.ndarray,
    out: np.ndarray,
    *,
    alpha: float = 1.0,
    shift: float = 0.0,
    beta: float = 0.0,
) -> np.ndarray:
    """`SymmetricBlockOperator.apply` for any operator; callers check the result."""
    with ignore_fp_warnings():
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
