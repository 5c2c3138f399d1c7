"""Orthogonal projection away from a thin basis, and operators under it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._docs import documented
from scalefair._entries import (
    check_orthonormal,
    check_product,
    checked_product,
    ignore_fp_warnings,
)
from scalefair.kernels import block_gram, block_subtract
from scalefair.operators._base import (
    TEXTS,
    Array,
    SymmetricBlockOperator,
    apply_block,
    put_sum,
)


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
        dtype = np.result_type(self.A.dtype, np.float32)
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

    @cached_property
    def _transposed(self) -> np.ndarray:
        return np.ascontiguousarray(self._L.T)

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        apply_block(self.A, X, out, alpha=alpha, shift=shift, beta=beta)
        if X.shape[1] == 1:
            # Long rows are read at full speed. R^T x is L^T x with its halves swapped.
            Lx = self._transposed @ X[:, 0]
            out[:, 0] -= alpha * np.roll(Lx, len(Lx) // 2) @ self._transposed
            return
        block_subtract(out, self._L, alpha * block_gram(self._R, X))
