"""Normalised affinity of a graph."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scalefair._entries import all_finite, judged_later
from scalefair.kernels import csr_matmat
from scalefair.operators._base import SymmetricBlockOperator, put_product

__all__ = ["NormalizedAffinity", "check_degrees"]


class NormalizedAffinity(SymmetricBlockOperator):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of a graph.

    Parameters
    ----------
    W : sparse matrix or array of shape (n, n)
        Symmetric nonnegative affinity, any SciPy sparse format, int32 or int64
        indices. Symmetry is the caller's to check.
    shift : float, default=0.0
        :math:`\sigma`. The eigenvalues of :math:`D^{-1/2} W D^{-1/2}` lie in
        [-1, 1]; a shift above 1 makes the operator positive definite.
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the stored entries and of the products.

    Attributes
    ----------
    degrees : ndarray of shape (n,), float64
        :math:`d = W 1`.
    inv_sqrt_degrees : ndarray of shape (n,), float64
        :math:`d^{-1/2}`.
    matrix : scipy.sparse.csr_array
        :math:`D^{-1/2} W D^{-1/2}`; it shares the index arrays of `W` where
        `W` is in CSR format.

    Raises
    ------
    ValueError
        If `W` is not square, a row has entries that are not finite, or a node has
        no positive degree.
    TypeError
        If `W` is complex.

    References
    ----------
    Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering
    under Fairness Constraints", section 2.2 and remark 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from scalefair.operators import NormalizedAffinity
    >>> triangle = sparse.csr_array(np.ones((3, 3)) - np.eye(3))
    >>> M = NormalizedAffinity(triangle)
    >>> M @ np.ones(3)
    array([1., 1., 1.])
    """

    gathers_rows = True

    def __init__(self, W: Any, *, shift: float = 0.0, dtype: Any = np.float64) -> None:
        W = sparse.csr_array(W)
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"An affinity must be square, got shape {W.shape}.")
        if np.iscomplexobj(W.data):
            raise TypeError("An affinity must be real, got complex numbers.")
        super().__init__(dtype, W.shape[0])
        self.shift = float(shift)
        with judged_later():
            self.degrees = W @ np.ones(W.shape[0])  # in float64, unlike W.sum
        check_degrees(self.degrees)
        self.inv_sqrt_degrees = 1.0 / np.sqrt(self.degrees)
        # In float64: weights and degrees may be out of the range of float32.
        data = np.repeat(self.inv_sqrt_degrees, np.diff(W.indptr))
        with judged_later():  # negative weights: the degrees may be much smaller
            data *= W.data
            data *= self.inv_sqrt_degrees[W.indices]
            data = data.astype(self.dtype, copy=False)
        if not all_finite(data):
            raise ValueError(
                f"Weights divided by degrees are out of the range of {self.dtype}: "
                "the sums of rows are too small beside their entries."
            )
        self.matrix = sparse.csr_array((data, W.indices, W.indptr), shape=W.shape)

    def astype(self, dtype: Any) -> NormalizedAffinity:
        """Return the operator with entries and products in another type.

        Degrees stay in float64, so that the normalisation is the same; index
        arrays are shared.

        Parameters
        ----------
        dtype : {np.float64, np.float32}
            Type of the products.

        Returns
        -------
        NormalizedAffinity
            `self` when the type is its own.
        """
        if np.dtype(dtype) == self.dtype:
            return self
        other = copy(self)
        SymmetricBlockOperator.__init__(other, dtype, self.shape[0])
        other.matrix = self.matrix.astype(other.dtype)
        return other

    def apply(
        self,
        X: np.ndarray,
        out: np.ndarray,
        *,
        alpha: float = 1.0,
        shift: float = 0.0,
        beta: float = 0.0,
    ) -> np.ndarray:
        A = self.matrix
        real = self.dtype.type
        shift = shift - self.shift
        if X.shape[1] == 1:  # SciPy's serial loop is faster (docs/performance.md)
            return put_product(A @ X, X, out, alpha=alpha, shift=shift, beta=beta)
        csr_matmat(
            A.indptr, A.indices, A.data, X, out, real(alpha), real(shift), real(beta)
        )
        return out


def check_degrees(degrees: NDArray[np.float64]) -> None:
    """Refuse row sums of an affinity that cannot be divided by, and name a node."""
    bad = np.flatnonzero(~np.isfinite(degrees))
    if bad.size:
        raise ValueError(
            f"{bad.size} row(s) of the affinity have entries that are not finite, or "
            f"too large to add (first: {bad[0]}); remove or rescale them."
        )
    nodes = np.flatnonzero(degrees <= 0)
    if nodes.size:
        raise ValueError(
            f"{nodes.size} node(s) have no positive degree (first: {nodes[0]}); "
            "the normalised affinity is not defined there: remove them."
        )
