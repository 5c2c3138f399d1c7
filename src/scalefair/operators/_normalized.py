"""Normalised affinity: of a stored graph, and of any operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._docs import documented
from scalefair._entries import all_finite, judged_later
from scalefair.kernels import csr_matmat, csr_scale
from scalefair.operators._base import Array, TypedOperator, apply_block

_SYMMETRY_UNITS = 100  # last places; rounding errors of x^T W y are far below

_TEXTS = {
    "shift": """\
shift : float, default=0.0
    :math:`\\sigma`. The eigenvalues of :math:`D^{-1/2} W D^{-1/2}` lie in [-1, 1]; a
    shift above 1 makes the operator positive definite.""",
    "degrees": """\
degrees : ndarray of shape (n,), float64
    :math:`d = W 1`.
inv_sqrt_degrees : ndarray of shape (n,), float64
    :math:`d^{-1/2}`.""",
    "references": """\
References
----------
Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
Fairness Constraints", section 2.2 and remark 2.3.""",
}


@documented(**_TEXTS)
class NormalizedAffinity(TypedOperator):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of a graph.

    Parameters
    ----------
    W : sparse matrix or array of shape (n, n)
        Symmetric nonnegative affinity, any SciPy sparse format, int32 or int64
        indices. Symmetry is the caller's to check.
    %(shift)s
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the stored entries and of the products.

    Attributes
    ----------
    %(degrees)s
    matrix : scipy.sparse.csr_array
        :math:`D^{-1/2} W D^{-1/2}`; shares the index arrays of a CSR `W`.

    Raises
    ------
    ValueError
        If `W` is not square or not finite, or a node has no positive degree.
    TypeError
        If `W` is complex.

    %(references)s

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

    def __init__(self, W: Any, *, shift: float = 0.0, dtype: Any = np.float64) -> None:
        W = sparse.csr_array(W)
        _check_square_and_real(W)
        super().__init__(dtype, W.shape[0])
        self.shift = float(shift)
        with judged_later():
            self.degrees = W @ np.ones(W.shape[0])  # in float64, unlike W.sum
        _check_degrees(self.degrees)
        self.inv_sqrt_degrees = 1.0 / np.sqrt(self.degrees)
        # In float64: weights and degrees may be out of the range of float32.
        data = W.data.astype(np.float64)
        csr_scale(W.indptr, W.indices, data, self.inv_sqrt_degrees)
        with judged_later():  # negative weights: the degrees may be much smaller
            data = data.astype(self.dtype, copy=False)
        if not all_finite(data):
            raise ValueError(
                f"Weights divided by degrees are out of the range of {self.dtype}: "
                "the sums of rows are too small beside their entries."
            )
        self.matrix = sparse.csr_array((data, W.indices, W.indptr), shape=W.shape)

    def _set_type(self) -> None:
        self.matrix = self.matrix.astype(self.dtype)

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        A, real = self.matrix, self.dtype.type
        shift = shift - self.shift
        csr_matmat(
            A.indptr, A.indices, A.data, X, out, real(alpha), real(shift), real(beta)
        )


@documented(**_TEXTS)
class NormalizedOperator(TypedOperator):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of an operator.

    For an affinity that only multiplies: a kernel, a low-rank factor.

    Parameters
    ----------
    W : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric affinity with positive row sums.
    %(shift)s
    dtype : {np.float64, np.float32} or None, default=None
        Type of the products, None that of `W`; degrees come from `W` as it is.

    Attributes
    ----------
    W : LinearOperator
        The affinity, in the type of the products where it can be had.
    %(degrees)s

    Raises
    ------
    ValueError
        If `W` is not square, finite and symmetric (tested by random vectors), or a node
        has no positive degree, or one out of the range of `dtype`.
    TypeError
        If `W` is complex.

    %(references)s

    Examples
    --------
    >>> import numpy as np
    >>> from scalefair.operators import NormalizedOperator, RBFKernel
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> M = NormalizedOperator(RBFKernel(X))
    >>> top = np.sqrt(M.degrees)  # the eigenvalue of this vector is 1
    >>> np.allclose(M @ top, top)
    True
    """

    def __init__(self, W: Any, *, shift: float = 0.0, dtype: Any = None) -> None:
        W = aslinearoperator(W)
        _check_square_and_real(W)
        super().__init__(_real_type(W) if dtype is None else dtype, W.shape[0])
        self.shift = float(shift)
        self.degrees = _degrees_of_symmetric(W)
        self.inv_sqrt_degrees = 1.0 / np.sqrt(self.degrees)
        self.W = W
        self._set_type()

    def _set_type(self) -> None:
        if self.W.dtype != self.dtype and hasattr(self.W, "astype"):
            self.W = self.W.astype(self.dtype)
        with judged_later():
            self._scale = self.inv_sqrt_degrees.astype(self.dtype)[:, None]
            self._inverse_scale = np.sqrt(self.degrees).astype(self.dtype)[:, None]
        if not (all_finite(self._scale) and all_finite(self._inverse_scale)):
            raise ValueError(
                f"The degrees, {self.degrees.min():.1e} to {self.degrees.max():.1e}, "
                f"are out of the range of {self.dtype}: scale the affinity, or use "
                "float64."
            )

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        # S (alpha W S X + beta S^-1 out) needs one block beside X and out.
        real = self.dtype.type
        scaled = X * self._scale
        if beta != 0:
            out *= self._inverse_scale
        apply_block(self.W, scaled, out, alpha=alpha, beta=beta)
        out *= self._scale
        if shift != self.shift:
            np.multiply(X, real(alpha * (shift - self.shift)), out=scaled)
            out -= scaled


def _real_type(W: LinearOperator) -> type[np.float32 | np.float64]:
    return np.float32 if W.dtype == np.float32 else np.float64


def _degrees_of_symmetric(W: LinearOperator) -> Array:
    """Row sums in float64; refuse what is not symmetric with positive row sums."""
    n = W.shape[0]
    real = _real_type(W)
    probes: np.ndarray = np.random.default_rng(0).standard_normal((n, 3)).astype(real)
    probes /= np.abs(probes).max(axis=0)  # no product is larger than a row sum
    probes[:, 0] = 1
    with judged_later():
        products = np.asarray(W.matmat(probes))
    if np.iscomplexobj(products):
        raise TypeError("An affinity must be real, got complex numbers.")
    products = products.T.astype(np.float64)
    degrees: Array = products[0].copy()
    _check_degrees(degrees)
    _, x, y = probes.T.astype(np.float64)
    with judged_later():
        sums, Wx, Wy = products / degrees.max()
        difference = abs(x @ Wy - y @ Wx)
        moduli = (np.abs(x) + np.abs(y)) @ sums
    if not difference <= _SYMMETRY_UNITS * np.finfo(real).eps * moduli:
        raise ValueError(
            "The affinity is not symmetric: x^T W y and y^T W x differ by "
            f"{difference / moduli:.1e} of the row sums; use (W + W^T) / 2."
        )
    return degrees


def _check_square_and_real(W: Any) -> None:
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"An affinity must be square, got shape {W.shape}.")
    if np.issubdtype(W.dtype, np.complexfloating):
        raise TypeError("An affinity must be real, got complex numbers.")


def _check_degrees(degrees: Array) -> None:
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
