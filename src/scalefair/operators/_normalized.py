"""Normalised affinity: of a stored graph, and of any operator."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from scalefair._docs import documented
from scalefair._entries import (
    all_finite,
    check_sample_weight,
    equal_weight,
    ignore_fp_warnings,
    real_type,
)
from scalefair.kernels import block_gram, block_subtract, csr_matmat, csr_workspace
from scalefair.operators._base import Array, TypedOperator, apply_block

_TEXTS = {
    "shift": """\
shift : float, default=0.0
    :math:`\\sigma`. The eigenvalues of :math:`D^{-1/2} W D^{-1/2}` lie in [-1, 1]; a
    shift above 1 makes the operator positive definite.""",
    "regularization": """\
regularization : float, default=0.0
    :math:`\\tau` as a multiple of the mean degree: :math:`\\tau / n` is added to every
    entry of `W`, and :math:`\\tau` to every degree; never formed.""",
    "sample_weight": """\
sample_weight : array-like of shape (n,), default=None
    :math:`w > 0`: a node stands for so many copies that keep its edges, and are joined
    to each other as it is to itself. :math:`D^{-1/2}` becomes the diagonal of
    :math:`\\sqrt{w / d}`, so that the eigenvalues are those of the graph of copies, but
    for zeros; the mean degree and :math:`n` above count copies. `W` is not changed.""",
    "degrees": """\
tau : float
    Degree that the regularisation adds to every node.
weights : ndarray of shape (n,), float64, or None
    :math:`w`, None if all are 1.
degrees : ndarray of shape (n,), float64
    :math:`d = W 1 + \\tau`; with weights :math:`W w + \\tau`.
inv_sqrt_degrees : ndarray of shape (n,), float64
    :math:`d^{-1/2}`; with weights :math:`\\sqrt{w / d}`.""",
    "references": """\
References
----------
Amini, Chen, Bickel, Levina (2013), "Pseudo-likelihood methods for community detection
in large sparse networks", Annals of Statistics 41, section 2.2 (the regularisation).
Tonin, Lambert, Suykens, Cevher (2025), "Accelerating Spectral Clustering under
Fairness Constraints", section 2.2 and remark 2.3.""",
}


class _Normalized(TypedOperator):
    """Degrees with the regularisation added, and its constant term in products."""

    def _set_weights(self, sample_weight: Any) -> None:
        # Positive, as degrees are divided by them.
        self.weights = check_sample_weight(sample_weight, self.shape[0], positive=True)
        self.n_copies = float(self.shape[0])
        if self.weights is not None:
            self.n_copies = float(self.weights.sum())

    def _set_degrees(self, degrees: Array, regularization: float) -> None:
        real = isinstance(regularization, Real) and math.isfinite(regularization)
        if not (real and regularization >= 0):
            raise ValueError(
                f"regularization must be a finite number >= 0, got {regularization!r}."
            )
        self.tau = 0.0
        if regularization > 0:
            with ignore_fp_warnings():
                share = 1.0 if self.weights is None else self.weights
                mean = (degrees / self.n_copies * share).sum()
                self.tau = float(regularization * mean)
                degrees = degrees + self.tau
        # Degrees are divisors: refuse those that cannot be, and name a node.
        bad = np.flatnonzero(~np.isfinite(degrees))
        if bad.size:
            raise ValueError(
                f"{bad.size} row(s) of the affinity have entries that are not finite, "
                f"or too large to add (first: {bad[0]}); remove or rescale them."
            )
        nodes = np.flatnonzero(degrees <= 0)
        if nodes.size:
            raise ValueError(
                f"{nodes.size} node(s) have no positive degree (first: {nodes[0]}); "
                "the normalised affinity is not defined there: remove them, or use "
                "regularization."
            )
        self.degrees = degrees
        self.inv_sqrt_degrees = 1.0 / np.sqrt(self._lumped)

    @property
    def _lumped(self) -> Array:
        """Degrees divided by weights: products depend on this quotient alone."""
        return self.degrees if self.weights is None else self.degrees / self.weights

    def _typed_scale(self, scale: Array) -> np.ndarray:
        """Scale in the type of the products, in whose range it must be."""
        with ignore_fp_warnings():
            typed: np.ndarray = scale.astype(self.dtype)
        if not (all_finite(typed) and typed.all()):
            low, high = self._lumped.min(), self._lumped.max()
            raise ValueError(
                f"The degrees (divided by sample_weight, if any), {low:.1e} to "
                f"{high:.1e}, are out of the range of {self.dtype}: scale the affinity "
                "or the weights, or use float64."
            )
        return typed

    def _set_constant(self) -> None:
        """Set c, in the type of the products: the constant adds ``c c^T``."""
        c = np.sqrt(self.tau / self.n_copies / self._lumped)  # at most sqrt(w_i / n)
        self._constant: np.ndarray = c.astype(self.dtype)[:, None]

    def _add_constant(self, X: np.ndarray, out: np.ndarray, alpha: float) -> None:
        if self.tau > 0:
            c = self._constant
            block_subtract(out, c, -alpha * block_gram(c, X))


@documented(**_TEXTS)
class NormalizedAffinity(_Normalized):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of a graph.

    Parameters
    ----------
    W : sparse matrix or array of shape (n, n)
        Symmetric nonnegative affinity, any SciPy sparse format, int32 or int64
        indices. Symmetry is the caller's to check.
    %(regularization)s
    %(sample_weight)s
    %(shift)s
    dtype : {np.float64, np.float32}, default=np.float64
        Type of the stored entries and of the products.

    Attributes
    ----------
    %(degrees)s
    matrix : scipy.sparse.csr_array
        :math:`D^{-1/2} W D^{-1/2}` without the constant of the regularisation; shares
        the index arrays of a CSR `W`. Where all stored weights are equal, entries are
        not stored, and computed at each access: products then take the weights
        from the nodes, and keep a block to work in.

    Raises
    ------
    ValueError
        If `W` is not square or not finite, a node has no positive degree or weight, or
        `regularization` is not a finite number >= 0.
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

    def __init__(
        self,
        W: Any,
        *,
        regularization: float = 0.0,
        sample_weight: Any = None,
        shift: float = 0.0,
        dtype: Any = np.float64,
    ) -> None:
        W = sparse.csr_array(W)
        _check_square_and_real(W)
        super().__init__(dtype, W.shape[0])
        self.shift = float(shift)
        self._set_weights(sample_weight)
        self.indices, self.indptr = W.indices, W.indptr
        self._weight = equal_weight(W.data)
        with ignore_fp_warnings():
            if self.weights is not None:
                degrees = self._weighted_degrees(W)
            elif self._weight is None:
                degrees = W @ np.ones(W.shape[0])  # in float64, unlike W.sum
            else:
                degrees = self._weight * np.diff(W.indptr)
        self._set_degrees(degrees, regularization)
        if self._weight is None:
            self._data = self._entries(W.data)
            if not all_finite(self._data):
                raise ValueError(
                    f"Weights divided by degrees are out of the range of {self.dtype}: "
                    "the sums of rows are too small beside their entries."
                )
        self._set_type()

    def _weighted_degrees(self, W: sparse.csr_array) -> Array:
        if self._weight is None:
            return np.asarray(W @ self.weights)
        # Without a number for each entry.
        degrees = np.empty((W.shape[0], 1))
        equal = np.ndarray(W.indices.shape, np.float64, np.ones(1), strides=(0,))
        x = self._weight * np.asarray(self.weights)[:, None]
        csr_matmat(W.indptr, W.indices, equal, x, degrees, 1.0, 0.0, 0.0)
        return degrees[:, 0]

    @property
    def matrix(self) -> sparse.csr_array:
        """Normalised affinity, stored."""
        data = self._data
        if self._weight is not None:
            data = self._entries(np.full(self.indices.size, self._weight))
        return sparse.csr_array((data, self.indices, self.indptr), shape=self.shape)

    def _entries(self, weights: np.ndarray) -> np.ndarray:
        # In float64: weights and degrees may be out of the range of float32.
        data, scale = weights.astype(np.float64), self.inv_sqrt_degrees
        data *= np.repeat(scale, np.diff(self.indptr))
        data *= scale[self.indices]
        with ignore_fp_warnings():  # negative weights: the degrees may be much smaller
            return data.astype(self.dtype, copy=False)

    def _set_type(self) -> None:
        self._scale: np.ndarray | None = None
        if self._weight is None:
            self._data = self._data.astype(self.dtype, copy=False)
        else:
            self._data = np.ones(1, self.dtype)
            self._scale = self._typed_scale(np.sqrt(self._weight / self._lumped))
        self._workspace: np.ndarray | None = None
        self._set_constant()

    def _apply(
        self, X: np.ndarray, out: np.ndarray, alpha: float, shift: float, beta: float
    ) -> None:
        data = self._data
        real = self.dtype.type
        scalars = real(alpha), real(shift - self.shift), real(beta)
        if self._scale is not None:
            # Stride 0: all entries are the same number in memory.
            data = np.ndarray(self.indices.shape, data.dtype, data, strides=(0,))
        # The workspace is kept: new pages of memory cost half a product. A thread takes
        # it away while it works in it, so that others allocate their own.
        workspace = self.__dict__.pop("_workspace", None)
        workspace = csr_workspace(X, workspace, self._scale is not None)
        csr = self.indptr, self.indices, data
        csr_matmat(*csr, X, out, *scalars, self._scale, workspace)
        self._workspace = workspace
        self._add_constant(X, out, alpha)


@documented(**_TEXTS)
class NormalizedOperator(_Normalized):
    r"""Normalised affinity :math:`D^{-1/2} W D^{-1/2} + \sigma I` of an operator.

    For an affinity that only multiplies: a kernel, a low-rank factor.

    Parameters
    ----------
    W : LinearOperator, sparse matrix or ndarray of shape (n, n)
        Symmetric affinity with positive row sums, those of the regularisation added.
    %(regularization)s
    %(sample_weight)s
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
        If `W` is not square, finite and symmetric (tested by random vectors), a node
        has no positive degree or weight, or a degree out of the range of `dtype`, or
        `regularization` is not a finite number >= 0.
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

    def __init__(
        self,
        W: Any,
        *,
        regularization: float = 0.0,
        sample_weight: Any = None,
        shift: float = 0.0,
        dtype: Any = None,
    ) -> None:
        W = aslinearoperator(W)
        _check_square_and_real(W)
        super().__init__(real_type(W.dtype) if dtype is None else dtype, W.shape[0])
        self.shift = float(shift)
        self._set_weights(sample_weight)
        probes, products = _probe(W, self.weights)
        self._set_degrees(products[0].copy(), regularization)
        _check_symmetry(probes, products, real_type(W.dtype))
        self.W = W
        self._set_type()

    def _set_type(self) -> None:
        if self.W.dtype != self.dtype and hasattr(self.W, "astype"):
            self.W = self.W.astype(self.dtype)
        self._scale = self._typed_scale(self.inv_sqrt_degrees)[:, None]
        self._inverse_scale = self._typed_scale(np.sqrt(self._lumped))[:, None]
        self._set_constant()

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
        self._add_constant(X, out, alpha)


def _probe(W: LinearOperator, weights: Array | None) -> tuple[Array, Array]:
    """Test vectors, times the weights, and products; the first is constant. By rows."""
    real = real_type(W.dtype)
    probes: np.ndarray = np.random.default_rng(0).standard_normal((W.shape[0], 3))
    probes = probes.astype(real)
    probes /= np.abs(probes).max(axis=0)  # no product is larger than a row sum
    probes[:, 0] = 1
    if weights is not None:
        probes *= weights.astype(real)[:, None]
    with ignore_fp_warnings():
        products = np.asarray(W.matmat(probes))
    if np.iscomplexobj(products):
        raise TypeError("An affinity must be real, got complex numbers.")
    return probes.T.astype(np.float64), products.T.astype(np.float64)


def _check_symmetry(probes: Array, products: Array, real: type) -> None:
    """Refuse an operator with x^T W y != y^T W x for the random vectors x, y."""
    _, x, y = probes
    with ignore_fp_warnings():
        sums, Wx, Wy = products / np.abs(products[0]).max()
        difference = abs(x @ Wy - y @ Wx)
        moduli = (np.abs(x) + np.abs(y)) @ np.abs(sums)
    # Rounding errors of x^T W y are far below 100 units in the last place.
    if not difference <= 100 * np.finfo(real).eps * moduli:
        raise ValueError(
            "The affinity is not symmetric: x^T W y and y^T W x differ by "
            f"{difference / moduli:.1e} of the row sums; use (W + W^T) / 2."
        )


def _check_square_and_real(W: Any) -> None:
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"An affinity must be square, got shape {W.shape}.")
    if np.issubdtype(W.dtype, np.complexfloating):
        raise TypeError("An affinity must be real, got complex numbers.")
