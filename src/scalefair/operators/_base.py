"""Operators that multiply blocks of vectors in place, projections among them."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    check_orthonormal,
    check_product,
    checked_product,
    ignore_fp_warnings,
    real_type,
)
from scalefair.kernels import block_gram, block_subtract, combine

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
        # A copy: an operator may return its argument, or a read-only array.
        product = np.array(A.matmat(X), out.dtype, order="C")
        put_product(product, X, out, alpha, shift, beta)
    return out


def _as_thin_basis(Q: Any) -> Array:
    """C-contiguous copy of Q, after checking that its columns are orthonormal."""
    if np.iscomplexobj(Q):
        raise TypeError("Q must be real, got complex numbers.")
    basis: Array = np.array(Q, dtype=np.float64, order="C")
    if basis.ndim != 2 or basis.shape[1] > basis.shape[0]:
        raise ValueError(
            "Q must be a tall matrix with orthonormal columns, got shape "
            f"{basis.shape}."
        )
    check_orthonormal(basis, "Q")
    return basis


@documented(**TEXTS)
class NullspaceProjector(SymmetricBlockOperator):
    r"""Orthogonal projector :math:`P = I - Q Q^T` onto the null space of :math:`Q^T`.

    Parameters
    ----------
    Q : array-like of shape (n, r)
        Orthonormal columns, ``r <= n``.
    %(dtype)s

    Raises
    ------
    ValueError
        If the columns of `Q` are not orthonormal to 1e-8.
    %(type_error)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import NullspaceProjector
    >>> P = NullspaceProjector(np.full((4, 1), 0.5))
    >>> P @ np.array([1.0, 2.0, 3.0, 4.0])
    array([-1.5, -0.5,  0.5,  1.5])
    """

    def __init__(self, Q: Any, *, dtype: Any = np.float64) -> None:
        Q = _as_thin_basis(Q)
        super().__init__(dtype, Q.shape[0])
        self.Q = Q.astype(self.dtype, copy=False)

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        put_sum(X, out, alpha * (1.0 - shift), beta)
        block_subtract(out, self.Q, alpha * block_gram(self.Q, X))


@documented(**TEXTS)
class Projected(SymmetricBlockOperator):
    r"""Symmetric operator restricted to the null space of :math:`Q^T`.

    The operator is :math:`P A P + c\, Q Q^T` with :math:`P = I - Q Q^T`: its
    eigenvectors are those of :math:`A` restricted to :math:`\mathrm{null}(Q^T)` and,
    at the eigenvalue :math:`c`, the constrained directions :math:`\mathrm{span}\, Q`.
    With :math:`B = AQ - Q (Q^T A Q + c I)/2` it equals :math:`A - Q B^T - B Q^T`: a
    product costs one with :math:`A` and one pass with 2r columns.

    Parameters
    ----------
    %(A)s
    Q : array-like of shape (n, r)
        Orthonormal columns.
    constrained_value : float
        :math:`c`, the eigenvalue given to the constrained directions: at or below the
        smallest of :math:`A` they are not among the largest eigenpairs.

    Raises
    ------
    ValueError
        If shapes disagree, `Q` is not orthonormal to 1e-8, or the value not finite.
    TypeError
        If `A` or `Q` is complex.
    FloatingPointError
        If the product of `A` and `Q` is not finite.

    References
    ----------
    Wang, Lu, Davidson, Bai (2023), "Scalable Spectral Clustering with Group Fairness
    Constraints".

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import Projected
    >>> A = np.diag([4.0, 3.0, 2.0])
    >>> restricted = Projected(A, np.eye(3)[:, :1], constrained_value=-1.0)
    >>> np.diag(restricted @ np.eye(3))
    array([-1.,  3.,  2.])
    """

    def __init__(self, A: Any, Q: Any, *, constrained_value: float) -> None:
        self.A: LinearOperator = aslinearoperator(A)
        dtype = self.A.dtype
        if dtype.kind != "c":  # which is refused
            dtype = np.dtype(real_type(dtype))
        super().__init__(dtype, self.A.shape[0])
        basis = _as_thin_basis(Q)
        if self.A.shape != (basis.shape[0],) * 2:
            raise ValueError(
                f"A has shape {self.A.shape}, Q has {basis.shape[0]} rows."
            )
        self.constrained_value = float(constrained_value)
        if not np.isfinite(self.constrained_value):
            raise ValueError(
                f"constrained_value must be a finite number, got {constrained_value}."
            )
        AQ = checked_product(self.A, basis)
        with ignore_fp_warnings():
            inner = basis.T @ AQ + self.constrained_value * np.eye(AQ.shape[1])
            B = (AQ - basis @ inner / 2).astype(self.dtype)
        check_product(B)
        basis = basis.astype(self.dtype)
        # A - Q B^T - B Q^T = A - L R^T with L = [Q, B] and R = [B, Q].
        self._L, self._R = np.hstack([basis, B]), np.hstack([B, basis])

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        apply_block(self.A, X, out, alpha=alpha, shift=shift, beta=beta)
        block_subtract(out, self._L, alpha * block_gram(self._R, X))
